"""What every request passes before a page sees it: the host, the origin, and the headers of every answer."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# No inline script or style, nothing from elsewhere, no frame around us. `data:` images are the browser's own
# controls; htmx is configured (templates/base.html) to need neither eval nor an injected style sheet.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # no-referrer would make the Origin of our own forms "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SafeHeaders:
    """Adds the headers to every answer, also to errors; pages are never stored by a browser or a proxy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


class SameOrigin:
    """Refuses what another site could have sent.

    `hosts` are the names this server answers to (empty: any). On loopback without a token that is the defence
    against DNS rebinding: a foreign name that resolves to 127.0.0.1 is not among them. A request that changes
    something must name our own origin; the form token is checked by the handlers in addition.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if self._hosts and _name(headers.get("host", "")) not in self._hosts:
                await _refuse("This address is not one that this server answers to.", scope, receive, send)
                return
            if scope["method"] not in SAFE and not from_us(headers):
                await _refuse("This request came from another site.", scope, receive, send)
                return
        await self._app(scope, receive, send)


def from_us(headers: Headers) -> bool:
    """Whether the browser says that the request comes from one of our own pages. Programs send neither header
    and pass; they hold no cookie that a person did not give them."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return origin != "null" and urlsplit(origin).netloc == headers.get("host", "")
    except ValueError:  # brackets that are no address
        return False


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _refuse(sentence: str, scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(sentence, status_code=403)(scope, receive, send)
