"""Routing, rewriting, searching and tools, node by node: what each reads, what it returns."""

from rag_graph.compound import parts
from rag_graph.contracts import Limits, ToolCall
from rag_graph.graph import after_retrieve
from rag_graph.state import initial
from tests.desk import (
    HANDBOOK,
    HOP,
    PENALTY,
    SEARCH,
    TALKED,
    Desk,
    asked,
    retrieved,
    through,
)
from tests.pen import Pen
from tests.shelf import Shelf, passage

FOLLOW_UP = "Does it expire?"


# --- route, rewrite ---------------------------------------------------------------------------------------------


async def test_small_talk_is_not_searched() -> None:
    """A greeting becomes a draft without text, whose topic names the sentence that the bot says."""
    at = Desk()
    state = await through("route", initial(asked("Hello")), at)
    assert state["draft"]["kind"] == "smalltalk"
    assert state["draft"]["text"] == ""
    assert state["notes"]["topic"] == "greeting"
    ended = await through("publish", state, at)
    assert ended["answer"]["kind"] == "smalltalk"
    assert at.shelf.searches == []


async def test_a_first_turn_is_never_rewritten() -> None:
    """Without a conversation there is nothing to carry over, and no model is asked."""
    at = Desk()
    state = await through("rewrite", initial(asked(FOLLOW_UP)), at)
    assert state["rewritten_question"] == ""
    assert at.pen.rewritten == []


async def test_a_complete_follow_up_is_not_rewritten() -> None:
    """A question that says what it is about is searched as it was asked."""
    at = Desk()
    state = await through("rewrite", initial(asked("Who approves travel to customers in Japan?"), TALKED), at)
    assert state["rewritten_question"] == ""
    assert at.pen.rewritten == []


async def test_a_follow_up_is_rewritten_by_the_model() -> None:
    """A pronoun calls for the conversation; the model's tokens are counted."""
    at = Desk()
    at.pen.rewrites.append("Does annual leave expire?")
    state = await through("rewrite", initial(asked(FOLLOW_UP), TALKED), at)
    assert state["rewritten_question"] == "Does annual leave expire?"
    assert at.pen.rewritten[0][1] == "carry_over"
    assert state["notes"]["tokens"] == {"prompt": 10, "completion": 5}
    assert state["question"]["text"] == FOLLOW_UP  # the answer is drafted for the question as it was asked


async def test_without_a_model_a_follow_up_is_rewritten_by_rule() -> None:
    """A model that does not answer costs the run its mark and not its topic."""
    at = Desk(pen=Pen(broken=True))
    state = await through("rewrite", initial(asked(FOLLOW_UP), TALKED), at)
    assert "leave" in state["rewritten_question"]
    assert state["notes"]["degraded"] == ["rewrite"]


async def test_a_failing_model_is_asked_once_before_the_draft() -> None:
    """After the first failure a run rewrites by rule and uses no tools, instead of waiting again."""
    at = Desk(pen=Pen(broken=True), shelf=Shelf(list(HANDBOOK), confidence=0.4))
    state = await retrieved(at, "Does it expire, and who decides that?", TALKED)
    await through("retrieve", await through("rewrite", state, at), at)
    assert len(at.pen.rewritten) == 1
    assert at.pen.assessed == []


async def test_a_rewrite_that_changes_nothing_is_none() -> None:
    """The question itself is not stored a second time."""
    at = Desk()
    at.pen.rewrites.append(FOLLOW_UP)
    state = await through("rewrite", initial(asked(FOLLOW_UP), TALKED), at)
    assert state["rewritten_question"] == ""


