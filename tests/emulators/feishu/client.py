"""The stand-in from a test's side."""

import base64
import uuid
from pathlib import Path
from typing import Any, Self

from tests.emulators.feishu.world import Json
from tests.emulators.standin import ROOT, Apart, Impossible

__all__ = ["Impossible", "StandIn"]


class StandIn(Apart):
    """`with StandIn() as feishu:` runs it; `await feishu.reset()` empties it for the next test, as another app: the
    SDK keeps tokens by app id for the whole process."""

    def __init__(self, manifest: Path = ROOT / "manifests" / "feishu.yaml", ack_seconds: float = 3.0) -> None:
        super().__init__("feishu", manifest, ack_seconds)

    def __enter__(self) -> Self:
        super().__enter__()
        self.base = self.environment["FEISHU_DOMAIN"]
        return self

    async def reset(self, manifest: Json | None = None) -> dict[str, str]:
        """A fresh tenant with a fresh app: app_id, app_secret, encrypt_key, verification_token."""
        return dict(await self.do("reset", manifest=manifest, app_id=f"cli_{uuid.uuid4().hex[:16]}"))

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
