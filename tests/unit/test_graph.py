"""The drawing itself: names, edges, and that a typo in either cannot compile."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from langgraph.graph import END, START, StateGraph

import rag_graph
from rag_graph import graph as drawing
from rag_graph.contracts import Deps
from rag_graph.graph import EDGES, NODES, build_question_graph
from rag_graph.state import QuestionState, merge
from tests.desk import asked

FROZEN = {
    "lookup_verified",
    "route",
    "clarify",
    "rewrite",
    "retrieve",
    "tools",
    "draft",
    "decline",
    "review",
    "publish",
}


def test_the_ten_names_are_frozen() -> None:
    """Node names are a persistence format; a change here loses every waiting draft."""
    assert set(NODES) == FROZEN


@pytest.mark.parametrize("source", EDGES)
def test_every_edge_leads_to_a_node(source: str) -> None:
    """An edge map names nodes (or the end) only, and exactly those that its function may return."""
    choose, targets = EDGES[source]
    assert source in NODES
    assert set(targets) <= {*NODES, END}
    assert set(get_args(get_type_hints(choose)["return"])) == set(targets)


def test_the_end_is_langgraphs_end() -> None:
    """Our literal for the end is the one that LangGraph means."""
    assert drawing.END == END


def test_the_graph_is_the_one_drawn() -> None:
    """Compiled, it has the ten nodes and the arrows of the architecture's picture, no more and no fewer."""
    drawn = build_question_graph().get_graph()
    assert set(drawn.nodes) == {*FROZEN, START, END}
    arrows = {(edge.source, edge.target) for edge in drawn.edges}
    assert arrows == {
        (START, "lookup_verified"),
        ("lookup_verified", "publish"),
        ("lookup_verified", "route"),
        ("route", "clarify"),
        ("route", "publish"),
        ("route", "rewrite"),
        ("rewrite", "publish"),
        ("rewrite", "retrieve"),
        ("retrieve", "rewrite"),
        ("retrieve", "tools"),
        ("retrieve", "draft"),
        ("retrieve", "decline"),
        ("tools", "retrieve"),
        ("draft", "publish"),
        ("draft", "review"),
        ("draft", "decline"),
        ("review", "publish"),
        ("review", "retrieve"),
        ("review", "decline"),
        ("publish", "retrieve"),
        ("publish", "decline"),
        ("publish", END),
        ("clarify", END),
        ("decline", END),
    }


def test_a_misspelt_target_does_not_compile() -> None:
    """An edge to a node that does not exist fails when the graph is built, not when somebody asks."""

    def typo(state: QuestionState) -> str:
        return "pubish"

    graph = StateGraph(QuestionState, context_schema=Deps)
    graph.add_node("route", NODES["route"])
    graph.add_edge(START, "route")
    graph.add_conditional_edges("route", typo, {"pubish": "pubish"})
    with pytest.raises(ValueError, match="pubish"):
        graph.compile()


def test_a_missing_node_does_not_compile() -> None:
    """Nine of the ten are not a graph."""
    with pytest.raises(ValueError, match="decline"):
        build_question_graph({name: node for name, node in NODES.items() if name != "decline"})


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_every_node_has_the_one_call_shape(name: str) -> None:
    """node(state, runtime), asynchronous, and nothing else: synchronous ones in parallel lose writes. Row 12."""
    node: Callable[..., Any] = NODES[name]
    assert list(inspect.signature(node).parameters) == ["state", "runtime"]
    assert inspect.iscoroutinefunction(node)


def test_row_14_resuming_and_going_to_are_never_combined() -> None:
    """langgraph#6534: a goto with a pending interrupt misroutes, so `Command` only ever resumes, in one place."""
    used = {
        path.name: re.findall(r"Command\(([^)]*)", path.read_text(encoding="utf-8"))
        for path in Path(rag_graph.__file__).parent.rglob("*.py")
    }
    assert {name: calls for name, calls in used.items() if calls} == {
        "advance.py": ["resume={interrupt_id: {**decision.to_json("]
    }


def test_notes_are_merged_into_a_new_dict() -> None:
    """A node's notes join the others; neither dict is changed."""
    old, new = {"a": 1, "b": 1}, {"b": 2}
    assert merge(old, new) == {"a": 1, "b": 2}
    assert old == {"a": 1, "b": 1}


def test_string_channels_are_short() -> None:
    """A string channel is repeated in every checkpoint row: only the searched question and a status are strings."""
    hints = get_type_hints(QuestionState)
    assert {name for name, hint in hints.items() if hint is str} == {"rewritten_question", "review_status"}
    assert asked("x").text == "x"
