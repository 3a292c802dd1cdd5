"""Review cards: posted once in every review channel, and drawn anew from their row whenever it changes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.deliver import Deliverer, NotDelivered, Refused
from bot.messages import Reply
from bot.words import Words
from rag_graph.grounding import intersect_audiences
from store import Store
from store.conversations import QuestionRow
from store.deliveries import DeliveryRow, NewDelivery
from store.errors import NotFound
from store.reviews import ReviewRow

# Days after which a card is posted anew. Feishu lets a card be changed for 14 (open.feishu.cn, message/patch).
CARD_DAYS = {"feishu": 12.0}


class Cards:
    """`places` are principals of channels, such as slack:C0123 or feishu:oc_…: the review channel is a setting,
    not a platform."""

    def __init__(self, store: Store, deliverer: Deliverer, places: Sequence[str], language: str) -> None:
        self._store = store
        self._deliverer = deliverer
        self._places = tuple(places)
        self._language = language
        self._words = Words()

    async def post(self, review: ReviewRow) -> None:
        """Put the card into every review channel. Repeating it posts nothing twice.

        A channel that refuses it costs the others nothing. Raises `NotDelivered` when it can be tried again.
        """
        review = await current(self._store, review)
        question = await self._store.conversations.question(review.question_id)
        later: NotDelivered | None = None
        for place in self._places:
            try:
                await self._post(review, question, place)
            except Refused:
                continue  # those who run Signoff were told
            except NotDelivered as error:
                later = error
        if later is not None:
            raise later
        await self._catch_up(review.id)

    async def _catch_up(self, review_id: int) -> None:
        """Draw anew what was decided while nobody knew that its card had arrived: the redrawing that a decision orders
        passes by a card whose sending is not confirmed, and people see it all the same."""
        review = await current(self._store, await self._store.reviews.get(review_id))
        question = await self._store.conversations.question(review.question_id)
        for row in await self._store.deliveries.for_review(review_id):
            drawn = row.kind == "card" and row.state == "sent" and not row.content["meta"].get("moved")
            if drawn and row.content != card(review, question, _place(row), self._language).to_json():
                await self._store.queue.defer("redraw", {"review_id": review_id}, lock=f"card:{review_id}")
                return

    async def _post(self, review: ReviewRow, question: QuestionRow, place: str) -> None:
        platform, channel = place.split(":", 1)
        await self._deliverer.deliver(
            NewDelivery(
                purpose=f"card:{review.id}:{place}",
                platform=platform,
                kind="card",
                address={"channel": channel},
                content=card(review, question, place, self._language).to_json(),
                question_id=review.question_id,
                review_id=review.id,
            )
        )

    async def redraw(self, review_id: int) -> None:
        """Job `redraw`: bring every posted card to what the row says now."""
        review = await current(self._store, await self._store.reviews.get(review_id))
        question = await self._store.conversations.question(review.question_id)
        for row in await self._store.deliveries.for_review(review_id):
            if row.kind == "card" and row.state == "sent":
                if row.content["meta"].get("moved"):
                    continue  # too old to be changed, and it has no button left
                shown = card(review, question, _place(row), self._language)
                await self._deliverer.redraw(row, shown, wait=False)
            elif row.kind == "held" and row.state == "sent":
                told = notice(Reply.from_json(row.content), review)
                await self._deliverer.redraw(row, told, wait=False)
            elif review.state != "pending" and row.state == "sent" and _while_waiting(row, review_id):
                await self._deliverer.redraw(row, self._over(Reply.from_json(row.content)), wait=False)

    def _over(self, told: Reply) -> Reply:
        """What was said while it waited, now that it is decided: no choice is left, and no unverified word."""
        text = self._words(told.language, f"patience.{'replaced' if told.kind == 'draft' else 'over'}")
        return replace(told, text=text, meta={**told.meta, "actions": []})

    async def ageing(self, now: datetime) -> list[int]:
        """Pending reviews with a card that its platform will soon not let us change any more."""
        found = []
        for review in await self._store.reviews.list("pending"):
            rows = await self._store.deliveries.for_review(review.id)
            if any(_ages(row, now) for row in rows):
                found.append(review.id)
        return found

    async def renew(self, review_id: int, now: datetime) -> None:
        """Job `renew`: post an ageing card anew, and take the old one's buttons away while that is still possible.
        The new one first: killed in between, two cards are better than none, and the old one is renewed again."""
        review = await self._store.reviews.get(review_id)
        if review.state != "pending":
            return
        question = await self._store.conversations.question(review.question_id)
        for row in await self._store.deliveries.for_review(review_id):
            if not _ages(row, now):
                continue
            shown = card(review, question, _place(row), self._language)
            await self._deliverer.deliver(
                NewDelivery(
                    purpose=f"card:{review.id}:{_place(row)}~{row.id}",
                    platform=row.platform,
                    kind="card",
                    address=row.address,
                    content=shown.to_json(),
                    question_id=review.question_id,
                    review_id=review.id,
                )
            )
            await self._deliverer.redraw(row, replace(shown, meta={**shown.meta, "moved": True}))

    async def give_up(self, review_id: int) -> None:
        """The job `redraw` was tried to its last attempt: those who run Signoff hear which cards are out of date."""
        for row in await self._store.deliveries.for_review(review_id):
            if row.kind == "card" and row.state == "sent":
                await self._deliverer.alert(row, "redraw", "OSError")


def _while_waiting(row: DeliveryRow, review_id: int) -> bool:
    """Whether it was only meant for the time until the decision."""
    return row.purpose in (f"draft:{review_id}", f"timed_out:{review_id}")


def _place(row: DeliveryRow) -> str:
    """The channel's principal. A card that was posted anew has the old one's row behind a tilde."""
    return row.purpose.split(":", 2)[2].partition("~")[0]


def _ages(row: DeliveryRow, now: datetime) -> bool:
    lasts = CARD_DAYS.get(row.platform)
    if lasts is None or row.kind != "card" or row.state != "sent" or row.content["meta"].get("moved"):
        return False
    return row.sent_at is not None and now - row.sent_at > timedelta(days=lasts)


def notice(held: Reply, review: ReviewRow) -> Reply:
    """What the asker reads while the draft waits, with who has it and since when; nothing of the draft itself."""
    holder = {
        "claimed_by": review.claimed_by,
        "claimed_at": review.claimed_at.isoformat() if review.claimed_at else None,
        "opened_at": review.opened_at.isoformat(),
        "closed": review.state != "pending",
    }
    return replace(held, meta={**held.meta, **holder})


async def current(store: Store, review: ReviewRow) -> ReviewRow:
    """`review` for those whom its sources are for now: an audience may have become narrower, or a document gone, while
    the draft waited. Empty where nobody may read all of it any more."""
    audiences: list[Sequence[str]] = [review.audience]
    for document in dict.fromkeys(citation["document_id"] for citation in review.draft.get("citations", ())):
        try:
            audiences.append((await store.documents.show(document)).audience)
        except NotFound:
            return replace(review, audience=())
    return replace(review, audience=intersect_audiences(audiences), draft=await beside(store, review))


async def beside(store: Store, review: ReviewRow, reader: Collection[str] = ()) -> Mapping[str, Any]:
    """The draft, without the signed answer beside it where that has left service or may not be read: by `reader`, a
    person's principals, or, without one, by everybody who may read the draft."""
    nearest = review.draft.get("nearest")
    if nearest is None:
        return review.draft
    try:
        known = await store.verified.get(nearest["id"])
    except NotFound:
        return {**review.draft, "nearest": None}
    for_all = "everyone" in known.audience or set(review.audience) <= set(known.audience)
    readable = bool(set(reader) & set(known.audience)) if reader else for_all
    return review.draft if readable and known.state == "active" else {**review.draft, "nearest": None}


