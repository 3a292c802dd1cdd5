"""What came in: stored once with the job it causes, before anything is acknowledged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.changes import announce
from store.database import storable, transaction
from store.queue import Queue
from store.rates import GRANTED, OVER, Allowance, wait
from store.reviews import withdraw_pending
from store.schema import inbox, questions
from store.text import clean

__all__ = ["Accepted", "Door", "Inbox", "NewQuestion"]

TITLE_CHARACTERS = 120
# Before everything that waits: a refusal is one sentence, and the queue is full when it is said.
TELL_PRIORITY = 10
# A question with an answer. An edit of it is offered to be asked; one of any other replaces it.
ENDED = ("answered", "declined", "failed")
# One statement stores a message. In seven, with BEGIN, COMMIT and its job, it took 7.9 ms of processor here; now 3.0.
# `first` is empty for a message that was seen before, and so is everything below it. What the door says is known before
# the conversation's row is locked, and that before the question gets its number: questions of one conversation get
# their numbers and their jobs in the same order.
FIRST = """
INSERT INTO inbox (platform, dedupe_key, kind, subject) VALUES (:platform, :dedupe_key, 'question', :question)
    ON CONFLICT DO NOTHING RETURNING 1
"""
STORE = f"""
WITH first AS ({{first}}),
closed AS (SELECT WHERE :refused <> '' OR EXISTS (SELECT FROM switches WHERE name = ANY(CAST(:switches AS text[])))),
granted AS ({GRANTED.format(when="EXISTS (SELECT FROM first) AND NOT EXISTS (SELECT FROM closed)")}),
over AS ({OVER}),
verdict AS (
  SELECT CASE WHEN EXISTS (SELECT FROM closed) THEN coalesce(nullif(:refused, ''), 'paused')
              WHEN over.key IS NOT NULL THEN split_part(over.key, ':', 1)
              WHEN (SELECT count(*) FROM (SELECT FROM questions WHERE state = 'received' LIMIT :waiting) AS waiting)
                   >= :waiting THEN 'full'
              ELSE '' END AS refused,
         over.key
    FROM first, over
),
touched AS (
  INSERT INTO conversations (id, platform, channel, thread, private, title)
  SELECT :conversation, :platform, :channel, :thread, :private, :title FROM verdict
      ON CONFLICT (id) DO UPDATE SET active_at = now()
  RETURNING id
),
-- A refused one is over: nothing was said in the conversation that its memory should hold.
asked AS (
  INSERT INTO questions (id, conversation_id, asker, text, language, address, asked_at, state, remembered, finished_at)
  SELECT :question, touched.id, :asker, :text, :language, CAST(:address AS jsonb), :sent_at,
         CASE WHEN refused = '' THEN 'received' ELSE 'refused' END, refused <> '',
         CASE WHEN refused = '' THEN NULL ELSE now() END
    FROM touched, verdict
  RETURNING sequence
)
SELECT asked.sequence, verdict.refused, verdict.key FROM asked, verdict
"""  # noqa: S608 - put together from our own statements


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
    """What a message must pass. `refused` names why it is not answered whatever else holds ("" if nothing does), any of
    `switches` closes it ("paused"); `waiting` is the most questions that may wait for their answer, None for any
    number."""

    refused: str = ""
    switches: Sequence[str] = ()
    allowance: Allowance | None = None
    waiting: int | None = None


OPEN_DOOR = Door()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A stored message. `sequence` orders questions by when they were accepted, across conversations.

    `refused`: "" (it is answered), the door's own reason, paused, person or channel (asked too much), full (too many
    wait), or edited: it replaces a question that has its answer, which keeps the new wording until it is asked for.
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
        with self._queue.rush.entering():
            return await self._accept(message, door, replaces, insist)

    async def _accept(
        self, message: NewQuestion, door: Door, replaces: str | None, insist: bool
    ) -> Accepted | None:
        async with transaction(self._engine) as connection:
            if replaces is not None:
                if await connection.scalar(text(FIRST), _parameters(message, door)) is None:
                    return None
                if not await _replaced(connection, replaces, message, insist=insist):
                    return Accepted(replaces, clean(message.conversation_id), 0, "edited")
            store = STORE.format(first="SELECT 1" if replaces is not None else FIRST)
            stored = (await connection.execute(text(store), _parameters(message, door))).one_or_none()
            if stored is None:
                return None
            seconds = 0.0
            if door.allowance is not None and stored.refused in ("person", "channel"):
                seconds = await wait(connection, door.allowance, stored.key)
            await self._queue_up(connection, message, stored.refused, seconds)
        conversation_id = clean(message.conversation_id)
        return Accepted(message.question_id, conversation_id, stored.sequence, stored.refused)

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


def _parameters(message: NewQuestion, door: Door) -> dict[str, Any]:
    """Of FIRST and STORE."""
    allowance = door.allowance or Allowance(1.0, {})
    return {
        "platform": message.platform,
        "dedupe_key": clean(message.dedupe_key),
        "question": message.question_id,
        "conversation": clean(message.conversation_id),
        "channel": clean(message.channel),
        "thread": clean(message.thread),
        "private": message.private,
        "title": clean(message.text).strip()[:TITLE_CHARACTERS],
        "asker": clean(message.asker),
        "text": clean(message.text),
        "language": message.language,
        "address": storable(message.address),
        "sent_at": message.sent_at,
        "refused": door.refused,
        "switches": list(door.switches),
        "waiting": door.waiting,
        **allowance.parameters(),
    }
