"""A second opinion on the first passages: a cross-encoder behind an OpenAI-style `/rerank`."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import aiohttp

from store.errors import RerankFailed
from store.text import clean

__all__ = ["EndpointReranker", "Reranker"]

SECONDS = 10.0
# Read of one passage: cross-encoders take 512 tokens or a little more, and an endpoint refuses what is far longer.
CHARACTERS = 4_000


class Reranker(Protocol):
    """Judges passages against a question. `store.ingest.component.HaystackReranker` makes one of a Haystack ranker."""

    @property
    def model(self) -> str:
        """Its name: results that different models put in order are never taken for each other."""
        ...

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers, in order; larger is better, the scale is the model's. Raises `RerankFailed`."""
        ...


class EndpointReranker:
    """`POST {base_url}/rerank` as vLLM, Jina, Cohere, Infinity and Text Embeddings Inference answer it.

    The connections belong to the event loop of the first call; `close` them there.
    """

    def __init__(self, base_url: str, api_key: str, model: str, *, timeout: float = SECONDS) -> None:
        self.model = model
        self._url = f"{base_url.rstrip('/')}/rerank"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        documents = [clean(text)[:CHARACTERS] for text in texts]
        body = {"model": self.model, "query": clean(query), "documents": documents, "top_n": len(documents)}
        try:
            async with self._opened().post(self._url, json=body, headers=self._headers) as response:
                response.raise_for_status()
                answer = await response.json()
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise RerankFailed from error
        return _scores(answer, len(documents))

    async def close(self) -> None:
        """Close its connections, in the event loop that used them."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self._session


def _scores(answer: Any, expected: int) -> list[float]:
    """Every document's score once, as a number; anything else is no order to trust."""
    rows: Any = answer.get("results") if isinstance(answer, dict) else answer
    try:
        scores = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise RerankFailed("The reranking endpoint answered in a shape that is no ranking.") from error
    if sorted(scores) != list(range(expected)) or not all(map(math.isfinite, scores.values())):
        raise RerankFailed("The reranking endpoint did not judge every passage.")
    return [scores[place] for place in range(expected)]
