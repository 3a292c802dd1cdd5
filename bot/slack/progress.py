"""The streams of a process by question, and what is left of those of a process that died."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from bot.messages import NotTaken, Progress, Reply
from bot.slack.calls import Calls
from bot.slack.posted import Posted
from bot.slack.render import Message, first_sentence, said
from bot.slack.stream import STOP, Stream
from bot.words import Words
from store.deliveries import Deliveries, DeliveryRow, NewDelivery

log = structlog.get_logger(__name__)

FILLING = ("answer", "held")  # purposes whose message the stream already is
LOOK_BACK = 200  # messages of a thread that are looked through
NEW = 3.0  # seconds; an older row is that of another process, whose work is found undone after six at the earliest


class Streams:
    """One for a house."""

    def __init__(self, calls: Calls, words: Words, deliveries: Deliveries) -> None:
        self._calls, self._words, self._deliveries = calls, words, deliveries
        self._running: dict[str, Stream] = {}
        self._inherited: set[str] = set()  # questions for which another process began a stream before

    async def close(self) -> None:
        for stream in list(self._running.values()):
            await stream.finish()
        self._running.clear()

    async def tell(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Show a step or a finished sentence. Never waits for Slack, and loses what Slack does not take."""
        question = progress.question_id
        if progress.step == "stopped":
            await self._stopped(question, address)
            return
        stream = self._running.get(question)
        if stream is None:
            if address.get("response_url"):
                return  # an ephemeral answer has no place for it
            stream = Stream(self._calls, self._words, address, question, self._recorder(question, address))
            self._running[question] = stream
        stream.tell(progress.step, progress.text)

    async def finished(self, purpose: str) -> list[str]:
        """The ts of the messages that streaming began for this question and that nothing has filled yet."""
        kind, _, rest = purpose.partition(":")
        if kind not in FILLING:
            return []
        question_id = rest.split(":")[0]
        stream = self._running.pop(question_id, None)
        own = await stream.finish() if stream is not None else []
        if own and question_id not in self._inherited:
            return own
        self._inherited.discard(question_id)
        rows = await self._deliveries.for_question(question_id)
        begun = next((row for row in rows if row.kind == "stream"), None)
        if begun is None:
            return own
        known = list(dict.fromkeys([*_parts(begun), *own]))
        if own or not known:
            # Another process began a message for it and was killed, or lost the database, before that was stored.
            known = list(dict.fromkeys([*known, *await self._left(begun.address, question_id)]))
        filled = [row.message_id for row in rows if row.message_id and row.kind != "stream"]
        return [part for part in known if not any(part in message for message in filled)]

    async def _left(self, address: Mapping[str, Any], question_id: str) -> list[str]:
        """The messages in its thread that still have the button to stop this question."""
        try:
            thread = await self._calls(
                self._calls.client.conversations_replies,
                channel=address["channel"], ts=address["thread"], oldest=address.get("asked"), limit=LOOK_BACK,
            )  # fmt: skip
        except NotTaken as error:
            log.warning("stream.left", error=str(error))
            return []
        return [str(message["ts"]) for message in thread["messages"] if question_id in _stopped_by(message)]

    async def remove(self, channel: str, parts: list[str]) -> None:
        """Take away messages of a stream that the answer did not need."""
        for ts in parts:
            try:
                await self._calls(self._calls.client.chat_delete, channel=channel, ts=ts)
            except (NotTaken, OSError) as error:
                log.warning("stream.left", error=str(error))

    async def _stopped(self, question: str, address: Mapping[str, Any]) -> None:
        """Its asker took the question back: what was begun ends with a sentence that says so."""
        stream = self._running.pop(question, None)
        parts = await stream.finish(clear=True) if stream is not None else []
        if not parts:
            return
        text = self._words(str(address.get("language") or "en"), "chat.withdrawn")
        ended = Message(first_sentence(text), tuple(said(text)))
        await self.remove(str(address["channel"]), parts[1:])
        await self._calls(
            self._calls.client.chat_update, channel=address["channel"], ts=parts[0], **ended.arguments()
        )

    def _recorder(
        self, question_id: str, address: Mapping[str, Any]
    ) -> Callable[[list[str]], Awaitable[None]]:
        """A stream is a delivery row before it begins, and knows its messages as soon as they have a ts: after a crash
        the answer fills them."""
        purpose = f"stream:{question_id}"

        async def record(parts: list[str]) -> None:
            row = await self._deliveries.put(
                NewDelivery(
                    purpose=purpose,
                    platform="slack",
                    kind="stream",
                    address=dict(address),
                    content=Reply("notice", "", "en").to_json(),
                    question_id=question_id,
                )
            )
            if not parts and (row.message_id or time.time() - row.created_at.timestamp() > NEW):
                self._inherited.add(question_id)
            if parts:
                together = tuple(dict.fromkeys([*_parts(row), *parts]))
                await self._deliveries.sent(row.id, str(Posted(str(address["channel"]), together, purpose)))

        return record


def _parts(row: DeliveryRow) -> tuple[str, ...]:
    return Posted.parse(row.message_id).parts if row.message_id else ()


def _stopped_by(message: Mapping[str, Any]) -> list[str]:
    """The questions that the buttons of a message stop."""
    return [
        str(element.get("value"))
        for block in message.get("blocks") or ()
        for element in block.get("elements") or ()
        if element.get("action_id") == STOP
    ]
