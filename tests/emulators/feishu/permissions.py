"""Which permission each address and each event needs, and what an app's manifest asks for.

Addresses: "权限要求" of each page under https://open.feishu.cn/document/server-docs. A tuple is "any of these".
Sending and reading messages accept the broad im:message too; the manifest asks for the narrow ones.
"""

import re
from pathlib import Path
from typing import Any

import yaml

APIS: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "/open-apis/auth/v3/tenant_access_token/internal"): (),
    ("POST", "/callback/ws/endpoint"): (),
    ("GET", "/open-apis/bot/v3/info"): (),
    ("GET", "/open-apis/tenant/v2/tenant/query"): ("tenant:tenant:readonly",),
    ("GET", "/open-apis/application/v6/scopes"): (),
    ("POST", "/open-apis/im/v1/messages"): ("im:message:send_as_bot", "im:message"),
    ("POST", "/open-apis/im/v1/messages/:message_id/reply"): ("im:message:send_as_bot", "im:message"),
    ("GET", "/open-apis/im/v1/messages/:message_id"): ("im:message:readonly", "im:message"),
    ("PATCH", "/open-apis/im/v1/messages/:message_id"): ("im:message:update", "im:message"),
    ("PUT", "/open-apis/im/v1/messages/:message_id"): ("im:message:update", "im:message"),
    ("POST", "/open-apis/im/v1/messages/:message_id/reactions"): (
        "im:message.reactions:write_only",
        "im:message",
    ),
    ("GET", "/open-apis/im/v1/messages/:message_id/reactions"): ("im:message.reactions:read", "im:message"),
    ("DELETE", "/open-apis/im/v1/messages/:message_id/reactions/:reaction_id"): (
        "im:message.reactions:write_only",
        "im:message",
    ),
    ("GET", "/open-apis/im/v1/messages/:message_id/resources/:file_key"): (
        "im:resource",
        "im:message:readonly",
    ),
    ("POST", "/open-apis/im/v1/files"): ("im:resource", "im:resource:upload"),
    ("GET", "/open-apis/im/v1/chats/:chat_id"): ("im:chat:readonly", "im:chat"),
    ("GET", "/open-apis/im/v1/chats/:chat_id/members"): ("im:chat.members:read", "im:chat:readonly"),
    ("GET", "/open-apis/contact/v3/users/:user_id"): ("contact:contact.base:readonly",),
    ("POST", "/open-apis/cardkit/v1/cards"): ("cardkit:card:write",),
    ("PUT", "/open-apis/cardkit/v1/cards/:card_id"): ("cardkit:card:write",),
    ("PATCH", "/open-apis/cardkit/v1/cards/:card_id/settings"): ("cardkit:card:write",),
    ("PUT", "/open-apis/cardkit/v1/cards/:card_id/elements/:element_id/content"): ("cardkit:card:write",),
    ("POST", "/open-apis/interactive/v1/card/update"): (),
}
EVENTS: dict[str, tuple[str, ...]] = {
    # Which messages arrive depends on which of the three is granted: see `hears`.
    "im.message.receive_v1": (
        "im:message.p2p_msg:readonly",
        "im:message.group_at_msg:readonly",
        "im:message.group_msg",
    ),
    "im.message.recalled_v1": ("im:message:readonly", "im:message"),
}
CALLBACKS = {"card.action.trigger"}
# Fields of a user that are left out without a permission of their own: name, e-mail address.
NAMES, EMAILS = "contact:user.base:readonly", "contact:user.email:readonly"


class Manifest:
    """manifests/feishu.yaml as the console knows it once it was typed in."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        return cls(yaml.safe_load(path.read_text(encoding="utf-8")))

    @property
    def scopes(self) -> set[str]:
        return {*self.content["permissions"]["needed"], *self.content["permissions"].get("better", {})}

    @property
    def events(self) -> set[str]:
        return set(self.content["events"]["subscribed"])

    @property
    def callbacks(self) -> set[str]:
        return set(self.content["callbacks"]["subscribed"])

    def missing(self, method: str, path: str) -> tuple[str, ...]:
        """What would have been enough; empty when it is granted."""
        wanted = APIS[method, path]
        return () if not wanted or self.scopes & set(wanted) else wanted

    def hears(self, *, p2p: bool, mentioned: bool) -> bool:
        """https://open.feishu.cn/document/server-docs/im-v1/message/events/receive"""
        if "im.message.receive_v1" not in self.events:
            return False
        if p2p:
            return "im:message.p2p_msg:readonly" in self.scopes
        if "im:message.group_msg" in self.scopes:
            return True
        return mentioned and "im:message.group_at_msg:readonly" in self.scopes


def matched(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The address of the table that `path` is, and its parts by name."""
    for verb, pattern in APIS:
        if verb == method:
            found = re.fullmatch(re.sub(r":(\w+)", r"(?P<\1>[^/]+)", pattern), path)
            if found:
                return pattern, found.groupdict()
    return None
