"""The long connection: the SDK's client over a runner of ours, in a thread with a loop of its own.

What the SDK's client lacks, and why (lark-oapi 1.7.5, pinned; tests/unit/test_feishu_connection.py holds its names):
it takes a loop at import and blocks on it, cannot be stopped, asks for its address without a time-out, runs handlers
on its loop, drops frames of type "card" without an acknowledgement, and when credentials fail during a reconnect it
stays as a thread that is connected to nothing and says so nowhere.
"""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog

from bot.feishu.sdk import ClientConfig, Frame, lark, ws
from bot.settings import Feishu

log = structlog.get_logger(__name__)

ENDPOINT = "/callback/ws/endpoint"
ANSWER_SECONDS = 2.7  # of the three in which a callback has to be answered


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Black-holed connections are replaced within ping + silent + a second; tests compress all of them."""

    ping: float = 15.0
    silent: float = 20.0  # after a ping without any frame
    connect: float = 15.0
    longest_pause: float = 15.0  # between two attempts
    refused_pause: float = 20.0  # after refused credentials: an operator may be rotating them
    # A connection that pongs and delivers nothing looks like a quiet night: it is replaced now and then, the new one
    # first (riba2534/happyclaw#650, larksuite/openclaw-lark#158).
    quiet: float = 3_600.0
    grace: float = 45.0  # without a connection until /readyz says so
    tick: float = 0.5


@dataclass(frozen=True, slots=True)
class Takers:
    """Whom payloads are given to. `event` runs in the connection's thread and has stored it when it returns; `click`
    runs on the application's loop and returns the answer."""

    event: Callable[[Mapping[str, Any]], None]
    click: Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
    busy: Callable[[], Mapping[str, Any]]  # the answer to a click that takes longer than Feishu waits


class Denied(Exception):
    """Feishu refuses the credentials; the message is its code."""


class Connection(ws.Client):  # type: ignore[misc] # the SDK is untyped here
    """One connection. It never reconnects by itself: `gone` is set, and the runner makes another."""

    def __init__(self, settings: Feishu, takers: Takers, home: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            settings.app_id,
            settings.app_secret.get_secret_value(),
            log_level=lark.LogLevel.CRITICAL,
            domain=settings.domain,
        )
        self._takers, self._home = takers, home
        self._address = ""
        self.gone = asyncio.Event()
        self.heard_at = self.delivered_at = time.monotonic()

    async def open(self, seconds: float) -> None:
        """Connect. Raises `Denied`, or whatever kept it from connecting."""
        async with asyncio.timeout(seconds):
            found = await self._endpoint()
            if found.get("code") in (ws.SYSTEM_BUSY, ws.INTERNAL_ERROR):
                raise ConnectionError(str(found["code"]))
            if found.get("code") != ws.OK:
                raise Denied(str(found.get("code")))
            self._address = found["data"]["URL"]
            if found["data"].get("ClientConfig"):
                self._configure(ClientConfig(found["data"]["ClientConfig"]))
            try:
                await self._connect()
            except ws.ClientException as error:
                raise Denied(str(error)) from error
        self.heard_at = self.delivered_at = time.monotonic()

    async def _endpoint(self) -> dict[str, Any]:
        """Where to connect to. The SDK asks with a blocking call that waits for ever."""
        body = {"AppID": self._app_id, "AppSecret": self._app_secret}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._domain}{ENDPOINT}", json=body, headers={"locale": "zh"}) as answer,
        ):
            if answer.status != 200:
                raise ConnectionError(f"status {answer.status}")
            found: dict[str, Any] = await answer.json(content_type=None)
        return found

    async def ping(self) -> None:
        await self._write_message(ws._new_ping_frame(int(self._service_id)).SerializeToString())

    async def close(self) -> None:
        self.gone.set()
        self._cache._cron.cancel()
        try:
            await asyncio.wait_for(self._disconnect(), 2.0)
        except (TimeoutError, OSError):
            log.info("feishu.close_cut")

    # --- what the SDK calls

    def _get_conn_url(self) -> str:
        return self._address

    async def _reconnect(self) -> None:
        self.gone.set()

    async def _handle_message(self, msg: bytes) -> None:
        self.heard_at = time.monotonic()
        await super()._handle_message(msg)

    async def _handle_data_frame(self, frame: Frame) -> None:
        """One payload, whole: stored or answered, and only then acknowledged. Also those of type "card", which the SDK
        would leave unanswered (larksuite/oapi-sdk-python#126)."""
        headers = {header.key: header.value for header in frame.headers}
        payload = frame.payload
        if int(headers.get("sum", 1)) > 1:
            payload = self._combine(headers["message_id"], int(headers["sum"]), int(headers["seq"]), payload)
            if payload is None:
                return
        self.delivered_at = time.monotonic()
        code, answer = 200, None
        try:
            answer = await self._taken(json.loads(payload))
        except Exception as error:  # noqa: BLE001 - whatever it is, not acknowledged: Feishu sends it again
            log.error("feishu.not_taken", error=type(error).__name__)
            code = 500
        said: dict[str, Any] = {"code": code}
        if answer is not None:
            packed = json.dumps(answer, ensure_ascii=False).encode()
            said["data"] = base64.b64encode(packed).decode()
        frame.payload = json.dumps(said).encode()
        await self._write_message(frame.SerializeToString())

    async def _taken(self, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
        kind = (body.get("header") or {}).get("event_type")
        if kind != "card.action.trigger":
            self._takers.event(body)
            return None
        working: Future[Mapping[str, Any]] = asyncio.run_coroutine_threadsafe(
            _awaited(self._takers.click(body)), self._home
        )
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(working)), ANSWER_SECONDS)
        except TimeoutError:
            return self._takers.busy()


