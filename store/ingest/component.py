"""Our search inside other people's Haystack pipelines, and their rankers inside our search."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from haystack import Document, component

from store.errors import RerankFailed
from store.passages import Passage, SearchResult

__all__ = ["HaystackReranker", "SignoffRetriever", "wait_for"]

T = TypeVar("T")


class Searches(Protocol):
    """What the retriever needs of `store.search.Searcher`."""

    async def search(
        self, query: str, principals: Collection[str], *, top_k: int = 10, joined_up_to: int = 0
    ) -> SearchResult: ...


def wait_for(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop | None) -> T:
    """The result of `coroutine`, run in `loop` and awaited from another thread; in a loop of its own without one.

    Connections belong to the loop that opened them, which is why a component remembers it.
    """
    if loop is None or loop.is_closed():
        return asyncio.run(coroutine)
    if running_loop() is loop:
        coroutine.close()
        raise RuntimeError("a synchronous run would wait for its own event loop: use run_async, or a thread")
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop this thread runs in, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class HaystackReranker:
    """A Haystack ranker as a `store.reranking.Reranker`, called directly: a pipeline would copy every document.

    Its order is what counts; scores of different rankers mean different things, so a place is the score.
    """

    def __init__(self, ranker: Any, model: str) -> None:
        """`ranker` has `run(query=, documents=, top_k=)`; `model` is the name its order goes by. Warm it up before."""
        self.model = model
        self._ranker = ranker

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Larger is better: the number of texts that are placed after it. Raises `RerankFailed`."""
        documents = [Document(id=str(place), content=text) for place, text in enumerate(texts)]
        try:
            ran = await asyncio.to_thread(
                self._ranker.run, query=query, documents=documents, top_k=len(documents)
            )
            order = [int(document.id) for document in ran["documents"]]
        except Exception as error:  # whatever a component of other people raises
            raise RerankFailed from error
        if sorted(order) != list(range(len(texts))):
            raise RerankFailed("The ranker did not place every passage.")
        return [float(len(order) - order.index(place)) for place in range(len(texts))]


@component
class SignoffRetriever:
    """Passages for a query that `principals` may read, best first.

    Filtering happens inside the search, so a document that the reader may not see never leaves the database. Usage:

        pipeline.add_component("retriever", SignoffRetriever(store.search))
        await pipeline.run_async({"retriever": {"query": "annual leave", "principals": ["everyone"]}})
    """

    def __init__(self, searcher: Searches, top_k: int = 10, joined_up_to: int = 0) -> None:
        """With `joined_up_to` characters, neighbouring chunks come as one document."""
        self.searcher = searcher
        self.top_k = top_k
        self.joined_up_to = joined_up_to
        self._loop = running_loop()

    @component.output_types(documents=list[Document], confidence=float)
    async def run_async(
        self, query: str, principals: list[str], top_k: int | None = None
    ) -> Mapping[str, Any]:
        """Search. `confidence` is in [0, 1]. Raises what the search raises."""
        found = await self.searcher.search(
            query, principals, top_k=top_k or self.top_k, joined_up_to=self.joined_up_to
        )
        return {
            "documents": [_document(passage) for passage in found.passages],
            "confidence": found.confidence,
        }

    @component.output_types(documents=list[Document], confidence=float)
    def run(self, query: str, principals: list[str], top_k: int | None = None) -> Mapping[str, Any]:
        """The same from a thread that is not the event loop's."""
        return wait_for(self.run_async(query, principals, top_k), self._loop)


def _document(passage: Passage) -> Document:
    return Document(
        id=str(passage.id),
        content=passage.text,
        score=passage.score,
        meta={
            "document_id": passage.document_id,
            "version": passage.version,
            "collection": passage.collection,
            "title": passage.title,
            "source": passage.source,
            "heading_path": list(passage.heading_path),
            "page": passage.page,
            "chunks": list(passage.parts or (passage.id,)),
            "language": passage.language,
        },
    )
