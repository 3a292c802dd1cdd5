"""What every page handler starts from: the site's parts, the visitor's rights, the posted form, the open stream."""

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from bot.deliver import Deliverer
from bot.web.pages import Pages
from bot.web.people import People
from bot.web.send import PING_SECONDS, Broadcast, Live, message, stream
from bot.web.visitor import PASSING, visitor

if TYPE_CHECKING:
    from bot.app import App

Need = Literal["person", "reviewer", "admin"]
Handler = Callable[[Request, "Site"], Awaitable[Response]]


@dataclass(frozen=True)
class Site:
    """The workspace, put together over one application."""

    app: "App"
    people: People
    pages: Pages
    broadcast: Broadcast
    deliverer: Deliverer


def site_of(request: Request) -> Site:
    found: Site = request.app.state.site
    return found


def needs(need: Need, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint for `handler`: whoever is not signed in is asked to, whoever may not is told so."""

    async def endpoint(request: Request) -> Response:
        person = visitor(request).person
        if person is None:
            if request.method == "GET" and not by_htmx(request):
                return _to_login(request)
            raise HTTPException(401)
        site = site_of(request)
        if need == "reviewer" and not (
            person.reviewer or await site.app.reviewing.reviewer(person.principal)
        ):
            raise HTTPException(403, "role")
        if need == "admin" and not person.admin:
            raise HTTPException(403, "role")
        try:
            return await handler(request, site)
        finally:
            await request.close()  # the temporary files of a form

    return endpoint


LANDING = ("/", "/console/documents")  # where a sign-in leads anyway


def _to_login(request: Request) -> Response:
    """Whoever is not signed in, and comes back here once they are.

    A link in a message is followed from another site, and a strict cookie does not come along: then the page is asked
    for once more, from one of our own.
    """
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.headers.get("sec-fetch-site") == "cross-site" and ours(path):
        request.scope[PASSING] = True
        return site_of(request).pages.page(request, "again.html", address=path)
    return RedirectResponse(
        "/login" if path in LANDING else f"/login?{urlencode({'next': path})}", status_code=303
    )


def ours(path: str) -> bool:
    """Whether an address is a path of this site: "//elsewhere" and "/\\elsewhere" would lead away."""
    return path.startswith("/") and not path.startswith(("//", "/\\"))


def by_htmx(request: Request) -> bool:
    """Whether the page asks from within; a browser without scripts navigates and gets whole pages."""
    return request.headers.get("hx-request") == "true"


async def posted(request: Request, *, files: int = 0) -> FormData:
    """The form, once it proved that it is one of this session's own. Raises 403 where not."""
    form = await request.form(max_files=files, max_fields=1_000)
    given = request.headers.get("x-form-token") or form.get("form_token")
    expected = visitor(request).form_token
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), expected.encode()):
        raise HTTPException(403, "form")
    return form


def field(form: FormData, name: str, default: str = "") -> str:
    """A text field of a form."""
    value = form.get(name, default)
    return value if isinstance(value, str) else default


def seen(request: Request, form: FormData | None = None) -> list[str]:
    """The blocks that the page has: "<id>:<fingerprint>" each."""
    given = request.query_params.getlist("seen") if form is None else form.getlist("seen")
    return [entry for entry in given if isinstance(entry, str)]


def feed(site: Site, topics: Sequence[str], draw: Callable[[Live], str] | None = None) -> StreamingResponse:
    """The stream of one page. It begins with "changed": whatever happened between the page and its stream, or
    while the connection was lost, is asked for at once.

    `draw` renders an answer in the making, for pages about one conversation. Without it nothing of an answer is
    sent: a page about many conversations may not show what is in each.
    """

    async def messages() -> AsyncIterator[str]:
        with site.broadcast.subscribe(topics) as page:
            yield "retry: 1000\n\n" + message("changed")
            while not page.over:
                live, changed = await page.take(PING_SECONDS)
                if draw is not None:
                    for answer in live:
                        yield message("step", draw(answer))
                if changed:
                    yield message("changed")
                if not live and not changed:
                    yield ": still here\n\n"

    return stream(messages())
