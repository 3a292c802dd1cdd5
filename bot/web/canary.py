"""The console's page on a variant that is tried: where it stands, and what an administrator does about it."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.canary import Refused
from bot.canary_lines import ending, refusal, said
from bot.web.door import Site, field, needs, posted
from bot.web.pages import Said
from bot.web.visitor import visitor
from store.text import clean

ADDRESS = "/console/canary"


def routes() -> list[Route]:
    return [
        Route(ADDRESS, needs("admin", page), methods=["GET"]),
        Route(ADDRESS, needs("admin", act), methods=["POST"]),
    ]


async def page(request: Request, site: Site, refused: Refused | None = None) -> Response:
    app, language = site.app, visitor(request).language
    status = await app.trying.status()
    return site.pages.page(
        request,
        "canary.html",
        status=409 if refused else 200,
        room="quality",
        notice=Said(refusal(app.words, language, refused), "bad") if refused else None,
        canary=status,
        lines=said(app.words, language, status),
        ending=ending(app.words, language, status),
        variants=sorted(app.settings.variants),
    )


async def act(request: Request, site: Site) -> Response:
    form = await posted(request)
    trying, by = site.app.trying, site.pages.reader(request).person.principal
    verb, force = field(form, "verb"), field(form, "force") == "on"
    try:
        if verb == "start":
            percent = field(form, "percent")
            await trying.start(
                field(form, "variant"),
                by,
                percent=int(percent) if percent.isdecimal() and len(percent) < 4 else None,
                channels=clean(field(form, "channels")).split(),
                force=force,
            )
        elif verb == "promote":
            await trying.promote(by, force=force)
        elif verb == "rollback":
            await trying.rollback(by, clean(field(form, "reason")).strip())
    except Refused as error:
        return await page(request, site, error)
    return RedirectResponse(f"{visitor(request).base}{ADDRESS}", status_code=303)
