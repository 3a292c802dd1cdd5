"""The stand-in from a test's side: a process started and ended here, and its steps as methods."""

import asyncio
import base64
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.emulators.feishu.world import Json

ROOT = Path(__file__).parents[3]
PATIENCE = aiohttp.ClientTimeout(total=30)


class Impossible(AssertionError):
    """A person could not have done what the test asked for."""


class StandIn:
    """`with StandIn() as feishu:` runs it; `await feishu.reset()` empties it for the next test, as another app: the
    SDK keeps tokens by app id for the whole process."""

    def __init__(self, manifest: Path = ROOT / "manifests" / "feishu.yaml", ack_seconds: float = 3.0) -> None:
        self._command = [
            sys.executable, "-m", "tests.emulators.feishu", "--port", "0",
            "--manifest", str(manifest), "--ack-seconds", str(ack_seconds),
        ]  # fmt: skip
        self.base = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.base = json.loads(self._process.stdout.readline())["FEISHU_DOMAIN"]
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

    async def reset(self, manifest: Json | None = None) -> dict[str, str]:
        """A fresh tenant with a fresh app: app_id, app_secret, encrypt_key, verification_token."""
        return dict(await self.do("reset", manifest=manifest, app_id=f"cli_{uuid.uuid4().hex[:16]}"))

    async def world(self) -> Json:
        async with (
            aiohttp.ClientSession(timeout=PATIENCE) as session,
            session.get(f"{self.base}/_world") as response,
        ):
            return dict(await response.json())

    async def say(self, user: str, chat: str, text: str = "", **more: Any) -> str:
        return str((await self.do("say", user=user, chat=chat, text=text, **more))["id"])

    async def see(self, user: str, chat: str) -> list[Json]:
        return list(await self.do("see", user=user, chat=chat))

    async def click(self, user: str, message: str, button: str, **more: Any) -> Json:
        return dict(await self.do("click", user=user, message=message, button=button, **more))

    async def upload(self, user: str, name: str, data: bytes) -> str:
        packed = base64.b64encode(data).decode()
        return str((await self.do("upload", user=user, name=name, data=packed))["file"])

    async def calls(self, *apis: str) -> list[Json]:
        """The calls received, in order; of `apis` ("POST /open-apis/…") only where any are named."""
        found = (await self.world())["calls"]
        return [call for call in found if not apis or call.get("api") in apis]

    async def until(self, look: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
        """What `look` returns as soon as it is truthy. Raises AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.03)
        raise AssertionError(f"nothing after {seconds} s: {look}")
