"""The workspace on a port of its own: the real application over a real database, with deterministic parts.

`workspace(…)` serves it in this process; `python -m tests.workspace URL HOME PORT` in one that can be killed.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import SecretStr

from bot.app import App, Parts, open_app
from bot.settings import Review, Search, Settings, Workspace
from bot.web.site import build_site
from rag_graph.models import ExtractiveWriter
from tests.embedder import HashEmbedder

CONTACT = "#ask-people (people@henglu.example)"
HANDBOOK = Path(str(files("bot") / "handbook"))
# What the suggested questions need, and a little more to be wrong about.
SHELVES = (
    "hr/leave.en.md",
    "hr/leave.zh.md",
    "contracts/service-agreement.en.md",
    "contracts/service-agreement.zh.md",
    "it/error-codes.en.md",
)
RULES: tuple[dict[str, Any], ...] = ({"name": "contracts", "collections": ["contracts"], "action": "hold"},)


@dataclass(frozen=True)
class Served:
    app: App
    address: str


def settings_for(home: Path, *, token: str = "", rules: tuple[dict[str, Any], ...] = RULES) -> Settings:
    """Settings without the environment. The tiny embedding model is uncalibrated, so that nothing is declined
    for want of confidence."""
    return Settings(
        home=home,
        config=home / "signoff.toml",
        console_token=SecretStr(token) if token else None,
        local_embedding=False,
        workspace=Workspace(contact=CONTACT),
        search=Search(retry_below=0.0, abstain_below=0.0),
        review=Review(rules=rules),
    )


def deterministic() -> Parts:
    return Parts(embedder=HashEmbedder(), writer=ExtractiveWriter())


async def fill(app: App, shelves: tuple[str, ...] = SHELVES) -> None:
    """Ingest a part of the sample handbook, here and now."""
    for name in shelves:
        path = HANDBOOK / name
        version = await app.admin.upload(
            path.name, path.read_bytes(), collection=path.parent.name, by="web:admin"
        )
        await app.admin.ingest(version.id)


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def workspace(
    url: str,
    settings: Settings,
    *,
    personas: bool = True,
    working: bool = True,
    port: int = 0,
    parts: Parts | None = None,
) -> AsyncIterator[Served]:
    """Serve the workspace over the migrated database at `url`; `working` answers and ingests as well."""
    async with open_app(settings, url, parts or deterministic()) as app:
        port = port or free_port()
        site = build_site(app, personas=personas)
        server = uvicorn.Server(
            uvicorn.Config(
                site,
                host="127.0.0.1",
                port=port,
                log_config=None,
                timeout_graceful_shutdown=1,
            )
        )
        tasks = [asyncio.create_task(server.serve())]
        if working:
            tasks.append(asyncio.create_task(app.store.queue.run_worker(["answers", "ingest"])))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield Served(app, f"http://127.0.0.1:{port}")
        finally:
            site.state.site.broadcast.close()
            server.should_exit = True
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(url: str, home: Path, port: int) -> None:
    async with workspace(url, settings_for(home), port=port):
        sys.stdout.write("open\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
