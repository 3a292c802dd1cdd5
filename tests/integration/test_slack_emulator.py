"""The stand-in itself: as strict as Slack, and in the shapes that Slack's own SDK tests with."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from tests.emulators.slack.client import ROOT, Impossible, StandIn
from tests.emulators.slack.delivery import Delivery
from tests.emulators.slack.driver import Driver
from tests.emulators.slack.limits import Refused, check_message, check_view, links, pings
from tests.emulators.slack.scopes import Manifest
from tests.emulators.slack.web_api import store_view
from tests.emulators.slack.world import World

GOLDEN = json.loads((ROOT / "tests/emulators/slack/golden.json").read_text(encoding="utf-8"))
# Fields of the SDK's examples that a workspace outside Enterprise Grid does not have, or that are decoration.
ELSEWHERE = (
    "enterprise_id", "enterprise_name", "authed_users", "team.enterprise_id", "team.enterprise_name",
    "event.media_display_type", "event.bot_profile.", "event.files.0.media_display_type",
    "event.files.0.permalink_public",
    "event.files.0.has_rich_preview", "event.display_as_bot", "event.root.", "event.assistant_thread.context.",
)  # fmt: skip


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    with StandIn(ack_seconds=0.4) as running:
        yield running


@pytest.fixture
async def slack(process: StandIn) -> StandIn:
    await process.do("reset")
    return process


async def api(slack: StandIn, method: str, token: str = "", **arguments: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token or slack.environment['SLACK_BOT_TOKEN']}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{slack.base}/api/{method}", json=arguments, headers=headers) as response,
    ):
        return dict(await response.json())


def fields(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        found: dict[str, str] = {prefix[:-1]: "object"} if prefix else {}
        for key, inner in value.items():
            found |= fields(inner, f"{prefix}{key}.")
        return found
    if isinstance(value, list):
        return {prefix[:-1]: "array"} | (fields(value[0], f"{prefix}0.") if value else {})
    names = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
    return {prefix[:-1]: names[type(value)]}


@pytest.fixture
async def payloads() -> AsyncIterator[dict[str, Any]]:
    """One payload of each kind, as the stand-in would send it."""
    world = World()
    delivery = Delivery(world, "secret", 0.05)
    driver = Driver(world, delivery, Manifest.read(ROOT / "manifests/slack.yaml"))
    world.im("U0ADA")
    root = (await driver.say("U0ADA", "C0GEN", "<@U0BOT> hi", wait=False))["ts"]
    (await driver.say("U0ADA", "C0GEN", "to all", thread=root, broadcast=True, wait=False))
    file = (await driver.upload("U0ADA", "a.md", "aGVsbG8="))["file"]
    await driver.say("U0ADA", "D0ADA", "a file", files=[file], wait=False)
    await driver.say("U0OTHERBOT", "C0GEN", "beep", wait=False)
    place = world.channels["C0GEN"]
    driver.changed(
        place, dict(place.messages[root]), {**place.messages[root], "edited": {"user": "U", "ts": "1.0"}}
    )
    gone = (await driver.say("U0ADA", "C0GEN", "oops", wait=False))["ts"]
    button: dict[str, Any] = {
        "type": "button",
        "action_id": "a",
        "value": "v",
        "text": {"type": "plain_text", "text": "Go"},
    }
    posted = world.put(
        place, {"user": "U0BOT", "text": "x", "blocks": [{"type": "actions", "elements": [button]}]}
    )
    await driver.click("U0ADA", "C0GEN", posted["ts"], "a", wait=False)
    field = {"type": "input", "block_id": "hspI", "optional": False, "label": {"type": "plain_text", "text": "Label"},
             "element": {"type": "plain_text_input", "action_id": "maBWU"}}  # fmt: skip
    view = {"type": "modal", "title": button["text"], "submit": button["text"], "close": button["text"],
            "notify_on_close": True, "callback_id": "c", "blocks": [field]}  # fmt: skip
    world.open_views["U0ADA"] = [store_view(world, view, "U0ADA")["id"]]
    waiting = [
        asyncio.create_task(driver.delete("U0ADA", "C0GEN", gone)),
        asyncio.create_task(driver.command("U0ADA", "C0GEN", "/ask", "hello")),
        asyncio.create_task(driver.submit("U0ADA", {"hspI": "text"})),
        asyncio.create_task(driver.close("U0ADA")),
    ]
    older = Manifest.read(ROOT / "manifests/slack.yaml")
    older.agent = "assistant_view"
    waiting.append(asyncio.create_task(Driver(world, delivery, older).open_messages("U0ADA")))
    await asyncio.sleep(0)
    found = {}
    for parcel in delivery.parcels:
        event = parcel.body.get("event", {})
        kind = event.get("subtype") or event.get("type") or parcel.body.get("type") or "slash_command"
        found["bot_message" if event.get("bot_id") else kind] = parcel.body
    yield found
    for task in waiting:
        task.cancel()
    await delivery.stop()


@pytest.mark.parametrize("kind", sorted(GOLDEN["shapes"]))
async def test_payloads_carry_every_field_of_the_sdks_own_examples(
    kind: str, payloads: dict[str, Any]
) -> None:
    """Each payload has the fields, of the same JSON types, that slack-bolt's tests use for it."""
    ours = fields(payloads[kind])
    wanted = {
        name: kind_of
        for name, kind_of in GOLDEN["shapes"][kind]["fields"].items()
        if not name.startswith(ELSEWHERE)
    }
    nullable = {name for name in wanted if name.startswith("authorizations.0.")}
    assert {name for name in wanted if name not in ours} == set()
    assert {n: ours[n] for n in wanted if n not in nullable and n in ours and ours[n] != wanted[n]} == {}


