"""The Web API methods: what they check, what they change, what they answer.

One function a method, `(world, manifest, arguments) -> response`; it raises `Refused` with Slack's own error code.
The pages are https://docs.slack.dev/reference/methods/<method>.
"""

import html
from collections.abc import Callable
from urllib.parse import urlsplit

from tests.emulators.slack.limits import (
    MARKDOWN_CHARACTERS,
    MESSAGE_TYPES,
    TEXT_CHARACTERS,
    Refused,
    check_blocks,
    check_message,
    check_view,
)
from tests.emulators.slack.scopes import Manifest
from tests.emulators.slack.world import APP, BOT, BOT_USER, TEAM, Channel, Json, World

# The documentation names no number; 300 s was measured by several people (slackapi/python-slack-sdk#1859, #1880).
STREAM_SECONDS = 300.0
STATUS_SECONDS = 120.0

Method = Callable[[World, Manifest, Json], Json]
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    def register(function: Method) -> Method:
        METHODS[name] = function
        return function

    return register


# --- who and where


@method("auth.test")
def auth_test(world: World, manifest: Manifest, arguments: Json) -> Json:
    return {
        "url": "https://signoff.slack.com/",
        "team": "Signoff",
        "user": "signoff",
        "team_id": TEAM,
        "user_id": BOT_USER,
        "bot_id": BOT,
        "is_enterprise_install": False,
    }


@method("users.info")
def users_info(world: World, manifest: Manifest, arguments: Json) -> Json:
    user = world.users.get(arguments.get("user", ""))
    if user is None:
        raise Refused("user_not_found")
    shown = user.public()
    if "users:read.email" not in manifest.scopes:
        del shown["profile"]["email"]
    return {"user": shown}


@method("usergroups.users.list")
def usergroups_users_list(world: World, manifest: Manifest, arguments: Json) -> Json:
    if arguments.get("usergroup") not in world.groups:
        raise Refused("no_such_subteam")
    return {"users": world.groups[arguments["usergroup"]]}


@method("conversations.info")
def conversations_info(world: World, manifest: Manifest, arguments: Json) -> Json:
    return {"channel": _channel(world, manifest, "conversations.info", arguments).public()}


