"""The open platform's addresses: each a function of (world, manifest, call) that changes the world and answers its
`data`, or raises `Refused` with the platform's code.

https://open.feishu.cn/document/server-docs/im-v1/message, /document/cardkit-v1, /document/server-docs/contact-v3
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.emulators.feishu.limits import Refused, check_card, check_content, walk
from tests.emulators.feishu.permissions import EMAILS, NAMES, Manifest
from tests.emulators.feishu.world import (
    BOT,
    CARD_SECONDS,
    IDEMPOTENT_SECONDS,
    STREAM_SECONDS,
    TENANT,
    Card,
    Chat,
    Json,
    Message,
    World,
)

UUID_LETTERS = 50
DELAYED_SECONDS, DELAYED_USES = 30 * 60, 2  # of a callback's token
CONTENT_LETTERS = 100_000
PAGE = 100


@dataclass
class Call:
    """One request: the parts of its path, its query and its body (JSON, or the fields of a form)."""

    path: dict[str, str]
    query: dict[str, str]
    body: Json
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Rules:
    """What a test may turn: how many tables a card bears."""

    tables: int = 5


class Api:
    def __init__(self, world: World, manifest: Manifest, rules: Rules) -> None:
        self.world, self.manifest, self.rules = world, manifest, rules
        self.table: dict[tuple[str, str], Callable[[Call], Json]] = {
            ("GET", "/open-apis/tenant/v2/tenant/query"): self.tenant,
            ("GET", "/open-apis/application/v6/scopes"): self.scopes,
            ("POST", "/open-apis/im/v1/messages"): self.create,
            ("POST", "/open-apis/im/v1/messages/:message_id/reply"): self.reply,
            ("GET", "/open-apis/im/v1/messages/:message_id"): self.get,
            ("PATCH", "/open-apis/im/v1/messages/:message_id"): self.patch,
            ("PUT", "/open-apis/im/v1/messages/:message_id"): self.put,
            ("POST", "/open-apis/im/v1/messages/:message_id/reactions"): self.react,
            ("GET", "/open-apis/im/v1/messages/:message_id/reactions"): self.reactions,
            ("DELETE", "/open-apis/im/v1/messages/:message_id/reactions/:reaction_id"): self.unreact,
            ("POST", "/open-apis/im/v1/files"): self.upload,
            ("GET", "/open-apis/im/v1/chats/:chat_id"): self.chat,
            ("GET", "/open-apis/im/v1/chats/:chat_id/members"): self.members,
            ("GET", "/open-apis/contact/v3/users/:user_id"): self.user,
            ("POST", "/open-apis/cardkit/v1/cards"): self.create_card,
            ("PUT", "/open-apis/cardkit/v1/cards/:card_id"): self.update_card,
            ("PATCH", "/open-apis/cardkit/v1/cards/:card_id/settings"): self.set_card,
            ("PUT", "/open-apis/cardkit/v1/cards/:card_id/elements/:element_id/content"): self.stream,
            ("POST", "/open-apis/interactive/v1/card/update"): self.delayed,
        }

    # --- who and where

    def tenant(self, call: Call) -> Json:
        return {"tenant": {"name": "Sign", "tenant_key": TENANT, "display_id": "F0"}}

    def scopes(self, call: Call) -> Json:
        granted = [
            {"scope_name": s, "grant_status": 1, "scope_type": "tenant"} for s in sorted(self.manifest.scopes)
        ]
        return {"scopes": granted}

    def user(self, call: Call) -> Json:
        found = self.world.users.get(call.path["user_id"])
        if found is None or found.tenant_key != TENANT or found.app:
            raise Refused(41050, "no user authority error")
        shown: Json = {
            **found.ids(),
            "status": {"is_frozen": False, "is_resigned": False, "is_activated": True},
        }
        if NAMES in self.manifest.scopes:
            shown |= {"name": found.name, "en_name": found.name}
        if EMAILS in self.manifest.scopes:
            shown |= {"email": "", "enterprise_email": found.email}
        return {"user": shown}

    def chat(self, call: Call) -> Json:
        chat = self._inside(call.path["chat_id"], 232011)
        return {
            "name": chat.name,
            "chat_mode": chat.mode,
            "chat_type": "public" if chat.public else "private",
            "external": chat.external,
            "tenant_key": TENANT,
        }

    def members(self, call: Call) -> Json:
        chat = self._inside(call.path["chat_id"], 232011)
        people = sorted(m for m in chat.members if not self.world.users[m].app)
        size, at = min(int(call.query.get("page_size", 20)), PAGE), int(call.query.get("page_token") or 0)
        items = [
            {
                "member_id_type": "open_id",
                "member_id": m,
                "name": self.world.users[m].name,
                "tenant_key": self.world.users[m].tenant_key,
            }
            for m in people[at : at + size]
        ]
        more = at + size < len(people)
        return {"items": items, "has_more": more, "page_token": str(at + size) if more else ""}

    def _inside(self, chat_id: str, code: int) -> Chat:
        chat = self.world.chats.get(chat_id)
        if chat is None or BOT not in chat.members:
            raise Refused(code, "Bot/User can NOT be out of the chat.")
        return chat

    # --- messages

    def create(self, call: Call) -> Json:
        kind, receiver = call.query.get("receive_id_type"), str(call.body.get("receive_id", ""))
        if kind == "open_id":
            if receiver not in self.world.users or receiver in self.world.unavailable:
                raise Refused(230013, "Bot has NO availability to this user.")
            if self.world.users[receiver].tenant_key != TENANT:
                raise Refused(230013, "Bot has NO availability to this user.")
            chat = self.world.p2p(receiver)
        elif kind == "chat_id":
            chat = self._inside(receiver, 230002)
        else:
            raise Refused(99992402, "field validation failed: receive_id_type")
        made = self._made(call.body, chat)
        if chat.mode == "topic" and not made.thread_id:
            made.thread_id = self.world.fresh("omt")  # a new topic
        return self._message(made)

    def reply(self, call: Call) -> Json:
        parent = self._known(call.path["message_id"])
        chat = self._inside(parent.chat_id, 230002)
        if parent.recalled:
            raise Refused(230011, "The message was recalled.")
        if call.body.get("reply_in_thread") and chat.mode == "group" and not chat.threads:
            raise Refused(230071, "This chat does not support reply in thread.")
        made = self._made(call.body, chat)
        if made.root_id:
            return self._message(made)  # the same uuid again
        root = self.world.root(parent)
        made.root_id, made.parent_id = root.message_id, parent.message_id
        if call.body.get("reply_in_thread") or chat.mode == "topic" or parent.thread_id:
            root.thread_id = root.thread_id or self.world.fresh("omt")
            made.thread_id = root.thread_id
        return self._message(made)

    def get(self, call: Call) -> Json:
        found = self._known(call.path["message_id"])
        self._inside(found.chat_id, 230002)
        return {"items": [self._message(found)]}

    def patch(self, call: Call) -> Json:
        found = self._own(call.path["message_id"])
        content = _packed(call.body.get("content"))
        if found.msg_type != "interactive":
            raise Refused(230001, "This message is NOT a card.")
        if found.card_id:
            raise Refused(230099, "a card entity is changed by cardkit")
        if self.world.clock.now() - found.at > CARD_SECONDS:
            raise Refused(230031, "The message is too old to be updated.")
        for card in (found.content, content):
            if not card.get("config", {}).get("update_multi"):
                raise Refused(230099, "update_multi must be true before and after")
        check_content("interactive", content, self.rules.tables)
        found.content, found.updated_at = content, self.world.clock.now()
        return {}

    def put(self, call: Call) -> Json:
        found = self._own(call.path["message_id"])
        if found.msg_type not in ("text", "post"):
            raise Refused(
                230001, "Your request contains an invalid request parameter: msg_type"
            )  # hermes#8162
        content = _packed(call.body.get("content"))
        check_content(found.msg_type, content)
        found.content, found.updated_at = content, self.world.clock.now()
        return self._message(found)

    def react(self, call: Call) -> Json:
        found = self._known(call.path["message_id"])
        if found.recalled:
            raise Refused(231003, "The message is not found or was recalled.")
        kind = call.body.get("reaction_type", {}).get("emoji_type")
        if not kind:
            raise Refused(231001, "reaction type is invalid")
        reaction = {"reaction_id": self.world.fresh("r"), "emoji_type": kind, "operator": BOT}
        found.reactions.append(reaction)
        return {"reaction_id": reaction["reaction_id"], "reaction_type": {"emoji_type": kind}}

    def reactions(self, call: Call) -> Json:
        found = self._known(call.path["message_id"])
        if found.recalled:
            raise Refused(231003, "The message is not found or was recalled.")
        size, start = int(call.query.get("page_size") or 20), int(call.query.get("page_token") or 0)
        if not 1 <= size <= 50:
            raise Refused(231012, "page_size")
        items = [
            {
                "reaction_id": r["reaction_id"],
                "operator": {
                    "operator_id": r["operator"],
                    "operator_type": "app" if r["operator"] == BOT else "user",
                },
                "reaction_type": {"emoji_type": r["emoji_type"]},
            }
            for r in found.reactions[start : start + size]
        ]
        more = start + size < len(found.reactions)
        return {"items": items, "has_more": more, "page_token": str(start + size) if more else ""}

    def unreact(self, call: Call) -> Json:
        found = self._known(call.path["message_id"])
        kept = [r for r in found.reactions if r["reaction_id"] != call.path["reaction_id"]]
        if len(kept) == len(found.reactions):
            raise Refused(231007, "no such reaction")
        found.reactions = kept
        return {}

    def upload(self, call: Call) -> Json:
        data = call.files.get("file", b"")
        if not data:
            raise Refused(234010, "File's size can't be 0.")
        if len(data) > 30 * 2**20:
            raise Refused(234006, "The file size exceed the max value.")
        key = self.world.fresh("file_v3")
        self.world.files[key] = {"key": key, "name": str(call.body.get("file_name", "")), "type": "file"}
        self.world.contents[key] = data
        return {"file_key": key}

    def _made(self, body: Json, chat: Chat) -> Message:
        """A new message of ours; the one that is there where the uuid was used within the hour."""
        identity, now = str(body.get("uuid") or ""), self.world.clock.now()
        if len(identity) > UUID_LETTERS:
            raise Refused(99992402, "field validation failed: uuid")
        for known in self.world.messages.values():
            if identity and known.uuid == identity and now - known.at < IDEMPOTENT_SECONDS:
                return known
        content, kind = _packed(body.get("content")), str(body.get("msg_type"))
        check_content(kind, content, self.rules.tables)
        card_id = content.get("data", {}).get("card_id", "") if content.get("type") == "card" else ""
        if card_id:
            card = self.world.cards.get(card_id)
            if card is None or card.sent:
                raise Refused(
                    230099, "Failed to create card content, ext=ErrCode: 200740; ErrMsg: card sent before"
                )
            card.sent = True
        if kind == "file" and content["file_key"] not in self.world.files:
            raise Refused(230001, "file_key")
        made = Message(
            self.world.fresh("om"), chat.chat_id, BOT, kind, content, now, card_id=card_id, uuid=identity
        )
        return self.world.put(made)

    def _known(self, message_id: str) -> Message:
        if not message_id.startswith("om_"):
            raise Refused(99992354, f"The request you send is not a valid {{message_id}}: {message_id}")
        found = self.world.messages.get(message_id)
        if found is None:
            raise Refused(230001, "message not found")
        return found

    def _own(self, message_id: str) -> Message:
        found = self._known(message_id)
        if found.sender != BOT:
            raise Refused(230071 if found.recalled else 230027, "not the sender")
        if found.recalled:
            raise Refused(230011, "The message was recalled.")
        return found

    def _message(self, found: Message) -> Json:
        return {
            "message_id": found.message_id,
            "root_id": found.root_id,
            "parent_id": found.parent_id,
            "thread_id": found.thread_id,
            "msg_type": found.msg_type,
            "chat_id": found.chat_id,
            "create_time": str(int(found.at * 1_000)),
            "deleted": found.recalled,
            "updated": bool(found.updated_at),
            "sender": {
                "id": found.sender,
                "id_type": "app_id" if self.world.users[found.sender].app else "open_id",
                "sender_type": "app" if self.world.users[found.sender].app else "user",
                "tenant_key": self.world.users[found.sender].tenant_key,
            },
            "body": {"content": json.dumps(found.content, ensure_ascii=False)},
            # Here an id is a text; in events it is an object.
            "mentions": [{**m, "id": m["id"]["open_id"], "id_type": "open_id"} for m in found.mentions],
        }

    # --- card entities

    def create_card(self, call: Call) -> Json:
        if call.body.get("type") != "card_json":
            raise Refused(10002, "type")
        content = _packed(call.body.get("data"))
        try:
            check_card(content, self.rules.tables)
        except Refused as refused:
            raise Refused(300301, refused.message) from None
        card = Card(self.world.fresh("card")[:20], content, self.world.clock.now())
        if content.get("config", {}).get("streaming_mode"):
            card.streaming_since = card.at
        self.world.cards[card.card_id] = card
        return {"card_id": card.card_id}

    def update_card(self, call: Call) -> Json:
        card = self._card(call)
        wanted = call.body.get("card", {})
        content = _packed(wanted.get("data"))
        try:
            check_card(content, self.rules.tables)
        except Refused as refused:
            raise Refused(300301, refused.message) from None
        card.content = content
        card.streaming_since = (
            self.world.clock.now() if content.get("config", {}).get("streaming_mode") else None
        )
        return {}

    def set_card(self, call: Call) -> Json:
        card = self._card(call)
        config = _packed(call.body.get("settings")).get("config", {})
        card.content = {**card.content, "config": {**card.content.get("config", {}), **config}}
        if config.get("streaming_mode") is False:
            card.streaming_since = None
        return {}

    def stream(self, call: Call) -> Json:
        card = self._card(call)
        if card.streaming_since is None:
            raise Refused(300309, "streaming mode is closed")
        if self.world.clock.now() - card.streaming_since > STREAM_SECONDS:
            card.streaming_since = None
            raise Refused(200850, "card streaming timeout")
        text = call.body.get("content")
        if not isinstance(text, str) or not 1 <= len(text) <= CONTENT_LETTERS:
            raise Refused(300302, "content")
        for element in walk(card.content):
            if element.get("element_id") == call.path["element_id"] and element["tag"] in (
                "markdown",
                "plain_text",
            ):
                element["content"] = text
                card.history.append(text)
                return {}
        raise Refused(300313, "no such element")

    def _card(self, call: Call) -> Card:
        card = self.world.cards.get(call.path["card_id"])
        if card is None:
            raise Refused(200740, "no such card")
        if self.world.clock.now() - card.at > CARD_SECONDS:
            raise Refused(200750, "card is expired")
        identity = str(call.body.get("uuid") or "")
        sequence = call.body.get("sequence")
        if not isinstance(sequence, int) or isinstance(sequence, bool):
            raise Refused(99992402, "field validation failed: sequence")
        if sequence <= card.sequence:
            raise Refused(300317, "sequence must be greater than the last one")
        card.sequence = sequence
        if identity:
            card.uuids.add(identity)
        card.content = copy.deepcopy(card.content)
        return card

    def delayed(self, call: Call) -> Json:
        """Must come after the callback was answered, or that answer takes it back."""
        known = self.world.card_tokens.get(str(call.body.get("token")))
        now = self.world.clock.now()
        if known is None or now - known["at"] > DELAYED_SECONDS or known["uses"] >= DELAYED_USES:
            raise Refused(11310 if known is None else 230099, "token expired")
        known["uses"] += 1
        found = self.world.messages[known["message_id"]]
        content = call.body.get("card", {})
        check_content("interactive", content, self.rules.tables)
        if known["answered"]:
            found.content = content
        return {}


def _packed(value: Any) -> Json:
    """`content` is JSON in a string."""
    if not isinstance(value, str):
        raise Refused(230001, "content is no string")
    try:
        found = json.loads(value)
    except ValueError:
        raise Refused(230001, "content is no JSON") from None
    if not isinstance(found, dict):
        raise Refused(230001, "content is no object")
    return found
