"""Cutting short what nobody waits for any more, in whichever process it runs."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from store.changes import LISTENING, Change, Changes
from store.conversations import Conversations
from store.errors import DatabaseUnavailable

T = TypeVar("T")

log = structlog.get_logger(__name__)

TOPIC = "question:"
GONE = ("withdrawn", "superseded")  # taken back by the asker: nothing of it is sent or remembered


class Stopped(Exception):
    """The question was taken back while it was being answered."""


class Stops:
    """Runs work for questions and cancels it when its question is taken back: the inbox says so with the commit.

    A session for listening is opened with the first work, so that a command that answers nothing needs none.
    """

    def __init__(self, changes: Changes, conversations: Conversations) -> None:
        self._changes = changes
        self._conversations = conversations
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._listening: asyncio.Task[None] | None = None
        # Who else is told every change: one session for listening is enough for a process.
        self.also: list[Callable[[Change], None]] = []

    async def guard(self, question_id: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Raises `Stopped` when its question was taken back meanwhile."""
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(), name="stops")
        task = asyncio.create_task(work)
        self._running[question_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            ours = asyncio.current_task()
            if self._running.get(question_id) is not task and ours is not None and not ours.cancelling():
                raise Stopped(question_id) from None
            raise  # this process ends, or the job is cut; awaiting the work has cancelled it too
        finally:
            if self._running.get(question_id) is task:
                del self._running[question_id]

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        async for change in self._changes.listen():
            for tell in self.also:
                tell(change)
            if change.topic == LISTENING:
                await self._look()  # what was said before anybody listened
            elif change.topic.startswith(TOPIC):
                self._stop(change.topic.removeprefix(TOPIC))

    async def _look(self) -> None:
        try:
            rows = await self._conversations.among(list(self._running))
        except DatabaseUnavailable:
            return  # the session for listening is lost as well, and its next beginning looks again
        for row in rows:
            if row.state in GONE:
                self._stop(row.id)

    def _stop(self, question_id: str) -> None:
        task = self._running.pop(question_id, None)
        if task is not None:
            log.info("question.cut", question=question_id)
            task.cancel()
