"""From Feishu's events to what was said: pure.

open.feishu.cn/document/server-docs/im-v1/message/events/receive and …/message-content-description/message_content
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.feishu.people import Identity
from bot.following import Spoken

Body = Mapping[str, Any]

MESSAGE, RECALLED, CLICK = "im.message.receive_v1", "im.message.recalled_v1", "card.action.trigger"
COMMAND = re.compile(r"^[/／](kb|new|ask)\b\s*(.*)$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Heard:
    """One message by a person. `root` is the message that its topic or chain began with, "" for a first one;
    `to_other` when it addresses somebody else and not us."""

    app: str
    tenant: str
    chat: str
    message: str
    root: str
    parent: str
    thread: str
    user: str
    kind: str
    text: str
    direct: bool
    mentioned: bool
    to_other: bool
    sent_at: datetime
    files: tuple[Mapping[str, str], ...]

    @property
    def key(self) -> str:
        """The message's own identity, with the app's: two bots of one group hear the same message."""
        return f"{self.app}:{self.message}"

    @property
    def first(self) -> str:
        return self.root or self.message

    @property
    def conversation_id(self) -> str:
        return direct_conversation(self.user) if self.direct else f"feishu:{self.chat}:{self.first}"

    @property
    def author(self) -> str:
        return f"feishu:{self.user}"

    @property
    def spoken(self) -> Spoken:
        threaded = bool(self.root)
        return Spoken(self.conversation_id, self.author, self.direct, self.mentioned, threaded, self.to_other)

    @property
    def command(self) -> tuple[str, str] | None:
        """(kb, new or ask; what follows), where the message is a command."""
        found = COMMAND.match(self.text.strip())
        return (found.group(1).lower(), found.group(2).strip()) if found else None


def direct_conversation(user: str, session: str = "") -> str:
    return f"feishu:@{user}:{session or 'dm'}"


def type_of(body: Body) -> str:
    return str((body.get("header") or {}).get("event_type") or "")


def key_of(body: Body) -> str:
    """What happened, whatever is delivered again: messages by their id, everything else by the event's."""
    header, message = body.get("header") or {}, (body.get("event") or {}).get("message") or {}
    if type_of(body) == MESSAGE and message.get("message_id"):
        return f"{header.get('app_id', '')}:{message['message_id']}"
    return f"event:{header.get('event_id', '')}"


def lock_of(body: Body) -> str:
    """One chat's events are looked at in the order in which they came."""
    event = body.get("event") or {}
    return f"feishu_event:{event.get('chat_id') or (event.get('message') or {}).get('chat_id') or ''}"


def concerns_us(body: Body, bot: str) -> bool:
    """Whether an event is worth a row. With im:message.group_msg all that is said in a group arrives; what neither
    mentions us nor answers anything is left alone and not stored."""
    kind, event = type_of(body), body.get("event") or {}
    if kind == RECALLED:
        return True
    if kind != MESSAGE:
        return False
    message, sender = event.get("message") or {}, event.get("sender") or {}
    if sender.get("sender_type") != "user":
        return False
    if message.get("chat_type") == "p2p" or message.get("root_id") or message.get("parent_id"):
        return True
    if message.get("thread_id"):
        return True
    return mentions(message, bot)


def mentions(message: Mapping[str, Any], bot: str) -> bool:
    return any((m.get("id") or {}).get("open_id") == bot for m in message.get("mentions") or ())


