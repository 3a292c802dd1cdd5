"""What stands in the database just now, for whoever watches from outside: how much waits, and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import transaction

__all__ = ["Standing", "Standings", "Waiting"]

# A job's age counts from when it was deferred, one that is tried again from its next try: a database that was away for
# an hour is no backlog of an hour.
JOBS = """
SELECT job.queue_name AS queue, count(DISTINCT job.id) AS many,
       coalesce(extract(epoch FROM now() - min(coalesce(job.scheduled_at, event.at))), 0) AS oldest
  FROM procrastinate_jobs AS job
  LEFT JOIN procrastinate_events AS event ON event.job_id = job.id AND event.type = 'deferred'
 WHERE job.status = 'todo' AND (job.scheduled_at IS NULL OR job.scheduled_at <= now())
 GROUP BY job.queue_name
"""
REVIEWS = """
SELECT count(*) AS many, coalesce(extract(epoch FROM now() - min(opened_at)), 0) AS oldest
  FROM reviews WHERE state = 'pending'
"""
DOCUMENTS = "SELECT state, count(*) AS many FROM versions WHERE state <> 'retired' GROUP BY state"
UNSENT = """
SELECT state, count(*) AS many FROM deliveries WHERE state IN ('pending', 'sending', 'failed') GROUP BY state
"""
CANARY = "SELECT coalesce(max(percent), 0) FROM canaries WHERE state = 'running'"


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait, and the seconds that the oldest has waited."""

    many: int = 0
    oldest: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """`jobs` that could run now, by queue; `documents` by the state of their newest versions; `unsent` messages by
    state; `canary` is the percentage of conversations that a variant gets, 0 where none is being tried."""

    jobs: Mapping[str, Waiting]
    reviews: Waiting
    documents: Mapping[str, int]
    unsent: Mapping[str, int]
    canary: int


class Standings:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def now(self) -> Standing:
        """Raises `DatabaseUnavailable`."""
        async with transaction(self._engine) as connection:
            jobs = (await connection.execute(text(JOBS))).all()
            reviews = (await connection.execute(text(REVIEWS))).one()
            documents = (await connection.execute(text(DOCUMENTS))).all()
            unsent = (await connection.execute(text(UNSENT))).all()
            canary = await connection.scalar(text(CANARY))
        return Standing(
            jobs={row.queue: Waiting(row.many, float(row.oldest)) for row in jobs},
            reviews=Waiting(reviews.many, float(reviews.oldest)),
            documents={row.state: row.many for row in documents},
            unsent={row.state: row.many for row in unsent},
            canary=int(canary or 0),
        )
