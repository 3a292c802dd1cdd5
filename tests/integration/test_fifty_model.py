"""The fifty questions with a language model: written by it and judged by it, as whoever has a key runs them."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace

import pytest
from pydantic import SecretStr

from bench.question_set import Item
from bench.scores import judge
from rag_graph.models import ExtractiveWriter, ModelSettings, ModelWriter
from tests.emulators.openai import MODEL, OpenAIServer, Say

pytest.importorskip("faiss", reason="the old chain's index is in the bench extra")

from bench.fifty import ask_old, judged_by
from bench.old_chain import Chunk, Found, OldChain

ITEM = Item(
    id="s99",
    text="How much annual leave?",
    kind="single",
    language="en",
    history=(("user", "Is there leave?"), ("assistant", "Yes.")),
    facts=(("12 days",),),
    sources=(("hr/leave.en.md",),),
    tags=(),
)
ABSENT = replace(ITEM, id="a99", kind="absent", facts=(), sources=())


class Nearest(OldChain):
    """Finds one window, without an embedding model."""

    def __init__(self) -> None:
        self.pasted: list[str] = []

    def retrieve(self, question: str, history: Iterable[tuple[str, str]] = ()) -> Found:
        self.pasted.append(question)
        return Found((Chunk("hr/leave.en.md", "Annual leave is 12 days."),), (0.9,), 1.0, 1.0)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def writer(server: OpenAIServer) -> AsyncIterator[ModelWriter]:
    made = ModelWriter(ModelSettings(server.base_url, SecretStr(server.key), MODEL, attempts=1))
    yield made
    await made.close()


async def test_the_old_chain_is_written_and_judged_by_the_model(
    server: OpenAIServer, writer: ModelWriter
) -> None:
    """Its four windows go to the same prompt as ours, its tokens are counted, and the judge's word stands beside the
    facts that were looked for."""
    server.script(Say("You get twelve days. [1]"), Say("RIGHT"))
    reply = await ask_old(Nearest(), ITEM, writer)
    (told,) = await judged_by(writer, [ITEM], [reply])
    drafting, judging = server.prompts()
    assert "Annual leave is 12 days." in drafting
    assert "Is there leave?" in drafting
    assert "Accepted: 12 days" in judging
    assert reply.cited == ("hr/leave.en.md",)
    assert reply.tokens["prompt"] > 0
    judged = judge(ITEM, told)
    assert (judged.right, judged.told_right) == (False, True)  # in other words, which only a reader sees


async def test_what_is_refused_is_not_judged(server: OpenAIServer, writer: ModelWriter) -> None:
    """NO_ANSWER is a refusal of the old chain too; neither that nor what nobody can answer costs a call."""
    server.script(Say("NO_ANSWER"), Say("Free. [1]"))
    replies = [await ask_old(Nearest(), ITEM, writer), await ask_old(Nearest(), ABSENT, writer)]
    told = await judged_by(writer, [ITEM, ABSENT], replies)
    assert [reply.refused for reply in replies] == [True, False]
    assert [reply.told_right for reply in told] == [False, None]
    assert len(server.prompts()) == 2


async def test_without_a_model_nobody_judges() -> None:
    """The quotations of both chains are measured by the facts alone."""
    reply = await ask_old(Nearest(), ITEM, ExtractiveWriter())
    assert await judged_by(ExtractiveWriter(), [ITEM], [reply]) == [reply]
    assert "12 days" in reply.text
