"""What each execution found, cited, spent and decided: the trace that tells retrieval faults from drafting faults."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single
from store.schema import chunks, conversations, documents, feedback, questions, runs, versions
from store.text import clean

__all__ = ["SETTINGS", "ListedRun", "NewRun", "RunRow", "Runs", "Wanted"]

# The estimate is a third of the bytes; what a model's own tokens are to that is learnt from its last calls. Those with
# tools are left out: their count holds the tools' descriptions, which the estimate does not.
COUNTED = """
SELECT call ->> 'model' AS model, sum((call ->> 'counted')::float) / sum((call ->> 'estimated')::float) AS ratio
  FROM (SELECT prompts FROM runs WHERE prompts <> '[]' ORDER BY id DESC LIMIT 200) AS recent,
       jsonb_array_elements(recent.prompts) AS call
 WHERE (call ->> 'counted')::float > 0 AND (call ->> 'estimated')::float > 0 AND call ->> 'role' <> 'assess'
 GROUP BY call ->> 'model'
"""
# Names to choose from: those of the last runs, so that a long history costs nothing.
NAMES = """
SELECT array_remove(array_agg(DISTINCT variant), '') AS variants, array_remove(array_agg(DISTINCT rule), '') AS rules
  FROM (SELECT variant, rule FROM runs ORDER BY id DESC LIMIT 5000) AS recent
"""
SETTINGS = "."  # as `Wanted.variant`: the settings themselves, no variant

# Made once: with its values inside, the statement was put together anew for each run, a third of what recording took.
RECORD = insert(runs).returning(runs.c.id)


@dataclass(frozen=True, slots=True)
class NewRun:
    """`retrieved` and `cited` are passage ids, best first; `rule` the review rule that decided; `tokens` holds
    "prompt", "completion", "estimated"; `timings` are milliseconds by step; `prompts` has a row for each call of the
    model, and one where the question was searched for in several wordings (`rag_graph.record`)."""

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
    # By passage as in `retrieved`: "id", its "document" (its passages may be gone one day), "score", whether the draft
    # "read" it, and its place in each leg that found it: "vector", "keyword"; "reranked" is a reranker's judgement.
    scores: Sequence[Mapping[str, Any]] = ()
    cost: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(NewRun):
    """A stored run."""

    id: int
    created_at: datetime

    @property
    def calls(self) -> tuple[Mapping[str, Any], ...]:
        """The calls of a model."""
        return tuple(call for call in self.prompts if call["role"] != "search")

    @property
    def searched(self) -> tuple[str, ...]:
        """What was searched for, in order; empty where that was the question itself, or its words are gone."""
        rows = [call for call in self.prompts if call["role"] == "search"]
        told = [str(message["content"]) for row in rows for message in row.get("messages", ())]
        return tuple(told) or ((self.rewritten_question,) if self.rewritten_question else ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs to list; what is empty is not asked for.

    `collection` is that of a passage that was cited or, where none was, of the best one found. `text` is the beginning
    of a question's id, or a run's number. Newest first from below the id `before` (0: from the newest).
    """

    outcome: str = ""
    platform: str = ""
    channel: str = ""
    collection: str = ""
    variant: str = ""
    rule: str = ""
    text: str = ""
    disliked: bool = False
    degraded: bool = False
    since: datetime | None = None
    until: datetime | None = None
    before: int = 0


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run as a list shows it. Times are milliseconds. `private`: its words are for nobody but its asker."""

    id: int
    question_id: str
    created_at: datetime
    outcome: str
    variant: str
    rule: str
    degraded: tuple[str, ...]
    error: str
    confidence: float | None
    retrieved: int
    cited: int
    tokens: Mapping[str, int]
    timings: Mapping[str, float]
    cost: float | None
    text: str
    asker: str
    state: str  # of the question
    platform: str
    channel: str
    private: bool
    helpful: int
    unhelpful: int


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

    async def page(self, wanted: Wanted, most: int) -> list[ListedRun]:
        """At most so many runs, newest first. By key and not by offset: a run that comes in meanwhile moves nothing."""
        query = _listing().where(*_conditions(wanted)).order_by(runs.c.id.desc()).limit(most)
        async with single(self._engine) as connection:
            return [
                ListedRun(**{**row, "degraded": tuple(row["degraded"])})
                for row in (await connection.execute(query)).mappings()
            ]

    async def names(self) -> tuple[list[str], list[str]]:
        """(variants, rules) of the last runs, by name."""
        async with single(self._engine) as connection:
            row = (await connection.execute(text(NAMES))).one()
        return sorted(row.variants or ()), sorted(row.rules or ())

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
                        **{
                            name: tuple(row[name])
                            for name in ("retrieved", "cited", "degraded", "prompts", "scores")
                        },
                    }
                )
                for row in (await connection.execute(query)).mappings()
            ]


def _opinions(helpful: bool) -> Any:
    return (
        select(func.count())
        .select_from(feedback)
        .where(feedback.c.question_id == runs.c.question_id, feedback.c.helpful.is_(helpful))
        .scalar_subquery()
    )


def _listing() -> Select[Any]:
    own = ("id", "question_id", "created_at", "outcome", "variant", "rule", "degraded", "error", "confidence",
           "tokens", "timings", "cost")  # fmt: skip
    return (
        select(
            *(runs.c[name] for name in own),
            func.cardinality(runs.c.retrieved).label("retrieved"),
            func.cardinality(runs.c.cited).label("cited"),
            questions.c.text,
            questions.c.asker,
            questions.c.state,
            conversations.c.platform,
            conversations.c.channel,
            conversations.c.private,
            _opinions(True).label("helpful"),
            _opinions(False).label("unhelpful"),
        )
        .join_from(runs, questions, questions.c.id == runs.c.question_id)
        .join(conversations, conversations.c.id == questions.c.conversation_id)
    )


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    equal = {
        runs.c.outcome: wanted.outcome,
        runs.c.rule: wanted.rule,
        conversations.c.platform: wanted.platform,
        conversations.c.channel: wanted.channel,
    }
    found: list[ColumnElement[bool]] = [column == value for column, value in equal.items() if value]
    if wanted.variant:
        found.append(runs.c.variant == ("" if wanted.variant == SETTINGS else wanted.variant))
    if wanted.text:
        named = questions.c.id.startswith(wanted.text, autoescape=True)
        found.append(or_(named, runs.c.id == _number(wanted.text)))
    if wanted.since is not None:
        found.append(runs.c.created_at >= wanted.since)
    if wanted.until is not None:
        found.append(runs.c.created_at < wanted.until)
    if wanted.before:
        found.append(runs.c.id < wanted.before)
    return [*found, *_kinds(wanted)]


def _kinds(wanted: Wanted) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.degraded:
        found.append(func.cardinality(runs.c.degraded) > 0)
    if wanted.disliked:
        found.append(_opinions(False) > 0)
    if wanted.collection:
        telling = text(
            "chunks.id = ANY (CASE WHEN runs.cited <> '{}' THEN runs.cited ELSE runs.retrieved[1:1] END)"
        )
        found.append(
            select(chunks.c.id)
            .join(versions, versions.c.id == chunks.c.version_id)
            .join(documents, documents.c.id == versions.c.document_id)
            .where(telling, documents.c.collection == wanted.collection)
            .correlate(runs)
            .exists()
        )
    return found


def _number(written: str) -> int:
    """A run's number as somebody typed it; 0, which is no run's, for anything else."""
    digits = written.removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
