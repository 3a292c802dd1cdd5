"""Who somebody is in Feishu, and whether they are answered: asked there, kept five minutes, refused when unknown."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from bot.feishu.calls import BOT_INFO, CHAT, MEMBERS, TENANT, USER, Calls
from bot.messages import NotTaken
from bot.settings import Feishu

T = TypeVar("T")

log = structlog.get_logger(__name__)

KEPT_SECONDS = 300.0
KEPT_MOST = 10_000
PAGE, PAGES = 100, 50


@dataclass(frozen=True, slots=True)
class Identity:
    """The app as it is installed: its bot, and its organisation."""

    open_id: str
    name: str
    tenant_key: str


@dataclass(frozen=True, slots=True)
class Chat:
    """What of a chat matters here. `external`: people of another organisation are in it, or may come."""

    id: str
    name: str
    mode: str  # group, topic or p2p
    external: bool
    private: bool


class Unknown(Exception):
    """Feishu did not say who or what this is."""


class People:
    """Reads people and chats; every answer is kept for `KEPT_SECONDS`."""

    def __init__(self, calls: Calls, settings: Feishu, now: Callable[[], float] = time.monotonic) -> None:
        self._calls, self._settings, self._now = calls, settings, now
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}
        self._identity: Identity | None = None
        self._asking = asyncio.Lock()

    async def identity(self) -> Identity:
        """Who we are. Raises `Refused` or `ConnectionError` where the credentials do not work."""
        async with self._asking:
            if self._identity is None:
                bot = (await self._calls(BOT_INFO))["bot"]
                tenant = (await self._calls(TENANT))["tenant"]
                self._identity = Identity(
                    str(bot["open_id"]), str(bot.get("app_name") or ""), str(tenant["tenant_key"])
                )
        return self._identity

    async def refusal(self, tenant_key: str, kind: str = "user") -> str:
        """Why this person is not answered: "", bot, stranger or unknown. `tenant_key` is what the payload says of
        them; one that is not ours makes them a stranger."""
        if kind != "user":
            return "bot"
        try:
            ours = await self.identity()
        except (NotTaken, OSError):
            return "unknown"
        if not tenant_key:
            return "unknown"
        return "" if tenant_key == ours.tenant_key else "stranger"

    async def chat(self, chat_id: str) -> Chat:
        """Raises `Unknown` when Feishu does not answer."""

        async def ask() -> Chat:
            found = await self._calls(CHAT, {"chat_id": chat_id})
            return Chat(
                id=chat_id,
                name=str(found.get("name") or chat_id),
                mode=str(found.get("chat_mode") or "group"),
                external=bool(found.get("external")),
                private=found.get("chat_type") != "public",
            )

        return await self._remembered("chat", chat_id, ask)

    async def shared(self, chat_id: str) -> bool:
        """Whether others than our own organisation read this chat, or Feishu does not say that they do not."""
        if chat_id in self._settings.shared_chats:
            return False
        try:
            return (await self.chat(chat_id)).external
        except Unknown:
            return True

    async def members(self, chat_id: str) -> frozenset[str]:
        """The open ids of a chat's people. Raises `Unknown`."""

        async def ask() -> frozenset[str]:
            found: set[str] = set()
            token = ""
            for _ in range(PAGES):
                query = {"member_id_type": "open_id", "page_size": PAGE, "page_token": token}
                page = await self._calls(MEMBERS, {"chat_id": chat_id}, query=query)
                found |= {str(item["member_id"]) for item in page.get("items") or ()}
                token = str(page.get("page_token") or "")
                if not page.get("has_more"):
                    break
            return frozenset(found)

        return await self._remembered("members", chat_id, ask)

    async def among(self, user: str, principals: tuple[str, ...]) -> bool:
        """Whether `principals` name this person, or a chat they are in (feishu:oc_…)."""
        if f"feishu:{user}" in principals:
            return True
        for chat in (p.removeprefix("feishu:") for p in principals if p.startswith("feishu:oc_")):
            try:
                if user in await self.members(chat):
                    return True
            except Unknown:
                continue
        return False

    async def name(self, user: str) -> str:
        """Raises `Unknown`."""

        async def ask() -> str:
            found = (await self._calls(USER, {"user_id": user}, query={"user_id_type": "open_id"}))["user"]
            return str(found.get("name") or user)

        return await self._remembered("name", user, ask)

    async def names(self, principals: set[str]) -> dict[str, str]:
        """Display names of those principals that are Feishu's people or chats; nobody is pinged by a name."""
        found: dict[str, str] = {}
        for principal in principals:
            platform, _, identity = principal.partition(":")
            if platform != "feishu":
                continue
            try:
                if identity.startswith("ou_"):
                    found[principal] = await self.name(identity)
                elif identity.startswith("oc_"):
                    found[principal] = (await self.chat(identity)).name
            except Unknown:
                log.info("name.unknown", principal=principal)
        return found

    async def _remembered(self, kind: str, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        kept = self._kept.get((kind, key))
        if kept and self._now() - kept[0] < KEPT_SECONDS:
            value: T = kept[1]
            return value
        try:
            found = await ask()
        except (NotTaken, OSError, KeyError) as error:
            log.warning("feishu.unknown", kind=kind, id=key, error=str(error))
            raise Unknown(f"{kind} {key}") from error
        if len(self._kept) >= KEPT_MOST:
            self._kept.clear()
        self._kept[kind, key] = (self._now(), found)
        return found
