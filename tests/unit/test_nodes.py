"""Each node alone: what it reads, what it returns, and that it changes nothing."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from rag_graph import nodes
from rag_graph.contracts import Deps, Limits, ToolCall, Turn
from rag_graph.decisions import apply, fingerprint, repeats
from rag_graph.graph import after_retrieve
from rag_graph.models import ExtractiveWriter
from rag_graph.policy import Rules
from rag_graph.state import QuestionState, initial, merge
from rag_graph.tools import Registry
from tests.desk import HANDBOOK, LEAVE, PENALTY, Desk, approve, asked, edit, expire, reject
from tests.pen import Pen
from tests.shelf import Shelf, passage

FOLLOW_UP = "Does it expire?"
HISTORY = ([Turn("q0", "How many days of annual leave do I get?", "15 days. [1]")], "")


def desk(**changes: Any) -> Desk:
    return Desk(**changes)


def run(deps: Deps) -> Runtime[Deps]:
    return Runtime(context=deps)


async def through(name: str, state: QuestionState, at: Desk) -> QuestionState:
    """The state after node `name`, reducers applied; fails if the node changed the state it was given."""
    before = copy.deepcopy(state)
    node: Any = getattr(nodes, name)
    update = await node(state, runtime=run(at.deps))
    assert state == before
    after: Any = {**state, **update}
    after["notes"] = merge(state["notes"], update.get("notes", {}))
    after["tool_results"] = [*state["tool_results"], *update.get("tool_results", ())]
    return after  # type: ignore[no-any-return]


async def retrieved(at: Desk, text: str = LEAVE, history: Any = None) -> QuestionState:
    state = initial(asked(text), history)
    for name in ("lookup_verified", "route", "rewrite", "retrieve"):
        state = await through(name, state, at)
    return state


# --- route, rewrite ---------------------------------------------------------------------------------------------


async def test_small_talk_is_not_searched() -> None:
    """A greeting becomes a draft without text, whose topic names the sentence that the bot says."""
    at = desk()
    state = await through("route", initial(asked("Hello")), at)
    assert state["draft"]["kind"] == "smalltalk"
    assert state["draft"]["text"] == ""
    assert state["notes"]["topic"] == "greeting"
    ended = await through("publish", state, at)
    assert ended["answer"]["kind"] == "smalltalk"
    assert at.shelf.searches == []


async def test_a_first_turn_is_never_rewritten() -> None:
    """Without a conversation there is nothing to carry over, and no model is asked."""
    at = desk()
    state = await through("rewrite", initial(asked(FOLLOW_UP)), at)
    assert state["rewritten_question"] == ""
    assert at.pen.rewritten == []


async def test_a_complete_follow_up_is_not_rewritten() -> None:
    """A question that says what it is about is searched as it was asked."""
    at = desk()
    state = await through(
        "rewrite", initial(asked("Who approves travel to customers in Japan?"), HISTORY), at
    )
    assert state["rewritten_question"] == ""
    assert at.pen.rewritten == []


async def test_a_follow_up_is_rewritten_by_the_model() -> None:
    """A pronoun calls for the conversation; the model's tokens are counted."""
    at = desk()
    at.pen.rewrites.append("Does annual leave expire?")
    state = await through("rewrite", initial(asked(FOLLOW_UP), HISTORY), at)
    assert state["rewritten_question"] == "Does annual leave expire?"
    assert at.pen.rewritten[0][1] == "carry_over"
    assert state["notes"]["tokens"] == {"prompt": 10, "completion": 5}
    assert state["question"]["text"] == FOLLOW_UP  # the answer is drafted for the question as it was asked


async def test_without_a_model_a_follow_up_is_rewritten_by_rule() -> None:
    """A model that does not answer costs the run its mark and not its topic."""
    at = desk(pen=Pen(broken=True))
    state = await through("rewrite", initial(asked(FOLLOW_UP), HISTORY), at)
    assert "leave" in state["rewritten_question"]
    assert state["notes"]["degraded"] == ["rewrite"]


