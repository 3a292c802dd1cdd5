"""`signoff up`, `serve`, `worker`, `migrate`, `doctor`, `prune`: the processes and their upkeep."""

import asyncio
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from types import FrameType
from typing import Annotated

import typer
import uvicorn
from rich.console import Console
from rich.table import Table
from starlette.types import ASGIApp

from bot.app import App, open_app
from bot.cli.knowledge import upload_handbook
from bot.cli.session import CommandFailed, Home, Json, database, dump, opened, run, see_through
from bot.doctor import examine
from bot.low_recall import Asked, examine_question
from bot.metrics import Doors
from bot.settings import Settings, load_settings
from bot.supervise import Supervisor, end_with_supervisor
from bot.telemetry import configure_logging
from bot.web import is_loopback
from bot.web.site import build_site
from store.database import migrate as migrate_database
from store.embedded import EmbeddedPostgres
from store.text import language as language_of

Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]
Host = Annotated[
    str, typer.Option(help="Address to listen on; beyond loopback SIGNOFF_CONSOLE_TOKEN is required.")
]
Port = Annotated[int, typer.Option(help="Port of the workspace.")]


def register(cli: typer.Typer) -> None:
    for command in (up, serve, worker, migrate, doctor, prune, deliveries):
        cli.command()(command)


def up(home: Home = None, port: Port = 8787) -> None:
    """Everything on this machine: the database, the sample handbook, the workspace; restarts what dies."""
    configure_logging("WARNING", human=True)
    settings = load_settings(home)
    began = time.monotonic()
    prepare(settings)
    server = None if settings.database_url else EmbeddedPostgres(settings.home)
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    if server:
        typer.echo("Starting the database …")
        url = server.start()
    supervisor = Supervisor(
        {
            "serve": [
                "serve",
                "--home",
                str(settings.home),
                "--port",
                str(port),
                "--personas",
                "--supervised",
            ],
            "worker": ["worker", "--home", str(settings.home), "--supervised"],
        }
    )
    for caught in (signal.SIGINT, signal.SIGTERM):
        signal.signal(caught, lambda *_: supervisor.stopping.set())
    try:
        asyncio.run(migrate_database(settings.direct(url)))
        supervisor.start()
        watching = threading.Thread(target=supervisor.watch, name="supervisor")
        watching.start()
        asyncio.run(_welcome(settings, url, port, began, supervisor.stopping))
        watching.join()
    finally:
        typer.echo("Stopping …")
        supervisor.stop()
        if server:
            server.stop()


async def _welcome(settings: Settings, url: str, port: int, began: float, stopping: threading.Event) -> None:
    """Fill an empty knowledge base, then say where the door is."""
    # This process speaks to no platform: their libraries would cost it 5 s and 168 MB for as long as it runs.
    silent = settings.model_copy(update={"slack": None, "feishu": None})
    async with open_app(silent, url) as app:
        if not await app.admin.list():
            typer.echo("First start: reading the sample handbook …")
            await upload_handbook(app)
    address = f"http://127.0.0.1:{port}"
    while not stopping.is_set() and not await _answers("127.0.0.1", port):
        await asyncio.sleep(0.1)
    if stopping.is_set():
        return
    typer.echo(
        f"\nSignoff is open at {address}   (ready after {time.monotonic() - began:.1f} s; Ctrl-C stops it)\n"
        f"  in a terminal:  signoff chat --home {settings.home}\n"
        f"  reviews:        signoff reviews list --home {settings.home}\n"
        f"  settings:       {settings.config}"
    )


async def _answers(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def prepare(settings: Settings) -> None:
    """Make the home folder and put the example settings there, for the person to change."""
    settings.home.mkdir(parents=True, exist_ok=True)
    if not settings.config.exists() and settings.config.parent == settings.home:
        with as_file(files("bot") / "signoff.example.toml") as example:
            shutil.copyfile(example, settings.config)


def serve(
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    personas: Annotated[bool, typer.Option("--personas", hidden=True)] = False,
    supervised: Supervised = False,
) -> None:
    """The serving role: the doors, and the answering of questions."""
    configure_logging()
    if supervised:
        end_with_supervisor()
    settings = load_settings(home)
    if not is_loopback(host) and settings.console_token is None:
        raise CommandFailed(
            f"Listening on {host} needs SIGNOFF_CONSOLE_TOKEN: without it anybody who reaches the port could read "
            "and decide. Set it, or leave --host away to stay on this machine."
        )
    if personas and not is_loopback(host):
        raise CommandFailed("--personas lets everybody be everybody; it works on this machine only.")

    async def work(app: App) -> None:
        workspace = build_site(app, personas=personas)
        site, beside = _platforms(app, workspace)
        server = Door(
            uvicorn.Config(
                Doors(site, app.telemetry.metrics.acknowledged),
                host=host,
                port=port,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=5,
            ),
            closing=workspace.state.site.broadcast.close,
        )
        await app.warm_up()
        await _until_first(server.serve(), app.store.queue.run_worker(["answers"]), *beside)

    run(_with_app(settings, work))


def _platforms(app: App, site: ASGIApp) -> tuple[ASGIApp, list[Awaitable[object]]]:
    """`site` with the platforms' addresses in front, and what has to run beside it. Their libraries are loaded where
    they are set up."""
    beside: list[Awaitable[object]] = []
    if app.settings.slack is not None:
        from bot.slack import door

        listener = door.listener_of(app)
        if listener is not None:
            site, beside = door.beside(site, listener), [*door.socket(listener)]
    if app.settings.feishu is not None:
        from bot.feishu import door as feishu

        hearing = feishu.listener_of(app)
        if hearing is not None:
            site, beside = feishu.beside(site, hearing), [*beside, *feishu.connection(hearing)]
    return site, beside


class Door(uvicorn.Server):
    """Ends the pages' open streams when a signal comes: each would hold the exit up for the whole grace."""

    def __init__(self, config: uvicorn.Config, closing: Callable[[], None]) -> None:
        super().__init__(config)
        self._closing = closing
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._closing)
        super().handle_exit(sig, frame)


