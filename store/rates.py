"""How much a person or a channel may ask: an allowance that fills up again evenly, one moment a key.

`whole_at` is when the allowance of a key will be whole again (the theoretical arrival time of GCRA). A question moves
it on by period / allowance; one that would move it further than a period from now is refused and moves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["Allowance", "sweep", "take"]

# One statement for all keys, in the order of the keys so that two of them never wait for each other in a circle.
# statement_timestamp(), not now(): a transaction that waited for a lock began in the past.
TAKE = """
INSERT INTO rates (key, whole_at)
SELECT key, statement_timestamp() + make_interval(secs => spacing)
  FROM unnest(CAST(:keys AS text[]), CAST(:spacings AS float8[])) AS asked (key, spacing)
    ON CONFLICT (key) DO UPDATE
   SET whole_at = greatest(rates.whole_at, statement_timestamp()) + (excluded.whole_at - statement_timestamp())
 WHERE greatest(rates.whole_at, statement_timestamp()) + (excluded.whole_at - statement_timestamp())
       <= statement_timestamp() + make_interval(secs => :period)
RETURNING key
"""
WAIT = """
SELECT extract(epoch FROM whole_at - statement_timestamp())::float8 FROM rates WHERE key = :key
"""
SWEEP = "DELETE FROM rates WHERE whole_at < statement_timestamp()"


@dataclass(frozen=True, slots=True)
class Allowance:
    """`most` questions in `period` seconds, for each key that it names; any number at once up to that."""

    period: float
    most: Mapping[str, int]  # key → questions

    def spacing(self, key: str) -> float:
        return self.period / self.most[key]


async def take(connection: AsyncConnection, allowance: Allowance) -> tuple[str, float] | None:
    """Take one from the allowance of every key. None when all had one left; otherwise the first key that had not, and
    the seconds until it has."""
    keys = sorted(allowance.most)
    if not keys:
        return None
    granted = await connection.execute(
        text(TAKE),
        {
            "keys": keys,
            "spacings": [allowance.spacing(key) for key in keys],
            "period": allowance.period,
        },
    )
    had = set(granted.scalars())
    for key in keys:
        if key not in had:
            behind = await connection.scalar(text(WAIT), {"key": key})
            return key, max(0.0, (behind or 0.0) + allowance.spacing(key) - allowance.period)
    return None


async def sweep(connection: AsyncConnection) -> None:
    """Forget whose allowance is whole."""
    await connection.execute(text(SWEEP))