async def _awaited(work: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return await work


class Runner:
    """Keeps one connection alive from `start` to `stop`. `unwell` says why nothing is heard, "" when all is well."""

    def __init__(self, settings: Feishu, takers: Takers, timing: Timing | None = None) -> None:
        self._settings, self._takers = settings, takers
        self._timing = timing or Timing()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._current: Connection | None = None
        self._problem = "not connected yet"
        self._since = self._beat = time.monotonic()
        self.connections = 0  # made so far

    def start(self) -> None:
        """Call it on the application's loop."""
        home = asyncio.get_running_loop()
        self._since = self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(home,), name="feishu", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Close the connection and end the thread."""
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stopping.set)
            await asyncio.to_thread(self._thread.join, 5.0)

    @property
    def connected(self) -> bool:
        return self._current is not None and not self._current.gone.is_set()

    def unwell(self) -> str:
        now = time.monotonic()
        if self._thread is not None and not self._thread.is_alive():
            return "its thread has ended"
        if now - self._beat > self._timing.grace:
            return "its thread does not answer"
        if self._problem and now - self._since > self._timing.grace:
            return self._problem
        # Refused credentials do not mend themselves.
        return self._problem if self._problem.startswith("refused") else ""

    # --- in the thread

    def _run(self, home: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._main(home))

    async def _main(self, home: asyncio.AbstractEventLoop) -> None:
        self._stopping = asyncio.Event()
        failures = 0
        while not self._stopping.is_set():
            self._beat = time.monotonic()
            connection = await self._opened(home)
            if connection is None:
                failures += 1
                await self._sleep(self._pause(failures))
                continue
            failures = 0
            self._current = connection
            await self._tend(home)
            self._say("connection lost")
        if self._current is not None:
            await self._current.close()

    def _pause(self, failures: int) -> float:
        if self._problem.startswith("refused"):
            return self._timing.refused_pause
        return min(self._timing.longest_pause, 0.5 * 2.0 ** min(failures, 10))

    async def _opened(self, home: asyncio.AbstractEventLoop) -> Connection | None:
        connection = Connection(self._settings, self._takers, home)
        try:
            await connection.open(self._timing.connect)
        except Denied as error:
            self._say(f"refused: {error}")
            log.error("feishu.refused", code=str(error))
        except Exception as error:  # noqa: BLE001 - any failure to connect is met by trying again, and said in /readyz
            self._say(f"cannot connect: {type(error).__name__}")
            log.warning("feishu.unreachable", error=type(error).__name__)
        else:
            self.connections += 1
            self._problem = ""
            log.info("feishu.connected")
            return connection
        await connection.close()
        return None

    def _say(self, problem: str) -> None:
        if not self._problem:
            self._since = time.monotonic()
        self._problem = problem

    async def _tend(self, home: asyncio.AbstractEventLoop) -> None:
        """Stay until the connection is lost, has gone silent, or the runner stops."""
        assert self._stopping is not None
        pinged = time.monotonic()
        while not self._stopping.is_set():
            connection = self._current
            assert connection is not None
            now = self._beat = time.monotonic()
            if connection.gone.is_set():
                break
            if now - connection.heard_at > self._timing.ping + self._timing.silent:
                log.warning("feishu.silent", seconds=round(now - connection.heard_at))
                break
            if now - connection.delivered_at > self._timing.quiet:
                await self._replace(home, connection)
                continue
            if now - pinged >= self._timing.ping:
                pinged = now
                if not await self._pinged(connection):
                    break
            await self._sleep(self._timing.tick)
        if self._current is not None and not self._stopping.is_set():
            await self._current.close()

    async def _replace(self, home: asyncio.AbstractEventLoop, old: Connection) -> None:
        """The new connection first: what Feishu sends meanwhile goes to one of the two."""
        fresh = await self._opened(home)
        if fresh is None:
            old.delivered_at = time.monotonic()  # it still lives: try again after another quiet time
            self._problem = ""
            return
        self._current = fresh
        await old.close()

    async def _pinged(self, connection: Connection) -> bool:
        try:
            await asyncio.wait_for(connection.ping(), 5.0)
        except Exception as error:  # noqa: BLE001 - websockets raises many kinds; all mean the connection is over
            log.info("feishu.ping_lost", error=type(error).__name__)
            return False
        return True

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but wake up for the stop, for a lost connection, and to say that the thread lives."""
        assert self._stopping is not None
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._stopping.is_set():
            self._beat = time.monotonic()
            if self._current is not None and self._current.gone.is_set() and not self._problem:
                return
            try:
                await asyncio.wait_for(self._stopping.wait(), min(left, self._timing.tick))
            except TimeoutError:
                continue