async def test_a_failing_model_is_asked_once_before_the_draft() -> None:
    """After the first failure a run rewrites by rule and uses no tools, instead of waiting again."""
    at = desk(pen=Pen(broken=True), shelf=Shelf(list(HANDBOOK), confidence=0.4))
    state = await retrieved(at, "Does it expire, and who decides that?", HISTORY)
    await through("retrieve", await through("rewrite", state, at), at)
    assert len(at.pen.rewritten) == 1
    assert at.pen.assessed == []


async def test_a_rewrite_that_changes_nothing_is_none() -> None:
    """The question itself is not stored a second time."""
    at = desk()
    at.pen.rewrites.append(FOLLOW_UP)
    state = await through("rewrite", initial(asked(FOLLOW_UP), HISTORY), at)
    assert state["rewritten_question"] == ""


async def test_after_a_weak_search_another_way_is_tried() -> None:
    """The second rewrite uses a strategy that was not tried."""
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.4))
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
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.6))
    state = await retrieved(at)
    assert len(at.shelf.searches) == 1
    assert state["iteration"] == 1
    assert state["notes"]["found"] == "enough"
    assert len(state["notes"]["kept"]) == min(3, len(state["retrieved_docs"]))
    assert after_retrieve(state) == "draft"


async def test_the_state_holds_extracts_only() -> None:
    """A passage leaves an id, a title, a score and 160 characters in the state."""
    at = desk(shelf=Shelf([passage(1, "Annual leave. " * 100, title="Annual leave")], confidence=0.9))
    (doc,) = (await retrieved(at))["retrieved_docs"]
    assert doc.keys() == {"id", "document_id", "title", "score", "extract"}
    assert len(doc["extract"]) == 160


async def test_at_the_limit_the_answer_is_not_known() -> None:
    """Two weak searches are the end: below abstain_below nothing is drafted."""
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.4))
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
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.5), limits=limits)
    state = await retrieved(at)
    assert after_retrieve(state) == "rewrite"
    state = await through("retrieve", await through("rewrite", state, at), at)
    assert after_retrieve(state) == "draft"


async def test_the_better_of_two_searches_is_kept() -> None:
    """A second search that finds less leaves the first one's passages and confidence."""
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.5))
    state = await retrieved(at)
    first = state["retrieved_docs"]
    at.shelf.confidence = 0.2
    state = await through("retrieve", await through("rewrite", state, at), at)
    assert state["retrieved_docs"] == first
    assert state["notes"]["confidence"] == 0.5


async def test_searching_without_embeddings_is_marked() -> None:
    """What the search could not use is said in the notes."""
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.9, degraded=("embedding",)))
    assert (await retrieved(at))["notes"]["degraded"] == ["embedding"]


async def test_a_rejected_drafts_passages_come_last() -> None:
    """They follow those that are kept anyway, and only where the search still finds them."""
    at = desk(limits=Limits(kept=1))
    state = await retrieved(at, PENALTY)
    assert state["notes"]["kept"] == [3]
    state["notes"] |= {"demoted": [3], "wanted": "ceiling", "held": True, "confidence": 0.0}
    state = await through("retrieve", {**state, "retrieved_docs": []}, at)
    assert state["notes"]["kept"] == [4, 3]
    assert at.shelf.searches[-1][0] == f"{PENALTY} ceiling"


# --- tools ------------------------------------------------------------------------------------------------------

HOP = "What is the contract penalty, and who grants annual leave?"
SEARCH = ToolCall("call_1", "search_knowledge_base", {"query": "annual leave manager"})


async def test_a_plain_question_asks_no_model_about_tools() -> None:
    """Where no rule says that tools may help, the assessing call is saved."""
    at = desk()
    await retrieved(at)
    assert at.pen.assessed == []


