"""The workspace: people, channels, messages, files, views, and a clock that can be wound forward."""

import random
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

TEAM = "T0SIGN"
OTHER_TEAM = "T0OTHER"
ENTERPRISE = None
APP = "A0SIGN"
BOT_USER = "U0BOT"
BOT = "B0SIGN"
# https://docs.slack.dev/interactivity/handling-user-interaction: a trigger expires three seconds after the click.
TRIGGER_SECONDS = 3.0
# https://docs.slack.dev/interactivity/handling-user-interaction#message_responses: five times within 30 minutes.
RESPONSE_SECONDS = 30 * 60
RESPONSE_USES = 5

Json = dict[str, Any]


class Clock:
    """Real time plus what a test has wound forward. `now` is epoch seconds."""

    def __init__(self) -> None:
        self.wound = 0.0
        self._last = 0.0

    def now(self) -> float:
        return time.time() + self.wound

    def wind(self, seconds: float) -> None:
        self.wound += seconds

    def ts(self) -> str:
        """A message id: the time to the microsecond, never the same twice."""
        moment = max(self.now(), self._last + 1e-6)
        self._last = moment
        return f"{moment:.6f}"


@dataclass
class User:
    id: str
    name: str
    team_id: str = TEAM
    is_bot: bool = False
    deleted: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False
    is_admin: bool = False

    def public(self) -> Json:
        """https://docs.slack.dev/reference/objects/user-object"""
        return {
            "id": self.id,
            "team_id": self.team_id,
            "name": self.name,
            "deleted": self.deleted,
            "real_name": self.name.title(),
            "tz": "Europe/Amsterdam",
            "is_admin": self.is_admin,
            "is_owner": False,
            "is_primary_owner": False,
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            "is_stranger": self.is_stranger,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "locale": "en-US",
            "is_email_confirmed": True,
            "profile": {
                "real_name": self.name.title(),
                "display_name": self.name,
                "email": f"{self.name}@signoff.example",
            },
        }


@dataclass
class Channel:
    id: str
    name: str
    kind: str  # public | private | im | mpim
    members: set[str] = field(default_factory=set)
    is_ext_shared: bool = False
    is_pending_ext_shared: bool = False
    is_archived: bool = False
    messages: dict[str, Json] = field(default_factory=dict)

    def public(self) -> Json:
        """https://docs.slack.dev/reference/objects/conversation-object"""
        other = next((member for member in sorted(self.members) if member != BOT_USER), "")
        shown: Json = {
            "id": self.id,
            "is_channel": self.kind == "public",
            "is_group": False,
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "public",
            "is_archived": self.is_archived,
            "is_shared": self.is_ext_shared,
            "is_ext_shared": self.is_ext_shared,
            "is_pending_ext_shared": self.is_pending_ext_shared,
            "is_org_shared": False,
            "is_member": BOT_USER in self.members,
            "context_team_id": TEAM,
        }
        return shown | ({"user": other} if self.kind == "im" else {"name": self.name})


