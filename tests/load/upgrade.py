"""A new version takes over from the one before it, under load: migrated while the old one serves, then replaced process
by process. Drafts that wait for a person and a document that waits for a worker were stored by the old version."""

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from store.database import migrate
from tests.emulators.openai import OpenAIServer
from tests.load.chaos import Filling, Ground, Run, scene
from tests.load.fleet import Program, Serving, Starter
from tests.load.judge import Database, Report
from tests.load.previous import previous
from tests.load.previous import run as run_old

__all__ = ["upgraded"]

# Of the old version: its own knowledge base, and a document whose ingestion nobody has begun.
FILL = """
import asyncio, sys
from types import SimpleNamespace
from store import open_store
from store.documents import NewDocument
from store.embedding import NoEmbedder
from tests.load.chaos import fill

async def main(database, base_url, key):
    await fill(database, SimpleNamespace(base_url=base_url, key=key))
    async with open_store(database, NoEmbedder()) as store:
        await store.documents.add(NewDocument("hr", "late.md", b"# Late\\n\\nArrived before the upgrade.", "test"))

asyncio.run(main(*sys.argv[1:]))
"""
DRAIN_SECONDS = 40.0
WORKER_SECONDS = 60.0


async def upgraded(
    ground: Ground,
    empty: str,
    *,
    questions: int = 60,
    conversations: int = 12,
    held: int = 20,
    processes: int = 2,
    over: float = 40.0,
    seed: int = 1,
    worker: bool = True,
) -> Report:
    """`empty` is the URL of a database without anything; without `worker` the document that waits is only seen to wait.
    Nobody decides before the last old process is gone, so that everything held by then was paused by the old version
    and is resumed by the new one.

    Raises `Missing` where the checkout does not have the release before this schema.
    """
    source = await asyncio.to_thread(previous, ground.folder / "previous")
    old = Program(source)
    home = {"SIGNOFF_DATABASE_URL": empty, "SIGNOFF_HOME": str(ground.folder / "home")}
    await asyncio.to_thread(run_old, source, "-m", "bot", "migrate", environment=home)
    stage = replace(ground, database=empty, folder=ground.folder / "home", starter=old)
    async with scene(
        stage,
        "upgraded",
        size=processes,
        conversations=conversations,
        seed=seed,
        filling=_filling(source),
    ) as run:
        kinds = run.crowd.kinds(questions, held)
        asking = asyncio.create_task(run.crowd.ask_all(kinds, conversations, over))
        await asyncio.sleep(over * 0.4)
        began = time.monotonic()
        await migrate(empty)
        run.report.measured["migrate_seconds"] = round(time.monotonic() - began, 2)
        await asyncio.sleep(over * 0.2)  # the old version on the new schema
        run.report.measured["drain_seconds"] = [
            await _replaced(run, process, old, ground.starter) for process in run.fleet.processes
        ]
        run.report.measured |= _left(run.database)
        if not run.report.measured["paused_reviews"] or not run.report.measured["queued_documents"]:
            run.report.faults.append("nothing was paused or queued when the new version took over")
        deciding = asyncio.create_task(run.crowd.decide())
        await asking
        await run.rest()
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        report = await run.conclude()
        if worker:
            await _ingested(run)  # last: a new document has what was rejected asked again, rightly
        return report


def _filling(source: Path) -> Filling:
    async def filled(database: str, model: OpenAIServer) -> None:
        await asyncio.to_thread(
            run_old, source, "-c", FILL, database, model.base_url, model.key, environment={}
        )

    return filled


async def _replaced(run: Run, process: Serving, old: Starter, new: Starter) -> float:
    """SIGTERM, as an orchestrator sends it; the new version once it is gone. Returns the seconds until it was."""
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    while old.alive(process.pid):
        if time.monotonic() - began > DRAIN_SECONDS:
            run.report.faults.append(f"a process of the old version did not end within {DRAIN_SECONDS:g} s")
            run.fleet.kill(process)
        await asyncio.sleep(0.05)
    took = round(time.monotonic() - began, 2)
    process.pid = 0
    run.fleet.starter = new
    run.fleet.start(process)
    await run.fleet.ready(1, processes=[process])
    return took


def _left(database: Database) -> dict[str, int]:
    """What the old version left for the new one."""
    (reviews,) = database.rows("SELECT count(*) AS n FROM reviews WHERE state = 'pending'")
    (documents,) = database.rows(
        "SELECT count(*) AS n FROM procrastinate_jobs WHERE task_name = 'ingest' AND status = 'todo'"
    )
    (runs,) = database.rows("SELECT count(*) AS n FROM runs")
    return {
        "paused_reviews": reviews["n"],
        "queued_documents": documents["n"],
        "runs_of_the_old_version": runs["n"],
    }


async def _ingested(run: Run) -> None:
    """A worker of the new version reads the document that the old one accepted."""
    worker = Serving(0)
    log = run.fleet.folder / "worker.log"
    worker.pid = run.fleet.starter.start(
        ["worker", "--home", str(run.fleet.folder)], run.fleet.environment(), log
    )
    began = time.monotonic()
    try:
        while not run.database.rows(
            "SELECT 1 FROM documents WHERE source = 'late.md' AND current_version_id > 0"
        ):
            if time.monotonic() - began > WORKER_SECONDS or not run.fleet.starter.alive(worker.pid):
                run.report.faults.append(f"a queued document was not ingested: {log.read_text()[-500:]}")
                return
            await asyncio.sleep(0.2)
    finally:
        run.fleet.kill(worker)
