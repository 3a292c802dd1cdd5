"""Who somebody is in Feishu, and whether they are answered: asked there, kept five minutes, refused when unknown."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bot.acquaintance import Acquaintance, Unknown
from bot.feishu.calls import BOT_INFO, CHAT, MEMBERS, TENANT, USER, Calls
from bot.messages import NotTaken
from bot.settings import Feishu

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


class People:
    """Reads people and chats, and keeps for a while what Feishu said of them."""

    def __init__(self, calls: Calls, settings: Feishu) -> None:
        self._calls, self._settings = calls, settings
        self.known = Acquaintance("feishu", (NotTaken, OSError, KeyError))
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

        return await self.known.ask("chat", chat_id, ask)

    async def shared(self, chat_id: str) -> bool:
        """Whether others than our own organisation read this chat, or Feishu does not say that they do not."""
        if chat_id in self._settings.shared_chats:
            return False
        try:
            return (await self.chat(chat_id)).external
        except Unknown:
            return True

    async def members(self, chat_id: str, *, anew: bool = False) -> frozenset[str]:
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

        return await self.known.ask("members", chat_id, ask, anew=anew)

    async def among(self, user: str, principals: tuple[str, ...]) -> bool:
        """Whether `principals` name this person, or a chat they are in (feishu:oc_…)."""
        if f"feishu:{user}" in principals:
            return True
        chats = [p.removeprefix("feishu:") for p in principals if p.startswith("feishu:oc_")]
        return await self.inside(user, chats)

    async def inside(self, user: str, chats: Sequence[str]) -> bool:
        """Whether somebody is in one of `chats`; False when Feishu does not say."""
        for chat in chats:
            try:
                if user in await self.members(chat):
                    return True
            except Unknown:
                continue
        return False

    async def refresh(self, chats: Sequence[str]) -> None:
        """Ask who is in these chats ahead of the clicks that depend on it: none of them waits for Feishu."""
        for chat in chats:
            with suppress(Unknown):
                await self.members(chat, anew=True)

    async def called(self, identity: str) -> str:
        """The display name of a person or chat, "" for what is neither. Raises `Unknown`."""
        if identity.startswith("oc_"):
            return (await self.chat(identity)).name
        if not identity.startswith("ou_"):
            return ""

        async def ask() -> str:
            query = {"user_id_type": "open_id"}
            found = (await self._calls(USER, {"user_id": identity}, query=query))["user"]
            return str(found.get("name") or identity)

        return await self.known.ask("name", identity, ask)
