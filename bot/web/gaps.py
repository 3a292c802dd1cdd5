"""What the quality page shows of gaps and of the trust ramp, and what can be done there."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bot.gaps import Cluster
from bot.principals import unreadable
from bot.telling import opinion, reason
from bot.web.door import Site, field, posted
from bot.web.views import Reader
from bot.web.visitor import visitor
from bot.words import Words
from store.text import clean

SHOWN = 50  # clusters
FIRST = 8  # of them open, the others behind a click


@dataclass(frozen=True, slots=True)
class GapView:
    key: str
    week: str
    text: str
    kinds: tuple[tuple[str, int], ...]
    reasons: tuple[str, ...]
    owner: str


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


async def own(request: Request, site: Site) -> Response:
    form = await posted(request)
    owner = clean(field(form, "owner")).strip()
    if owner and unreadable([owner]):
        raise HTTPException(400, "audience")
    by = site.pages.reader(request).person.principal
    if await site.app.gaps.own(request.path_params["key"], owner, by) is None:
        raise HTTPException(404)
    return _back(request, "gaps")


async def put_back(request: Request, site: Site) -> Response:
    form = await posted(request)
    if not await site.app.trust.put_back(field(form, "topic"), site.pages.reader(request).person.principal):
        raise HTTPException(404)
    return _back(request, "ramp")


def _back(request: Request, part: str) -> Response:
    return RedirectResponse(f"{visitor(request).base}/console/quality#{part}", status_code=303)