async def test_a_mention_arrives_twice_with_one_ts(payloads: dict[str, Any]) -> None:
    """app_mention and message share channel and ts but not the event id."""
    mention, message = payloads["app_mention"], payloads["message"]
    assert mention["event"]["channel"] == message["event"]["channel"]
    assert mention["event_id"] != message["event_id"]


TEXT = {"type": "mrkdwn", "text": "x"}
BUTTON = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "x"}}


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "divider"}] * 51,
        [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}],
        [{"type": "section", "fields": [TEXT] * 11}],
        [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}],
        [{"type": "header", "text": TEXT}],
        [{"type": "context", "elements": [TEXT] * 11}],
        [{"type": "actions", "elements": [{**BUTTON, "action_id": str(i)} for i in range(26)]}],
        [{"type": "actions", "elements": [BUTTON, BUTTON]}],
        [{"type": "actions", "elements": [{**BUTTON, "text": {"type": "plain_text", "text": "x" * 76}}]}],
        [{"type": "actions", "elements": [{**BUTTON, "value": "x" * 2_001}]}],
        [{"type": "markdown", "text": "x" * 12_001}],
        [{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}] * 2,
        [{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]] * 101}],
        [{"type": "table", "rows": [[{"type": "raw_text", "text": ""}]]}],
        [{"type": "section", "text": TEXT, "colour": "red"}],
        [{"type": "input", "label": {"type": "plain_text", "text": "x"}, "element": BUTTON}],
        [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text"}]}]}],
        [{"type": "hologram"}],
    ],
)  # fmt: skip
def test_blocks_beyond_the_limits_are_refused(blocks: list[dict[str, Any]]) -> None:
    """Every documented limit of blocks has an example that the stand-in refuses."""
    with pytest.raises(Refused):
        check_message("x", blocks)


def test_a_payload_of_more_than_thirteen_thousand_characters_is_refused() -> None:
    """Blocks that are each within their limits are still too long together."""
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 2_900}}] * 5
    with pytest.raises(Refused, match="msg_blocks_too_long"):
        check_message("x", blocks)


def test_a_view_beyond_the_limits_is_refused() -> None:
    """A title of 25 characters, too much private metadata and inputs without a submit button are refused."""
    title = {"type": "plain_text", "text": "x"}
    field = {"type": "input", "label": title, "element": {"type": "plain_text_input", "action_id": "a"}}
    for view in (
        {"type": "modal", "title": {"type": "plain_text", "text": "x" * 25}, "blocks": []},
        {"type": "modal", "title": title, "blocks": [], "private_metadata": "x" * 3_001},
        {"type": "modal", "title": title, "blocks": [field]},
    ):
        with pytest.raises(Refused):
            check_view(view)


def test_pings_and_links_are_recognised() -> None:
    """Broadcasts, user mentions and bare addresses count wherever Slack would parse them."""
    user = {"type": "user", "user_id": "U1"}
    rich = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [user]}]}
    assert len(pings([rich], "<!here> &lt;!channel&gt;")) == 2
    assert links([{"type": "markdown", "text": "see [a](https://x.example) https://y.example"}], "") != []
    assert links([], "https:\u2060//x.example") == []


async def test_scopes_come_from_the_manifest(slack: StandIn) -> None:
    """A method whose scope the manifest does not grant answers missing_scope and names it."""
    manifest = Manifest.read(ROOT / "manifests/slack.yaml").content
    manifest["oauth_config"]["scopes"]["bot"].remove("users:read")
    await slack.do("reset", manifest=manifest)
    answer = await api(slack, "users.info", user="U0ADA")
    await slack.do("reset", manifest=Manifest.read(ROOT / "manifests/slack.yaml").content)
    assert (answer["error"], answer["needed"]) == ("missing_scope", "users:read")


