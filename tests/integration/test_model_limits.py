"""What a model does wrong, played by a loopback endpoint: each ends in an answer that stands, or in none."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from rag_graph.estimate import Estimates
from rag_graph.models import ModelSettings, ModelWriter
from rag_graph.policy import Rules
from rag_graph.record import Asked, Prompts, kept
from store import Store
from store.text import estimate_tokens
from tests.desk import HOP, LEAVE, PENALTY, Desk
from tests.emulators.openai import MODEL, Call, OpenAIServer, Say, Scripted, Status
from tests.emulators.openai_script import content, parrot
from tests.shelf import Shelf, passage

WINDOW = 2_000


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def writing(store: Store, server: OpenAIServer) -> AsyncIterator[Callable[..., Desk]]:
    """A desk whose writer has these settings."""
    writers: list[ModelWriter] = []

    def desk(shelf: Shelf | None = None, hear: Any = None, **settings: Any) -> Desk:
        quick = {"first_wait": 0.01, "longest_wait": 0.1, "silence": 0.5, **settings}
        writers.append(
            ModelWriter(ModelSettings(server.base_url, SecretStr(server.key), MODEL, **quick), hear=hear)
        )
        at = Desk(store.database, pen=writers[-1], rules=Rules.parse([]))
        at.shelf = shelf or at.shelf
        return at

    yield desk
    for writer in writers:
        await writer.close()


async def test_an_infinite_wish_for_tools_ends_at_the_limit(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """A model that always wants one search more is answered from what was found, after the third round."""

    def greedy(body: Mapping[str, Any]) -> Scripted:
        wish = Call("search_knowledge_base", {"query": "more of everything", "top_k": 3})
        return wish if body.get("tools") else parrot(body)

    server.default = greedy
    desk = writing()
    outcome = await desk.ask(HOP)
    assert outcome.status == "answered"
    assert desk.steps.count("retrieve") == desk.limits.hard_iterations
    assert {row["trouble"] for row in outcome.tools} <= {"", "needless"}


async def test_a_tool_call_that_comes_late_in_a_stream_is_heard(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """Words before the call are no answer and are told to nobody; the call is run."""
    search = {"query": "annual leave manager", "top_k": 2}
    server.script(
        Call("search_knowledge_base", search, saying="Let me look up who grants leave first."),
        Say("ENOUGH"),
        Say("The contract penalty is 2 percent of the price. [1]"),
    )
    desk = writing()
    outcome = await desk.ask(HOP)
    assert [row["name"] for row in outcome.tools] == ["search_knowledge_base"]
    assert "look up" not in "".join(piece for _, piece in desk.heard)


@pytest.mark.parametrize(
    "first",
    ["Employees get 40 parking vouchers. [1]", "Employees get 40 parking vouchers. [9]", "Vouchers abound."],
)
async def test_a_draft_that_points_nowhere_is_written_once_more(
    writing: Callable[..., Desk], server: OpenAIServer, first: str
) -> None:
    """Told why, the model writes again; the second draft is the answer, and its tokens count with the first's."""
    server.script(Say(first), Say("Annual leave is 15 days a year. [1]"))
    outcome = await writing().ask(LEAVE)
    assert outcome.draft is not None
    assert outcome.draft.text == "Annual leave is 15 days a year. [1]"
    assert "Your draft could not be used" in server.prompts()[1]
    assert outcome.tokens["prompt"] > estimate_tokens(server.prompts()[1]) // 2