@method("conversations.members")
def conversations_members(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _channel(world, manifest, "conversations.members", arguments)
    members = sorted(channel.members)
    size, start = int(arguments.get("limit") or 100), int(arguments.get("cursor") or 0)
    after = str(start + size) if start + size < len(members) else ""
    return {"members": members[start : start + size], "response_metadata": {"next_cursor": after}}


@method("conversations.open")
def conversations_open(world: World, manifest: Manifest, arguments: Json) -> Json:
    user = world.users.get(str(arguments.get("users", "")))
    if user is None:
        raise Refused("user_not_found")
    return {"channel": {"id": world.im(user.id).id}}


@method("conversations.replies")
def conversations_replies(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _channel(world, manifest, "conversations.replies", arguments)
    _member(channel)
    found = world.thread(channel.id, str(arguments.get("ts", "")))
    if not found:
        raise Refused("thread_not_found")
    oldest = str(arguments.get("oldest") or "")
    found = [found[0], *(m for m in found[1:] if m["ts"] > oldest)]
    size, start = int(arguments.get("limit") or 1000), int(arguments.get("cursor") or 0)
    shown = found[start : start + size]
    if str(arguments.get("include_all_metadata", "")).lower() not in ("true", "1"):
        shown = [{key: value for key, value in m.items() if key != "metadata"} for m in shown]
    more = start + size < len(found)
    return {
        "messages": shown,
        "has_more": more,
        "response_metadata": {"next_cursor": str(start + size) if more else ""},
    }


@method("conversations.history")
def conversations_history(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _channel(world, manifest, "conversations.history", arguments)
    _member(channel)
    oldest = str(arguments.get("oldest") or "0")
    found = [
        m for m in channel.messages.values() if m.get("thread_ts", m["ts"]) == m["ts"] and m["ts"] > oldest
    ]
    found = sorted(found, key=lambda message: message["ts"], reverse=True)[
        : int(arguments.get("limit") or 100)
    ]
    if str(arguments.get("include_all_metadata", "")).lower() not in ("true", "1"):
        found = [{key: value for key, value in m.items() if key != "metadata"} for m in found]
    return {"messages": found, "has_more": False, "response_metadata": {"next_cursor": ""}}


def _channel(world: World, manifest: Manifest, name: str, arguments: Json) -> Channel:
    channel = world.channels.get(str(arguments.get("channel", "")))
    if channel is None:
        raise Refused("channel_not_found")
    missing = manifest.missing(name, channel.kind)
    if missing:
        raise Refused("missing_scope", needed=missing, provided=",".join(sorted(manifest.scopes)))
    if channel.kind != "public" and BOT_USER not in channel.members:
        raise Refused("channel_not_found")
    return channel


def _member(channel: Channel) -> None:
    if channel.is_archived:
        raise Refused("is_archived")
    if BOT_USER not in channel.members:
        raise Refused("not_in_channel")


# --- messages


def _target(world: World, arguments: Json) -> Channel:
    channel = world.place(str(arguments.get("channel", "")))
    if channel is None:
        raise Refused("channel_not_found")
    _member(channel)
    return channel


def _content(arguments: Json) -> Json:
    text = str(arguments.get("text") or "")[:TEXT_CHARACTERS]
    blocks = arguments.get("blocks")
    check_message(text, blocks)
    metadata = arguments.get("metadata")
    if metadata is not None and (
        not isinstance(metadata, dict)
        or not metadata.get("event_type")
        or not isinstance(metadata.get("event_payload"), dict)
    ):
        raise Refused("invalid_metadata_format")
    content: Json = {"text": text, "blocks": blocks or []}
    return content | ({"metadata": metadata} if metadata else {})


@method("chat.postMessage")
def chat_post_message(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _target(world, arguments)
    content = _content(arguments)
    parent = arguments.get("thread_ts")
    if parent:
        known = channel.messages.get(parent)
        if known is None:
            raise Refused("thread_not_found")
        if known.get("thread_ts", parent) != parent:
            raise Refused("cannot_reply_to_message")  # a reply's ts is no thread (facts: broken threads)
        content["thread_ts"] = parent
        if arguments.get("reply_broadcast"):
            content["subtype"] = "thread_broadcast"
    content["unfurl"] = bool(arguments.get("unfurl_links", True) or arguments.get("unfurl_media", True))
    message = world.put(channel, {"user": BOT_USER, "bot_id": BOT, "app_id": APP, "team": TEAM, **content})
    return {"channel": channel.id, "ts": message["ts"], "message": message}


@method("chat.postEphemeral")
def chat_post_ephemeral(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _target(world, arguments)
    user = str(arguments.get("user", ""))
    if user not in channel.members:
        raise Refused("user_not_in_channel")
    message = {
        **_content(arguments),
        "ts": world.clock.ts(),
        "channel": channel.id,
        "to": user,
        "user": BOT_USER,
    }
    message["thread_ts"] = arguments.get("thread_ts")
    world.ephemerals.append(message)
    return {"message_ts": message["ts"]}


@method("chat.update")
def chat_update(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _target(world, arguments)
    message = channel.messages.get(str(arguments.get("ts", "")))
    if message is None:
        raise Refused("message_not_found")
    if message["user"] != BOT_USER:
        raise Refused("cant_update_message")
    if message.get("streaming"):
        _close_late(world, message)
        if not message["streaming"]["closed"]:
            raise Refused("streaming_state_conflict")
    content = _content(arguments)
    world.earlier.setdefault((channel.id, message["ts"]), []).append(dict(message))
    message.update(content)
    message["edited"] = {"user": BOT_USER, "ts": world.clock.ts()}
    message.pop("streaming", None)
    return {"channel": channel.id, "ts": message["ts"], "text": message["text"], "message": message}


@method("chat.delete")
def chat_delete(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _target(world, arguments)
    message = channel.messages.get(str(arguments.get("ts", "")))
    if message is None:
        raise Refused("message_not_found")
    if message["user"] != BOT_USER:
        raise Refused("cant_delete_message")
    del channel.messages[message["ts"]]
    return {"channel": channel.id, "ts": message["ts"]}


@method("chat.getPermalink")
def chat_get_permalink(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel, ts = str(arguments.get("channel", "")), str(arguments.get("message_ts", ""))
    if world.message(channel, ts) is None:
        raise Refused("message_not_found")
    return {
        "channel": channel,
        "permalink": f"https://signoff.slack.com/archives/{channel}/p{ts.replace('.', '')}",
    }


@method("reactions.get")
def reactions_get(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel, ts = str(arguments.get("channel", "")), str(arguments.get("timestamp", ""))
    message = world.message(channel, ts)
    if message is None:
        raise Refused("message_not_found")
    # Without `full` Slack may leave people out of `users`.
    full = str(arguments.get("full", "")).lower() in ("true", "1")
    shown = [
        {"name": name, "count": len(users), "users": users if full else users[:1]}
        for name, users in message.get("reactions", {}).items()
    ]
    return {
        "type": "message",
        "channel": channel,
        "message": {"ts": ts, **({"reactions": shown} if shown else {})},
    }


# --- streams: https://docs.slack.dev/reference/methods/chat.startStream


@method("chat.startStream")
def chat_start_stream(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel = _target(world, arguments)
    parent = str(arguments.get("thread_ts") or "")
    if parent not in channel.messages:
        raise Refused("invalid_arguments", "thread_ts is required and must exist")
    if channel.kind != "im":
        for name in ("recipient_user_id", "recipient_team_id"):
            if not arguments.get(name):
                raise Refused(f"missing_{name}")
    message = world.put(
        channel,
        {
            "user": BOT_USER,
            "bot_id": BOT,
            "app_id": APP,
            "team": TEAM,
            "text": "",
            "blocks": [],
            "thread_ts": parent,
        },
    )
    message["streaming"] = {"touched": world.clock.now(), "closed": False, "tasks": {}}
    _append(message, arguments)
    return {"channel": channel.id, "ts": message["ts"]}


@method("chat.appendStream")
def chat_append_stream(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel, message = _streaming(world, arguments)
    if not arguments.get("markdown_text") and not arguments.get("chunks"):
        raise Refused("no_text")
    _append(message, arguments)
    message["streaming"]["touched"] = world.clock.now()
    return {"channel": channel.id, "ts": message["ts"]}


@method("chat.stopStream")
def chat_stop_stream(world: World, manifest: Manifest, arguments: Json) -> Json:
    channel, message = _streaming(world, arguments)
    _append(message, arguments)
    blocks = arguments.get("blocks")
    if blocks:
        check_message(message["text"], blocks)
        message["blocks"] = [*message["blocks"], *blocks]
    if arguments.get("metadata"):
        message["metadata"] = arguments["metadata"]
    message["streaming"]["closed"] = True
    return {"channel": channel.id, "ts": message["ts"], "message": message}


def _streaming(world: World, arguments: Json) -> tuple[Channel, Json]:
    channel = _target(world, arguments)
    message = channel.messages.get(str(arguments.get("ts", "")))
    if message is None:
        raise Refused("message_not_found")
    if message.get("streaming"):
        _close_late(world, message)
    if not message.get("streaming") or message["streaming"]["closed"]:
        raise Refused("message_not_in_streaming_state")
    return channel, message


def _close_late(world: World, message: Json) -> None:
    if world.clock.now() - message["streaming"]["touched"] > STREAM_SECONDS:
        message["streaming"]["closed"] = True


def _append(message: Json, arguments: Json) -> None:
    text = str(arguments.get("markdown_text") or "")
    for chunk in arguments.get("chunks") or []:
        text += _chunk(message, chunk)
    if len(text) > MARKDOWN_CHARACTERS:
        raise Refused("msg_too_long")
    if not text:
        return
    message["text"] += html.unescape(text)
    if message["blocks"] and message["blocks"][-1]["type"] == "markdown":
        message["blocks"][-1]["text"] += text
    else:
        message["blocks"].append({"type": "markdown", "text": text})


def _chunk(message: Json, chunk: Json) -> str:
    """Take in one chunk; returns the text it adds."""
    kind = chunk.get("type")
    if kind == "markdown_text":
        return str(chunk["text"])
    if kind == "task_update":
        if chunk.get("status") not in ("pending", "in_progress", "complete", "error"):
            raise Refused("invalid_chunks", "task status")
        if len(chunk.get("title", "")) > 255 or not chunk.get("id"):
            raise Refused("invalid_chunks", "task title or id")
        message["streaming"]["tasks"][chunk["id"]] = chunk
    elif kind == "blocks":
        check_blocks(chunk["blocks"], MESSAGE_TYPES)
        message["blocks"] += chunk["blocks"]
    elif kind != "plan_update":
        raise Refused("invalid_chunks", str(kind))
    return ""


# --- the agent's surface


@method("assistant.threads.setStatus")
def set_status(world: World, manifest: Manifest, arguments: Json) -> Json:
    _thread(world, arguments)
    if len(arguments.get("loading_messages") or []) > 10:
        raise Refused("invalid_arguments", "loading_messages: 10")
    world.statuses.append({**arguments, "at": world.clock.now()})
    return {}


@method("assistant.threads.setTitle")
def set_title(world: World, manifest: Manifest, arguments: Json) -> Json:
    _thread(world, arguments)
    world.titles.append(arguments)
    return {}


@method("assistant.threads.setSuggestedPrompts")
def set_suggested_prompts(world: World, manifest: Manifest, arguments: Json) -> Json:
    if manifest.agent == "agent_view" and arguments.get("thread_ts"):
        return {}  # "fails silently" there (methods/assistant.threads.setSuggestedPrompts): ok, and nothing shown
    if manifest.agent != "agent_view" and not arguments.get("thread_ts"):
        raise Refused("invalid_thread_ts")
    prompts = arguments.get("prompts") or []
    if not 1 <= len(prompts) <= 4 or any(not p.get("title") or not p.get("message") for p in prompts):
        raise Refused("invalid_arguments", "prompts: 1 to 4 with title and message")
    world.prompts.append(arguments)
    return {}


def _thread(world: World, arguments: Json) -> None:
    channel = world.channels.get(str(arguments.get("channel_id", "")))
    if channel is None or BOT_USER not in channel.members:
        raise Refused("channel_not_found")
    if arguments.get("thread_ts") not in channel.messages:
        raise Refused("invalid_thread_ts")


# --- views: https://docs.slack.dev/surfaces/modals


@method("views.open")
def views_open(world: World, manifest: Manifest, arguments: Json) -> Json:
    user = _redeem(world, arguments)
    check_view(arguments.get("view"))
    stored = store_view(world, arguments["view"], user)
    world.open_views[user] = [stored["id"]]
    return {"view": stored}


@method("views.push")
def views_push(world: World, manifest: Manifest, arguments: Json) -> Json:
    user = _redeem(world, arguments)
    if not world.open_views.get(user):
        raise Refused("not_found")
    if len(world.open_views[user]) >= 3:
        raise Refused("push_limit_reached")
    check_view(arguments.get("view"))
    stored = store_view(world, arguments["view"], user)
    world.open_views[user].append(stored["id"])
    return {"view": stored}


@method("views.update")
def views_update(world: World, manifest: Manifest, arguments: Json) -> Json:
    known = world.views.get(str(arguments.get("view_id", "")))
    if known is None or known["id"] not in world.open_views.get(known["user"], []):
        raise Refused("not_found")
    if arguments.get("hash") and arguments["hash"] != known["hash"]:
        raise Refused("hash_conflict")
    check_view(arguments.get("view"))
    return {"view": store_view(world, arguments["view"], known["user"], known["id"])}


def _redeem(world: World, arguments: Json) -> str:
    trigger = str(arguments.get("trigger_id", ""))
    error = world.redeem(trigger)
    if error:
        raise Refused(error)
    return str(world.triggers[trigger]["user"])


def store_view(world: World, view: Json, user: str, identity: str | None = None) -> Json:
    identity = identity or f"V{world.random.randrange(16**8):08X}"
    stored = {
        "id": identity,
        "team_id": TEAM,
        "state": {"values": {}},
        "hash": f"{world.clock.ts()}.{world.random.randrange(16**6):06x}",
        "private_metadata": "",
        "callback_id": "",
        "clear_on_close": False,
        "notify_on_close": False,
        "previous_view_id": None,
        "root_view_id": identity,
        "app_id": APP,
        "external_id": "",
        "app_installed_team_id": TEAM,
        "bot_id": BOT,
        **view,
        "user": user,
    }
    stored["blocks"] = [{"block_id": f"b{index}", **block} for index, block in enumerate(view["blocks"])]
    world.views[identity] = stored
    return stored


# --- files: https://docs.slack.dev/reference/objects/file-object


@method("files.info")
def files_info(world: World, manifest: Manifest, arguments: Json) -> Json:
    file = world.files.get(str(arguments.get("file", "")))
    if file is None:
        raise Refused("file_not_found")
    return {"file": {key: value for key, value in file.items() if key != "stub"}}


def add_file(
    world: World, user: str, name: str, data: bytes, *, external: str = "", stub: bool = False
) -> Json:
    """Store a file and return its object; `external` is the address of a file that lives elsewhere, `stub` a Slack
    Connect file whose details only files.info tells."""
    identity = f"F{world.random.randrange(16**8):08X}"
    kind = name.rsplit(".", 1)[-1].lower() if "." in name else "binary"
    address = external or f"{world.base}/files/{identity}/{name}"
    world.files[identity] = {
        "id": identity,
        "created": int(world.clock.now()),
        "timestamp": int(world.clock.now()),
        "name": name,
        "title": name,
        "mimetype": {"pdf": "application/pdf", "md": "text/markdown", "txt": "text/plain"}.get(
            kind, "application/x"
        ),
        "filetype": kind,
        "pretty_type": kind.upper(),
        "user": user,
        "editable": False,
        "size": len(data),
        "mode": "external" if external else "hosted",
        "is_external": bool(external),
        "external_type": urlsplit(external).hostname or "",
        "is_public": False,
        "public_url_shared": False,
        "display_as_bot": False,
        "username": "",
        "url_private": address,
        "url_private_download": address,
        "permalink": f"https://signoff.slack.com/files/{user}/{identity}/{name}",
        "file_access": "visible",
        "stub": stub,
    }
    world.contents[identity] = data
    return world.files[identity]
