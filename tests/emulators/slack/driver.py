"""The people of the workspace: they write, edit, click and submit, and only what they can see.

Each step builds the payload that Slack would send (https://docs.slack.dev/reference/events,
/reference/interaction-payloads) and waits until it was acknowledged or given up.
"""

import asyncio
import base64
import re
import uuid
from typing import Any

from tests.emulators.slack import seen
from tests.emulators.slack.delivery import Delivery, Parcel
from tests.emulators.slack.limits import check_view
from tests.emulators.slack.scopes import MESSAGE_EVENT, Manifest
from tests.emulators.slack.web_api import add_file, store_view
from tests.emulators.slack.world import APP, BOT, BOT_USER, TEAM, Channel, Json, User, World

TOKEN = "verification_token"  # deprecated by Slack and ignored by everybody, but it is in every payload
MARKUP = re.compile(r"(<[@#!][^<>]*>)")


class NotPossible(Exception):
    """A person could not have done that: no such button, not in the channel, a field left empty."""


class Driver:
    """Every public coroutine is a step that a test may ask for by name."""

    def __init__(self, world: World, delivery: Delivery, manifest: Manifest) -> None:
        self.world, self.delivery, self.manifest = world, delivery, manifest

    # --- writing

    async def say(
        self,
        user: str,
        channel: str,
        text: str,
        thread: str | None = None,
        broadcast: bool = False,
        files: list[str] | None = None,
        attachments: list[Json] | None = None,
        wait: bool = True,
        age: float = 0.0,
        only: str = "",
    ) -> Json:
        """Write a message. `age` pretends that it was written so many seconds ago, `only` that Slack sends one of
        the two events of a mention (some Enterprise Grid installations do). Returns its ts."""
        person, place = self._inside(user, channel)
        message: Json = {
            "client_msg_id": str(uuid.uuid4()),
            "user": user,
            "text": encode(text),
            "team": person.team_id,
            "blocks": [_typed(text)],
        }
        if thread:
            message["thread_ts"] = thread
        if broadcast:
            message |= {"subtype": "thread_broadcast", "root": dict(place.messages[thread or ""])}
        if files:
            message |= {
                "subtype": "file_share",
                "files": [self._shown(file) for file in files],
                "upload": False,
            }
        if attachments:
            message["attachments"] = attachments
        if person.is_bot:
            message |= {
                "bot_id": "B0OTHER",
                "app_id": "A0OTHER",
                "bot_profile": {"id": "B0OTHER", "app_id": "A0OTHER"},
            }
        if age:
            message["ts"] = f"{self.world.clock.now() - age:.6f}"
        stored = self.world.put(place, message)
        parcels = self._announce(place, person, stored, only)
        if wait:
            await _all(parcels)
        return {"ts": stored["ts"], "events": len(parcels)}

    def _announce(self, place: Channel, person: User, message: Json, only: str = "") -> list[Parcel]:
        parcels = []
        event = {**message, "event_ts": message["ts"]}
        if person.team_id != TEAM:
            event |= {"user_team": person.team_id, "source_team": person.team_id}
        kind = {"public": "channel", "private": "group"}.get(place.kind, place.kind)
        if self._hears(MESSAGE_EVENT[place.kind], place) and only != "app_mention":
            parcels.append(self._event({**event, "channel_type": kind}, place))
        mentioned = f"<@{BOT_USER}>" in message.get("text", "") and message.get("user") != BOT_USER
        if place.kind != "im" and mentioned and self._hears("app_mention", place) and only != "message":
            event = {key: value for key, value in event.items() if key not in ("subtype", "root")}
            parcels.append(self._event({**event, "type": "app_mention"}, place))
        self.world.random.shuffle(parcels)
        return parcels

    def _hears(self, event: str, place: Channel) -> bool:
        return self.manifest.delivers(event) and BOT_USER in place.members

    async def edit(self, user: str, channel: str, ts: str, text: str) -> Json:
        """Change one's own message; an unchanged text is what an unfurled link looks like."""
        _, place = self._inside(user, channel)
        message = place.messages[ts]
        if message["user"] != user:
            raise NotPossible(f"{user} did not write {ts}")
        before = dict(message)
        message |= {"text": encode(text), "edited": {"user": user, "ts": self.world.clock.ts()}}
        await _all(self.changed(place, before, message))
        return {"edited": message["edited"]["ts"]}

    def changed(self, place: Channel, before: Json, message: Json) -> list[Parcel]:
        """Announce message_changed, for people's edits and for our own chat.update alike."""
        if not self._hears(MESSAGE_EVENT[place.kind], place):
            return []
        ts = self.world.clock.ts()
        kind = {"public": "channel", "private": "group"}.get(place.kind, place.kind)
        event = {
            "type": "message",
            "subtype": "message_changed",
            "message": dict(message),
            "previous_message": before,
            "channel": place.id,
            "hidden": True,
            "ts": ts,
            "event_ts": ts,
            "channel_type": kind,
        }
        return [self._event(event, place)]

    def posted(self, place: Channel, message: Json) -> list[Parcel]:
        """Announce our own message: the app hears itself."""
        return self._announce(place, self.world.users[BOT_USER], message)

    async def delete(self, user: str, channel: str, ts: str) -> Json:
        _, place = self._inside(user, channel)
        message = place.messages.pop(ts)
        moment = self.world.clock.ts()
        kind = {"public": "channel", "private": "group"}.get(place.kind, place.kind)
        event = {
            "type": "message",
            "subtype": "message_deleted",
            "previous_message": message,
            "channel": channel,
            "hidden": True,
            "deleted_ts": ts,
            "ts": moment,
            "event_ts": moment,
            "channel_type": kind,
        }
        if self._hears(MESSAGE_EVENT[place.kind], place):
            await _all([self._event(event, place)])
        return {}

    async def event(self, event: Json, channel: str = "C0GEN") -> Json:
        """Send any event at all, such as a subtype nobody thought of."""
        parcel = self._event(event, self.world.channels[channel])
        await parcel.done.wait()
        return parcel.public()

    async def open_messages(self, user: str) -> Json:
        """Open the app's Messages tab (agent_view), or start an assistant thread (assistant_view)."""
        place = self.world.im(user)
        if self.manifest.agent == "assistant_view":
            root = self.world.put(
                place, {"user": BOT_USER, "bot_id": BOT, "text": "New chat", "blocks": [], "team": TEAM}
            )
            started = {
                "type": "assistant_thread_started",
                "assistant_thread": {
                    "user_id": user,
                    "context": {},
                    "channel_id": place.id,
                    "thread_ts": root["ts"],
                },
                "event_ts": root["ts"],
            }
            if self.manifest.delivers("assistant_thread_started"):
                await _all([self._event(started, place)])
            return {"channel": place.id, "thread": root["ts"]}
        opened = {"type": "app_home_opened", "user": user, "channel": place.id, "tab": "messages"}
        if self.manifest.delivers("app_home_opened"):
            await _all([self._event({**opened, "event_ts": self.world.clock.ts()}, place)])
        return {"channel": place.id}

    async def upload(
        self, user: str, name: str, data: str, external: str = "", stub: bool = False, times: int = 1
    ) -> Json:
        """Put a file (base64, that many `times` over) where a message or a file input can take it. Returns its id."""
        self._user(user)
        content = base64.b64decode(data) * times
        return {"file": add_file(self.world, user, name, content, external=external, stub=stub)["id"]}

    async def command(self, user: str, channel: str, command: str, text: str = "") -> Json:
        """Type a slash command into the main box; threads have none."""
        person, place = self._inside(user, channel)
        known = self.manifest.commands.get(command)
        if known is None or "commands" not in self.manifest.scopes:
            raise NotPossible(f"{command} is not a valid command")
        body = {
            "token": TOKEN,
            "team_id": person.team_id,
            "team_domain": "signoff",
            "channel_id": channel,
            "channel_name": place.name or "directmessage",
            "user_id": user,
            "user_name": person.name,
            "command": command,
            "text": encode(text) if known.get("should_escape") else text,
            "api_app_id": APP,
            "is_enterprise_install": "false",
            "response_url": self.world.response_url(user, channel),
            "trigger_id": self.world.trigger(user),
        }
        parcel = self.delivery.send("command", body)
        await parcel.done.wait()
        answer = parcel.response or {}
        if answer.get("text") or answer.get("blocks"):
            self.world.ephemerals.append(
                {
                    "ts": self.world.clock.ts(),
                    "channel": channel,
                    "to": user,
                    "user": BOT_USER,
                    "text": "",
                    **answer,
                }
            )
        return parcel.public()

    async def react(self, user: str, channel: str, ts: str, emoji: str) -> Json:
        """Put an emoji on a message. The manifest subscribes to no event about it."""
        self._inside(user, channel)
        message = self.world.message(channel, ts)
        if message is None:
            raise NotPossible("no such message")
        users = message.setdefault("reactions", {}).setdefault(emoji, [])
        if user not in users:
            users.append(user)
        return {}

    # --- looking and clicking

    async def see(self, user: str, channel: str) -> list[Json]:
        """What the person sees there: each message's words and the labels of what can be clicked."""
        place = self.world.place(channel)
        shown = self.world.visible(place.id, user) if place else []
        return [
            {
                "ts": message["ts"],
                "thread": message.get("thread_ts"),
                "by": message.get("user"),
                "text": seen.words(message),
                "ephemeral": "to" in message,
                "buttons": [seen.label(element) for _, element in seen.clickable(message)],
                "actions": [element.get("action_id") for _, element in seen.clickable(message)],
            }
            for message in shown
        ]

    async def click(
        self,
        user: str,
        channel: str,
        ts: str,
        button: str,
        pick: str = "",
        wait: bool = True,
        late: bool = False,
    ) -> Json:
        """Click what is on the message: `button` is an action id or a label, `pick` an option or "positive". `late`:
        the person's screen still shows what the message was when it last had that button."""
        person, place = self._inside(user, channel)
        message = next((m for m in self.world.visible(place.id, user) if m["ts"] == ts), None)
        if message is None:
            raise NotPossible(f"{user} sees no message {ts} in {channel}")
        if late:
            message = self._as_it_was(place.id, ts, button, user)
        block, element = _find(message, button, user)
        container = {
            "type": "message",
            "message_ts": ts,
            "channel_id": place.id,
            "is_ephemeral": "to" in message,
        }
        body = self._interaction("block_actions", person) | {
            "container": container,
            "channel": {"id": place.id, "name": place.name or "directmessage"},
            "state": {"values": {}},
            "response_url": self.world.response_url(user, place.id, message),
            "actions": [self._acted(block, element, pick)],
        }
        if message.get("thread_ts"):
            body["container"]["thread_ts"] = message["thread_ts"]
        if "to" not in message:
            body["message"] = {key: value for key, value in message.items() if key != "streaming"}
        return await self._send(body, wait)

    def _as_it_was(self, channel: str, ts: str, button: str, user: str) -> Json:
        for before in reversed(self.world.earlier.get((channel, ts), [])):
            try:
                _find(before, button, user)
            except NotPossible:
                continue
            return before
        raise NotPossible(f"{ts} never had a button {button!r}")

    async def modal(self, user: str) -> Json | None:
        """The view on top of the person's screen, with its words; None when there is none."""
        stack = self.world.open_views.get(user, [])
        if not stack:
            return None
        view = self.world.views[stack[-1]]
        return {
            "id": view["id"],
            "title": view["title"]["text"],
            "text": seen.words(view),
            "inputs": [block["block_id"] for block in view["blocks"] if block["type"] == "input"],
            "buttons": [seen.label(element) for _, element in seen.clickable(view)],
            "submit": view.get("submit", {}).get("text"),
            "callback_id": view["callback_id"],
            "view": view,
        }

    async def click_modal(self, user: str, button: str, pick: str = "") -> Json:
        person, view = self._user(user), self._top(user)
        block, element = _find(view, button, user)
        body = self._interaction("block_actions", person) | {
            "container": {"type": "view", "view_id": view["id"]},
            "view": _bare(view),
            "actions": [self._acted(block, element, pick)],
        }
        return await self._send(body, True)

    async def submit(self, user: str, values: Json) -> Json:
        """Fill in and send the modal on top. `values` go by block id. The answer tells what became of it."""
        person, view = self._user(user), self._top(user)
        if "submit" not in view:
            raise NotPossible("this view has no submit button")
        view["state"] = {"values": self._filled(view, values)}
        body = self._interaction("view_submission", person) | {"view": _bare(view), "response_urls": []}
        result = await self._send(body, True)
        if result["acked"]:
            self._answered(user, view, result["response"] or {})
        return result

    async def close(self, user: str) -> Json:
        """Close the modal on top with its close button."""
        person, view = self._user(user), self._top(user)
        self.world.open_views[user].pop()
        if not view["notify_on_close"]:
            return {}
        body = self._interaction("view_closed", person) | {
            "view": _bare(view),
            "is_cleared": False,
            "response_urls": [],
        }
        return await self._send(body, True)

    # --- inside

    def _answered(self, user: str, view: Json, answer: Json) -> None:
        stack, action = self.world.open_views[user], answer.get("response_action")
        if action == "errors":
            unknown = set(answer["errors"]) - {block["block_id"] for block in view["blocks"]}
            if unknown:
                raise NotPossible(f"errors name blocks that do not exist: {unknown}")
        elif action in ("update", "push"):
            check_view(answer["view"])
            stored = store_view(self.world, answer["view"], user, view["id"] if action == "update" else None)
            if action == "push":
                stack.append(stored["id"])
        elif action == "clear":
            stack.clear()
        elif view["id"] in stack:
            stack.remove(view["id"])

    def _filled(self, view: Json, values: Json) -> Json:
        unknown = set(values) - {block["block_id"] for block in view["blocks"]}
        if unknown:
            raise NotPossible(f"the form has no field {unknown}")
        state: Json = {}
        for block in view["blocks"]:
            if block["type"] != "input":
                continue
            element = block["element"]
            given = values.get(block["block_id"], _initial(element))
            if given in (None, "", []) and not block.get("optional"):
                raise NotPossible(f"{block['label']['text']} is required")
            state[block["block_id"]] = {element["action_id"]: self._value(element, given)}
        return state

    def _value(self, element: Json, given: Any) -> Json:
        kind = element["type"]
        if kind in ("plain_text_input", "url_text_input"):
            if given and len(given) > element.get("max_length", 3_000):
                raise NotPossible("longer than the field takes")
            if kind == "url_text_input" and given and not re.match(r"https?://", given):
                raise NotPossible("not a web address")
            return {"type": kind, "value": given or None}
        if kind == "file_input":
            return {"type": kind, "files": [self._shown(file) for file in given or []]}
        if kind == "conversations_select":
            return {"type": kind, "selected_conversation": given or None}
        if kind == "checkboxes":
            return {"type": kind, "selected_options": [_option(element, one) for one in given or []]}
        return {"type": kind, "selected_option": _option(element, given) if given else None}

    def _acted(self, block: Json, element: Json, pick: str) -> Json:
        action: Json = {
            "type": element["type"],
            "action_id": element.get("action_id"),
            "block_id": block.get("block_id", "b"),
            "action_ts": self.world.clock.ts(),
        }
        if element["type"] == "button":
            return action | {"text": {"emoji": True, **element["text"]}, "value": element.get("value")}
        if element["type"] == "feedback_buttons":
            chosen = element[f"{pick}_button"]
            return action | {"text": chosen["text"], "value": chosen["value"]}
        if element["type"] == "conversations_select":
            return action | {"selected_conversation": pick}
        return action | {"selected_option": _option(element, pick)}

    def _interaction(self, kind: str, person: User) -> Json:
        return {
            "type": kind,
            "team": {"id": person.team_id, "domain": "signoff"},
            "user": {
                "id": person.id,
                "username": person.name,
                "name": person.name,
                "team_id": person.team_id,
            },
            "api_app_id": APP,
            "token": TOKEN,
            "trigger_id": self.world.trigger(person.id),
            "enterprise": None,
            "is_enterprise_install": False,
        }

    async def _send(self, body: Json, wait: bool) -> Json:
        if not self.manifest.interactive:
            raise NotPossible("interactivity is off in the manifest")
        parcel = self.delivery.send("interactive", body)
        if wait:
            await parcel.done.wait()
        return parcel.public()

    def _event(self, event: Json, place: Channel) -> Parcel:
        moment = self.world.clock.now()
        return self.delivery.send(
            "event",
            {
                "token": TOKEN,
                "team_id": TEAM,
                "context_team_id": TEAM,
                "context_enterprise_id": None,
                "api_app_id": APP,
                "event": event,
                "type": "event_callback",
                "event_id": f"Ev{uuid.uuid4().hex[:12].upper()}",
                "event_time": int(moment),
                "authorizations": [
                    {
                        "enterprise_id": None,
                        "team_id": TEAM,
                        "user_id": BOT_USER,
                        "is_bot": True,
                        "is_enterprise_install": False,
                    }
                ],
                "is_ext_shared_channel": place.is_ext_shared,
                "event_context": f"4-{uuid.uuid4().hex}",
            },
        )

    def _shown(self, file: str) -> Json:
        """A file as events and forms carry it; a Slack Connect stub tells nothing but its id."""
        known = self.world.files[file]
        if known["stub"]:
            return {"id": file, "mode": "file_access", "file_access": "check_file_info"}
        return {key: value for key, value in known.items() if key != "stub"}

    def _user(self, user: str) -> User:
        person = self.world.users.get(user)
        if person is None or person.deleted:
            raise NotPossible(f"{user} is nobody who could do that")
        return person

    def _inside(self, user: str, channel: str) -> tuple[User, Channel]:
        person, place = self._user(user), self.world.place(channel)
        if place is None or user not in place.members:
            raise NotPossible(f"{user} is not in {channel}")
        return person, place

    def _top(self, user: str) -> Json:
        stack = self.world.open_views.get(user, [])
        if not stack:
            raise NotPossible(f"{user} has no modal open")
        return self.world.views[stack[-1]]


