"""From what the graph arrived at to what a person reads: pure, platform-neutral."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from bot.hours import DAYS, Hours
from bot.messages import AGAIN, Reply
from bot.words import Words
from rag_graph.advance import Outcome
from rag_graph.contracts import Draft
from store.conversations import QuestionRow
from store.reviews import NewReview, ReviewRow

HELD = ("hold", "two_reviewers", "private")


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
    if outcome.verified:
        meta |= _verified(
            str(outcome.verified["by"]), str(outcome.verified["at"]), str(outcome.verified["how"])
        )
        meta["verified"] = outcome.verified["id"]
    return Reply(
        "answer", draft.text, row.language, tuple(asdict(citation) for citation in draft.citations), meta
    )


def verified(words: Words, row: QuestionRow, draft: Draft, by: str, at: datetime, how: str) -> Reply:
    """An answer as a reviewer, looking again, let it stand."""
    meta: dict[str, Any] = {
        **(row.answer or {}).get("meta", {}),
        "sentences": [asdict(sentence) for sentence in draft.sentences],
        "kind": draft.kind,
        **_verified(by, at.isoformat(), how),
    }
    return Reply(
        "answer", draft.text, row.language, tuple(asdict(citation) for citation in draft.citations), meta
    )


def _verified(by: str, at: str, how: str) -> dict[str, str]:
    return {"signed": "verified", "signed_by": by, "signed_at": at, "signed_how": how}


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
        "declined",
        "\n\n".join(parts),
        row.language,
        meta={**meta, "searched": list(outcome.searched), "reason": reason},
    )


def held(
    words: Words,
    row: QuestionRow,
    review: ReviewRow,
    expected: tuple[timedelta, datetime] | None,
    hours: Hours,
) -> Reply:
    """What the asker reads while a person decides. Nothing of the draft is in it (invariant 3). `expected` is what a
    review usually takes in working time, and until when; it is said only where past ones tell."""
    sentence = words(row.language, "held.waiting", reference=review.id)
    if expected is not None:
        sentence += (" " if row.language == "en" else "") + usual(words, row.language, expected, hours)
    return Reply(
        "held",
        sentence,
        row.language,
        meta={
            "review_id": review.id,
            "round": review.round,
            "reason": review.reason,
            "opened_at": review.opened_at.isoformat(),
            "expected_at": expected[1].isoformat() if expected else None,
        },
    )


def usual(words: Words, language: str, expected: tuple[timedelta, datetime], hours: Hours) -> str:
    """ "Usually a review takes about 25 working minutes; expect it by Tuesday 14:30 (Asia/Shanghai)." """
    takes, by = expected
    at = by.astimezone(hours.zone)
    day = words(language, f"held.weekday.{DAYS[at.weekday()]}")
    amount = spell(words, language, takes, working=not hours.always)
    return words(language, "held.usual", takes=amount, day=day, time=f"{at:%H:%M}", zone=hours.zone.key)


def spell(words: Words, language: str, amount: timedelta, *, working: bool) -> str:
    """ "25 min", "3 working hours"."""
    minutes = max(1, round(amount.total_seconds() / 60))
    key, count = ("minutes", minutes) if minutes < 100 else ("hours", round(minutes / 60))
    return words(language, f"patience.{'working_' if working else ''}{key}", count=count)


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


def review(row: QuestionRow, outcome: Outcome, nearest: Mapping[str, Any] | None = None) -> NewReview:
    """The durable record of a draft that a rule held. `nearest` is the signed answer to compare it with."""
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
            "nearest": nearest,
        },
        audience=draft.audience,
        disposition=outcome.disposition if outcome.disposition in HELD else "hold",
    )
