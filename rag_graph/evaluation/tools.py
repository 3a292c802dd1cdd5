"""Choosing among tools: the right one of N, and none where none fits. Both read sets of two public shapes."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.logistic import logistic, logits
from rag_graph.evaluation.results import Result, share
from rag_graph.tools.choosing import Card, background, features, fit, rank
from store.embedding import Embedder

__all__ = ["choosing", "chosen_among", "fitted", "fitting"]

SIZES = (5, 10, 20, 50, 100)
FOLDS = 5
PARTINGS = 10
KEPT = 0.95  # of right calls

Query = Mapping[str, Any]
Array = np.ndarray[Any, Any]


async def choosing(chosen: EvaluationSet, embedder: Embedder, config: Mapping[str, Any]) -> list[Result]:
    """A corpus of tools and questions whose answer is one of them, or functions offered with each question."""
    if chosen.rows:
        return [await _among(chosen, embedder, config)]
    if all("functions" in query for query in chosen.queries):
        return await _offered(chosen, embedder, config)
    raise SetUnusable(f"{chosen.name} has neither a corpus of tools nor functions in its queries.")


# --- one of N ----------------------------------------------------------------------------------------------------


async def _among(chosen: EvaluationSet, embedder: Embedder, config: Mapping[str, Any]) -> Result:
    """Top-1 with the right tool and N-1 others, and top-5 among all, of the questions that one tool answers."""
    queries = [query for query in chosen.queries if len(query.get("answer", ())) == 1]
    cards = [Card(row.id, row.text.partition(":")[2].strip() or row.text) for row in chosen.rows]
    vectors = await _unit(embedder, [row.text for row in chosen.rows])
    places = {row.id: place for place, row in enumerate(chosen.rows)}
    hits: dict[str, list[bool]] = {}
    for query in queries:
        right = places[query["answer"][0]]
        cosines = vectors @ _normed(await embedder.query(query["text"])) if vectors is not None else None
        for size in (*(size for size in SIZES if size < len(cards)), len(cards)):
            offered = [
                places[id_] for id_ in chosen_among(query["id"], query["answer"][0], list(places), size)
            ]
            near = None if cosines is None else [float(cosines[place]) for place in offered]
            ranked = [offered[at] for at, _ in rank(query["text"], [cards[place] for place in offered], near)]
            hits.setdefault(f"top1@{size}", []).append(ranked[0] == right)
        hits.setdefault(f"top5@{len(cards)}", []).append(right in ranked[:5])
    return Result(chosen.name, len(queries), {name: share(told) for name, told in hits.items()}, config)


def chosen_among(query: str, right: str, names: Sequence[str], size: int) -> list[str]:
    """`right` and the `size` - 1 others with the smallest hash of question and tool: the sets are nested in `size`."""

    def place(name: str) -> str:
        return hashlib.sha256(f"{query}|{name}".encode()).hexdigest()

    return [right, *sorted((name for name in names if name != right), key=place)[: size - 1]]


# --- functions offered, or none that fits ---------------------------------------------------------------------------


async def fitting(chosen: EvaluationSet, embedder: Embedder) -> list[tuple[Query, str, dict[str, float]]]:
    """Each question with the name that is ranked first and the features of its fit."""
    others = await _unit(embedder, background())
    if others is None:
        raise SetUnusable("Whether a tool fits is judged by vectors: an embedding model is needed.")
    rows = []
    for query in chosen.queries:
        cards = [Card(f["name"], f["description"], f.get("parameters", {})) for f in query["functions"]]
        asked = _normed(await embedder.query(query["text"]))
        cosines = (await _unit(embedder, [card.text for card in cards])) @ asked
        best = rank(query["text"], cards, [float(near) for near in cosines])[0][0]
        found = features(query["text"], cards[best], float(cosines[best]), [float(o) for o in others @ asked])
        rows.append((query, cards[best].name, found))
    return rows


async def _offered(chosen: EvaluationSet, embedder: Embedder, config: Mapping[str, Any]) -> list[Result]:
    """The right name by type, and how many questions that none fits are recognised: as shipped, and by folds."""
    rows = await fitting(chosen, embedder)
    kinds = sorted({str(query["type"]) for query, _, _ in rows})
    results = []
    for kind in kinds:
        members = [row for row in rows if row[0]["type"] == kind]
        told = [fit(found) >= 0.5 for _, _, found in members]
        if any(query["answer"] for query, _, _ in members):
            right = share([best in query["answer"] for query, best, _ in members])
            figures = {"right name": right, "called": share(told)}
        else:
            figures = {"recognised": share([not called for called in told])}
        results.append(Result(f"{chosen.name}: {kind}", len(members), figures, config))
    right_calls = [found for query, best, found in rows if best in query["answer"]]
    none_fits = [found for query, _, found in rows if not query["answer"]]
    if right_calls and none_fits:
        figures = {
            "irrelevance recognised by folds": by_folds(right_calls, none_fits),
            "right calls kept": KEPT,
        }
        results.append(Result(chosen.name, len(rows), figures, config))
    return results


def by_folds(right: Sequence[Mapping[str, float]], none: Sequence[Mapping[str, float]]) -> float:
    """The share of `none` below the line that 95 % of `right` are above, each judged by a model that did not see it.

    The mean of ten ways to part them in five, which differ by a few points."""
    inputs, fits = _matrix(right, none)
    shares = []
    for parting in range(PARTINGS):
        told = np.zeros(len(fits))
        folds = np.random.default_rng(parting).integers(0, FOLDS, len(fits))
        for fold in range(FOLDS):
            weights = logistic(inputs[folds != fold], fits[folds != fold])
            told[folds == fold] = logits(inputs[folds == fold], weights)
        shares.append((told[~fits] < np.quantile(told[fits], 1 - KEPT)).mean())
    return round(float(np.mean(shares)), 4)


def fitted(right: Sequence[Mapping[str, float]], none: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The content of rag_graph/tools/fitting.json; its intercept puts the line at .5."""
    inputs, fits = _matrix(right, none)
    names = list(right[0])
    raw = np.array([[row[name] for name in names] for row in (*right, *none)])
    weights = logistic(inputs, fits)[1:] / (raw.std(axis=0) + 1e-9)
    line = float(np.quantile(raw[fits] @ weights, 1 - KEPT))
    return {
        "intercept": round(-line, 5),
        "weights": {name: round(float(w), 5) for name, w in zip(names, weights, strict=True)},
        "n": len(fits),
        "recognised_by_folds": by_folds(right, none),
    }


def _matrix(right: Sequence[Mapping[str, float]], none: Sequence[Mapping[str, float]]) -> tuple[Array, Array]:
    raw = np.array([list(row.values()) for row in (*right, *none)])
    fits = np.array([True] * len(right) + [False] * len(none))
    return (raw - raw.mean(axis=0)) / (raw.std(axis=0) + 1e-9), fits


async def _unit(embedder: Embedder, texts: Sequence[str]) -> Array | None:
    """Unit vectors of `texts`; None without a model."""
    made = await embedder.passages(list(texts))
    return np.stack([_normed(vector) for vector in made]) if made else None


def _normed(vector: Sequence[float]) -> Array:
    values = np.asarray(vector, dtype=float)
    return values / (math.sqrt(float(values @ values)) or 1.0)
