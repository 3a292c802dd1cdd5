"""Variants that are being tried: one row each, with its steps; and what became of the questions of either side."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.changes import announce
from store.database import single, transaction
from store.errors import NotFound
from store.schema import canaries
from store.text import clean

__all__ = ["TOPIC", "Arm", "Canaries", "CanaryRow", "Edit", "Tally"]

TOPIC = "canaries"  # of the change that every process hears

# The first run of a question has the time of its answer, what follows a decision that of its resume. A question that
# failed for good has a run that says so. Without channels the planner drops the look at the conversation.
ASKED = """
asked AS MATERIALIZED (
  SELECT question_id, outcome, degraded, created_at, CAST(timings ->> 'answer' AS float) AS ms
    FROM runs
   WHERE created_at >= :since AND created_at < :until AND variant = :variant
     AND (timings ? 'answer' OR outcome = 'failed')
     AND (:everywhere OR EXISTS (
           SELECT FROM questions JOIN conversations ON conversations.id = questions.conversation_id
            WHERE questions.id = runs.question_id
              AND conversations.platform || ':' || conversations.channel = ANY (CAST(:channels AS text[]))))
)
"""
TALLY = f"""
WITH {ASKED},
decided AS (
  SELECT reviews.question_id, bool_or(reviews.state = 'rejected') AS rejected,
         bool_or(reviews.state <> 'rejected') AS signed
    FROM reviews JOIN asked ON asked.question_id = reviews.question_id
   WHERE reviews.state IN ('approved', 'edited', 'rejected') GROUP BY reviews.question_id
),
voted AS (
  SELECT feedback.question_id, bool_or(NOT feedback.helpful) AS disliked
    FROM feedback JOIN asked ON asked.question_id = feedback.question_id GROUP BY feedback.question_id
)
SELECT count(*) AS questions,
       count(*) FILTER (WHERE created_at >= :step_at) AS of_step,
       count(*) FILTER (WHERE outcome = 'failed' OR degraded && CAST(:failing AS text[])) AS failed,
       count(*) FILTER (WHERE outcome IN ('answered', 'declined', 'held')) AS settled,
       count(*) FILTER (WHERE outcome = 'declined') AS declined,
       count(ms) AS timed,
       count(*) FILTER (WHERE ms > CAST(:slow AS float)) AS slow,
       (SELECT count(*) FROM decided) AS decided,
       (SELECT count(*) FROM decided WHERE rejected) AS rejected,
       (SELECT count(*) FROM decided WHERE signed) AS signed,
       (SELECT count(*) FROM voted) AS voted,
       (SELECT count(*) FROM voted WHERE disliked) AS disliked
  FROM asked
"""  # noqa: S608 - put together from constants
# What a person's edit replaced; only the number of a review that is known already.
EDITS = f"""
WITH {ASKED}
SELECT reviews.id, asked.question_id,
       CASE WHEN reviews.id <> ALL (CAST(:known AS bigint[]))
            THEN coalesce(reviews.draft ->> 'original', reviews.draft ->> 'text', '') END AS before,
       CASE WHEN reviews.id <> ALL (CAST(:known AS bigint[]))
            THEN coalesce(reviews.decision ->> 'text', '') END AS after
  FROM reviews JOIN asked ON asked.question_id = reviews.question_id
 WHERE reviews.state = 'edited'
"""  # noqa: S608
QUANTILE = f"""
WITH {ASKED}
SELECT count(ms) AS timed, percentile_disc(:quantile) WITHIN GROUP (ORDER BY ms) AS ms FROM asked
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class CanaryRow:
    """`state`: running, promoted, rolled_back. `channels`: only conversations there; none: all. `steps` is what
    happened, oldest first: {"at", "percent", "by", "what"} and what else was to be remembered of it."""

    id: int
    variant: str
    state: str
    percent: int
    channels: tuple[str, ...]
    started_by: str
    reason: str
    steps: tuple[Mapping[str, Any], ...]
    started_at: datetime
    step_at: datetime
    ended_at: datetime | None

    @property
    def in_force(self) -> bool:
        """Whether it answers questions: while it is tried, and once promoted until its values are the settings'."""
        return self.state != "rolled_back"

    @property
    def digest(self) -> str:
        """What the variant was when it was started."""
        return str(self.steps[0].get("digest", "")) if self.steps else ""


@dataclass(frozen=True, slots=True)
class Arm:
    """The questions of one side: the first runs by `variant` ("": the settings) from `since` up to `until`, in these
    channels (none: everywhere)."""

    variant: str
    since: datetime
    until: datetime
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """Questions of one side. `failed` of `questions`; `declined` of `settled`; `slow` of `timed`; `rejected` of
    `decided`, of which `signed` had an approval or an edit; `disliked` of `voted`. `of_step`: since the present
    percentage began."""

    questions: int
    of_step: int
    failed: int
    settled: int
    declined: int
    timed: int
    slow: int
    decided: int
    rejected: int
    signed: int
    voted: int
    disliked: int


