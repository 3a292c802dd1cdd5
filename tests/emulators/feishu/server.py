"""The stand-in's HTTP face: Feishu's own addresses, and `/_drive`, `/_world` for whoever plays the people."""

import asyncio
import json
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.emulators.feishu.api import Api, Call, Rules
from tests.emulators.feishu.delivery import CONNECTIONS, Delivery, Faults, client_config
from tests.emulators.feishu.driver import Driver, NotPossible
from tests.emulators.feishu.limits import Refused, check_content
from tests.emulators.feishu.permissions import Manifest, matched
from tests.emulators.feishu.world import BOT, TOKEN_SECONDS, Chat, Json, World

TOKEN = "/open-apis/auth/v3/tenant_access_token/internal"
BOT_INFO = "/open-apis/bot/v3/info"
RESOURCE = "/open-apis/im/v1/messages/:message_id/resources/:file_key"
# https://open.feishu.cn/document/server-docs/getting-started/server-error-codes: which come with HTTP 200
WITH_200 = {99991661, 99991663, 99991664, 99991668, 230020, 10003, 10014}
PER_SECOND = 5  # messages to one chat, changes of one message
PER_CARD = 10


@dataclass
class Fault:
    """What the next `times` calls of an address meet: code (with its status), html, lost (done, but never answered)
    or slow."""

    kind: str
    times: int = 1
    code: int = 99991400
    status: int = 400
    seconds: float = 0.0