def encode(text: str) -> str:
    """As Slack stores what people type: & < > escaped, mentions kept."""
    pieces = MARKUP.split(text)
    return "".join(
        piece
        if MARKUP.fullmatch(piece)
        else piece.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for piece in pieces
    )


def _typed(text: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text or " "}]}
    return {"type": "rich_text", "block_id": uuid.uuid4().hex[:5], "elements": [section]}


def _bare(view: Json) -> Json:
    return {key: value for key, value in view.items() if key != "user"}


def _find(rendered: Json, button: str, user: str) -> tuple[Json, Json]:
    for block, element in seen.clickable(rendered):
        shown = element.get("visible_to_user_ids")
        if button in (element.get("action_id"), seen.label(element)) and (not shown or user in shown):
            return block, element
    shown = [(element.get("action_id"), seen.label(element)) for _, element in seen.clickable(rendered)]
    raise NotPossible(f"no button {button!r} there; there are {shown}")


def _initial(element: Json) -> Any:
    if "initial_option" in element:
        return element["initial_option"]["value"]
    if "initial_options" in element:
        return [option["value"] for option in element["initial_options"]]
    return element.get("initial_value", element.get("initial_conversation"))


def _option(element: Json, value: str) -> Json:
    for option in element.get("options", []):
        if option["value"] == value:
            return dict(option)
    raise NotPossible(f"no option {value!r} there")


async def _all(parcels: list[Parcel]) -> None:
    await asyncio.gather(*(parcel.done.wait() for parcel in parcels))
