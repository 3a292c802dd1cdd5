"""How well questions were answered: what runs, reviewers and readers say, by day or week of one time zone.

Measured over 100,000 runs of ninety days: docs/benchmarks.md, "The quality page".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.database import transaction

__all__ = ["Figures", "Quality", "Report", "Span", "Step"]

Step = Literal["day", "week"]

# A review may be decided long after its run; [review] hard_limit_hours is fourteen days.
REVIEWED_WITHIN = timedelta(days=30)

# Each is grouped by bucket and once more over all of them, whose `bucket` is null.
BUCKETS = "GROUP BY GROUPING SETS ((bucket), ())"
BUCKET = "CAST(date_trunc(:step, {moment} AT TIME ZONE :zone) AS date) AS bucket"
# Which runs a report about some of them is about, looked up once for all its parts.
CHOSEN = """
chosen AS MATERIALIZED (
  SELECT run.id, run.question_id FROM runs AS run WHERE run.created_at >= :earliest AND {conditions}
)
"""
VARIANT = "run.variant = :variant"
# The runs of a collection: of what they cite, else of what they found. A set, because the same asked of each run by
# itself looks three tables up for every passage.
COLLECTED = """
run.id IN (
  SELECT found.id
    FROM runs AS found
   CROSS JOIN LATERAL unnest(CASE WHEN found.cited = '{}' THEN found.retrieved ELSE found.cited END) AS passage (id)
    JOIN chunks ON chunks.id = passage.id
    JOIN versions ON versions.id = chunks.version_id
    JOIN documents ON documents.id = versions.document_id
   WHERE found.created_at >= :earliest AND documents.collection = :collection)
"""
OF_CHOSEN = ("run.id IN (SELECT id FROM chosen)", "question_id IN (SELECT question_id FROM chosen)")

# A question that waited for a person has a run for each stretch of its way; the one that ended it counts it. What
# failed is counted by its question, which has no run where its process was lost. Tokens and money were spent in all of
# them. What a reader waited is known where nobody had to be waited for.
RUNS = """
SELECT bucket,
       count(*) FILTER (WHERE outcome NOT IN ('held', 'failed')) AS questions,
       count(*) FILTER (WHERE outcome = 'answered') AS answered,
       count(*) FILTER (WHERE outcome = 'declined') AS declined,
       count(*) FILTER (WHERE outcome = 'clarified') AS clarified,
       percentile_cont(CAST(ARRAY[0.5, 0.95, 0.99] AS float8[]))
         WITHIN GROUP (ORDER BY seconds) FILTER (WHERE outcome <> 'held') AS seconds,
       coalesce(sum(prompt), 0) AS prompt, coalesce(sum(completion), 0) AS completion, sum(cost) AS cost
  FROM (SELECT run.outcome, run.cost, {bucket},
               CAST(run.tokens ->> 'prompt' AS bigint) AS prompt,
               CAST(run.tokens ->> 'completion' AS bigint) AS completion,
               (coalesce(CAST(run.timings ->> 'wait' AS float8), 0) + CAST(run.timings ->> 'answer' AS float8)) / 1000
                 AS seconds
          FROM runs AS run
         WHERE run.created_at >= :since AND run.created_at < :until AND {runs}) AS run
 {buckets}
"""
# The first retrieved passage's document is among those cited. Where a passage is gone with its version nobody can tell
# (unless it is itself cited), and the question does not count.
FIRST_HITS = """
WITH answered AS (
  SELECT run.id, run.retrieved[1] AS first, run.cited, {bucket}
    FROM runs AS run
   WHERE run.created_at >= :since AND run.created_at < :until AND run.outcome = 'answered'
     AND run.cited <> '{{}}' AND run.retrieved <> '{{}}' AND {runs}
),
placed AS NOT MATERIALIZED (
  SELECT chunks.id, versions.document_id AS document FROM chunks JOIN versions ON versions.id = chunks.version_id
),
judged AS (
  SELECT bucket, true AS hit FROM answered WHERE first = ANY (cited)
  UNION ALL
  SELECT answered.bucket, bool_or(source.document = head.document)
    FROM answered
   CROSS JOIN LATERAL unnest(answered.cited) AS passage (id)
    LEFT JOIN placed AS source ON source.id = passage.id
    LEFT JOIN placed AS head ON head.id = answered.first
   WHERE NOT answered.first = ANY (answered.cited)
   GROUP BY answered.id, answered.bucket
)
SELECT bucket, count(hit) AS told, count(*) FILTER (WHERE hit) AS hits FROM judged {buckets}
"""
FAILED = """
SELECT bucket, count(*) AS failed
  FROM (SELECT {bucket} FROM (SELECT id AS question_id, finished_at FROM questions WHERE state = 'failed') AS failed
         WHERE finished_at >= :since AND finished_at < :until AND {wanted}) AS failed
 {buckets}
"""
REVIEWS = """
SELECT bucket,
       count(*) FILTER (WHERE state = 'approved') AS approved,
       count(*) FILTER (WHERE state = 'edited') AS edited,
       count(*) FILTER (WHERE state = 'rejected') AS rejected,
       count(*) FILTER (WHERE state = 'expired') AS expired,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state <> 'expired') AS decision_seconds
  FROM (SELECT state, extract(epoch FROM decided_at - opened_at) AS seconds, {bucket}
          FROM reviews
         WHERE decided_at >= :since AND decided_at < :until
           AND state IN ('approved', 'edited', 'rejected', 'expired') AND {wanted}) AS decided
 {buckets}
