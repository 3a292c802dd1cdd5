"""The question graph, drawn. What each node does is in `nodes.py`, how a run is driven in `advance.py`.

The ten names are a persistence format: a checkpoint that waits at `review` for two weeks finds its way by name, and
a renamed node loses the draft without an error. Frozen checkpoints of every paused shape are loaded in the tests.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from rag_graph import nodes
from rag_graph.contracts import Deps
from rag_graph.state import QuestionState, ReviewStatus

__all__ = ["EDGES", "NODES", "RETRIEVE", "Node", "QuestionGraph", "build_question_graph"]

LOOKUP_VERIFIED: Final = "lookup_verified"
ROUTE: Final = "route"
CLARIFY: Final = "clarify"
REWRITE: Final = "rewrite"
RETRIEVE: Final = "retrieve"
TOOLS: Final = "tools"
DRAFT: Final = "draft"
DECLINE: Final = "decline"
REVIEW: Final = "review"
PUBLISH: Final = "publish"
END: Final = "__end__"  # langgraph's END, as a literal


class Node(Protocol):
    """The one call shape of all nodes."""

    def __call__(self, state: QuestionState, *, runtime: Runtime[Deps]) -> Awaitable[dict[str, Any]]: ...


QuestionGraph = CompiledStateGraph[QuestionState, Deps, QuestionState, QuestionState]

NODES: Mapping[str, Node] = MappingProxyType(
    {
        LOOKUP_VERIFIED: nodes.lookup_verified,
        ROUTE: nodes.route,
        CLARIFY: nodes.clarify,
        REWRITE: nodes.rewrite,
        RETRIEVE: nodes.retrieve,
        TOOLS: nodes.tools,
        DRAFT: nodes.draft,
        DECLINE: nodes.decline,
        REVIEW: nodes.review,
        PUBLISH: nodes.publish,
    }
)


def after_lookup(state: QuestionState) -> Literal["publish", "route"]:
    """A question that was signed off before, and whose sources are unchanged, is answered at once."""
    return PUBLISH if state.get("draft") else ROUTE


def after_route(state: QuestionState) -> Literal["clarify", "publish", "rewrite"]:
    """Too vague: one question back. Small talk or about the bot: said at once. Everything else is searched."""
    if state.get("draft"):
        return PUBLISH
    return CLARIFY if state["notes"]["route"] == "clarify" else REWRITE


def after_rewrite(state: QuestionState) -> Literal["publish", "retrieve"]:
    """A follow-up that, made whole, was signed off before is answered at once too."""
    return PUBLISH if state.get("draft") else RETRIEVE


def after_retrieve(state: QuestionState) -> Literal["rewrite", "tools", "draft", "decline"]:
    """A tool is needed; or it is good enough; or another way is left; or it is not known."""
    if state.get("tool_calls"):
        return TOOLS
    found = state["notes"]["found"]
    if found == "enough":
        return DRAFT
    return REWRITE if found == "weak" else DECLINE


def after_draft(state: QuestionState) -> Literal["publish", "review", "decline"]:
    """Nothing supported to say; or the policy holds it for a person; or it may go out."""
    if not state.get("draft"):
        return DECLINE
    return REVIEW if state["review_status"] == ReviewStatus.PENDING else PUBLISH


def after_review(state: QuestionState) -> Literal["publish", "retrieve", "decline"]:
    """Signed off; or sent back with something to go by; or refused for good, or out of time."""
    if state["review_status"] in (ReviewStatus.APPROVED, ReviewStatus.EDITED):
        return PUBLISH
    return RETRIEVE if state["notes"]["again"] else DECLINE


def after_publish(state: QuestionState) -> Literal["retrieve", "decline", "__end__"]:
    """Sources that changed since the draft was written send it back; otherwise this is the end."""
    if state.get("answer"):
        return END
    return RETRIEVE if state["notes"]["again"] else DECLINE


EDGES: Mapping[str, tuple[Callable[[QuestionState], str], tuple[str, ...]]] = MappingProxyType(
    {
        LOOKUP_VERIFIED: (after_lookup, (PUBLISH, ROUTE)),
        ROUTE: (after_route, (CLARIFY, PUBLISH, REWRITE)),
        REWRITE: (after_rewrite, (PUBLISH, RETRIEVE)),
        RETRIEVE: (after_retrieve, (REWRITE, TOOLS, DRAFT, DECLINE)),
        DRAFT: (after_draft, (PUBLISH, REVIEW, DECLINE)),
        REVIEW: (after_review, (PUBLISH, RETRIEVE, DECLINE)),
        PUBLISH: (after_publish, (RETRIEVE, DECLINE, END)),
    }
)


def build_question_graph(nodes: Mapping[str, Node] = NODES) -> QuestionGraph:
    """The graph, compiled once and without a saver: `advance` copies it for each run with one of its own.

    `nodes` lets a test wrap any of them; the names must be these ten.
    """
    graph = StateGraph(QuestionState, context_schema=Deps)
    for name, node in nodes.items():
        graph.add_node(name, node)

    graph.add_edge(START, LOOKUP_VERIFIED)
    graph.add_edge(TOOLS, RETRIEVE)
    graph.add_edge(CLARIFY, END)
    graph.add_edge(DECLINE, END)
    for source, (choose, targets) in EDGES.items():
        graph.add_conditional_edges(source, choose, {target: target for target in targets})
    return graph.compile()