def worker(home: Home = None, supervised: Supervised = False) -> None:
    """The ingestion role: conversion, splitting, embedding. The only process that loads Haystack."""
    configure_logging()
    if supervised:
        end_with_supervisor()
    settings = load_settings(home)

    async def work(app: App) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for caught in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(caught, stop.set)
        await _until_first(stop.wait(), app.store.queue.run_worker(["ingest"]))

    run(_with_app(settings, work))


async def _with_app(settings: Settings, work: Callable[[App], Awaitable[None]]) -> None:
    async with database(settings) as url, open_app(settings, url) as app:
        await app.store.database.assert_ready()
        await work(app)


async def _until_first(*works: Awaitable[object]) -> None:
    """Run all; when a door closes (a signal), let the queue finish what it runs; when any of them dies, end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


def migrate(home: Home = None) -> None:
    """Bring the database to this version's schema. Safe to repeat, and from several processes at once."""

    async def work() -> None:
        settings = load_settings(home)
        async with database(settings) as url:
            await migrate_database(settings.direct(url))
        typer.echo("The schema is up to date.")

    run(work())


def doctor(
    home: Home = None,
    question: Annotated[str, typer.Option(help="Why does this question find what it finds?")] = "",
    principals: Annotated[
        list[str] | None, typer.Option("--as", help="Who asks the question; repeatable.")
    ] = None,
    document: Annotated[str, typer.Option(help="Part of the name of where its answer stands.")] = "",
    language: Annotated[str, typer.Option(help="Of what is said about it: en or zh.")] = "",
    as_json: Json = False,
) -> None:
    """Look at everything that must work, or into one question; say what to do about what does not."""

    async def work() -> None:
        async with opened(home) as app:
            asked = Asked(question, principals or ("everyone",), document, language or language_of(question))
            findings = await (examine_question(app, asked) if question else examine(app))
        if as_json:
            dump([asdict(finding) for finding in findings])
        else:
            for finding in findings:
                typer.echo(f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.detail}")
                if not finding.ok:
                    typer.echo(f"     → {finding.remedy}")
        if not all(finding.ok for finding in findings):
            raise typer.Exit(1)

    run(work())


def deliveries(
    home: Home = None,
    days: Annotated[float, typer.Option(help="How far back to look.")] = 7,
    as_json: Json = False,
) -> None:
    """The messages that did not arrive, or of which nobody knows: where, why, and for which question."""

    async def work() -> None:
        async with opened(home) as app:
            since = datetime.now(UTC) - timedelta(days=days)
            rows = await app.store.deliveries.undelivered(since)
        fields = ("id", "created_at", "state", "platform", "kind", "question_id", "attempts", "error")
        if as_json:
            dump([{name: getattr(row, name) for name in fields} for row in rows])
            return
        table = Table(*fields)
        for row in rows:
            table.add_row(*(str(getattr(row, name) or "") for name in fields))
        Console().print(table)

    run(work())


def prune(
    home: Home = None,
    person: Annotated[
        str, typer.Option("--person", help="Forget this person instead: slack:U…, feishu:ou_…, web:name.")
    ] = "",
    thread: Annotated[
        str, typer.Option("--thread", help="Forget this conversation instead, by its id.")
    ] = "",
) -> None:
    """Delete what its retention has passed: finished questions' checkpoints, old inbox rows. Waiting reviews stay.

    With --person or --thread: what was asked and answered there, its memory, feedback and drafts, at once. The audit
    keeps ids; what was posted on a chat platform is deleted there, by its own administrators.
    """

    async def work() -> None:
        async with opened(home) as app:
            if not person and not thread:
                typer.echo(f"Cleared the checkpoints of {await app.upkeep.prune()} finished questions.")
                return
            erased = await (app.erasing.person(person) if person else app.erasing.thread(thread))
            if not await see_through(app, ["answers"], lambda: app.erasing.finished(erased), seconds=120):
                raise CommandFailed(
                    "Erased, but some memory is still to be forgotten; a running serve does it."
                )
            typer.echo(f"Forgot {len(erased.questions)} questions and what hung on them.")

    run(work())