class World:
    """Everything that exists. One instance is one workspace with one installed app."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Clock()
        self.random = random.Random(seed)
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, list[str]] = {}
        self.files: dict[str, Json] = {}
        self.contents: dict[str, bytes] = {}
        self.views: dict[str, Json] = {}
        self.open_views: dict[str, list[str]] = {}  # user → view ids, top last
        self.ephemerals: list[Json] = []
        self.earlier: dict[tuple[str, str], list[Json]] = {}  # what our messages were before each update
        self.triggers: dict[str, Json] = {}
        self.response_urls: dict[str, Json] = {}
        self.statuses: list[Json] = []
        self.prompts: list[Json] = []
        self.titles: list[Json] = []
        self.calls: list[Json] = []
        self.revoked = False
        self.base = ""  # this server's own address
        self._populate()

    def _populate(self) -> None:
        for user in (
            User(BOT_USER, "signoff", is_bot=True),
            User("U0ADA", "ada"),
            User("U0LIN", "lin"),
            User("U0REV", "rena"),
            User("U0REV2", "rolf"),
            User("U0ADM", "adam", is_admin=True),
            User("U0GUEST", "gus", is_restricted=True),
            User("U0ULTRA", "una", is_ultra_restricted=True),
            User("U0EXT", "eve", team_id=OTHER_TEAM, is_stranger=True),
            User("U0OTHERBOT", "otherbot", is_bot=True),
            User("U0GONE", "gone", deleted=True),
        ):
            self.users[user.id] = user
        here = {BOT_USER, "U0ADA", "U0LIN", "U0REV", "U0ADM", "U0GUEST", "U0ULTRA", "U0OTHERBOT"}
        for channel in (
            Channel("C0GEN", "general", "public", set(here)),
            Channel("C0HR", "hr", "private", {BOT_USER, "U0ADA", "U0LIN"}),
            Channel("G0TRIO", "mpdm-ada--lin--signoff-1", "mpim", {BOT_USER, "U0ADA", "U0LIN"}),
            Channel("C0REVIEW", "reviews", "private", {BOT_USER, "U0REV", "U0REV2"}),
            Channel("C0EXT", "with-partner", "public", here | {"U0EXT"}, is_ext_shared=True),
            Channel("C0NOBOT", "without-bot", "public", here - {BOT_USER}),
        ):
            self.channels[channel.id] = channel
        self.groups["S0KB"] = ["U0ADM"]

    # --- places

    def im(self, user: str) -> Channel:
        """The direct messages of the bot with `user`, made when first needed."""
        identity = f"D{user[1:]}"
        return self.channels.setdefault(identity, Channel(identity, "", "im", {BOT_USER, user}))

    def place(self, channel: str) -> Channel | None:
        """A channel by id; a user's id opens the direct messages with them, as chat.postMessage does."""
        if channel in self.users and channel != BOT_USER:
            return self.im(channel)
        return self.channels.get(channel)

    def message(self, channel: str, ts: str) -> Json | None:
        place = self.channels.get(channel)
        return place.messages.get(ts) if place else None

    def thread(self, channel: str, ts: str) -> list[Json]:
        """The parent and its replies, oldest first."""
        place = self.channels.get(channel)
        found = [m for m in place.messages.values() if ts in (m["ts"], m.get("thread_ts"))] if place else []
        return sorted(found, key=lambda message: message["ts"])

    def put(self, channel: Channel, message: Json) -> Json:
        """Store a message under a new ts and keep its parent's thread_ts as Slack does."""
        message = {"type": "message", "ts": self.clock.ts(), "channel": channel.id, **message}
        parent = channel.messages.get(message.get("thread_ts") or "")
        if parent is not None:
            parent.setdefault("thread_ts", parent["ts"])
        channel.messages[message["ts"]] = message
        return message

    # --- short-lived rights

    def trigger(self, user: str) -> str:
        identity = f"{self.random.randrange(10**12)}.{self.random.randrange(10**9)}.{uuid.uuid4().hex}"
        self.triggers[identity] = {"user": user, "at": self.clock.now(), "used": False}
        return identity

    def redeem(self, trigger: str) -> str | None:
        """Use a trigger. Returns the error it deserves, None where it is good."""
        known = self.triggers.get(trigger)
        if known is None:
            return "invalid_trigger_id"
        if known["used"]:
            return "exchanged_trigger_id"
        if self.clock.now() - known["at"] > TRIGGER_SECONDS:
            return "expired_trigger_id"
        known["used"] = True
        return None

    def response_url(self, user: str, channel: str, message: Json | None = None) -> str:
        identity = uuid.uuid4().hex
        self.response_urls[identity] = {
            "user": user,
            "channel": channel,
            "ts": message["ts"] if message else None,
            "at": self.clock.now(),
            "uses": 0,
        }
        return f"{self.base}/response/{identity}"

    # --- what a test looks at

    def visible(self, channel: str, user: str) -> list[Json]:
        """What `user` can see in `channel`, oldest first: messages, and ephemerals addressed to them."""
        place = self.channels.get(channel)
        if place is None or user not in place.members:
            return []
        own = [m for m in self.ephemerals if m["channel"] == channel and m["to"] == user]
        return sorted([*place.messages.values(), *own], key=lambda message: message["ts"])

    def all_messages(self) -> Iterable[Json]:
        for channel in self.channels.values():
            yield from channel.messages.values()

    def snapshot(self) -> Json:
        """All state, for assertions and for looking at it while the stand-in runs alone."""
        return {
            "now": self.clock.now(),
            "channels": {
                channel.id: {**channel.public(), "messages": sorted(channel.messages.values(), key=_ts)}
                for channel in self.channels.values()
            },
            "ephemerals": self.ephemerals,
            "views": self.views,
            "open_views": self.open_views,
            "statuses": self.statuses,
            "prompts": self.prompts,
            "titles": self.titles,
            "files": self.files,
            "calls": self.calls,
        }


def _ts(message: Json) -> str:
    return str(message["ts"])
