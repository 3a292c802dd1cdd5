"""Tools a model may call between searching and drafting."""

from rag_graph.tools.builtin import builtin_registry
from rag_graph.tools.registry import Registry

__all__ = ["Registry", "builtin_registry"]