async def narrowed(store: Store, review: ReviewRow) -> bool:
    """Whether none of those a draft was written for may still read all that it cites."""
    return not (await current(store, review)).audience


def card(review: ReviewRow, question: QuestionRow, place: str, language: str) -> Reply:
    """The card as `place` may see it. Where the draft's audience leaves the place out, its text and passages stay
    hidden (invariant 6): the card then offers to open it privately."""
    audience = set(review.audience)
    visible = "everyone" in audience or place in audience
    draft: Mapping[str, Any] = review.draft
    meta: dict[str, Any] = {
        "review_id": review.id,
        "question_id": review.question_id,
        "version_hash": review.version_hash,
        "state": review.state,
        "round": review.round,
        "reason": review.reason,
        "asker": question.asker,
        "conversation_id": question.conversation_id,
        "claimed_by": review.claimed_by,
        "claimed_at": review.claimed_at.isoformat() if review.claimed_at else None,
        "needed": review.needed,
        "approved_by": list(review.approved_by),
        "sent": review.sent,
        "decided_by": review.decided_by,
        "decided_at": review.decided_at.isoformat() if review.decided_at else None,
        "opened_at": review.opened_at.isoformat(),
        "confidence": draft.get("confidence"),
        "calibrated": draft.get("calibrated", False),
        "visible": visible,
    }
    if not visible:
        return Reply("card", "", language, meta=meta)
    meta["question"] = question.text
    meta["rewritten_question"] = draft.get("rewritten_question", "")
    meta["sentences"] = draft.get("sentences", [])
    # {"question", "answer", "signed_by", "signed_at", "diff"} of the signed-off answer that comes nearest, if any.
    meta["nearest"] = draft.get("nearest")
    # Of a verified answer that is looked at again: {"title", "gone", "diff"} of each source that is not what it was.
    meta["changes"] = draft.get("changes", [])
    meta["decision"] = {key: value for key, value in (review.decision or {}).items() if value}
    return Reply("card", draft["text"], language, tuple(draft.get("citations", ())), meta)
