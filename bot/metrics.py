"""What a process counts for Prometheus: numbers under few labels, never an id, a channel or anybody's words.

Every serving process counts for itself. What stands in the database is the same in each of them, and is read at most
every `FRESH_SECONDS`: Prometheus asks each process, and none of them shall cost Postgres more than one look.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Protocol

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_graph.advance import Outcome
from rag_graph.chat import Called
from rag_graph.graph import NODES
from store.errors import DatabaseUnavailable
from store.schema import REVISION
from store.standing import Standing

__all__ = ["Doors", "Metrics"]

FRESH_SECONDS = 10.0
# Upper bounds in seconds: of a step, a search or an acknowledgement; of an answer or a model's call.
QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80)
SEARCH_PARTS = ("embed", "sql", "rank", "rerank")
MISSING = ("embedding", "model", "rewrite", "tools", "rerank")
OUTCOMES = ("answered", "declined", "clarified", "held", "failed")
DECISIONS = ("approved", "edited", "rejected", "expired")
# POST by path; every other one is a form of the workspace.
DOORS: Mapping[str, str] = {"/slack/events": "slack", "/feishu/events": "feishu", "/feishu/card": "feishu"}

# The moment at which each counter began would be a second series for each of them.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # its own


class Stands(Protocol):
    async def now(self) -> Standing: ...


class _Present(Collector):
    """Gauges of the last look at the database; none of them while it does not answer: an old number would look well."""

    def __init__(self) -> None:
        self._build = (version("signoff"), REVISION)
        self.standing: Standing | None = None

    def collect(self) -> Iterable[Metric]:
        yield _gauge("signoff_build_info", "What runs here.", {self._build: 1}, "version", "migration")
        yield _gauge("signoff_database_up", "Whether the database answered.", {(): self.standing is not None})
        if self.standing is None:
            return
        at = self.standing
        jobs = {"answers": None, "ingest": None, **at.jobs}
        yield _gauge(
            "signoff_jobs_waiting",
            "Jobs that could run now, the same in each process.",
            {(queue,): waiting.many if waiting else 0 for queue, waiting in jobs.items()},
            "queue",
        )
        yield _gauge(
            "signoff_jobs_oldest_seconds",
            "How long the oldest of them has waited.",
            {(queue,): waiting.oldest if waiting else 0 for queue, waiting in jobs.items()},
            "queue",
        )
        yield _gauge("signoff_reviews_waiting", "Drafts that wait for a person.", {(): at.reviews.many})
        yield _gauge("signoff_reviews_oldest_seconds", "How long the oldest has.", {(): at.reviews.oldest})
        yield _gauge(
            "signoff_documents", "Versions by state.", {(k,): v for k, v in at.documents.items()}, "state"
        )
        unsent = {"pending": 0, "sending": 0, "failed": 0, **at.unsent}
        yield _gauge(
            "signoff_deliveries_unsent",
            "Messages not sent yet.",
            {(k,): v for k, v in unsent.items()},
            "state",
        )
        yield _gauge("signoff_canary_percent", "Conversations a variant gets, of a hundred.", {(): at.canary})


def _gauge(name: str, what: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family = GaugeMetricFamily(name, what, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family


class Metrics:
    """One for an application; a test has one for each that it opens."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._present = _Present()
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._registry.register(self._present)
        ProcessCollector(registry=self._registry)
        self._accepted = self._counter("questions_accepted", "Questions taken to be answered.", "platform")
        self._refused = self._counter(
            "questions_refused", "Messages that are not answered.", "platform", "reason"
        )
        self._answers = self._counter("answers", "Where runs arrived.", "platform", "outcome")
        self._answer_seconds = self._histogram(
            "answer_seconds", "From question to outcome where nobody was waited for.", LONG, "outcome"
        )
        self._node_seconds = self._histogram("node_seconds", "A node of the question graph.", QUICK, "node")
        self._search_seconds = self._histogram("retrieval_seconds", "A part of searching.", QUICK, "part")
        self._degraded = self._counter("degraded", "Runs that went without a part.", "missing")
        self._calls = self._counter("model_calls", "Calls of the language model.", "role", "result")
        self._tokens = self._counter("model_tokens", "Tokens as the endpoint counts them.", "role", "kind")
        self._call_seconds = self._histogram("model_seconds", "A call, retries included.", LONG, "role")
        self._opened = self._counter("reviews_opened", "Drafts that began to wait.")
        self._decided = self._counter("reviews_decided", "Reviews that ended.", "decision")
        self._verified = self._counter("verified_served", "Questions that were given a signed answer again.")
        self._deliveries = self._counter("deliveries", "Attempts to send.", "platform", "result")
        self._doors = self._histogram(
            "acknowledge_seconds", "From a platform's message to its acknowledgement.", QUICK, "platform"
        )
        for decision in DECISIONS:
            self._decided.labels(decision)
        self.model_failed = (
            ""  # why the last call of the language model brought nothing; "" when it did, or before any
        )
        self.missing: tuple[str, ...] = ()  # what the last run went without

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"signoff_{name}", what, labels, registry=self._registry)

    def _histogram(self, name: str, what: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"signoff_{name}", what, labels, buckets=bounds, registry=self._registry)

    # --- what happens

    def accepted(self, platform: str, refused: str) -> None:
        """A message was stored; `refused` is why it is not answered, "" where it is (store.inbox.Accepted)."""
        if refused:
            self._refused.labels(platform, refused).inc()
        else:
            self._accepted.labels(platform).inc()

    def settled(self, platform: str, outcome: Outcome, spent: Mapping[str, float]) -> None:
        """A run was written down. `spent`, in milliseconds, has "answer" where nobody was waited for."""
        self._answers.labels(platform, outcome.status).inc()
        if "answer" in spent:
            seconds = max(0.0, spent.get("wait", 0.0) + spent["answer"]) / 1_000
            self._answer_seconds.labels(outcome.status).observe(seconds)
        for step, milliseconds in outcome.timings.items():
            if step in NODES:
                self._node_seconds.labels(step).observe(milliseconds / 1_000)
            elif step in SEARCH_PARTS:
                self._search_seconds.labels(step).observe(milliseconds / 1_000)
        for part in outcome.degraded:
            self._degraded.labels(part if part in MISSING else "other").inc()
        self.missing = tuple(outcome.degraded)
        if outcome.status == "held":
            self._opened.inc()
        if outcome.verified:
            self._verified.inc()

    def failed(self, platform: str) -> None:
        """Nothing could answer a question, and its asker is told."""
        self._answers.labels(platform, "failed").inc()

    def reviewed(self, state: str) -> None:
        """A review ended."""
        self._decided.labels(state if state in DECISIONS else "other").inc()

    def called(self, call: Called) -> None:
        """A language model was asked."""
        self._calls.labels(call.role, "failed" if call.failed else "ok").inc()
        self._call_seconds.labels(call.role).observe(call.seconds)
        self._tokens.labels(call.role, "prompt").inc(call.prompt)
        self._tokens.labels(call.role, "completion").inc(call.completion)
        self.model_failed = call.failed

    def delivered(self, platform: str, result: str) -> None:
        """A message was sent, or why not: failed (it is tried again), refused (never), unknown."""
        self._deliveries.labels(platform, result).inc()

    def acknowledged(self, platform: str, seconds: float) -> None:
        """A platform, or a browser, has its answer. Safe from any thread."""
        self._doors.labels(platform).observe(seconds)

    # --- what is asked

    async def exposed(self, standings: Stands, accept: str = "") -> tuple[bytes, str]:
        """The body and its content type, in the format that the header `accept` asks for."""
        await self._look(standings)
        encode, content_type = choose_encoder(accept)
        return await asyncio.to_thread(encode, self._registry), content_type

    async def _look(self, standings: Stands) -> None:
        async with self._looking:
            if time.monotonic() - self._looked_at < FRESH_SECONDS:
                return
            try:
                self._present.standing = await standings.now()
            except DatabaseUnavailable:
                self._present.standing = None
            self._looked_at = time.monotonic()


class Doors:
    """Times what others wait for at the HTTP doors: from a POST to the beginning of its answer."""

    def __init__(self, app: ASGIApp, took: Callable[[str, float], None]) -> None:
        self._app = app
        self._took = took

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._took(DOORS.get(scope["path"], "web"), time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, timed)
