"""Use case: a review. Who may decide, what a click did, and the resume that follows a decision."""

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import structlog

from bot.ask import Asking, as_question
from bot.cards import narrowed
from bot.deciders import Deciders
from bot.graphs import Graphs
from bot.messages import REASONS, Action
from bot.sampling import Sampling
from bot.stops import Stopped
from bot.verifying import Verifying, of_verified
from rag_graph.contracts import Decision, Draft
from rag_graph.grounding import ground, neutralise
from store import Store
from store.reviews import ReviewRow
from store.text import clean

log = structlog.get_logger(__name__)

DRAFT_FIELDS = frozenset(field.name for field in fields(Draft))
CHANGED = frozenset({"done", "first", "revised", "claimed", "released", "reassigned"})
STATE_OF = {"approve": "approved", "edit": "edited", "reject": "rejected"}


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of a click. `key` names the sentence for the clicker (`review.<key>` in the words files);
    every click gets one, also a late or forbidden one."""

    # done | first | revised | claimed | released | reassigned | late | stale | gone | forbidden | own | unlinked |
    # twice | unlinked_too | no_reviewer | empty; of `look` also open | narrowed
    key: str
    review: ReviewRow | None

    @property
    def changed(self) -> bool:
        return self.key in CHANGED


@dataclass(frozen=True, slots=True)
class _Edited:
    content: dict[str, Any]
    hash: str


class Reviewing:
    def __init__(
        self,
        store: Store,
        graphs: Graphs,
        asking: Asking,
        *,
        deciders: Deciders,
        verifying: Verifying,
        sampling: Sampling,
    ) -> None:
        self._store = store
        self._graphs = graphs
        self._asking = asking
        self._deciders = deciders
        self._verifying = verifying
        self._sampling = sampling

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

    async def look(self, review_id: int, version_hash: str, actor: str, *, draft: bool = True) -> Acted:
        """The review for one reviewer who opens it: its key is "open" where they may read the draft and decide on it,
        else what keeps them from it. `draft`: they see it then, which is written down."""
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
        elif draft:
            await self._store.reviews.saw(review.id, actor)
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
        reason = action.reason if action.reason in REASONS else REASONS[-1]
        decision = Decision(
            action=action.verb,
            by=action.actor,
            text=action.text,
            reason=reason if action.verb == "reject" else "",
            hint=action.hint,
            question=action.question,
        )
        if decision.action == "edit" and not decision.text:
            return Acted("empty", review)
        if review.needed > 1 and decision.action != "reject":
            return await self._by_two(action, review, decision)
        decided = await self._store.reviews.decide(
            review.id, action.version_hash, STATE_OF[action.verb], action.actor, decision.to_json()
        )
        return Acted(decided.outcome, decided.review)

    async def _by_two(self, action: Action, review: ReviewRow, decision: Decision) -> Acted:
        """An approval where two people have to approve the very same draft. Whoever edits makes another draft, which
        they approve by that; somebody else has to approve it too. One rejection is enough."""
        reviews, by = self._store.reviews, action.actor
        if review.state != "pending" or review.version_hash != action.version_hash:
            decided = await reviews.decide(
                review.id, action.version_hash, STATE_OF[action.verb], by, decision.to_json(), approved=()
            )
            return Acted(decided.outcome, decided.review)
        if decision.action == "edit":
            draft = await self._edited(review, decision.text)
            revised = await reviews.revise(review.id, action.version_hash, by, draft.content, draft.hash)
            return Acted("revised" if revised else "stale", await reviews.get(review.id))
        refusal = await self._deciders.repeated(by, review.approved_by)
        if refusal:
            return Acted(refusal, review)
        if len(review.approved_by) + 1 < review.needed:
            noted = await reviews.approve(review.id, action.version_hash, by, review.approved_by)
            return Acted("first", await reviews.get(review.id)) if noted else await self._again(action)
        state = "approved"
        if "original" in review.draft:  # what both approved is an edited text
            state, decision = "edited", replace(decision, action="edit", text=str(review.draft["text"]))
        decided = await reviews.decide(
            review.id, action.version_hash, state, by, decision.to_json(), approved=review.approved_by
        )
        return Acted(decided.outcome, decided.review)

    async def _again(self, action: Action) -> Acted:
        """Somebody else approved at the same moment: looked at once more, with their approval there."""
        review = await self._store.reviews.get(action.review_id)
        return await self._by_two(action, review, Decision(action="approve", by=action.actor))

    async def _edited(self, review: ReviewRow, text: str) -> "_Edited":
        """The draft with an editor's text: its sentences are judged anew, and the first wording kept for the diff."""
        citations = review.draft.get("citations", ())
        cited = [citation["passage_id"] for citation in citations]
        passages = await self._store.search.passages(cited, review.audience) if cited else []
        text = neutralise(text).strip()
        sentences = [asdict(sentence) for sentence in ground(text, passages)]
        original = review.draft.get("original", review.draft["text"])
        content = {**review.draft, "text": text, "sentences": sentences, "original": original}
        known = {name: value for name, value in content.items() if name in DRAFT_FIELDS}
        return _Edited(content, Draft.from_json(known).version_hash)

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
        self._asking.telemetry.name(question=review.question_id)
        if of_verified(review) is not None or review.sent:
            await (self._sampling if review.sent else self._verifying).decided(review)
            await self._resumed(review)
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
        await self._resumed(review)

    async def _resumed(self, review: ReviewRow) -> None:
        await self._store.reviews.mark_resumed(review.id)
        self._asking.telemetry.reviewed(review.state)

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
