"""What must work for Slack to work, each with its remedy. Nothing here changes anything in the workspace."""

import asyncio
import json
from typing import TYPE_CHECKING

import aiohttp
from slack_sdk.errors import SlackApiError

from bot.acquaintance import Unknown
from bot.findings import Finding
from bot.messages import NotTaken
from bot.slack.send import SlackHouse

if TYPE_CHECKING:
    from bot.app import App

# Without these nothing is answered; without the others something is left away (manifests/slack-minimal.yaml).
NEEDED = frozenset(
    {
        "app_mentions:read",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "groups:read",
        "im:history",
        "users:read",
    }
)
BETTER = {
    "channels:history": "follow-ups in public threads need a mention",
    "groups:history": "follow-ups in private threads need a mention",
    "mpim:history": "follow-ups in group direct messages need a mention",
    "mpim:read": "group direct messages are not answered, with a sentence that says so",
    "reactions:read": "who put an emoji on an answer is not told when it is corrected",
    "im:write": "a direct message with an unknown result is not looked up",
    "assistant:write": "no suggested prompts",
    "usergroups:read": "administrators by user group are not recognised",
    "users:read.email": "nobody is linked with their accounts elsewhere by e-mail",
}
HELLO_SECONDS = 10.0


async def examine_slack(app: "App", house: SlackHouse) -> list[Finding]:
    """Token, scopes, connection, and each review channel in Slack."""
    token = await _token(house)
    if not token.ok:
        return [token]
    findings = [token, await _scopes(house)]
    if house.settings.app_token is not None:
        findings.append(await _socket(house))
    return [*findings, *await review_channels(app, house)]


async def review_channels(app: "App", house: SlackHouse) -> list[Finding]:
    """Each review channel in Slack: private, not shared, the bot and the reviewers inside."""
    return [await _review_channel(app, house, channel) for channel in house.review_channels]


async def _token(house: SlackHouse) -> Finding:
    try:
        ours = await house.people.identity()
    except SlackApiError as error:
        code = str(error.response.get("error"))
        remedy = "Copy the app's Bot User OAuth Token (xoxb-…) into SLACK_BOT_TOKEN; reinstall it if it was revoked."
        return Finding("slack token", False, code, remedy)
    except (aiohttp.ClientError, TimeoutError) as error:
        return Finding(
            "slack token",
            False,
            type(error).__name__,
            "Check that this machine reaches slack.com over HTTPS.",
        )
    return Finding("slack token", True, f"{ours.user_id} in {ours.team_id}")


async def _scopes(house: SlackHouse) -> Finding:
    scopes = (await house.people.identity()).scopes
    missing = sorted(NEEDED - scopes)
    if missing:
        remedy = "Paste manifests/slack.yaml into the app's manifest page and reinstall the app."
        return Finding("slack scopes", False, f"missing: {', '.join(missing)}", remedy)
    without = [f"{scope} ({effect})" for scope, effect in BETTER.items() if scope not in scopes]
    return Finding(
        "slack scopes", True, f"without {'; '.join(without)}" if without else f"{len(scopes)} granted"
    )


async def _socket(house: SlackHouse) -> Finding:
    """How many connections this app has. Ours is there for a moment; what Slack sends to it meanwhile is not
    acknowledged, so that Slack sends it again to the serving one."""
    name = "slack connection"
    assert house.settings.app_token is not None
    client = house.calls.client
    try:
        opened = await house.calls(
            client.apps_connections_open, app_token=house.settings.app_token.get_secret_value()
        )
        count = await _hello(str(opened["url"]))
    except NotTaken as error:
        remedy = "Make an app-level token (xapp-…) with connections:write and put it into SLACK_APP_TOKEN."
        return Finding(name, False, str(error), remedy)
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        return Finding(
            name, False, type(error).__name__, "Check that this machine reaches wss://wss-primary.slack.com."
        )
    if count < 2:
        remedy = "Start `signoff serve`, or restart it: its connection is dead."
        return Finding(name, False, "no serving process is connected", remedy)
    if count > 2:
        detail = f"{count - 1} processes share this app: each gets a part of the messages"
        return Finding(
            name, True, detail, "Use one app for each environment; several serving processes of one are fine."
        )
    return Finding(name, True, "connected")


async def _hello(url: str) -> int:
    """`num_connections` of Slack's greeting, ours included."""
    async with (
        asyncio.timeout(HELLO_SECONDS),
        aiohttp.ClientSession() as session,
        session.ws_connect(url) as socket,
    ):
        async for message in socket:
            greeting = json.loads(message.data)
            if greeting.get("type") == "hello":
                return int(greeting.get("num_connections", 1))
    return 0


async def _review_channel(app: "App", house: SlackHouse, channel: str) -> Finding:
    name = f"slack review channel {channel}"
    try:
        found = await house.people.channel(channel)
    except Unknown:
        remedy = f"Write /invite @signoff in it, or correct the id {channel}."
        return Finding(name, False, "Slack does not show it to the bot", remedy)
    if not found.member:
        return Finding(name, False, "the bot is not in it", f"Write /invite @signoff in {found.name}.")
    if found.shared:
        return Finding(
            name, False, "it is shared with another organisation", "Take a channel of this workspace alone."
        )
    if not found.private:
        return Finding(name, False, "everybody can join it and read drafts", "Make it a private channel.")
    try:
        inside = await house.people.members(channel)
    except Unknown:
        return Finding(name, False, "Slack does not say who is in it", "Paste manifests/slack.yaml again.")
    listed = [p for p in app.settings.review.reviewers if p.startswith("slack:")]
    outside = [p for p in listed if p.removeprefix("slack:") not in inside]
    if not listed:
        remedy = 'Name Slack user ids in signoff.toml: reviewers = ["slack:U…"].'
        return Finding(name, False, "no reviewer is named", remedy)
    if outside:
        remedy = f"Invite them to {found.name}, or take them off the list."
        return Finding(name, False, f"not in it: {', '.join(outside)}", remedy)
    return Finding(name, True, f"{found.name}, private, {len(listed)} reviewers inside")
