"""Every HTTP door of a real `signoff serve` given what nobody sends: the workspace, Slack's and Feishu's addresses.

What is signed may be nonsense, and is answered below 500, at once; what is forged, unsigned or old is refused; what is
replayed is handled once. Afterwards the process lives, has not grown, and answers a question.
"""

import asyncio
import base64
import hashlib
import hmac
import io
import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from Crypto.Cipher import AES

from tests.emulators.feishu.client import StandIn as Feishu
from tests.emulators.slack.client import StandIn as Slack
from tests.fuzz import weird
from tests.load.chaos import CONFIGURATION
from tests.load.fleet import Fleet, Starter
from tests.load.judge import Database

SECONDS = 20.0  # for one request
MEGABYTES = 300  # of growth over a whole run
HANDS = 8  # requests at a time
FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"|"X-Form-Token": "([^"]+)"')
VERBS = (
    "approve",
    "edit",
    "reject",
    "claim",
    "release",
    "reassign",
    "stop",
    "helpful",
    "unhelpful",
    "edit",
    "delete",
)
SEGMENTS = (
    "general",
    "hr",
    "me",
    "1",
    "0",
    "-1",
    "99999999999999999999",
    "x",
    "..",
    "%00",
    "\u202e",
    "q",
    "~admin",
    "a b",
)
PATHS = (
    "/", "/me", "/c/{}", "/c/{}/t/{}", "/me/t/{}", "/c/{}/t/{}/ask", "/me/t/{}/ask", "/c/{}/ask", "/q/{}/{}",
    "/q/{}/source/{}", "/review", "/review/{}", "/review/{}/changes", "/review/{}/events", "/review/none/events",
    "/console", "/console/documents", "/console/documents/{}", "/console/documents/{}/audience",
    "/console/documents/{}/remove", "/console/documents/{}/changes", "/console/search", "/console/runs",
    "/console/runs/{}", "/console/runs/uncited", "/login", "/logout",
    "/language", "/healthz", "/readyz", "/metrics", "/static/{}", "/{}", "/{}/{}", "/slack/events",
    "/feishu/events", "/feishu/card",
)  # fmt: skip


@dataclass
class Knocked:
    """Statuses by door, and what went wrong."""

    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    slowest: float = 0.0
    grown_megabytes: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return sum(counter.total() for counter in self.statuses.values())


Request = tuple[str, str, dict[str, Any]]  # method, path, what aiohttp is given


@dataclass
class Knocker:
    """Makes requests for one server."""

    address: str
    chance: random.Random
    secret: str
    feishu: Mapping[str, str]
    form_token: str = ""
    told: Knocked = field(default_factory=Knocked)

    # --- requests

    def slack(self) -> Request:
        """Signed by Slack's secret, its content changed at random."""
        kind, body = self.chance.choice(SLACK)
        if self.chance.random() < 0.1:
            data = self.chance.choice(weird.RAW)
        elif kind == "event":
            data = weird.packed(weird.mutated(self.chance, body))
        elif kind == "interactive":
            data = urlencode({"payload": json.dumps(weird.mutated(self.chance, body))}).encode()
        else:
            data = _form(weird.mutated(self.chance, body))
        types = ("application/json", "application/x-www-form-urlencoded", "text/plain", "")
        chosen = self.chance.choice(types) if self.chance.random() < 0.1 else types[kind != "event"]
        return (
            "POST",
            "/slack/events",
            {"data": data, "headers": {**slack_signature(self.secret, data), "Content-Type": chosen}},
        )

    def feishu_event(self) -> Request:
        """Encrypted and signed, its content changed at random."""
        body = weird.mutated(self.chance, self.chance.choice(_feishu_bodies(self.feishu)))
        header = body.get("header") if isinstance(body, dict) else None
        if isinstance(header, dict) and self.chance.random() < 0.9:
            header["token"] = self.feishu["verification_token"]
        data = (
            self.chance.choice(weird.RAW) if self.chance.random() < 0.1 else self.sealed(weird.packed(body))
        )
        path = self.chance.choice(("/feishu/events", "/feishu/card"))
        return "POST", path, {"data": data, "headers": feishu_signature(self.feishu["encrypt_key"], data)}

    def sealed(self, plain: bytes) -> bytes:
        padding = 16 - len(plain) % 16
        iv = self.chance.randbytes(16)
        key = hashlib.sha256(self.feishu["encrypt_key"].encode()).digest()
        packed = iv + AES.new(key, AES.MODE_CBC, iv).encrypt(plain + bytes([padding]) * padding)
        return json.dumps({"encrypt": base64.b64encode(packed).decode()}).encode()

    def workspace(self) -> Request:
        """Any address of the workspace, as any persona, with any form."""
        path = self.chance.choice(PATHS)
        path = path.format(*(quote(self.chance.choice((*SEGMENTS, *VERBS)), safe="%.~") for _ in range(3)))
        path = self.chance.choice(("", "", "/~reviewer", "/~admin", "/~nobody")) + path
        fields = {
            name: weird.text(self.chance, ("a", "leave", "年假", "1", "everyone", "web:ada", "slack:C1"), 40)
            for name in (
                "text",
                "question",
                "verb",
                "version",
                "reason",
                "hint",
                "q",
                "as",
                "audience",
                "token",
            )
            if self.chance.random() < 0.4
        }
        headers = self._headers()
        if self.chance.random() < 0.4:
            return "GET", f"{path}?{urlencode(fields, errors='replace')}", {"headers": headers}
        if self.chance.random() < 0.9:
            fields["form_token"] = self.form_token
        if self.chance.random() < 0.2:
            return "POST", path, {"data": self._parts(fields), "headers": headers}
        if self.chance.random() < 0.1:
            headers["Content-Type"] = self.chance.choice(
                ("multipart/form-data; boundary=x", "multipart/form-data")
            )
            return (
                "POST",
                path,
                {
                    "data": self.chance.choice(
                        (*weird.RAW, b"--x\r\nContent-Disposition: form-data\r\n\r\n")
                    ),
                    "headers": headers,
                },
            )
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return "POST", path, {"data": urlencode(fields, errors="replace").encode(), "headers": headers}

    def _headers(self) -> dict[str, str]:
        odd = {
            "Cookie": ("signoff=x.y", "a=b;" * 200, "signoff=" + "é"),
            "Accept-Language": ("zh;q=nan", "en;q=inf, zh;q=-1", "x" * 3_000, ",;,"),
            "Origin": ("null", "http://evil.example", "http://["),
            "Sec-Fetch-Site": ("cross-site", "same-origin", "x"),
            "HX-Request": ("true",),
            "HX-Current-URL": ("http://[::1", "x"),
            "Last-Event-ID": ("-1", "x" * 2_000),
        }
        return {
            name: self.chance.choice(values) for name, values in odd.items() if self.chance.random() < 0.12
        }

    def _parts(self, fields: Mapping[str, str]) -> aiohttp.FormData:
        form = aiohttp.FormData(
            {name: value.encode("utf-8", "replace").decode() for name, value in fields.items()}
        )
        name = self.chance.choice(("a.md", "../x.pdf", "年假.docx", "a" * 300 + ".txt", "x", "a.exe"))
        form.add_field("file", self.chance.randbytes(self.chance.randint(0, 3_000)), filename=name)
        return form

    def forged(self) -> Request:
        """A right body with a wrong, old or missing signature, and now and then one too large to be read."""
        if self.chance.random() < 0.02:
            path = self.chance.choice(("/slack/events", "/feishu/events", "/login"))
            return (
                "POST",
                path,
                {"data": io.BytesIO(b"x" * 5_000_000), "headers": slack_signature("wrong", b"")},
            )
        if self.chance.random() < 0.5:
            data = weird.packed(SLACK[0][1])
            now = time.time()
            headers = self.chance.choice(
                (
                    {},
                    slack_signature("wrong", data),
                    slack_signature(self.secret, data, now - 400),
                    slack_signature(self.secret, data, now + 400),
                    slack_signature(self.secret, data + b" "),
                    {**slack_signature(self.secret, data), "X-Slack-Request-Timestamp": "soon"},
                    {**slack_signature(self.secret, data), "X-Slack-Request-Timestamp": "9" * 400},
                    {**slack_signature(self.secret, data), "X-Slack-Signature": "v0="},
                    {**slack_signature(self.secret, data), "X-Slack-Signature": "é"},
                )
            )
            return (
                "POST",
                "/slack/events",
                {"data": data, "headers": {**headers, "Content-Type": "application/json"}},
            )
        plain = weird.packed(_feishu_bodies(self.feishu)[0])
        sealed, key = self.sealed(plain), self.feishu["encrypt_key"]
        data, headers = self.chance.choice(
            (
                (plain, feishu_signature(key, plain)),
                (sealed, {}),
                (sealed, feishu_signature("wrong", sealed)),
                (sealed, feishu_signature(key, sealed, time.time() - 400)),
                (sealed, {**feishu_signature(key, sealed), "X-Lark-Request-Timestamp": "soon"}),
                (sealed, {**feishu_signature(key, sealed), "X-Lark-Signature": "é"}),
            )
        )
        return "POST", "/feishu/events", {"data": data, "headers": headers}

    # --- knocking

    async def knock(self, session: aiohttp.ClientSession, door: str, make: Callable[[], Request]) -> int:
        method, path, given = make()
        began, status = time.perf_counter(), 0
        try:
            async with session.request(
                method, self.address + path, allow_redirects=False, **given
            ) as response:
                status = response.status
                if response.content_type != "text/event-stream":
                    await response.content.read(1 << 20)
        except TimeoutError:
            self.told.faults.append(f"{door}: {method} {path[:80]} hangs")
        except (aiohttp.ClientError, ValueError) as error:
            # A header or an address that cannot be sent at all says nothing about the server.
            status = -1 if isinstance(error, aiohttp.ServerDisconnectedError) else 0
        self.told.slowest = max(self.told.slowest, time.perf_counter() - began)
        self.told.statuses.setdefault(door, Counter())[status] += 1
        if status >= 500 or status == -1:
            sent = given.get("data", b"")
            self.told.faults.append(f"{door}: {status} for {method} {path[:80]} {str(sent)[:300]}")
        return status


def slack_signature(secret: str, body: bytes, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


def feishu_signature(key: str, body: bytes, at: float | None = None) -> dict[str, str]:
    stamp, nonce = str(int(time.time() if at is None else at)), uuid.uuid4().hex[:10]
    signature = hashlib.sha256((stamp + nonce + key).encode() + body).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Lark-Request-Timestamp": stamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": signature,
    }


def _form(fields: Any) -> bytes:
    if not isinstance(fields, dict):
        return b""
    written = {
        str(key): value if isinstance(value, str) else json.dumps(value) for key, value in fields.items()
    }
    return urlencode(written, errors="replace").encode()


_USER = {"id": "U0ADA", "name": "ada", "username": "ada", "team_id": "T0SIGN"}
_TEAM = {"id": "T0SIGN", "domain": "signoff"}


def _event(**event: Any) -> dict[str, Any]:
    return {
        "type": "event_callback",
        "team_id": "T0SIGN",
        "api_app_id": "A0SIGN",
        "event_id": "Ev1",
        "event_time": 1,
        "authorizations": [{"team_id": "T0SIGN", "user_id": "U0BOT", "is_bot": True}],
        "event": {"channel": "C0GEN", "user": "U0ADA", "team": "T0SIGN", "ts": "1700000000.000100", **event},
    }


def _action(action_id: str, value: str) -> dict[str, Any]:
    return {
        "type": "block_actions",
        "team": _TEAM,
        "user": _USER,
        "trigger_id": "1.2.3",
        "channel": {"id": "C0GEN", "name": "general"},
        "container": {"type": "message", "message_ts": "1700000000.000100", "channel_id": "C0GEN"},
        "message": {"ts": "1700000000.000100", "text": "", "thread_ts": "1700000000.000100"},
        "response_url": "http://127.0.0.1:9/response",
        "actions": [
            {"type": "button", "action_id": action_id, "block_id": "b", "value": value, "action_ts": "1.0"}
        ],
    }


def _view(callback: str, **values: Any) -> dict[str, Any]:
    state = {name: {name: value} for name, value in values.items()}
    view = {"id": "V1", "callback_id": callback, "private_metadata": "1:hash", "state": {"values": state}}
    return {"type": "view_submission", "team": _TEAM, "user": _USER, "trigger_id": "1.2.3", "view": view}


_PICKED = {"type": "static_select", "selected_option": {"value": "incomplete"}}
_TYPED = {"type": "plain_text_input", "value": "words"}
SLACK: tuple[tuple[str, dict[str, Any]], ...] = (
    ("event", _event(type="app_mention", text="<@U0BOT> leave?")),
    ("event", _event(type="message", text="leave?", channel="D0ADA", channel_type="im")),
    ("event", _event(type="message", text="more", channel_type="channel", thread_ts="1700000000.000000")),
    ("event", _event(type="message", subtype="message_changed", message={"text": "b", "user": "U0ADA", "ts": "1.0"},
                     previous_message={"text": "a", "user": "U0ADA", "ts": "1.0"})),
    ("event", _event(type="message", subtype="message_deleted", previous_message={"ts": "1.0", "user": "U0ADA"})),
    ("event", _event(type="app_home_opened", tab="messages")),
    ("event", _event(type="tokens_revoked", tokens={"bot": ["x"]})),
    ("event", {"type": "url_verification", "challenge": "x"}),
    *(("interactive", _action(action, value)) for action, value in (
        ("review:approve", "1:hash"), ("review:claim", "1:hash"), ("review:edit", "1:hash"), ("review:open", "1:hash"),
        ("passage:1", "q1:1"), ("passage:2", "r1:1"), ("feedback", "up:q1"), ("stop", "q1"), ("person", "q1"),
        ("share", "q1:C0GEN"), ("nobody", "x"))),
    ("interactive", _view("review:edit", text0=_TYPED)),
    ("interactive", _view("review:reject", reason=_PICKED, hint=_TYPED, question=_TYPED)),
    ("interactive", _view("feedback", reason=_PICKED, words=_TYPED)),
    ("interactive", _view("kb:add", url=_TYPED, collection=_TYPED, audience=_TYPED)),
    *(("command", {"command": command, "text": text, "user_id": "U0ADM", "team_id": "T0SIGN", "channel_id": "C0GEN",
                   "trigger_id": "1.2.3", "response_url": "http://127.0.0.1:9/response", "user_name": "adam"})
      for command, text in (("/kb", "list"), ("/kb", "show 1"), ("/kb", "audience 1 everyone"), ("/kb", "help"),
                            ("/kb", "remove 1"), ("/kb", "stats"), ("/kb", "pause"), ("/ask", "leave?"))),
)  # fmt: skip


def _feishu_bodies(app: Mapping[str, str]) -> Sequence[dict[str, Any]]:
    def body(kind: str, event: dict[str, Any]) -> dict[str, Any]:
        header = {
            "event_id": uuid.uuid4().hex,
            "event_type": kind,
            "create_time": str(int(time.time() * 1_000)),
            "token": app["verification_token"],
            "app_id": app["app_id"],
            "tenant_key": "tenant",
        }
        return {"schema": "2.0", "header": header, "event": event}

    message = {
        "message_id": "om_1", "chat_id": "oc_1", "chat_type": "p2p", "message_type": "text", "root_id": "om_0",
        "content": json.dumps({"text": "leave?"}), "create_time": "1700000000000", "mentions": [],
    }  # fmt: skip
    sender = {
        "sender_id": {"open_id": "ou_1", "union_id": "on_1"},
        "sender_type": "user",
        "tenant_key": "tenant",
    }
    click = {
        "operator": {"open_id": "ou_1", "tenant_key": "tenant"},
        "action": {
            "tag": "button",
            "value": {"do": "approve", "review": 1, "version": "hash"},
            "form_value": {"text": "x"},
        },
        "context": {"open_chat_id": "oc_1", "open_message_id": "om_1"},
        "token": "c-1",
    }
    return (
        body("im.message.receive_v1", {"sender": sender, "message": message}),
        body(
            "im.message.receive_v1",
            {"sender": sender, "message": {**message, "content": json.dumps({"text": "/kb list"})}},
        ),
        body("im.message.recalled_v1", {"message_id": "om_1", "chat_id": "oc_1"}),
        body(
            "im.chat.access_event.bot_p2p_chat_entered_v1",
            {"chat_id": "oc_1", "operator_id": {"open_id": "ou_1"}},
        ),
        body("card.action.trigger", click),
        body("nobody.knows.this_v1", {}),
        {"type": "url_verification", "challenge": "x", "token": app["verification_token"]},
    )


async def knock_on_doors(
    slack: Slack,
    feishu: Feishu,
    database: str,
    folder: Path,
    starter: Starter,
    *,
    requests: int,
    seed: int = 1,
) -> Knocked:
    """`requests` over all doors of one process."""
    app = await feishu.reset()
    await slack.do("reset")
    variables = {
        "FEISHU_APP_ID": app["app_id"],
        "FEISHU_APP_SECRET": app["app_secret"],
        "FEISHU_DOMAIN": feishu.base,
        "FEISHU_ENCRYPT_KEY": app["encrypt_key"],
        "FEISHU_VERIFICATION_TOKEN": app["verification_token"],
    }
    fleet = Fleet(
        database, slack, folder, starter, f"local_embedding = false\n{CONFIGURATION}", 1, "http",
        options=("--personas",), variables=variables,
    )  # fmt: skip
    async with fleet:
        knocker = Knocker(
            fleet.addresses[0], random.Random(seed), slack.environment["SLACK_SIGNING_SECRET"], app
        )
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await _knock_all(knocker, session, requests, fleet)
            await _still_well(knocker, session, slack, Database(database))
        if not starter.alive(fleet.processes[0].pid):
            knocker.told.faults.append("the process ended")
    return knocker.told


async def _knock_all(knocker: Knocker, session: aiohttp.ClientSession, requests: int, fleet: Fleet) -> None:
    async with session.get(knocker.address + "/") as response:
        found = FORM_TOKEN.search(await response.text())
        knocker.form_token = next(filter(None, found.groups()), "") if found else ""
    before = _memory(fleet.processes[0].pid)
    shares = [("slack", knocker.slack)] * 4 + [("workspace", knocker.workspace)] * 3
    shares += [("feishu", knocker.feishu_event)] * 2 + [("forged", knocker.forged)]
    waiting = iter(range(requests))

    async def hand() -> None:
        for number in waiting:
            door, make = shares[number % len(shares)]
            status = await knocker.knock(session, door, make)
            if door == "forged" and not 400 <= status < 500 and status:
                knocker.told.faults.append(f"a forged request was answered with {status}")

    await asyncio.gather(*(hand() for _ in range(HANDS)))
    knocker.told.grown_megabytes = round(_memory(fleet.processes[0].pid) - before, 1)
    if knocker.told.grown_megabytes > MEGABYTES:
        knocker.told.faults.append(f"memory grew by {knocker.told.grown_megabytes} MB")


async def _still_well(
    knocker: Knocker, session: aiohttp.ClientSession, slack: Slack, database: Database
) -> None:
    """Alive, and a mention that arrives three times, byte for byte, is one question with one answer."""
    async with session.get(knocker.address + "/healthz") as response:
        if response.status != 200:
            knocker.told.faults.append(f"/healthz says {response.status}")
    ts = await slack.say("U0LIN", "C0GEN", "<@U0BOT> How are you doing after all this?", wait=False)
    for _ in range(2):
        await slack.do("replay")

    async def answered() -> bool:
        rows = database.rows("SELECT state FROM questions WHERE address->>'asked' = %s", ts)
        return bool(rows) and all(row["state"] in ("answered", "declined") for row in rows)

    try:
        await slack.until(answered, 60.0)
    except AssertionError:
        knocker.told.faults.append("a question after all this has no answer")
    stored = database.rows("SELECT id FROM questions WHERE address->>'asked' = %s", ts)
    if len(stored) != 1:
        knocker.told.faults.append(f"a mention that was replayed became {len(stored)} questions")


def _memory(pid: int) -> float:
    """Megabytes of a process now."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0
