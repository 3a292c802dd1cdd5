"""The console's page on what to mend: gaps by week with their owners, and where topics stand on the trust ramp."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.gaps import Cluster
from bot.principals import unreadable
from bot.telling import opinion, reason
from bot.web.door import Site, field, needs, posted
from bot.web.views import Reader
from bot.web.visitor import visitor
from bot.words import Words
from store.text import clean

SHOWN = 50  # clusters


@dataclass(frozen=True, slots=True)
class GapView:
    key: str
    week: str
    text: str
    kinds: tuple[tuple[str, int], ...]
    reasons: tuple[str, ...]
    owner: str


def routes() -> list[Route]:
    address = "/console/quality"
    return [
        Route(address, needs("admin", page), methods=["GET"]),
        Route(address + "/gaps/{key:str}", needs("admin", own), methods=["POST"]),
        Route(address + "/ramp", needs("admin", put_back), methods=["POST"]),
    ]


def view(cluster: Cluster, reader: Reader, words: Words) -> GapView:
    """A cluster as the page shows it."""
    told = dict.fromkeys(
        (reason if gap.kind == "rejected" else opinion)(words, reader.language, gap.reason)
        for gap in cluster.gaps
        if gap.reason
    )
    return GapView(
        key=cluster.key,
        week=cluster.week,
        text=cluster.gaps[0].text,
        kinds=tuple(sorted(cluster.kinds.items())),
        reasons=tuple(told),
        owner=cluster.owner,
    )


async def page(request: Request, site: Site) -> Response:
    reader, app = site.pages.reader(request), site.app
    return site.pages.page(
        request,
        "quality.html",
        room="quality",
        gaps=[view(cluster, reader, app.words) for cluster in (await app.gaps.clusters())[:SHOWN]],
        ramp=app.trust.ramp,
        topics=await app.trust.topics() if app.trust.ramp.after else [],
    )


async def own(request: Request, site: Site) -> Response:
    form = await posted(request)
    owner = clean(field(form, "owner")).strip()
    if owner and unreadable([owner]):
        raise HTTPException(400, "audience")
    by = site.pages.reader(request).person.principal
    if await site.app.gaps.own(request.path_params["key"], owner, by) is None:
        raise HTTPException(404)
    return _back(request)


async def put_back(request: Request, site: Site) -> Response:
    form = await posted(request)
    if not await site.app.trust.put_back(field(form, "topic"), site.pages.reader(request).person.principal):
        raise HTTPException(404)
    return _back(request)


def _back(request: Request) -> Response:
    return RedirectResponse(f"{visitor(request).base}/console/quality", status_code=303)
