"""`python -m tests.emulators.feishu`: the stand-in alone, for looking around and for demonstrations."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from tests.emulators.feishu.server import start


async def serve(manifest: Path, port: int, ack_seconds: float) -> None:
    """Say the address and the secrets in one line of JSON, then serve until standard input closes."""
    runner, server = await start(manifest, port, ack_seconds)
    ready = {
        "FEISHU_DOMAIN": server.base,
        "FEISHU_APP_ID": server.world.app_id,
        "FEISHU_APP_SECRET": server.world.app_secret,
    }
    print(json.dumps(ready), flush=True)  # noqa: T201 - a command of its own
    try:
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await server.delivery.stop()
        await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, default=Path("manifests/feishu.yaml"))
    parser.add_argument("--port", type=int, default=9102)
    parser.add_argument("--ack-seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    try:
        asyncio.run(serve(chosen.manifest, chosen.port, chosen.ack_seconds))
    except KeyboardInterrupt:
        return


main()
