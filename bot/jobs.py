"""The queue's tasks. Thin: each binds the name that the store defers to its use case and its retry rule."""

from collections.abc import Awaitable
from datetime import UTC, datetime

import structlog

from bot.admin import Admin
from bot.ask import Asking
from bot.canary import Trying
from bot.cards import Cards
from bot.correcting import Correcting
from bot.deliver import Crowded
from bot.erasing import Erasing
from bot.gaps import Gaps
from bot.outbox import Outbox
from bot.patience import Patience
from bot.review import Reviewing
from bot.upkeep import Upkeep
from bot.verifying import Verifying
from rag_graph.contracts import RunLost
from store.documents import Documents
from store.errors import NotFound
from store.queue import Queue, Retry

log = structlog.get_logger(__name__)

# A fault of ours, or a thread that another version wrote: the same input fails the same way every time.
HOPELESS = (TypeError, AttributeError, LookupError, AssertionError, NotImplementedError, RunLost)
# Five tries over about a minute. What still fails then is told to the asker; the run's reference finds the log.
ANSWERING = Retry(attempts=5, initial_seconds=1.0, longest_seconds=20.0, hopeless=HOPELESS)
# Slack bears fifty updates a minute; what waited is drawn once, as it is then.
CROWDED_SECONDS = 3.0
# What it sends has a row that is found again a minute later, so that it holds up nothing.
SENDING = Retry(attempts=1)
# An embedding endpoint that is away for some minutes costs patience, not the document.
INGESTING = Retry(attempts=8, initial_seconds=2.0, longest_seconds=60.0)


def register_answering(queue: Queue, asking: Asking, erasing: Erasing) -> None:
    async def answer(question_id: str) -> None:
        await _quietly_gone(asking.answer(question_id), question=question_id)

    async def answer_failed(question_id: str) -> None:
        await _quietly_gone(asking.give_up(question_id), question=question_id)

    async def remember(question_id: str) -> None:
        await _quietly_gone(asking.remember(question_id), question=question_id)

    async def forget(conversation_id: str, question_id: str) -> None:
        await erasing.checkpoints(conversation_id, question_id)

    queue.task("answer", answer, retry=ANSWERING, exhausted=answer_failed)
    queue.task("remember", remember, retry=ANSWERING)
    queue.task("forget", forget, retry=ANSWERING)


def register_reviews(queue: Queue, reviewing: Reviewing, cards: Cards, patience: Patience) -> None:
    async def resume(review_id: int) -> None:
        await _quietly_gone(reviewing.resume(review_id), review=review_id)

    async def resume_failed(review_id: int) -> None:
        await _quietly_gone(reviewing.give_up(review_id), review=review_id)

    async def redraw(review_id: int) -> None:
        try:
            await _quietly_gone(cards.redraw(review_id), review=review_id)
        except Crowded:
            # Waiting in here would keep one of the few places from somebody who waits for an answer.
            again = {"review_id": review_id}
            await queue.defer("redraw", again, lock=f"card:{review_id}", schedule_in=CROWDED_SECONDS)

    async def redraw_failed(review_id: int) -> None:
        await _quietly_gone(cards.give_up(review_id), review=review_id)

    async def renew(review_id: int) -> None:
        await _quietly_gone(cards.renew(review_id, datetime.now(UTC)), review=review_id)

    async def wait_on(review_id: int, step: str) -> None:
        await _quietly_gone(patience.step(review_id, step), review=review_id)

    queue.task("patience", wait_on, retry=ANSWERING)
    queue.task("resume", resume, retry=ANSWERING, exhausted=resume_failed)
    queue.task("redraw", redraw, retry=ANSWERING, exhausted=redraw_failed)
    queue.task("renew", renew, retry=SENDING)


def register_sending(queue: Queue, asking: Asking, outbox: Outbox) -> None:
    async def tell(question_id: str, reason: str, wait: float) -> None:
        await _quietly_gone(asking.tell(question_id, reason, wait), question=question_id)

    async def redeliver(question_id: str) -> None:
        await _quietly_gone(asking.redeliver(question_id), question=question_id)

    async def resend(delivery_id: int) -> None:
        await _quietly_gone(outbox.resend(delivery_id), delivery=delivery_id)

    async def undelivered() -> None:
        await outbox.tend()

    queue.task("tell", tell, retry=ANSWERING)
    queue.task("redeliver", redeliver, retry=SENDING)
    queue.task("resend", resend, retry=SENDING)
    queue.periodic("undelivered", undelivered, cron="* * * * *")


def register_verified(queue: Queue, verifying: Verifying, correcting: Correcting) -> None:
    async def embed_verified() -> None:
        await verifying.embed()

    async def reverify(verified_id: int) -> None:
        await _quietly_gone(verifying.reopen(verified_id), verified=verified_id)

    async def recheck(document_id: int) -> None:
        await correcting.recheck(document_id)

    async def verified() -> None:
        await verifying.tend()

    queue.task("embed_verified", embed_verified, retry=INGESTING)
    queue.task("reverify", reverify, retry=ANSWERING)
    queue.task("recheck", recheck, retry=ANSWERING)
    queue.periodic("verified", verified, cron="*/10 * * * *")


def register_documents(queue: Queue, admin: Admin, documents: Documents, gaps: Gaps) -> None:
    async def ingest(version_id: int) -> None:
        await _quietly_gone(admin.ingest(version_id), version=version_id)

    async def ingest_failed(version_id: int) -> None:
        await _quietly_gone(admin.give_up(version_id), version=version_id)

    async def refetch() -> None:
        await admin.refetch()

    async def dictionary() -> None:
        await documents.follow_dictionary()

    async def replay(version_id: int) -> None:
        await _quietly_gone(gaps.replay(version_id), version=version_id)

    queue.task("replay", replay, retry=ANSWERING)
    queue.task("ingest", ingest, retry=INGESTING, exhausted=ingest_failed)
    queue.periodic("dictionary", dictionary, cron="* * * * *")
    queue.periodic("refetch", refetch, cron="43 * * * *")


def register_upkeep(queue: Queue, upkeep: Upkeep) -> None:
    async def prune() -> None:
        await upkeep.prune()

    queue.periodic("prune", prune, cron="17 * * * *")


def register_canary(queue: Queue, trying: Trying) -> None:
    async def canary() -> None:
        await trying.tend()

    queue.periodic("canary", canary, cron="* * * * *")


async def _quietly_gone(work: Awaitable[object], **what: object) -> None:
    """What was deleted while its job waited has nothing left to do."""
    try:
        await work
    except NotFound:
        log.info("job.subject_gone", **what)
