"""What came in: stored once with the job it causes, before anything is acknowledged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.database import transaction
from store.queue import Queue
from store.reviews import withdraw_pending
from store.schema import conversations, inbox, questions
from store.text import clean

__all__ = ["Accepted", "Inbox", "NewQuestion"]

TITLE_CHARACTERS = 120


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
class Accepted:
    """A stored question. `sequence` orders questions by when they were accepted, across conversations."""

    question_id: str
    conversation_id: str
    sequence: int


class Inbox:
    """The door. Text is made storable here, once: Postgres refuses NUL, and the checkpointer lone surrogates."""

    def __init__(self, engine: AsyncEngine, queue: Queue) -> None:
        self._engine = engine
        self._queue = queue

    async def accept(self, message: NewQuestion) -> Accepted | None:
        """Store the message, its conversation, its question and its job `answer`, all or nothing.

        Returns None when the message was accepted before. Raises `DatabaseUnavailable`: then do not acknowledge.
        """
        conversation_id = clean(message.conversation_id)
        async with transaction(self._engine) as connection:
            if not await _first_time(connection, message):
                return None
            await _touch(connection, message)
            sequence = await connection.scalar(
                insert(questions)
                .values(
                    id=message.question_id,
                    conversation_id=conversation_id,
                    asker=clean(message.asker),
                    text=clean(message.text),
                    language=message.language,
                    address=dict(message.address),
                    asked_at=message.sent_at,
                )
                .returning(questions.c.sequence)
            )
            await self._queue.defer(
                "answer", {"question_id": message.question_id}, lock=conversation_id, connection=connection
            )
        return Accepted(message.question_id, conversation_id, sequence)

    async def withdraw(self, question_id: str) -> bool:
        """The message was deleted: its question is over, and a draft in review with it. False when it was already."""
        return await self._close(question_id, "withdrawn")

    async def supersede(self, question_id: str) -> bool:
        """The message was edited: what it asked before is over; the new text is accepted as a question of its own."""
        return await self._close(question_id, "superseded")

    async def sweep(self, older_than: datetime) -> int:
        """Forget messages received before that moment; returns how many. Platforms redeliver for hours, not days."""
        async with transaction(self._engine) as connection:
            return (await connection.execute(delete(inbox).where(inbox.c.received_at < older_than))).rowcount

    async def _close(self, question_id: str, state: str) -> bool:
        async with transaction(self._engine) as connection:
            closed = await connection.scalar(
                update(questions)
                .where(questions.c.id == question_id, questions.c.state.not_in(("withdrawn", "superseded")))
                .values(state=state, finished_at=func.now(), remembered=False)
                .returning(questions.c.id)
            )
            await withdraw_pending(connection, question_id, state)
        return closed is not None


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
