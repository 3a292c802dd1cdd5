"""What Prometheus is told: by its conventions, under few labels, and without a word of anybody's."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from bot.metrics import Doors, Metrics
from bot.telemetry import Telemetry, Untold
from rag_graph.advance import Outcome
from rag_graph.chat import Called
from store.errors import DatabaseUnavailable
from store.schema import REVISION
from store.standing import Standing, Waiting

STANDING = Standing(
    jobs={"answers": Waiting(3, 12.5)},
    reviews=Waiting(2, 60.0),
    documents={"live": 5},
    unsent={"failed": 1},
    canary=20,
)
SECRET = "What does Bob earn?"
OUTCOME = Outcome(
    "held",
    question=SECRET,
    rewritten_question=SECRET,
    rule="contracts",
    degraded=("embedding", SECRET),
    verified={"id": 7},
    timings={"retrieve": 30.0, "sql": 12.0, "embed": 5.0, SECRET: 1.0},
)


class Stands:
    """The database as it stands, or away."""

    def __init__(self, standing: Standing | None) -> None:
        self.standing, self.asked = standing, 0

    async def now(self) -> Standing:
        self.asked += 1
        if self.standing is None:
            raise DatabaseUnavailable
        return self.standing


async def exposed(metrics: Metrics, standing: Standing | None = STANDING) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of the labels' names…) → value."""
    body, content_type = await metrics.exposed(Stands(standing))
    assert content_type.startswith("text/plain")
    families = list(text_string_to_metric_families(body.decode()))
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def busy() -> Metrics:
    """Everything that can be counted, once."""
    metrics = Metrics()
    telemetry = Telemetry(metrics)
    telemetry.accepted("q1", "slack", "")
    telemetry.accepted("q2", "slack", "person")
    telemetry.settled(("q1", "slack"), 1, OUTCOME, {"wait": 500.0, "answer": 1_500.0})
    telemetry.failed("q3", "feishu")
    telemetry.reviewed("approved")
    telemetry.delivered("slack", "sent")
    metrics.called(Called("draft", 2.0, 100, 20))
    metrics.called(Called("rewrite", 0.5, failed="HTTP 500"))
    metrics.acknowledged("slack", 0.02)
    return metrics


async def test_what_happened_is_counted() -> None:
    """Each thing once, where an operator looks for it."""
    found = await exposed(busy())
    assert found["signoff_questions_accepted_total", "slack"] == 1
    assert found["signoff_questions_refused_total", "slack", "person"] == 1
    assert found["signoff_answers_total", "held", "slack"] == 1
    assert found["signoff_answers_total", "failed", "feishu"] == 1
    assert found["signoff_answer_seconds_sum", "held"] == 2.0
    assert found["signoff_node_seconds_sum", "retrieve"] == 0.03
    assert found["signoff_retrieval_seconds_sum", "sql"] == 0.012
    assert found["signoff_model_tokens_total", "prompt", "draft"] == 100
    assert found["signoff_model_calls_total", "failed", "rewrite"] == 1
    assert found["signoff_reviews_opened_total",] == 1
    assert found["signoff_reviews_decided_total", "approved"] == 1
    assert found["signoff_verified_served_total",] == 1
    assert found["signoff_deliveries_total", "slack", "sent"] == 1
    assert found["signoff_acknowledge_seconds_count", "slack"] == 1


async def test_what_stands_in_the_database_is_shown() -> None:
    """Waiting jobs and reviews with the age of the oldest, documents, the canary, and what runs here."""
    found = await exposed(Metrics())
    assert found["signoff_jobs_waiting", "answers"] == 3
    assert found["signoff_jobs_oldest_seconds", "answers"] == 12.5
    assert found["signoff_jobs_waiting", "ingest"] == 0
    assert (found["signoff_reviews_waiting",], found["signoff_reviews_oldest_seconds",]) == (2, 60)
    assert (found["signoff_documents", "live"], found["signoff_deliveries_unsent", "failed"]) == (5, 1)
    assert found["signoff_canary_percent",] == 20
    (build,) = [labels for name, *labels in found if name == "signoff_build_info"]
    assert build[0] == REVISION


async def test_a_database_that_is_away_leaves_no_old_numbers() -> None:
    """It is said to be away, and its gauges are gone: an alert on an old number would never fire."""
    found = await exposed(Metrics(), None)
    assert found["signoff_database_up",] == 0
    assert not any(name[0].startswith(("signoff_jobs", "signoff_reviews_waiting")) for name in found)


async def test_the_database_is_not_asked_for_every_scrape() -> None:
    """Several Prometheus servers, or somebody's loop, cost it one look in ten seconds."""
    metrics, stands = Metrics(), Stands(STANDING)
    for _ in range(5):
        await metrics.exposed(stands)
    assert stands.asked == 1


async def test_names_follow_the_conventions_and_labels_are_few() -> None:
    """signoff_…, seconds as unit, counters _total; no label holds an id or a word of a question."""
    body, _ = await busy().exposed(Stands(STANDING))
    text = body.decode()
    assert SECRET not in text
    families = [
        family for family in text_string_to_metric_families(text) if not family.name.startswith("process_")
    ]
    assert len(families) >= 24
    for family in families:
        assert re.fullmatch(r"signoff_[a-z_]+[a-z]", family.name)
        assert family.documentation
        for sample in family.samples:
            assert sample.labels.keys() <= {
                "platform", "outcome", "reason", "node", "part", "missing", "role", "result", "kind", "decision",
                "queue", "state", "le", "version", "migration",
            }  # fmt: skip
        if family.type == "counter":
            assert {sample.name for sample in family.samples} <= {f"{family.name}_total"}
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


async def test_untold_counts_nothing() -> None:
    """The silent half of the measurement is silent."""
    metrics = Metrics()
    untold = Untold(metrics)
    before = await exposed(metrics)
    untold.accepted("q1", "slack", "")
    untold.settled(("q1", "slack"), 1, OUTCOME, {"answer": 1.0})
    untold.failed("q1", "slack")
    untold.reviewed("approved")
    untold.delivered("slack", "sent")
    after = await exposed(metrics)
    assert {key for key in after.items() ^ before.items() if key[0][0].startswith("signoff_")} == set()


@pytest.mark.parametrize(
    ("path", "platform"), [("/slack/events", "slack"), ("/feishu/card", "feishu"), ("/ask", "web")]
)
def test_doors_are_timed_by_platform(path: str, platform: str) -> None:
    """Whoever posts waits for the first byte; who only looks is not counted."""
    took: list[tuple[str, float]] = []

    async def answer(_: object) -> PlainTextResponse:
        return PlainTextResponse("ok")

    inner = Starlette(routes=[Route(path, answer, methods=["GET", "POST"])])
    client = TestClient(Doors(inner, lambda name, seconds: took.append((name, seconds))))
    assert client.get(path).status_code == client.post(path).status_code == 200
    ((name, seconds),) = took
    assert name == platform
    assert 0 < seconds < 5
