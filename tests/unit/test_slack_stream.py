"""The message in which an answer is being made: it must end the moment the answer is there."""

import asyncio
from typing import Any, cast

import pytest

from bot.slack.calls import Calls
from bot.slack.stream import Stream
from bot.words import Words


class Client:
    """Slack's methods, which this test does not call."""

    def __getattr__(self, name: str) -> str:
        return name


class Silent:
    """Takes every call and remembers its method."""

    def __init__(self) -> None:
        self.client = Client()
        self.calls: list[str] = []

    async def __call__(self, method: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append(method)
        return {"ts": "1.0"}


@pytest.mark.parametrize("turns", range(6))
async def test_news_at_the_last_moment_do_not_keep_a_stream_alive(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step told just before the answer is sent, whatever the event loop has made of it by then: the stream ends at
    once. It kept its conversation's lock for ten minutes where the cancellation met the news."""
    monkeypatch.setattr("bot.slack.stream.GAP", 0.0)
    calls = Silent()
    address = {"channel": "C1", "thread": "1.0", "user": "U1", "team": "T1", "asked": "1.0"}

    async def started(_: list[str]) -> None:
        """Where its message is, which this test does not ask."""

    stream = Stream(cast(Calls, calls), Words(), address, "q1", started)
    await asyncio.sleep(0.02)  # it waits for news now
    stream.tell("publish", "")
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(1.0):
        await stream.finish()
    assert stream._task.done()


class Slow(Silent):
    """Takes its time, and remembers what was to be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    async def __call__(self, method: str, **arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(0.02)
        self.shown += [chunk.get("text") or str(chunk.get("status")) for chunk in arguments.get("chunks", ())]
        return await super().__call__(method, **arguments)


async def test_what_is_said_while_slack_answers_is_shown_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence and a step that come while an append is under way are neither lost nor taken for shown."""
    monkeypatch.setattr("bot.slack.stream.GAP", 0.0)
    calls = Slow()
    address = {"channel": "C1", "thread": "1.0", "user": "U1", "team": "T1", "asked": "1.0"}

    async def started(_: list[str]) -> None:
        """Where its message is, which this test does not ask."""

    stream = Stream(cast(Calls, calls), Words(), address, "q1", started)
    stream.tell("draft", "")
    for number in range(12):
        stream.tell("sentence", f"Sentence {number}.")
        await asyncio.sleep(0.007)
    stream.tell("publish", "")
    async with asyncio.timeout(5.0):
        while calls.shown.count("in_progress") < 2:
            await asyncio.sleep(0.01)
    await stream.finish()
    text = " ".join(calls.shown)
    assert [number for number in range(12) if f"Sentence {number}." not in text] == []
    states = [shown for shown in calls.shown if shown in ("complete", "in_progress")]
    assert states == ["in_progress", "complete", "in_progress"]