class Server:
    """One tenant behind one port."""

    def __init__(self, manifest: Manifest, *, ack_seconds: float = 3.0) -> None:
        self.ack_seconds = ack_seconds
        self.base = ""
        self.app = web.Application(client_max_size=64 * 2**20)
        self.app.add_routes(
            [
                web.get("/_world", self._world),
                web.post("/_drive", self._drive),
                web.get("/ws/{ticket}", self._socket),
                web.post("/callback/ws/endpoint", self._endpoint),
                web.route("*", "/open-apis/{rest:.*}", self._api),
            ]
        )
        self._fill(manifest, "cli_signoff")

    def _fill(self, manifest: Manifest, app_id: str) -> None:
        self.manifest = manifest
        self.world = World(app_id)
        self.rules = Rules()
        self.api = Api(self.world, manifest, self.rules)
        self.delivery = Delivery(self.world, self.ack_seconds)
        self.driver = Driver(self.world, self.delivery, manifest)
        self.faults: dict[str, Fault] = {}
        self.rates = False
        self._recent: dict[str, deque[float]] = {}
        self._tickets: set[str] = set()

    # --- the open platform

    async def _api(self, request: web.Request) -> web.StreamResponse:
        found = matched(request.method, request.path)
        entry: Json = {"method": request.method, "path": request.path, "at": self.world.clock.now()}
        self.world.calls.append(entry)
        if found is None:
            entry["code"] = 99991002
            return web.Response(text="404 page not found", status=404)
        pattern, parts = found
        entry["api"] = f"{request.method} {pattern}"
        fault = self._fault(f"{request.method} {pattern}")
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        elif fault and fault.kind != "lost":
            entry |= {"fault": fault.kind, "code": fault.code}
            return _failed(fault)
        try:
            answer = await self._answer(request, pattern, parts, entry)
        except Refused as refused:
            entry["code"] = refused.code
            status = 200 if refused.code in WITH_200 else refused.status
            body = {
                "code": refused.code,
                "msg": refused.message or "refused",
                "error": {"log_id": "stand-in"},
            }
            return web.json_response(body, status=status, headers=refused.headers)
        if fault and fault.kind == "lost":
            entry["fault"] = "lost"
            assert request.transport is not None
            request.transport.close()
        return answer

    async def _answer(
        self, request: web.Request, pattern: str, parts: dict[str, str], entry: Json
    ) -> web.StreamResponse:
        if pattern == TOKEN:
            body = await request.json()
            return web.json_response(self._token(body))
        self._authorised(request, pattern)
        if pattern == BOT_INFO:
            return web.json_response({"code": 0, "msg": "ok", "bot": {"app_name": "signoff", "open_id": BOT}})
        if pattern == RESOURCE:
            return self._resource(parts, request.query.get("type", ""))
        call = await _call(request, parts)
        entry["body"] = call.body
        self._paced(pattern, call)
        data = self.api.table[request.method, pattern](call)
        entry |= {"code": 0, "data": data}
        return web.json_response({"code": 0, "msg": "success", "data": data})

    def _token(self, body: Json) -> Json:
        if body.get("app_id") != self.world.app_id:
            raise Refused(10003, "invalid param")
        if body.get("app_secret") != self.world.app_secret:
            raise Refused(10014, "app secret invalid")
        return {"code": 0, "msg": "ok", "tenant_access_token": self.world.token(), "expire": TOKEN_SECONDS}

    def _authorised(self, request: web.Request, pattern: str) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise Refused(99991661, "Missing access token for authorization.")
        if self.world.tokens.get(token, 0.0) <= self.world.clock.now():
            raise Refused(99991663, "Invalid access token for authorization.")
        missing = self.manifest.missing(request.method, pattern)
        if missing:
            raise Refused(
                99991672, f"Access denied. One of the following scopes is required: [{', '.join(missing)}]"
            )

    def _resource(self, parts: dict[str, str], kind: str) -> web.StreamResponse:
        message = self.world.messages.get(parts["message_id"])
        key = parts["file_key"]
        if message is None or kind not in ("file", "image"):
            raise Refused(234001, "Invalid request param.")
        if BOT not in self.world.chats[message.chat_id].members:
            raise Refused(234004, "The app is not in the chat.")
        if message.msg_type == "interactive":
            raise Refused(234043, "Unsupported message type.")
        if key not in self.world.files or message.content.get("file_key") != key:
            raise Refused(234003, "File not in message.")
        file = self.world.files[key]
        if file.get("redirect"):
            return web.Response(status=302, headers={"Location": file["redirect"]})
        headers = {"Content-Disposition": f'attachment; filename="{key}"'}
        return web.Response(
            body=self.world.contents[key], content_type="application/octet-stream", headers=headers
        )

    # --- paces and faults

    def _paced(self, pattern: str, call: Call) -> None:
        if not self.rates:
            return
        if pattern.endswith("/messages"):
            self._pace(f"chat:{call.body.get('receive_id')}", PER_SECOND, 230020)
        elif pattern.endswith("/reply"):
            parent = self.world.messages.get(call.path["message_id"])
            self._pace(f"chat:{parent.chat_id if parent else ''}", PER_SECOND, 230020)
        elif pattern == "/open-apis/im/v1/messages/:message_id":
            self._pace(f"message:{call.path['message_id']}", PER_SECOND, 230020)
        elif "/cardkit/v1/cards/" in pattern:
            self._pace(f"card:{call.path['card_id']}", PER_CARD, 99991400)

    def _pace(self, key: str, most: int, code: int) -> None:
        recent, now = self._recent.setdefault(key, deque()), self.world.clock.now()
        while recent and recent[0] < now - 1.0:
            recent.popleft()
        if len(recent) >= most:
            headers = {"x-ogw-ratelimit-reset": "1"} if code == 99991400 else {}
            raise Refused(code, "frequency limit, ext=chat rate limit", status=429, headers=headers)
        recent.append(now)

    def _fault(self, name: str) -> Fault | None:
        fault = self.faults.get(name)
        if fault is None or fault.times <= 0:
            return None
        fault.times -= 1
        return fault

    # --- the long connection

    async def _endpoint(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        entry: Json = {
            "method": "POST",
            "path": request.path,
            "api": f"POST {request.path}",
            "at": time.time(),
        }
        self.world.calls.append(entry)
        fault = self._fault(f"POST {request.path}")
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        elif fault:
            return _failed(fault)
        code = 0
        if body.get("AppID") != self.world.app_id or body.get("AppSecret") != self.world.app_secret:
            code = 1000040345
        elif len(self.delivery.alive()) >= CONNECTIONS:
            code = 1000040350
        entry["code"] = code
        if code:
            return web.json_response({"code": code, "msg": "app_id or app_secret is invalid"})
        ticket = f"{self.world.random.randrange(16**12):012x}"
        self._tickets.add(ticket)
        url = f"{self.base.replace('http', 'ws', 1)}/ws/{ticket}?device_id={ticket}&service_id=1"
        return web.json_response(
            {"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": client_config()}}
        )

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.match_info["ticket"]
        if ticket not in self._tickets:
            headers = {"handshake-status": "403", "handshake-msg": "ticket"}
            return web.Response(status=403, headers=headers)
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=not self.delivery.faults.black_hole)
        await socket.prepare(request)
        await self.delivery.serve_socket(socket)
        return socket

    # --- for tests

    async def _world(self, request: web.Request) -> web.StreamResponse:
        shown = self.world.snapshot()
        shown |= {
            "connections": len(self.delivery.alive()),
            "pings": self.delivery.pings,
            "deliveries": [parcel.public() for parcel in self.delivery.parcels],
        }
        return web.json_response(shown)

    async def _drive(self, request: web.Request) -> web.StreamResponse:
        wanted: Json = await request.json()
        step = wanted.pop("do")
        function = getattr(self, f"do_{step}", None) or getattr(self.driver, step)
        try:
            return web.json_response({"ok": True, "result": await function(**wanted)})
        except NotPossible as problem:
            return web.json_response({"ok": False, "error": str(problem)})

    async def do_reset(self, manifest: Json | None = None, app_id: str = "cli_signoff") -> Json:
        await self.delivery.stop()
        self._fill(Manifest(manifest) if manifest else self.manifest, app_id)
        return {
            "app_id": app_id,
            "app_secret": self.world.app_secret,
            "encrypt_key": self.delivery.encrypt_key,
            "verification_token": self.delivery.token,
        }

    async def do_empty(self) -> Json:
        """Everything that people and the app did is gone; app, tokens and connections stay."""
        await self.do_settle()
        self.world.empty()
        self.delivery.parcels.clear()
        self.delivery.faults = Faults()
        self.delivery.ack_seconds = self.ack_seconds
        self.faults.clear()
        self.rates, self.rules.tables = False, 5
        return {}

    async def do_listen(self, url: str) -> Json:
        """Where signed HTTP goes from now on; asks for the challenge first, as the console does."""
        self.delivery.url = url
        challenge = {"type": "url_verification", "challenge": 'a"b\\c', "token": self.delivery.token}
        status, answer = await self.delivery.post("/events", self.delivery.sealed(challenge), signed=False)
        if status != 200 or answer != {"challenge": challenge["challenge"]}:
            raise NotPossible(f"the challenge was answered {status} {answer}")
        return {}

    async def do_wind(self, seconds: float) -> Json:
        self.world.clock.wind(seconds)
        return {"now": self.world.clock.now()}

    async def do_fault(self, api: str, **fault: Any) -> Json:
        self.faults[api] = Fault(**fault)
        return {}

    async def do_trouble(self, **faults: Any) -> Json:
        self.delivery.faults = Faults(**faults)
        return {}

    async def do_revoke(self) -> Json:
        self.world.revoke()
        return {}

    async def do_secret(self, secret: str) -> Json:
        """Another app secret: what was handed out before counts no longer."""
        before, self.world.app_secret = self.world.app_secret, secret
        self.world.revoke()
        return {"before": before}

    async def do_set(
        self, rates: bool | None = None, tables: int | None = None, ack_seconds: float | None = None
    ) -> Json:
        self.rates = self.rates if rates is None else rates
        self.rules.tables = self.rules.tables if tables is None else tables
        if ack_seconds is not None:
            self.delivery.ack_seconds = ack_seconds
        return {}

    async def do_unavailable(self, user: str, on: bool = True) -> Json:
        (self.world.unavailable.add if on else self.world.unavailable.discard)(user)
        return {}

    async def do_chat(self, id: str, **values: Any) -> Json:
        place = self.world.chats.setdefault(id, Chat(id, id))
        place.members |= set(values.pop("add", ()))
        place.members -= set(values.pop("take", ()))
        for key, value in values.items():
            setattr(place, key, value)
        return {}

    async def do_file(self, id: str, **values: Any) -> Json:
        self.world.files[id].update(values)
        return self.world.files[id]

    async def do_card(self, id: str, **values: Any) -> Json:
        for key, value in values.items():
            setattr(self.world.cards[id], key, value)
        return {}

    async def do_close(self) -> Json:
        """End every long connection."""
        for socket in self.delivery.alive():
            await socket.close()
        return {}

    async def do_replay(self, index: int = -1) -> Json:
        parcel = self.delivery.repeat(self.delivery.parcels[index])
        await parcel.done.wait()
        return parcel.public()

    async def do_replay_events(self) -> Json:
        again = [self.delivery.repeat(p) for p in list(self.delivery.parcels) if p.kind == "event"]
        await asyncio.gather(*(parcel.done.wait() for parcel in again))
        return {"events": len(again)}

    async def do_payload(self, kind: str, body: Json) -> Json:
        """Send a payload as it is."""
        parcel = self.delivery.send(kind, body)
        await parcel.done.wait()
        return parcel.public()

    async def do_raw(self, path: str, body: Json, sealed: bool = True, **how: Any) -> Json:
        """A request to the webhook as somebody else would send it."""
        packed = self.delivery.sealed(body) if sealed else json.dumps(body).encode()
        status, answer = await self.delivery.post(path, packed, **how)
        return {"status": status, "answer": answer}

    async def do_settle(self) -> Json:
        while pending := [p for p in self.delivery.parcels if not p.done.is_set()]:
            await asyncio.gather(*(parcel.done.wait() for parcel in pending))
        return {}

    async def do_check(self, msg_type: str, content: Json) -> Json:
        """Whether Feishu would take that message: its code, 0 for yes."""
        try:
            check_content(msg_type, content, self.rules.tables)
        except Refused as refused:
            return {"code": refused.code, "message": refused.message}
        return {"code": 0}


async def _call(request: web.Request, parts: dict[str, str]) -> Call:
    query = dict(request.query)
    if request.content_type.startswith("multipart/"):
        form = await request.post()
        files = {k: v.file.read() for k, v in form.items() if isinstance(v, web.FileField)}
        return Call(parts, query, {k: v for k, v in form.items() if isinstance(v, str)}, files)
    text = await request.text()
    return Call(parts, query, json.loads(text) if text else {})


def _failed(fault: Fault) -> web.Response:
    if fault.kind == "html":
        return web.Response(text="<html>bad gateway</html>", content_type="text/html", status=502)
    headers = {"x-ogw-ratelimit-reset": "1"} if fault.code == 99991400 else {}
    status = 200 if fault.code in WITH_200 else fault.status
    return web.json_response({"code": fault.code, "msg": "fault"}, status=status, headers=headers)


async def start(manifest: Path, port: int, ack_seconds: float) -> tuple[web.AppRunner, Server]:
    """Listen on loopback; port 0 takes a free one. The address is `server.base`."""
    server = Server(Manifest.read(manifest), ack_seconds=ack_seconds)
    runner = web.AppRunner(server.app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner, server
