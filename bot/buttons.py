"""Use case: the buttons below an answer. The asker stops, asks again, shares, chooses after a time-out; anybody reads a
passage, says whether it helped, or wants a person. A house translates the click, and shows the sentence that comes back
to whoever clicked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from bot.deliver import NotDelivered, Refused
from bot.messages import Change, Reply
from bot.telling import Setting, quoted
from rag_graph.contracts import Passage
from store.conversations import TERMINAL, QuestionRow
from store.deliveries import NewDelivery
from store.errors import NotFound

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)


class House(Protocol):
    """What of a platform's house these buttons need."""

    name: str

    async def setting(self, people: set[str] | None = None) -> Setting: ...

    async def shared(self, channel: str) -> bool:
        """Whether others than our own organisation read this channel, or nobody can say."""
        ...


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence for whoever clicked, in the language of the question. `good`: what they wanted was done."""

    text: str
    good: bool = True


class Buttons:
    """One for a house. People are named by principal, channels by the platform's id."""

    def __init__(self, app: "App", house: House) -> None:
        self._app, self._house = app, house
        self._words, self._default = app.words, app.settings.review.language

    async def question(self, question_id: str) -> QuestionRow | None:
        try:
            return await self._app.store.conversations.question(question_id)
        except NotFound:
            return None

    async def questions(self, conversation_id: str) -> list[QuestionRow]:
        """Those of a conversation, in order; none of one that nobody has begun."""
        try:
            return await self._app.store.conversations.questions(conversation_id)
        except NotFound:
            return []

    def say(self, question: QuestionRow | None, key: str, *, good: bool = True, **values: object) -> Said:
        """A sentence in the language of the question, where there is one."""
        language = question.language if question is not None else self._default
        return Said(self._words(language, f"chat.{key}", **values), good)

    # --- the asker's own

    async def _own(self, question_id: str, actor: str) -> QuestionRow | None:
        question = await self.question(question_id)
        return question if question is not None and question.asker == actor else None

    async def stop(self, question_id: str, actor: str) -> Said:
        """Take a question back that is still open."""
        question = await self._own(question_id, actor)
        if question is None:
            return self.say(await self.question(question_id), "nothing_to_stop", good=False)
        if question.state in TERMINAL:
            return self.say(question, "too_late", good=False)
        await self._withdraw(question, f"{question.id}:stop")
        return self.say(question, "withdrawn")

    async def stop_in_words(self, conversation_id: str, actor: str, key: str) -> Said | None:
        """ "stop" by somebody whose question is still open takes that question back; None where none is. `key` is
        the message's own."""
        asked = [row for row in await self.questions(conversation_id) if row.asker == actor]
        running = [row for row in asked if row.state not in TERMINAL]
        if not running:
            return None
        await self._withdraw(running[-1], key)
        return self.say(running[-1], "withdrawn")

    async def _withdraw(self, question: QuestionRow, key: str) -> None:
        await self._app.asking.change(Change(self._house.name, key, question.id, question.asker, None))

    async def again(self, question_id: str, actor: str) -> Said:
        """Ask a question once more, in the wording that it was edited to."""
        question = await self.question(question_id)
        became = await self._app.asking.again(question_id, actor) if question is not None else "forbidden"
        return self.say(question, f"again_{became}", good=became == "asked")

    async def choose(self, question_id: str, actor: str, choice: str) -> Said:
        """What the asker chooses, one of `CHOICES`, when a review was not decided in time."""
        question = await self.question(question_id)
        became = "forbidden"
        if question is not None:
            became = await self._app.patience.choose(question_id, actor, choice)
        language = question.language if question is not None else self._default
        return Said(self._words(language, f"patience.{became}"), good=became.startswith("chose"))

    async def share(self, question_id: str, actor: str, channel: str, below: Mapping[str, Any]) -> Said:
        """Show a private answer to a channel, where everybody there may read every document that it cites. `below` is
        what the address needs besides the channel."""
        question = await self._own(question_id, actor)
        if question is None or question.answer is None:
            return self.say(question, "failed", good=False)
        answer = Reply.from_json(question.answer)
        if not await self._may_share(answer, channel):
            return self.say(question, "not_shared", good=False)
        setting = await self._house.setting({question.asker})
        by = self._words(question.language, "chat.shared_by", who=setting.name(question.asker))
        text = f"{by}\n\n{quoted(question.text)}\n\n{answer.text}"
        reply = Reply(answer.kind, text, answer.language, answer.citations, answer.meta)
        sent = await self._sent(
            NewDelivery(
                purpose=f"share:{question.id}:{channel}",
                platform=self._house.name,
                kind="answer",
                address={**below, "channel": channel, "user": actor.partition(":")[2]},
                content=reply.to_json(),
                question_id=question.id,
            )
        )
        return self.say(question, "shared" if sent else "failed", good=sent)

    async def _sent(self, new: NewDelivery) -> bool:
        """Whether it was sent, or will be: what does not arrive now is tried again for a day."""
        try:
            await self._app.deliverer.deliver(new)
        except Refused:
            return False
        except NotDelivered as error:
            log.warning("delivery.later", error=str(error))
        return True

    async def _may_share(self, answer: Reply, channel: str) -> bool:
        if await self._house.shared(channel):
            return False
        cited = {int(citation["passage_id"]) for citation in answer.citations}
        readers = ("everyone", f"{self._house.name}:{channel}")
        found = await self._app.store.search.passages(sorted(cited), readers)
        return {passage.id for passage in found} == cited

    # --- anybody's

    async def person(self, question_id: str, actor: str) -> Said:
        """Pass a question on to the review channels, once."""
        question, places = await self.question(question_id), self._app.settings.review.channels
        if question is None or not places:
            contact = self._app.settings.workspace.contact
            return self.say(question, "nobody", good=False, contact=contact)
        setting = await self._house.setting({actor})
        wanted = self._words(self._default, "chat.person_wanted", who=setting.name(actor))
        meta = {"conversation_id": question.conversation_id}
        reply = Reply("notice", f"{wanted}\n\n{quoted(question.text)}", self._default, meta=meta)
        reached = False
        for place in places:
            platform, _, channel = place.partition(":")
            reached |= await self._sent(
                NewDelivery(
                    purpose=f"person:{question.id}:{place}",
                    platform=platform,
                    kind="notice",
                    address={"channel": channel},
                    content=reply.to_json(),
                    question_id=question.id,
                )
            )
        return self.say(question, "asked_person" if reached else "failed", good=reached)

    async def feedback(self, question_id: str, actor: str, helpful: bool, reason: str = "") -> Said:
        """Keep somebody's opinion; their last one counts."""
        try:
            await self._app.store.conversations.feedback(question_id, actor, helpful, reason)
        except NotFound:
            log.info("feedback.gone", question=question_id[:40])
        return self.say(await self.question(question_id), "thanks")

    async def passage(
        self, passage: int, actor: str, *, question: str = "", review: int = 0, channel: str = ""
    ) -> tuple[str, list[Passage]]:
        """(language, the passage and what surrounds it), nothing where `actor` may not read it: readers have their own
        rights where the answer stands, reviewers those of the draft in review. `channel`, "" for a private place."""
        language, readers = await (
            self._of_review(review, actor) if review else self._of_question(question, actor, channel)
        )
        found = await self._app.store.search.section(passage, readers) if readers else []
        return language, found if any(p.id == passage for p in found) else []

    async def _of_review(self, review_id: int, actor: str) -> tuple[str, tuple[str, ...]]:
        review = await self._app.store.reviews.find(review_id)
        if review is None or not await self._app.reviewing.reviewer(actor):
            return self._default, ()
        return self._default, tuple(review.audience)

    async def _of_question(self, question_id: str, actor: str, channel: str) -> tuple[str, tuple[str, ...]]:
        question = await self.question(question_id)
        if question is None:
            return self._default, ()
        place = ("everyone", f"{self._house.name}:{channel}") if channel else ("everyone", actor)
        return question.language, (*place, actor) if question.asker == actor else place
