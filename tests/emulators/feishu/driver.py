"""The people of the tenant: they write, recall, click and fill in, and only what they can see.

Each step builds the event that Feishu would send (https://open.feishu.cn/document/server-docs/im-v1/message/events,
/document/feishu-cards/card-callback-communication) and waits until it was acknowledged or given up.
"""

import base64
import json
from typing import Any

from tests.emulators.feishu import seen
from tests.emulators.feishu.delivery import Delivery, Parcel
from tests.emulators.feishu.limits import check_content, walk
from tests.emulators.feishu.permissions import Manifest
from tests.emulators.feishu.world import BOT, Chat, Json, Message, User, World

TOAST_SECONDS = 3.0


class NotPossible(Exception):
    """A person could not have done that: no such button, not in the chat, a field left empty."""


class Driver:
    """Every public coroutine is a step that a test may ask for by name."""

    def __init__(self, world: World, delivery: Delivery, manifest: Manifest) -> None:
        self.world, self.delivery, self.manifest = world, delivery, manifest

    # --- writing

    async def say(
        self,
        user: str,
        chat: str,
        text: str = "",
        mention: bool = False,
        reply_to: str = "",
        in_thread: bool = False,
        others: list[str] | None = None,
        file: str = "",
        post: list[list[Json]] | None = None,
        wait: bool = True,
        age: float = 0.0,
        bare_thread: bool = False,
        everybody: bool = False,
    ) -> Json:
        """Write a message. `reply_to` answers a message, `in_thread` inside its topic; `bare_thread`: the event leaves
        thread_id out, as Feishu often does on replies; `age` pretends it was written that many seconds ago."""
        person, place = self._inside(user, chat)
        mentions = [BOT] * mention + (others or [])
        named = [self._mention(number, who) for number, who in enumerate(mentions, 1)]
        kind, content = self._content(text, named, file, post, everybody)
        made = Message(
            self.world.fresh("om"),
            place.chat_id,
            user,
            kind,
            content,
            self.world.clock.now() - age,
            mentions=named,
        )
        self._place(made, place, reply_to, in_thread)
        self.world.put(made)
        parcel = self._announce(place, person, made, mention, bare_thread)
        if wait and parcel is not None:
            await parcel.done.wait()
        return {"id": made.message_id, "thread_id": made.thread_id, "heard": parcel is not None}

    def _content(
        self, text: str, named: list[Json], file: str, post: list[list[Json]] | None, everybody: bool
    ) -> tuple[str, Json]:
        if file:
            return "file", {"file_key": file, "file_name": self.world.files[file]["name"]}
        keys = " ".join(m["key"] for m in named)
        if post is not None:
            head = [{"tag": "at", "user_id": m["key"], "user_name": m["name"]} for m in named]
            return "post", {"title": "", "content": [[*head, *post[0]], *post[1:]]}
        return "text", {"text": f"{'@_all ' * everybody}{keys} {text}".strip()}

    def _place(self, made: Message, place: Chat, reply_to: str, in_thread: bool) -> None:
        if not reply_to:
            made.thread_id = self.world.fresh("omt") if place.mode == "topic" else ""
            return
        parent = self.world.messages.get(reply_to)
        if parent is None or parent.chat_id != place.chat_id or parent.recalled:
            raise NotPossible(f"{reply_to} is not there to be answered")
        root = self.world.root(parent)
        made.root_id, made.parent_id = root.message_id, parent.message_id
        if in_thread or place.mode == "topic" or parent.thread_id:
            root.thread_id = root.thread_id or self.world.fresh("omt")
            made.thread_id = root.thread_id

    def _mention(self, number: int, who: str) -> Json:
        person = self.world.users[who]
        kind = "bot" if person.app else "user"
        return {
            "key": f"@_user_{number}",
            "id": person.ids(),
            "name": person.name,
            "tenant_key": person.tenant_key,
            "mentioned_type": kind,
        }

    def _announce(
        self, place: Chat, person: User, made: Message, mention: bool, bare_thread: bool
    ) -> Parcel | None:
        if BOT not in place.members or not self.manifest.hears(p2p=place.mode == "p2p", mentioned=mention):
            return None
        event = {
            "sender": {
                "sender_id": person.ids(),
                "sender_type": "app" if person.app else "user",
                "tenant_key": person.tenant_key,
            },
            "message": {
                "message_id": made.message_id,
                "create_time": str(int(made.at * 1_000)),
                "update_time": str(int(made.at * 1_000)),
                "chat_id": made.chat_id,
                "chat_type": "p2p" if place.mode == "p2p" else "group",
                "message_type": made.msg_type,
                "content": json.dumps(made.content, ensure_ascii=False),
                **({"root_id": made.root_id, "parent_id": made.parent_id} if made.root_id else {}),
                **({"thread_id": made.thread_id} if made.thread_id and not bare_thread else {}),
                **({"mentions": made.mentions} if made.mentions else {}),
            },
        }
        return self.delivery.send("event", self.delivery.body("im.message.receive_v1", event))

    async def recall(self, user: str, message: str) -> Json:
        found = self.world.messages[message]
        if found.sender != user:
            raise NotPossible(f"{user} did not write {message}")
        found.recalled = True
        if "im.message.recalled_v1" not in self.manifest.events:
            return {"heard": False}
        event = {
            "message_id": message,
            "chat_id": found.chat_id,
            "recall_time": str(int(self.world.clock.now() * 1_000)),
            "recall_type": "message_owner",
        }
        await self.delivery.send("event", self.delivery.body("im.message.recalled_v1", event)).done.wait()
        return {"heard": True}

    async def upload(self, user: str, name: str, data: str, kind: str = "file") -> Json:
        key = self.world.fresh("file_v3")
        self.world.files[key] = {"key": key, "name": name, "type": kind, "by": user}
        self.world.contents[key] = base64.b64decode(data)
        return {"file": key}

    async def other_event(self, event_type: str, event: Json) -> Json:
        """An event that nobody asked for: read, reaction, bot added, menu …"""
        parcel = self.delivery.send("event", self.delivery.body(event_type, event))
        await parcel.done.wait()
        return parcel.public()

    async def react(self, user: str, message: str, emoji: str) -> Json:
        """Put an emoji on a message. The manifest subscribes to no event about it."""
        person, found = self._visible(user, message)
        reaction = {"reaction_id": self.world.fresh("r"), "emoji_type": emoji, "operator": person.open_id}
        found.reactions.append(reaction)
        return {}

    # --- looking

    async def see(self, user: str, chat: str) -> list[Json]:
        person, place = self._inside(user, chat)
        return [self._seen(person, m) for m in self.world.of_chat(place.chat_id)]

    def _seen(self, person: User, message: Message) -> Json:
        content = {} if message.recalled else self.world.content(message)
        text = "" if message.recalled else seen.words(message.msg_type, content)
        return {
            "id": message.message_id,
            "root": message.root_id,
            "parent": message.parent_id,
            "thread_id": message.thread_id,
            "by": message.sender,
            "type": message.msg_type,
            "text": text,
            "buttons": [seen.name_of(b) for b in seen.buttons(content)],
            "reactions": [r["emoji_type"] for r in message.reactions],
            "recalled": message.recalled,
        }

    async def toasts(self, user: str) -> list[Json]:
        return [toast for toast in self.world.toasts if toast["user"] == user]

    # --- clicking

    async def click(self, user: str, message: str, button: str, number: int = 0, wait: bool = True) -> Json:
        """Use a button by its callback's name ("approve"); `number` where several have the same."""
        person, found = self._visible(user, message)
        content = self.world.content(found)
        there = [b for b in seen.buttons(content) if seen.name_of(b) == button]
        if len(there) <= number:
            raise NotPossible(f"no button {button!r} in {[seen.name_of(b) for b in seen.buttons(content)]}")
        value = next(b["value"] for b in there[number]["behaviors"] if b["type"] == "callback")
        return await self._call(person, found, {"tag": "button", "value": value, "name": ""}, wait)

    async def press(self, user: str, message: str, value: Any, wait: bool = True) -> Json:
        """A click on a button that was there when the person looked: `value` is what it carried."""
        person, found = self._visible(user, message)
        return await self._call(person, found, {"tag": "button", "value": value, "name": ""}, wait)

    async def form(self, user: str, message: str) -> Json | None:
        """The form of a card as this person has it in front of them."""
        _, found = self._visible(user, message)
        content = self.world.content(found)
        there = seen.form(content)
        if there is None:
            return None
        fields = seen.fields(there)
        return {
            "fields": list(fields),
            "text": seen.words("interactive", content),
            "defaults": {
                name: e.get("default_value", e.get("initial_option", "")) for name, e in fields.items()
            },
            "options": {
                n: [o["value"] for o in e["options"]]
                for n, e in fields.items()
                if e["tag"] == "select_static"
            },
        }

    async def submit(self, user: str, message: str, values: Json) -> Json:
        """Fill a card's form in and send it; what is not named keeps its default."""
        person, found = self._visible(user, message)
        there = seen.form(self.world.content(found))
        if there is None:
            raise NotPossible("there is no form")
        fields = seen.fields(there)
        if set(values) - set(fields):
            raise NotPossible(f"no field {set(values) - set(fields)} in {list(fields)}")
        filled: Json = {}
        for name, element in fields.items():
            value = str(values.get(name, element.get("default_value", element.get("initial_option", ""))))
            if len(value) > element.get("max_length", 1_000):
                raise NotPossible(f"{name} holds {element.get('max_length', 1_000)} characters")
            options = [option["value"] for option in element.get("options", [])]
            if (element.get("required") and not value) or (value and options and value not in options):
                raise NotPossible(f"{name} cannot be {value!r}")
            filled[name] = value
        button = next(e for e in walk(there) if e.get("form_action_type") == "submit")
        callback: Json = next(
            (b["value"] for b in button.get("behaviors", []) if b["type"] == "callback"), {}
        )
        action = {"tag": "button", "value": callback, "name": button["name"], "form_value": filled}
        return await self._call(person, found, action, True)

    async def _call(self, person: User, found: Message, action: Json, wait: bool) -> Json:
        if "card.action.trigger" not in self.manifest.callbacks:
            self.world.toasts.append({"user": person.open_id, "type": "error", "content": "200340"})
            return {"acked": False, "error": 200340, "toast": "200340"}
        token = f"c-{self.world.fresh('t')}"
        self.world.card_tokens[token] = {
            "message_id": found.message_id, "at": self.world.clock.now(), "uses": 0, "answered": False,
        }  # fmt: skip
        event = {
            "operator": {"tenant_key": person.tenant_key, **person.ids()},
            "token": token,
            "action": action,
            "host": "im_message",
            "context": {"open_message_id": found.message_id, "open_chat_id": found.chat_id},
        }
        parcel = self.delivery.send("click", self.delivery.body("card.action.trigger", event))
        if not wait:
            return {"token": token}
        await parcel.done.wait()
        self.world.card_tokens[token]["answered"] = True
        toast = self._answered(person, found, parcel)
        return {"acked": parcel.acked, "toast": toast, "after": parcel.acked_after, "token": token}

    def _answered(self, person: User, found: Message, parcel: Parcel) -> str:
        """What the clicker sees of the answer. Card and toast are checked as the client checks them."""
        answer = parcel.response or {}
        if not parcel.acked or set(answer) - {"toast", "card"}:
            self.world.toasts.append({"user": person.open_id, "type": "error", "content": "200672"})
            return "200672"
        toast = answer.get("toast")
        if toast:
            if toast.get("type") not in ("info", "success", "error", "warning") or not toast.get("content"):
                raise NotPossible(f"200671: {toast}")
            self.world.toasts.append({"user": person.open_id, **toast, "after": parcel.acked_after})
        card = answer.get("card")
        if card:
            check_content("interactive", card["data"])
            found.content = card["data"]
        return str((toast or {}).get("content", ""))

    def _visible(self, user: str, message: str) -> tuple[User, Message]:
        found = self.world.messages.get(message)
        if found is None or found.recalled:
            raise NotPossible(f"{message} is not there")
        person, _ = self._inside(user, found.chat_id)
        return person, found

    def _inside(self, user: str, chat: str) -> tuple[User, Chat]:
        person = self.world.users[user]
        place = self.world.p2p(user) if chat == "direct" else self.world.chats.get(chat)
        if place is None or user not in place.members:
            raise NotPossible(f"{user} is not in {chat}")
        return person, place
