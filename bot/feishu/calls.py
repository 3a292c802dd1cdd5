"""Calling the open platform: tokens renewed, rate limits obeyed, errors told apart by what may be done about them.

The SDK's synchronous client in threads of ours. Its a-methods fetch tokens with blocking `requests` on the event loop
and make an `httpx.AsyncClient` – 25 ms of certificates – for each call; they also lose the headers' spelling, so that
errors of downloads come back without a code.
"""

import asyncio
import io
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests
import structlog
from aiolimiter import AsyncLimiter
from requests_toolbelt import MultipartEncoder

from bot.feishu.sdk import BaseRequest, BaseResponse, ObtainAccessTokenException, TokenManager, lark
from bot.messages import NotTaken
from bot.settings import Feishu

log = structlog.get_logger(__name__)

SECONDS = 15.0
THREADS = 16
KEPT_MOST = 2_000  # limiters
TRIES = 4
# open.feishu.cn/document/server-docs/getting-started/server-error-codes
TOKEN_ENDED = frozenset({99991661, 99991663, 99991664, 99991668})
# Rate limits and system pressure at the full hour: the same call succeeds a little later (openclaw#70879, #89659).
PASSING = frozenset({99991400, 230020, 230006, 11232, 1500, 1000004, 99991000, 2200})
CREDENTIALS = frozenset({10003, 10014, 99991671})


@dataclass(frozen=True, slots=True)
class Api:
    """An address of the open platform. tests/unit/test_feishu_manifest.py finds every one in this house."""

    method: str
    path: str


TENANT = Api("GET", "/open-apis/tenant/v2/tenant/query")
BOT_INFO = Api("GET", "/open-apis/bot/v3/info")
SCOPES = Api("GET", "/open-apis/application/v6/scopes")
CREATE = Api("POST", "/open-apis/im/v1/messages")
REPLY = Api("POST", "/open-apis/im/v1/messages/:message_id/reply")
MESSAGE = Api("GET", "/open-apis/im/v1/messages/:message_id")
PATCH = Api(
    "PATCH", "/open-apis/im/v1/messages/:message_id"
)  # never PUT: 230001 on cards (hermes-agent#8162)
REACT = Api("POST", "/open-apis/im/v1/messages/:message_id/reactions")
REACTIONS = Api("GET", "/open-apis/im/v1/messages/:message_id/reactions")
UNREACT = Api("DELETE", "/open-apis/im/v1/messages/:message_id/reactions/:reaction_id")
RESOURCE = Api("GET", "/open-apis/im/v1/messages/:message_id/resources/:file_key")
UPLOAD = Api("POST", "/open-apis/im/v1/files")
CHAT = Api("GET", "/open-apis/im/v1/chats/:chat_id")
MEMBERS = Api("GET", "/open-apis/im/v1/chats/:chat_id/members")
USER = Api("GET", "/open-apis/contact/v3/users/:user_id")
CARD_CREATE = Api("POST", "/open-apis/cardkit/v1/cards")
CARD_UPDATE = Api("PUT", "/open-apis/cardkit/v1/cards/:card_id")
CARD_SETTINGS = Api("PATCH", "/open-apis/cardkit/v1/cards/:card_id/settings")
CARD_CONTENT = Api("PUT", "/open-apis/cardkit/v1/cards/:card_id/elements/:element_id/content")


class Refused(NotTaken):
    """The platform's answer, for good. `code` is its code, `detail` what it said (no people's text)."""

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(str(code))
        self.code, self.detail = code, detail


class NoToken(ConnectionError):
    """Feishu gives no token for these credentials; the message is its code. They may be being rotated just now."""