async def test_errors_are_slacks_own(slack: StandIn) -> None:
    """Wrong token, unknown channel, a channel without the bot, a reply's ts as thread: each has Slack's code."""
    assert (await api(slack, "auth.test", token="xoxb-wrong"))["error"] == "invalid_auth"
    assert (await api(slack, "chat.postMessage", channel="C404", text="x"))["error"] == "channel_not_found"
    assert (await api(slack, "chat.postMessage", channel="C0NOBOT", text="x"))["error"] == "not_in_channel"
    root = await slack.say("U0ADA", "C0GEN", "one", wait=False)
    reply = await slack.say("U0LIN", "C0GEN", "two", thread=root, wait=False)
    assert (await api(slack, "chat.postMessage", channel="C0GEN", text="x", thread_ts=reply))["ok"] is False


async def test_an_unacknowledged_event_is_sent_four_times(slack: StandIn) -> None:
    """Without an acknowledgement the ladder is climbed to its end, on a clock that is wound forward."""
    await slack.say("U0ADA", "C0GEN", "hello", wait=False)
    for _ in range(4):
        await asyncio.sleep(0.5)
        await slack.do("wind", seconds=301)
    await slack.do("settle")
    delivery = (await slack.world())["deliveries"][0]
    assert [attempt["number"] for attempt in delivery["attempts"]] == [0, 1, 2, 3]
    assert delivery["attempts"][1]["reason"] == "http_timeout"


async def test_a_trigger_expires_and_works_once(slack: StandIn) -> None:
    """views.open takes a trigger within three seconds, and no trigger twice."""
    view = {"type": "modal", "title": {"type": "plain_text", "text": "x"}, "blocks": [{"type": "divider"}]}
    answer = await api(slack, "views.open", trigger_id="1.2.3", view=view)
    assert answer["error"] == "invalid_trigger_id"


async def test_a_stream_closes_by_itself(slack: StandIn) -> None:
    """After 300 seconds an append meets message_not_in_streaming_state and chat.update still works."""
    root = await slack.say("U0ADA", "C0GEN", "x", wait=False)
    missing = await api(slack, "chat.startStream", channel="C0GEN", thread_ts=root)
    assert missing["error"] == "missing_recipient_user_id"
    reader = {"recipient_user_id": "U0ADA", "recipient_team_id": "T0SIGN"}
    started = await api(slack, "chat.startStream", channel="C0GEN", thread_ts=root, **reader)
    await slack.do("wind", seconds=301)
    late = await api(slack, "chat.appendStream", channel="C0GEN", ts=started["ts"], markdown_text="y")
    mended = await api(slack, "chat.update", channel="C0GEN", ts=started["ts"], text="whole")
    assert (late["error"], mended["ok"]) == ("message_not_in_streaming_state", True)


async def test_a_file_without_the_token_is_a_login_page(slack: StandIn) -> None:
    """A download without authorisation answers 200 and HTML, as the original does."""
    file = await slack.upload("U0ADA", "rules.md", b"# Rules")
    info = await api(slack, "files.info", file=file)
    async with (
        aiohttp.ClientSession() as session,
        session.get(info["file"]["url_private_download"]) as response,
    ):
        assert (response.status, response.content_type) == (200, "text/html")


async def test_lost_answers_have_had_their_effect(slack: StandIn) -> None:
    """The fault `lost` posts the message and then drops the connection."""
    await slack.do("fault", method="chat.postMessage", kind="lost")
    with pytest.raises(aiohttp.ClientError):
        await api(slack, "chat.postMessage", channel="C0GEN", text="x")
    assert len((await slack.world())["channels"]["C0GEN"]["messages"]) == 1


async def test_a_tight_loop_meets_the_rate_limit(slack: StandIn) -> None:
    """With rates on, the sixth message in a row to one channel is answered 429 with Retry-After."""
    await slack.do("set", rates=True)
    answers = [await api(slack, "chat.postMessage", channel="C0GEN", text="x") for _ in range(6)]
    assert [answer["ok"] for answer in answers] == [True] * 5 + [False]


async def test_nobody_clicks_what_is_not_there(slack: StandIn) -> None:
    """The driver refuses a button that is not rendered and a channel that the person is not in."""
    ts = (await api(slack, "chat.postMessage", channel="C0GEN", text="no buttons"))["ts"]
    with pytest.raises(Impossible, match="no button"):
        await slack.click("U0ADA", "C0GEN", ts, "approve")
    with pytest.raises(Impossible, match="not in"):
        await slack.say("U0EXT", "C0HR", "hello")


async def test_the_stand_in_runs_alone(process: StandIn) -> None:
    """Started by itself it says where it is within two seconds, and what the bot's environment should be."""
    began = time.perf_counter()
    with StandIn() as other:
        assert other.base != process.base
        assert other.environment["SLACK_API_URL"].startswith("http://127.0.0.1:")
    assert time.perf_counter() - began < 8
