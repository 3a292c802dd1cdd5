"""The public sets that lie beside the project, read by the product's own code (rag_graph/evaluation, store/scratch)."""

from collections.abc import Callable, Mapping
from typing import Any

from bench.question_set import ROOT
from rag_graph.evaluation import EvaluationSet as PublicSet
from rag_graph.evaluation import ReadyEmbedder, datasets
from store.scratch import Row
from store.scratch import fill as store

__all__ = ["DATA", "PublicSet", "ReadyEmbedder", "Row", "available", "load", "store"]

DATA = ROOT.parent / "shared/data"


def available(name: str) -> bool:
    """Whether the public set lies beside the project."""
    return (DATA / name / "queries.jsonl").exists()


def load(
    name: str,
    *,
    document: Callable[[Mapping[str, Any]], str] = datasets.document_of,
    qrels: str = "qrels.tsv",
) -> PublicSet:
    """Read a public set; `document` names the document a corpus row belongs to."""
    return datasets.load(DATA / name, document=document, qrels=qrels)