class Calls:
    """The house's way out. `close` ends its threads."""

    def __init__(self, settings: Feishu) -> None:
        self._app_id = settings.app_id
        self._client = (
            lark.Client.builder()
            .app_id(settings.app_id)
            .app_secret(settings.app_secret.get_secret_value())
            .domain(settings.domain)
            .timeout(SECONDS)
            .log_level(lark.LogLevel.CRITICAL)
            .build()
        )
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="feishu-call")
        self._limiters: dict[str, AsyncLimiter] = {}

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    async def __call__(
        self,
        api: Api,
        path: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        pace: str = "",
    ) -> Mapping[str, Any]:
        """The `data` of the answer. `pace` is what shares a rate limit: a chat, a message, a card.

        Raises `ConnectionError` for what may pass, `Refused` for what will not.
        """
        answer = await self._answered(
            api, path or {}, query or {}, dict(body) if body is not None else None, pace
        )
        found = answer.get("data", answer)
        return found if isinstance(found, Mapping) else {}

    async def download(self, message_id: str, key: str, limit: int) -> bytes:
        """The bytes of a file in a message; `Refused` or `ConnectionError`. Feishu allows 100 MB; what is longer than
        `limit` comes back cut to `limit` + 1."""
        request = _request(RESOURCE, {"message_id": message_id, "file_key": key}, {"type": "file"}, None)
        response = await self._sent(request)
        raw = response.raw
        kind = str(raw.headers.get("Content-Type", "")) if raw is not None else ""
        if raw is None or raw.status_code != 200 or kind.startswith("application/json"):
            data = _parsed(response)
            raise _error(int(data.get("code") or 0), data, raw.status_code if raw is not None else 0)
        return bytes(raw.content[: limit + 1])

    async def upload(self, name: str, data: bytes) -> str:
        """The key of a file handed to Feishu."""
        encoder = MultipartEncoder(
            {"file_type": "stream", "file_name": name, "file": (name, io.BytesIO(data), "text/markdown")}
        )
        request = _request(UPLOAD, {}, {}, None)
        request.body = encoder
        request.headers["Content-Type"] = encoder.content_type
        answer = _checked(await self._sent(request))
        return str(answer["data"]["file_key"])

    async def _answered(
        self,
        api: Api,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        body: dict[str, Any] | None,
        pace: str,
    ) -> Mapping[str, Any]:
        for attempt in range(TRIES):
            if pace:
                await self._limiter(pace).acquire()
            response = await self._sent(_request(api, path, query, body))
            try:
                return _checked(response)
            except Refused as error:
                if error.code not in TOKEN_ENDED or attempt:
                    raise
                # Revoked on their side: the SDK would go on using it for two hours (99991663, HTTP 200).
                TokenManager.cache.cache.pop(f"self_tenant_token:{self._app_id}", None)
            except Later as later:
                if attempt + 1 == TRIES:
                    raise ConnectionError(str(later)) from later
                await asyncio.sleep(later.seconds * (attempt + 1))
        raise ConnectionError("rate limited")

    async def _sent(self, request: BaseRequest) -> BaseResponse:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._client.request, request)
        except ObtainAccessTokenException as error:
            raise NoToken(str(error.code)) from error
        except requests.RequestException as error:
            raise ConnectionError(type(error).__name__) from error
        except ValueError as error:  # a gateway's page that calls itself JSON
            raise ConnectionError("not JSON") from error

    def _limiter(self, pace: str) -> AsyncLimiter:
        if len(self._limiters) > KEPT_MOST:
            self._limiters.clear()
        # 5 a second for each chat and for each message, shared by all bots; 10 for each card.
        rate = 8 if pace.startswith("card:") else 4
        return self._limiters.setdefault(pace, AsyncLimiter(rate, 1.0))


class Later(Exception):
    """A limit was met; the same call succeeds after `seconds`."""

    def __init__(self, code: int, seconds: float) -> None:
        super().__init__(str(code))
        self.seconds = seconds


def _request(
    api: Api, path: Mapping[str, str], query: Mapping[str, Any], body: dict[str, Any] | None
) -> BaseRequest:
    made = BaseRequest()
    made.http_method = lark.HttpMethod[api.method]
    made.uri = api.path
    made.token_types = {lark.AccessTokenType.TENANT}
    made.paths = dict(path)
    made.queries = [(key, str(value)) for key, value in query.items() if value not in (None, "")]
    made.body = body
    made.headers = {"Content-Type": "application/json; charset=utf-8"} if body is not None else {}
    return made


def _parsed(response: BaseResponse) -> dict[str, Any]:
    """The body, which the SDK's own model would narrow to code and msg."""
    if response.raw is None or response.raw.content is None:
        return {}
    try:
        found = json.loads(response.raw.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _checked(response: BaseResponse) -> dict[str, Any]:
    """Codes come with HTTP 200, 400 and 429 alike; a gateway's page comes with none."""
    data = _parsed(response)
    status = response.raw.status_code if response.raw is not None and response.raw.status_code else 0
    if data.get("code") == 0:
        return data
    headers = response.raw.headers if response.raw is not None else {}
    raise _error(int(data.get("code") or 0), data, status, headers)


def _error(
    code: int, data: Mapping[str, Any], status: int, headers: Mapping[str, Any] | None = None
) -> Exception:
    if code in PASSING or status == 429:
        reset = (headers or {}).get("x-ogw-ratelimit-reset", "1")
        return Later(code, min(10.0, float(reset) if str(reset).isdigit() else 1.0))
    if not code or status >= 500:
        return ConnectionError(f"status {status}")
    return Refused(code, str(data.get("msg") or "")[:200])
