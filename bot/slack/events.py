"""From Slack's events to what was said: pure. Shapes: docs.slack.dev/reference/events/message and its subtypes."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.following import Spoken
from bot.slack.people import Identity

MARKUP = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
# Whoever writes these is a program, ours or another; answering one can start a loop of two bots.
PROGRAM = ("bot_id", "bot_profile", "app_id")
SPEECH = frozenset({None, "file_share", "thread_broadcast"})
ADD = re.compile(r"^\W*kb\s+add\b\s*(?P<collection>[\w-]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heard:
    """One message by a person. `thread` is the parent's ts, empty outside threads; `teams` are those that the event
    names for its author; `to_other` when it addresses somebody else and not us."""

    team: str
    channel: str
    ts: str
    thread: str
    user: str
    text: str
    direct: bool
    mentioned: bool
    to_other: bool
    shared: bool
    teams: tuple[str, ...]
    files: tuple[Mapping[str, Any], ...]

    @property
    def key(self) -> str:
        """The message's own identity. Not the event's: a mention arrives twice, under two event ids."""
        return f"{self.team}:{self.channel}:{self.ts}"

    @property
    def conversation_id(self) -> str:
        """A thread, or what one person writes to us directly outside threads."""
        if self.direct and not self.thread:
            return direct_conversation(self.user)
        return f"slack:{self.channel}:{self.thread or self.ts}"

    @property
    def sent_at(self) -> datetime:
        return datetime.fromtimestamp(float(self.ts), UTC)

    @property
    def author(self) -> str:
        return f"slack:{self.user}"

    @property
    def spoken(self) -> Spoken:
        threaded = bool(self.thread)
        return Spoken(self.conversation_id, self.author, self.direct, self.mentioned, threaded, self.to_other)


def direct_conversation(user: str) -> str:
    """Named by the person, so that a command needs no call to know it."""
    return f"slack:@{user}:dm"


def heard(body: Mapping[str, Any], ours: Identity) -> Heard | None:
    """What a person said; None for programs, ourselves, and events that are no speech."""
    event: Mapping[str, Any] = body["event"]
    if event.get("subtype") not in SPEECH or any(event.get(name) for name in PROGRAM) or event.get("hidden"):
        return None
    user, channel, ts = event.get("user"), event.get("channel"), event.get("ts")
    if not user or not channel or not ts or user == ours.user_id:
        return None
    raw = str(event.get("text") or "")
    mention = re.compile(rf"<@{re.escape(ours.user_id)}(?:\|[^>]*)?>")
    mentioned = bool(mention.search(raw))
    others = any(kind == "@" for kind, _, _ in MARKUP.findall(mention.sub(" ", raw)))
    thread = str(event.get("thread_ts") or "")
    return Heard(
        team=str(body.get("team_id") or body.get("enterprise_id") or ours.team_id),
        channel=str(channel),
        ts=str(ts),
        thread="" if thread == ts else thread,
        user=str(user),
        text="\n\n".join(filter(None, (decode(mention.sub(" ", raw)), quoted(event)))),
        direct=event.get("channel_type") == "im" or str(channel).startswith("D"),
        mentioned=mentioned or event.get("type") == "app_mention",
        to_other=not mentioned and others,
        shared=bool(body.get("is_ext_shared_channel")),
        teams=tuple(str(event[name]) for name in ("team", "user_team", "source_team") if event.get(name)),
        files=tuple(event.get("files") or ()),
    )


def decode(text: str) -> str:
    """Slack's escapes and `<…>` as a person would read them."""

    def replaced(match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind in ("@", "#"):
            return f"{kind}{label or target}"
        if kind == "!":
            return label or f"@{target.split('^')[0]}"
        return label or target

    return html.unescape(MARKUP.sub(replaced, text)).strip()


def quoted(event: Mapping[str, Any]) -> str:
    """Messages that were forwarded or quoted with this one: they are what "this" means."""
    found = []
    for attachment in event.get("attachments") or ():
        if attachment.get("is_share") or attachment.get("is_msg_unfurl"):
            text = decode(str(attachment.get("text") or attachment.get("fallback") or ""))
            found.append("\n".join(f"> {line}" for line in text.splitlines()))
    return "\n\n".join(found)
