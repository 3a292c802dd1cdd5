"""Use case: a review that nobody has decided yet. Reminders, a second reviewer, the time-out with its choices, and what
a review usually takes.

Every step is a job of its own under a lock of its own, ordered in the transaction that opened the review; which minutes
count says the rule's queue (`[review.queues.NAME]` in signoff.toml).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from bot.cards import current
from bot.deliver import Deliverer, NotDelivered
from bot.hours import Hours, median
from bot.messages import PEEK, PERSON, WAIT, Reply
from bot.replies import spell
from bot.settings import Queue, Review
from bot.telling import quoted
from bot.words import Words
from rag_graph.policy import Rules
from store import Store
from store.conversations import QuestionRow
from store.deliveries import DeliveryRow, NewDelivery
from store.reviews import ReviewRow

__all__ = ["Patience", "Waiting"]

log = structlog.get_logger(__name__)

STEPS = ("reminded", "escalated", "timed_out")
ENOUGH = 5  # decided reviews without which nothing is promised
LOOK_BACK = timedelta(days=60)
MOST = 200
EARLY = timedelta(seconds=1)  # what a job may be before its time
DIRECT = ("slack", "feishu")  # platforms on which one person can be written to


class Waiting:
    """The queues as rules: pure but for the clock that its callers hand in."""

    def __init__(self, review: Review, rules: Rules) -> None:
        self._queues: Mapping[str, Queue] = {"": Queue(), **review.queues}
        self._rules = rules
        self._hours = {
            name: Hours.parse(queue.zone, queue.hours, queue.holidays) for name, queue in self._queues.items()
        }

    def queue_of(self, rule: str) -> str:
        """The name of the queue that holds what `rule` holds."""
        found = self._rules.named(rule)
        name = found.queue if found and found.queue else "default"
        return name if name in self._queues else ""

    def queue(self, rule: str) -> Queue:
        return self._queues[self.queue_of(rule)]

    def hours(self, rule: str) -> Hours:
        return self._hours[self.queue_of(rule)]

    def rules_of(self, rule: str) -> list[str]:
        """The rules whose drafts wait in the same queue."""
        mine = self.queue_of(rule)
        return [other.name for other in self._rules.rules if self.queue_of(other.name) == mine] or [rule]

    def due(self, rule: str, step: str, opened: datetime) -> datetime | None:
        """When a step of the waiting is due; None where the queue has none, or never opens."""
        queue = self.queue(rule)
        minutes = {
            "reminded": queue.remind_minutes,
            "escalated": queue.second_minutes,
            "timed_out": queue.timeout_minutes,
        }[step]
        return self.hours(rule).after(opened, timedelta(minutes=minutes)) if minutes else None

    def later(self, rule: str, now: datetime) -> dict[str, float]:
        """Seconds until each step of a review that opens now."""
        due = {step: self.due(rule, step, now) for step in STEPS}
        return {step: max(0.0, (at - now).total_seconds()) for step, at in due.items() if at is not None}

    def expected(
        self, rule: str, past: Sequence[tuple[datetime, datetime]], now: datetime
    ) -> tuple[timedelta, datetime] | None:
        """What a review of the queue usually takes in working time – the median of `past` (opened, decided) – and when
        one that opens now would be decided then. None with too few to go by."""
        hours = self.hours(rule)
        usual = median([hours.working(opened, decided) for opened, decided in past], ENOUGH)
        by = hours.after(now, usual) if usual is not None else None
        return (usual, by) if usual is not None and by is not None else None


class Patience:
    def __init__(
        self, store: Store, deliverer: Deliverer, words: Words, review: Review, waiting: Waiting
    ) -> None:
        self._store = store
        self._deliverer = deliverer
        self._words = words
        self._review = review
        self.waiting = waiting

    async def expected(self, rule: str, now: datetime) -> tuple[timedelta, datetime] | None:
        """See `Waiting.expected`."""
        past = await self._store.history.past(self.waiting.rules_of(rule), now - LOOK_BACK, MOST)
        return self.waiting.expected(rule, past, now)

    # --- steps, each a job

    async def step(self, review_id: int, step: str) -> None:
        """Job `patience`. Repeating it tells nobody twice."""
        review = await self._store.reviews.get(review_id)
        due = self.waiting.due(review.reason, step, review.opened_at)
        if review.state != "pending" or due is None or step not in STEPS:
            return
        now = datetime.now(UTC)
        if due - now > EARLY:  # the hours were changed while it waited
            lock, seconds = f"patience:{review_id}:{step}", (due - now).total_seconds()
            arguments = {"review_id": review_id, "step": step}
            await self._store.queue.defer("patience", arguments, lock=lock, schedule_in=seconds)
            return
        await {"reminded": self._remind, "escalated": self._second, "timed_out": self._time_out}[step](review)
        await self._store.reviews.note(review_id, step)

    async def _remind(self, review: ReviewRow) -> None:
        """Whoever has it; else everybody who could take it."""
        if review.claimed_by:
            await self._tell(review, "reminded", [review.claimed_by], self._says("patience.yours", review))
        else:
            await self._tell(
                review, "reminded", self._review.channels, self._says("patience.nobodys", review)
            )

    async def _second(self, review: ReviewRow) -> None:
        """Those whom the queue names as second; without any, the review channels."""
        second = self.waiting.queue(review.reason).second
        key = "patience.second_named" if second else "patience.second"
        await self._tell(review, "escalated", second or self._review.channels, self._says(key, review))

    def _says(self, key: str, review: ReviewRow) -> str:
        hours = self.waiting.hours(review.reason)
        waited = hours.working(review.opened_at, datetime.now(UTC))
        return self._words(
            self._review.language, key, reference=review.id,
            waited=spell(self._words, self._review.language, waited, working=not hours.always),
        )  # fmt: skip

    async def _tell(self, review: ReviewRow, step: str, whom: Sequence[str], sentence: str) -> None:
        """Channels and people by their principals; with the number of the review alone, which says nothing of it."""
        for principal in whom:
            platform, _, place = principal.partition(":")
            if not self._deliverer.knows(platform):
                continue
            person = platform in DIRECT and principal not in self._review.channels
            await self._quietly(
                NewDelivery(
                    purpose=f"{step}:{review.id}:{principal}",
                    platform=platform,
                    kind="notice",
                    address={"user": place} if person else {"channel": place},
                    content=Reply("notice", sentence, self._review.language).to_json(),
                    review_id=review.id,
                )
            )

    async def _time_out(self, review: ReviewRow) -> None:
        """The asker is told, with what they may choose. A time-out decides nothing (invariant 10)."""
        row = await self._store.conversations.question(review.question_id)
        actions = [WAIT, PERSON]
        if await self._may_peek(review):
            actions.insert(1, PEEK)
        meta = {"question_id": row.id, "review_id": review.id, "actions": actions}
        text = self._words(row.language, "patience.timed_out", reference=review.id)
        await self._send(row, f"timed_out:{review.id}", Reply("notice", text, row.language, meta=meta))

    # --- what the asker chooses

    async def choose(self, question_id: str, actor: str, choice: str) -> str:
        """A click on what the time-out offers. Returns what became of it (`patience.<key>` in the words files):
        chose_wait, chose_peek, chose_person, over (decided meanwhile), forbidden (somebody else's question)."""
        row = await self._store.conversations.question(question_id)
        if row.asker != actor:
            return "forbidden"
        reviews = await self._store.reviews.for_question(question_id)
        review = reviews[-1] if reviews else None
        if review is None or review.state != "pending" or row.state != "held":
            return "over"
        if choice == PEEK and not (await self._may_peek(review) and await self.peek(row, review)):
            return "not_shown"
        if choice == PERSON:
            await self.call_person(row, review, "patience.wanted")
        await self._store.reviews.note(review.id, f"chose_{choice}", by=actor)
        await self._choose_once(review)
        return f"chose_{choice}"

    async def _choose_once(self, review: ReviewRow) -> None:
        """The buttons have served; what was said stays."""
        for told in await self._store.deliveries.for_review(review.id):
            if told.purpose == f"timed_out:{review.id}" and told.state == "sent":
                reply = Reply.from_json(told.content)
                await self._deliverer.redraw(told, replace(reply, meta={**reply.meta, "actions": []}))

    async def _may_peek(self, review: ReviewRow) -> bool:
        allowed = review.disposition == "private" or self.waiting.queue(review.reason).private_draft
        return allowed and bool((await current(self._store, review)).audience)

    async def peek(self, row: QuestionRow, review: ReviewRow) -> bool:
        """Show the asker alone the draft, marked unverified (invariant 3 names the rule that allows it). False where
        its readers may not read all of its sources any more."""
        if not (await current(self._store, review)).audience:
            return False
        platform, _, user = row.asker.partition(":")
        text = f"**{self._words(row.language, 'patience.unverified')}**\n\n{review.draft['text']}"
        reply = Reply("draft", text, row.language, meta={"question_id": row.id, "review_id": review.id})
        address: Mapping[str, Any] = {"user": user} if platform in DIRECT else row.address
        return await self._send(row, f"draft:{review.id}", reply, address) is not None

    async def give_over(self, row: QuestionRow) -> None:
        """As many drafts were rejected as are tried: a person answers. Repeating it asks nobody twice."""
        reviews = await self._store.reviews.for_question(row.id)
        if reviews:
            await self.call_person(row, reviews[-1], "patience.rounds")

    async def call_person(self, row: QuestionRow, review: ReviewRow, key: str) -> None:
        """Ask the review channels for somebody who answers in the thread themselves."""
        audience = set((await current(self._store, review)).audience)
        for place in self._review.channels:
            platform, _, channel = place.partition(":")
            shown = "everyone" in audience or place in audience
            text = self._words(self._review.language, key, reference=review.id)
            reply = Reply(
                "notice",
                f"{text}\n\n{quoted(row.text)}" if shown else text,
                self._review.language,
                meta={"conversation_id": row.conversation_id},
            )
            await self._quietly(
                NewDelivery(
                    purpose=f"person:{row.id}:{place}",
                    platform=platform,
                    kind="notice",
                    address={"channel": channel},
                    content=reply.to_json(),
                    question_id=row.id if platform in DIRECT else None,
                )
            )

    # --- sending

    async def _send(
        self, row: QuestionRow, purpose: str, reply: Reply, address: Mapping[str, Any] | None = None
    ) -> DeliveryRow | None:
        return await self._quietly(
            NewDelivery(
                purpose=purpose,
                platform=row.conversation_id.split(":", 1)[0],
                kind=reply.kind,
                address=row.address if address is None else address,
                content=reply.to_json(),
                conversation_id=row.conversation_id,
                question_id=row.id,
                review_id=int(reply.meta["review_id"]),
            )
        )

    async def _quietly(self, new: NewDelivery) -> DeliveryRow | None:
        """What cannot be sent now has its row, and is tried again from there."""
        try:
            return await self._deliverer.deliver(new)
        except NotDelivered as error:
            log.warning("patience.later", purpose=new.purpose, error=str(error))
            return None
