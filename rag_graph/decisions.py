"""What a reviewer's decision changes in the state. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rag_graph.contracts import Decision
from rag_graph.state import QuestionState, ReviewStatus

__all__ = ["apply", "fingerprint", "repeats", "searched_anew"]

HINT_CHARACTERS: Final = 200


def apply(state: QuestionState, answer: Mapping[str, str], rounds: int) -> dict[str, Any]:
    """The state update for a decision as `review` got it: `Decision.to_json()` and the interrupt it answers.

    A rejection with a hint or a better question goes back to search, at most `rounds` times for one question;
    without either it says that the question should not be answered.
    """
    values = dict(answer)
    interrupt_id = values.pop("interrupt_id")
    decision = Decision(**values)  # type: ignore[arg-type] # the literal was checked when the decision was made
    notes = {
        "by": decision.by,
        "decided": {**state["notes"].get("decided", {}), interrupt_id: fingerprint(decision)},
        "again": False,
        # Spent is counted for each run; what the earlier ones took is in their own records.
        "tokens": {},
        "timings": {},
        "degraded": [],
    }
    if decision.action == "approve":
        return {"review_status": ReviewStatus.APPROVED, "notes": notes}
    if decision.action == "edit":
        draft = {**state["draft"], "text": decision.text}
        return {"review_status": ReviewStatus.EDITED, "draft": draft, "notes": notes}
    if decision.action == "expire":
        return {"review_status": ReviewStatus.EXPIRED, "notes": {**notes, "reason": "expired"}}
    return _rejected(state, decision, notes, rounds)


def _rejected(state: QuestionState, decision: Decision, notes: dict[str, Any], rounds: int) -> dict[str, Any]:
    rejections = state["notes"].get("rejections", 0) + 1
    notes |= {"rejections": rejections, "reason": decision.reason or "rejected"}
    update: dict[str, Any] = {"review_status": ReviewStatus.REJECTED, "notes": notes}
    if not decision.hint and not decision.question:
        return update
    if rejections >= rounds:
        notes["reason"] = "rounds"
        return update
    cited = [citation["passage_id"] for citation in state["draft"].get("citations", ())]
    notes |= {
        "guidance": decision.hint,
        "wanted": decision.hint[:HINT_CHARACTERS],
        "demoted": sorted({*state["notes"].get("demoted", ()), *cited}),
        "rejected": [*state["notes"].get("rejected", ()), state["draft"].get("text", "")],
    }
    if decision.question:
        # Another question: what the old one's draft said and cited may well answer it.
        notes |= {
            "demoted": [],
            "rejected": [],
            "asked": state["notes"].get("asked") or state["question"]["text"],
        }
        update |= {
            "question": {**state["question"], "text": decision.question},
            "rewritten_question": "",
        }
    return {**update, **searched_anew(state, notes)}


def searched_anew(state: QuestionState, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The update that lets `retrieve` begin again: nothing found yet, no iteration counted, no draft."""
    fresh = {
        "again": True,
        "confidence": 0.0,
        "strategies": [],
        "kept": [],
        "found": "",
        "tools_from": len(state["tool_results"]),
    }
    return {
        "retrieved_docs": [],
        "tool_calls": [],
        "iteration": 0,
        "draft": {},
        "notes": {**notes, **fresh},
    }


def fingerprint(decision: Decision) -> str:
    """Identifies a decision, so that the same one repeated is told from another one."""
    facts = "\x1f".join(decision.to_json().values())
    return hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()[:16]


def repeats(text: str, rejected: Iterable[str]) -> bool:
    """Does `text` say what one of `rejected` said, white space aside?"""
    return "".join(text.split()) in {"".join(other.split()) for other in rejected}
