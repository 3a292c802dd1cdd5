"""Conversations, their questions, and what became of each."""

import builtins
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, exists, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single, transaction
from store.errors import NotFound
from store.schema import conversations, feedback, questions, reviews
from store.text import clean

__all__ = ["STATES", "TERMINAL", "ConversationRow", "Conversations", "FeedbackRow", "QuestionRow"]

OPEN = frozenset({"received", "answering", "held"})
TERMINAL = frozenset({"answered", "declined", "withdrawn", "superseded", "failed", "refused"})
STATES = OPEN | TERMINAL

# The question's LangGraph thread still has rows. The table is the checkpointer's.
HAS_CHECKPOINTS = """
EXISTS (SELECT FROM checkpoints WHERE checkpoints.thread_id = questions.conversation_id || '/' || questions.id)
"""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One chat thread. `private`: the asker alone reads it."""

    id: str
    platform: str
    channel: str
    thread: str
    private: bool
    title: str
    created_at: datetime
    active_at: datetime


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One question. `sequence` is the order of asking, `answer` what readers were shown (null until then), `edited` the
    wording that an edit after the answer left (null without one). A "refused" one was never begun."""

    id: str
    sequence: int
    conversation_id: str
    asker: str
    text: str
    language: str
    state: str
    address: Mapping[str, Any]
    answer: Mapping[str, Any] | None
    remembered: bool
    asked_at: datetime
    finished_at: datetime | None
    edited: str | None


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """What one person thought of an answer."""

    question_id: str
    person: str
    helpful: bool
    reason: str
    given_at: datetime


