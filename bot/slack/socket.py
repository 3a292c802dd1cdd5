"""Socket Mode: one connection kept awake, watched, and made anew when it has gone deaf.

The SDK reconnects when Slack closes a connection or leaves its pings unanswered. It does not notice a connection that
opens and then delivers nothing (slackapi/bolt-python#1529, python-slack-sdk#1701): Slack greets every connection that
works, so one without a greeting is dead.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog
from aiohttp import WSMessage
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

log = structlog.get_logger(__name__)

KEEP_ALIVE = 60.0  # seconds; a call now and then keeps idle connections awake (slackapi/bolt-python#1529)
DEAF_AFTER = 45.0  # seconds without a connection until it is made anew; the SDK tries for itself before
HELLO_WITHIN = 10.0  # seconds from opening a connection to its greeting
LOOK = 5.0  # seconds between two looks


class Connection:
    """`awake` is called every `KEEP_ALIVE` seconds; it must make a call to Slack. `took` is told the seconds from each
    payload to its acknowledgement."""

    def __init__(
        self,
        bolt: AsyncApp,
        app_token: str,
        api_url: str,
        awake: Callable[[], Awaitable[None]],
        took: Callable[[float], None],
    ) -> None:
        self._bolt, self._app_token, self._api_url, self._awake = bolt, app_token, api_url, awake
        self._took = took
        self._handler: Any = None
        self._session: Any = None  # the websocket that was looked at last
        self._session_at = 0.0
        self._greeted: Any = None  # the websocket that said hello
        self.deaf_since: float | None = None  # monotonic; None while it hears

    def deaf(self, seconds: float) -> bool:
        """Whether nothing could be heard for longer than that."""
        return self.deaf_since is not None and time.monotonic() - self.deaf_since > seconds

    async def run(self) -> None:
        """Stay connected until cancelled."""
        self.deaf_since = time.monotonic()
        woken_at = time.monotonic()
        try:
            await self._connect()
            while True:
                await self._look()
                if time.monotonic() - woken_at >= KEEP_ALIVE:
                    woken_at = time.monotonic()
                    await self._awake()
                await asyncio.sleep(min(LOOK, KEEP_ALIVE, HELLO_WITHIN, DEAF_AFTER) / 2)
        finally:
            await self._close()

    async def _look(self) -> None:
        """Is there a connection, and was it greeted? If not for too long, make another one."""
        now, session = time.monotonic(), self._handler.client.current_session
        if session is not self._session:
            self._session, self._session_at = session, now
        connected = await self._handler.client.is_connected()
        if connected and self._greeted is session:
            self.deaf_since = None
            return
        self.deaf_since = self.deaf_since or now
        dumb = connected and now - self._session_at > HELLO_WITHIN
        if dumb or now - self.deaf_since > DEAF_AFTER:
            log.warning("slack.deaf", seconds=round(now - self.deaf_since))
            await self._close()
            await self._connect()

    async def _connect(self) -> None:
        handler = AsyncSocketModeHandler(
            self._bolt,
            self._app_token,
            logger=logging.getLogger("slack_socket"),
            web_client=AsyncWebClient(base_url=self._api_url),
        )
        handler.client.on_message_listeners.append(self._heard)
        handler.client.socket_mode_request_listeners[:] = [partial(self._timed, handler)]
        self._handler, self._session, self._session_at = handler, None, time.monotonic()
        await handler.connect_async()  # type: ignore[no-untyped-call]

    async def _timed(self, handler: AsyncSocketModeHandler, client: Any, request: Any) -> None:
        began = time.perf_counter()
        await handler.handle(client, request)
        self._took(time.perf_counter() - began)

    async def _heard(self, message: WSMessage) -> None:
        if '"hello"' in str(message.data)[:200]:
            self._greeted = self._handler.client.current_session
            self.deaf_since = None

    async def _close(self) -> None:
        if self._handler is not None:
            await self._handler.close_async()
