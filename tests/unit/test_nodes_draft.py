"""Drafting, publishing and deciding, node by node: what each reads, what it returns."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from rag_graph.contracts import Limits
from rag_graph.decisions import apply, fingerprint, repeats
from rag_graph.models import ExtractiveWriter
from rag_graph.policy import Rules
from rag_graph.state import QuestionState, initial
from rag_graph.tools import Registry
from tests.desk import (
    HOP,
    PENALTY,
    SEARCH,
    TALKED,
    Desk,
    approve,
    asked,
    edit,
    expire,
    reject,
    retrieved,
    through,
)
from tests.pen import Pen
from tests.shelf import Shelf, passage

# --- draft ------------------------------------------------------------------------------------------------------


async def test_no_answer_is_a_decline() -> None:
    """The model's refusal is not a draft."""
    at = Desk()
    at.pen.drafts.append("NO_ANSWER")
    state = await through("draft", await retrieved(at), at)
    assert state["draft"] == {}
    assert state["notes"]["reason"] == "unsupported"


async def test_an_invented_answer_is_a_decline() -> None:
    """Sentences that no passage supports are not an answer, whatever marks they carry."""
    at = Desk()
    invented = "Employees receive 40 free parking vouchers per quarter. [1]"
    at.pen.drafts.extend([invented, invented])
    assert (await through("draft", await retrieved(at), at))["draft"] == {}


async def test_an_answer_without_marks_gets_those_it_earned() -> None:
    """A small model that forgets its citations is cited where a passage plainly supports the sentence."""
    at = Desk()
    at.pen.drafts.append("Annual leave is 15 days a year.")
    draft = (await through("draft", await retrieved(at), at))["draft"]
    assert draft["text"] == "Annual leave is 15 days a year. [1]"


async def test_marks_are_numbered_in_order_of_use() -> None:
    """What the model called [2] is the answer's [1] when it is cited first, and [9] points nowhere."""
    at = Desk()
    state = await retrieved(at)
    second = state["notes"]["kept"][1]
    at.pen.drafts.append("Unused annual leave expires on 31 March. [2] [9]")
    draft = (await through("draft", state, at))["draft"]
    assert [c["passage_id"] for c in draft["citations"]] == [second]
    assert draft["text"].endswith("[1]")


async def test_without_a_model_the_answer_is_quotations() -> None:
    """A model that does not answer leaves a draft of kind extractive, and a mark in the run."""
    at = Desk(pen=Pen(broken=True))
    state = await through("draft", await retrieved(at), at)
    assert state["draft"]["kind"] == "extractive"
    assert "15 days" in state["draft"]["text"]
    assert state["notes"]["degraded"] == ["model"]


async def test_sentences_are_told_when_no_rule_could_hold_them() -> None:
    """Without a rule the draft streams to whoever listens, under its question's id."""
    at = Desk(rules=Rules.parse([]))
    await through("draft", await retrieved(at), at)
    assert [question for question, _ in at.heard] == ["q1"]


async def test_nothing_is_told_where_a_rule_might_hold() -> None:
    """A rule about collections can hold any draft: then none is streamed."""
    at = Desk()
    await through("draft", await retrieved(at), at)
    assert at.heard == []


async def test_a_refusing_rule_declines() -> None:
    """A rule that refuses a topic leaves no draft, and its name in the notes."""
    rules = Rules.parse([{"name": "pay", "topics": ["leave"], "action": "refuse"}])
    at = Desk(rules=rules)
    state = await through("draft", await retrieved(at), at)
    assert state["draft"] == {}
    assert state["notes"]["rule"] == "pay"
    assert state["notes"]["disposition"] == "refuse"


async def test_a_private_rule_holds_and_says_so() -> None:
    """The asker alone may see the draft meanwhile; the disposition tells the bot."""
    at = Desk(rules=Rules.parse([{"name": "hr", "topics": ["leave"], "action": "private"}]))
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
    at = Desk(shelf=shelf)
    at.pen.drafts.append("Annual leave is 15 days a year. [1] Annual leave expires on 31 March. [2]")
    draft = (await through("draft", await retrieved(at), at))["draft"]
    assert draft["audience"] == ["web:ada"]


# --- publish ----------------------------------------------------------------------------------------------------


async def test_a_source_that_changed_meanwhile_is_drafted_again() -> None:
    """Also an answer that nobody reviews is not published from a text that is gone."""
    at = Desk()
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
    at = Desk()
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
    at = Desk(shelf=shelf, pen=Pen(broken=True))
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
    at = Desk(shelf=Shelf(passages, confidence=0.9), pen=ExtractiveWriter())
    state = await through("draft", await retrieved(at, "合同第 3.2 条规定多少日内付款？"), at)
    assert "45 日" in state["draft"]["text"]
    state["notes"] |= {"rejected": [state["draft"]["text"]], "guidance": "赔偿责任 上限", "demoted": [1]}
    state = await through("draft", state, at)
    assert "合同总价" in state["draft"]["text"]


async def test_nothing_found_after_a_rejection_is_not_knowing() -> None:
    """Sent back and found nothing: the review status no longer says that a person refused it."""
    at = Desk()
    state = await retrieved(at)
    state["review_status"] = "rejected"
    state["notes"] |= {"again": True}
    assert (await through("decline", state, at))["review_status"] == "none"
    state["notes"] |= {"again": False}
    assert (await through("decline", state, at))["review_status"] == "rejected"


async def test_row_21_nodes_never_change_the_state_they_are_given() -> None:
    """langgraph#4168: the same state object before and after each of the ten nodes, compared deeply."""
    at = Desk(limits=replace(Limits(), kept=2))
    at.pen.calls.append((SEARCH,))
    state = await retrieved(at, HOP, TALKED)
    for name in ("tools", "retrieve", "draft", "publish", "decline", "clarify"):
        state = await through(name, state, at)
    assert isinstance(at.deps.tools, Registry)
