"""Drafts that a person signs off: one row each, one outcome each, bound to the draft that was shown."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.changes import announce
from store.database import single, transaction
from store.errors import NotFound
from store.queue import Queue
from store.schema import questions, review_events, reviews
from store.text import clean

__all__ = [
    "Decided",
    "NewReview",
    "ReviewEvent",
    "ReviewRow",
    "Reviews",
    "review_row",
    "withdraw_pending",
]

OUTCOMES = frozenset({"approved", "edited", "rejected", "expired"})
# Ends of a question that leave nothing to decide.
OVER = ("withdrawn", "superseded")


@dataclass(frozen=True, slots=True)
class NewReview:
    """A draft that a rule (`reason`) held, and the interrupt that waits for its decision."""

    question_id: str
    interrupt_id: str
    round: int
    version_hash: str
    reason: str
    draft: Mapping[str, Any]
    audience: Sequence[str]
    disposition: str = "hold"
    later: Mapping[str, float] = field(default_factory=dict)  # steps of the waiting, in seconds from now


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """`disposition`: hold, two_reviewers (`approved_by` says who has approved this very draft so far), private (the
    asker sees the draft meanwhile), sample (it was sent already).

    `state`: pending, approved, edited, rejected, expired (nobody in time), withdrawn (the question is gone).

    `resumed` means that the waiting graph took the decision.
    """

    id: int
    question_id: str
    interrupt_id: str
    round: int
    state: str
    version_hash: str
    reason: str
    draft: Mapping[str, Any]
    audience: tuple[str, ...]
    claimed_by: str | None
    decided_by: str | None
    decision: Mapping[str, Any] | None
    resumed: bool
    opened_at: datetime
    claimed_at: datetime | None
    decided_at: datetime | None
    disposition: str = "hold"
    approved_by: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """How many people have to approve it."""
        return 2 if self.disposition == "two_reviewers" else 1

    @property
    def sent(self) -> bool:
        """Whether the asker had the draft before its review."""
        return self.disposition == "sample"


@dataclass(frozen=True, slots=True)
class ReviewEvent:
    """One line of the audit: who did what, on which draft. `actor` is empty where the product itself acted."""

    id: int
    review_id: int
    actor: str
    action: str
    version_hash: str
    detail: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a click: "done"; "late" (`review` says who decided, and what); "stale" (it was made on an
    earlier draft); "gone" (no such review, or its question was withdrawn)."""

    outcome: Literal["done", "late", "stale", "gone"]
    review: ReviewRow | None


