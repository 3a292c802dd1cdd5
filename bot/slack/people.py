"""Who somebody is in Slack, and whether they are answered: asked of Slack, kept five minutes, refused when unknown."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.acquaintance import Acquaintance, Unknown
from bot.settings import Slack

PAGE = 200  # members of a channel at a time


@dataclass(frozen=True, slots=True)
class Identity:
    """The app as it is installed. `scopes` are those of its bot token."""

    team_id: str
    user_id: str
    bot_id: str
    enterprise_id: str | None
    scopes: frozenset[str]
    url: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What of a Slack user matters here."""

    id: str
    name: str
    team_id: str
    bot: bool
    deleted: bool
    guest: bool
    stranger: bool
    email: str  # verified by the workspace; empty without users:read.email


@dataclass(frozen=True, slots=True)
class Channel:
    """What of a Slack channel matters here. `shared`: people of another organisation read it, or soon will."""

    id: str
    name: str
    private: bool
    shared: bool
    member: bool  # whether the bot is in it


class People:
    """Reads users, channels and user groups, and keeps for a while what Slack said of them."""

    def __init__(self, client: AsyncWebClient, settings: Slack) -> None:
        self._client = client
        self._settings = settings
        self.known = Acquaintance("slack", (SlackApiError, aiohttp.ClientError, TimeoutError))
        self._identity: Identity | None = None
        self._asking = asyncio.Lock()

    async def identity(self) -> Identity:
        """Who we are. Raises `SlackApiError` for a token that does not work."""
        async with self._asking:
            if self._identity is None:
                answer = await self._client.auth_test()
                scopes = str(answer.headers.get("x-oauth-scopes") or "")
                self._identity = Identity(
                    team_id=answer["team_id"],
                    user_id=answer["user_id"],
                    bot_id=answer.get("bot_id") or "",
                    enterprise_id=answer.get("enterprise_id"),
                    scopes=frozenset(scope.strip() for scope in scopes.split(",") if scope.strip()),
                    url=answer.get("url") or "",
                )
        return self._identity

    async def can(self, scope: str) -> bool:
        return scope in (await self.identity()).scopes

    async def profile(self, user: str) -> Profile:
        """Raises `Unknown` when Slack does not answer: then nothing is allowed."""

        async def ask() -> Profile:
            found: Mapping[str, Any] = (await self._client.users_info(user=user))["user"]
            shown = found.get("profile", {})
            return Profile(
                id=user,
                name=shown.get("display_name") or found.get("real_name") or found.get("name") or user,
                team_id=found.get("team_id") or "",
                bot=bool(found.get("is_bot")) or user == "USLACKBOT",
                deleted=bool(found.get("deleted")),
                guest=bool(found.get("is_restricted") or found.get("is_ultra_restricted")),
                stranger=bool(found.get("is_stranger")),
                email=str(shown.get("email") or "") if found.get("is_email_confirmed", True) else "",
            )

        return await self.known.ask("user", user, ask)

    async def refusal(self, user: str, teams: tuple[str, ...] = ()) -> str:
        """Why this person is not answered: "", bot, stranger, guest or unknown. `teams` are those that the payload
        names for them; one that is not ours makes them a stranger."""
        if not user:
            return "bot"
        try:
            ours = await self.identity()
            person = await self.profile(user)
        except (Unknown, SlackApiError):
            return "unknown"
        home = {ours.team_id, ours.enterprise_id} - {None}
        if person.bot or person.deleted:
            return "bot"
        if person.stranger or any(team not in home for team in (person.team_id, *teams) if team):
            return "stranger"
        return "guest" if person.guest and not self._settings.guests else ""

    async def channel(self, channel: str) -> Channel:
        """Raises `Unknown` when Slack does not answer."""

        async def ask() -> Channel:
            found: Mapping[str, Any] = (await self._client.conversations_info(channel=channel))["channel"]
            name = str(found.get("name") or channel)
            return Channel(
                id=channel,
                name=_members_of(name) if found.get("is_mpim") else f"#{name}",
                private=bool(found.get("is_private")),
                shared=bool(found.get("is_ext_shared") or found.get("is_pending_ext_shared")),
                member=bool(found.get("is_member")),
            )

        return await self.known.ask("channel", channel, ask)

    async def shared(self, channel: str) -> bool:
        """Whether others than our own organisation read this channel, or Slack does not say that they do not."""
        if channel in self._settings.shared_channels:
            return False
        try:
            return (await self.channel(channel)).shared
        except Unknown:
            return True

    async def members(self, channel: str, *, anew: bool = False) -> frozenset[str]:
        """Who is in a channel. Raises `Unknown` when Slack does not answer."""

        async def ask() -> frozenset[str]:
            found: set[str] = set()
            cursor = ""
            while True:
                page = await self._client.conversations_members(channel=channel, limit=PAGE, cursor=cursor)
                found |= set(page["members"])
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
                if not cursor:
                    return frozenset(found)

        return await self.known.ask("members", channel, ask, anew=anew)

    async def inside(self, user: str, channels: Sequence[str]) -> bool:
        """Whether somebody is in one of `channels`; False when Slack does not say."""
        for channel in channels:
            try:
                if user in await self.members(channel):
                    return True
            except Unknown:
                continue
        return False

    async def refresh(self, channels: Sequence[str]) -> None:
        """Ask who is in these channels ahead of the clicks that depend on it: none of them waits for Slack."""
        for channel in channels:
            with suppress(Unknown):
                await self.members(channel, anew=True)

    async def in_group(self, user: str, group: str) -> bool:
        """Whether a user group has this member; False when Slack does not say."""

        async def ask() -> frozenset[str]:
            return frozenset((await self._client.usergroups_users_list(usergroup=group))["users"])

        try:
            return user in await self.known.ask("group", group, ask)
        except Unknown:
            return False

    async def among(self, user: str, principals: tuple[str, ...]) -> bool:
        """Whether `principals` name this person, or a user group they are in (slack:S…)."""
        if f"slack:{user}" in principals:
            return True
        groups = [p.removeprefix("slack:") for p in principals if p.startswith("slack:S")]
        for group in groups:
            if await self.in_group(user, group):
                return True
        return False

    async def called(self, identity: str) -> str:
        """The display name of a user or channel, "" for what is neither. Raises `Unknown`."""
        if identity[:1] in ("U", "W"):
            return (await self.profile(identity)).name
        return (await self.channel(identity)).name if identity[:1] in ("C", "G") else ""


def _members_of(name: str) -> str:
    """A group direct message is called mpdm-ada--lin-1: ada, lin."""
    return ", ".join(name.removeprefix("mpdm-").rsplit("-", 1)[0].split("--"))
