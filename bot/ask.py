"""Use case: a question. Accept it durably, answer it through the graph, send once, remember."""

import hashlib
import time
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import structlog

from bot import replies
from bot.canary import Trying
from bot.cards import Cards
from bot.deliver import Deliverer, NotDelivered, Refused
from bot.graphs import Graphs
from bot.limits import door
from bot.messages import Change, Incoming, Progress, Reply
from bot.patience import Patience
from bot.pausing import paused, pausing
from bot.principals import readers
from bot.sampling import Sampling, sampled
from bot.settings import Limits
from bot.stops import GONE, Stopped, Stops
from bot.telemetry import Telemetry
from bot.verifying import Verifying
from bot.words import Words
from rag_graph.advance import Outcome
from rag_graph.contracts import Question, Turn
from rag_graph.policy import precheck
from rag_graph.record import searches
from rag_graph.rules import DEFAULT
from store import Store
from store.conversations import TERMINAL, ConversationRow, QuestionRow
from store.deliveries import DeliveryRow, NewDelivery
from store.inbox import Accepted, Door, NewQuestion
from store.reviews import ReviewRow
from store.runs import NewRun
from store.text import clean, language

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`longest` is in characters of one question."""

    longest: int
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Onward:
    """The use cases that go on where an answer, or a draft that waits, is."""

    verifying: Verifying
    patience: Patience
    sampling: Sampling
    trying: Trying


class Asking:
    """`accept` is what a platform's listener calls before it acknowledges; the others are jobs."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        store: Store,
        graphs: Graphs,
        deliverer: Deliverer,
        cards: Cards,
        words: Words,
        bounds: Bounds,
        *,
        onward: Onward,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._graphs = graphs
        self._deliverer = deliverer
        self._cards = cards
        self._words = words
        self._bounds = bounds
        self._verifying, self._patience = onward.verifying, onward.patience
        self._sampling, self._trying = onward.sampling, onward.trying
        self.stops = Stops(store.changes, store.conversations)
        self.telemetry = telemetry or Telemetry()

    # --- at the door

    async def accept(self, incoming: Incoming) -> str | None:
        """Store the question and its job in one transaction; return its id, or None when it was seen before.

        One that is not answered (too long, too late, too many) is stored as well, and its asker told why.
        """
        accepted = await self._accept(incoming)
        return accepted.question_id if accepted else None

    async def change(self, change: Change) -> str | None:
        """An edited or deleted question. What waits is withdrawn, what runs is cut; an edit is asked anew and its id
        returned. Where the old wording has its answer, the new one is only offered (unless `change.ask`)."""
        row = await self._store.conversations.question(change.question_id)
        if row.asker != change.actor or row.state == "withdrawn":
            return None
        if change.text is None:
            await self._store.inbox.withdraw(row.id)
            await self._over(row)
            return None
        text = clean(change.text).strip()
        if not text or text == row.text:
            return None  # a link preview, a change of layout: nothing that could be answered otherwise
        return await self._ask_instead(row, text, change.dedupe_key, insist=change.ask)

    async def again(self, question_id: str, actor: str) -> str:
        """The action `AGAIN`: ask a question once more, in its edited wording where there is one.

        Returns what became of it: asked, twice (asked again already), forbidden (it is somebody else's).
        """
        row = await self._store.conversations.question(question_id)
        if row.asker != actor:
            return "forbidden"
        text = row.edited or row.text
        key = f"again:{row.id}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return "asked" if await self._ask_instead(row, text, key, insist=True) else "twice"

    async def replay(self, question_id: str, occasion: str, *, title: str) -> bool:
        """Ask a question once more because the document `title` may answer it now, and say so in its thread. False
        where it was on this occasion already, or answering is paused there."""
        row = await self._store.conversations.question(question_id)
        conversation = await self._store.conversations.get(row.conversation_id)
        if await paused(self._store.switches, conversation.platform, conversation.channel):
            return False
        key = f"{occasion}:{row.id}"
        asked = await self._ask_instead(row, row.edited or row.text, key, insist=True, door=Door())
        if asked is None:
            return False
        again = await self._store.conversations.question(asked)
        sentence = self._words(again.language, "answer.replayed", title=title)
        await self._quietly(self._send(again, f"replayed:{asked}", Reply("notice", sentence, again.language)))
        return True

    async def _ask_instead(
        self, row: QuestionRow, text: str, dedupe_key: str, *, insist: bool, door: Door | None = None
    ) -> str | None:
        """Ask `text` in the place of `row`; the id of the new question, None where there is none. `door` is another one
        than that of messages which people send."""
        conversation = await self._store.conversations.get(row.conversation_id)
        incoming = Incoming(
            platform=conversation.platform,
            dedupe_key=dedupe_key,
            conversation_id=row.conversation_id,
            channel=conversation.channel,
            thread=conversation.thread,
            private=conversation.private,
            asker=row.asker,
            text=text,
            sent_at=datetime.now(UTC),
            address=row.address,
        )
        accepted = await self._accept(incoming, replaces=row.id, insist=insist, door=door)
        if accepted is None:
            return None
        if accepted.refused == "edited":
            await self._quietly(self._send(row, f"edited:{row.id}", replies.edited(self._words, row)))
            return None
        await self._over(row)
        return accepted.question_id

    async def _accept(
        self,
        incoming: Incoming,
        *,
        replaces: str | None = None,
        insist: bool = False,
        door: Door | None = None,
    ) -> Accepted | None:
        longest = self._bounds.longest
        text = clean(incoming.text).strip()
        incoming = replace(incoming, text=text)
        accepted = await self._store.inbox.accept(
            NewQuestion(
                platform=incoming.platform,
                dedupe_key=incoming.dedupe_key,
                conversation_id=incoming.conversation_id,
                channel=incoming.channel,
                thread=incoming.thread,
                private=incoming.private,
                asker=incoming.asker,
                # What is too long is refused whole; its beginning is kept to show which message that was.
                text=text[:longest],
                sent_at=incoming.sent_at,
                address=dict(incoming.address),
                question_id=uuid.uuid4().hex,
                language=language(text[:longest]),
            ),
            self._door(incoming) if door is None else door,
            replaces=replaces,
            insist=insist,
        )
        if accepted is not None:
            self.telemetry.accepted(accepted.question_id, incoming.platform, accepted.refused)
        return accepted

    def _door(self, incoming: Incoming) -> Door:
        found = door(incoming, self._bounds.limits, self._bounds.longest, datetime.now(UTC))
        return replace(found, switches=pausing(incoming.platform, incoming.channel))

    # --- jobs

    async def answer(self, question_id: str) -> None:
        """Job `answer`, one at a time in a conversation. Every step may be repeated after a crash."""
        row = await self._store.conversations.question(question_id)
        if row.state in TERMINAL:
            await self._finish(row)
            return
        reviews = await self._store.reviews.for_question(row.id)
        if reviews:
            # Killed after the review was opened: what follows a decision is the job `resume`'s, which runs under
            # another lock and may be running now. Here only the announcement may be missing.
            await self._announce(row, reviews[-1])
            return
        started = time.perf_counter()
        waited = (datetime.now(UTC) - row.asked_at).total_seconds() * 1_000
        try:
            outcome = await self.stops.guard(row.id, self._advance(row))
        except Stopped:
            await self._deliverer.platform(_platform(row)).progress(
                row.address, Progress(row.id, row.conversation_id, "stopped")
            )
            return
        spent = {"wait": waited, "answer": (time.perf_counter() - started) * 1_000}
        await self.settle(row, outcome, spent)

    async def _advance(self, row: QuestionRow) -> Outcome:
        # Looked at once more from here on: what was taken back before anybody listened for it is not begun.
        if not await self._store.conversations.set_state(row.id, "answering"):
            raise Stopped(row.id)
        conversation = await self._store.conversations.get(row.conversation_id)
        question = as_question(row, conversation)
        return await self._graphs.advance(
            question, history=await self._history(row), on_event=self._progress(row, question)
        )

    async def settle(self, row: QuestionRow, outcome: Outcome, spent: Mapping[str, float]) -> None:
        """Turn what the graph arrived at into rows, a message and a memory."""
        if outcome.status == "stale":
            log.info("outcome.stale", question=row.id)
            return
        run_id = await self._store.runs.record(_run(row, outcome, spent))
        self.telemetry.settled((row.id, _platform(row)), run_id, outcome, spent)
        self._trying.asked(outcome.variant)
        if outcome.status == "held":
            nearest = None
            if outcome.draft is not None:
                nearest = await self._verifying.nearest(outcome.whole or outcome.question, outcome.draft)
            later = self._patience.waiting.later(outcome.rule, datetime.now(UTC))
            held = replace(replies.review(row, outcome, nearest), later=later)
            opened = await self._store.reviews.open(held)
            await self._announce(row, opened)
            return
        reply = replies.answer(self._words, row, outcome, contact=self._graphs.deps.contact)
        reply = replace(reply, meta={**reply.meta, **sampled(outcome)})
        state = "declined" if reply.kind == "declined" else "answered"
        # Compare-and-set: a question that was withdrawn or superseded meanwhile stays so, and nothing is sent.
        await self._store.conversations.set_state(row.id, state, answer=reply.to_json())
        ended = await self._store.conversations.question(row.id)
        if ended.state == "answered":
            await self._verifying.settled(row, outcome)
        await self._finish(ended)

    async def remember(self, question_id: str) -> None:
        """Job `remember`, one at a time for a conversation's memory."""
        row = await self._store.conversations.question(question_id)
        if row.state in GONE:
            await self._graphs.forget(row.conversation_id, row.id)
        else:
            await self._graphs.remember(row.conversation_id, as_turn(row))
        await self._store.conversations.mark_remembered(row.id, row.state)

    async def give_up(self, question_id: str) -> None:
        """The job `answer` was tried to its last attempt. A draft that waits goes on waiting: what failed there was to
        tell of it."""
        row = await self._store.conversations.question(question_id)
        if row.state == "held":
            await self._alarm(row.id)
        else:
            await self.fail(row.id, row.id[:8])

    async def fail(self, question_id: str, reference: str) -> None:
        """Nothing can answer this question: say so in the thread. A failure is never silent (invariant 9): where the
        thread cannot be reached, those who run Signoff are told, and the message is tried again for a day."""
        row = await self._store.conversations.question(question_id)
        reply = Reply("failed", self._words(row.language, "answer.failed", reference=reference), row.language)
        if await self._store.conversations.set_state(row.id, "failed", answer=reply.to_json()):
            conversation = await self._store.conversations.get(row.conversation_id)
            variant = await self._graphs.variant(as_question(row, conversation))
            await self._store.runs.record(replace(self._lost(row), variant=variant))
            self.telemetry.failed(row.id, _platform(row))
            self._trying.asked(variant)
        try:
            await self._finish(await self._store.conversations.question(row.id))
        except NotDelivered:
            await self._alarm(row.id)

    def _lost(self, row: QuestionRow) -> NewRun:
        """The run of a question that failed for good: what its tries asked a model, and what cut the last one short.
        "Lost": its process or its draft is gone, or it failed outside the graph."""
        prompts = self._graphs.prompts
        calls, fault = prompts.take(row.id), prompts.fault(row.id)
        return NewRun(row.id, "failed", prompts=calls, cost=prompts.cost(calls), error=fault or "Lost")

    async def tell(self, question_id: str, reason: str, wait: float) -> None:
        """Job `tell`: say why a message is not answered; of several refused in a minute the first is told."""
        row = await self._store.conversations.question(question_id)
        if row.state != "refused":
            return
        reply = replies.refused(self._words, row, reason, wait=wait, longest=self._bounds.longest)
        await self._store.conversations.explain(row.id, reply.to_json())
        crowded = reason in ("person", "channel", "full")
        moment = f"{row.asker}:{row.conversation_id}:{row.asked_at:%Y%m%d%H%M}" if crowded else row.id
        await self._quietly(self._send(row, f"refused:{moment}", reply))
        await self._store.changes.notify(f"conversation:{row.conversation_id}", {"question": row.id})

    async def redeliver(self, question_id: str) -> None:
        """Job `redeliver`, under the lock of whatever else sends for this question: send what is still to be sent."""
        row = await self._store.conversations.question(question_id)
        if row.state in TERMINAL:
            await self._quietly(self._finish(row))
        elif row.state == "held":
            for review in await self._store.reviews.for_question(row.id):
                await self._quietly(self._announce(row, review))
        await self._alarm(row.id)

    async def _alarm(self, question_id: str) -> None:
        """Tell those who run Signoff what this question still has undelivered."""
        for delivery in await self._store.deliveries.for_question(question_id):
            if delivery.state == "failed":
                await self._deliverer.alert(delivery, "failed")

    async def _quietly(self, sending: Awaitable[object]) -> None:
        """What cannot be sent now has its row, and is tried again from there."""
        try:
            await sending
        except NotDelivered as error:
            log.warning("delivery.later", error=str(error))

    # --- steps

    async def _announce(self, row: QuestionRow, review: ReviewRow) -> None:
        """Tell the asker that a person looks at it, and the reviewers that it waits. Repeating it tells nobody
        twice."""
        await self._store.changes.notify("reviews", {"review": review.id, "state": review.state})
        if review.state != "pending":
            return  # taken back, or decided before it could be announced: a card would have nothing to decide
        failed: NotDelivered | None = None
        expected = await self._patience.expected(review.reason, review.opened_at)
        held = replies.held(self._words, row, review, expected, self._patience.waiting.hours(review.reason))
        # Whoever can be reached is told, also where the others cannot.
        for sending in (
            self._send(row, f"held:{row.id}:{review.round}", held, review.id),
            self._cards.post(review),
        ):
            try:
                await sending
            except NotDelivered as error:
                failed = error
        if review.disposition == "private":
            await self._patience.peek(row, review)
        await self._remember_later(row)
        if failed is not None:
            raise failed

    async def _finish(self, row: QuestionRow) -> None:
        """Send a stored answer and have it remembered, as far as that was not done. Every ending comes here, also
        one that a killed process left half done."""
        if row.state in GONE or row.state == "refused" or row.answer is None:
            return
        await self._send(row, f"answer:{row.id}", Reply.from_json(row.answer))
        await self._sampling.open(row)
        if row.answer["meta"].get("reason") == "rounds":
            await self._patience.give_over(row)
        if not row.remembered:
            await self._remember_later(row)

    async def _over(self, row: QuestionRow) -> None:
        """A question that was taken back leaves no card with live buttons and no turn in memory."""
        for review in await self._store.reviews.for_question(row.id):
            await self._store.queue.defer("redraw", {"review_id": review.id}, lock=f"card:{review.id}")
        await self._remember_later(row)

    async def _history(self, row: QuestionRow) -> tuple[list[Turn], str]:
        """The conversation's memory, and the turns that its memory job has not reached yet."""
        turns, summary = await self._graphs.recall(row.conversation_id)
        known = {turn.question_id for turn in turns}
        late = await self._store.conversations.unremembered(row.conversation_id, row.sequence)
        return [*turns, *(as_turn(other) for other in late if other.id not in known)], summary

    def _progress(self, row: QuestionRow, question: Question) -> Any:
        platform = self._deliverer.platform(_platform(row))
        streams = precheck(question, self._graphs.deps.rules)

        async def on_event(step: str, text: str) -> None:
            # A draft that a rule might hold is seen by nobody (invariant 3): then only the steps are shown.
            if step == "sentence" and not streams:
                return
            await platform.progress(row.address, Progress(row.id, row.conversation_id, step, text))

        return on_event

    async def _send(
        self, row: QuestionRow, purpose: str, reply: Reply, review_id: int | None = None
    ) -> DeliveryRow | None:
        """Send in the question's thread; None where the thread will never take it (then others were told)."""
        try:
            return await self._deliverer.deliver(
                NewDelivery(
                    purpose=purpose,
                    platform=_platform(row),
                    kind=reply.kind,
                    address=row.address,
                    content=reply.to_json(),
                    conversation_id=row.conversation_id,
                    question_id=row.id,
                    review_id=review_id,
                )
            )
        except Refused:
            return None

    async def _remember_later(self, row: QuestionRow) -> None:
        await self._store.queue.defer(
            "remember", {"question_id": row.id}, lock=f"memory:{row.conversation_id}"
        )