def heard(body: Body, ours: Identity) -> Heard | None:
    """What a person said; None for programs, and for events that are no speech."""
    header, event = body.get("header") or {}, body.get("event") or {}
    message, sender = event.get("message") or {}, event.get("sender") or {}
    user = str((sender.get("sender_id") or {}).get("open_id") or "")
    if type_of(body) != MESSAGE or sender.get("sender_type") != "user" or not user or user == ours.open_id:
        return None
    kind = str(message.get("message_type") or "")
    content = unpacked(message.get("content"))
    named: Sequence[Mapping[str, Any]] = message.get("mentions") or ()
    mentioned = mentions(message, ours.open_id)
    return Heard(
        app=str(header.get("app_id") or ""),
        tenant=str(sender.get("tenant_key") or ""),
        chat=str(message["chat_id"]),
        message=str(message["message_id"]),
        root=str(message.get("root_id") or ""),
        parent=str(message.get("parent_id") or ""),
        thread=str(message.get("thread_id") or ""),
        user=user,
        kind=kind,
        text=words(kind, content, named, ours.open_id),
        direct=message.get("chat_type") == "p2p",
        mentioned=mentioned,
        to_other=bool(named) and not mentioned,
        sent_at=datetime.fromtimestamp(int(message.get("create_time") or 0) / 1_000, UTC),
        files=files(kind, content),
    )


def words(kind: str, content: Mapping[str, Any], named: Sequence[Mapping[str, Any]], bot: str) -> str:
    """The text of a message, our own mention left out and those of others by name."""
    if kind == "text":
        text = str(content.get("text") or "")
    elif kind == "post":
        text = _post(content)
    else:
        return ""
    for mention in named:
        ours = (mention.get("id") or {}).get("open_id") == bot
        text = re.sub(
            rf"{re.escape(str(mention['key']))}(?!\d)", "" if ours else f"@{mention.get('name', '')}", text
        )
    return re.sub(r"@_all\b", "", text).strip()


def words_in(item: Mapping[str, Any], bot: str) -> str:
    """The same of a message as the API returns it; nothing of one that a program wrote."""
    if (item.get("sender") or {}).get("sender_type") != "user":
        return ""
    named = [{**mention, "id": {"open_id": mention.get("id")}} for mention in item.get("mentions") or ()]
    content = unpacked((item.get("body") or {}).get("content"))
    return words(str(item.get("msg_type") or ""), content, named, bot)


def _post(content: Mapping[str, Any]) -> str:
    """A rich text's words; it comes bare, or by language."""
    found = (
        content if "content" in content else next((v for v in content.values() if isinstance(v, dict)), {})
    )
    lines = [
        "".join(
            str(run.get("text") or (run.get("user_id") if run.get("tag") == "at" else "") or "")
            for run in line
        )
        for line in found.get("content") or ()
    ]
    return "\n".join(filter(None, [str(found.get("title") or ""), *lines]))


def files(kind: str, content: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Of a file message. Its name is only here: downloads come without one."""
    if kind != "file" or not content.get("file_key"):
        return ()
    return ({"key": str(content["file_key"]), "name": str(content.get("file_name") or content["file_key"])},)


def unpacked(packed: Any) -> Mapping[str, Any]:
    """`content` is JSON in a string."""
    try:
        found = json.loads(packed or "{}")
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# --- clicks


@dataclass(frozen=True, slots=True)
class Clicked:
    """One use of a button or a form. `chat` and `message` are where its card stands."""

    event: str
    tenant: str
    user: str
    chat: str
    message: str
    value: Mapping[str, Any]
    form: Mapping[str, str]

    @property
    def principal(self) -> str:
        return f"feishu:{self.user}"

    @property
    def do(self) -> str:
        return str(self.value.get("do") or "")


def clicked(body: Body) -> Clicked:
    """Fields that are missing or of another shape are empty: whoever clicked gets an answer in any case."""
    event = body.get("event") or {}
    operator, action, context = (event.get(key) or {} for key in ("operator", "action", "context"))
    value, form = action.get("value"), action.get("form_value")
    return Clicked(
        event=str((body.get("header") or {}).get("event_id") or ""),
        tenant=str(operator.get("tenant_key") or ""),
        user=str(operator.get("open_id") or ""),
        chat=str(context.get("open_chat_id") or ""),
        message=str(context.get("open_message_id") or ""),
        value=value if isinstance(value, Mapping) else {},
        form={str(k): str(v or "") for k, v in form.items()} if isinstance(form, Mapping) else {},
    )
