"""How long `signoff up` takes with Feishu set up: `make bench-feishu-start`. Results go to
bench/results/feishu-start.json and docs/benchmarks.md.

The real command against the stand-in Feishu, in a home folder that is new (a database is made, the sample handbook is
handed in) and then again in the same one. Ready means that /readyz is green and Feishu sees the long connection.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from tests.emulators.feishu.client import StandIn
from tests.emulators.feishu.permissions import Manifest
from tests.load.fleet import clean_environment

RESULTS = ROOT / "bench" / "results" / "feishu-start.json"
ASKED, PATIENCE = 20.0, 120.0  # seconds
STARTS = ("the first in a new home", "again in the same home")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    load = os.getloadavg()[0]
    with StandIn() as feishu, tempfile.TemporaryDirectory(prefix="signoff-") as folder:
        Path(folder).chmod(0o755)  # root's database server runs as nobody, who must get in
        found = [asyncio.run(started(feishu, Path(folder) / "home", name)) for name in STARTS]
    written = {
        **provenance("python -m bench.feishu_start", {"asked_seconds": ASKED}),
        "load_before": load,
        "starts": found,
    }
    RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    print(write_section(ROOT / "docs" / "benchmarks.md", "feishu-start", page(written)))
    sys.exit(any(one["ready_s"] > ASKED for one in found))


async def started(feishu: StandIn, home: Path, name: str) -> dict[str, Any]:
    given = await feishu.reset(Manifest.read(ROOT / "manifests" / "feishu.yaml").content)
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "bot", "up", "--home", str(home), "--port", str(port)]
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment(given, feishu.base))
    try:
        connected = await since(began, lambda: _connected(feishu))
        ready = await since(began, lambda: _ready(port))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)  # a worker ends what it has begun
    return {"start": name, "connected_s": connected, "ready_s": max(ready, connected)}


def environment(given: Mapping[str, str], domain: str) -> dict[str, str]:
    return {
        **clean_environment(),
        "FEISHU_APP_ID": given["app_id"],
        "FEISHU_APP_SECRET": given["app_secret"],
        "FEISHU_DOMAIN": domain,
    }


async def since(began: float, look: Any) -> float:
    """Seconds from `began` until `look` finds it so."""
    while not await look():
        if time.monotonic() - began > PATIENCE:
            raise TimeoutError(f"nothing after {PATIENCE} s")
        await asyncio.sleep(0.1)
    return round(time.monotonic() - began, 1)


async def _connected(feishu: StandIn) -> bool:
    return int((await feishu.world())["connections"]) > 0


async def _ready(port: int) -> bool:
    try:
        async with httpx.AsyncClient(timeout=5) as client:
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


def page(written: Mapping[str, Any]) -> str:
    rows = [[one["start"], str(one["connected_s"]), str(one["ready_s"])] for one in written["starts"]]
    machine = written["machine"]
    return (
        "## Starting with Feishu\n\n"
        f"`{written['command']}`, {written['date'][:10]}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{written['commit'][:7]}, load average before {written['load_before']:.1f}: `signoff up` (database, serving "
        f"process, worker) from the command to a green /readyz and a long connection. Asked: ≤ {ASKED:.0f} s.\n\n"
        + table(["start", "connected, s", "ready, s"], rows)
    )


if __name__ == "__main__":
    main()
