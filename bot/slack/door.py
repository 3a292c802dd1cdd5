"""How the serving process lets Slack in: over Socket Mode, or at /slack/events beside the workspace."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.slack.listen import Listener
from bot.slack.send import SlackHouse

if TYPE_CHECKING:
    from bot.app import App

PATH = "/slack/events"
BODY_BYTES = 2_000_000  # a view with all that its fields may hold is some 300 kB
DEAF = "nothing reaches this process from Slack: see `signoff doctor`"


def listener_of(app: "App") -> Listener | None:
    """The listener of this process; None where Slack is not set up. /readyz is red while it hears nothing."""
    house = app.platforms.get("slack")
    if not isinstance(house, SlackHouse):
        return None
    listener = Listener(app, house)
    app.health["slack"] = lambda: DEAF if listener.deaf() else ""
    return listener


def socket(listener: Listener) -> list[Coroutine[Any, Any, None]]:
    """What has to run beside the server: the connection, where an app token asks for Socket Mode."""
    return [listener.run_socket()] if listener.uses_socket else []


def beside(site: ASGIApp, listener: Listener) -> ASGIApp:
    """`site` with /slack/events in front: Slack's requests come without cookies or origin, but signed."""
    events = Starlette(routes=[Route(PATH, listener.endpoint, methods=["POST"])], max_body_size=BODY_BYTES)

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["type"] == "http" and scope["path"] == PATH
        await (events if ours else site)(scope, receive, send)

    return door
