"""From what the graph arrived at to what a person reads: pure, platform-neutral."""

import math
from dataclasses import asdict
from typing import Any

from bot.messages import AGAIN, Reply
from bot.words import Words
from rag_graph.advance import Outcome
from rag_graph.contracts import Draft
from store.conversations import QuestionRow
from store.reviews import NewReview, ReviewRow


def answer(words: Words, row: QuestionRow, outcome: Outcome, *, contact: str) -> Reply:
    """The message that ends a question: an answer, a question back, small talk, or an honest "I do not know"."""
    draft = outcome.draft
    kind = draft.kind if draft else "declined"
    meta: dict[str, Any] = {
        "rewritten_question": outcome.rewritten_question,
        "confidence": outcome.confidence,
        "calibrated": outcome.calibrated,
        "rule": outcome.rule,
        "degraded": list(outcome.degraded),
    }
    if draft is None or kind == "declined":
        return _declined(words, row, outcome, contact, meta)
    if kind in ("clarify", "smalltalk"):
        sentence = words(row.language, f"{kind}.{outcome.topic}")
        return Reply("clarify", sentence, row.language, meta=meta)
    meta["sentences"] = [asdict(sentence) for sentence in draft.sentences]
    meta["kind"] = kind
    if outcome.review_status in ("approved", "edited"):
        meta["signed"] = outcome.review_status
        meta["signed_by"] = outcome.decided_by
    return Reply(
        "answer", draft.text, row.language, tuple(asdict(citation) for citation in draft.citations), meta
    )


def _declined(words: Words, row: QuestionRow, outcome: Outcome, contact: str, meta: dict[str, Any]) -> Reply:
    reason = outcome.review_status if outcome.review_status in ("rejected", "expired") else "unknown"
    if outcome.reason == "rounds":
        reason = "rounds"
    parts = [words(row.language, f"declined.{reason}")]
    if outcome.searched and reason == "unknown":
        listed = "；".join(outcome.searched) if row.language == "zh" else "; ".join(outcome.searched)
        parts.append(words(row.language, "declined.searched", queries=listed))
    if contact:
        parts.append(words(row.language, "declined.contact", contact=contact))
    return Reply(
        "declined", "\n\n".join(parts), row.language, meta={**meta, "searched": list(outcome.searched)}
    )


def held(words: Words, row: QuestionRow, review: ReviewRow) -> Reply:
    """What the asker reads while a person decides. Nothing of the draft is in it (invariant 3)."""
    return Reply(
        "held",
        words(row.language, "held.waiting", reference=review.id),
        row.language,
        meta={
            "review_id": review.id,
            "round": review.round,
            "reason": review.reason,
            "opened_at": review.opened_at.isoformat(),
        },
    )


def refused(words: Words, row: QuestionRow, reason: str, *, wait: float, longest: int) -> Reply:
    """Why a message is not answered, and what to do. `wait` is in seconds; where asking again later would help, it is
    one action away."""
    minutes = max(1, math.ceil(wait / 60))
    sentence = words(row.language, f"refused.{reason}", minutes=minutes, longest=longest)
    meta: dict[str, Any] = {"reason": reason, "question_id": row.id}
    if reason != "long":
        meta["actions"] = [AGAIN]
    return Reply("refused", sentence, row.language, meta=meta)


def edited(words: Words, row: QuestionRow) -> Reply:
    """The question was edited after its answer: its new wording is one action away."""
    return Reply(
        "notice",
        words(row.language, "answer.again"),
        row.language,
        meta={"question_id": row.id, "actions": [AGAIN]},
    )


def review(row: QuestionRow, outcome: Outcome) -> NewReview:
    """The durable record of a draft that a rule held."""
    if outcome.draft is None or outcome.interrupt_id is None:
        raise ValueError(f"question {row.id} is held without a draft or an interrupt")
    draft: Draft = outcome.draft
    return NewReview(
        question_id=row.id,
        interrupt_id=outcome.interrupt_id,
        round=draft.round,
        version_hash=draft.version_hash,
        reason=outcome.rule,
        draft={
            **draft.to_json(),
            "rewritten_question": outcome.rewritten_question,
            "retrieved": list(outcome.retrieved),
        },
        audience=draft.audience,
    )