class Conversations:
    """Reads, and the one way a question's state changes."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def get(self, conversation_id: str) -> ConversationRow:
        """Raises `NotFound`."""
        async with single(self._engine) as connection:
            found = await connection.execute(
                select(conversations).where(conversations.c.id == conversation_id)
            )
            row = found.mappings().one_or_none()
        if row is None:
            raise NotFound(f"There is no conversation {conversation_id!r}.")
        return ConversationRow(**row)

    async def list(
        self, platform: str, channel: str | None = None, *, limit: int = 200
    ) -> builtins.list[ConversationRow]:
        """The conversations of a platform, or of one channel there, last active first."""
        query = select(conversations).where(conversations.c.platform == platform)
        if channel is not None:
            query = query.where(conversations.c.channel == channel)
        query = query.order_by(conversations.c.active_at.desc(), conversations.c.id).limit(limit)
        async with single(self._engine) as connection:
            return [ConversationRow(**row) for row in (await connection.execute(query)).mappings()]

    async def question(self, question_id: str) -> QuestionRow:
        """Raises `NotFound`."""
        found = await self._questions(select(questions).where(questions.c.id == question_id))
        if not found:
            raise NotFound(f"There is no question {question_id!r}.")
        return found[0]

    async def among(self, question_ids: Collection[str]) -> builtins.list[QuestionRow]:
        """Those of the named questions that are there."""
        return await self._questions(select(questions).where(questions.c.id.in_(list(question_ids))))

    async def questions(self, conversation_id: str) -> builtins.list[QuestionRow]:
        """All questions of a conversation in the order of asking."""
        return await self._questions(
            select(questions)
            .where(questions.c.conversation_id == conversation_id)
            .order_by(questions.c.sequence)
        )

    async def set_state(
        self,
        question_id: str,
        state: str,
        *,
        answer: Mapping[str, Any] | None = None,
        correction: bool = False,
    ) -> bool:
        """Move a question on; False when it had ended already, or does not exist, and nothing was changed.

        An end is for ever (see `TERMINAL`), except that `correction=True`
        replaces the answer of an answered question. An end makes the question's turn due to be remembered.
        """
        if state not in STATES:
            raise ValueError(f"{state!r} is no state of a question")
        if correction and state != "answered":
            raise ValueError("a correction leaves the question answered")
        changeable = OPEN | {"answered"} if correction else OPEN
        values: dict[str, Any] = {"state": state}
        if answer is not None:
            values["answer"] = dict(answer)
        if state in TERMINAL:
            values |= {"finished_at": func.now(), "remembered": False}
        async with single(self._engine) as connection:
            changed = await connection.scalar(
                update(questions)
                .where(questions.c.id == question_id, questions.c.state.in_(changeable))
                .values(values)
                .returning(questions.c.id)
            )
        return changed is not None

    async def explain(self, question_id: str, answer: Mapping[str, Any]) -> None:
        """Keep what the asker of a refused question was told."""
        async with single(self._engine) as connection:
            await connection.execute(
                update(questions)
                .where(questions.c.id == question_id, questions.c.state == "refused")
                .values(answer=dict(answer))
            )

    async def waiting(self, conversation_ids: Collection[str]) -> set[str]:
        """Those conversations in which an answer waits for a person."""
        query = (
            select(questions.c.conversation_id)
            .distinct()
            .where(questions.c.conversation_id.in_(list(conversation_ids)), questions.c.state == "held")
        )
        async with single(self._engine) as connection:
            return set((await connection.execute(query)).scalars())

    async def unremembered(self, conversation_id: str, before_sequence: int) -> builtins.list[QuestionRow]:
        """Earlier questions whose turn the conversation's memory does not hold yet, in the order of asking."""
        return await self._questions(
            select(questions)
            .where(
                questions.c.conversation_id == conversation_id,
                questions.c.sequence < before_sequence,
                questions.c.remembered.is_(False),
                questions.c.state.not_in(("withdrawn", "superseded")),
            )
            .order_by(questions.c.sequence)
        )

    async def mark_remembered(self, question_id: str, state: str) -> None:
        """The conversation's memory holds the turn as it was in `state`; a question that moved on since is still
        due."""
        async with single(self._engine) as connection:
            await connection.execute(
                update(questions)
                .where(questions.c.id == question_id, questions.c.state == state)
                .values(remembered=True)
            )

    async def feedback(self, question_id: str, person: str, helpful: bool, reason: str = "") -> None:
        """Keep what a person thought of an answer; their last word counts. Raises `NotFound`."""
        await self.question(question_id)
        word = insert(feedback).values(
            question_id=question_id, person=person, helpful=helpful, reason=clean(reason)
        )
        async with transaction(self._engine) as connection:
            await connection.execute(
                word.on_conflict_do_update(
                    index_elements=["question_id", "person"],
                    set_={"helpful": helpful, "reason": clean(reason), "given_at": func.now()},
                )
            )

    async def feedback_by(self, conversation_id: str, person: str) -> builtins.list[FeedbackRow]:
        """What a person thought of the answers of a conversation."""
        query = (
            select(feedback)
            .join(questions, questions.c.id == feedback.c.question_id)
            .where(questions.c.conversation_id == conversation_id, feedback.c.person == person)
        )
        async with single(self._engine) as connection:
            return [FeedbackRow(**row) for row in (await connection.execute(query)).mappings()]

    async def feedback_on(self, question_id: str) -> builtins.list[FeedbackRow]:
        """What people thought of one answer."""
        query = select(feedback).where(feedback.c.question_id == question_id).order_by(feedback.c.given_at)
        async with single(self._engine) as connection:
            return [FeedbackRow(**row) for row in (await connection.execute(query)).mappings()]

    async def citing(self, document_id: int, since: datetime) -> builtins.list[QuestionRow]:
        """Questions answered since then with something of that document."""
        cites = questions.c.answer.contains({"citations": [{"document_id": document_id}]})
        return await self._questions(
            select(questions)
            .where(questions.c.state == "answered", questions.c.finished_at > since, cites)
            .order_by(questions.c.sequence)
        )

    async def latest(self, count: int) -> builtins.list[QuestionRow]:
        """The last `count` questions that were answered or are held, newest first."""
        settled = questions.c.state.in_(("answered", "held"))
        return await self._questions(
            select(questions)
            .where(settled)
            .order_by(questions.c.asked_at.desc(), questions.c.id)
            .limit(count)
        )

    async def finished_before(self, moment: datetime) -> builtins.list[QuestionRow]:
        """Questions that ended before `moment` and whose LangGraph threads still take room.

        Those with a review still pending are not among them, whatever their age.
        """
        pending = exists().where(reviews.c.question_id == questions.c.id, reviews.c.state == "pending")
        return await self._questions(
            select(questions)
            .where(
                questions.c.state.in_(TERMINAL),
                questions.c.finished_at < moment,
                text(HAS_CHECKPOINTS),
                ~pending,
            )
            .order_by(questions.c.sequence)
        )

    async def _questions(self, query: Select[Any]) -> builtins.list[QuestionRow]:
        async with single(self._engine) as connection:
            return [QuestionRow(**row) for row in (await connection.execute(query)).mappings()]