async def test_a_second_hop_searches_again() -> None:
    """The model's call is run, its passages join, and the next draft reads them too."""
    at = desk(shelf=Shelf(list(HANDBOOK), confidence=0.7), limits=Limits(kept=1))
    at.pen.calls.append((SEARCH,))
    state = await retrieved(at, HOP)
    assert after_retrieve(state) == "tools"
    first = state["notes"]["kept"]
    at.shelf.confidence = 0.95
    state = await through("tools", state, at)
    assert state["tool_calls"] == []
    (result,) = state["tool_results"]
    assert result["name"] == "search_knowledge_base"
    assert result["error"] == ""
    assert 1 in result["passages"]
    state = await through("retrieve", state, at)
    assert state["iteration"] == 2
    assert len(at.shelf.searches) == 2  # the tool's own, and none again
    assert state["notes"]["kept"][: len(first)] == first
    assert 1 in state["notes"]["kept"]
    assert state["notes"]["confidence"] == 0.95
    assert after_retrieve(state) == "draft"
    assert at.pen.assessed[1][0].results[0]["name"] == "search_knowledge_base"


async def test_tools_stop_at_the_hard_limit() -> None:
    """A model that always wants one more search gets no third one."""
    at = desk()
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
    at = desk()
    at.pen.calls.append((ToolCall("c", "search_knowledge_base", {"query": "leave", "top_k": "five"}),))
    state = await through("tools", await retrieved(at, HOP), at)
    (result,) = state["tool_results"]
    assert result["error"] == "invalid"
    assert "top_k" in result["text"]


async def test_a_model_that_cannot_assess_does_without_tools() -> None:
    """When the model does not answer, what was found is enough or not by itself."""
    at = desk(pen=Pen(broken=True))
    state = await retrieved(at, HOP)
    assert state["tool_calls"] == []
    assert state["notes"]["degraded"] == ["tools"]


async def test_only_the_groups_that_may_help_are_offered() -> None:
    """A question of dates sees the calendar and the search, not the catalogue."""
    at = desk()
    await retrieved(at, "Can I still take last year's annual leave this month?")
    assert at.pen.assessed[0][1] == ("search_knowledge_base", "open_section", "today")


# --- draft ------------------------------------------------------------------------------------------------------


async def test_no_answer_is_a_decline() -> None:
    """The model's refusal is not a draft."""
    at = desk()
    at.pen.drafts.append("NO_ANSWER")
    state = await through("draft", await retrieved(at), at)
    assert state["draft"] == {}
    assert state["notes"]["reason"] == "unsupported"


async def test_an_invented_answer_is_a_decline() -> None:
    """Sentences that no passage supports are not an answer, whatever marks they carry."""
    at = desk()
    at.pen.drafts.append("Employees receive 40 free parking vouchers per quarter. [1]")
    assert (await through("draft", await retrieved(at), at))["draft"] == {}


async def test_an_answer_without_marks_gets_those_it_earned() -> None:
    """A small model that forgets its citations is cited where a passage plainly supports the sentence."""
    at = desk()
    at.pen.drafts.append("Annual leave is 15 days a year.")
    draft = (await through("draft", await retrieved(at), at))["draft"]
    assert draft["text"] == "Annual leave is 15 days a year. [1]"


async def test_marks_are_numbered_in_order_of_use() -> None:
    """What the model called [2] is the answer's [1] when it is cited first, and [9] points nowhere."""
    at = desk()
    state = await retrieved(at)
    second = state["notes"]["kept"][1]
    at.pen.drafts.append("Unused annual leave expires on 31 March. [2] [9]")
    draft = (await through("draft", state, at))["draft"]
    assert [c["passage_id"] for c in draft["citations"]] == [second]
    assert draft["text"].endswith("[1]")


async def test_without_a_model_the_answer_is_quotations() -> None:
    """A model that does not answer leaves a draft of kind extractive, and a mark in the run."""
    at = desk(pen=Pen(broken=True))
    state = await through("draft", await retrieved(at), at)
    assert state["draft"]["kind"] == "extractive"
    assert "15 days" in state["draft"]["text"]
    assert state["notes"]["degraded"] == ["model"]


