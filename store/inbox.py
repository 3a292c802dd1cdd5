"""What came in: stored once with the job it causes, before anything is acknowledged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.changes import announce
from store.database import transaction
from store.queue import Queue
from store.rates import Allowance, take
from store.reviews import withdraw_pending
from store.schema import conversations, inbox, questions
from store.text import clean

__all__ = ["Accepted", "Door", "Inbox", "NewQuestion"]

TITLE_CHARACTERS = 120
# Before everything that waits: a refusal is one sentence, and the queue is full when it is said.
TELL_PRIORITY = 10
# A question with an answer. An edit of it is offered to be asked; one of any other replaces it.
ENDED = ("answered", "declined", "failed")
WAITING = "SELECT count(*) FROM (SELECT FROM questions WHERE state = 'received' LIMIT :most) AS waiting"


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A message to be answered. `dedupe_key` is the platform's identity of the message itself; `question_id` is
    new, `asker` a principal, `address` what the platform needs to reply."""

    platform: str
    dedupe_key: str
    conversation_id: str
    channel: str
    thread: str
    private: bool
    asker: str
    text: str
    sent_at: datetime
    question_id: str
    language: str
    address: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Door:
    """What a message must pass. `refused` names why it is not answered whatever else holds ("" if nothing does);
    `waiting` is the most questions that may wait for their answer, None for any number."""

    refused: str = ""
    allowance: Allowance | None = None
    waiting: int | None = None


OPEN_DOOR = Door()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A stored message. `sequence` orders questions by when they were accepted, across conversations.

    `refused`: "" (it is answered), the door's own reason, person or channel (asked too much), full (too many wait),
    or edited: it replaces a question that has its answer, which keeps the new wording until somebody asks for it.
    """

    question_id: str
    conversation_id: str
    sequence: int
    refused: str = ""


class Inbox:
    """The door. Text is made storable here, once: Postgres refuses NUL, and the checkpointer lone surrogates."""

    def __init__(self, engine: AsyncEngine, queue: Queue) -> None:
        self._engine = engine
        self._queue = queue

    async def accept(
        self,
        message: NewQuestion,
        door: Door = OPEN_DOOR,
        *,
        replaces: str | None = None,
        insist: bool = False,
    ) -> Accepted | None:
        """Store the message, its conversation, its question and its job, all or nothing: `answer`, or `tell` where the
        door refuses it. A refused one is stored as well, so that a redelivery is not told twice.

        `replaces` is the question whose edited text this is: it is superseded, unless it has its answer already and
        nobody insists.
        Returns None when the message was accepted before. Raises `DatabaseUnavailable`: then do not acknowledge.
        """
        async with transaction(self._engine) as connection:
            if not await _first_time(connection, message):
                return None
            if replaces is not None and not await _replaced(connection, replaces, message, insist=insist):
                return Accepted(replaces, clean(message.conversation_id), 0, "edited")
            refused, wait = await _refusal(connection, message, door)
            await _touch(connection, message)
            sequence = await _ask(connection, message, refused)
            await self._queue_up(connection, message, refused, wait)
        return Accepted(message.question_id, clean(message.conversation_id), sequence, refused)

    async def withdraw(self, question_id: str) -> bool:
        """The message was deleted: its question is over, and a draft in review with it. False when it was already."""
        async with transaction(self._engine) as connection:
            return await _close(connection, question_id, "withdrawn")

    async def supersede(self, question_id: str) -> bool:
        """The message is asked anew: what it asked before is over."""
        async with transaction(self._engine) as connection:
            return await _close(connection, question_id, "superseded")

    async def sweep(self, older_than: datetime) -> int:
        """Forget messages received before that moment; returns how many. Platforms redeliver for hours, not days."""
        async with transaction(self._engine) as connection:
            return (await connection.execute(delete(inbox).where(inbox.c.received_at < older_than))).rowcount

    async def _queue_up(
        self, connection: AsyncConnection, message: NewQuestion, refused: str, wait: float
    ) -> None:
        conversation_id = clean(message.conversation_id)
        if not refused:
            await self._queue.defer(
                "answer", {"question_id": message.question_id}, lock=conversation_id, connection=connection
            )
            return
        await self._queue.defer(
            "tell",
            {"question_id": message.question_id, "reason": refused, "wait": wait},
            lock=f"tell:{conversation_id}",
            connection=connection,
            priority=TELL_PRIORITY,
        )


async def _close(connection: AsyncConnection, question_id: str, state: str) -> bool:
    """End a question that was taken back. Whoever is answering it now hears of it when this commits."""
    closed = await connection.scalar(
        update(questions)
        .where(questions.c.id == question_id, questions.c.state.not_in(("withdrawn", "superseded")))
        .values(state=state, finished_at=func.now(), remembered=False)
        .returning(questions.c.id)
    )
    await withdraw_pending(connection, question_id, state)
    if closed is not None:
        await announce(connection, f"question:{question_id}", {"state": state})
    return closed is not None


async def _replaced(
    connection: AsyncConnection, question_id: str, message: NewQuestion, *, insist: bool
) -> bool:
    """Supersede the question, or keep the new wording beside it where it has its answer (False)."""
    state = await connection.scalar(
        select(questions.c.state).where(questions.c.id == question_id).with_for_update()
    )
    if state in ENDED and not insist:
        await connection.execute(
            update(questions).where(questions.c.id == question_id).values(edited=clean(message.text))
        )
        return False
    await _close(connection, question_id, "superseded")
    return True


async def _refusal(connection: AsyncConnection, message: NewQuestion, door: Door) -> tuple[str, float]:
    """Why the message is not answered ("" if it is), and the seconds after which it would be."""
    if door.refused:
        return door.refused, 0.0
    over = await take(connection, door.allowance) if door.allowance else None
    if over:
        return over[0].partition(":")[0], over[1]
    if door.waiting is not None:
        waiting = await connection.scalar(text(WAITING), {"most": door.waiting})
        if (waiting or 0) >= door.waiting:
            return "full", 0.0
    return "", 0.0


async def _ask(connection: AsyncConnection, message: NewQuestion, refused: str) -> int:
    sequence: int = await connection.scalar(
        insert(questions)
        .values(
            id=message.question_id,
            conversation_id=clean(message.conversation_id),
            asker=clean(message.asker),
            text=clean(message.text),
            language=message.language,
            address=dict(message.address),
            asked_at=message.sent_at,
            # Nothing was said in the conversation that its memory should hold.
            **({"state": "refused", "remembered": True, "finished_at": func.now()} if refused else {}),
        )
        .returning(questions.c.sequence)
    )
    return sequence


async def _first_time(connection: AsyncConnection, message: NewQuestion) -> bool:
    row = await connection.scalar(
        insert(inbox)
        .values(
            platform=message.platform,
            dedupe_key=clean(message.dedupe_key),
            kind="question",
            subject=message.question_id,
        )
        .on_conflict_do_nothing()
        .returning(inbox.c.id)
    )
    return row is not None


async def _touch(connection: AsyncConnection, message: NewQuestion) -> None:
    """Make or refresh the conversation. Its row stays locked until the commit: questions of one conversation get
    their numbers and their jobs in the same order."""
    await connection.execute(
        insert(conversations)
        .values(
            id=clean(message.conversation_id),
            platform=message.platform,
            channel=clean(message.channel),
            thread=clean(message.thread),
            private=message.private,
            title=clean(message.text).strip()[:TITLE_CHARACTERS],
        )
        .on_conflict_do_update(index_elements=["id"], set_={"active_at": func.now()})
    )
