"""The model writer against a loopback endpoint that streams, calls tools and fails in every way."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
from langchain_core.messages import AIMessageChunk
from pydantic import SecretStr

from rag_graph.contracts import Material, ModelUnavailable, Question, Turn
from rag_graph.models import ModelSettings, ModelWriter, RoleSettings
from rag_graph.streaming import SentenceStream, Telling
from rag_graph.tools import builtin_registry
from tests.emulators.openai import (
    MODEL,
    Call,
    Cut,
    Empty,
    Hang,
    Malformed,
    OpenAIServer,
    Say,
    Scripted,
    Status,
)
from tests.shelf import passage

QUESTION = Question("q1", "c1", "How many days of leave?", "en", "web:ada", ("everyone",))
MATERIAL = Material((passage(1, "Annual leave is 15 days."), passage(2, "Unused days expire in March.")))
QUICK = {"first_wait": 0.01, "longest_wait": 0.2, "silence": 0.3, "timeout": 2.0}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def writer(server: OpenAIServer) -> AsyncIterator[ModelWriter]:
    made = ModelWriter(ModelSettings(server.base_url, SecretStr(server.key), MODEL, **QUICK))  # type: ignore[arg-type]
    yield made
    await made.close()


async def test_a_draft_is_streamed_and_counted(writer: ModelWriter, server: OpenAIServer) -> None:
    """The text comes back whole with the endpoint's own token counts, asked for at temperature .2."""
    server.script(Say("You get 15 days. [1]"))
    written = await writer.draft(QUESTION, [], "", MATERIAL)
    assert (written.text, written.kind) == ("You get 15 days. [1]", "model")
    assert written.tokens["prompt"] > 100
    assert written.tokens["completion"] == 5
    body = server.received[0].body
    assert body["stream"] is True
    assert body["temperature"] == 0.2
    assert body["max_completion_tokens"] == 1_000
    assert "tools" not in body  # the answering model has none: documents cannot make it act


async def test_the_prompt_holds_documents_question_and_guidance(
    writer: ModelWriter, server: OpenAIServer
) -> None:
    """Passages, question, earlier turns and a reviewer's hint all reach the model."""
    server.script(Say("Fifteen. [1]"))
    material = Material(MATERIAL.passages, guidance="Name the deadline too.")
    await writer.draft(QUESTION, [Turn("q0", "Hello?", "Hi.")], "Talked of travel.", material)
    (prompt,) = server.prompts()
    for said in ("15 days", "expire in March", "How many days of leave?", "Hi.", "Talked of travel."):
        assert said in prompt
    assert "Name the deadline too." in prompt


async def test_a_rewrite_is_one_line_at_its_own_temperature(
    writer: ModelWriter, server: OpenAIServer
) -> None:
    """Quotation marks and further lines that a model adds are taken off."""
    server.script(Say('"When does annual leave expire?"\nThis is clearer.'))
    written = await writer.rewrite(QUESTION, [Turn("q0", "Annual leave?", "15 days.")], "", "carry_over")
    assert written is not None
    assert written.text == "When does annual leave expire?"
    assert server.received[0].body["temperature"] == 0.6
    assert "Annual leave?" in server.prompts()[0]


async def test_roles_may_have_models_of_their_own(server: OpenAIServer) -> None:
    """A role's model replaces the common one for that role alone."""
    roles = {
        "draft": RoleSettings(0.1, 500, "big-1"),
        "rewrite": RoleSettings(0.7, 100),
        "assess": RoleSettings(0, 100),
        "summarise": RoleSettings(0, 100),
    }
    writer = ModelWriter(ModelSettings(server.base_url, SecretStr(server.key), MODEL, roles))  # type: ignore[arg-type]
    await writer.draft(QUESTION, [], "", MATERIAL)
    await writer.summarise("", [Turn("q0", "Annual leave?", "15 days.")], "en")
    assert [request.body["model"] for request in server.received] == ["big-1", MODEL]
    await writer.close()


async def test_tool_calls_come_back_with_their_arguments(writer: ModelWriter, server: OpenAIServer) -> None:
    """Assessing offers the registry's tools and returns the call that the model makes."""
    server.script(Call("search_knowledge_base", {"query": "carry-over", "top_k": 3}))
    written = await writer.assess(QUESTION, MATERIAL, builtin_registry())
    (call,) = written.tool_calls
    assert (call.name, call.arguments) == ("search_knowledge_base", {"query": "carry-over", "top_k": 3})
    assert call.id.startswith("call_")
    names = [tool["function"]["name"] for tool in server.received[0].body["tools"]]
    assert names == ["search_knowledge_base", "open_section", "list_documents", "today"]