class Reviews:
    """Every change is one transaction with its line in the audit and the order to draw its cards anew."""

    def __init__(self, engine: AsyncEngine, queue: Queue) -> None:
        self._engine = engine
        self._queue = queue

    async def open(self, new: NewReview) -> ReviewRow:
        """Store the draft and hold its question; the same (question, interrupt) again returns the first row.

        When the question was withdrawn or superseded meanwhile, the review is born withdrawn: nobody sees it.
        Raises `NotFound` for an unknown question.
        """
        async with transaction(self._engine) as connection:
            state = await connection.scalar(
                select(questions.c.state)
                .where(questions.c.id == new.question_id)
                .with_for_update(key_share=True)
            )
            if state is None:
                raise NotFound(f"There is no question {new.question_id!r}.")
            inserted = await connection.execute(
                insert(reviews)
                .values(
                    question_id=new.question_id,
                    interrupt_id=new.interrupt_id,
                    round=new.round,
                    state="withdrawn" if state in OVER else "pending",
                    version_hash=new.version_hash,
                    reason=new.reason,
                    draft=dict(new.draft),
                    audience=list(new.audience),
                    disposition=new.disposition,
                )
                .on_conflict_do_nothing()
                .returning(reviews)
            )
            row = inserted.mappings().one_or_none()
            if row is None:
                return await self._same(connection, new)
            review = review_row(row)
            await _note(connection, review, actor="", action="opened", detail={"reason": new.reason})
            if not review.sent:
                await connection.execute(
                    update(questions)
                    .where(
                        questions.c.id == new.question_id, questions.c.state.in_(("received", "answering"))
                    )
                    .values(state="held")
                )
            if review.state == "pending":
                for step, seconds in new.later.items():
                    await self._later(connection, review.id, step, seconds)
        return review

    async def find(self, review_id: int) -> ReviewRow | None:
        found = await self._list(select(reviews).where(reviews.c.id == review_id))
        return found[0] if found else None

    async def get(self, review_id: int) -> ReviewRow:
        """Raises `NotFound`."""
        review = await self.find(review_id)
        if review is None:
            raise NotFound(f"There is no review {review_id}.")
        return review

    async def list(self, state: str | None = None, *, limit: int = 500) -> builtins.list[ReviewRow]:
        """Reviews, those in `state` or all, oldest first."""
        query = select(reviews).order_by(reviews.c.opened_at, reviews.c.id).limit(limit)
        return await self._list(query if state is None else query.where(reviews.c.state == state))

    async def ended(self, *, limit: int = 20) -> builtins.list[ReviewRow]:
        """Those that somebody, or time, decided, last decided first."""
        return await self._list(
            select(reviews)
            .where(reviews.c.decided_at.is_not(None))
            .order_by(reviews.c.decided_at.desc(), reviews.c.id.desc())
            .limit(limit)
        )

    async def for_question(self, question_id: str) -> builtins.list[ReviewRow]:
        """All rounds of one question, first round first."""
        return await self._list(
            select(reviews).where(reviews.c.question_id == question_id).order_by(reviews.c.id)
        )

    async def overdue(self, older_than_hours: float) -> builtins.list[ReviewRow]:
        """Pending reviews opened longer ago than that."""
        opened_before = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, older_than_hours * 3_600)
        return await self._list(
            select(reviews)
            .where(reviews.c.state == "pending", reviews.c.opened_at < opened_before)
            .order_by(reviews.c.opened_at, reviews.c.id)
        )

    async def claim(self, review_id: int, by: str) -> bool:
        """Take a pending review; True when it is `by`'s now. Somebody else's stays theirs."""
        free = or_(reviews.c.claimed_by.is_(None), reviews.c.claimed_by == by)
        return await self._change(
            update(reviews).where(reviews.c.id == review_id, reviews.c.state == "pending", free),
            {"claimed_by": clean(by), "claimed_at": func.now()},
            ("claimed", by),
        )

    async def release(self, review_id: int, by: str) -> bool:
        """Give back a review that `by` had claimed; False when it was not theirs."""
        return await self._change(
            update(reviews).where(
                reviews.c.id == review_id, reviews.c.state == "pending", reviews.c.claimed_by == by
            ),
            {"claimed_by": None, "claimed_at": None},
            ("released", by),
        )

    async def reassign(self, review_id: int, to: str, by: str) -> bool:
        """Give a pending review to `to`, whoever has it; False when it no longer waits."""
        return await self._change(
            update(reviews).where(reviews.c.id == review_id, reviews.c.state == "pending"),
            {"claimed_by": clean(to), "claimed_at": func.now()},
            ("reassigned", by),
            {"to": to},
        )

    async def decide(
        self,
        review_id: int,
        version_hash: str,
        state: str,
        by: str,
        decision: Mapping[str, Any],
        *,
        approved: Sequence[str] | None = None,
    ) -> Decided:
        """Decide a pending review on exactly the draft `version_hash`, and store the job `resume` with it.

        Compare-and-set: of any number of clicks at once one is "done". `by` is empty where time decided. `approved`
        are the earlier approvals that the click was checked against, where two people have to approve: when they are
        others by now nothing is done, and the outcome is "stale".
        """
        if state not in OUTCOMES:
            raise ValueError(f"{state!r} is no outcome of a review")
        if not decision:
            raise ValueError("LangGraph takes an empty resume value for no answer at all")
        async with transaction(self._engine) as connection:
            decided = await connection.execute(
                update(reviews)
                .where(
                    reviews.c.id == review_id,
                    reviews.c.state == "pending",
                    reviews.c.version_hash == version_hash,
                    *([] if approved is None else [reviews.c.approved_by == list(approved)]),
                )
                .values(state=state, decided_by=clean(by), decision=dict(decision), decided_at=func.now())
                .returning(reviews)
            )
            row = decided.mappings().one_or_none()
            if row is None:
                return await self._too_late(connection, review_id, version_hash)
            review = review_row(row)
            await _note(connection, review, actor=by, action=state, detail=decision)
            await self._queue.defer(
                "resume",
                {"review_id": review_id},
                lock=f"question:{review.question_id}",
                connection=connection,
            )
            await self._changed(connection, review, state)
        return Decided("done", review)

    async def approve(self, review_id: int, version_hash: str, by: str, approved: Sequence[str]) -> bool:
        """Note an approval that needs another person's; False where somebody did something meanwhile. The review is
        free for others to take."""
        return await self._change(
            self._unchanged(review_id, version_hash, approved),
            {"approved_by": [*approved, clean(by)], "claimed_by": None, "claimed_at": None},
            ("approved_first", by),
        )

    async def revise(
        self, review_id: int, version_hash: str, by: str, draft: Mapping[str, Any], revised_hash: str
    ) -> bool:
        """Put an edited draft in place of one that needs two people, approved by its editor alone."""
        return await self._change(
            self._unchanged(review_id, version_hash, None),
            {
                "draft": dict(draft),
                "version_hash": revised_hash,
                "approved_by": [clean(by)],
                "claimed_by": None,
                "claimed_at": None,
            },
            ("revised", by),
            {"text": draft["text"]},
        )

    def _unchanged(self, review_id: int, version_hash: str, approved: Sequence[str] | None) -> Any:
        same = update(reviews).where(
            reviews.c.id == review_id, reviews.c.state == "pending", reviews.c.version_hash == version_hash
        )
        return same if approved is None else same.where(reviews.c.approved_by == list(approved))

    async def mark_resumed(self, review_id: int) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(update(reviews).where(reviews.c.id == review_id).values(resumed=True))

    async def withdraw(self, question_id: str, by: str = "") -> int:
        """Close a question's pending reviews without a decision; returns how many."""
        async with transaction(self._engine) as connection:
            return await withdraw_pending(connection, question_id, "withdrawn", by)

    async def events(self, review_id: int) -> builtins.list[ReviewEvent]:
        """The audit of one review, in order."""
        query = (
            select(review_events).where(review_events.c.review_id == review_id).order_by(review_events.c.id)
        )
        async with single(self._engine) as connection:
            return [ReviewEvent(**row) for row in (await connection.execute(query)).mappings()]

    async def _same(self, connection: AsyncConnection, new: NewReview) -> ReviewRow:
        found = await connection.execute(
            select(reviews).where(
                reviews.c.question_id == new.question_id, reviews.c.interrupt_id == new.interrupt_id
            )
        )
        return review_row(found.mappings().one())

    async def _too_late(self, connection: AsyncConnection, review_id: int, version_hash: str) -> Decided:
        found = await connection.execute(select(reviews).where(reviews.c.id == review_id))
        row = found.mappings().one_or_none()
        review = None if row is None else review_row(row)
        if review is None or review.state == "withdrawn":
            return Decided("gone", review)
        return Decided("late" if review.state != "pending" else "stale", review)

    async def _change(
        self,
        statement: Any,
        values: Mapping[str, Any],
        event: tuple[str, str],
        detail: Mapping[str, Any] | None = None,
    ) -> bool:
        action, actor = event
        async with transaction(self._engine) as connection:
            changed = await connection.execute(statement.values(**values).returning(reviews))
            row = changed.mappings().one_or_none()
            if row is None:
                return False
            review = review_row(row)
            await _note(connection, review, actor=actor, action=action, detail=detail or {})
            await self._changed(connection, review, action)
        return True

    async def saw(self, review_id: int, by: str) -> None:
        """Write down that a reviewer opened the draft as it is now, the first time they do."""
        async with transaction(self._engine) as connection:
            found = await connection.execute(
                select(reviews).where(reviews.c.id == review_id).with_for_update()
            )
            row = found.mappings().one_or_none()
            if row is None or row["state"] != "pending":
                return
            seen = select(review_events.c.id).where(
                review_events.c.review_id == review_id,
                review_events.c.action == "saw",
                review_events.c.actor == clean(by),
                review_events.c.version_hash == row["version_hash"],
            )
            if await connection.scalar(seen) is None:
                await _note(connection, review_row(row), actor=by, action="saw", detail={})

    async def note(self, review_id: int, action: str, by: str = "") -> bool:
        """Write down that a step of the waiting was taken, or a choice made: once, and while the review waits."""
        async with transaction(self._engine) as connection:
            found = await connection.execute(
                select(reviews)
                .where(reviews.c.id == review_id, reviews.c.state == "pending")
                .with_for_update()
            )
            row = found.mappings().one_or_none()
            taken = select(review_events.c.id).where(
                review_events.c.review_id == review_id, review_events.c.action == action
            )
            if row is None or await connection.scalar(taken) is not None:
                return False
            await _note(connection, review_row(row), actor=by, action=action, detail={})
            await self._changed(connection, review_row(row), action)
        return True

    async def _later(self, connection: AsyncConnection, review_id: int, step: str, seconds: float) -> None:
        await self._queue.defer(
            "patience",
            {"review_id": review_id, "step": step},
            lock=f"patience:{review_id}:{step}",
            connection=connection,
            schedule_in=seconds,
        )

    async def _changed(self, connection: AsyncConnection, review: ReviewRow, action: str) -> None:
        """With the change itself: pages hear of it, and its cards will be drawn anew."""
        await self._queue.defer(
            "redraw", {"review_id": review.id}, lock=f"card:{review.id}", connection=connection
        )
        await announce(connection, "reviews", {"review": review.id, "state": action})

    async def _list(self, query: Select[Any]) -> builtins.list[ReviewRow]:
        async with single(self._engine) as connection:
            return [review_row(row) for row in (await connection.execute(query)).mappings()]


async def withdraw_pending(connection: AsyncConnection, question_id: str, why: str, by: str = "") -> int:
    """Within the caller's transaction: nobody can decide on a question that is no longer asked."""
    closed = await connection.execute(
        update(reviews)
        .where(reviews.c.question_id == question_id, reviews.c.state == "pending")
        .values(state="withdrawn")
        .returning(reviews)
    )
    rows = closed.mappings().all()
    for row in rows:
        await _note(connection, review_row(row), actor=by, action="withdrawn", detail={"why": why})
    return len(rows)


async def _note(
    connection: AsyncConnection, review: ReviewRow, *, actor: str, action: str, detail: Mapping[str, Any]
) -> None:
    await connection.execute(
        insert(review_events).values(
            review_id=review.id,
            actor=clean(actor),
            action=action,
            version_hash=review.version_hash,
            detail=dict(detail),
        )
    )


def review_row(row: Mapping[Any, Any]) -> ReviewRow:
    lists = {"audience": tuple(row["audience"]), "approved_by": tuple(row["approved_by"])}
    return ReviewRow(**{**row, **lists})
