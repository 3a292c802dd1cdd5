"""Measuring the decision side: sets in one shape, scorers, and runners that return results and print nothing."""

from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable, load
from rag_graph.evaluation.results import Result, digest
from rag_graph.evaluation.vectors import ReadyEmbedder

__all__ = ["EvaluationSet", "ReadyEmbedder", "Result", "SetUnusable", "digest", "load"]
