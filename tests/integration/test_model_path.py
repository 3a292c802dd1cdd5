"""The whole graph with a language model: a loopback endpoint in the model's place, real Postgres behind it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic import SecretStr

from rag_graph.models import ModelSettings, ModelWriter
from rag_graph.policy import Rules
from store import Store
from tests.desk import HOP, LEAVE, PENALTY, TALKED, Desk, approve, reject
from tests.emulators.openai import MODEL, Call, Cut, Hang, Malformed, OpenAIServer, Say, Scripted, Status
from tests.shelf import passage


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def desk(store: Store, server: OpenAIServer) -> AsyncIterator[Desk]:
    settings = ModelSettings(
        server.base_url, SecretStr(server.key), MODEL, first_wait=0.01, longest_wait=0.1, silence=0.3
    )
    writer = ModelWriter(settings)
    yield Desk(store.database, pen=writer, rules=Rules.parse([]))
    await writer.close()


async def test_a_follow_up_is_rewritten_searched_and_answered(desk: Desk, server: OpenAIServer) -> None:
    """Two calls: one to rewrite, one to draft; the draft answers the question as asked, with the history."""
    server.script(Say("When does annual leave expire?"), Say("It expires on 31 March. [1]"))
    outcome = await desk.ask("When does it expire?", history=TALKED)
    assert outcome.status == "answered"
    assert outcome.rewritten_question == "When does annual leave expire?"
    assert desk.shelf.searches[0][0] == "When does annual leave expire?"
    rewriting, drafting = server.received
    assert (rewriting.body["temperature"], drafting.body["temperature"]) == (0.6, 0.2)
    assert "When does it expire?" in server.prompts()[1]
    assert "How many days of annual leave do I get?" in server.prompts()[1]
    assert outcome.tokens["prompt"] > 0
    assert outcome.tokens["estimated"] > 0


async def test_sentences_arrive_while_the_draft_is_written(desk: Desk, server: OpenAIServer) -> None:
    """Without a rule that could hold it the answer streams, and what was told is what is sent."""
    server.script(Say("Annual leave is 15 days a year. [1] Ask your manager first. [1]", piece=5))
    outcome = await desk.ask(LEAVE)
    assert outcome.draft is not None
    assert "".join(piece for _, piece in desk.heard) == outcome.draft.text
    assert len(desk.heard) == 2


async def test_a_tool_is_called_and_its_result_read(desk: Desk, server: OpenAIServer) -> None:
    """Assess, search again, assess, draft: the second hop's passage is cited."""
    desk.shelf.passages_ = [p for p in desk.shelf.passages_ if p.id in (1, 3)]
    server.script(
        Call("search_knowledge_base", {"query": "annual leave manager", "top_k": 2}),
        Say("ENOUGH"),
        Say("The contract penalty is 2 percent of the price. [1] Ask your manager first. [2]"),
    )
    outcome = await desk.ask(HOP)
    assert outcome.status == "answered"
    assert [row["name"] for row in outcome.tools] == ["search_knowledge_base"]
    assert desk.steps.count("retrieve") == 2
    assert outcome.draft is not None
    assert len(outcome.draft.citations) == 2


async def test_a_bad_call_is_mended_by_the_model(desk: Desk, server: OpenAIServer) -> None:
    """The correction reaches the model, which calls again, rightly."""
    server.script(
        Call("search_knowledge_base", {"query": "annual leave", "top_k": "five"}),
        Call("search_knowledge_base", {"query": "annual leave", "top_k": 5}),
        Say("The contract penalty is 2 percent of the price. [1]"),
    )
    outcome = await desk.ask(HOP)
    assert [row["error"] for row in outcome.tools] == ["invalid", ""]
    assert "valid integer" in server.prompts()[1]


@pytest.mark.parametrize(
    "failure", [Status(500), Status(429), Status(401), Cut(), Hang(5), Malformed()], ids=repr
)
async def test_without_the_model_the_answer_is_quotations(
    desk: Desk, server: OpenAIServer, failure: Scripted
) -> None:
    """Whatever way the endpoint fails, the asker gets quotations, marked so; never silence."""
    server.script(*[failure] * 8)
    outcome = await desk.ask(LEAVE)
    assert outcome.status == "answered"
    assert outcome.degraded == ("model",)
    assert outcome.draft is not None
    assert outcome.draft.kind == "extractive"
    assert "15 days" in outcome.draft.text


