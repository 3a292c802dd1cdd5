"""A whole life of the product in a process of its own that writes down every address it tried to reach.

`python -m tests.quiet` reads its settings as `signoff` does, ingests a document, answers a question and prints JSON.
"""

import asyncio
import json
import sys
from typing import Any

REACHED: list[str] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        REACHED.append(str(arguments[1]))
    elif event == "socket.getaddrinfo" and arguments[0] not in (None, "127.0.0.1", "localhost"):
        REACHED.append(f"lookup {arguments[0]}")


sys.addaudithook(_note)

from bot.app import open_app  # noqa: E402 - what is imported before the hook could call home unseen
from bot.settings import load_settings  # noqa: E402
from bot.telemetry import configure_logging  # noqa: E402


async def main() -> dict[str, Any]:
    configure_logging()  # to stderr: standard output is for the JSON
    settings = load_settings()
    assert settings.database_url is not None
    async with open_app(settings, settings.database_url.get_secret_value()) as app:
        text = "Employees have 15 days of annual leave in each calendar year.\n"
        version = await app.admin.upload("leave.md", text.encode(), collection="hr", by="cli:admin")
        await app.admin.ingest(version.id)
        from bot.cli.asking import asked

        row = await asked(app, "How many days of annual leave?", "t", "cli:lin")
        working = asyncio.create_task(app.store.queue.run_worker(["answers"]))
        while row.answer is None:
            await asyncio.sleep(0.05)
            row = await app.store.conversations.question(row.id)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return {"state": row.state, "answer": row.answer["text"], "reached": REACHED}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main()), ensure_ascii=False))
