"""Calling the Web API: one session, rate limits obeyed, and errors told apart by what may be done about them."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from bot.messages import NotTaken
from bot.settings import Slack

SECONDS = 15.0
RATE_LIMIT_TRIES = 3
# docs.slack.dev/apis/web-api/rate-limits: one message a second and channel, short bursts are allowed. At most four in
# any five seconds: a bucket that fills up again lets twice as many through at first.
POSTS, PERIOD = 4, 5.0
CHANNELS_MOST = 2_000
# Errors after which the same call may succeed: docs.slack.dev/reference/methods, "Errors" common to all.
PASSING = frozenset(
    {
        "ratelimited",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "accesslimited",
    }
)


class Turns:
    """Who may post in a channel: at most `POSTS` in any `PERIOD` seconds, first come, first served."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._posted: deque[float] = deque()

    async def wait(self) -> None:
        """Return when it is the caller's turn."""
        async with self._one:
            while self._posted and (
                len(self._posted) >= POSTS or self._posted[0] < time.monotonic() - PERIOD
            ):
                await asyncio.sleep(max(0.0, self._posted[0] + PERIOD - time.monotonic()))
                self._posted.popleft()
            self._posted.append(time.monotonic())


class Calls:
    """The house's way out. `client` belongs to it; `close` ends its session."""

    def __init__(self, settings: Slack) -> None:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS))
        # Slack's own default also repeats after a lost connection, which posts twice: a message that was taken but
        # never confirmed is looked up instead.
        self.client = AsyncWebClient(
            token=settings.bot_token.get_secret_value(),
            base_url=settings.api_url,
            session=self._session,
            retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=RATE_LIMIT_TRIES)],
        )
        self._turns: dict[str, Turns] = {}

    async def close(self) -> None:
        await self._session.close()

    async def __call__(self, method: Callable[..., Awaitable[Any]], **arguments: Any) -> Mapping[str, Any]:
        """Call a method of the client. Raises `ConnectionError` for what may pass, `NotTaken` for what will not."""
        try:
            answer = await method(**{key: value for key, value in arguments.items() if value is not None})
        except SlackApiError as error:
            raise _translated(error) from error
        except aiohttp.ClientError as error:
            raise ConnectionError(type(error).__name__) from error
        data: Mapping[str, Any] = answer.data
        return data

    async def post(self, **arguments: Any) -> Mapping[str, Any]:
        """chat.postMessage at the pace that its channel bears, without unfurling."""
        channel = str(arguments["channel"])
        if len(self._turns) > CHANNELS_MOST:
            self._turns.clear()
        await self._turns.setdefault(channel, Turns()).wait()
        return await self(self.client.chat_postMessage, unfurl_links=False, unfurl_media=False, **arguments)

    async def respond(self, url: str, body: Mapping[str, Any]) -> bool:
        """Answer through a response_url; False when it is used up or expired. Raises `ConnectionError` when the
        result is unknown."""
        try:
            async with self._session.post(url, json=dict(body)) as response:
                if response.status >= 500:
                    raise ConnectionError(str(response.status))
                return response.status == 200
        except aiohttp.ClientError as error:
            raise ConnectionError(type(error).__name__) from error

    async def download(self, url: str, limit: int) -> tuple[str, bytes]:
        """The content type and bytes of a file of ours, `limit` + 1 bytes at most. The token goes to the address as it
        stands and to no redirect of it. Raises `NotTaken` with the status, `ConnectionError` when it broke off."""
        headers = {"Authorization": f"Bearer {self.client.token}"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise NotTaken(str(response.status))
                data = bytearray()
                async for piece in response.content.iter_chunked(1 << 16):
                    data += piece
                    if len(data) > limit:
                        break
                return response.content_type, bytes(data)
        except aiohttp.ClientError as error:
            raise ConnectionError(type(error).__name__) from error


def _translated(error: SlackApiError) -> Exception:
    data = getattr(error.response, "data", None)
    code = str(data.get("error") or "") if isinstance(data, dict) else ""
    status = getattr(error.response, "status_code", 0) or 0
    if not code or code in PASSING or status >= 500:
        return ConnectionError(code or f"status {status}")
    return NotTaken(code)
