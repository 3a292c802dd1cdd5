"""How events, clicks and commands reach the app: Socket Mode or signed HTTP, with Slack's retries and our faults.

https://docs.slack.dev/apis/events-api (three seconds, three retries: at once, after a minute, after five; the retry
headers), /apis/events-api/using-socket-mode (envelopes, acknowledgements, up to ten connections, one of which gets
each payload), /authentication/verifying-requests-from-slack (the signature).
"""

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tests.emulators.slack.world import Json, World

LADDER = (0.0, 60.0, 300.0)  # seconds after the attempt before it; `Delivery.ladder` may be compressed
CONNECTIONS = 10
TICK = 0.01
ENVELOPE = {"event": "events_api", "interactive": "interactive", "command": "slash_commands"}


@dataclass
class Faults:
    """What goes wrong next; counters are used up one by one."""

    lose_acks: int = 0  # deliveries whose acknowledgement never arrives
    duplicates: int = 0  # events that are sent twice at once
    late: float = 0.0  # seconds that the next click spends on its way, of the trigger's three
    zombie: bool = False  # connections stay open and deliver nothing
    break_before_ack: int = 0  # connections that end as soon as the payload was sent
    dumb: int = 0  # connections that open and then say nothing, not even hello
    copies: tuple[int, int] = (1, 1)  # how often each event arrives, at least and at most
    spread: float = 0.0  # seconds over which those copies come


@dataclass
class Parcel:
    """One payload on its way, with its history."""

    kind: str
    body: Json
    identity: str
    due: float
    attempts: list[Json] = field(default_factory=list)
    acked: bool = False
    given_up: bool = False
    response: Any = None
    acked_after: float | None = None  # real seconds from sending to the acknowledgement
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def public(self) -> Json:
        event = self.body.get("event", {})
        return {
            "kind": self.kind,
            "type": event.get("type") or self.body.get("type") or self.body.get("command"),
            "subtype": event.get("subtype"),
            "ts": event.get("ts"),
            "id": self.identity,
            "attempts": self.attempts,
            "acked": self.acked,
            "given_up": self.given_up,
            "acked_after": self.acked_after,
            "response": self.response,
        }


