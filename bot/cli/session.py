"""What commands share: opening the application on this machine, and seeing queued work through."""

import asyncio
import getpass
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.app import App, open_app
from bot.settings import Settings, load_settings
from bot.telemetry import configure_logging
from store.database import migrate
from store.embedded import EmbeddedPostgres

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the embedded database and signoff.toml [SIGNOFF_HOME]."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Another process had this long to begin before this one does the work itself.
PATIENCE_SECONDS = 2.0


class CommandFailed(Exception):
    """The command could not do what was asked; the message says why and what to do next."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command's coroutine; Ctrl-C ends it without a traceback."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@asynccontextmanager
async def opened(home: Path | None) -> AsyncIterator[App]:
    """The application over SIGNOFF_DATABASE_URL, or over the embedded database of `home`.

    An embedded server that runs already is used and left running; one that this call starts is stopped again.
    """
    settings = load_settings(home)
    # A command says itself what came of it; anything else goes beside standard output, which may be JSON.
    configure_logging("WARNING", human=True)
    async with database(settings) as url, open_app(settings, url) as app:
        yield app


@asynccontextmanager
async def database(settings: Settings) -> AsyncIterator[str]:
    if settings.database_url:
        yield settings.database_url.get_secret_value()
        return
    server = EmbeddedPostgres(settings.home)
    ours = not await asyncio.to_thread(server.running)
    url = await asyncio.to_thread(server.start)
    try:
        if ours:
            await migrate(url)
        yield url
    finally:
        if ours:
            await asyncio.to_thread(server.stop, if_idle=True)


async def see_through(
    app: App, queues: Sequence[str], finished: Callable[[], Awaitable[bool]], *, seconds: float = 600.0
) -> bool:
    """Wait until `finished`, doing the queued work here if no running process takes it up.

    Returns False when `seconds` passed first.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    worker: asyncio.Task[None] | None = None
    try:
        while not await finished():
            passed = loop.time() - start
            if passed > seconds:
                return False
            if worker is None and (passed > PATIENCE_SECONDS or not await app.store.queue.served()):
                worker = asyncio.create_task(app.store.queue.run_worker(queues))
            elif worker is not None and worker.done():
                worker.result()
            await asyncio.sleep(0.02)
        return True
    finally:
        if worker is not None:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker


def dump(value: Any) -> None:
    """Print JSON as people can read it: UTF-8, indented."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def myself() -> str:
    """The name of whoever runs the command, for records of who did what."""
    return getpass.getuser()
