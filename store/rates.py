"""How much a person or a channel may ask: an allowance that fills up again evenly, one moment a key.

`whole_at` is when the allowance of a key will be whole again (the theoretical arrival time of GCRA). A question moves
it on by period / allowance; one that would move it further than a period from now is refused and moves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["GRANTED", "OVER", "Allowance", "sweep", "take", "wait"]

# Parts of a statement, so that the door can take with the statement that stores: for the parameters `keys`, `spacings`
# and `period`, GRANTED takes one from each allowance that has one left and returns its key; OVER is the first key that
# had none. The keys are sorted, so that two statements never wait for each other in a circle. statement_timestamp(),
# not now(): a transaction that waited for a lock began in the past.
GRANTED = """
INSERT INTO rates (key, whole_at)
SELECT key, statement_timestamp() + make_interval(secs => spacing)
  FROM unnest(CAST(:keys AS text[]), CAST(:spacings AS float8[])) AS asked (key, spacing)
 WHERE {when}
    ON CONFLICT (key) DO UPDATE
   SET whole_at = greatest(rates.whole_at, statement_timestamp()) + (excluded.whole_at - statement_timestamp())
 WHERE greatest(rates.whole_at, statement_timestamp()) + (excluded.whole_at - statement_timestamp())
       <= statement_timestamp() + make_interval(secs => :period)
RETURNING key
"""
OVER = """
SELECT min(key) AS key FROM unnest(CAST(:keys AS text[])) AS asked (key) WHERE key NOT IN (SELECT key FROM granted)
"""
TAKE = f"WITH granted AS ({GRANTED.format(when='true')}) {OVER}"
# By itself: the statement above does not see what others took while it waited for its turn.
WAIT = "SELECT extract(epoch FROM whole_at - statement_timestamp())::float8 FROM rates WHERE key = :key"
SWEEP = "DELETE FROM rates WHERE whole_at < statement_timestamp()"


@dataclass(frozen=True, slots=True)
class Allowance:
    """`most` questions in `period` seconds, for each key that it names; any number at once up to that."""

    period: float
    most: Mapping[str, int]  # key → questions

    def spacing(self, key: str) -> float:
        return self.period / self.most[key]

    def parameters(self) -> dict[str, Any]:
        """Of GRANTED and OVER."""
        keys = sorted(self.most)
        return {"keys": keys, "spacings": [self.spacing(key) for key in keys], "period": self.period}


async def take(connection: AsyncConnection, allowance: Allowance) -> tuple[str, float] | None:
    """Take one from the allowance of every key. None when all had one left; otherwise the first key that had not, and
    the seconds until it has."""
    key: str | None = await connection.scalar(text(TAKE), allowance.parameters())
    return None if key is None else (key, await wait(connection, allowance, key))


async def wait(connection: AsyncConnection, allowance: Allowance, key: str) -> float:
    """The seconds until the allowance of `key` has one left."""
    behind: float | None = await connection.scalar(text(WAIT), {"key": key})
    return max(0.0, (behind or 0.0) + allowance.spacing(key) - allowance.period)


async def sweep(connection: AsyncConnection) -> None:
    """Forget whose allowance is whole."""
    await connection.execute(text(SWEEP))