async def test_broken_arguments_stay_as_they_were_written(writer: ModelWriter, server: OpenAIServer) -> None:
    """Half a JSON object is not completed by guessing; the registry answers it with a correction."""
    server.script(Call("search_knowledge_base", '{"query": "carry-o'))
    written = await writer.assess(QUESTION, MATERIAL, builtin_registry())
    assert written.tool_calls[0].arguments == '{"query": "carry-o'


async def test_enough_is_no_call(writer: ModelWriter, server: OpenAIServer) -> None:
    """A model that has what it needs asks for no tool."""
    server.script(Say("ENOUGH"))
    assert (await writer.assess(QUESTION, MATERIAL, builtin_registry())).tool_calls == ()


@pytest.mark.parametrize(
    "failure",
    [
        Status(429, 0.01),
        Status(500),
        Status(503),
        Cut(),
        Hang(5),
        Malformed(),
        Empty(),
        Empty(content=True),
    ],
    ids=repr,
)
async def test_a_passing_failure_is_tried_again(
    writer: ModelWriter, server: OpenAIServer, failure: Scripted
) -> None:
    """One 429, 5xx, cut, silent, broken or empty answer is retried, and the next one used."""
    server.script(failure, Say("Fifteen days. [1]"))
    written = await writer.draft(QUESTION, [], "", MATERIAL)
    assert written.text == "Fifteen days. [1]"
    assert len(server.received) == 2


@pytest.mark.parametrize(
    "failure", [Status(500), Cut(), Hang(5), Malformed(), Empty(), Status(429)], ids=repr
)
async def test_a_lasting_failure_is_a_domain_error(
    writer: ModelWriter, server: OpenAIServer, failure: Scripted
) -> None:
    """After three attempts the writer gives up with `ModelUnavailable`."""
    server.script(*[failure] * 4)
    with pytest.raises(ModelUnavailable):
        await writer.draft(QUESTION, [], "", MATERIAL)
    assert len(server.received) == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
async def test_other_4xx_are_never_retried(writer: ModelWriter, server: OpenAIServer, code: int) -> None:
    """A request that is wrong stays wrong: one attempt, then the domain error."""
    server.script(Status(code))
    with pytest.raises(ModelUnavailable, match=str(code)):
        await writer.draft(QUESTION, [], "", MATERIAL)
    assert len(server.received) == 1


async def test_retry_after_is_obeyed(writer: ModelWriter, server: OpenAIServer) -> None:
    """The wait that the endpoint names is waited."""
    server.script(Status(429, retry_after=0.15), Say("Fifteen. [1]"))
    await writer.draft(QUESTION, [], "", MATERIAL)
    first, second = server.received
    assert 0.15 <= second.at - first.at < 1


async def test_a_long_retry_after_ends_the_attempts(writer: ModelWriter, server: OpenAIServer) -> None:
    """Who is told to come back in an hour gives up now; the asker gets quotations instead."""
    server.script(Status(429, retry_after=3600))
    started = time.monotonic()
    with pytest.raises(ModelUnavailable):
        await writer.draft(QUESTION, [], "", MATERIAL)
    assert time.monotonic() - started < 1
    assert len(server.received) == 1


async def test_nobody_listening_is_a_domain_error() -> None:
    """An address where nothing answers ends like any other failure."""
    with OpenAIServer() as server:
        url = server.base_url
    writer = ModelWriter(ModelSettings(url, SecretStr("k"), MODEL, **QUICK))  # type: ignore[arg-type]
    with pytest.raises(ModelUnavailable):
        await writer.draft(QUESTION, [], "", MATERIAL)
    await writer.close()


async def test_an_endless_answer_is_cut_off(server: OpenAIServer) -> None:
    """A stream that never falls silent and never ends is bounded by the whole answer's time-out."""
    settings = ModelSettings(
        server.base_url, SecretStr(server.key), MODEL, silence=0.3, timeout=0.4, attempts=1
    )
    writer = ModelWriter(settings)
    server.script(Say("word " * 400, piece=5, pause=0.05))
    with pytest.raises(ModelUnavailable):
        await writer.draft(QUESTION, [], "", MATERIAL)
    await writer.close()


