"""Which scope each method and each event needs, and what an app's manifest grants.

Methods: the "Required scopes" of https://docs.slack.dev/reference/methods/<method>; events: the same of
https://docs.slack.dev/reference/events/<event>. A tuple is "any of these". `{kind}` stands for the family of the
conversation: channels, groups, im or mpim.
"""

from pathlib import Path
from typing import Any

import yaml

METHODS: dict[str, tuple[str, ...]] = {
    "auth.test": (),
    "apps.connections.open": (),  # app-level token with connections:write
    "users.info": ("users:read",),
    "usergroups.users.list": ("usergroups:read",),
    "conversations.info": ("{kind}:read",),
    "conversations.members": ("{kind}:read",),
    "conversations.open": ("im:write",),
    "conversations.replies": ("{kind}:history",),
    "conversations.history": ("{kind}:history",),
    "chat.postMessage": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.update": ("chat:write",),
    "chat.delete": ("chat:write",),
    "chat.getPermalink": (),
    "chat.startStream": ("chat:write",),
    "chat.appendStream": ("chat:write",),
    "chat.stopStream": ("chat:write",),
    # changelog 2026-03-05: chat:write is enough, assistant:write is being retired
    "assistant.threads.setStatus": ("chat:write", "assistant:write"),
    "assistant.threads.setTitle": ("assistant:write",),
    "assistant.threads.setSuggestedPrompts": ("assistant:write",),
    "views.open": (),
    "views.update": (),
    "views.push": (),
    "reactions.get": ("reactions:read",),
    "files.info": ("files:read",),
}
EVENTS: dict[str, tuple[str, ...]] = {
    "app_mention": ("app_mentions:read",),
    "message.channels": ("channels:history",),
    "message.groups": ("groups:history",),
    "message.im": ("im:history",),
    "message.mpim": ("mpim:history",),
    "app_home_opened": (),
    "app_context_changed": (),
    "assistant_thread_started": ("assistant:write",),
    "assistant_thread_context_changed": ("assistant:write",),
    "member_joined_channel": ("channels:read", "groups:read"),
    "tokens_revoked": (),
    "app_uninstalled": (),
}
FAMILY = {"public": "channels", "private": "groups", "im": "im", "mpim": "mpim"}
MESSAGE_EVENT = {
    "public": "message.channels",
    "private": "message.groups",
    "im": "message.im",
    "mpim": "message.mpim",
}


class Manifest:
    """The app as it is installed: scopes, subscribed events, commands."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        features, settings = content["features"], content["settings"]
        self.scopes = frozenset(content["oauth_config"]["scopes"]["bot"])
        self.events = frozenset(settings.get("event_subscriptions", {}).get("bot_events", ()))
        self.commands = {entry["command"]: entry for entry in features.get("slash_commands", ())}
        self.interactive = bool(settings.get("interactivity", {}).get("is_enabled"))
        self.agent = (
            "agent_view"
            if "agent_view" in features
            else "assistant_view"
            if "assistant_view" in features
            else ""
        )

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        return cls(yaml.safe_load(path.read_text(encoding="utf-8")))

    def missing(self, method: str, kind: str = "public") -> str | None:
        """The scope that a call lacks, None where it may go on."""
        needed = [scope.format(kind=FAMILY[kind]) for scope in METHODS[method]]
        return None if not needed or self.scopes & set(needed) else needed[0]

    def delivers(self, event: str) -> bool:
        """Whether Slack would send `event`: subscribed, and its scope granted."""
        needed = EVENTS[event]
        return event in self.events and (not needed or bool(self.scopes & set(needed)))
