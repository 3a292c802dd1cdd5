"""What each execution found, cited, spent and decided: the trace that tells retrieval faults from drafting faults."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single
from store.schema import runs
from store.text import clean

__all__ = ["NewRun", "RunRow", "Runs"]

# The estimate is a third of the bytes; what a model's own tokens are to that is learnt from its last calls.
COUNTED = """
SELECT call ->> 'model' AS model, sum((call ->> 'counted')::float) / sum((call ->> 'estimated')::float) AS ratio
  FROM (SELECT prompts FROM runs WHERE prompts <> '[]' ORDER BY id DESC LIMIT 200) AS recent,
       jsonb_array_elements(recent.prompts) AS call
 WHERE (call ->> 'counted')::float > 0 AND (call ->> 'estimated')::float > 0
 GROUP BY call ->> 'model'
"""

# Made once: with its values inside, the statement was put together anew for each run, a third of what recording took.
RECORD = insert(runs).returning(runs.c.id)


@dataclass(frozen=True, slots=True)
class NewRun:
    """`retrieved` and `cited` are passage ids, best first; `rule` the review rule that decided; `tokens` holds
    "prompt", "completion", "estimated"; `timings` are milliseconds by step; `prompts` has a row for each call of the
    model."""

    question_id: str
    outcome: str  # answered | declined | held | clarified | failed
    rewritten_question: str = ""
    retrieved: Sequence[int] = ()
    cited: Sequence[int] = ()
    confidence: float | None = None
    rule: str = ""
    degraded: Sequence[str] = ()
    tools: Sequence[Any] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    prompts: Sequence[Mapping[str, Any]] = ()
    variant: str = ""  # "": the settings themselves
    scores: Sequence[Mapping[str, Any]] = ()  # by passage: "id", "score", and its rank in each leg that found it
    cost: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(NewRun):
    """A stored run."""

    id: int
    created_at: datetime


class Runs:
    """Append-only; a question that was reviewed has one run for each stretch of its way."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(self, new: NewRun) -> int:
        """Store a run and return its id."""
        values = asdict(new)
        for name in ("retrieved", "cited", "degraded", "tools", "prompts", "scores"):
            values[name] = list(values[name])
        values["rewritten_question"] = clean(new.rewritten_question)
        async with single(self._engine) as connection:
            run_id: int = await connection.scalar(RECORD, values)
        return run_id

    async def latest(self, question_id: str) -> RunRow | None:
        """The last run of a question."""
        found = await self._rows(question_id)
        return found[-1] if found else None

    async def for_question(self, question_id: str) -> list[RunRow]:
        """All runs of a question, first run first."""
        return await self._rows(question_id)

    async def counted(self) -> dict[str, float]:
        """By model, the tokens that its endpoint counted to one that we estimated, over the last prompts."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(COUNTED))
            return {str(model): float(ratio) for model, ratio in found}

    async def _rows(self, question_id: str) -> list[RunRow]:
        query = select(runs).where(runs.c.question_id == question_id).order_by(runs.c.id)
        async with single(self._engine) as connection:
            return [
                RunRow(
                    **{
                        **row,
                        **{name: tuple(row[name]) for name in ("retrieved", "cited", "degraded", "prompts", "scores")},
                    }
                )
                for row in (await connection.execute(query)).mappings()
            ]
