"""Use case: a look afterwards. A sample of what was sent without review goes to the reviewers; what they find wrong is
corrected where it stands."""

from dataclasses import asdict, fields, replace
from typing import Any

from bot.by_hand import given_up
from bot.cards import Cards
from bot.correcting import Correcting, Correction
from bot.messages import Reply
from bot.verifying import Verifying
from rag_graph.advance import Outcome
from rag_graph.contracts import Draft
from rag_graph.drafting import edited
from store import Store
from store.conversations import QuestionRow
from store.reviews import NewReview, ReviewRow

__all__ = ["Sampling", "sampled"]

# No graph waits for this review: there is one for each question.
INTERRUPT = "sent"
DRAFT = frozenset(field.name for field in fields(Draft))
OF_SOURCES = ("audience", "collections", "labels")


def sampled(outcome: Outcome) -> dict[str, Any]:
    """What an answer's meta keeps for the look afterwards; empty where its rule asks for none."""
    if outcome.disposition != "sample" or outcome.draft is None:
        return {}
    return {"sampled": {name: list(getattr(outcome.draft, name)) for name in OF_SOURCES}}


class Sampling:
    def __init__(self, store: Store, cards: Cards, verifying: Verifying, correcting: Correcting) -> None:
        self._store = store
        self._cards = cards
        self._verifying = verifying
        self._correcting = correcting

    async def open(self, row: QuestionRow) -> None:
        """Put an answer that was sent before the reviewers, where it was chosen for that. Repeating it opens nothing
        twice. Raises `NotDelivered` as `Cards.post` does."""
        if row.state != "answered" or row.answer is None or "sampled" not in row.answer["meta"]:
            return
        review = await self._store.reviews.open(_new(row, Reply.from_json(row.answer)))
        await self._store.changes.notify("reviews", {"review": review.id, "state": review.state})
        if review.state == "pending":
            await self._cards.post(review)

    async def decided(self, review: ReviewRow) -> None:
        """A reviewer looked at what was sent. Called by the job `resume`; may be repeated."""
        row = await self._store.conversations.question(review.question_id)
        if review.decision is None or (row.state != "answered" and not given_up(row)) or row.answer is None:
            return
        by, key = review.decided_by or "", f"r{review.id}"
        if review.state == "rejected":
            await self._correcting.correct(row, Correction("withdrawn", key, by))
            return
        draft = Draft.from_json({name: value for name, value in review.draft.items() if name in DRAFT})
        if review.state == "edited":
            ids = [citation.passage_id for citation in draft.citations]
            passages = await self._store.search.passages(ids, {"everyone", *review.audience})
            draft = edited(replace(draft, text=str(review.decision["text"])), passages)
            await self._correcting.correct(row, Correction("replaced", key, by, reply=_reply(row, draft, by)))
        if review.state in ("approved", "edited"):
            asked = str(review.draft.get("rewritten_question") or row.text)
            signed = Outcome(
                "answered", draft, review_status=review.state, decided_by=by, question=row.text, whole=asked
            )
            await self._verifying.settled(row, signed)


def _new(row: QuestionRow, reply: Reply) -> NewReview:
    draft = Draft.from_json(
        {
            "text": reply.text,
            "kind": reply.meta.get("kind", "model"),
            "citations": reply.citations,
            "sentences": reply.meta.get("sentences", ()),
            "confidence": reply.meta.get("confidence", 0.0),
            "calibrated": reply.meta.get("calibrated", False),
            **reply.meta["sampled"],
        }
    )
    asked = reply.meta.get("rewritten_question", "")
    return NewReview(
        question_id=row.id,
        interrupt_id=INTERRUPT,
        round=1,
        version_hash=draft.version_hash,
        reason=str(reply.meta.get("rule", "")),
        draft={**draft.to_json(), "rewritten_question": asked},
        audience=draft.audience,
        disposition="sample",
    )


def _reply(row: QuestionRow, draft: Draft, by: str) -> Reply:
    """The answer as its reviewer put it right."""
    meta = {
        **(row.answer or {}).get("meta", {}),
        "sentences": [asdict(sentence) for sentence in draft.sentences],
        "signed": "edited",
        "signed_by": by,
    }
    return Reply("answer", draft.text, row.language, tuple(asdict(c) for c in draft.citations), meta)