class Deaf:
    """A stream that loses cancellations, as Python 3.11's `wait_for` does when a chunk is just there."""

    def __init__(self) -> None:
        self.closed = False

    async def astream(self, messages: object) -> AsyncIterator[AIMessageChunk]:
        try:
            for _ in range(1_000):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.02)
                yield AIMessageChunk(content="word ")
        finally:
            self.closed = True


async def test_a_lost_cancellation_does_not_lift_the_limit() -> None:
    """Where the stream swallows the time-out, the next chunk ends it, and the stream is closed."""
    settings = ModelSettings(
        "http://127.0.0.1:1", SecretStr("none"), MODEL, silence=0.3, timeout=0.1, attempts=1
    )
    deaf, writer = Deaf(), ModelWriter(settings)
    writer._chat._models["draft"] = deaf  # type: ignore[assignment]
    with pytest.raises(ModelUnavailable):
        await writer.draft(QUESTION, [], "", MATERIAL)
    assert deaf.closed
    await writer.close()


async def test_nothing_is_traced_even_when_the_shell_asks_for_it(
    writer: ModelWriter, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A developer's LANGSMITH_TRACING does not send prompts anywhere."""
    with OpenAIServer() as tracer:
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGCHAIN_TRACING_V2", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", tracer.base_url)
        monkeypatch.setenv("LANGSMITH_API_KEY", tracer.key)
        await writer.draft(QUESTION, [], "", MATERIAL)
        await asyncio.sleep(0.3)
        assert tracer.hits == 0


# --- streaming --------------------------------------------------------------------------------------------------


async def heard(writer: ModelWriter) -> tuple[list[str], str]:
    pieces: list[str] = []

    async def hear(piece: str) -> None:
        pieces.append(piece)

    written = await writer.draft(QUESTION, [], "", MATERIAL, hear)
    return pieces, written.text


async def test_sentences_are_told_whole_and_in_order(writer: ModelWriter, server: OpenAIServer) -> None:
    """Each piece ends with its sentence's citation, and the pieces joined are the text."""
    server.script(Say("You get 15 days. [1] They expire in March [2]. Ask HR.", piece=3))
    pieces, text = await heard(writer)
    assert [piece.strip() for piece in pieces] == [
        "You get 15 days. [1]",
        "They expire in March [2].",
        "Ask HR.",
    ]
    assert "".join(pieces) == text


async def test_told_sentences_are_harmless(writer: ModelWriter, server: OpenAIServer) -> None:
    """Mentions, links and marks that point nowhere are taken out before anybody hears them."""
    server.script(Say("Ask <!channel> now [7]. See [here](https://evil.example/x) [2]. Done.", piece=4))
    pieces, _ = await heard(writer)
    said = "".join(pieces)
    assert "<!channel>" not in said
    assert "https://" not in said
    assert "[7]" not in said
    assert "[1]" in said  # what was [2] is the first passage cited, and numbered so from the start


async def test_a_refusal_is_not_told(writer: ModelWriter, server: OpenAIServer) -> None:
    """NO_ANSWER is for the graph, not for the asker."""
    server.script(Say("NO_ANSWER", piece=2))
    pieces, text = await heard(writer)
    assert pieces == []
    assert text == "NO_ANSWER"


async def test_a_retry_tells_nothing_twice(writer: ModelWriter, server: OpenAIServer) -> None:
    """After a cut in mid-stream the second attempt stays silent; the result is the second attempt's."""
    server.script(Cut("You get 15 days. [1] They exp"), Say("Fifteen days it is. [1] Ask HR."))
    pieces, text = await heard(writer)
    assert pieces == ["You get 15 days. [1] "]
    assert text == "Fifteen days it is. [1] Ask HR."


def test_chinese_sentences_are_cut_too() -> None:
    """Full-width full stops end a piece; a mark that follows stays with its sentence."""
    stream = SentenceStream()
    pieces = [piece for character in "年假15天。[1]逾期作废。[2]" for piece in stream.feed(character)]
    assert pieces + stream.finish() == ["年假15天。[1]", "逾期作废。[2]"]


async def test_a_listener_of_nothing_costs_nothing() -> None:
    """Without a listener text goes nowhere."""
    telling = Telling(None)
    await telling.feed("One. Two. Three.")
    await telling.finish()
