"""Use case: a review. Who may decide, what a click did, and the resume that follows a decision."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from bot.ask import Asking, as_question
from bot.cards import narrowed
from bot.deciders import Deciders
from bot.graphs import Graphs
from bot.messages import Action
from bot.stops import Stopped
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

    # done | claimed | released | reassigned | late | stale | gone | forbidden | own | unlinked | no_reviewer | empty;
    # of `look` also open | narrowed
    key: str
    review: ReviewRow | None

    @property
    def changed(self) -> bool:
        return self.key in ("done", "claimed", "released", "reassigned")


class Reviewing:
    def __init__(
        self,
        store: Store,
        graphs: Graphs,
        asking: Asking,
        *,
        deciders: Deciders,
    ) -> None:
        self._store = store
        self._graphs = graphs
        self._asking = asking
        self._deciders = deciders

    async def act(self, action: Action) -> Acted:
        """Carry out a click. Checked now, not when the card was drawn (invariant 5)."""
        review = await self._store.reviews.find(action.review_id)
        if review is None:
            return Acted("gone", None)
        action = _cleaned(action)
        question = await self._store.conversations.question(review.question_id)
        refusal = await self._deciders.refusal(action.actor, question.asker)
        if refusal:
            return Acted(refusal, review)
        return await self._carry_out(action, review, question.asker)

    async def reviewer(self, principal: str) -> bool:
        """Whether this person, under any of their linked identities, is on the list of reviewers and still in the
        review channel."""
        return await self._deciders.present(principal) and await self._deciders.listed(principal)

    async def look(self, review_id: int, version_hash: str, actor: str) -> Acted:
        """The review for one reviewer who opens it: its key is "open" where they may read the draft and decide on it,
        else what keeps them from it."""
        review = await self._store.reviews.find(review_id)
        key = "open"
        if not await self.reviewer(actor):
            key = "forbidden"
        elif review is None or review.state == "withdrawn":
            key = "gone"
        elif review.state != "pending":
            key = "late"
        elif review.version_hash != version_hash:
            key = "stale"
        elif await narrowed(self._store, review):
            key = "narrowed"
        return Acted(key, review)

    async def others(self, review_id: int) -> list[str]:
        """The reviewers to whom a review can be passed on, as their list names them."""
        review = await self._store.reviews.get(review_id)
        question = await self._store.conversations.question(review.question_id)
        listed = self._deciders.reviewers
        return [who for who in listed if who not in (question.asker, review.claimed_by)]

    async def _carry_out(self, action: Action, review: ReviewRow, asker: str) -> Acted:
        if action.verb == "claim":
            claimed = await self._store.reviews.claim(review.id, action.actor)
            return Acted("claimed" if claimed else "late", await self._store.reviews.get(review.id))
        if action.verb == "release":
            released = await self._store.reviews.release(review.id, action.actor)
            return Acted("released" if released else "late", await self._store.reviews.get(review.id))
        if action.verb == "reassign":
            return await self._reassign(action, review, asker)
        decision = Decision(
            action=action.verb,
            by=action.actor,
            text=action.text,
            reason=action.reason,
            hint=action.hint,
            question=action.question,
        )
        if decision.action == "edit" and not decision.text:
            return Acted("empty", review)
        decided = await self._store.reviews.decide(
            review.id, action.version_hash, STATE_OF[action.verb], action.actor, decision.to_json()
        )
        return Acted(decided.outcome, decided.review)

    async def _reassign(self, action: Action, review: ReviewRow, asker: str) -> Acted:
        """Give the review to another reviewer, whoever has it: somebody on leave must not keep it for ever."""
        if not action.to or await self._deciders.refusal(action.to, asker):
            return Acted("no_reviewer", review)
        given = await self._store.reviews.reassign(review.id, action.to, action.actor)
        return Acted("reassigned" if given else "late", await self._store.reviews.get(review.id))

    async def resume(self, review_id: int) -> None:
        """Job `resume`, one at a time for a question: hand the decision to the waiting graph."""
        review = await self._store.reviews.get(review_id)
        if review.resumed or review.decision is None:
            return
        started = time.perf_counter()
        row = await self._store.conversations.question(review.question_id)
        conversation = await self._store.conversations.get(row.conversation_id)
        advancing = self._graphs.advance(
            as_question(row, conversation),
            interrupt_id=review.interrupt_id,
            decision=Decision(**review.decision),
        )
        with suppress(Stopped):
            outcome = await self._asking.stops.guard(row.id, advancing)
            if outcome.status == "stale" and row.state == "held":
                # The thread that waited is gone, and nothing else will ever answer this question.
                await self._asking.fail(row.id, row.id[:8])
            await self._asking.settle(row, outcome, {"resume": (time.perf_counter() - started) * 1_000})
        await self._store.reviews.mark_resumed(review.id)

    async def give_up(self, review_id: int) -> None:
        """The job `resume` was tried to its last attempt: the asker is told."""
        review = await self._store.reviews.get(review_id)
        await self._asking.fail(review.question_id, review.question_id[:8])

    async def expire(self, older_than_hours: float) -> int:
        """Close what nobody decided within the hard limit. A time-out is a state of its own, never a denial."""
        due = await self._store.reviews.overdue(older_than_hours)
        for review in due:
            decision = Decision(action="expire", by="")
            await self._store.reviews.decide(
                review.id, review.version_hash, "expired", "", decision.to_json()
            )
        return len(due)


def _cleaned(action: Action) -> Action:
    """What people typed, as it can be stored; ends trimmed."""
    return replace(
        action,
        version_hash=clean(action.version_hash),
        actor=clean(action.actor),
        text=clean(action.text).strip(),
        reason=clean(action.reason).strip(),
        hint=clean(action.hint).strip(),
        question=clean(action.question).strip(),
        to=clean(action.to).strip(),
    )
