"""Use case: a review. Who may decide, what a click did, and the resume that follows a decision."""

import asyncio
import time
from dataclasses import dataclass

import structlog

from bot.ask import Asking, as_question
from bot.graphs import Graphs
from bot.messages import Action
from rag_graph.contracts import Decision
from store import Store
from store.reviews import ReviewRow
from store.text import clean

log = structlog.get_logger(__name__)

STATE_OF = {"approve": "approved", "edit": "edited", "reject": "rejected"}


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of a click. `key` names the sentence for the clicker (`review.<key>` in the words files);
    every click gets one, also a late or forbidden one."""

    key: str  # done | claimed | released | late | stale | gone | forbidden | own | empty
    review: ReviewRow | None

    @property
    def changed(self) -> bool:
        return self.key in ("done", "claimed", "released")


class Reviewing:
    def __init__(
        self,
        store: Store,
        graphs: Graphs,
        asking: Asking,
        *,
        reviewers: frozenset[str],
        allow_own: bool = False,
    ) -> None:
        self._store = store
        self._graphs = graphs
        self._asking = asking
        self._reviewers = reviewers
        self._allow_own = allow_own

    async def act(self, action: Action) -> Acted:
        """Carry out a click. Checked now, not when the card was drawn (invariant 5)."""
        review = await self._store.reviews.find(action.review_id)
        if review is None:
            return Acted("gone", None)
        refusal = await self._refusal(action, review)
        if refusal:
            return Acted(refusal, review)
        acted = await self._carry_out(action, review)
        if acted.changed:
            # Side by side: the clicker waits for both (Slack's 100 ms budget counts them).
            await asyncio.gather(
                self._store.changes.notify("reviews", {"review": review.id, "state": acted.key}),
                self._store.queue.defer("redraw", {"review_id": review.id}, lock=f"card:{review.id}"),
            )
        return acted

    async def _carry_out(self, action: Action, review: ReviewRow) -> Acted:
        if action.verb == "claim":
            claimed = await self._store.reviews.claim(review.id, action.actor)
            return Acted("claimed" if claimed else "late", await self._store.reviews.get(review.id))
        if action.verb == "release":
            released = await self._store.reviews.release(review.id, action.actor)
            return Acted("released" if released else "late", await self._store.reviews.get(review.id))
        decision = Decision(
            action=action.verb,
            by=action.actor,
            text=clean(action.text).strip(),
            reason=action.reason,
            hint=clean(action.hint).strip(),
            question=clean(action.question).strip(),
        )
        if decision.action == "edit" and not decision.text:
            return Acted("empty", review)
        decided = await self._store.reviews.decide(
            review.id, action.version_hash, STATE_OF[action.verb], action.actor, decision.to_json()
        )
        return Acted(decided.outcome, decided.review)

    async def _refusal(self, action: Action, review: ReviewRow) -> str:
        if action.actor not in self._reviewers:
            return "forbidden"
        question = await self._store.conversations.question(review.question_id)
        return "own" if question.asker == action.actor and not self._allow_own else ""

    async def resume(self, review_id: int) -> None:
        """Job `resume`, one at a time for a question: hand the decision to the waiting graph."""
        review = await self._store.reviews.get(review_id)
        if review.resumed or review.decision is None:
            return
        started = time.perf_counter()
        row = await self._store.conversations.question(review.question_id)
        conversation = await self._store.conversations.get(row.conversation_id)
        outcome = await self._graphs.advance(
            as_question(row, conversation),
            interrupt_id=review.interrupt_id,
            decision=Decision(**review.decision),
        )
        await self._asking.settle(row, outcome, {"resume": (time.perf_counter() - started) * 1_000})
        await self._store.reviews.mark_resumed(review.id)

    async def expire(self, older_than_hours: float) -> int:
        """Close what nobody decided within the hard limit. A time-out is a state of its own, never a denial."""
        due = await self._store.reviews.overdue(older_than_hours)
        for review in due:
            decision = Decision(action="expire", by="")
            await self._store.reviews.decide(
                review.id, review.version_hash, "expired", "", decision.to_json()
            )
        return len(due)