async def test_after_a_weak_search_another_way_is_tried() -> None:
    """The second rewrite uses a strategy that was not tried."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.4))
    state = await retrieved(at)
    assert state["notes"]["found"] == "weak"
    assert after_retrieve(state) == "rewrite"
    state = await through("rewrite", state, at)
    (strategy,) = state["notes"]["strategies"]
    assert strategy != "carry_over"
    assert at.pen.rewritten[0][1] == strategy


# --- retrieve ---------------------------------------------------------------------------------------------------


async def test_one_search_when_it_is_good_enough() -> None:
    """Confidence at the line is enough: one search, one iteration, three passages kept of those found."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.6))
    state = await retrieved(at)
    assert len(at.shelf.searches) == 1
    assert state["iteration"] == 1
    assert state["notes"]["found"] == "enough"
    assert len(state["notes"]["kept"]) == min(3, len(state["retrieved_docs"]))
    assert after_retrieve(state) == "draft"


async def test_the_state_holds_extracts_only() -> None:
    """A passage leaves an id, a title, a score and 160 characters in the state."""
    at = Desk(shelf=Shelf([passage(1, "Annual leave. " * 100, title="Annual leave")], confidence=0.9))
    (doc,) = (await retrieved(at))["retrieved_docs"]
    assert doc.keys() == {"id", "document_id", "title", "score", "extract"}
    assert len(doc["extract"]) == 160


async def test_at_the_limit_the_answer_is_not_known() -> None:
    """Two weak searches are the end: below abstain_below nothing is drafted."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.4))
    state = await retrieved(at)
    state = await through("retrieve", await through("rewrite", state, at), at)
    assert state["iteration"] == 2
    assert after_retrieve(state) == "decline"
    ended = await through("decline", state, at)
    assert ended["answer"]["kind"] == "declined"
    assert ended["answer"]["confidence"] == 0.4
    assert len(ended["notes"]["queries"]) == 2


async def test_between_the_lines_it_is_answered_at_the_limit() -> None:
    """Where abstain_below is lower than retry_below, a middling result is drafted after the second search."""
    limits = Limits(retry_below=0.8, abstain_below=0.3)
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.5), limits=limits)
    state = await retrieved(at)
    assert after_retrieve(state) == "rewrite"
    state = await through("retrieve", await through("rewrite", state, at), at)
    assert after_retrieve(state) == "draft"


async def test_the_better_of_two_searches_is_kept() -> None:
    """A second search that finds less leaves the first one's passages and confidence."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.5))
    state = await retrieved(at)
    first = state["retrieved_docs"]
    at.shelf.confidence = 0.2
    state = await through("retrieve", await through("rewrite", state, at), at)
    assert state["retrieved_docs"] == first
    assert state["notes"]["confidence"] == 0.5


