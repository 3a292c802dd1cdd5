"""How events and card callbacks reach the app: over the long connection or by signed HTTP, with Feishu's ladder.

https://open.feishu.cn/document/server-docs/event-subscription-guide (three seconds; again after 15 s, 5 min, 1 h,
6 h; an encrypted body and its signature), /document/…/long-connection (one of at most 50 connections gets each event).
"""

import asyncio
import base64
import hashlib
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from Crypto.Cipher import AES

from tests.emulators.feishu.frames import CONTROL, DATA, Frame
from tests.emulators.feishu.world import TENANT, Json, World

LADDER = (15.0, 300.0, 3_600.0, 21_600.0)  # seconds after the attempt before it
CONNECTIONS = 50
FRAGMENT = 1_500  # bytes; longer payloads come in pieces
TICK = 0.01


@dataclass
class Faults:
    """What goes wrong next; counters are used up one by one."""

    lose_acks: int = 0
    duplicates: int = 0
    deaf: bool = False  # connections stay open and answer pings, but deliver nothing
    black_hole: bool = False  # connections stay open and say nothing at all
    break_before_ack: int = 0
    shuffle: bool = False  # pieces of one payload arrive in another order


@dataclass
class Parcel:
    kind: str  # event | click
    body: Json
    identity: str
    due: float
    attempts: list[Json] = field(default_factory=list)
    acked: bool = False
    given_up: bool = False
    response: Any = None
    acked_after: float | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def public(self) -> Json:
        return {
            "kind": self.kind,
            "type": self.body.get("header", {}).get("event_type"),
            "id": self.identity,
            "attempts": self.attempts,
            "acked": self.acked,
            "given_up": self.given_up,
            "acked_after": self.acked_after,
            "response": self.response,
        }