def _platform(row: QuestionRow) -> str:
    return row.conversation_id.split(":", 1)[0]


def as_question(row: QuestionRow, conversation: ConversationRow) -> Question:
    return Question(
        id=row.id,
        conversation_id=row.conversation_id,
        text=row.text,
        language=row.language,
        asker=row.asker,
        principals=readers(conversation, row.asker),
        channel=conversation.channel,
        private=conversation.private,
    )


def as_turn(row: QuestionRow) -> Turn:
    """A question in review is remembered as that, never as its draft."""
    if row.answer is None:
        return Turn(row.id, row.text, "", "in review" if row.state == "held" else "open")
    return Turn(row.id, row.text, str(row.answer["text"]), row.state)


def _run(row: QuestionRow, outcome: Outcome, spent: Mapping[str, float]) -> NewRun:
    cited: Sequence[int] = [c.passage_id for c in outcome.draft.citations] if outcome.draft else ()
    return NewRun(
        question_id=row.id,
        rewritten_question=outcome.rewritten_question,
        retrieved=tuple(outcome.retrieved),
        cited=tuple(cited),
        confidence=outcome.confidence,
        outcome=outcome.status,
        # A draft that no rule matched went by the default; where none was written nothing was decided.
        rule=outcome.rule or (DEFAULT if outcome.disposition else ""),
        degraded=tuple(outcome.degraded),
        tools=list(outcome.tools),
        tokens=dict(outcome.tokens),
        timings={**outcome.timings, **spent},
        prompts=(*outcome.prompts, *searches(outcome.searched)),
        scores=outcome.scores,
        cost=outcome.cost,
        variant=outcome.variant,
    )
