"""Knowing when not to answer: questions whose answer is in the corpus against such whose passage was withheld."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

import numpy as np

from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.logistic import Array, apart, auroc, held_out, logistic, logits
from rag_graph.evaluation.results import Result
from store.passages import SearchResult

__all__ = ["abstaining"]

COVERED = 0.95  # of the answerable questions
FOLDS = 5
PARTINGS = 10
CHOOSING = ("chinese", "foreign", "unheld", "few")  # say which model is meant, and nothing themselves


class Source(Protocol):
    """What is measured: a search that also tells what its confidence is made from."""

    async def search(self, query: str, principals: Sequence[str], *, top_k: int = 10) -> SearchResult: ...

    async def features(self, query: str, principals: Sequence[str]) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class _Row:
    language: str
    answerable: bool
    passage: str
    confidence: float
    features: Mapping[str, float]


async def abstaining(chosen: EvaluationSet, searcher: Source, config: Mapping[str, Any]) -> list[Result]:
    """By language: AUROC, and the share of unanswerable questions answered where 95 % of the others are.

    "shipped" is the product's own confidence, which may have been fitted on this very set; "folds" the same kind of
    model, fitted five times without the passages it is judged on: the mean of ten ways to part those in five, which
    differ by several points. A transfer fits one language, judges another.
    """
    queries = [query for query in chosen.queries if query.get("type") in ("answerable", "unanswerable")]
    if not queries:
        raise SetUnusable(f"{chosen.name} has no queries of type answerable and unanswerable.")
    rows = [await _measured(query, chosen, searcher) for query in queries]
    languages = sorted({row.language for row in rows})
    partings = [_by_folds(rows, parting) for parting in range(PARTINGS)]
    results = []
    for spoken in languages:
        members = [row for row in rows if row.language == spoken]
        own = np.array([row.language == spoken for row in rows])
        figures = _figures("shipped", np.array([row.confidence for row in members]), members)
        parted = [_figures("folds", made[own], members) for made in partings]
        figures |= {name: round(fmean(one[name] for one in parted), 4) for name in parted[0]}
        results.append(Result(f"{chosen.name} {spoken}", len(members), figures, config))
    for source in languages:
        for target in (other for other in languages if other != source):
            told = [row for row in rows if row.language == source]
            members = [row for row in rows if row.language == target]
            moved = _figures("transfer", _fitted(told, members), members)
            results.append(Result(f"{chosen.name} {source} → {target}", len(members), moved, config))
    return results


async def _measured(query: Mapping[str, Any], chosen: EvaluationSet, searcher: Source) -> _Row:
    found = await searcher.search(query["text"], ["everyone"], top_k=1)
    gold = next(iter(chosen.relevant.get(query["id"], {})), None)
    # A withheld passage cannot be named: its questions go by the title that they find, its neighbours'.
    passage = gold or (found.passages[0].title if found.passages else query["id"])
    told = await searcher.features(query["text"], ["everyone"])
    kept = {name: value for name, value in told.items() if name not in CHOOSING}
    return _Row(
        str(query.get("lang", "")),
        query["type"] == "answerable",
        passage.split(":")[0],
        found.confidence,
        kept,
    )


def _matrix(rows: Sequence[_Row], names: Sequence[str]) -> Array:
    return np.array([[row.features.get(name, 0.0) for name in names] for row in rows])


def _fitted(told: Sequence[_Row], judged: Sequence[_Row]) -> Array:
    """Logits of `judged` by a model that saw `told` alone."""
    names = sorted({name for row in told for name in row.features})
    inputs = _matrix(told, names)
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0) + 1e-9
    weights = logistic((inputs - centre) / spread, np.array([row.answerable for row in told]))
    return logits((_matrix(judged, names) - centre) / spread, weights)


def _by_folds(rows: Sequence[_Row], parting: int) -> Array:
    """Logits by models that did not see the passage, its questions parted in five in one of many ways."""
    inputs = _matrix(rows, sorted({name for row in rows for name in row.features}))
    scaled = (inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-9)
    folds = np.array([_fold(row.passage, parting) for row in rows])
    chinese = np.array([row.language == "zh" for row in rows])
    return held_out(apart(scaled, chinese), np.array([row.answerable for row in rows]), folds)


def _fold(passage: str, parting: int) -> int:
    salted = f"{passage}{parting or ''}".encode()
    return int(hashlib.md5(salted, usedforsecurity=False).hexdigest(), 16) % FOLDS


def _figures(name: str, scores: Array, rows: Sequence[_Row]) -> dict[str, float]:
    answerable = np.array([row.answerable for row in rows])
    yes, no = scores[answerable], scores[~answerable]
    if not len(yes) or not len(no):
        return {}
    line = np.quantile(yes, 1 - COVERED)
    return {
        f"auroc, {name}": round(auroc(yes, no), 4),
        f"false answers, {name}": round(float((no >= line).mean()), 4),
    }
