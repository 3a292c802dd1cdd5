"""Use case: as many drafts were rejected as are tried, and a person answers in the thread. What they wrote can become a
verified answer: it goes before the reviewers like a draft that was sent already, on the passages that support it."""

import structlog

from bot.cards import Cards
from bot.deciders import Deciders
from bot.deliver import Deliverer, NotDelivered
from bot.messages import Reply
from bot.words import Words
from rag_graph.contracts import Written
from rag_graph.drafting import assemble
from store import Store
from store.conversations import QuestionRow
from store.deliveries import NewDelivery
from store.reviews import NewReview, ReviewRow
from store.text import clean

__all__ = ["ByHand", "given_up"]

log = structlog.get_logger(__name__)

RULE = "person"  # what the review says held it
SHORTEST = 2  # letters of an answer; "ok" and a nod are none


def given_up(row: QuestionRow) -> bool:
    """Whether a question ended because no draft of it was good enough: then a person answers."""
    return row.state == "declined" and (row.answer or {}).get("meta", {}).get("reason") == "rounds"


class ByHand:
    def __init__(
        self, store: Store, cards: Cards, deliverer: Deliverer, deciders: Deciders, words: Words
    ) -> None:
        self._store = store
        self._cards = cards
        self._deliverer = deliverer
        self._deciders = deciders
        self._words = words

    async def heard(self, conversation_id: str, actor: str, text: str, key: str) -> ReviewRow | None:
        """Somebody else than the asker wrote in a thread. Where a person's answer is waited for there and they are a
        reviewer, the review of what they wrote; else None. `key` is the message's: repeating it opens nothing twice."""
        waiting = [row for row in await self._store.conversations.questions(conversation_id) if given_up(row)]
        if not waiting or await self._deciders.refusal(actor, waiting[-1].asker):
            return None
        return await self._candidate(waiting[-1], actor, clean(text).strip(), key)

    async def answer(self, review_id: int, actor: str, text: str) -> str:
        """Answer from the review desk: the text goes into the thread. Returns `review.<key>` of the words files:
        answered, empty, gone (nobody waits for it), or why this person may not."""
        review = await self._store.reviews.find(review_id)
        row = await self._store.conversations.question(review.question_id) if review else None
        said = clean(text).strip()
        if review is None or row is None or not given_up(row):
            return "gone"
        refusal = await self._deciders.refusal(actor, row.asker)
        if refusal or len(said) < SHORTEST:
            return refusal or "empty"
        purpose = f"by_hand:{row.id}:{actor}"
        try:
            await self._deliverer.deliver(
                NewDelivery(
                    purpose=purpose,
                    platform=row.conversation_id.split(":", 1)[0],
                    kind="notice",
                    address=row.address,
                    content=Reply(
                        "notice", f"**{self._words(row.language, 'answer.by_hand')}**\n\n{said}", row.language
                    ).to_json(),
                    conversation_id=row.conversation_id,
                    question_id=row.id,
                )
            )
        except NotDelivered as error:  # its row is tried again
            log.warning("by_hand.later", error=str(error))
        await self._candidate(row, actor, said, purpose)
        return "answered"

    async def _candidate(self, row: QuestionRow, actor: str, text: str, key: str) -> ReviewRow | None:
        """A review of a person's own words. None where no passage of the rejected drafts supports them: what rests on
        nothing could never go out of date."""
        reviews = await self._store.reviews.for_question(row.id)
        if not reviews or len(text) < SHORTEST:
            return None
        read = [reviews[-1].draft, *(review.draft for review in reviews[:-1])]
        ids = [c["passage_id"] for draft in read for c in draft.get("citations", ())]
        ids += [number for draft in read for number in draft.get("retrieved", ())]
        passages = await self._store.search.passages(list(dict.fromkeys(ids)), reviews[-1].audience)
        made = assemble(Written(text, RULE), passages, {})
        await self._store.changes.notify(f"conversation:{row.conversation_id}", {"question": row.id})
        if made is None:
            return None
        asked = str(reviews[-1].draft.get("rewritten_question", ""))
        review = await self._store.reviews.open(
            NewReview(
                question_id=row.id,
                interrupt_id=f"person:{key}",
                round=1,
                version_hash=made.version_hash,
                reason=RULE,
                draft={**made.to_json(), "rewritten_question": asked},
                audience=made.audience,
                disposition="sample",
            )
        )
        if review.state == "pending":
            await self._store.reviews.note(review.id, "written", by=actor)
            await self._store.changes.notify("reviews", {"review": review.id, "state": review.state})
            await self._cards.post(review)
        return review
