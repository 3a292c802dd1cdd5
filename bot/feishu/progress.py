"""The streams of a process by question, and what is left of those of a process that died."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from bot.feishu import stream
from bot.feishu.calls import Calls
from bot.feishu.markdown import Json
from bot.feishu.render import card, said
from bot.feishu.stream import Entity, Stream
from bot.messages import NotTaken, Progress, Reply
from bot.words import Words
from store.deliveries import Deliveries, DeliveryRow, NewDelivery

log = structlog.get_logger(__name__)

# (identity, address, kind, content) → the id of the message that was posted.
Post = Callable[[str, Mapping[str, Any], str, Json], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Posted:
    """The message id of a delivery: its parts, the card entity that the first one shows ("" for none, "plain" where no
    card could be shown), and what it is for."""

    parts: tuple[str, ...]
    card: str
    purpose: str

    def __str__(self) -> str:
        return "|".join((",".join(self.parts), self.card, self.purpose))

    @classmethod
    def parse(cls, text: str) -> "Posted":
        parts, entity, purpose = text.split("|", 2)
        return cls(tuple(part for part in parts.split(",") if part), entity, purpose)


class Streams:
    """One for a house."""

    def __init__(self, calls: Calls, words: Words, deliveries: Deliveries, post: Post) -> None:
        self._calls, self._words, self._deliveries, self._post = calls, words, deliveries, post
        self._running: dict[str, Stream] = {}

    async def close(self) -> None:
        for running in list(self._running.values()):
            await running.finish()
        self._running.clear()

    async def tell(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Show a step or a finished sentence. Never waits for Feishu, and loses what Feishu does not take."""
        question = progress.question_id
        if progress.step == "stopped":
            await self._stopped(question, str(address.get("language") or "en"))
            return
        if not address.get("message") or address.get("asked_in"):
            return  # asked in a group, answered directly: there is no place for it yet
        running = self._running.get(question)
        if running is None:

            async def open_card(content: Json) -> stream.Cards:
                return await self._open_card(question, address, content)

            running = Stream(self._calls, self._words, address, question, open_card)
            self._running[question] = running
        running.tell(progress.step, progress.text)

    async def _open_card(self, question: str, address: Mapping[str, Any], content: Json) -> stream.Cards:
        """The card that grows, as a delivery row as soon as it has an id: after a crash the answer fills it."""
        entity = await self.entity(question)
        if entity is not None:  # an earlier process began it
            again = self.kept(entity, question)
            await again.replace(content)
            return again
        card_id = await stream.create(self._calls, content)
        shown = {"type": "card", "data": {"card_id": card_id}}
        message = await self._post(f"stream:{question}:{card_id}", address, "interactive", shown)
        entity = Entity(card_id, message, 0, stream.RESERVED)
        row = await self._deliveries.put(
            NewDelivery(
                purpose=f"stream:{question}",
                platform="feishu",
                kind="stream",
                address=dict(address),
                content=_state(entity),
                question_id=question,
            )
        )
        await self._deliveries.sent(row.id, str(Posted((message,), card_id, row.purpose)))
        return self.kept(entity, question)

    def kept(self, entity: Entity, question: str) -> stream.Cards:
        async def reserve(changed: Entity) -> None:
            row = await self._stream_row(question)
            if row is not None:
                await self._deliveries.rewrite(row.id, _state(changed))

        return stream.Cards(self._calls, entity, reserve)

    async def entity(self, question: str) -> Entity | None:
        """The card that streaming began for this question, its sequence after all that may have been used."""
        row = await self._stream_row(question)
        if row is None or row.message_id is None:
            return None
        posted = Posted.parse(row.message_id)
        used = int(row.content["meta"]["sequence"])
        return Entity(posted.card, posted.parts[0], used, used)

    async def _stream_row(self, question: str) -> DeliveryRow | None:
        rows = await self._deliveries.for_question(question)
        return next((row for row in rows if row.kind == "stream"), None)

    async def finished(self, purpose: str) -> stream.Cards | None:
        """The card that streaming began for this question and nothing has filled yet."""
        kind, _, rest = purpose.partition(":")
        if kind not in ("answer", "held"):
            return None
        question = rest.split(":")[0]
        running = self._running.pop(question, None)
        if running is not None:
            begun = await running.finish()
            if begun is not None:
                return begun
        entity = await self.entity(question)
        if entity is None:
            return None
        rows = await self._deliveries.for_question(question)
        taken = any(r.kind != "stream" and r.message_id and entity.message_id in r.message_id for r in rows)
        return None if taken else self.kept(entity, question)

    async def _stopped(self, question: str, language: str) -> None:
        """Taken back: the card says so, and grows no more."""
        running = self._running.pop(question, None)
        begun = await running.finish() if running is not None else None
        if begun is not None:
            text = self._words(language, "chat.withdrawn")
            try:
                await begun.replace(card(said(text), text))
            except (NotTaken, OSError) as error:
                log.info("stream.left", error=str(error))


def _state(entity: Entity) -> dict[str, Any]:
    """A stream's row keeps how far its sequence may have gone."""
    return Reply("notice", "", "en", meta={"sequence": entity.limit}).to_json()