async def test_sentences_are_told_when_no_rule_could_hold_them() -> None:
    """Without a rule the draft streams to whoever listens, under its question's id."""
    at = desk(rules=Rules.parse([]))
    await through("draft", await retrieved(at), at)
    assert [question for question, _ in at.heard] == ["q1"]


async def test_nothing_is_told_where_a_rule_might_hold() -> None:
    """A rule about collections can hold any draft: then none is streamed."""
    at = desk()
    await through("draft", await retrieved(at), at)
    assert at.heard == []


async def test_a_refusing_rule_declines() -> None:
    """A rule that refuses a topic leaves no draft, and its name in the notes."""
    rules = Rules.parse([{"name": "pay", "topics": ["leave"], "action": "refuse"}])
    at = desk(rules=rules)
    state = await through("draft", await retrieved(at), at)
    assert state["draft"] == {}
    assert state["notes"]["rule"] == "pay"
    assert state["notes"]["disposition"] == "refuse"


async def test_a_private_rule_holds_and_says_so() -> None:
    """The asker alone may see the draft meanwhile; the disposition tells the bot."""
    at = desk(rules=Rules.parse([{"name": "hr", "topics": ["leave"], "action": "private"}]))
    state = await through("draft", await retrieved(at), at)
    assert state["review_status"] == "pending"
    assert state["notes"]["disposition"] == "private"


async def test_a_drafts_audience_is_what_its_sources_share() -> None:
    """Two sources for different groups leave those who may read both."""
    shelf = Shelf(
        [
            passage(
                1, "Annual leave is 15 days a year.", title="Annual leave", audience=("web:ada", "web:hr")
            ),
            passage(2, "Annual leave expires on 31 March.", title="Annual leave", audience=("web:ada",)),
        ],
        confidence=0.9,
    )
    at = desk(shelf=shelf)
    at.pen.drafts.append("Annual leave is 15 days a year. [1] Annual leave expires on 31 March. [2]")
    draft = (await through("draft", await retrieved(at), at))["draft"]
    assert draft["audience"] == ["web:ada"]


# --- publish ----------------------------------------------------------------------------------------------------


async def test_a_source_that_changed_meanwhile_is_drafted_again() -> None:
    """Also an answer that nobody reviews is not published from a text that is gone."""
    at = desk()
    state = await through("draft", await retrieved(at), at)
    at.shelf.change(1, "Annual leave is 20 days a year.")
    state = await through("publish", state, at)
    assert state["answer"] == {}
    assert state["notes"]["again"] is True
    assert state["notes"]["reason"] == "sources_changed"
    state = await through("draft", await through("retrieve", state, at), at)
    assert "20 days" in state["draft"]["text"]


async def test_a_restless_source_ends_in_a_decline() -> None:
    """A text that changes under every draft does not go round for ever."""
    at = desk()
    state = await retrieved(at)
    for number in range(5):
        state = await through("draft", state, at)
        at.shelf.change(1, f"Annual leave is {20 + number} days a year.")
        state = await through("publish", state, at)
        if not state["notes"]["again"]:
            break
        state = await through("retrieve", state, at)
    assert state["notes"]["again"] is False
    assert state["iteration"] <= 3


# --- decisions --------------------------------------------------------------------------------------------------


def held() -> QuestionState:
    state = initial(asked(PENALTY))
    state["draft"] = {"text": "Two percent. [1]", "round": 1, "citations": [{"passage_id": 3}]}
    state["review_status"] = "pending"
    return state


@pytest.mark.parametrize(
    ("decision", "status", "again"),
    [
        (approve(), "approved", False),
        (edit("Three."), "edited", False),
        (expire(), "expired", False),
        (reject(), "rejected", False),
        (reject(hint="ceiling"), "rejected", True),
        (reject(question="How high?"), "rejected", True),
    ],
)
def test_what_a_decision_changes(decision: Any, status: str, again: bool) -> None:
    """Each action has its review status; only a rejection with something to go by goes round again."""
    state = held()
    before = copy.deepcopy(state)
    update = apply(state, {**decision.to_json(), "interrupt_id": "i1"}, 3)
    assert state == before
    assert update["review_status"] == status
    assert update["notes"]["again"] is again
    assert update["notes"]["decided"] == {"i1": fingerprint(decision)}


