"""What became of reviews: for the trust ramp, what one usually takes, the audit, and the tests made of them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single
from store.reviews import ReviewEvent, ReviewRow, review_row
from store.schema import review_events, reviews

__all__ = ["ReviewHistory"]

# Decided by a person.
PEOPLE = ("approved", "edited", "rejected")
# What happens to a review while nobody decides it (bot/patience.py).
STEPS = ("reminded", "escalated", "timed_out", "chose_wait", "chose_peek", "chose_person")
COLLECTIONS = """
SELECT DISTINCT name FROM reviews, jsonb_array_elements_text(draft -> 'collections') AS name
 WHERE reason = :reason ORDER BY name
"""


class ReviewHistory:
    """Only reads."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def past(
        self, reasons: Sequence[str], since: datetime, most: int
    ) -> list[tuple[datetime, datetime]]:
        """(opened, decided) of the latest reviews that a person decided, of drafts that these rules held."""
        query = (
            select(reviews.c.opened_at, reviews.c.decided_at)
            .where(
                reviews.c.reason.in_(reasons),
                reviews.c.decided_at >= since,
                reviews.c.state.in_(PEOPLE),
                reviews.c.disposition != "sample",
            )
            .order_by(reviews.c.decided_at.desc())
            .limit(most)
        )
        async with single(self._engine) as connection:
            return [(row.opened_at, row.decided_at) for row in await connection.execute(query)]

    async def outcomes(
        self, reason: str, collection: str, since: datetime | None = None, most: int = 2_000
    ) -> list[str]:
        """What people decided on drafts that this rule held or had looked at afterwards and that rest on `collection`
        (on none, where it is empty): approved, edited, rejected, oldest first."""
        of = (
            text("draft -> 'collections' ? :collection")
            if collection
            else text("draft -> 'collections' = '[]'")
        )
        query = (
            select(reviews.c.state)
            .where(reviews.c.reason == reason, reviews.c.state.in_(PEOPLE), of)
            .order_by(reviews.c.decided_at.desc(), reviews.c.id.desc())
            .limit(most)
        )
        if since is not None:
            query = query.where(reviews.c.decided_at > since)
        async with single(self._engine) as connection:
            found = await connection.execute(query, {"collection": collection} if collection else {})
            return [str(state) for state in found.scalars()][::-1]

    async def collections(self, reason: str) -> list[str]:
        """The collections that drafts of this rule rest on."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(COLLECTIONS), {"reason": reason})
            return [str(name) for name in found.scalars()]

    async def marks(self, review_ids: Sequence[int]) -> dict[int, str]:
        """The last step of the waiting that was taken for each of these reviews, or choice that was made."""
        query = (
            select(review_events.c.review_id, review_events.c.action)
            .where(review_events.c.review_id.in_(review_ids), review_events.c.action.in_(STEPS))
            .order_by(review_events.c.id)
        )
        async with single(self._engine) as connection:
            return {row.review_id: row.action for row in await connection.execute(query)}

    async def audit(
        self, since: datetime, after: int = 0, most: int = 1_000
    ) -> list[tuple[str, ReviewEvent]]:
        """(question id, line) of all reviews from that moment on, in order; `after` is the id of the last one read."""
        query = (
            select(reviews.c.question_id, review_events)
            .join(reviews, reviews.c.id == review_events.c.review_id)
            .where(review_events.c.at >= since, review_events.c.id > after)
            .order_by(review_events.c.id)
            .limit(most)
        )
        async with single(self._engine) as connection:
            rows = [dict(row) for row in (await connection.execute(query)).mappings()]
        return [(str(row.pop("question_id")), ReviewEvent(**row)) for row in rows]

    async def decided(self, since: datetime, after: int = 0, most: int = 200) -> list[ReviewRow]:
        """Reviews that a person decided since then, by id; `after` is the last one read."""
        query = (
            select(reviews)
            .where(
                reviews.c.decided_at >= since,
                reviews.c.state.in_(PEOPLE),
                reviews.c.id > after,
            )
            .order_by(reviews.c.id)
            .limit(most)
        )
        async with single(self._engine) as connection:
            return [review_row(row) for row in (await connection.execute(query)).mappings()]
