"""The stand-in's HTTP face: Slack's own addresses, and `/_drive`, `/_world` for whoever plays the people."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.emulators.slack import web_api
from tests.emulators.slack.delivery import Delivery, Faults
from tests.emulators.slack.driver import Driver, NotPossible
from tests.emulators.slack.limits import Refused, check_message
from tests.emulators.slack.scopes import METHODS, Manifest
from tests.emulators.slack.world import BOT_USER, RESPONSE_SECONDS, RESPONSE_USES, Channel, Json, User, World

# Calls a minute: https://docs.slack.dev/apis/web-api/rate-limits. chat.postMessage is one a second and channel.
TIERS: dict[str, int] = {
    "apps.connections.open": 50,
    "chat.update": 50,
    "chat.appendStream": 100,
    "chat.startStream": 20,
    "chat.stopStream": 20,
    "conversations.replies": 50,
    "conversations.members": 100,
    "conversations.info": 50,
    "users.info": 100,
    "views.open": 100,
    "views.update": 100,
    "files.info": 100,
}
POST_BURST = 5  # "short bursts are allowed": the page gives no number
PACKED = ("blocks", "metadata", "view", "attachments", "prompts", "chunks", "loading_messages")
LOGIN_PAGE = "<!DOCTYPE html><html><head><title>Slack</title></head><body>Sign in to Signoff</body></html>"


@dataclass
class Fault:
    """What the next `times` calls of a method meet: ratelimited, status, html, lost (done, but never answered)
    or error."""

    kind: str
    times: int = 1
    code: str = ""
    status: int = 500
    retry_after: int = 1


@dataclass
class Odds:
    """Trouble by chance on every call of a method: the shares refused with 429, and lost after their effect."""

    ratelimited: float = 0.0
    lost: float = 0.0


class Server:
    """One workspace behind one port."""

    def __init__(self, manifest: Manifest, *, ack_seconds: float = 3.0) -> None:
        self.bot_token, self.app_token, self.secret = "xoxb-stand-in", "xapp-stand-in", "stand-in-secret"
        self.ack_seconds = ack_seconds
        self.base = ""
        self.app = web.Application(client_max_size=64 * 2**20)
        self.app.add_routes(
            [
                web.post("/api/{method}", self._api),
                web.get("/api/{method}", self._api),
                web.get("/socket/{ticket}", self._socket),
                web.get("/files/{file}/{name}", self._file),
                web.post("/response/{ticket}", self._response),
                web.get("/_world", self._world),
                web.post("/_drive", self._drive),
            ]
        )
        self._fill(manifest)

    def _fill(self, manifest: Manifest, delivery: Delivery | None = None) -> None:
        self.manifest = manifest
        self.world = World()
        self.world.base = self.base
        self.delivery = delivery or Delivery(self.world, self.secret, self.ack_seconds)
        self.driver = Driver(self.world, self.delivery, manifest)
        self.faults: dict[str, Fault] = {}
        self.odds = Odds()
        self.rates = False
        self._recent: dict[str, deque[float]] = {}
        self._tickets: set[str] = set()

    # --- the Web API

    async def _api(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        arguments = await _arguments(request)
        entry: Json = {
            "method": name,
            "arguments": arguments,
            "at": self.world.clock.now(),
            "real": time.time(),
        }
        self.world.calls.append(entry)
        fault = self._fault(name)
        if fault and fault.kind != "lost":
            entry["fault"] = fault.kind
            return _failed(fault)
        limited = self._limited(name, arguments)
        if limited:
            entry["fault"] = "ratelimited"
            return _failed(Fault("ratelimited", retry_after=limited))
        answer = self._call(name, request.headers.get("Authorization", ""), arguments)
        entry["response"] = {key: value for key, value in answer.items() if key != "message"}
        if fault:
            entry["fault"] = "lost"
            assert request.transport is not None
            await asyncio.sleep(0)
            request.transport.close()
        headers = {"x-oauth-scopes": ",".join(sorted(self.manifest.scopes))}
        return web.json_response(answer, headers=headers)

    def _call(self, name: str, authorization: str, arguments: Json) -> Json:
        try:
            self._authorised(name, authorization)
            if name == "apps.connections.open":
                return {"ok": True, "url": self._ticket()}
            function = web_api.METHODS.get(name)
            if function is None:
                raise Refused("unknown_method")
            if "{kind}" not in "".join(METHODS[name]):
                missing = self.manifest.missing(name)
                if missing:
                    raise Refused(
                        "missing_scope", needed=missing, provided=",".join(sorted(self.manifest.scopes))
                    )
            before = self._before(name, arguments)
            answer = function(self.world, self.manifest, arguments)
            self._echo(name, arguments, before, answer)
        except Refused as refused:
            body: Json = {"ok": False, "error": refused.code, **refused.more}
            return body | ({"response_metadata": {"messages": [refused.detail]}} if refused.detail else {})
        return {"ok": True, **answer}

    def _authorised(self, name: str, authorization: str) -> None:
        wanted = self.app_token if name == "apps.connections.open" else self.bot_token
        if authorization != f"Bearer {wanted}":
            raise Refused("not_authed" if not authorization else "invalid_auth")
        if self.world.revoked:
            raise Refused("token_revoked")

    def _before(self, name: str, arguments: Json) -> Json | None:
        if name != "chat.update":
            return None
        return dict(self.world.message(str(arguments.get("channel")), str(arguments.get("ts"))) or {})

    def _echo(self, name: str, arguments: Json, before: Json | None, answer: Json) -> None:
        """The app hears its own messages and updates, as in any channel whose messages it subscribes to."""
        place = self.world.channels.get(str(answer.get("channel", "")))
        if not isinstance(place, Channel):
            return
        if name == "chat.postMessage":
            self.driver.posted(place, answer["message"])
        elif name == "chat.update" and before:
            self.driver.changed(place, before, answer["message"])

    def _fault(self, name: str) -> Fault | None:
        fault = self.faults.get(name)
        if fault is None or fault.times <= 0:
            return self._chance()
        fault.times -= 1
        return fault

    def _chance(self) -> Fault | None:
        drawn = self.world.random.random()
        if drawn < self.odds.ratelimited:
            return Fault("ratelimited")
        return Fault("lost") if drawn < self.odds.ratelimited + self.odds.lost else None

    def _limited(self, name: str, arguments: Json) -> int:
        if not self.rates:
            return 0
        key, most, seconds = name, TIERS.get(name, 0), 60.0
        if name == "chat.postMessage":
            key, most, seconds = f"{name}:{arguments.get('channel')}", POST_BURST, float(POST_BURST)
        if not most:
            return 0
        recent = self._recent.setdefault(key, deque())
        now = self.world.clock.now()
        while recent and recent[0] < now - seconds:
            recent.popleft()
        if len(recent) >= most:
            return max(1, round(recent[0] + seconds - now))
        recent.append(now)
        return 0

    # --- Socket Mode, files, response_url

    def _ticket(self) -> str:
        ticket = f"{self.world.random.randrange(16**12):012x}"
        self._tickets.add(ticket)
        return f"{self.base.replace('http', 'ws', 1)}/socket/{ticket}"

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.match_info["ticket"]
        if ticket not in self._tickets:
            return web.Response(status=404)
        self._tickets.discard(ticket)  # an address works once
        socket = web.WebSocketResponse(timeout=1.0)  # of a goodbye that nobody returns
        await socket.prepare(request)
        await self.delivery.serve_socket(socket)
        return socket

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self.world.files.get(request.match_info["file"])
        allowed = request.headers.get("Authorization") == f"Bearer {self.bot_token}"
        self.world.calls.append(
            {"method": "(download)", "arguments": dict(request.headers), "at": time.time()}
        )
        if file is None:
            return web.Response(status=404)
        if not allowed or "files:read" not in self.manifest.scopes:
            return web.Response(text=LOGIN_PAGE, content_type="text/html")  # 200, as the original
        redirect = file.get("redirect")
        if redirect:
            return web.Response(status=302, headers={"Location": redirect})
        return web.Response(body=self.world.contents[file["id"]], content_type=file["mimetype"])

    async def _response(self, request: web.Request) -> web.StreamResponse:
        known = self.world.response_urls.get(request.match_info["ticket"])
        body: Json = await request.json()
        entry: Json = {"method": "(response_url)", "arguments": body, "at": self.world.clock.now()}
        self.world.calls.append(entry)
        fault = self._fault("(response_url)")
        if fault and fault.kind != "lost":
            return _failed(fault)
        if known is None or self.world.clock.now() - known["at"] > RESPONSE_SECONDS:
            return web.Response(status=404, text="expired_url")
        if known["uses"] >= RESPONSE_USES:
            return web.Response(status=404, text="used_url")
        known["uses"] += 1
        try:
            self._respond(known, body)
        except Refused as refused:
            return web.Response(status=400, text=refused.code)
        if fault:
            assert request.transport is not None
            request.transport.close()
        return web.Response(text="ok")

    def _respond(self, known: Json, body: Json) -> None:
        original = next((m for m in self.world.ephemerals if m["ts"] == known["ts"]), None)
        original = original or self.world.message(known["channel"], known["ts"] or "")
        if body.get("delete_original"):
            if original in self.world.ephemerals:
                self.world.ephemerals.remove(original)
            return
        check_message(body.get("text", ""), body.get("blocks"))
        content = {"text": body.get("text", ""), "blocks": body.get("blocks") or []}
        if body.get("replace_original") and original is not None:
            original.update(content)
            return
        channel = self.world.channels[known["channel"]]
        if body.get("response_type") == "in_channel":
            self.world.put(channel, {"user": BOT_USER, "bot_id": "B0SIGN", **content})
            return
        self.world.ephemerals.append(
            {
                "ts": self.world.clock.ts(),
                "channel": channel.id,
                "to": known["user"],
                "user": BOT_USER,
                **content,
            }
        )

    # --- for whoever plays the people

    async def _world(self, _request: web.Request) -> web.Response:
        state = self.world.snapshot()
        state["deliveries"] = [parcel.public() for parcel in self.delivery.parcels]
        state["connections"] = len([socket for socket in self.delivery.sockets if not socket.closed])
        return web.json_response(state)

    async def _drive(self, request: web.Request) -> web.Response:
        step: Json = await request.json()
        name = step.pop("do")
        target = getattr(self, f"do_{name}", None) or getattr(self.driver, name)
        try:
            result = await target(**step)
        except NotPossible as error:
            return web.json_response({"ok": False, "error": str(error)})
        return web.json_response({"ok": True, "result": result})

    async def do_steps(self, steps: Sequence[Json], seconds: float = 0.0) -> list[Any]:
        """Many steps of the people, evenly over `seconds`, none waiting for another; their results in order."""
        began, done = time.monotonic(), []
        for number, step in enumerate(steps):
            await asyncio.sleep(began + number * seconds / len(steps) - time.monotonic())
            values = {key: value for key, value in step.items() if key != "do"}
            done.append(asyncio.ensure_future(getattr(self.driver, step["do"])(**values)))
        return list(await asyncio.gather(*done))

    async def do_reset(self, manifest: Json | None = None, url: str = "") -> Json:
        """An empty workspace again; `url` receives signed HTTP, none means Socket Mode."""
        await self.delivery.stop()
        self._fill(Manifest(manifest) if manifest else self.manifest)
        return await self.do_listen(url)

    async def do_empty(self) -> Json:
        """An empty workspace for the app that is connected."""
        self._fill(self.manifest, self.delivery)
        await self.delivery.begin_again(self.world)
        self.delivery.ack_seconds = self.ack_seconds
        return {}

    async def do_listen(self, url: str = "", addresses: Sequence[str] = ()) -> Json:
        """Where signed HTTP goes from now on: to `url`, or to any of `addresses`."""
        self.delivery.urls = tuple(addresses) or tuple(filter(None, (url,)))
        return {}

    async def do_wind(self, seconds: float) -> Json:
        self.world.clock.wind(seconds)
        return {"now": self.world.clock.now()}

    async def do_fault(self, method: str, **fault: Any) -> Json:
        self.faults[method] = Fault(**fault)
        return {}

    async def do_odds(self, ratelimited: float = 0.0, lost: float = 0.0) -> Json:
        self.odds = Odds(ratelimited, lost)
        return {}

    async def do_trouble(self, **faults: Any) -> Json:
        self.delivery.faults = Faults(**faults)
        return {}

    async def do_forge(self, text: str) -> Json:
        """A mention that somebody else signed."""
        secret, self.delivery.secret = self.delivery.secret, "wrong"
        said = await self.driver.say("U0ADA", "C0GEN", text, wait=False, only="app_mention")
        parcel = self.delivery.parcels[-1]
        while not parcel.attempts or "outcome" not in parcel.attempts[0]:
            await asyncio.sleep(0.01)
        parcel.due = float("inf")  # never again
        parcel.given_up = True
        parcel.done.set()
        self.delivery.secret = secret
        return {**said, "outcome": parcel.attempts[0]["outcome"]}

    async def do_payload(self, kind: str, body: Json) -> Json:
        """Send a payload as it is."""
        parcel = self.delivery.send(kind, body)
        await parcel.done.wait()
        return parcel.public()

    async def do_replay(self, index: int = -1, wait: bool = True) -> Json:
        """Send an earlier payload once more, whatever became of it."""
        parcel = self.delivery.repeat(self.delivery.parcels[index])
        if wait:
            await parcel.done.wait()
        return parcel.public()

    async def do_replay_events(self) -> Json:
        """Every event so far once more, as after a reconnect."""
        again = [self.delivery.repeat(p) for p in list(self.delivery.parcels) if p.kind == "event"]
        await asyncio.gather(*(parcel.done.wait() for parcel in again))
        return {"events": len(again)}

    async def do_disconnect(self, reason: str = "refresh_requested", close: bool = True) -> Json:
        await self.delivery.disconnect(reason, close=close)
        return {}

    async def do_waiting(self) -> int:
        """How many payloads still have to arrive."""
        return len([parcel for parcel in self.delivery.parcels if not parcel.done.is_set()])

    async def do_settle(self) -> Json:
        """Wait until nothing is on its way to the app."""
        while pending := [p for p in self.delivery.parcels if not p.done.is_set()]:
            await asyncio.gather(*(parcel.done.wait() for parcel in pending))
        return {}

    async def do_set(
        self,
        rates: bool | None = None,
        revoked: bool | None = None,
        ack_seconds: float | None = None,
        ladder: Sequence[float] = (),
    ) -> Json:
        self.rates = self.rates if rates is None else rates
        self.world.revoked = self.world.revoked if revoked is None else revoked
        if ack_seconds is not None:
            self.delivery.ack_seconds = ack_seconds
        self.delivery.ladder = tuple(ladder) or self.delivery.ladder
        return {}

    async def do_connections(self) -> int:
        return len([socket for socket in self.delivery.sockets if not socket.closed])

    async def do_channel(self, id: str, **values: Any) -> Json:
        """Make or change a channel; `add` and `take` are members."""
        place = self.world.channels.setdefault(id, Channel(id, id.lower(), "public"))
        place.members |= set(values.pop("add", ()))
        place.members -= set(values.pop("take", ()))
        for key, value in values.items():
            setattr(place, key, value)
        return place.public()

    async def do_file(self, id: str, **values: Any) -> Json:
        self.world.files[id].update(values)
        return self.world.files[id]

    async def do_user(self, id: str, **values: Any) -> Json:
        """Make or change a person."""
        self.world.users.setdefault(id, User(id, id.lower()))
        for key, value in values.items():
            setattr(self.world.users[id], key, value)
        return self.world.users[id].public()


async def _arguments(request: web.Request) -> Json:
    if "json" in request.content_type:
        body = await request.json()
        return dict(body) if isinstance(body, dict) else {}
    form: Json = {**request.query, **(await request.post())}
    for name in PACKED:
        if isinstance(form.get(name), str):
            form[name] = json.loads(form[name])
    return form


def _failed(fault: Fault) -> web.Response:
    if fault.kind == "ratelimited":
        headers = {"Retry-After": str(fault.retry_after)}
        return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
    if fault.kind == "html":
        return web.Response(text="<html>bad gateway</html>", content_type="text/html", status=fault.status)
    if fault.kind == "status":
        return web.Response(text="upstream error", status=fault.status)
    return web.json_response({"ok": False, "error": fault.code})


async def start(manifest: Path, port: int, ack_seconds: float) -> tuple[web.AppRunner, Server]:
    """Listen on loopback; port 0 takes a free one. The address is `server.base`."""
    server = Server(Manifest.read(manifest), ack_seconds=ack_seconds)
    runner = web.AppRunner(server.app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    taken = runner.addresses[0][1]
    server.base = server.world.base = f"http://127.0.0.1:{taken}"
    return runner, server