def test_a_rejection_resets_the_iteration() -> None:
    """The next search has its full number of tries."""
    update = apply({**held(), "iteration": 2}, {**reject(hint="x").to_json(), "interrupt_id": "i1"}, 3)
    assert update["iteration"] == 0
    assert update["notes"]["demoted"] == [3]
    assert update["notes"]["rejected"] == ["Two percent. [1]"]


def test_a_better_question_forgets_what_was_demoted() -> None:
    """What the old draft cited may answer the new question; the asker's own words are kept aside."""
    decision = reject(question="How high is the ceiling?", hint="annex")
    update = apply(held(), {**decision.to_json(), "interrupt_id": "i1"}, 3)
    assert update["notes"]["demoted"] == []
    assert update["notes"]["asked"] == PENALTY
    assert update["question"]["text"] == "How high is the ceiling?"


def test_a_repetition_is_known_whatever_its_white_space() -> None:
    """The same words with other line breaks are the same draft."""
    assert repeats("Two  percent.\n[1]", ["One.", "Two percent. [1]"])
    assert not repeats("Three percent. [1]", ["Two percent. [1]"])


async def test_a_rejected_quotation_is_not_quoted_again() -> None:
    """Without a model the second draft takes other sentences, of the same passage too."""
    text = "The contract penalty is 2 percent. As an exception the contract penalty is 5 percent for delays."
    shelf = Shelf([passage(1, text, title="Contract penalty")], confidence=0.9)
    at = desk(shelf=shelf, pen=Pen(broken=True))
    state = await through("draft", await retrieved(at, PENALTY), at)
    assert "2 percent" in state["draft"]["text"]
    state["notes"] |= {"rejected": ["> The contract penalty is 2 percent. [1]"], "guidance": "exception"}
    state = await through("draft", state, at)
    assert "5 percent" in state["draft"]["text"]
    assert "2 percent" not in state["draft"]["text"]


async def test_a_hint_counts_where_the_question_names_another_clause() -> None:
    """The question's clause was quoted and rejected; the hint's words alone find the next draft."""
    passages = [
        passage(1, "第 3.2 条 甲方应在验收合格后 45 日内付款。", title="合同条款", document=1),
        passage(2, "第 7.1 条 乙方的赔偿责任以合同总价为上限。", title="合同条款", document=1),
    ]
    at = desk(shelf=Shelf(passages, confidence=0.9), pen=ExtractiveWriter())
    state = await through("draft", await retrieved(at, "合同第 3.2 条规定多少日内付款？"), at)
    assert "45 日" in state["draft"]["text"]
    state["notes"] |= {"rejected": [state["draft"]["text"]], "guidance": "赔偿责任 上限", "demoted": [1]}
    state = await through("draft", state, at)
    assert "合同总价" in state["draft"]["text"]


async def test_nothing_found_after_a_rejection_is_not_knowing() -> None:
    """Sent back and found nothing: the review status no longer says that a person refused it."""
    at = desk()
    state = await retrieved(at)
    state["review_status"] = "rejected"
    state["notes"] |= {"again": True}
    assert (await through("decline", state, at))["review_status"] == "none"
    state["notes"] |= {"again": False}
    assert (await through("decline", state, at))["review_status"] == "rejected"


async def test_row_21_nodes_never_change_the_state_they_are_given() -> None:
    """langgraph#4168: the same state object before and after each of the ten nodes, compared deeply."""
    at = desk(limits=replace(Limits(), kept=2))
    at.pen.calls.append((SEARCH,))
    state = await retrieved(at, HOP, HISTORY)
    for name in ("tools", "retrieve", "draft", "publish", "decline", "clarify"):
        state = await through(name, state, at)
    assert isinstance(at.deps.tools, Registry)
