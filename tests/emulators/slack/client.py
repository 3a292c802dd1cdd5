"""The stand-in from a test's side: a process started and ended here, and its steps as methods."""

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.emulators.slack.world import Json

ROOT = Path(__file__).parents[3]
# A step waits for the app's acknowledgement; an app that hangs must fail its test, not stop the suite.
PATIENCE = aiohttp.ClientTimeout(total=30)


class Impossible(AssertionError):
    """A person could not have done what the test asked for."""


class StandIn:
    """`with StandIn() as slack:` runs it; `await slack.reset()` empties it for the next test."""

    def __init__(self, manifest: Path = ROOT / "manifests" / "slack.yaml", ack_seconds: float = 3.0) -> None:
        self._command = [
            sys.executable, "-m", "tests.emulators.slack", "--port", "0",
            "--manifest", str(manifest), "--ack-seconds", str(ack_seconds),
        ]  # fmt: skip
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline())
        self.base: str = ready.pop("base")
        self.environment = ready
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    # --- steps

    async def do(self, step: str, **arguments: Any) -> Any:
        """Any step by name. Raises `Impossible` where no person could have done it."""
        async with (
            aiohttp.ClientSession(timeout=PATIENCE) as session,
            session.post(f"{self.base}/_drive", json={"do": step, **arguments}) as response,
        ):
            response.raise_for_status()
            answer = await response.json()
        if not answer["ok"]:
            raise Impossible(answer["error"])
        return answer["result"]

    async def world(self) -> Json:
        async with (
            aiohttp.ClientSession(timeout=PATIENCE) as session,
            session.get(f"{self.base}/_world") as response,
        ):
            return dict(await response.json())

    async def say(self, user: str, channel: str, text: str, **more: Any) -> str:
        return str((await self.do("say", user=user, channel=channel, text=text, **more))["ts"])

    async def see(self, user: str, channel: str) -> list[Json]:
        return list(await self.do("see", user=user, channel=channel))

    async def click(self, user: str, channel: str, ts: str, button: str, **more: Any) -> Json:
        return dict(await self.do("click", user=user, channel=channel, ts=ts, button=button, **more))

    async def command(self, user: str, channel: str, command: str, text: str = "") -> Json:
        return dict(await self.do("command", user=user, channel=channel, command=command, text=text))

    async def modal(self, user: str) -> Json | None:
        return await self.do("modal", user=user)  # type: ignore[no-any-return]

    async def submit(self, user: str, **values: Any) -> Json:
        return dict(await self.do("submit", user=user, values=values))

    async def upload(self, user: str, name: str, data: bytes, **more: Any) -> str:
        packed = base64.b64encode(data).decode()
        return str((await self.do("upload", user=user, name=name, data=packed, **more))["file"])

    async def calls(self, *methods: str) -> list[Json]:
        """The API calls received, in order; those of `methods` only where any are named."""
        found = (await self.world())["calls"]
        return [call for call in found if not methods or call["method"] in methods]

    async def until(self, look: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
        """What `look` returns as soon as it is truthy. Raises AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.03)
        raise AssertionError(f"nothing after {seconds} s: {look}")

    async def until_seen(
        self, user: str, channel: str, text: str, *, thread: str | None = None, seconds: float = 10.0
    ) -> Json:
        """The first message by the bot that contains `text`, as `user` sees it there."""

        async def look() -> Json | None:
            for message in await self.see(user, channel):
                inside = thread is None or message["thread"] == thread
                if message["by"] == "U0BOT" and text in message["text"] and inside:
                    return message
            return None

        try:
            return dict(await self.until(look, seconds))
        except AssertionError:
            shown = [message["text"] for message in await self.see(user, channel)]
            raise AssertionError(f"{user} never sees {text!r} in {channel}; there is {shown}") from None