class Delivery:
    """`url` is where HTTP deliveries go (`/events` or `/card` is added); empty means the long connection."""

    def __init__(self, world: World, ack_seconds: float) -> None:
        self.world = world
        self.ack_seconds = ack_seconds
        self.url = ""
        self.encrypt_key, self.token = "stand-in-encrypt-key", "stand-in-verification-token"
        self.faults = Faults()
        self.sockets: list[web.WebSocketResponse] = []
        self.parcels: list[Parcel] = []
        self.pings = 0
        self._acks: dict[str, asyncio.Future[Json]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- sending

    def body(self, event_type: str, event: Json) -> Json:
        return {
            "schema": "2.0",
            "header": {
                "event_id": uuid.uuid4().hex,
                "event_type": event_type,
                "create_time": str(int(self.world.clock.now() * 1_000)),
                "token": self.token,
                "app_id": self.world.app_id,
                "tenant_key": TENANT,
            },
            "event": event,
        }

    def send(self, kind: str, body: Json) -> Parcel:
        parcel = Parcel(
            kind, body, body.get("header", {}).get("event_id") or uuid.uuid4().hex, self.world.clock.now()
        )
        self.parcels.append(parcel)
        self._start(self._deliver(parcel))
        if kind == "event" and self.faults.duplicates:
            self.faults.duplicates -= 1
            self.repeat(parcel)
        return parcel

    def repeat(self, parcel: Parcel) -> Parcel:
        again = Parcel(parcel.kind, parcel.body, parcel.identity, self.world.clock.now())
        self.parcels.append(again)
        self._start(self._deliver(again))
        return again

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, parcel: Parcel) -> None:
        for number in range(len(LADDER) + 1):
            while self.world.clock.now() < parcel.due:
                await asyncio.sleep(TICK)
            attempt: Json = {"at": self.world.clock.now(), "number": number}
            parcel.attempts.append(attempt)
            began = time.perf_counter()
            answer = await (self._http(parcel) if self.url else self._socket(parcel))
            if answer["outcome"] == "acked" and self.faults.lose_acks:
                self.faults.lose_acks -= 1
                answer = {"outcome": "timeout"}
            attempt["outcome"] = answer["outcome"]
            if answer["outcome"] == "acked":
                parcel.acked, parcel.response = True, answer.get("payload")
                parcel.acked_after = time.perf_counter() - began
                break
            if parcel.kind != "event" or number == len(LADDER):
                parcel.given_up = True  # whoever clicked sees an error
                break
            parcel.due = self.world.clock.now() + LADDER[number]
        parcel.done.set()

    # --- the long connection

    async def _socket(self, parcel: Parcel) -> Json:
        deadline = time.monotonic() + self.ack_seconds
        while not (alive := self.alive()) or self.faults.deaf or self.faults.black_hole:
            if time.monotonic() > deadline:
                return {"outcome": "timeout"}
            await asyncio.sleep(TICK)
        socket = self.world.random.choice(alive)
        identity = uuid.uuid4().hex
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._acks[identity] = waiting
        try:
            for frame in self._frames(parcel, identity):
                await socket.send_bytes(frame.encode())
            if self.faults.break_before_ack:
                self.faults.break_before_ack -= 1
                await socket.close()
                return {"outcome": "connection_failed"}
            got = await asyncio.wait_for(waiting, self.ack_seconds)
        except (TimeoutError, ConnectionError):
            return {"outcome": "timeout"}
        finally:
            self._acks.pop(identity, None)
        if got.get("code") != 200:
            return {"outcome": f"code {got.get('code')}"}
        data = got.get("data")
        return {"outcome": "acked", "payload": json.loads(base64.b64decode(data)) if data else None}

    def alive(self) -> list[web.WebSocketResponse]:
        return [socket for socket in self.sockets if not socket.closed]

    def _frames(self, parcel: Parcel, identity: str) -> list[Frame]:
        payload = json.dumps(parcel.body, ensure_ascii=False).encode()
        pieces = [payload[at : at + FRAGMENT] for at in range(0, len(payload), FRAGMENT)]
        kind = "card" if parcel.kind == "old card" else "event"
        made = [
            Frame(
                DATA,
                {
                    "type": kind,
                    "message_id": identity,
                    "trace_id": uuid.uuid4().hex,
                    "sum": str(len(pieces)),
                    "seq": str(number),
                },
                piece,
            )
            for number, piece in enumerate(pieces)
        ]
        if self.faults.shuffle:
            self.world.random.shuffle(made)
        return made

    async def serve_socket(self, socket: web.WebSocketResponse) -> None:
        self.sockets.append(socket)
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or self.faults.black_hole:
                continue
            frame = Frame.decode(message.data)
            if frame.method == CONTROL and frame.headers.get("type") == "ping":
                self.pings += 1
                config = json.dumps(client_config()).encode()
                await socket.send_bytes(Frame(CONTROL, {"type": "pong"}, config).encode())
                continue
            waiting = self._acks.get(frame.headers.get("message_id", ""))
            if waiting is not None and not waiting.done():
                waiting.set_result(json.loads(frame.payload))
        self.sockets.remove(socket)

    # --- signed HTTP

    async def _http(self, parcel: Parcel) -> Json:
        path = "/card" if parcel.kind == "click" else "/events"
        try:
            status, answer = await self.post(path, self.sealed(parcel.body))
        except (aiohttp.ClientError, TimeoutError) as error:
            return {"outcome": "timeout" if isinstance(error, TimeoutError) else "connection_failed"}
        return {"outcome": "acked", "payload": answer} if status == 200 else {"outcome": f"status {status}"}

    def sealed(self, body: Json) -> bytes:
        """Encrypted: AES-256-CBC, the key's SHA-256, the first 16 bytes are the iv."""
        plain = json.dumps(body, ensure_ascii=False).encode()
        padding = 16 - len(plain) % 16
        iv = self.world.random.randbytes(16)
        cipher = AES.new(hashlib.sha256(self.encrypt_key.encode()).digest(), AES.MODE_CBC, iv)
        packed = iv + cipher.encrypt(plain + bytes([padding]) * padding)
        return json.dumps({"encrypt": base64.b64encode(packed).decode()}).encode()

    async def post(
        self, path: str, body: bytes, *, at: float | None = None, signed: bool = True
    ) -> tuple[int, Any]:
        # Signed when it is sent, by the clock that the receiver has too: what a test has wound forward is ours alone.
        stamp, nonce = str(int(time.time() if at is None else at)), uuid.uuid4().hex[:10]
        headers = {
            "Content-Type": "application/json",
            "X-Lark-Request-Timestamp": stamp,
            "X-Lark-Request-Nonce": nonce,
        }
        if signed:
            signature = hashlib.sha256((stamp + nonce + self.encrypt_key).encode() + body).hexdigest()
            headers["X-Lark-Signature"] = signature
        timeout = aiohttp.ClientTimeout(total=self.ack_seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(self.url + path, data=body, headers=headers) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for socket in self.alive():
            await socket.close()


def client_config() -> Json:
    return {"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 30, "PingInterval": 120}
