"""What is shown while an answer is being made: a status, then its sentences as they come. Lossy by design.

The stream is the answer's own message: when the answer is there, its message is updated with the whole of it,
whatever became of the stream (Slack closes one about 300 seconds after it began).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from bot.messages import NotTaken
from bot.slack.calls import Calls
from bot.slack.render import markdown
from bot.words import Words
from store.text import language as language_of

log = structlog.get_logger(__name__)

GAP = 1.2  # seconds between two appends; chat.appendStream is tier 4
ROLL_OVER = 270.0  # seconds; Slack closes a stream at about 300 (slackapi/python-slack-sdk#1859)
IDLE = 600.0  # seconds without news after which a stream whose question went away is closed
STREAM_LETTERS = 11_000


class Stream:
    """The progress of one question. `started` is told the message's ts as soon as there is one."""

    def __init__(
        self,
        calls: Calls,
        words: Words,
        address: Mapping[str, Any],
        started: Callable[[str], Awaitable[None]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls, self._words, self._address, self._started = calls, words, address, started
        self._now = now
        self._language = str(address.get("language") or "en")
        self._step, self._shown_step = "", ""
        self._steps: list[str] = []
        self._waiting: list[str] = []
        self._letters = 0
        self._began = 0.0
        self._news = asyncio.Event()
        self.ts = ""
        self.open = False
        self._dead = False
        self._task = asyncio.create_task(self._run())

    def tell(self, step: str, text: str) -> None:
        """Take note; never waits for Slack."""
        if step == "sentence":
            self._waiting.append(text)
        else:
            self._step = step
            self._steps.append(step)
            self._language = language_of(text) if text else self._language
        self._news.set()

    async def finish(self) -> str:
        """Stop showing progress. Returns the ts of the message that the answer has to fill, "" where there is none."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.open:
            await self._close()
        return self.ts

    async def _run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._news.wait(), IDLE)
            except TimeoutError:
                break
            self._news.clear()
            try:
                await self._show()
            except (NotTaken, OSError) as error:
                log.info("progress.lost", error=str(error))
                self._dead = self._dead or isinstance(error, NotTaken)
                self.open = False if str(error) == "message_not_in_streaming_state" else self.open
            await asyncio.sleep(GAP)
        if self.open:
            await self._close()

    async def _show(self) -> None:
        if self._step != self._shown_step and not self.ts:
            self._shown_step = self._step
            await self._status()
        if self._waiting and not self._dead and self._streamable():
            await self._append()

    async def _status(self) -> None:
        thread = self._address.get("thread") or self._address.get("asked")
        if not thread or not self._address.get("channel"):
            return
        status = self._words(self._language, f"step.{self._step}")
        await self._calls(
            self._calls.client.assistant_threads_setStatus,
            channel_id=self._address["channel"],
            thread_ts=thread,
            status=status,
        )

    def _streamable(self) -> bool:
        return bool(self._address.get("thread") and self._address.get("user") and self._address.get("team"))

    async def _append(self) -> None:
        if self.open and self._now() - self._began > ROLL_OVER:
            await self._close()
        if self.ts and not self.open:
            return
        text = markdown(" ".join(self._waiting))
        if self._letters + len(text) > STREAM_LETTERS:
            return
        self._waiting.clear()
        where = {"channel": self._address["channel"]}
        if not self.ts:
            answer = await self._calls(
                self._calls.client.chat_startStream,
                thread_ts=self._address["thread"],
                recipient_user_id=self._address["user"],
                recipient_team_id=self._address["team"],
                task_display_mode="timeline",
                chunks=[*self._tasks(), {"type": "markdown_text", "text": text}],
                **where,
            )
            self.ts, self.open, self._began = str(answer["ts"]), True, self._now()
            await self._started(self.ts)
        else:
            await self._calls(
                self._calls.client.chat_appendStream, ts=self.ts, markdown_text=f" {text}", **where
            )
        self._letters += len(text)

    def _tasks(self) -> list[dict[str, str]]:
        """A card for each step that is done."""
        return [
            {
                "type": "task_update",
                "id": f"{number}:{step}",
                "title": self._words(self._language, f"step.{step}"),
                "status": "complete",
            }
            for number, step in enumerate(dict.fromkeys(self._steps))
        ]

    async def _close(self) -> None:
        self.open = False
        try:
            await self._calls(
                self._calls.client.chat_stopStream, channel=self._address["channel"], ts=self.ts
            )
        except (NotTaken, OSError) as error:
            log.info("stream.closed", error=str(error))