async def test_a_second_draft_that_points_nowhere_is_no_answer(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """It is written once more, not for ever."""
    server.script(Say("Vouchers abound. [7]"), Say("Vouchers abound. [7]"))
    outcome = await writing().ask(LEAVE)
    assert outcome.status == "declined"
    assert len(server.prompts()) == 2


async def test_an_overflow_never_reaches_the_endpoint(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """An endpoint that refuses prompts beyond its window is never asked for one: passages are trimmed before."""

    def strict(body: Mapping[str, Any]) -> Scripted:
        size = sum(len(content(message).encode()) // 4 for message in body["messages"])
        if size > WINDOW:
            return Status(400, message="context_length_exceeded")
        return Say("Annual leave is 15 days a year. [1]")

    server.default = strict
    long = " ".join(f"Rule {n} says that annual leave of group {n} is {n} days a year." for n in range(400))
    shelf = Shelf(
        [passage(n, f"Annual leave is 15 days a year. {long}", title="Annual leave") for n in (1, 2, 3)]
    )
    shelf.confidence = 0.9
    outcome = await writing(shelf, window=WINDOW).ask(LEAVE)
    assert outcome.degraded == ()
    assert outcome.draft is not None
    assert outcome.draft.kind == "model"


async def test_the_estimate_learns_from_the_endpoints_count(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """A quarter of the bytes counted against a third estimated: the next estimate is three quarters of ours."""
    desk = writing()
    await desk.ask(LEAVE)
    assert desk.pen.estimates.factor(MODEL) == pytest.approx(0.75, abs=0.03)


async def test_another_model_answers_where_the_first_gave_up(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """After the attempts the fallback is asked once, and the draft is a model's all the same."""

    def one(body: Mapping[str, Any]) -> Scripted:
        return Status(503) if body["model"] == MODEL else parrot(body)

    server.default = one
    outcome = await writing(fallback="emulated-2", attempts=2).ask(LEAVE)
    assert outcome.degraded == ()
    assert [request.body["model"] for request in server.received] == [MODEL, MODEL, "emulated-2"]


async def test_what_day_it_is_needs_no_document(writing: Callable[..., Desk], server: OpenAIServer) -> None:
    """An answer that stands on a tool's result alone is given, without a citation; an invented one is not."""
    empty = Shelf([], confidence=0.0)
    server.script(Call("today"), Say("ENOUGH"), Say("Today is Monday, 2025-03-03."))
    outcome = await writing(empty).ask("Which date is it today?")
    assert outcome.status == "answered"
    assert outcome.draft is not None
    assert outcome.draft.citations == ()
    assert outcome.draft.audience == ("everyone", "web:ada")


async def test_a_tools_answer_is_not_made_up(writing: Callable[..., Desk], server: OpenAIServer) -> None:
    """Another date than the tool's is no answer."""
    server.script(Call("today"), Say("ENOUGH"), *[Say("Today is Friday, 2025-03-07.")] * 2)
    outcome = await writing(Shelf([], confidence=0.0)).ask("Which date is it today?")
    assert outcome.status == "declined"


async def test_documents_that_disagree_are_both_shown_with_their_dates(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """Each passage reaches the model with its date, and a draft that cites both stands."""
    shelf = Shelf(
        [
            passage(1, "The contract penalty is 2 percent of the price.", title="Contract penalty"),
            passage(2, "The contract penalty is 5 percent of the price.", title="Contract penalty, revised"),
        ],
        confidence=0.9,
    )
    server.script(
        Say(
            "The documents disagree: the penalty is 2 percent of the price [1], or 5 percent of the price [2]."
        )
    )
    outcome = await writing(shelf).ask(PENALTY)
    assert outcome.draft is not None
    assert len(outcome.draft.citations) == 2
    assert server.prompts()[0].count("2025-01-15") == 2


# --- what is kept of a prompt -----------------------------------------------------------------------------------


async def test_the_prompt_is_kept_as_the_setting_allows(
    writing: Callable[..., Desk], server: OpenAIServer
) -> None:
    """Full is what the endpoint got; redacted has the frame without anybody's text; none has the counts alone."""
    heard: list[Asked] = []
    await writing(hear=lambda _, call: heard.append(call)).ask(LEAVE)
    (full,), (redacted,), (none,) = (kept(heard, text) for text in ("full", "redacted", "none"))
    assert "\n".join(m["content"] for m in full["messages"]) == server.prompts()[0]
    shown = "\n".join(m["content"] for m in redacted["messages"])
    assert "Annual leave is 15 days" not in shown
    assert LEAVE not in shown
    assert "document 1" in shown
    assert "messages" not in none
    assert none["counted"] > 0
    assert none["completion"] > 0
    parts = none["parts"]
    assert {"system", "documents", "question", "total"} <= {name for name, tokens in parts.items() if tokens}
    # Each part is rounded up by itself, and blank lines between them are nobody's.
    assert abs(parts["total"] - sum(tokens for name, tokens in parts.items() if name != "total")) <= 8


def test_prompts_are_taken_once_and_abandoned_ones_go() -> None:
    """A run takes its own calls; those of runs that were killed do not pile up."""
    prompts = Prompts("none")
    for n in range(600):
        prompts.hear(f"q{n}", Asked("draft", "m", (), 1, 1))
    assert prompts.take("q0") == ()
    assert len(prompts.take("q599")) == 1
    assert prompts.take("q599") == ()


def test_an_estimate_is_corrected_within_reason() -> None:
    """One odd count moves it by a fifth, none can shrink it to nothing, and 0 is no count."""
    estimates = Estimates({"m": 1.0})
    estimates.learn("m", 100, 50)
    assert estimates.factor("m") == pytest.approx(0.9)
    estimates.learn("n", 100, 1)
    assert estimates.factor("n") == 0.3
    estimates.learn("o", 100, 0)
    assert estimates.factor("o") == 1.0
