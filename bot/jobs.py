"""The queue's tasks. Thin: each finds its use case and gives the job its retry rule."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import structlog

from store.errors import NotFound
from store.queue import Queue, Retry

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

# Five tries over about a minute. What still fails then is told to the asker; the run's reference finds the log.
ANSWERING = Retry(attempts=5, initial_seconds=1.0, longest_seconds=20.0)
# An embedding endpoint that is away for some minutes costs patience, not the document.
INGESTING = Retry(attempts=8, initial_seconds=2.0, longest_seconds=60.0)


def register(queue: Queue, app: "App") -> None:
    """Bind the task names that the store defers to the use cases of `app`."""
    _register_answering(queue, app)
    _register_ingestion(queue, app)

    async def prune() -> None:
        await app.prune()

    queue.periodic("prune", prune, cron="17 * * * *")


def _register_answering(queue: Queue, app: "App") -> None:
    async def answer(question_id: str) -> None:
        await _quietly_gone(app.asking.answer(question_id), question=question_id)

    async def answer_failed(question_id: str) -> None:
        await app.asking.fail(question_id, question_id[:8])

    async def remember(question_id: str) -> None:
        await _quietly_gone(app.asking.remember(question_id), question=question_id)

    async def resume(review_id: int) -> None:
        await app.reviewing.resume(review_id)

    async def redraw(review_id: int) -> None:
        await app.cards.redraw(review_id)

    queue.task("answer", answer, retry=ANSWERING, exhausted=answer_failed)
    queue.task("remember", remember, retry=ANSWERING)
    queue.task("resume", resume, retry=ANSWERING)
    queue.task("redraw", redraw, retry=ANSWERING)


def _register_ingestion(queue: Queue, app: "App") -> None:
    async def ingest(version_id: int) -> None:
        await _quietly_gone(app.admin.ingest(version_id), version=version_id)

    async def ingest_failed(version_id: int) -> None:
        await _quietly_gone(app.admin.give_up(version_id), version=version_id)

    queue.task("ingest", ingest, retry=INGESTING, exhausted=ingest_failed)


async def _quietly_gone(work: Awaitable[object], **what: object) -> None:
    """What was deleted while its job waited has nothing left to do."""
    try:
        await work
    except NotFound:
        log.info("job.subject_gone", **what)
