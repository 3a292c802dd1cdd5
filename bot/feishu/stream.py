"""What is shown while an answer is being made: a reaction, then a card whose text grows. Lossy by design.

The card is the answer's own message: when the answer is there, the card is replaced by the whole of it, whatever
became of the stream. Streaming mode ends by itself after ten minutes (200850, then 300309: openclaw#139443); after
nine it is closed here, and the card is replaced as a whole from then on.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from bot.feishu.calls import (
    CARD_CONTENT,
    CARD_CREATE,
    CARD_SETTINGS,
    CARD_UPDATE,
    REACT,
    UNREACT,
    Calls,
    Refused,
)
from bot.feishu.markdown import Json, content, units
from bot.feishu.render import stream_card
from bot.messages import NotTaken
from bot.words import Words
from store.text import language as language_of

log = structlog.get_logger(__name__)

GAP = 0.8  # seconds between two changes; a card bears ten a second
ROLL_OVER = 540.0  # seconds; Feishu closes a stream at 600
WHOLE_GAP = 3.0  # seconds between two whole replacements, after that
IDLE = 600.0  # seconds without news after which a stream whose question went away is closed
STREAM_BYTES = 20_000
SEEN = "OnIt"  # open.feishu.cn/document/server-docs/im-v1/message-reaction/emojis-introduce
RESERVED = 50  # sequence numbers that one write to the row is good for
CLOSED = frozenset({300309, 200850})


@dataclass
class Entity:
    """A card entity and its place. `limit` is the last sequence number that is written down as used."""

    card_id: str
    message_id: str
    sequence: int
    limit: int


class Cards:
    """The operations on one card entity, under one growing sequence that survives restarts."""

    def __init__(self, calls: Calls, entity: Entity, reserve: Callable[[Entity], Awaitable[None]]) -> None:
        self._calls, self.entity, self._reserve = calls, entity, reserve
        self._one = asyncio.Lock()

    async def content(self, text: str) -> None:
        path = {"card_id": self.entity.card_id, "element_id": "body"}
        await self._do(CARD_CONTENT, path, {"content": text})

    async def settle(self) -> None:
        """Close streaming mode."""
        settings = json.dumps({"config": {"streaming_mode": False}})
        await self._do(CARD_SETTINGS, {"card_id": self.entity.card_id}, {"settings": settings})

    async def replace(self, card: Json) -> None:
        data = {"type": "card_json", "data": json.dumps(card, ensure_ascii=False)}
        await self._do(CARD_UPDATE, {"card_id": self.entity.card_id}, {"card": data})

    async def _do(self, api: Any, path: Mapping[str, str], body: Json) -> None:
        """One operation. A sequence that somebody else has used is skipped once (300317)."""
        async with self._one:
            for attempt in (1, 2):
                sequence = await self._next()
                try:
                    await self._calls(
                        api,
                        path,
                        body={**body, "sequence": sequence, "uuid": f"{self.entity.card_id}-{sequence}"[:50]},
                        pace=f"card:{self.entity.card_id}",
                    )
                except Refused as error:
                    if error.code != 300317 or attempt == 2:
                        raise
                    self.entity.sequence += RESERVED
                else:
                    return

    async def _next(self) -> int:
        self.entity.sequence += 1
        if self.entity.sequence > self.entity.limit:
            self.entity.limit = self.entity.sequence + RESERVED
            await self._reserve(self.entity)
        return self.entity.sequence


class Stream:
    """The progress of one question. `open` makes the card's message, or finds the one that an earlier process made."""

    def __init__(
        self,
        calls: Calls,
        words: Words,
        address: Mapping[str, Any],
        question_id: str,
        open_card: Callable[[Json], Awaitable[Cards]],
    ) -> None:
        self._calls, self._words, self._address = calls, words, address
        self._question_id, self._open_card = question_id, open_card
        self._language = str(address.get("language") or "en")
        self._steps: list[str] = []
        self._sentences: list[str] = []
        self._shown = 0
        self._began = self._last = 0.0
        self._reaction = ""
        self._dead = False
        self._news = asyncio.Event()
        self.cards: Cards | None = None
        self.streaming = False
        self._task = asyncio.create_task(self._run())

    def tell(self, step: str, text: str) -> None:
        """Take note; never waits for Feishu."""
        if step == "sentence":
            self._sentences.append(text)
        elif step not in self._steps:
            self._steps.append(step)
            self._language = language_of(text) if text else self._language
        self._news.set()

    async def finish(self) -> Cards | None:
        """Stop showing progress. Returns the card that the answer has to fill, None where there is none."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._tidy()
        return self.cards

    async def _run(self) -> None:
        while True:
            try:
                # Not wait_for: in Python 3.11 it loses a cancellation that meets the news (see bot/slack/stream.py).
                async with asyncio.timeout(IDLE):
                    await self._news.wait()
            except TimeoutError:
                break
            self._news.clear()
            try:
                await self._show()
            except (NotTaken, OSError) as error:
                log.info("progress.lost", error=str(error))
                closed = isinstance(error, Refused) and error.code in CLOSED
                if closed:  # what it did not take is shown by replacing the card
                    self.streaming = False
                    self._news.set()
                self._dead = self._dead or (isinstance(error, NotTaken) and not closed)
            await asyncio.sleep(GAP)
        await self._tidy()

    async def _show(self) -> None:
        if not self._reaction and self._address.get("message") and not self._dead:
            await self._seen()
        if self._dead or len(self._sentences) == self._shown:
            return
        count, text = len(self._sentences), self._text()  # more may come while this is on its way
        if len(text.encode()) > STREAM_BYTES:
            return
        if self.cards is None:
            self.cards = await self._open_card(self._card(text))
            self.streaming, self._began = True, time.monotonic()
        elif self.streaming and time.monotonic() - self._began > ROLL_OVER:
            await self._close()
            self._news.set()
            return
        elif self.streaming:
            await self.cards.content(text)
        elif time.monotonic() - self._last > WHOLE_GAP:
            self._last = time.monotonic()
            await self.cards.replace(self._plain(text))
        else:
            self._news.set()
            return
        self._shown = count

    async def _seen(self) -> None:
        """A reaction on the question; without its permission none."""
        self._reaction = "-"
        answer = await self._calls(
            REACT,
            {"message_id": str(self._address["message"])},
            body={"reaction_type": {"emoji_type": SEEN}},
        )
        self._reaction = str(answer.get("reaction_id") or "-")

    def _text(self) -> str:
        return "\n\n".join(content(unit) for unit in units(" ".join(self._sentences)))

    def _card(self, text: str) -> Json:
        return stream_card(self._words, self._language, self._steps, text, self._question_id)

    def _plain(self, text: str) -> Json:
        made = self._card(text)
        made["config"]["streaming_mode"] = False
        return made

    async def _close(self) -> None:
        self.streaming = False
        if self.cards is not None:
            await self.cards.settle()

    async def _tidy(self) -> None:
        try:
            if self.streaming:
                await self._close()
        except (NotTaken, OSError) as error:
            log.info("stream.closed", error=str(error))
        if len(self._reaction) > 1:
            path = {"message_id": str(self._address["message"]), "reaction_id": self._reaction}
            self._reaction = "-"
            try:
                await self._calls(UNREACT, path)
            except (NotTaken, OSError) as error:
                log.info("reaction.kept", error=str(error))


async def create(calls: Calls, card: Json) -> str:
    """A new card entity's id."""
    body = {"type": "card_json", "data": json.dumps(card, ensure_ascii=False)}
    return str((await calls(CARD_CREATE, body=body))["card_id"])
