"""The workspace as one ASGI application: routes, and in which order a request passes what."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bot.web import canary, configuration, console, decide, listen, probes, quality, runs, threads, verified
from bot.web.door import Site, by_htmx, field, ours, posted, site_of
from bot.web.guard import HEADERS, LOOPBACK, SafeHeaders, SameOrigin
from bot.web.pages import FOLDER, Pages, Said
from bot.web.people import People
from bot.web.send import Broadcast
from bot.web.visitor import KEY, Visitor, Visitors, give_cookie, preferred, visitor, with_language
from store.errors import DatabaseUnavailable, NotFound, Unstorable

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

FORM_BYTES = 256_000


def build_site(app: "App", *, personas: bool) -> Starlette:
    """The workspace over an open application.

    `personas`: everybody may be each of the three, and only loopback names are answered; `signoff up` says so.
    Without them SIGNOFF_CONSOLE_TOKEN is asked for, and where it is not set nobody gets in.
    """
    people = People(app.settings, personas=personas)
    site = Site(
        app=app,
        people=people,
        pages=Pages(app.settings, app.words, people),
        broadcast=Broadcast(app.store.changes),
        deliverer=app.deliverer,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        listening = asyncio.create_task(site.broadcast.run())
        try:
            yield
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    starlette = Starlette(
        routes=[
            *probes.routes(),
            Route("/login", login_page, methods=["GET"]),
            Route("/login", login, methods=["POST"]),
            Route("/logout", logout, methods=["POST"]),
            Route("/language", language, methods=["POST"]),
            *threads.routes(),
            *listen.routes(),
            *decide.routes(),
            *console.routes(app.settings.ingest.max_megabytes),
            *verified.routes(),
            *quality.routes(),
            *runs.routes(),
            *configuration.routes(),
            *canary.routes(),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(SameOrigin, hosts=LOOPBACK if personas else ()),
            Middleware(Visitors, people=people),
        ],
        exception_handlers={
            HTTPException: refused,
            NotFound: not_found,
            Unstorable: not_found,
            DatabaseUnavailable: unavailable,
            Exception: failed,
        },
        lifespan=lifespan,
        max_body_size=FORM_BYTES,
    )
    starlette.state.site = site
    return starlette


# --- signing in ------------------------------------------------------------------------------------------------


async def login_page(request: Request) -> Response:
    site = site_of(request)
    back = request.query_params.get("next", "")
    if visitor(request).person is not None:
        return RedirectResponse(back if ours(back) else "/", status_code=303)
    return site.pages.page(request, "login.html", closed=site.people.closed, wrong=False, back=back)


async def login(request: Request) -> Response:
    site = site_of(request)
    form = await posted(request)
    back = field(form, "next")
    if not site.people.admits(field(form, "token")):
        async with probes.guessing:
            await asyncio.sleep(probes.WRONG_TOKEN_SECONDS)
        log.warning("login.refused")
        closed = site.people.closed
        return site.pages.page(request, "login.html", status=403, closed=closed, wrong=True, back=back)
    session = site.people.signed_in(visitor(request).session)
    response = RedirectResponse(back if ours(back) else "/console/documents", status_code=303)
    return give_cookie(response, site.people, session, secure=request.url.scheme == "https")


async def logout(request: Request) -> Response:
    site = site_of(request)
    await posted(request)
    response = RedirectResponse("/login", status_code=303)
    return give_cookie(response, site.people, site.people.new(), secure=request.url.scheme == "https")


async def language(request: Request) -> Response:
    site = site_of(request)
    form = await posted(request)
    back = field(form, "back", "/")
    session = with_language(visitor(request).session, field(form, "language"))
    response = RedirectResponse(back if ours(back) else "/", status_code=303)
    return give_cookie(response, site.people, session, secure=request.url.scheme == "https")


# --- what goes wrong is said in a sentence ---------------------------------------------------------------------

SENTENCES = {401: "signin", 403: "forbidden", 404: "missing", 405: "missing", 413: "large"}
DETAILS = frozenset({"form", "role", "own", "empty", "long", "files", "channel"})


async def refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 400
    detail = error.detail if isinstance(error, HTTPException) and error.detail in DETAILS else ""
    return _sentence(request, status, detail or SENTENCES.get(status, "failed"))


async def not_found(request: Request, error: Exception) -> Response:
    return _sentence(request, 404, "missing")


async def unavailable(request: Request, error: Exception) -> Response:
    log.warning("page.database_unavailable", path=request.scope["path"], cause=repr(error.__cause__))
    return _sentence(request, 503, "database")


async def failed(request: Request, error: Exception) -> Response:
    """Our own fault. It runs outside the other layers, so that it draws the page for nobody in particular; the
    server logs the traceback, the person gets a reference to it."""
    reference = uuid.uuid4().hex[:8]
    log.error("page.failed", reference=reference, error=type(error).__name__, path=request.scope["path"])
    if KEY not in request.scope:
        session = site_of(request).people.new()
        spoken = preferred(request.headers.get("accept-language", ""))
        request.scope[KEY] = Visitor(session, None, spoken, "", "")
    response = _sentence(request, 500, "failed", reference)
    response.headers.update({**HEADERS, "Cache-Control": "no-store"})
    return response


def _sentence(request: Request, status: int, key: str, reference: str = "") -> Response:
    pages = site_of(request).pages
    words = pages.say(visitor(request).language)
    text = words(f"web.error.{key}")
    if by_htmx(request):
        html = pages.fragment(
            request, "block.html", new=(), changed=(), gone=(), swap=True, notice=Said(text, "bad")
        )
        return HTMLResponse(html, status_code=status, headers={"HX-Reswap": "none"})
    heading = words("web.error.title_missing" if status == 404 else "web.error.title")
    return pages.page(
        request, "error.html", status=status, heading=heading, sentence=text, reference=reference
    )