async def test_searching_without_embeddings_is_marked() -> None:
    """What the search could not use is said in the notes."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.9, degraded=("embedding",)))
    assert (await retrieved(at))["notes"]["degraded"] == ["embedding"]


async def test_a_rejected_drafts_passages_come_last() -> None:
    """They follow those that are kept anyway, and only where the search still finds them."""
    at = Desk(limits=Limits(kept=1))
    state = await retrieved(at, PENALTY)
    assert state["notes"]["kept"] == [3]
    state["notes"] |= {"demoted": [3], "wanted": "ceiling", "held": True, "confidence": 0.0}
    state = await through("retrieve", {**state, "retrieved_docs": []}, at)
    assert state["notes"]["kept"] == [4, 3]
    assert at.shelf.searches[-1][0] == f"{PENALTY} ceiling"


# --- tools ------------------------------------------------------------------------------------------------------


async def test_a_plain_question_asks_no_model_about_tools() -> None:
    """Where no rule says that tools may help, the assessing call is saved."""
    at = Desk()
    await retrieved(at)
    assert at.pen.assessed == []


async def test_each_thing_that_is_asked_is_searched() -> None:
    """Of a question that asks two things, the best passage for each is read, besides those for the whole."""
    leave, other, penalty = HANDBOOK[0], HANDBOOK[3], HANDBOOK[2]
    at = Desk(shelf=Shelf([leave, other, penalty], confidence=0.9), limits=Limits(kept=1))
    state = await retrieved(at, HOP)
    assert [query for query, _, _ in at.shelf.searches] == [HOP, *parts(HOP)]
    assert {leave.id, penalty.id} <= set(state["notes"]["kept"])
    assert state["notes"]["queries"] == [HOP]


async def test_what_the_best_passages_lack_is_read_too() -> None:
    """Beside the passages kept, the next one that holds a word of the question which none of them has; no other one."""
    best = passage(1, "Penalty of the contract: 2 percent.", title="Contract penalty")
    same = passage(2, "The contract penalty is rare.", title="Contract")
    osaka = passage(3, "The penalty in Osaka is 3 percent.", title="Branches")
    at = Desk(shelf=Shelf([best, same, osaka], confidence=0.9), limits=Limits(kept=1))
    state = await retrieved(at, "What contract penalty does Osaka have?")
    assert state["notes"]["kept"] == [1, 3]
    assert [doc["id"] for doc in state["retrieved_docs"]] == [1, 3, 2]


async def test_a_second_hop_searches_again() -> None:
    """The model's call is run, its passages join, and the next draft reads them too."""
    at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.7), limits=Limits(kept=1))
    at.pen.calls.append((SEARCH,))
    state = await retrieved(at, HOP)
    assert after_retrieve(state) == "tools"
    first, searched = state["notes"]["kept"], len(at.shelf.searches)
    at.shelf.confidence = 0.95
    state = await through("tools", state, at)
    assert state["tool_calls"] == []
    (result,) = state["tool_results"]
    assert result["name"] == "search_knowledge_base"
    assert result["error"] == ""
    assert 1 in result["passages"]
    state = await through("retrieve", state, at)
    assert state["iteration"] == 2
    assert len(at.shelf.searches) == searched + 1  # the tool's own, and none again
    assert state["notes"]["kept"][: len(first)] == first
    assert 1 in state["notes"]["kept"]
    assert state["notes"]["confidence"] == 0.95
    assert after_retrieve(state) == "draft"
    assert at.pen.assessed[1][0].results[0]["name"] == "search_knowledge_base"


async def test_the_list_of_documents_is_an_answer_whatever_the_search_found() -> None:
    """Passages that hardly match do not make the bot decline what a tool has told it; a day alone is no answer."""
    for name, text, enough in (
        ("list_documents", "Which documents do you have?", True),
        ("today", "Is it too late for the pool today?", False),
    ):
        at = Desk(shelf=Shelf(list(HANDBOOK), confidence=0.05))
        at.pen.calls.append((ToolCall("c", name, {}),))
        state = await through("tools", await retrieved(at, text), at)
        assert state["tool_results"][0]["error"] == ""
        assert (after_retrieve(await through("retrieve", state, at)) == "draft") is enough


async def test_tools_stop_at_the_hard_limit() -> None:
    """A model that always wants one more search gets no third one."""
    at = Desk()
    at.pen.calls.extend([(SEARCH,)] * 9)
    state = await retrieved(at, HOP)
    hops = 0
    while after_retrieve(state) == "tools":
        hops += 1
        state = await through("retrieve", await through("tools", state, at), at)
    assert hops == 2
    assert state["iteration"] == 3


async def test_a_bad_call_is_answered_and_the_flow_goes_on() -> None:
    """A wrong argument comes back as a result that says so; nothing raises."""
    at = Desk()
    at.pen.calls.append((ToolCall("c", "search_knowledge_base", {"query": "leave", "top_k": "five"}),))
    state = await through("tools", await retrieved(at, HOP), at)
    (result,) = state["tool_results"]
    assert result["error"] == "invalid"
    assert "top_k" in result["text"]


async def test_a_model_that_cannot_assess_does_without_tools() -> None:
    """When the model does not answer, what was found is enough or not by itself."""
    at = Desk(pen=Pen(broken=True))
    state = await retrieved(at, HOP)
    assert state["tool_calls"] == []
    assert state["notes"]["degraded"] == ["tools"]


async def test_only_the_groups_that_may_help_are_offered() -> None:
    """A question of dates sees the calendar and the search, not the catalogue."""
    at = Desk()
    await retrieved(at, "Can I still take last year's annual leave this month?")
    assert at.pen.assessed[0][1] == ("search_knowledge_base", "open_section", "today")
