"""What machines ask: is it alive, can it serve, what has it counted."""

import asyncio

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot import health
from bot.web.door import Site, site_of
from bot.web.visitor import visitor

log = structlog.get_logger(__name__)

# Guessing the token goes at most twice a second, however many try at once.
WRONG_TOKEN_SECONDS = 0.5
BEARER = "Bearer "
guessing = asyncio.Lock()


def routes() -> list[Route]:
    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]


async def healthz(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"status": "alive"})


async def readyz(request: Request) -> Response:
    """Each dependency with a reason; 503 only where this process cannot serve."""
    checks = await health.check(site_of(request).app)
    ready = health.ready(checks)
    told = {name: {"state": one.state, "why": one.why} for name, one in checks.items()}
    return JSONResponse(
        {"status": "ready" if ready else "not ready", "checks": told}, status_code=200 if ready else 503
    )


async def metrics(request: Request) -> Response:
    """For Prometheus. Where there is a console token it is asked for, as a bearer's: numbers tell how a house works.
    Without one nobody but this machine can reach the port (`signoff serve` refuses to listen elsewhere)."""
    site = site_of(request)
    if not await _admitted(request, site):
        return PlainTextResponse(
            "Send the console token: Authorization: Bearer …\n",
            status_code=401,
            headers={"WWW-Authenticate": 'Bearer realm="signoff"'},
        )
    body, content_type = await site.app.telemetry.metrics.exposed(
        site.app.store.standings, request.headers.get("accept", "")
    )
    return Response(body, headers={"Content-Type": content_type})


async def _admitted(request: Request, site: Site) -> bool:
    if site.app.settings.console_token is None:
        return True
    person = visitor(request).person
    if person is not None and person.admin:
        return True
    given = request.headers.get("authorization", "")
    if given.startswith(BEARER) and site.people.admits(given.removeprefix(BEARER).strip()):
        return True
    if given:
        async with guessing:
            await asyncio.sleep(WRONG_TOKEN_SECONDS)
        log.warning("metrics.refused")
    return False
