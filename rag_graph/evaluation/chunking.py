"""Chunk sizes and overlaps tried on one's own questions: how often one of the first passages answers by itself.

A question says where its answer stands in one of three ways, the first that is there: `gold_excerpts`
({"doc", "start", "end"}, characters of the document's text), `answer` (a list of wordings, one of which a passage
must hold), or the qrels (any passage of a relevant document).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.drawing import Axis, lines
from rag_graph.evaluation.results import Result, share
from store.embedding import Embedder
from store.ingest.split import SplitSettings, guess_profile
from store.ingest.sweep import Excerpt, Piece, first_hit, pieces, score
from store.passages import SearchResult
from store.scratch import Row

__all__ = ["GRID", "Setting", "bars", "plot", "sweep"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Characters of a chunk, and how many of them it repeats of the one before."""

    size: int
    overlap: int

    def __str__(self) -> str:
        return f"{self.size}/{self.overlap}"


GRID = tuple(Setting(size, size * share // 5) for size in (200, 400, 600, 800, 1200) for share in (0, 1))
DEPTHS = (1, 3, 5, 10)
# What models put around a text beyond what they count.
WINDOW_RESERVE = 16

Opened = Callable[[EvaluationSet], AbstractAsyncContextManager[tuple[Any, Mapping[int, str]]]]


async def sweep(
    chosen: EvaluationSet, embedder: Embedder, opened: Opened, config: Mapping[str, Any]
) -> list[Result]:
    """A result for each setting of `GRID`: hit@k, and the characters that the first five passages show.

    `opened` makes a set searchable (a scratch database). Raises `SetUnusable` where there is nothing to cut or ask.
    """
    questions = [query for query in chosen.queries if _answered(query, chosen)]
    if not chosen.rows or not questions:
        raise SetUnusable(
            f"{chosen.name} needs a corpus.jsonl of whole documents, and questions with gold_excerpts, an answer or "
            "qrels."
        )
    return [await _tried(chosen, questions, setting, embedder, opened, config) for setting in GRID]


async def _tried(
    chosen: EvaluationSet,
    questions: Sequence[Mapping[str, Any]],
    setting: Setting,
    embedder: Embedder,
    opened: Opened,
    config: Mapping[str, Any],
) -> Result:
    sizes = SplitSettings(setting.size, setting.overlap, embedder.max_tokens - WINDOW_RESERVE, embedder.count)
    cut = {
        f"{row.id}#{number}": piece
        for row in chosen.rows
        for number, piece in enumerate(pieces(row.id, row.title, row.text, sizes, guess_profile(row.text)))
    }
    languages = {row.id: row.language for row in chosen.rows}
    rows = [Row(id_, piece.document, "", piece.text, languages[piece.document]) for id_, piece in cut.items()]
    places: list[int | None] = []
    recalls: list[float] = []
    shown: list[int] = []
    async with opened(replace(chosen, rows=rows, passage_vectors={})) as (searcher, ids):
        for query in questions:
            found: SearchResult = await searcher.search(query["text"], ["everyone"], top_k=max(DEPTHS))
            ranked = [cut[ids[passage.id]] for passage in found.passages]
            places.append(_place(query, chosen, ranked))
            if excerpts := _excerpts(query):
                recalls.append(score(excerpts, ranked[:5]).recall)
            shown.append(sum(piece.length for piece in ranked[:5]))
    metrics = {f"hit@{k}": share([place is not None and place <= k for place in places]) for k in DEPTHS}
    if recalls:
        metrics["characters found@5"] = round(sum(recalls) / len(recalls), 4)
    metrics |= {"characters shown@5": round(sum(shown) / len(shown), 1), "chunks": float(len(rows))}
    details = {"size": setting.size, "overlap": setting.overlap}
    return Result(
        f"{chosen.name} {setting}", len(questions), metrics, {**config, "chunk": str(setting)}, details
    )


# --- what answers ------------------------------------------------------------------------------------------------


def _answered(query: Mapping[str, Any], chosen: EvaluationSet) -> bool:
    return bool(_excerpts(query) or query.get("answer") or chosen.relevant.get(query["id"]))


def _excerpts(query: Mapping[str, Any]) -> list[Excerpt]:
    gold = query.get("gold_excerpts") or ()
    return [Excerpt(one["doc"], one["start"], one["end"]) for one in gold if one.get("start") is not None]


def _place(query: Mapping[str, Any], chosen: EvaluationSet, ranked: Sequence[Piece]) -> int | None:
    """The place of the first passage that answers, counted from 1."""
    if excerpts := _excerpts(query):
        return first_hit(excerpts, ranked)
    answers = query.get("answer") or ()
    wanted = [_plain(answer) for answer in ([answers] if isinstance(answers, str) else answers) if answer]
    relevant = chosen.relevant.get(query["id"], {})
    for place, piece in enumerate(ranked, 1):
        right = (
            any(answer in _plain(piece.text) for answer in wanted) if wanted else piece.document in relevant
        )
        if right:
            return place
    return None


def _plain(text: str) -> str:
    return re.sub(r"[\s|*]+", "", unicodedata.normalize("NFKC", text).lower())


# --- the picture -------------------------------------------------------------------------------------------------


def bars(rows: Sequence[Mapping[str, Any]], metric: str = "hit@5") -> list[str]:
    """A line of text for each setting, with a bar as long as its `metric`."""
    width = max(len(row["set"]) for row in rows)
    return [
        f"{row['set']:{width}}  {'█' * round(40 * row['metrics'][metric]):40} {row['metrics'][metric]:.2f} {metric}"
        for row in rows
    ]


def plot(rows: Sequence[Mapping[str, Any]], metric: str = "hit@5") -> str:
    """An SVG: `metric` by chunk size, a line for each set and share of overlap."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        size, overlap = row["details"]["size"], row["details"]["overlap"]
        name = f"{row['set'].rpartition(' ')[0]}, overlap {round(100 * overlap / size)} %"
        series.setdefault(name, []).append((size, row["metrics"][metric]))
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    title = f"{metric} by characters of a chunk"
    return lines(title, series, Axis("characters of a chunk"), Axis(metric, shares))
