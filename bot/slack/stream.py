"""What is shown while an answer is being made: a status, then a message with its steps, a button that stops it, and
its sentences as they come. Lossy by design.

The stream is the answer's own message: when the answer is there, its messages are updated with the whole of it,
whatever became of the stream. Slack closes one about 300 seconds after it began; before that, and before it is full,
another message goes on below it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from bot.messages import NotTaken
from bot.slack.calls import Calls
from bot.slack.render import actions, button, markdown
from bot.words import Words
from store.errors import DatabaseUnavailable
from store.text import language as language_of

log = structlog.get_logger(__name__)

GAP = 1.2  # seconds between two appends; chat.appendStream is tier 4
BEGIN_AFTER = 1.5  # seconds without an answer after which the steps are worth a message of their own
ROLL_OVER = 270.0  # seconds; Slack closes a stream at about 300 (slackapi/python-slack-sdk#1859)
STATUS_AGAIN = 90.0  # seconds; Slack clears a status after 120 (docs: assistant.threads.setStatus)
IDLE = 600.0  # seconds without news after which a stream whose question went away is closed
LETTERS = 11_000  # of one message's 12,000 (docs: chat.appendStream, markdown_text)
STOP = "stop"  # the action of the button, whose value is the question
CLOSED = frozenset({"message_not_in_streaming_state", "message_not_found"})


class Stream:
    """The progress of one question. `started` is told the ts of all its messages: none before the first is begun, and
    again whenever there is another one."""

    def __init__(
        self,
        calls: Calls,
        words: Words,
        address: Mapping[str, Any],
        question_id: str,
        started: Callable[[list[str]], Awaitable[None]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls, self._words, self._address = calls, words, address
        self._question_id, self._started, self._now = question_id, started, now
        self._language = str(address.get("language") or "en")
        self._steps: dict[str, str] = {}  # step → its task's status, in the order of their beginning
        self._told: dict[str, str] = {}  # what of it the open message shows
        self._waiting: list[str] = []
        self._letters = 0
        self._begun, self._status_at, self._opened_at = now(), 0.0, 0.0
        self._status_shown = ""
        self._news = asyncio.Event()
        self.parts: list[str] = []
        self.open = False
        self._refused = False
        self._task = asyncio.create_task(self._run(), name=f"stream {question_id}")

    def tell(self, step: str, text: str) -> None:
        """Take note; never waits for Slack."""
        if step == "sentence":
            self._waiting.append(text)
        else:
            for before in self._steps:
                self._steps[before] = "complete"
            self._steps[step] = "in_progress"
            self._language = language_of(text) if text else self._language
        self._news.set()

    async def finish(self, *, clear: bool = False) -> list[str]:
        """Stop showing progress. Returns the ts of the messages that the answer has to fill. `clear`: no message will
        follow that takes the status away."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.open:
            await self._close()
        if clear and self._status_shown:
            await self._lossy(self._status(""))
        return self.parts

    async def _run(self) -> None:
        heard_at = self._now()
        while self._now() - heard_at < IDLE:
            if self._news.is_set():
                heard_at = self._now()
                self._news.clear()
            await self._lossy(self._show())
            await asyncio.sleep(GAP)
            if not self._news.is_set():
                await self._idle()
        if self.open:
            await self._close()

    async def _idle(self) -> None:
        """Until there is news, or something to do without any."""
        with_message = self._streamable() and not self.parts and not self._refused
        pause = max(0.0, self._begun + BEGIN_AFTER - self._now()) if with_message else STATUS_AGAIN
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that meets the news, and whoever finishes the stream
            # then waits for it with the conversation's lock in hand.
            async with asyncio.timeout(pause + 0.01):
                await self._news.wait()
        except TimeoutError:
            return

    async def _lossy(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (NotTaken, OSError, DatabaseUnavailable) as error:
            log.info("progress.lost", error=str(error))
            # What Slack will not take is not offered again; the answer itself comes in any case.
            self._refused = self._refused or (isinstance(error, NotTaken) and not self.parts)

    async def _show(self) -> None:
        if not self.parts:
            await self._current_status()
        due = bool(self._waiting or self.parts) or self._now() - self._begun >= BEGIN_AFTER
        if due and self._streamable() and not self._refused:
            await self._stream()

    # --- status

    async def _current_status(self) -> None:
        step = next(reversed(self._steps), "")
        fresh = self._now() - self._status_at < STATUS_AGAIN
        if not step or (step == self._status_shown and fresh):
            return
        self._status_shown, self._status_at = step, self._now()
        await self._status(self._words(self._language, f"step.{step}"))

    async def _status(self, text: str) -> None:
        thread = self._address.get("thread") or self._address.get("asked")
        if thread and self._address.get("channel"):
            await self._calls(
                self._calls.client.assistant_threads_setStatus,
                channel_id=self._address["channel"],
                thread_ts=thread,
                status=text,
            )

    # --- messages

    def _streamable(self) -> bool:
        return bool(self._address.get("thread") and self._address.get("user") and self._address.get("team"))

    async def _stream(self) -> None:
        """Bring the open message up to date; open another one where there is none, or it is old or full."""
        sentences, steps = len(self._waiting), dict(self._steps)  # more may come while Slack answers
        text = markdown(" ".join(self._waiting)[:LETTERS]) if self._waiting else ""
        if self.open and (self._now() - self._opened_at > ROLL_OVER or self._letters + len(text) > LETTERS):
            await self._close()
        chunks = self._tasks()
        if text:
            chunks.append({"type": "markdown_text", "text": f" {text}" if self._letters else text})
        if not chunks or (self.parts and not self.open and not text):
            return
        if self.open:
            try:
                await self._calls(
                    self._calls.client.chat_appendStream,
                    channel=self._address["channel"],
                    ts=self.parts[-1],
                    chunks=chunks,
                )
            except NotTaken as error:
                if str(error) not in CLOSED:
                    raise
                log.info("stream.closed_by_slack", question=self._question_id)
                self.open = False
        if not self.open:
            await self._open(chunks)
        self._told = steps
        del self._waiting[:sentences]
        self._letters += len(text)

    async def _open(self, chunks: list[dict[str, Any]]) -> None:
        stop = button(self._words(self._language, "chat.stop"), STOP, self._question_id)
        if not self.parts:
            await self._started([])
        answer = await self._calls(
            self._calls.client.chat_startStream,
            channel=self._address["channel"],
            thread_ts=self._address["thread"],
            recipient_user_id=self._address["user"],
            recipient_team_id=self._address["team"],
            task_display_mode="timeline",
            chunks=[{"type": "blocks", "blocks": actions([stop])}, *chunks],
        )
        self.parts.append(str(answer["ts"]))
        self.open, self._opened_at, self._letters = True, self._now(), 0
        await self._started(self.parts)

    def _tasks(self) -> list[dict[str, Any]]:
        """A task card for each step whose state the open message does not show yet."""
        return [
            {
                "type": "task_update",
                "id": step,
                "title": self._words(self._language, f"step.{step}"),
                "status": status,
            }
            for step, status in self._steps.items()
            if self._told.get(step) != status
        ]

    async def _close(self) -> None:
        self.open = False
        self._told = dict(self._steps)  # another message goes on with what is new
        await self._lossy(self._stop_stream(self.parts[-1]))

    async def _stop_stream(self, ts: str) -> None:
        await self._calls(self._calls.client.chat_stopStream, channel=self._address["channel"], ts=ts)
