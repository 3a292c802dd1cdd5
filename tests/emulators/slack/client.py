"""The stand-in from a test's side."""

import base64
from pathlib import Path
from typing import Any, Self

from tests.emulators.slack.world import Json
from tests.emulators.standin import ROOT, Apart, Impossible

__all__ = ["ROOT", "Impossible", "StandIn"]


class StandIn(Apart):
    """`with StandIn() as slack:` runs it; `await slack.reset()` empties it for the next test."""

    def __init__(self, manifest: Path = ROOT / "manifests" / "slack.yaml", ack_seconds: float = 3.0) -> None:
        super().__init__("slack", manifest, ack_seconds)

    def __enter__(self) -> Self:
        super().__enter__()
        self.base = self.environment.pop("base")
        return self

    # --- steps

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
