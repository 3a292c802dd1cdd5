"""A stand-in platform from a test's side: a process started and ended here, and its steps as methods."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

ROOT = Path(__file__).parents[2]
# A step waits for the app's acknowledgement; an app that hangs must fail its test, not stop the suite.
PATIENCE = aiohttp.ClientTimeout(total=30)


class Impossible(AssertionError):
    """A person could not have done what the test asked for."""


class Apart:
    """`python -m tests.emulators.<platform>`: its first line says where it is, and it ends with its input."""

    def __init__(self, platform: str, manifest: Path, ack_seconds: float) -> None:
        self._command = [
            sys.executable, "-m", f"tests.emulators.{platform}", "--port", "0",
            "--manifest", str(manifest), "--ack-seconds", str(ack_seconds),
        ]  # fmt: skip
        self.environment: dict[str, str] = {}
        self.base = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.environment = json.loads(self._process.stdout.readline())
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

    async def world(self) -> dict[str, Any]:
        """All that there is, and all that was asked of it."""
        async with (
            aiohttp.ClientSession(timeout=PATIENCE) as session,
            session.get(f"{self.base}/_world") as response,
        ):
            return dict(await response.json())

    async def until(self, look: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
        """What `look` returns as soon as it is truthy. Raises AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.03)
        raise AssertionError(f"nothing after {seconds} s: {look}")
