"""Many tools: merged, grouped and chosen by what a question wants; tools from elsewhere; troubles told apart."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from rag_graph.contracts import Citation, Draft, ToolCall
from rag_graph.tools import Registry, builtin_registry, troubles
from rag_graph.tools.builtin import BUILTIN
from rag_graph.tools.choosing import Card, background, features, fit, rank, spoken
from rag_graph.tools.contract import Context, Tool, ToolFailed
from rag_graph.tools.offering import Nearness, offered
from rag_graph.tools.outside import Described, outside_tool
from rag_graph.tools.registry import MORE_TOOLS, MOST
from tests.desk import Desk, asked
from tests.embedder import HashEmbedder

ROOMS = {
    "type": "object",
    "properties": {
        "building": {"type": "string", "description": "Which building.", "enum": ["north", "south"]},
        "people": {"type": "integer", "description": "How many come.", "minimum": 1, "maximum": 40},
    },
    "required": ["building"],
}


async def echo(arguments: Mapping[str, Any], _context: Context) -> str:
    return f"free: {sorted(arguments.items())}"


def made(name: str, group: str = "office", purpose: str = "Finds a free meeting room.", **more: Any) -> Tool:
    return outside_tool(Described(name, group, purpose, "a room is wanted.", parameters=ROOMS, **more), echo)


def many(rare: int = 0) -> Registry:
    """The built-in tools and eight more, the last `rare` of them rare."""
    return Registry([*BUILTIN, *(made(f"room_{n}", rare=n >= 8 - rare) for n in range(8))])


def context() -> Context:
    return Context(asked("Is a room free?"), Desk().deps)


# --- merged -----------------------------------------------------------------------------------------------------


def test_of_more_than_ten_tools_rare_ones_are_one() -> None:
    """Rare tools stand behind one with an action; with ten or fewer each stands for itself."""
    names = [schema["function"]["name"] for schema in many(rare=3).schemas()]
    assert len(names) == MOST
    assert names[-1] == MORE_TOOLS
    assert MORE_TOOLS not in [s["function"]["name"] for s in Registry([made("a", rare=True)]).schemas()]


def test_the_merged_tool_names_its_actions() -> None:
    """The model reads each action's parameters and purpose, and may name no other."""
    function = many(rare=3).schemas()[-1]["function"]
    assert function["parameters"]["properties"]["action"]["enum"] == ["room_5", "room_6", "room_7"]
    assert "room_6(building, people): Finds a free meeting room." in function["description"]


async def test_a_merged_call_runs_its_action() -> None:
    """The call behind the action is validated and run as that tool."""
    registry = many(rare=3)
    call = ToolCall("c1", MORE_TOOLS, {"action": "room_6", "arguments": {"building": "north"}})
    run = await registry.run(call, context())
    assert (run.name, run.error, run.text) == ("room_6", "", "free: [('building', 'north')]")
    wrong = ToolCall("c2", MORE_TOOLS, {"action": "room_6", "arguments": {"building": "west"}})
    assert (await registry.run(wrong, context())).error == "invalid"


async def test_a_merged_call_without_an_action_is_answered() -> None:
    """A malformed call comes back as a result that lists what exists."""
    run = await many(rare=3).run(ToolCall("c1", MORE_TOOLS, {"act": 1}), context())
    assert run.error == "unknown"


# --- from elsewhere ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"building": "west"}, "north"),
        ({"people": 3}, "required"),
        ({"building": "north", "people": 99}, "40"),
    ],
)
async def test_an_outside_tool_is_validated_by_its_schema(arguments: dict[str, Any], says: str) -> None:
    """Enums, required parameters and ranges of a JSON schema are held to before anything is called."""
    run = await Registry([made("rooms")]).run(ToolCall("c1", "rooms", arguments), context())
    assert run.error == "invalid"
    assert says in run.text


def test_an_unknown_type_is_refused_at_registration() -> None:
    """A schema with a type of its own is an admin's mistake, said at once."""
    with pytest.raises(ValueError, match=r"rooms\.when has type 'date'"):
        outside_tool(
            Described("rooms", "office", "p", "u", parameters={"properties": {"when": {"type": "date"}}}),
            echo,
        )


@pytest.mark.parametrize(
    ("fault", "error"), [(ToolFailed("no such building"), "failed"), (KeyError("x"), "unavailable")]
)
async def test_whatever_a_tool_raises_is_a_result(fault: Exception, error: str) -> None:
    """A refusal is passed on in its own words; a fault in the tool is not, and neither ends the run."""

    async def broken(_arguments: Mapping[str, Any], _context: Context) -> str:
        raise fault

    tool = outside_tool(Described("rooms", "office", "p", "u"), broken)
    run = await Registry([tool]).run(ToolCall("c1", "rooms", {}), context())
    assert run.error == error
    assert ("no such building" in run.text) is (error == "failed")