@dataclass(frozen=True, slots=True)
class Edit:
    """A draft that a person edited, `before` and `after`; None of one that was known."""

    id: int
    question_id: str
    before: str | None
    after: str | None


class Canaries:
    """Every change is one compare-and-set, and told to all processes with its commit."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def latest(self) -> CanaryRow | None:
        """The last one that was started: nothing before it is in force."""
        query = select(canaries).order_by(canaries.c.id.desc()).limit(1)
        async with single(self._engine) as connection:
            found = (await connection.execute(query)).mappings().one_or_none()
        return _row(found) if found is not None else None

    async def get(self, canary_id: int) -> CanaryRow:
        """Raises `NotFound`."""
        query = select(canaries).where(canaries.c.id == canary_id)
        async with single(self._engine) as connection:
            found = (await connection.execute(query)).mappings().one_or_none()
        if found is None:
            raise NotFound(f"There is no canary {canary_id}.")
        return _row(found)

    async def tried(self, variant: str) -> CanaryRow | None:
        """The last time that this variant was tried."""
        query = select(canaries).where(canaries.c.variant == variant).order_by(canaries.c.id.desc()).limit(1)
        async with single(self._engine) as connection:
            found = (await connection.execute(query)).mappings().one_or_none()
        return _row(found) if found is not None else None

    async def start(
        self, variant: str, percent: int, channels: Sequence[str], by: str, **remembered: Any
    ) -> CanaryRow | None:
        """Try `variant`; None while another one runs."""
        by = clean(by)
        row = insert(canaries).values(
            variant=variant,
            percent=percent,
            channels=[clean(channel) for channel in channels],
            started_by=by,
            steps=[_step(percent, by, "start", remembered)],
        )
        async with transaction(self._engine) as connection:
            made = await connection.execute(row.on_conflict_do_nothing().returning(canaries))
            found = made.mappings().one_or_none()
            if found is not None:
                await announce(connection, TOPIC, {"canary": found["id"]})
        return None if found is None else _row(found)

    async def step(
        self, row: CanaryRow, percent: int, by: str, what: str = "step", **remembered: Any
    ) -> bool:
        """Give it `percent` of the conversations; False when it has moved on since `row` was read."""
        changed = {"percent": percent, "step_at": func.now()}
        return await self._change(row, changed, _step(percent, clean(by), what, remembered))

    async def end(
        self, row: CanaryRow, state: str, *, reason: str, by: str, what: str, **remembered: Any
    ) -> bool:
        """Promote it or roll it back, once; False when it has moved on since `row` was read."""
        changed = {"state": state, "reason": clean(reason), "ended_at": func.now()}
        return await self._change(row, changed, _step(row.percent, clean(by), what, remembered))

    async def _change(self, row: CanaryRow, changed: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
        as_read = (canaries.c.id == row.id, canaries.c.state == row.state, canaries.c.percent == row.percent)
        steps = canaries.c.steps.op("||")(cast([dict(step)], JSONB))
        query = update(canaries).where(*as_read).values(**changed, steps=steps).returning(canaries.c.id)
        async with transaction(self._engine) as connection:
            done = await connection.scalar(query)
            if done is not None:
                await announce(connection, TOPIC, {"canary": row.id})
        return done is not None

    # --- what became of its questions

    async def tally(
        self, arm: Arm, *, step_at: datetime, failing: Collection[str], slow: float | None
    ) -> Tally:
        """Counts of one side. `failing`: parts of `runs.degraded` that count as a failure; `slow` is in milliseconds,
        None: nothing is."""
        values = {
            **_values(arm),
            "step_at": step_at,
            "failing": list(failing),
            "slow": float("inf") if slow is None else slow,
        }
        async with single(self._engine) as connection:
            return Tally(**(await connection.execute(text(TALLY), values)).mappings().one())

    async def edits(self, arm: Arm, known: Collection[int]) -> list[Edit]:
        """The edited drafts of one side."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(EDITS), {**_values(arm), "known": list(known)})
            return [Edit(**row) for row in found.mappings()]

    async def quantile(self, arm: Arm, share: float) -> tuple[int, float | None]:
        """How many questions of that side have a time, and which milliseconds that share of them took at most."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(QUANTILE), {**_values(arm), "quantile": share})
            row = found.mappings().one()
        return int(row["timed"]), None if row["ms"] is None else float(row["ms"])


def _row(found: RowMapping) -> CanaryRow:
    return CanaryRow(**{**found, "channels": tuple(found["channels"]), "steps": tuple(found["steps"])})


def _values(arm: Arm) -> dict[str, Any]:
    return {
        "variant": arm.variant,
        "since": arm.since,
        "until": arm.until,
        "everywhere": not arm.channels,
        "channels": list(arm.channels),
    }


def _step(percent: int, by: str, what: str, remembered: Mapping[str, Any]) -> dict[str, Any]:
    return {"at": datetime.now(UTC).isoformat(), "percent": percent, "by": by, "what": what, **remembered}