class Delivery:
    """`urls` is where HTTP deliveries go, each to any of them, as behind a load balancer; none means Socket Mode."""

    def __init__(self, world: World, secret: str, ack_seconds: float) -> None:
        self.world = world
        self.secret = secret
        self.ack_seconds = ack_seconds
        self.urls: tuple[str, ...] = ()
        self.ladder: tuple[float, ...] = LADDER
        self.faults = Faults()
        self.sockets: list[web.WebSocketResponse] = []
        self.parcels: list[Parcel] = []
        self._acks: dict[str, asyncio.Future[Json]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    # --- sending

    def send(self, kind: str, body: Json) -> Parcel:
        """Put a payload on its way at once; events are repeated until acknowledged."""
        identity = body.get("event_id") or uuid.uuid4().hex
        parcel = Parcel(kind, body, identity, self.world.clock.now())
        self.parcels.append(parcel)
        self._start(self._deliver(parcel))
        if kind == "event" and self.faults.duplicates:
            self.faults.duplicates -= 1
            self.repeat(parcel)
        if kind == "event":
            for _ in range(self.world.random.randint(*self.faults.copies) - 1):
                self.repeat(parcel, after=self.world.random.uniform(0.0, self.faults.spread))
        return parcel

    def repeat(self, parcel: Parcel, *, after: float = 0.0) -> Parcel:
        """The same payload once more, as after a reconnect: same event id, a new envelope."""
        again = Parcel(parcel.kind, parcel.body, parcel.identity, self.world.clock.now() + after)
        self.parcels.append(again)
        self._start(self._deliver(again))
        return again

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, parcel: Parcel) -> None:
        reason = ""
        for number in range(len(self.ladder) + 1):
            while self.world.clock.now() < parcel.due:
                await asyncio.sleep(TICK)
            attempt: Json = {"at": self.world.clock.now(), "number": number, "reason": reason}
            parcel.attempts.append(attempt)
            began = time.perf_counter()
            answer = await self._attempt(parcel, number, reason)
            attempt |= {"outcome": answer["outcome"], "took": time.perf_counter() - began}
            if answer["outcome"] == "acked":
                parcel.acked, parcel.response = True, answer["payload"]
                parcel.acked_after = attempt["took"]
                break
            if answer.get("no_retry") or parcel.kind != "event" or number == len(self.ladder):
                parcel.given_up = True  # a click or command is not repeated: the person sees a warning
                break
            reason = "http_timeout" if answer["outcome"] == "timeout" else "http_error"
            parcel.due = self.world.clock.now() + self.ladder[number]
        parcel.done.set()

    async def _attempt(self, parcel: Parcel, number: int, reason: str) -> Json:
        if self.faults.late and parcel.kind != "event":
            self.world.clock.wind(self.faults.late)
            self.faults.late = 0.0
        answer = await (
            self._http(parcel, number, reason) if self.urls else self._socket(parcel, number, reason)
        )
        if answer["outcome"] == "acked" and self.faults.lose_acks:
            self.faults.lose_acks -= 1
            return {"outcome": "timeout"}
        return answer

    # --- Socket Mode

    async def _socket(self, parcel: Parcel, number: int, reason: str) -> Json:
        deadline = time.monotonic() + self.ack_seconds
        while not (alive := [socket for socket in self.sockets if not socket.closed]) or self.faults.zombie:
            if time.monotonic() > deadline:
                return {"outcome": "timeout"}
            await asyncio.sleep(TICK)
        socket = self.world.random.choice(alive)
        envelope = uuid.uuid4().hex
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._acks[envelope] = waiting
        message: Json = {
            "envelope_id": envelope,
            "type": ENVELOPE[parcel.kind],
            "payload": parcel.body,
            "accepts_response_payload": parcel.kind != "event",
        }
        if parcel.kind == "event":
            message |= {"retry_attempt": number, "retry_reason": reason}
        try:
            await socket.send_str(json.dumps(message))
            if self.faults.break_before_ack:
                self.faults.break_before_ack -= 1
                await socket.close()
                return {"outcome": "connection_failed"}
            got = await asyncio.wait_for(waiting, self.ack_seconds)
        except (TimeoutError, ConnectionError):
            return {"outcome": "timeout"}
        finally:
            self._acks.pop(envelope, None)
        return {"outcome": "acked", "payload": got.get("payload")}

    async def serve_socket(self, socket: web.WebSocketResponse) -> None:
        """Speak to one connection until it ends."""
        if len([known for known in self.sockets if not known.closed]) >= CONNECTIONS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await socket.close()
            return
        if self.faults.dumb:
            self.faults.dumb -= 1
            async for _ in socket:
                continue
            return
        self.sockets.append(socket)
        await socket.send_json(
            {
                "type": "hello",
                "num_connections": len([known for known in self.sockets if not known.closed]),
                "debug_info": {"host": "applink-stand-in", "approximate_connection_time": 18060},
                "connection_info": {"app_id": "A0SIGN"},
            }
        )
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            ack = json.loads(message.data)
            waiting = self._acks.get(ack.get("envelope_id", ""))
            if waiting is not None and not waiting.done():
                waiting.set_result(ack)
        self.sockets.remove(socket)

    async def disconnect(self, reason: str, *, close: bool) -> None:
        """Ask every connection to go away: `refresh_requested`, `warning` or `link_disabled`."""
        for socket in list(self.sockets):
            await socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}}
            )
            if close:
                await socket.close()

    # --- signed HTTP

    async def _http(self, parcel: Parcel, number: int, reason: str) -> Json:
        body = self.encode(parcel.kind, parcel.body)
        headers = self.sign(body)
        headers["Content-Type"] = (
            "application/json" if parcel.kind == "event" else "application/x-www-form-urlencoded"
        )
        if number:
            headers |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
        try:
            async with await self._post(body.encode(), headers) as response:
                text = await response.text()
                if not 200 <= response.status < 300:
                    no_retry = response.headers.get("X-Slack-No-Retry") == "1"
                    return {"outcome": f"http_{response.status}", "no_retry": no_retry}
        except (TimeoutError, aiohttp.ClientError):
            return {"outcome": "timeout"}
        if not text:
            return {"outcome": "acked", "payload": None}
        kind = response.headers.get("Content-Type", "")
        return {"outcome": "acked", "payload": json.loads(text) if "json" in kind else {"text": text}}

    async def _post(self, body: bytes, headers: dict[str, str]) -> aiohttp.ClientResponse:
        """To one of the addresses; where nobody listens, to the next, as a load balancer does."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        limit = aiohttp.ClientTimeout(total=self.ack_seconds)
        addresses = self.world.random.sample(self.urls, len(self.urls))
        for address in addresses[:-1]:
            try:
                return await self._session.post(address, data=body, headers=headers, timeout=limit)
            except aiohttp.ClientConnectorError:
                continue
        return await self._session.post(addresses[-1], data=body, headers=headers, timeout=limit)

    def encode(self, kind: str, body: Json) -> str:
        """Events are JSON, clicks a form field `payload`, commands a form."""
        if kind == "event":
            return json.dumps(body)
        return urlencode({"payload": json.dumps(body)} if kind == "interactive" else body)

    def sign(self, body: str, at: float | None = None) -> dict[str, str]:
        stamp = str(int(time.time() if at is None else at))
        digest = hmac.new(self.secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}

    async def begin_again(self, world: World) -> None:
        """Nothing under way, nothing wrong, another workspace; the connections stay."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.world, self.faults, self.ladder = world, Faults(), LADDER
        self.parcels.clear()
        self._acks.clear()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None
        for socket in list(self.sockets):
            await socket.close()
        self.sockets.clear()
        self.parcels.clear()
