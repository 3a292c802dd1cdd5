"""The console's list of verified answers, and one of them."""

from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.web.door import Site, by_htmx, field, needs, posted
from bot.web.render import Cite, markdown
from bot.web.views import Reader
from bot.web.visitor import visitor
from store.verified import Source, VerifiedRow

STATES = ("active", "review", "retired")


@dataclass(frozen=True, slots=True)
class VerifiedView:
    id: int
    question: str
    state: str
    reason: str
    by: str
    at: datetime
    uses: int
    readers: str
    html: Markup


def routes() -> list[Route]:
    address = "/console/verified"
    one = address + "/{verified:int}"
    return [
        Route(address, needs("admin", shelf), methods=["GET"]),
        Route(one, needs("admin", show), methods=["GET"]),
        Route(one + "/retire", needs("admin", retire), methods=["POST"]),
    ]


def view(row: VerifiedRow, uses: int, reader: Reader) -> VerifiedView:
    """A row as the page shows it."""
    cites = {int(c["number"]): Cite("", "") for c in row.answer.get("citations", ())}
    known = row.reason in ("changed", "old", "wrong", "retired")
    return VerifiedView(
        id=row.id,
        question=row.question,
        state=row.state,
        reason=reader.t(f"verified.reasons.{row.reason}") if known else row.reason,
        by=reader.name(row.signed_by),
        at=row.signed_at,
        uses=uses,
        readers=", ".join(row.audience) or reader.t("review.nobody"),
        html=markdown(str(row.answer.get("text", "")), cites),
    )


async def shelf(request: Request, site: Site) -> Response:
    reader, store = site.pages.reader(request), site.app.store.verified
    state = request.query_params.get("state", "")
    uses = await store.counts()
    rows = await store.list(state if state in STATES else None)
    return site.pages.page(
        request,
        "verified.html",
        room="verified",
        on=site.app.settings.review.verified,
        states=STATES,
        state=state if state in STATES else "",
        rows=[view(row, uses.get(row.id, 0), reader) for row in rows],
    )


async def show(request: Request, site: Site) -> Response:
    store = site.app.store.verified
    row = await store.get(request.path_params["verified"])
    sources: list[Source] = await store.sources(row.id)
    uses = await store.counts()
    return site.pages.page(
        request,
        "verified_one.html",
        room="verified",
        row=view(row, uses.get(row.id, 0), site.pages.reader(request)),
        sources=sources,
    )


async def retire(request: Request, site: Site) -> Response:
    """Out of service for good; with `wrong` what was sent is taken back."""
    form = await posted(request)
    wrong = field(form, "wrong") == "yes"
    person = site.pages.reader(request).person.principal
    await site.app.verifying.retire(
        request.path_params["verified"], person, "wrong" if wrong else "retired", wrong=wrong
    )
    address = f"{visitor(request).base}/console/verified"
    if by_htmx(request):
        return Response(headers={"HX-Redirect": address})
    return RedirectResponse(address, status_code=303)