async def test_an_endpoint_without_tools_still_writes(desk: Desk, server: OpenAIServer) -> None:
    """A 400 for the assessing call costs the second hop, not the answer."""
    server.script(Status(400), Say("The contract penalty is 2 percent of the price. [1]"))
    outcome = await desk.ask(HOP)
    assert outcome.draft is not None
    assert outcome.draft.kind == "model"
    assert outcome.degraded == ("tools",)


async def test_no_answer_declines_with_what_was_searched(desk: Desk, server: OpenAIServer) -> None:
    """The model's refusal ends in a decline that says what was looked for."""
    server.script(Say("NO_ANSWER"))
    outcome = await desk.ask(LEAVE)
    assert outcome.status == "declined"
    assert outcome.searched == (LEAVE,)
    assert desk.heard == []


async def test_the_hint_reaches_the_model(desk: Desk, server: OpenAIServer) -> None:
    """A reviewer's words are in the second draft's prompt, which streams to nobody."""
    desk.rules = Rules.parse([{"name": "contracts", "collections": ["contracts"], "action": "hold"}])
    server.script(
        Say("The contract penalty is 2 percent of the price. [1]"),
        Say("The contract penalty never exceeds 10 percent. [1]"),
    )
    held = await desk.ask(PENALTY)
    again = await desk.resume(held.interrupt_id, reject(hint="State the ceiling."))
    assert "State the ceiling." in server.prompts()[-1]
    assert again.status == "held"
    assert desk.heard == []
    assert (await desk.resume(again.interrupt_id, approve())).draft == again.draft


ENDLESS = "Annual leave " + "and so on " * 900 + "is 15 days a year."


@pytest.fixture
async def narrow(store: Store, server: OpenAIServer) -> AsyncIterator[Desk]:
    """A model of a small window, and a best passage that is longer than it."""
    settings = ModelSettings(
        server.base_url, SecretStr(server.key), MODEL, window=2_600, attempts=1, first_wait=0.01, silence=0.3
    )
    writer = ModelWriter(settings)
    at = Desk(store.database, pen=writer, rules=Rules.parse([]))
    at.shelf.passages_ = [passage(1, ENDLESS, title="Annual leave"), passage(2, "Leave expires on 31 March.")]
    yield at
    await writer.close()


async def test_what_does_not_fit_is_condensed(narrow: Desk, server: OpenAIServer) -> None:
    """The model is asked to shorten the section, the draft reads the summary under its label, and cites the passage."""
    server.script(Say("Annual leave is 15 days a year. [1] [7]"), Say("Annual leave is 15 days a year. [1]"))
    outcome = await narrow.ask(LEAVE)
    condensing, drafting = server.prompts()
    assert "Condense the passages below" in condensing
    assert "and so on and so on" in condensing
    assert "condensed 1 · Annual leave" in drafting
    assert "Annual leave is 15 days a year. [1]" in drafting
    assert "and so on" not in drafting
    assert outcome.draft is not None
    assert [citation.passage_id for citation in outcome.draft.citations] == [1]
    assert [sentence.support for sentence in outcome.draft.sentences] == ["supported"]


@pytest.mark.parametrize("answer", [Say("It is all about leave."), Status(500)], ids=["no mark", "error"])
async def test_without_a_summary_the_draft_reads_what_fits(
    narrow: Desk, server: OpenAIServer, answer: Scripted
) -> None:
    """A summary that cites nothing, or none at all, costs the long passage and not the answer."""
    server.script(answer, Say("Leave expires on 31 March. [2]"))
    outcome = await narrow.ask(LEAVE)
    assert outcome.status == "answered"
    assert "condensed 1" not in server.prompts()[-1]
    assert outcome.draft is not None
    assert [citation.passage_id for citation in outcome.draft.citations] == [2]
