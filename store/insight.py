"""What the questions of the last days tell about the documents: where they did not answer, and how often."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import transaction
from store.schema import gap_owners
from store.text import clean

__all__ = ["Gap", "Insight", "Stats"]

# A question is a gap once, for the strongest reason it has: nobody knew, a reviewer refused, a reader was not helped.
GAPS = """
SELECT question.id AS question_id, question.text, conversation.private, question.asked_at,
       CASE WHEN review.question_id IS NOT NULL THEN 'rejected'
            WHEN question.state = 'declined' THEN 'unknown'
            ELSE 'unhelpful' END AS kind,
       coalesce(review.reason, opinion.reason, '') AS reason, coalesce(gap_owners.owner, '') AS owner
  FROM questions AS question
  JOIN conversations AS conversation ON conversation.id = question.conversation_id
  LEFT JOIN (SELECT question_id, max(decision ->> 'reason') AS reason FROM reviews
              WHERE state = 'rejected' GROUP BY question_id) AS review ON review.question_id = question.id
  LEFT JOIN (SELECT question_id, max(reason) AS reason FROM feedback
              WHERE NOT helpful GROUP BY question_id) AS opinion ON opinion.question_id = question.id
  LEFT JOIN gap_owners ON gap_owners.question_id = question.id
 WHERE question.asked_at >= :since
   AND question.state IN ('answered', 'declined')
   AND (question.state = 'declined' OR review.question_id IS NOT NULL OR opinion.question_id IS NOT NULL)
 ORDER BY question.asked_at DESC
 LIMIT :most
"""
STATS = """
SELECT count(*) AS asked,
       count(*) FILTER (WHERE state = 'answered') AS answered,
       count(*) FILTER (WHERE state = 'declined') AS declined,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       count(*) FILTER (WHERE state = 'refused') AS refused,
       count(*) FILTER (WHERE state = 'held') AS held,
       count(DISTINCT asker) AS askers,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - asked_at))
         FILTER (WHERE state = 'answered' AND NOT EXISTS
           (SELECT FROM reviews WHERE reviews.question_id = questions.id)) AS seconds
  FROM questions WHERE asked_at >= :since AND asked_at < :until
"""
DECIDED = """
SELECT count(*) FILTER (WHERE state = 'approved') AS approved,
       count(*) FILTER (WHERE state = 'edited') AS edited,
       count(*) FILTER (WHERE state = 'rejected') AS rejected,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM decided_at - opened_at))
         FILTER (WHERE state IN ('approved', 'edited', 'rejected')) AS review_seconds
  FROM reviews WHERE decided_at >= :since AND decided_at < :until
"""
MEDIAN = """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM decided_at - opened_at))
  FROM reviews WHERE decided_at >= :since AND state IN ('approved', 'edited', 'rejected')
"""
LIKED = """
SELECT count(*) FILTER (WHERE helpful) AS helpful, count(*) FILTER (WHERE NOT helpful) AS unhelpful
  FROM feedback WHERE given_at >= :since AND given_at < :until
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """One question that the documents did not settle. `kind`: unknown, rejected, unhelpful. `private`: its words are
    for nobody but its asker. `owner` is who sees to it, "" while nobody does."""

    question_id: str
    text: str
    private: bool
    asked_at: datetime
    kind: str
    reason: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one stretch of time. `seconds` is the median from question to answer where no person was asked,
    `review_seconds` from opening a review to its decision; None without any."""

    asked: int
    answered: int
    declined: int
    failed: int
    refused: int
    held: int
    askers: int
    seconds: float | None
    approved: int
    edited: int
    rejected: int
    review_seconds: float | None
    helpful: int
    unhelpful: int


class Insight:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def gaps(self, since: datetime, most: int = 500) -> list[Gap]:
        """The newest first."""
        async with transaction(self._engine) as connection:
            found = await connection.execute(text(GAPS), {"since": since, "most": most})
            return [Gap(**row) for row in found.mappings()]

    async def own(self, question_ids: Sequence[str], owner: str, by: str) -> None:
        """Name who sees to it that these questions will be settled; "" names nobody."""
        async with transaction(self._engine) as connection:
            await connection.execute(delete(gap_owners).where(gap_owners.c.question_id.in_(question_ids)))
            if owner and question_ids:
                rows = [
                    {"question_id": question_id, "owner": clean(owner), "owned_by": clean(by)}
                    for question_id in question_ids
                ]
                await connection.execute(insert(gap_owners), rows)

    async def decision_seconds(self, since: datetime) -> float | None:
        """The median from opening a review to a person's decision, of those decided since; None without any."""
        async with transaction(self._engine) as connection:
            seconds = await connection.scalar(text(MEDIAN), {"since": since})
        return None if seconds is None else float(seconds)

    async def stats(self, since: datetime, until: datetime) -> Stats:
        """What was asked, decided and thought from `since` up to `until`."""
        counted: dict[str, object] = {}
        async with transaction(self._engine) as connection:
            for query in (STATS, DECIDED, LIKED):
                row = (await connection.execute(text(query), {"since": since, "until": until})).mappings()
                counted |= row.one()
        return Stats(**counted)  # type: ignore[arg-type]
