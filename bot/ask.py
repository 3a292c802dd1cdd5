"""Use case: a question. Accept it durably, answer it through the graph, send once, remember."""

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog

from bot import replies
from bot.cards import Cards
from bot.deliver import Deliverer
from bot.graphs import Graphs
from bot.messages import Change, Incoming, Progress, Reply
from bot.words import Words
from rag_graph.advance import Outcome
from rag_graph.contracts import Question, Turn
from rag_graph.policy import precheck
from store import Store
from store.conversations import TERMINAL, ConversationRow, QuestionRow
from store.deliveries import NewDelivery
from store.inbox import NewQuestion
from store.reviews import ReviewRow
from store.runs import NewRun
from store.text import clean, language

log = structlog.get_logger(__name__)

GONE = ("withdrawn", "superseded")  # taken back by the asker: nothing of it is sent or remembered


def readers(conversation: ConversationRow, asker: str) -> tuple[str, ...]:
    """Who reads an answer there: in a channel everyone and that channel, in private the asker (invariant 6)."""
    if conversation.private:
        return ("everyone", asker)
    # Names of channels need a mark that tells them from people; ids of chat platforms carry it already.
    mark = "#" if conversation.platform in ("web", "cli") else ""
    return ("everyone", f"{conversation.platform}:{mark}{conversation.channel}")


class Asking:
    """`accept` is what a platform's listener calls before it acknowledges; the others are jobs."""

    def __init__(
        self,
        store: Store,
        graphs: Graphs,
        deliverer: Deliverer,
        cards: Cards,
        words: Words,
        longest: int,
    ) -> None:
        self._store = store
        self._graphs = graphs
        self._deliverer = deliverer
        self._cards = cards
        self._words = words
        self._longest = longest

    # --- at the door

    async def accept(self, incoming: Incoming) -> str | None:
        """Store the question and its job in one transaction; return its id, or None when it was seen before."""
        text = clean(incoming.text).strip()[: self._longest]
        question_id = uuid.uuid4().hex
        accepted = await self._store.inbox.accept(
            NewQuestion(
                platform=incoming.platform,
                dedupe_key=incoming.dedupe_key,
                conversation_id=incoming.conversation_id,
                channel=incoming.channel,
                thread=incoming.thread,
                private=incoming.private,
                asker=incoming.asker,
                text=text,
                sent_at=incoming.sent_at,
                address=dict(incoming.address),
                question_id=question_id,
                language=language(text),
            )
        )
        return question_id if accepted else None

    async def change(self, change: Change) -> str | None:
        """An edited or deleted question. What waits is withdrawn; an edit is asked anew and its id returned."""
        row = await self._store.conversations.question(change.question_id)
        if row.asker != change.actor:
            return None
        if change.text is None:
            await self._store.inbox.withdraw(row.id)
            await self._over(row)
            return None
        await self._store.inbox.supersede(row.id)
        await self._over(row)
        conversation = await self._store.conversations.get(row.conversation_id)
        return await self.accept(
            Incoming(
                platform=change.platform,
                dedupe_key=change.dedupe_key,
                conversation_id=row.conversation_id,
                channel=conversation.channel,
                thread=conversation.thread,
                private=conversation.private,
                asker=change.actor,
                text=change.text,
                sent_at=datetime.now(UTC),
                address=row.address,
            )
        )

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
        await self._store.conversations.set_state(row.id, "answering")
        conversation = await self._store.conversations.get(row.conversation_id)
        question = as_question(row, conversation)
        outcome = await self._graphs.advance(
            question, history=await self._history(row), on_event=self._progress(row, question)
        )
        spent = {"wait": waited, "answer": (time.perf_counter() - started) * 1_000}
        await self.settle(row, outcome, spent)

    async def settle(self, row: QuestionRow, outcome: Outcome, spent: Mapping[str, float]) -> None:
        """Turn what the graph arrived at into rows, a message and a memory."""
        if outcome.status == "stale":
            log.info("outcome.stale", question=row.id)
            return
        await self._store.runs.record(_run(row, outcome, spent))
        if outcome.status == "held":
            await self._announce(row, await self._store.reviews.open(replies.review(row, outcome)))
            return
        reply = replies.answer(self._words, row, outcome, contact=self._graphs.deps.contact)
        state = "declined" if reply.kind == "declined" else "answered"
        # Compare-and-set: a question that was withdrawn or superseded meanwhile stays so, and nothing is sent.
        await self._store.conversations.set_state(row.id, state, answer=reply.to_json())
        await self._finish(await self._store.conversations.question(row.id))

    async def remember(self, question_id: str) -> None:
        """Job `remember`, one at a time for a conversation's memory."""
        row = await self._store.conversations.question(question_id)
        if row.state in GONE:
            await self._graphs.forget(row.conversation_id, row.id)
        else:
            await self._graphs.remember(row.conversation_id, as_turn(row))
        await self._store.conversations.mark_remembered(row.id, row.state)

    async def fail(self, question_id: str, reference: str) -> None:
        """The job gave up: say so in the thread. A failure is never silent (invariant 9)."""
        row = await self._store.conversations.question(question_id)
        reply = Reply("failed", self._words(row.language, "answer.failed", reference=reference), row.language)
        await self._store.conversations.set_state(row.id, "failed", answer=reply.to_json())
        await self._finish(await self._store.conversations.question(row.id))

    # --- steps

    async def _announce(self, row: QuestionRow, review: ReviewRow) -> None:
        """Tell the asker that a person looks at it, and the reviewers that it waits. Repeating it tells nobody
        twice."""
        await self._store.changes.notify("reviews", {"review": review.id, "state": review.state})
        if review.state == "withdrawn":
            return
        await self._send(
            row, f"held:{row.id}:{review.round}", replies.held(self._words, row, review), review.id
        )
        await self._cards.post(review)
        await self._remember_later(row)

    async def _finish(self, row: QuestionRow) -> None:
        """Send a stored answer and have it remembered, as far as that was not done. Every ending comes here, also
        one that a killed process left half done."""
        if row.state in GONE or row.answer is None:
            return
        await self._send(row, f"answer:{row.id}", Reply.from_json(row.answer))
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
        platform = self._deliverer.platform(row.conversation_id.split(":", 1)[0])
        streams = precheck(question, self._graphs.deps.rules)

        async def on_event(step: str, text: str) -> None:
            # A draft that a rule might hold is seen by nobody (invariant 3): then only the steps are shown.
            if step == "sentence" and not streams:
                return
            await platform.progress(row.address, Progress(row.id, row.conversation_id, step, text))

        return on_event

    async def _send(self, row: QuestionRow, purpose: str, reply: Reply, review_id: int | None = None) -> None:
        await self._deliverer.deliver(
            NewDelivery(
                purpose=purpose,
                platform=row.conversation_id.split(":", 1)[0],
                kind=reply.kind,
                address=row.address,
                content=reply.to_json(),
                conversation_id=row.conversation_id,
                question_id=row.id,
                review_id=review_id,
            )
        )

    async def _remember_later(self, row: QuestionRow) -> None:
        await self._store.queue.defer(
            "remember", {"question_id": row.id}, lock=f"memory:{row.conversation_id}"
        )


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
        rule=outcome.rule,
        degraded=tuple(outcome.degraded),
        tools=list(outcome.tools),
        tokens=dict(outcome.tokens),
        timings={**outcome.timings, **spent},
    )
