"""Bolt as it is used here: whose token it is, what nobody asked for, and what a failure answers."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError

from bot.afterwards import where
from bot.messages import MALFORMED
from bot.slack.send import SlackHouse

log = structlog.get_logger(__name__)


def authorized_as(house: SlackHouse) -> Callable[[], Awaitable[AuthorizeResult]]:
    """Bolt's own authorisation answers 200 when Slack is unreachable, and the event is lost; this one raises."""

    async def authorize() -> AuthorizeResult:
        ours = await house.people.identity()
        return AuthorizeResult(
            enterprise_id=ours.enterprise_id,
            team_id=ours.team_id,
            bot_user_id=ours.user_id,
            bot_id=ours.bot_id,
            bot_token=house.settings.bot_token.get_secret_value(),
        )

    return authorize


async def rate_limited(body: dict[str, Any], next: Any) -> BoltResponse | None:
    """More than 30,000 events an hour: Slack says so and drops the rest (slackapi/bolt-python#1070)."""
    if body.get("type") != "app_rate_limited":
        await next()
        return None
    log.error("slack.rate_limited", minute=body.get("minute_rate_limited"))
    return BoltResponse(status=200, body="")


async def ignored() -> None:
    """An event that nobody asked for."""


async def acknowledged(ack: Any) -> None:
    await ack()


async def failed(error: Exception, body: dict[str, Any]) -> BoltResponse:
    """Not acknowledged: Slack repeats an event, and shows a warning for a click."""
    event = body.get("event_id") if isinstance(body, dict) else None
    log.error("slack.failed", error=type(error).__name__, payload=event, at=where(error))
    return BoltResponse(status=400 if isinstance(error, MALFORMED) else 503, body="")


def code_of(error: SlackApiError) -> str:
    return str(error.response.get("error") or error.response.status_code)
