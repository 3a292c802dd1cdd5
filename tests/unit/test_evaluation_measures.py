"""Our measures of retrieval are the ones that others know by the same names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import store.ingest
from rag_graph.evaluation.retrieving import ndcg, recall

assert store.ingest  # its import switches Haystack's telemetry off
IDS = st.integers(0, 15).map(str)
FOUND = st.lists(IDS, min_size=1, max_size=10, unique=True)
RELEVANT = st.dictionaries(IDS, st.integers(1, 3).map(float), min_size=1, max_size=5)


@given(FOUND, RELEVANT)
@settings(max_examples=60, deadline=None)
def test_ours_are_haystack_s(found: list[str], relevant: dict[str, float]) -> None:
    """Recall and nDCG of any ranking are what Haystack's evaluators give, where they see what ours see: the first
    k documents, and no more relevant ones than k."""
    from haystack import Document
    from haystack.components.evaluators import DocumentNDCGEvaluator, DocumentRecallEvaluator

    told = [[Document(id=one, content=one, score=grade) for one, grade in relevant.items()]]
    for k in (5, 10):
        shown = [[Document(id=one, content=one) for one in found[:k]]]
        recalled = DocumentRecallEvaluator(mode="multi_hit", document_comparison_field="id").run(told, shown)
        gained = DocumentNDCGEvaluator(document_comparison_field="id").run(told, shown)
        assert recall(found, relevant, k) == pytest.approx(recalled["score"])
        assert ndcg(found, relevant, k) == pytest.approx(gained["score"])
