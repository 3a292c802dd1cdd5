"""A reranker behind its endpoint, or out of Haystack: its order counts, and its failures are marked."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from store import Store
from store.errors import RerankFailed
from store.reranking import EndpointReranker
from store.search import Searcher, SearchSettings
from tests.embedder import HashEmbedder
from tests.emulators.reranker import KEY, MODEL, RerankServer
from tests.knowledge import publish

EVERYONE = ("everyone",)
QUESTION = "quarterly travel budget"


@pytest.fixture
async def server() -> AsyncIterator[RerankServer]:
    async with RerankServer().running() as running:
        yield running


@pytest.fixture
async def reranker(server: RerankServer) -> AsyncIterator[EndpointReranker]:
    made = EndpointReranker(server.url, KEY, MODEL)
    yield made
    await made.close()


@pytest.fixture
async def library(store: Store, embedder: HashEmbedder) -> Store:
    for number in range(6):
        await publish(
            store, embedder, "it", f"{number}.md", [f"budget travel quarterly {'budget ' * number}"]
        )
    await publish(store, embedder, "it", "best.md", ["quarterly travel budget of this very question"])
    return store


def searcher(library: Store, embedder: HashEmbedder, reranker: Any, **settings: Any) -> Searcher:
    return Searcher(library.database.engine, embedder, SearchSettings(**settings), reranker)


async def test_the_rerankers_order_counts(
    library: Store, embedder: HashEmbedder, server: RerankServer, reranker: EndpointReranker
) -> None:
    """The first candidates are judged in one request, and come back in the order of the judgement."""
    server.answer = {"results": [{"index": n, "relevance_score": float(n)} for n in range(7)]}
    plain = await library.search.search(QUESTION, EVERYONE, top_k=7)
    judged = await searcher(library, embedder, reranker, rerank_candidates=7).search(
        QUESTION, EVERYONE, top_k=3
    )
    assert [p.id for p in judged.passages] == [p.id for p in plain.passages][::-1][:3]
    assert [p.reranked for p in judged.passages] == [6.0, 5.0, 4.0]
    assert len(server.requests) == 1
    assert server.requests[0]["query"] == QUESTION
    assert judged.timings["rerank"] > 0
    assert judged.degraded == ()


async def test_a_bare_list_is_a_judgement_too(server: RerankServer, reranker: EndpointReranker) -> None:
    """Text Embeddings Inference answers a list with `score`."""
    server.answer = [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]
    assert await reranker.scores("q", ["a", "b"]) == [0.1, 0.9]


@pytest.mark.parametrize(
    "answer",
    [{"results": []}, {"results": [{"index": 0, "relevance_score": None}]}, {"error": "no"}, [1], "", {"results": 3},
     {"results": [{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 2.0}]}],
)  # fmt: skip
async def test_what_is_no_ranking_is_refused(
    server: RerankServer, reranker: EndpointReranker, answer: Any
) -> None:
    """A judgement that leaves out a passage, or is no number, orders nothing."""
    server.answer = answer
    with pytest.raises(RerankFailed):
        await reranker.scores("q", ["a", "b"])


@pytest.mark.parametrize("trouble", ["slow", "status", "refused"])
async def test_without_its_judgement_the_searchs_order_stands(
    library: Store, embedder: HashEmbedder, server: RerankServer, reranker: EndpointReranker, trouble: str
) -> None:
    """Too slow, failing or unreachable: the same passages as without it, marked, and asked again the next time."""
    if trouble == "slow":
        server.seconds = 1.0
    elif trouble == "status":
        server.status = 503
    else:
        reranker = EndpointReranker("http://127.0.0.1:9", KEY, MODEL)
    plain = await library.search.search(QUESTION, EVERYONE, top_k=3)
    searching = searcher(library, embedder, reranker, rerank_seconds=0.2)
    for _ in range(2):
        found = await searching.search(QUESTION, EVERYONE, top_k=3)
        assert [p.id for p in found.passages] == [p.id for p in plain.passages]
        assert found.degraded == ("rerank",)
    assert len(server.requests) == (0 if trouble == "refused" else 2)
    await reranker.close()


async def test_only_what_the_reader_may_read_is_judged(
    library: Store, embedder: HashEmbedder, server: RerankServer, reranker: EndpointReranker
) -> None:
    """A document of another audience reaches no reranker."""
    await publish(
        library, embedder, "hr", "secret.md", ["quarterly travel budget: secret"], audience=("web:hr",)
    )
    await searcher(library, embedder, reranker).search(QUESTION, EVERYONE)
    assert server.requests
    assert not any("secret" in one for request in server.requests for one in request["documents"])


async def test_a_haystack_ranker_is_called_directly(library: Store, embedder: HashEmbedder) -> None:
    """Any Haystack ranker component judges, without a pipeline around it."""
    from haystack import Document, component

    from store.ingest.component import HaystackReranker

    @component
    class Longest:
        @component.output_types(documents=list[Document])
        def run(self, query: str, documents: list[Document], top_k: int | None = None) -> Mapping[str, Any]:
            return {"documents": sorted(documents, key=lambda one: -len(one.content or ""))[:top_k]}

    found = await searcher(library, embedder, HaystackReranker(Longest(), "longest")).search(
        QUESTION, EVERYONE
    )
    lengths = [len(passage.text) for passage in found.passages]
    assert lengths == sorted(lengths, reverse=True)
    assert found.degraded == ()
