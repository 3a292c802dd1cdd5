"""The console's page on quality: the numbers over time, what to mend, and where topics stand on the trust ramp."""

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.settings import Queue
from bot.web import figures, gaps
from bot.web.door import Site, needs
from store.quality import Span
from store.text import clean

DAYS = (7, 30, 90)
STEPS = ("day", "week")
EVERY = "*"  # variants; "" is the settings themselves


def routes() -> list[Route]:
    address = "/console/quality"
    return [
        Route(address, needs("admin", page), methods=["GET"]),
        Route(address + "/gaps/{key:str}", needs("admin", gaps.own), methods=["POST"]),
        Route(address + "/ramp", needs("admin", gaps.put_back), methods=["POST"]),
    ]


def chosen(query: Mapping[str, str], zone: str, now: datetime) -> Span:
    """What the page's address asks for; what it does not know is as without it."""
    days = next((days for days in DAYS if query.get("days") == str(days)), 30)
    step = query.get("by", "week" if days == max(DAYS) else "day")
    collection, variant = clean(query.get("collection", "")), clean(query.get("variant", EVERY))
    return Span(
        now=now,
        days=days,
        step="week" if step == "week" else "day",
        zone=zone,
        collection=collection or None,
        variant=None if variant == EVERY else variant,
    )


async def page(request: Request, site: Site) -> Response:
    """Days are those of the reviewers' own queue: the office whose week the numbers are about."""
    reader, app = site.pages.reader(request), site.app
    zone = app.settings.review.queues.get("default", Queue()).zone
    span = chosen(request.query_params, zone, datetime.now(UTC))
    report = await app.store.quality.report(span)
    clusters = await app.gaps.clusters()
    return site.pages.page(
        request,
        "quality.html",
        room="quality",
        span=span,
        days=DAYS,
        steps=STEPS,
        every=EVERY,
        collections=report.collections,
        variants=report.variants,
        tiles=figures.tiles(report.whole, reader, site.app.settings.model.prices.currency),
        charts=figures.charts(report, span, reader),
        gaps=[gaps.view(cluster, reader, app.words) for cluster in clusters[: gaps.SHOWN]],
        first_gaps=gaps.FIRST,
        ramp=app.trust.ramp,
        topics=await app.trust.topics() if app.trust.ramp.after else [],
    )
