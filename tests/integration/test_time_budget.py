"""A question has so many seconds for all that its model does: then it is answered in quotations."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from rag_graph.contracts import Limits
from rag_graph.deadline import left, within
from rag_graph.models import ModelSettings, ModelWriter
from rag_graph.policy import Rules
from rag_graph.tools import builtin_registry
from rag_graph.tools.contract import Context
from store import Store
from tests.desk import HOP, PENALTY, SEARCH, TALKED, Desk, asked
from tests.emulators.openai import MODEL, Call, Cut, Hang, OpenAIServer, Say, Scripted, Status
from tests.emulators.openai_script import parrot
from tests.shelf import Shelf

BUDGET = 1.0
# Far above it for a busy machine, and far below the silence of thirty seconds that a single call may keep.
LATE = 15.0
NEVER = Say("and so on " * 4_000, piece=10, pause=0.05)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def sitting(store: Store, server: OpenAIServer) -> AsyncIterator[Callable[..., Desk]]:
    """A desk whose model is waited for as patiently as in production, and whose questions have a second."""
    writers: list[ModelWriter] = []

    def desk(**settings: Any) -> Desk:
        writers.append(ModelWriter(ModelSettings(server.base_url, SecretStr(server.key), MODEL, **settings)))
        limits = Limits(question_seconds=BUDGET)
        return Desk(store.database, pen=writers[-1], rules=Rules.parse([]), limits=limits)

    yield desk
    for writer in writers:
        await writer.close()


@pytest.mark.parametrize(
    "way", [Hang(60.0), NEVER, Status(429, 0.4), Status(500), Cut()], ids=lambda way: type(way).__name__
)
async def test_a_model_that_never_answers_costs_no_more_than_the_budget(
    sitting: Callable[..., Desk], server: OpenAIServer, way: Scripted
) -> None:
    """Silence, a text without an end, refusals and cut streams, at every call of a follow-up question: the answer is
    quotations, long before any one call would have been given up."""
    server.default = lambda body: way
    began = time.monotonic()
    outcome = await sitting().ask("And what is the contract penalty then?", history=TALKED)
    assert time.monotonic() - began < LATE
    assert outcome.draft is not None
    assert outcome.draft.kind == "extractive"
    assert "model" in outcome.degraded


@pytest.mark.parametrize("silent", ["rewrite", "assess"])
async def test_what_prepares_a_draft_leaves_half_of_the_time(
    sitting: Callable[..., Desk], server: OpenAIServer, silent: str
) -> None:
    """A rewrite or a choice of tools that hangs does not take the draft's time: the model still writes it."""

    def half_silent(body: Mapping[str, Any]) -> Scripted:
        assessing = bool(body.get("tools"))
        drafting = body["max_completion_tokens"] == 1_000
        return (
            Hang(60.0)
            if (assessing if silent == "assess" else not assessing and not drafting)
            else parrot(body)
        )

    server.default = half_silent
    outcome = await sitting().ask("And what is the contract penalty then?", history=TALKED)
    assert outcome.draft is not None
    assert outcome.draft.kind == "model"
    assert outcome.degraded == (("rewrite",) if silent == "rewrite" else ("tools",))


async def test_another_model_is_left_half_of_the_time(
    sitting: Callable[..., Desk], server: OpenAIServer
) -> None:
    """Where a fallback is named, the silence of the role's own model does not eat the time of both."""
    server.default = lambda body: Hang(60.0) if body["model"] == MODEL else parrot(body)
    outcome = await sitting(fallback="spare-1").ask(PENALTY)
    assert outcome.draft is not None
    assert outcome.draft.kind == "model"


async def test_a_wait_that_would_outlast_the_budget_is_not_begun(
    sitting: Callable[..., Desk], server: OpenAIServer
) -> None:
    """The endpoint asks for five seconds' patience, which it would get otherwise: the question has one."""
    server.default = lambda body: Status(429, 5.0)
    desk = sitting()
    began = time.monotonic()
    outcome = await desk.ask(PENALTY)
    assert time.monotonic() - began < 5.0
    assert outcome.draft is not None
    assert outcome.draft.kind == "extractive"
    assert len(server.received) == 1


async def test_tools_share_the_time(sitting: Callable[..., Desk], server: OpenAIServer) -> None:
    """A search by tool that hangs is cut when the question's time is up, and the question is answered."""

    class Stuck(Shelf):
        async def search(self, query: str, *others: Any, **options: Any) -> Any:
            if query == "annual leave manager":
                await asyncio.sleep(60.0)
            return await super().search(query, *others, **options)

    server.script(Call("search_knowledge_base", {"query": "annual leave manager", "top_k": 2}))
    desk = sitting()
    desk.shelf = Stuck(desk.shelf.passages_, confidence=0.9)
    began = time.monotonic()
    outcome = await desk.ask(HOP)
    assert time.monotonic() - began < 8.0  # a tool alone may take ten seconds
    assert outcome.draft is not None
    assert [row["error"] for row in outcome.tools] == ["timeout"]


async def test_outside_of_a_run_nothing_is_bounded() -> None:
    """Time is counted for the block alone, and what has passed is none left."""
    assert left() == float("inf")
    with within(0.0):
        assert left() == 0.0
        with within(60.0):
            assert 59.0 < left() <= 60.0
        run = await builtin_registry().run(SEARCH, Context(asked(HOP), Desk().deps))
        assert run.error == "timeout"
    assert left() == float("inf")