async def test_a_tool_has_a_budget_and_a_time_of_its_own() -> None:
    """The second call of a tool that may be called once is refused, whatever is left of the whole budget."""
    registry = Registry([made("rooms", calls=1)])
    call = ToolCall("c1", "rooms", {"building": "north"})
    assert (await registry.run(call, context(), already=0, of_this=0)).error == ""
    assert (await registry.run(call, context(), already=1, of_this=1)).error == "budget"


# --- chosen -----------------------------------------------------------------------------------------------------


def test_names_are_read_as_words() -> None:
    """Snake and camel case are cut where a person would."""
    assert spoken("find_HotelRooms2") == "find Hotel Rooms2"


def test_the_tool_that_shares_words_ranks_first() -> None:
    """Without vectors words decide; with them the nearer tool wins."""
    cards = [Card("weather", "Gives a forecast."), Card("rooms", "Finds a free meeting room.")]
    assert rank("Is a meeting room free?", cards, None)[0][0] == 1
    assert rank("Is a meeting room free?", cards, [0.9, 0.7])[0][0] == 0


def test_what_the_question_lacks_makes_a_tool_unfit() -> None:
    """A question far from the tool, without the number that the call needs, fits less than a near and complete one."""
    card = Card("rooms", "Finds a free meeting room.", {**ROOMS, "required": ["people"]})
    near = features("Find a free room for 12 people", card, 0.9, [0.7, 0.72, 0.74, 0.71])
    far = features("Who was Napoleon?", card, 0.7, [0.7, 0.72, 0.74, 0.71])
    assert fit(near) > 0.5 > fit(far)
    assert len(background()) >= 40


class Near(Nearness):
    """Says 0.95 for what the tool is for, where the question speaks of rooms, and 0.7 of everything else."""

    async def __call__(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        return [
            0.95 if "room" in question.lower() and "meeting room" in text else 0.7 + n % 3 / 100
            for n, text in enumerate(texts)
        ]


async def test_added_tools_are_offered_where_one_fits() -> None:
    """A question about rooms is offered the rooms, any other question none of them."""
    near = Near(HashEmbedder())
    assert "room_0" in (await offered("Find a free meeting room in the north building", many(), near)).names
    assert not await offered("When was the company founded?", many(), near)


async def test_at_most_ten_are_offered_best_group_first() -> None:
    """Groups are taken whole, the best first, until ten tools are full."""
    added = [made(f"desk_{n}", "desks", "Reserves a desk.") for n in range(6)]
    registry = Registry([*added, *(made(f"room_{n}") for n in range(8))])
    names = (
        await offered("Find a free meeting room in the north building", registry, Near(HashEmbedder()))
    ).names
    assert names == tuple(f"room_{n}" for n in range(8))


async def test_nearness_embeds_each_tool_once() -> None:
    """Descriptions do not change between questions."""
    embedder = HashEmbedder()
    near = Nearness(embedder)
    first = await near("a room", ["a room", "a desk"])
    assert first is not None
    assert first[0] > first[1]
    await near("a desk", ["a room", "a desk"])
    assert [text for batch in embedder.passage_batches for text in batch] == ["a room", "a desk"]


def test_built_in_tools_go_by_rule_alone() -> None:
    """No model is asked about tools for a plain question."""
    assert builtin_registry().names == ("search_knowledge_base", "open_section", "list_documents", "today")


# --- troubles ---------------------------------------------------------------------------------------------------


def row(error: str = "", passages: Sequence[int] = (), text: str = "") -> dict[str, Any]:
    return {"name": "x", "error": error, "passages": list(passages), "text": text}


def draft(text: str, kind: str = "model", cited: Sequence[int] = ()) -> Draft:
    stamp = datetime(2025, 1, 1, tzinfo=UTC).isoformat()
    marks = tuple(Citation(n, id_, 1, 1, "t", (), None, "s", stamp, "h") for n, id_ in enumerate(cited, 1))
    return Draft(text, kind, marks)


@pytest.mark.parametrize(
    ("rows", "answer", "expected"),
    [
        ([row("invalid")], draft("x"), ["wrong"]),
        ([row("unknown")], draft("x"), ["wrong"]),
        ([row("timeout")], draft("x"), [""]),
        ([row(passages=[7])], draft("x", cited=[3]), ["needless"]),
        ([row(passages=[7])], draft("x", cited=[3, 7]), [""]),
        ([row(text="2025-03-03, Monday")], draft("Leave is 15 days."), ["needless"]),
        ([row(text="2025-03-03, Monday")], draft("Today is 3 March 2025."), [""]),
        ([], draft("", "declined"), ["missing"]),
        ([], draft("Leave is 15 days."), []),
    ],
)
def test_troubles_are_told_apart(rows: list[dict[str, Any]], answer: Draft, expected: list[str]) -> None:
    """Called wrongly, called for nothing, not called though offered and not answered."""
    assert [one["trouble"] for one in troubles.told(rows, ["today"], answer)] == expected


def test_nothing_is_missed_where_nothing_was_offered() -> None:
    """A question that no tool could have helped has no tool trouble."""
    assert troubles.told([], [], draft("", "declined")) == ()
