"""How the serving process lets Feishu in: over the long connection, or at /feishu/events and /feishu/card."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.feishu.connection import Timing
from bot.feishu.listen import Listener
from bot.feishu.send import FeishuHouse

if TYPE_CHECKING:
    from bot.app import App

PATHS = ("/feishu/events", "/feishu/card")
BODY_BYTES = 2_000_000  # a message holds 150 kB (docs: im/v1/message/create)


def listener_of(app: "App", timing: Timing | None = None) -> Listener | None:
    """The listener of this process; None where Feishu is not set up."""
    house = app.platforms.get("feishu")
    return Listener(app, house, timing) if isinstance(house, FeishuHouse) else None


def connection(listener: Listener) -> list[Coroutine[Any, Any, None]]:
    """What has to run beside the server."""
    return [listener.run_webhook() if listener.uses_webhook else listener.run_connection()]


def beside(site: ASGIApp, listener: Listener) -> ASGIApp:
    """`site` with Feishu's addresses in front: its requests come without cookies or origin, but signed."""
    if not listener.uses_webhook:
        return site
    events = Starlette(
        routes=[Route(path, listener.endpoint, methods=["POST"]) for path in PATHS], max_body_size=BODY_BYTES
    )

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["type"] == "http" and scope["path"] in PATHS
        await (events if ours else site)(scope, receive, send)

    return door
