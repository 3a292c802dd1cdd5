"""Tool contracts, and what becomes of calls that are wrong."""

import asyncio
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from rag_graph.contracts import Deps, Limits, Question, ToolCall
from rag_graph.models import ExtractiveWriter
from rag_graph.policy import Rules
from rag_graph.tools import Registry, builtin_registry
from rag_graph.tools.builtin import BUILTIN, NoArguments
from rag_graph.tools.contract import Context, Example, Outcome, Tool
from store.errors import DatabaseUnavailable
from store.text import estimate_tokens
from tests.shelf import Shelf, passage

SHELF = [
    passage(1, "Annual leave is 15 days.", document=7, heading=("Leave", "Annual")),
    passage(2, "Unused days expire on 31 March.", document=7, heading=("Leave", "Annual")),
    passage(3, "The board meets in May.", title="Board", audience=("web:ceo",)),
]


def context(shelf: Shelf | None = None) -> Context:
    question = Question("q1", "c1", "How many days?", "en", "web:ada", ("everyone", "web:ada"))
    deps = Deps(
        retriever=shelf or Shelf(list(SHELF)),
        writer=ExtractiveWriter(),
        rules=Rules.parse([]),
        limits=Limits(),
        tools=builtin_registry(),
        today=lambda: date(2025, 3, 3),
    )
    return Context(question, deps)


def call(name: str, arguments: Any = None) -> ToolCall:
    return ToolCall("call_1", name, {} if arguments is None else arguments)


@pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)
def test_a_description_says_when_when_not_and_what_comes_back(tool: Tool) -> None:
    """Every built-in's description carries the five things that a model chooses by, with at least one example."""
    (schema,) = Registry([tool]).schemas()
    text = schema["function"]["description"]
    assert tool.purpose in text
    assert "Use when:" in text
    assert "Do not use when:" in text
    assert "Returns:" in text
    assert tool.examples[0].question in text


@pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)
def test_examples_are_valid_calls(tool: Tool) -> None:
    """The examples that models copy pass the tool's own validation."""
    for example in tool.examples:
        tool.arguments.model_validate(example.arguments)


@pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)
def test_every_parameter_is_described_with_type_meaning_and_example(tool: Tool) -> None:
    """A parameter's schema has a type, a description and an example; unknown parameters are refused."""
    (schema,) = Registry([tool]).schemas()
    parameters = schema["function"]["parameters"]
    assert parameters["additionalProperties"] is False
    for field in parameters["properties"].values():
        assert field["type"]
        assert field["description"]
        assert field["examples"]


def test_the_search_tool_bounds_top_k() -> None:
    """top_k is 1 to 10 and 5 unless said (MISSION B7)."""
    (schema,) = [s for s in builtin_registry().schemas() if s["function"]["name"] == "search_knowledge_base"]
    top_k = schema["function"]["parameters"]["properties"]["top_k"]
    assert (top_k["minimum"], top_k["maximum"], top_k["default"]) == (1, 10, 5)


def test_groups_narrow_what_is_offered() -> None:
    """Asking for one group offers that group's tools and no others."""
    names = [s["function"]["name"] for s in builtin_registry().offering(("calendar",)).schemas()]
    assert names == ["today"]


async def test_search_reads_as_the_asker() -> None:
    """What the asker may not read is not found by a tool either."""
    shelf = Shelf(list(SHELF))
    run = await builtin_registry().run(
        call("search_knowledge_base", {"query": "board meets"}), context(shelf)
    )
    assert run.passages == ()
    assert shelf.searches[0][1] == ("everyone", "web:ada")


async def test_open_section_returns_the_whole_section() -> None:
    """The chunks that share a heading come back in document order."""
    run = await builtin_registry().run(call("open_section", {"passage_id": 2}), context())
    assert [p.id for p in run.passages] == [1, 2]
    assert "31 March" in run.text


async def test_today_and_list_documents_answer_in_text() -> None:
    """Tools without passages answer in words."""
    registry = builtin_registry()
    assert (await registry.run(call("today"), context())).text == "2025-03-03, Monday"
    assert (await registry.run(call("list_documents"), context())).text == "Leave"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"query": "leave", "top_k": "five"}, ["top_k", "integer", '"five"']),
        ({"query": "leave", "top_k": 50}, ["top_k", "less than or equal to 10"]),
        ({"query": ""}, ["query", "at least 2"]),
        ({}, ["query", "required"]),
        ({"query": "leave", "topk": 3}, ["topk", "not permitted"]),
        ('{"query": "lea', ["dictionary", "lea"]),
    ],
)
async def test_a_bad_call_comes_back_as_a_correction(arguments: Any, says: list[str]) -> None:
    """A wrong argument is named with what was given and what is allowed, and a valid call is shown."""
    shelf = Shelf(list(SHELF))
    run = await builtin_registry().run(call("search_knowledge_base", arguments), context(shelf))
    assert run.error == "invalid"
    for word in says:
        assert word in run.text
    assert "Parameters: query, top_k. A valid call:" in run.text
    assert shelf.searches == []


async def test_an_unknown_tool_is_told_what_exists() -> None:
    """A tool that does not exist is answered with the names that do."""
    run = await builtin_registry().run(call("delete_everything"), context())
    assert run.error == "unknown"
    assert "search_knowledge_base, open_section, list_documents, today" in run.text


def tool(run: Callable[[NoArguments, Context], Any]) -> Tool:
    return Tool("slow", "x", "p", "u", (Example("q"),), "a", "r", NoArguments, run)


async def test_a_slow_tool_is_cut_off() -> None:
    """A tool that outlasts its time-out is a result that says so."""

    async def run(_arguments: NoArguments, _context: Context) -> Outcome:
        await asyncio.sleep(5)
        return Outcome("late")

    result = await Registry([tool(run)], timeout=0.02).run(call("slow"), context())
    assert result.error == "timeout"


async def test_a_failing_store_is_a_result() -> None:
    """A tool whose store fails does not end the run."""

    async def run(_arguments: NoArguments, _context: Context) -> Outcome:
        raise DatabaseUnavailable

    result = await Registry([tool(run)]).run(call("slow"), context())
    assert result.error == "unavailable"


async def test_a_long_result_is_cut_at_a_sentence_and_says_so() -> None:
    """A result beyond its token budget ends with a whole sentence and the remark that it was cut."""

    async def run(_arguments: NoArguments, _context: Context) -> Outcome:
        return Outcome("All leave is paid in full. " * 400)

    result = await Registry([tool(run)], result_tokens=100).run(call("slow"), context())
    assert estimate_tokens(result.text) <= 120
    assert result.text.endswith("in full.\n(cut: the result was longer)")


async def test_calls_are_budgeted() -> None:
    """After the last allowed call the model is told to answer."""
    result = await builtin_registry().run(call("today"), context(), already=6)
    assert result.error == "budget"
