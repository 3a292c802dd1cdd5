"""What the nodes of the question graph pass on: ids, titles, scores, short extracts. Never full texts."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from rag_graph.contracts import Question, Turn

__all__ = [
    "EXTRACT",
    "MENTION",
    "QuestionState",
    "ReviewStatus",
    "initial",
    "merge",
    "question_of",
    "turns_of",
]

EXTRACT = 160  # characters of a passage kept in the state; the draft reads the text again
MENTION = 40  # of those that were found and not kept: ten Chinese extracts of 160 took 5 of 12 KB


class ReviewStatus:
    """Values of `QuestionState.review_status`."""

    NONE = "none"
    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited"
    REJECTED = "rejected"
    EXPIRED = "expired"


def merge(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A new dict with `new`'s keys over `old`'s: nodes name only the notes that they change."""
    return {**old, **new}


class QuestionState(TypedDict, total=False):
    """The state of one question.

    Plain dicts, lists and strings, so that any version can read any checkpoint. A string channel is copied into
    every checkpoint row, a dict is stored once a version: long text sits in a dict.

    `notes` holds what only the flow needs:

    - summary: older turns in a sentence or two
    - route: why `route` sent the question where it did; topic: the kind of small talk or of vagueness
    - whole: the question as the first rewrite made it whole; strategies: ways of putting it that were tried
    - queries: what was searched, in order; confidence, calibrated: of the best search so far
    - kept: ids that the draft reads; found: enough, weak or nothing
    - offered: names of the tools that the model could have called
    - returned: tools have run since the last search; tools_from: which of their results belong to this round
    - held: a reviewer saw a draft of this question; round: the last one's number; rejections: how many
    - again: go back to search; guidance, wanted: what a reviewer asked of the draft, and adds to the search
    - demoted: ids that rejected drafts cited; rejected: their texts
    - asked: the asker's words where a reviewer put a better question
    - rule, reason: what the policy said; disposition: send, sample, hold, private or refuse
    - verified: the signed-off answer that was used again: id, by, at, how
    - decided: interrupt id → hash of the decision it was answered with; by: who decided last
    - degraded: what was missing: embedding (keywords alone), model (quotations), rewrite, tools (by rule)
    - tokens, timings: spent in this run; milliseconds by step of search
    """

    question: dict[str, Any]
    rewritten_question: str
    chat_history: list[dict[str, str]]
    retrieved_docs: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]
    tool_results: Annotated[list[dict[str, Any]], operator.add]
    iteration: int
    draft: dict[str, Any]
    review_status: str
    answer: dict[str, Any]
    notes: Annotated[dict[str, Any], merge]


def initial(question: Question, history: tuple[Sequence[Turn], str] | None = None) -> QuestionState:
    """The state that a question starts from; `history` is what `conversation.recall` returned."""
    turns, summary = history or ((), "")
    return {
        "question": {**asdict(question), "principals": list(question.principals)},
        "rewritten_question": "",
        "chat_history": [asdict(turn) for turn in turns],
        "retrieved_docs": [],
        "tool_calls": [],
        "tool_results": [],
        "iteration": 0,
        "draft": {},
        "review_status": ReviewStatus.NONE,
        "answer": {},
        "notes": {"summary": summary},
    }


def question_of(state: QuestionState) -> Question:
    """The question to be answered: the asker's, or a better one that a reviewer put."""
    stored = state["question"]
    return Question(**{**stored, "principals": tuple(stored["principals"])})


def turns_of(state: QuestionState) -> list[Turn]:
    return [Turn(**turn) for turn in state["chat_history"]]
