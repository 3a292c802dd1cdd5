"""How sure search may be that what it found answers the question. Pure, but for the coefficients it ships with."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from store.ranking import Evidence, Query, Statistics, coverage, foreign
from store.text import sentences
from store.words import lexemes

__all__ = ["READ", "confidence", "features", "load_calibration"]

# A clause or code that no readable passage holds is not answered by its neighbours, however near: at most this sure.
UNHELD = 0.3
# Between languages this model's cosine alone tells little (xquad: .777 median of right pairs, .766 the 95th percentile
# of random ones); what tells is its lead over the fifth document, which a smaller knowledge base does not have.
FEW = 5


READ = 3  # passages that are looked into sentence by sentence


def features(
    evidence: Evidence, query: Query, statistics: Statistics, texts: Sequence[str] = ()
) -> dict[str, float]:
    """What tells an answered question from one whose answer is not there. AUROC alone on noanswer_bilingual, zh/en:

    `similarity` the best cosine (.91/.79) · `margin` its lead over the fifth document (.93/.81) · `bm25` the best
    score by the query's idf (.93/.87) · `lead` that score's lead over the next document, likewise (.93/.80) ·
    `coverage` of the query by the first passage (.93/.88) · `sentence`: its coverage by a single sentence of `texts`,
    the first passages · `agreement`: both legs put one document first (.88/.77) · `ahead`: the first passage's lead in
    the fused list · `lacking` and `held`: the rarest word of the query that it lacks and that it holds, by idf ·
    `words`: how many there are, as a logarithm. `chinese` and `foreign` (the first passage is in the other language)
    choose the model, and say nothing themselves; `unheld` and `few` set a ceiling. Empty when nothing was found.
    """
    first = evidence.first
    if first is None:
        return {}
    idf = statistics.idfs(query.terms)
    whole = sum(idf.values()) or 1.0
    near, scores = _by_document(evidence.similarities), _by_document(evidence.scores)
    held = [idf[term] for term in idf if first.counts.get(term)]
    lacking = [idf[term] for term in idf if not first.counts.get(term)]
    return {
        "similarity": near[0][0] if near else 0.0,
        "margin": near[0][0] - near[min(4, len(near) - 1)][0] if near else 0.0,
        "bm25": scores[0][0] / whole if scores else 0.0,
        "lead": (scores[0][0] - (scores[1][0] if len(scores) > 1 else 0.0)) / whole if scores else 0.0,
        "coverage": coverage(first, idf),
        "agreement": float(bool(near and scores) and near[0][1] == scores[0][1]),
        "ahead": evidence.ahead,
        "lacking": max(lacking, default=0.0) / (max(idf.values(), default=0.0) or 1.0),
        "held": max(held, default=0.0),
        "words": math.log(1 + len(idf)),
        "sentence": max((_said(sentence, idf) for text in texts for sentence in sentences(text)), default=0.0)
        / whole,
        "chinese": float(query.language == "zh"),
        "foreign": float(foreign(first, query.language)),
        "unheld": float(evidence.unheld),
        "few": float(len(near) < FEW),
    }


def _said(sentence: str, idf: Mapping[str, float]) -> float:
    return sum(idf[term] for term in idf.keys() & set(lexemes(sentence)))


def _by_document(values: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    best: dict[int, float] = {}
    for value, document in values:
        best.setdefault(document, value)
    return [(value, document) for document, value in best.items()]


def confidence(found: Mapping[str, float], calibration: Mapping[str, Any] | None) -> tuple[float, bool]:
    """How sure search is that its passages answer, in [0, 1], and whether that is calibrated for the model.

    Without features nothing was found: 0. Without a calibration, keywords alone are judged.
    """
    if not found:
        return 0.0, calibration is not None
    models = calibration or _shipped()["keywords"]
    model = _model(models, found)
    logit = model["intercept"] + sum(weight * found[name] for name, weight in model["weights"].items())
    sure = 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))
    chance = found["few"] and found["foreign"] and not found["bm25"]
    return min(sure, UNHELD) if found["unheld"] or chance else sure, calibration is not None


def _model(models: Mapping[str, Any], found: Mapping[str, float]) -> Mapping[str, Any]:
    """Across languages, or in the question's own; older calibrations have one for both."""
    if found["foreign"] and "foreign" in models:
        chosen: Mapping[str, Any] = models["foreign"]
    else:
        chosen = models.get("zh" if found["chinese"] else "en") or models["same"]
    return chosen


def load_calibration(model: str) -> dict[str, Any] | None:
    """The coefficients that ship with the product for this embedding model, for `spaces.calibration`; or None."""
    found: dict[str, Any] | None = _shipped()["models"].get(model)
    return found


@cache
def _shipped() -> dict[str, Any]:
    """store/calibration.json, which `python -m bench.retrieval fit` writes."""
    loaded: dict[str, Any] = json.loads(resources.files("store").joinpath("calibration.json").read_text())
    return loaded