"""
FEEDBACK = """
SELECT bucket, count(*) FILTER (WHERE helpful) AS liked, count(*) FILTER (WHERE NOT helpful) AS disliked
  FROM (SELECT helpful, {bucket} FROM feedback WHERE given_at >= :since AND given_at < :until AND {wanted}) AS given
 {buckets}
"""
VERIFIED = """
SELECT bucket, count(*) AS verified
  FROM (SELECT {bucket} FROM verified_uses WHERE used_at >= :since AND used_at < :until AND {wanted}) AS used
 {buckets}
"""
# (name, statement, the moment by which its rows are grouped); one statement of all of them is one look at the database.
PARTS = (
    ("by_run", RUNS, "run.created_at"),
    ("by_first_hit", FIRST_HITS, "run.created_at"),
    ("by_failure", FAILED, "finished_at"),
    ("by_review", REVIEWS, "decided_at"),
    ("by_opinion", FEEDBACK, "given_at"),
    ("by_use", VERIFIED, "used_at"),
)
COLLECTIONS = "SELECT name FROM collections ORDER BY name"
VARIANTS = "SELECT DISTINCT variant FROM runs WHERE created_at >= :since ORDER BY variant"


@dataclass(frozen=True, slots=True)
class Span:
    """What a report is about: `days` whole days up to `now`, in buckets of a day or a week (from Monday) of `zone`, a
    name of the IANA database. Weeks are whole: the first one may begin before the days do.

    `collection` and `variant` None mean all; the variant "" is the settings themselves.
    """

    now: datetime
    days: int = 30
    step: Step = "day"
    zone: str = "UTC"
    collection: str | None = None
    variant: str | None = None

    @property
    def first(self) -> date:
        """The day on which the first bucket begins."""
        day = self.now.astimezone(ZoneInfo(self.zone)).date() - timedelta(days=self.days - 1)
        return day - timedelta(days=day.weekday()) if self.step == "week" else day

    @property
    def since(self) -> datetime:
        return datetime.combine(self.first, datetime.min.time(), ZoneInfo(self.zone))

    def buckets(self) -> Iterator[date]:
        """The days on which buckets begin, oldest first, also those in which nothing happened."""
        day, last = self.first, self.now.astimezone(ZoneInfo(self.zone)).date()
        while day <= last:
            yield day
            day += timedelta(days=7 if self.step == "week" else 1)


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of one bucket, or of the whole span (`begins` None).

    `questions` are those that ended in a run: `answered`, `declined` (nobody knows), `clarified` (asked back); `failed`
    ended without one, `verified` were given a signed answer again. `told` are the answered ones of which is known
    whether the first passage's document was cited, `hits` those where it was. `p50`, `p95` and `p99` are seconds from
    question to answer where no person was waited for; `decision_seconds` the median from opening a review to a person's
    decision. `cost` is None where no run has one.
    """

    begins: date | None = None
    questions: int = 0
    answered: int = 0
    declined: int = 0
    clarified: int = 0
    failed: int = 0
    verified: int = 0
    told: int = 0
    hits: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    prompt: int = 0
    completion: int = 0
    cost: float | None = None
    approved: int = 0
    edited: int = 0
    rejected: int = 0
    expired: int = 0
    decision_seconds: float | None = None
    liked: int = 0
    disliked: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """`whole` is the span together, `buckets` its parts. `collections` and `variants` are what can be chosen."""

    whole: Figures
    buckets: tuple[Figures, ...]
    collections: tuple[str, ...]
    variants: tuple[str, ...]


class Quality:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def report(self, span: Span) -> Report:
        """Raises `DatabaseUnavailable`."""
        parameters = {
            "since": span.since,
            "until": span.now,
            "earliest": span.since - REVIEWED_WITHIN,
            "step": span.step,
            "zone": span.zone,
            "collection": span.collection,
            "variant": span.variant,
        }
        found: dict[date | None, dict[str, Any]] = {}
        async with transaction(self._engine) as connection:
            for row in await connection.execute(text(_written(span)), parameters):
                found.setdefault(row.bucket, {}).update(_known(row.figures))
            collections = await _names(connection, COLLECTIONS, parameters)
            variants = await _names(connection, VARIANTS, parameters)
        return Report(
            whole=Figures(**found.get(None, {})),
            buckets=tuple(replace(Figures(**found.get(day, {})), begins=day) for day in span.buckets()),
            collections=collections,
            variants=variants,
        )


def _written(span: Span) -> str:
    """The statement with the conditions that `span` asks for, and no others: they keep the plan simple. Its rows are a
    bucket and a JSON object of figures, several for each bucket."""
    conditions = [VARIANT] * (span.variant is not None) + [COLLECTED] * (span.collection is not None)
    runs, wanted = OF_CHOSEN if conditions else ("true", "true")
    made = [CHOSEN.replace("{conditions}", " AND ".join(conditions))] if conditions else []
    for name, statement, moment in PARTS:
        bucket = BUCKET.format(moment=moment)
        made.append(
            f"{name} AS ({statement.format(bucket=bucket, buckets=BUCKETS, runs=runs, wanted=wanted)})"
        )
    told = [f"SELECT bucket, to_jsonb({name}) - 'bucket' AS figures FROM {name}" for name, *_ in PARTS]  # noqa: S608
    return f"WITH {', '.join(made)} {' UNION ALL '.join(told)}"


def _known(figures: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in figures.items() if value is not None}
    return values | dict(zip(("p50", "p95", "p99"), values.pop("seconds", ()), strict=False))


async def _names(connection: AsyncConnection, query: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(await connection.scalars(text(query), {"since": parameters["since"]}))
