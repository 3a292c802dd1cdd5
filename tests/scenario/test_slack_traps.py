"""Rows 1–28 of the pitfalls that other people's Slack bots fell into; each names the thread it is from.

None is left out. Row 19 (files.upload shares asynchronously) is met by uploading nothing, which its test holds.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.app import Parts, open_app
from bot.messages import CannotStart, Progress, Reply
from bot.slack import calls, listen, socket
from bot.slack.doctor import examine_slack
from bot.slack.posted import Posted
from bot.slack.send import SlackHouse
from tests.embedder import HashEmbedder
from tests.emulators.slack.client import StandIn
from tests.emulators.slack.scopes import Manifest
from tests.scenario.slack_team import BOT, CONTRACT, LEAVE, Team, settings_for, slack_team

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.asyncio(loop_scope="module")
OVER_SOCKET = pytest.mark.parametrize("stage", ["socket"], indirect=True)


SUBTYPES = (
    "message_replied", "channel_join", "channel_topic", "me_message", "reminder_add", "ekm_access_denied",
    "assistant_app_thread", "bot_add", "pinned_item", "tombstone", "channel_archive", "huddle_thread",
)  # fmt: skip


async def test_every_row_has_its_test() -> None:
    """One test for each of the 28 rows, by its number."""
    found = {name for name in globals() if name.startswith("test_trap_")}
    assert found == {f"test_trap_{number:02}" for number in range(1, 29)}


async def test_trap_01(team: Team) -> None:
    """bolt-python#495, #299, #326: a message of any subtype is acknowledged at the first attempt."""
    said = {"type": "message", "channel": "C0GEN", "user": "U0ADA", "text": "x", "ts": "1.0"}
    for subtype in SUBTYPES:
        sent = await team.slack.do("event", event={**said, "subtype": subtype})
        assert (subtype, sent["acked"], len(sent["attempts"])) == (subtype, True, 1)


async def test_trap_02(team: Team) -> None:
    """hermes-agent#38869: no kind of payload is left unacknowledged, or Slack turns the subscriptions off."""
    for name in ("reaction_added", "team_join", "app_context_changed", "file_shared", "emoji_changed"):
        assert (await team.slack.do("event", event={"type": name}))["acked"]
    for kind in ("shortcut", "message_action", "view_closed", "block_suggestion"):
        body = {
            "type": kind, "callback_id": "nobody", "action_id": "nobody", "block_id": "b", "value": "v",
            "user": {"id": "U0ADA", "team_id": "T0SIGN"}, "team": {"id": "T0SIGN"},
            "view": {"callback_id": "nobody", "id": "V1", "type": "modal"},
        }  # fmt: skip
        assert (await team.slack.do("payload", kind="interactive", body=body))["acked"]


async def test_trap_03(team: Team) -> None:
    """bolt-python#941, #764: a mention's two events are one question and one answer."""
    ts = await team.asked()
    await team.quiet()
    assert len(await team.answers("C0GEN", ts)) == 1
    events = [d for d in (await team.slack.world())["deliveries"] if d["type"] in ("app_mention", "message")]
    assert len([d for d in events if d["subtype"] is None]) >= 2


@pytest.mark.parametrize("only", ["app_mention", "message"])
async def test_trap_04(team: Team, only: str) -> None:
    """hermes-agent#12193: where Slack delivers only one of the two, it is enough."""
    await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}", only=only)
    assert (await team.ended(LEAVE)).state == "answered"


async def test_trap_05(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """bolt-python#868, #1027, #1355: the listener only stores, so that a slow answer delays no acknowledgement."""
    async with slack_team(spare, database_url, tmp_path, queues=()) as team:
        await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
        assert (await team.question(LEAVE)).state == "received"
        events = [d for d in (await team.slack.world())["deliveries"] if d["kind"] == "event"]
        assert all(d["acked_after"] < 1.5 for d in events)


async def test_trap_06(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """bolt-js#2487, #2188; hermes-agent#40064: replayed minutes later and after a restart, nothing is asked again."""
    async with slack_team(spare, database_url, tmp_path) as team:
        await team.slack.do("trouble", duplicates=2)
        ts = await team.asked()
        await team.slack.do("wind", seconds=368)
        await team.slack.do("replay_events")
        await team.quiet()
    async with slack_team(spare, database_url, tmp_path, fresh=False) as team:
        await team.slack.do("replay_events")
        await team.quiet()
        assert len(await team.answers("C0GEN", ts)) == 1
        await team.check_invariants()


@OVER_SOCKET
async def test_trap_07(team: Team) -> None:
    """bolt-python#448, #1071: a second process on the same app token takes a part; the doctor counts them."""
    second = asyncio.create_task(team.listener.run_socket())
    try:

        async def both() -> bool:
            return int((await team.slack.world())["connections"]) == 2

        await team.slack.until(both)
        findings = await examine_slack(team.app, team.house)
        (connection,) = [f for f in findings if f.name == "slack connection"]
        assert "2 processes share" in connection.detail
        for number in range(6):  # whichever connection gets an event, it is answered
            await team.slack.say("U0ADA", "C0GEN", f"{BOT} What does ERR_0042 mean? ({number})")
            await team.ended(f"({number})")
    finally:
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def test_trap_08(
    spare: StandIn, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bolt-python#1529, #417; python-slack-sdk#1701: an idle connection is kept awake by calls, a lost one is made
    anew, and one that opens and then says nothing is noticed, shown by /readyz, and replaced: nothing is missed. What
    came over it is timed from payload to acknowledgement."""
    monkeypatch.setattr(socket, "KEEP_ALIVE", 0.3)
    monkeypatch.setattr(socket, "HELLO_WITHIN", 1.0)
    monkeypatch.setattr(listen, "READY_WITHOUT", 0.3)
    async with slack_team(spare, database_url, tmp_path) as team:
        before = len(await team.slack.calls("auth.test"))

        async def kept_alive() -> bool:
            return len(await team.slack.calls("auth.test")) >= before + 2

        await team.slack.until(kept_alive)
        assert team.app.health["slack"]() == ""
        await team.slack.do("trouble", dumb=1)
        await team.slack.do("disconnect", reason="refresh_requested", close=False)
        asked = asyncio.create_task(team.asked())  # while nothing is heard

        async def deaf() -> bool:
            return "nothing reaches this process" in team.app.health["slack"]()

        await team.slack.until(deaf)
        await asked

        async def hearing() -> bool:
            return team.app.health["slack"]() == ""

        await team.slack.until(hearing)
        told, _ = await team.app.telemetry.metrics.exposed(team.app.store.standings)
        assert b'signoff_acknowledge_seconds_count{platform="slack"}' in told


async def test_trap_09(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """node-slack-sdk#1654: a process that ends closes its connection, so that restarts leak none."""
    for _ in range(3):
        async with slack_team(spare, database_url, tmp_path):
            pass

    async def none() -> bool:
        return int((await spare.world())["connections"]) == 0

    await spare.until(none)


@OVER_SOCKET
async def test_trap_10(team: Team, caplog: pytest.LogCaptureFixture) -> None:
    """java-slack-sdk#1256: Slack's regular refresh is no alarm, and nothing is lost over it."""
    with caplog.at_level(logging.WARNING):
        await team.slack.do("disconnect", reason="refresh_requested", close=False)
        await team.asked()
    assert [r for r in caplog.records if r.name.startswith(("slack", "signoff"))] == []


async def test_trap_11(team: Team) -> None:
    """bolt-python#306, #772; bolt-js#1662: the modal opens before anything else is asked or read."""
    _, card = await team.held()
    before = len(await team.slack.calls())
    await team.slack.do("trouble", late=2.5)
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:edit")
    calls = (await team.slack.calls())[before:]
    assert [call["method"] for call in calls][:1] == ["views.open"]
    assert calls[0]["response"]["ok"]


async def test_trap_12(team: Team) -> None:
    """simstudioai/sim#7054: a trigger that the network ate is answered with "try again"."""
    _, card = await team.held()
    await team.slack.do("trouble", late=3.5)
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:edit")
    await team.slack.until_seen("U0REV", "C0REVIEW", "try again")


async def test_trap_13(team: Team) -> None:
    """bolt-python#1070: app_rate_limited is acknowledged and logged, not failed."""
    body = {"type": "app_rate_limited", "team_id": "T0SIGN", "api_app_id": "A0SIGN", "minute_rate_limited": 1}
    assert (await team.slack.do("payload", kind="event", body=body))["acked"]


async def uploaded(team: Team, name: str, data: bytes, said: str, **more: Any) -> None:
    """Hand a file over by direct message; what the administrator is told about it."""
    changed = more.pop("changed", {})
    file = await team.slack.upload("U0ADM", name, data, **more)
    if changed:
        await team.slack.do("file", id=file, **changed)
    await team.slack.do("open_messages", user="U0ADM")
    await team.slack.say("U0ADM", "D0ADM", "kb add house", files=[file])
    await team.slack.until_seen("U0ADM", "D0ADM", said)


async def test_trap_14(team: Team) -> None:
    """bolt-python#1283: the download carries the token as a header, so that the file's own bytes arrive."""
    await uploaded(team, "rules.md", b"# Rules", "Reading rules.md", stub=True)
    (download,) = await team.slack.calls("(download)")
    assert download["arguments"]["Authorization"].startswith("Bearer xoxb-")


async def test_trap_15(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """bolt-js#2585, deno-slack-sdk#285, eve#1531: a sign-in page in place of the file is recognised, not indexed."""
    async with slack_team(spare, database_url, tmp_path) as team:
        await uploaded(team, "rules.md", b"<!DOCTYPE html><title>Slack</title>", "sign-in page")
        await uploaded(team, "plan.pdf", b"no pdf at all", "not what its ending says")
        await uploaded(team, "tune.mp3", b"ID3", "cannot read")
        assert await team.app.admin.list("house") == []


async def test_trap_16(team: Team) -> None:
    """unstructured-ingest#707: the token follows no redirect and goes to no other server."""
    await uploaded(team, "a.md", b"# A", "could not fetch", changed={"redirect": "https://evil.example/a"})
    before = len(await team.slack.calls("(download)"))
    await uploaded(team, "b.md", b"# B", "kept outside Slack", external="https://evil.example/b.md")
    assert len(await team.slack.calls("(download)")) == before


async def test_trap_17(team: Team) -> None:
    """python-slack-sdk#805, #1094: a 429 is waited for, and the answer comes once."""
    await team.slack.do("fault", method="chat.postMessage", kind="ratelimited", retry_after=1)
    ts = await team.asked()
    assert len(await team.answers("C0GEN", ts)) == 1


async def test_slacks_rates_are_kept(
    spare: StandIn, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Slack's rates counted and our own pace, a long answer and a busy card arrive without a single 429."""
    monkeypatch.setattr(calls, "POSTS", 4)
    async with slack_team(spare, database_url, tmp_path) as team:
        await team.slack.do("set", rates=True)
        ts = await team.asked()
        text = "\n\n".join(f"Paragraph {number}: " + "words and 中文 " * 40 for number in range(50))
        sent = await team.house.send(
            "notice:long", {"channel": "C0GEN", "thread": ts}, Reply("notice", text, "en")
        )
        assert len(Posted.parse(sent).parts) > 4
        assert [c for c in await team.slack.calls() if c.get("fault") == "ratelimited"] == []


async def streaming(team: Team, ts: str, question: str) -> tuple[dict[str, Any], Any]:
    """An answer that has begun to stream in the thread of `ts`."""
    address = {
        "channel": "C0GEN",
        "thread": ts,
        "asked": ts,
        "user": "U0ADA",
        "team": "T0SIGN",
        "language": "en",
    }
    for step in ("rewrite", "retrieve"):
        await team.house.progress(address, Progress(question, "c", step))
    await team.house.progress(address, Progress(question, "c", "sentence", "Fifteen days <!channel>."))
    return address, await team.slack.until(lambda: stream_with(team, "Fifteen days"))


async def stream_with(team: Team, text: str) -> dict[str, Any] | None:
    """The open stream that shows `text`."""
    messages = (await team.slack.world())["channels"]["C0GEN"]["messages"]
    return next((m for m in messages if m.get("streaming") and text in m["text"]), None)


async def test_trap_18(team: Team) -> None:
    """python-slack-sdk#1859, #1880: a stream that Slack closed goes on in another message, and is completed by
    chat.update in the first one; what it did not need is gone."""
    ts, _ = await team.held()  # a question that has no answer yet
    row = await team.question(CONTRACT)
    address, begun = await streaming(team, ts, row.id)
    assert begun["streaming"]["tasks"]["rewrite"]["status"] == "complete"
    assert begun["streaming"]["tasks"]["retrieve"]["status"] == "in_progress"
    await team.slack.do("wind", seconds=301)
    await team.house.progress(address, Progress(row.id, "c", "sentence", "More of it."))
    second = await team.slack.until(lambda: stream_with(team, "More of it"))
    assert second["ts"] != begun["ts"]
    sent = await team.house.send(
        f"answer:{row.id}", address, Reply("answer", "Fifteen days, all of it.", "en")
    )
    assert Posted.parse(sent).parts == (begun["ts"],)
    shown = await team.slack.until_seen("U0ADA", "C0GEN", "all of it", thread=ts)
    assert shown["ts"] == begun["ts"]
    assert await team.slack.calls("chat.delete")
    assert not any("More of it" in m["text"] for m in await team.slack.see("U0ADA", "C0GEN"))


async def test_a_stream_of_a_process_that_died_is_completed(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """The message that a killed process began to stream is the one that the answer fills after the restart."""
    async with slack_team(spare, database_url, tmp_path) as team:
        ts, _ = await team.held()
        row = await team.question(CONTRACT)
        address, begun = await streaming(team, ts, row.id)
        team.house.streams._running.clear()  # what a kill leaves: nothing of it in memory
    async with slack_team(spare, database_url, tmp_path, fresh=False) as team:
        await team.slack.do("wind", seconds=301)
        sent = await team.house.send(f"answer:{row.id}", address, Reply("answer", "Fifteen days.", "en"))
        assert Posted.parse(sent).parts == (begun["ts"],)


async def test_trap_19(team: Team) -> None:
    """python-slack-sdk#1329, #1545, #1591: an upload has no ts and lands outside its thread, so that nothing is
    uploaded, not even the longest answer; a file that comes in counts by its id, whatever its shares say."""
    ts = await team.asked()
    long = Reply("notice", "\n\n".join("words " * 400 for _ in range(12)), "en")
    await team.house.send("notice:file", {"channel": "C0GEN", "thread": ts}, long)
    await uploaded(team, "rules.md", b"# Rules\n\nBe kind.", "Reading rules.md", changed={"shares": {}})
    called = {call["method"] for call in await team.slack.calls() if call["method"].startswith("files.")}
    assert called == {"files.info"}
    assert "files:write" not in Manifest.read(ROOT / "manifests/slack.yaml").scopes


async def test_trap_20(team: Team) -> None:
    """bolt-js#2509: what is too long for one message is several, none of them refused."""
    ts = await team.asked()
    text = "\n\n".join(f"Paragraph {number}: " + "words and 中文 " * 40 for number in range(80))
    sent = await team.house.send(
        "notice:long", {"channel": "C0GEN", "thread": ts}, Reply("notice", text, "en")
    )
    assert len(Posted.parse(sent).parts) > 3
    assert await team.slack.until_seen("U0ADA", "C0GEN", "Paragraph 79", thread=ts)


async def test_trap_21(team: Team) -> None:
    """slack-go#792: our own message, also sent to the channel, and another bot's mention are not answered."""
    ts = await team.asked()
    own = {
        "type": "message", "subtype": "thread_broadcast", "channel": "C0GEN", "user": "U0BOT", "bot_id": "B0SIGN",
        "text": f"{BOT} {LEAVE}", "ts": "1700000000.000100", "thread_ts": ts, "channel_type": "channel",
    }  # fmt: skip
    await team.slack.do("event", event=own)
    await team.slack.say("U0OTHERBOT", "C0GEN", f"{BOT} {LEAVE}")
    await team.quiet()
    (conversation,) = await team.app.store.conversations.list("slack")
    assert len(await team.app.store.conversations.questions(conversation.id)) == 1


@pytest.mark.parametrize("transport", ["socket", "http"])
async def test_trap_22(spare: StandIn, database_url: str, tmp_path: Path, transport: str) -> None:
    """hermes-agent#100408: buttons work after a restart, and a click without the right gets a sentence."""
    async with slack_team(spare, database_url, tmp_path, transport=transport) as team:
        _, card = await team.held()
        await team.quiet()
    async with slack_team(spare, database_url, tmp_path, transport=transport, fresh=False) as team:
        await team.slack.do("channel", id="C0REVIEW", add=["U0LIN"])
        await team.slack.click("U0LIN", "C0REVIEW", card["ts"], "review:approve")
        await team.slack.until_seen("U0LIN", "C0REVIEW", "not on the list of reviewers")
        await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
        assert (await team.ended(CONTRACT)).state == "answered"
        await team.check_invariants()


async def test_trap_23(team: Team) -> None:
    """eve#2471: two drafts of one thread are decided in either order, each with its own outcome."""
    other = "第 7.1 条的赔偿责任上限是什么？"
    ts, first = await team.held()
    await team.slack.say("U0ADA", "C0GEN", f"{BOT} {other}", thread=ts)
    second = await team.card(other)
    await team.slack.click("U0REV", "C0REVIEW", second["ts"], "review:approve")
    assert "合同总价" in str((await team.ended(other)).answer)
    await team.slack.click("U0REV", "C0REVIEW", first["ts"], "review:approve")
    assert "45" in str((await team.ended(CONTRACT)).answer)


async def test_trap_24(team: Team) -> None:
    """bugbug#6898: two clicks at once decide once; the slower one is told who was faster."""
    ts, card = await team.held()
    clicks = (
        team.slack.click(user, "C0REVIEW", card["ts"], "review:approve") for user in ("U0REV", "U0REV2")
    )
    assert all(clicked["acked"] for clicked in await asyncio.gather(*clicks))
    await team.ended(CONTRACT)
    review = await team.review()
    decided = [e for e in await team.app.store.reviews.events(review.id) if e.action == "approved"]
    assert len(decided) == 1
    slower = "U0REV2" if review.decided_by == "slack:U0REV" else "U0REV"
    await team.slack.until_seen(slower, "C0REVIEW", "was faster")
    await team.slack.until_seen("U0ADA", "C0GEN", "45", thread=ts)
    await team.quiet()
    assert len([m for m in await team.answers("C0GEN", ts) if "45" in m["text"]]) == 1


async def test_trap_25(team: Team) -> None:
    """activepieces#11665: after the decision the card has no button that decides."""
    _, card = await team.held()
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
    done = await team.slack.until_seen("U0REV", "C0REVIEW", "approved by rena")
    assert {action for action in done["actions"] if action.startswith("review:")} == set()


async def test_trap_26(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """curie#766, Archon#2529: a decision made while no worker runs is carried out by the next one, in its thread."""
    async with slack_team(spare, database_url, tmp_path) as team:
        ts, card = await team.held()
    async with slack_team(spare, database_url, tmp_path, fresh=False, queues=()) as team:
        await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
        assert (await team.review()).state == "approved"
    async with slack_team(spare, database_url, tmp_path, fresh=False) as team:
        await team.slack.until_seen("U0ADA", "C0GEN", "45", thread=ts)


async def test_trap_27(team: Team) -> None:
    """agentscope#2267: whoever is in the channel without being a reviewer decides nothing, nor a reviewer who is now
    a guest."""
    _, card = await team.held()
    await team.slack.do("channel", id="C0REVIEW", add=["U0LIN"])
    for button in ("review:approve", "review:claim"):
        await team.slack.click("U0LIN", "C0REVIEW", card["ts"], button)
    await team.slack.do("user", id="U0REV2", is_restricted=True)
    await team.slack.click("U0REV2", "C0REVIEW", card["ts"], "review:approve")
    review = await team.review()
    assert (review.state, review.claimed_by) == ("pending", None)


async def test_trap_28(team: Team) -> None:
    """posthog#43263, #61571, #64804: people of another organisation are not answered, nor anybody in a channel that
    they read; nothing is stored or retrieved for them."""
    await team.slack.say("U0EXT", "C0EXT", f"{BOT} {LEAVE}")
    await team.slack.say("U0ADA", "C0EXT", f"{BOT} {LEAVE}")
    await team.slack.until_seen("U0ADA", "C0EXT", "another organisation")
    await team.quiet()
    assert await team.app.store.conversations.list("slack") == []
    world = await team.slack.world()
    assert [m for m in world["channels"]["C0EXT"]["messages"] if m["user"] == "U0BOT"] == []


# --- more of the same kind, from our own list


async def test_where_nobody_knows_who_reads_nothing_is_answered(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """A group conversation that the app may not look at (the minimal manifest) is refused with a sentence, before
    anything is stored."""
    async with slack_team(spare, database_url, tmp_path, queues=(), manifest="slack-minimal.yaml") as team:
        await team.slack.say("U0ADA", "G0TRIO", f"{BOT} {LEAVE}")
        await team.slack.until_seen("U0ADA", "G0TRIO", "who reads this conversation")
        assert await team.app.store.conversations.list("slack") == []


async def test_a_lost_confirmation_is_looked_up(team: Team) -> None:
    """Slack took the answer and the connection broke: the thread is searched, and nothing is posted twice."""
    await team.slack.do("fault", method="chat.postMessage", kind="lost")
    ts = await team.asked()
    assert len(await team.answers("C0GEN", ts)) == 1
    assert await team.slack.calls("conversations.replies")


async def test_without_the_scope_to_look_nothing_is_repeated(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """With the minimal manifest an answer whose result is unknown stays unknown, and is there once."""
    async with slack_team(spare, database_url, tmp_path, manifest="slack-minimal.yaml") as team:
        await team.slack.do("fault", method="chat.postMessage", kind="lost")
        ts = await team.asked()
        row = await team.question(LEAVE)

        async def given_up() -> bool:
            rows = await team.app.store.deliveries.for_question(row.id)
            return [r.state for r in rows if r.kind == "answer"] == ["unknown"]

        await team.slack.until(given_up)
        assert len(await team.answers("C0GEN", ts)) == 1


@pytest.mark.parametrize("kind", ["status", "html"])
async def test_a_broken_slack_is_tried_again(team: Team, kind: str) -> None:
    """A 500 or a page of HTML in place of an answer is tried again after a look."""
    await team.slack.do("fault", method="chat.postMessage", kind=kind, status=502)
    ts = await team.asked()
    assert len(await team.answers("C0GEN", ts)) == 1


async def test_a_database_that_is_down_is_not_acknowledged(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """What cannot be stored is not acknowledged, and Slack's next attempt is stored."""
    async with slack_team(spare, database_url, tmp_path) as team:
        accept, failures = team.app.store.inbox.accept, 2

        async def failing(*message: Any, **more: Any) -> Any:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise OSError("the database is away")
            return await accept(*message, **more)

        object.__setattr__(team.app.store.inbox, "accept", failing)
        await team.slack.do("set", ack_seconds=0.3)
        waiting = asyncio.create_task(team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}"))
        await asyncio.sleep(0.8)
        await team.slack.do("wind", seconds=61)
        await waiting
        assert (await team.ended(LEAVE)).state == "answered"
        await team.quiet()


async def test_without_a_signature_nothing_is_taken(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """A payload that was not signed with our secret is refused, and its text is in no log."""
    async with slack_team(spare, database_url, tmp_path, transport="http", queues=()) as team:
        await team.slack.do("forge", text=f"{BOT} a forged question")
        await team.quiet()
        assert await team.app.store.conversations.list("slack") == []


# --- what the doctor and the start say


async def findings(team: Team) -> dict[str, str]:
    return {f.name: f.detail for f in await examine_slack(team.app, team.house) if not f.ok}


@OVER_SOCKET
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"take": ["U0BOT"]}, "does not show it"),
        ({"kind": "public", "take": ["U0BOT"]}, "not in it"),
        ({"is_ext_shared": True}, "shared with another organisation"),
        ({"kind": "public"}, "everybody can join"),
        ({"take": ["U0REV2"]}, "not in it: slack:U0REV2"),
    ],
)
async def test_the_doctor_tells_what_is_wrong_with_the_review_channel(
    team: Team, change: dict[str, Any], said: str
) -> None:
    """Not in the channel, shared, public, or a reviewer missing: each is said, with the fix."""
    assert await findings(team) == {}
    await team.slack.do("channel", id="C0REVIEW", **change)
    team.house.people.known.forget()
    assert said in (await findings(team))["slack review channel C0REVIEW"]


async def test_the_doctor_tells_a_missing_scope(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """A scope that nothing works without is named, with the manifest as the remedy."""
    async with slack_team(spare, database_url, tmp_path, queues=()) as team:
        content = Manifest.read(ROOT / "manifests/slack.yaml").content
        content["oauth_config"]["scopes"]["bot"].remove("users:read")
        await team.slack.do("reset", manifest=content)
        team.house.people._identity = None
        assert (await findings(team))["slack scopes"] == "missing: users:read"


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        ({"bot_token": SecretStr("xoxb-wrong")}, "slack token", "invalid_auth"),
        ({"app_token": SecretStr("xapp-wrong")}, "slack connection", "invalid_auth"),
        ({}, "slack connection", "no serving process is connected"),
    ],
)
async def test_the_doctor_tells_wrong_tokens_and_a_dead_connection(
    spare: StandIn, database_url: str, tmp_path: Path, changed: dict[str, Any], name: str, said: str
) -> None:
    """Wrong bot token, wrong app token, and a serving process that is not there are told apart; with a wrong token
    the listener refuses to start."""
    await spare.do("reset")
    chosen = settings_for(spare, tmp_path, socket=True)
    assert chosen.slack is not None
    chosen = chosen.model_copy(update={"slack": chosen.slack.model_copy(update=changed)})
    async with open_app(chosen, database_url, Parts(embedder=HashEmbedder())) as app:
        house = app.platforms["slack"]
        assert isinstance(house, SlackHouse)
        found = {f.name: f.detail for f in await examine_slack(app, house) if not f.ok}
        assert found[name] == said
        if changed:
            with pytest.raises(CannotStart, match="Slack refuses"):
                await listen.Listener(app, house).start()


async def test_no_draft_goes_to_a_shared_channel(team: Team) -> None:
    """A review channel that another organisation reads gets no card; the delivery row says why."""
    await team.slack.do("channel", id="C0REVIEW", is_ext_shared=True)
    team.house.people.known.forget()
    await team.slack.say("U0ADA", "C0GEN", f"{BOT} {CONTRACT}")
    row = await team.question(CONTRACT)

    async def refused() -> bool:
        rows = await team.app.store.deliveries.for_question(row.id)
        return any(r.kind == "card" and "shared_channel" in r.error for r in rows)

    await team.slack.until(refused, 20)
    shown = [m for m in await team.slack.see("U0REV", "C0REVIEW") if m["by"] == "U0BOT"]
    assert all("45 日" not in m["text"] and CONTRACT not in m["text"] for m in shown)


async def test_what_is_too_large_is_not_stored(spare: StandIn, database_url: str, tmp_path: Path) -> None:
    """A file over the limit is given up after as many bytes, and its owner is told the limit."""
    async with slack_team(spare, database_url, tmp_path, max_megabytes=1) as team:
        await uploaded(team, "large.md", b"words ", "1 MB", times=170_000)
        assert await team.app.admin.list("house") == []


@OVER_SOCKET
async def test_the_review_channel_is_checked_at_the_start(team: Team) -> None:
    """A review channel that everybody can join is said so at once, with the remedy."""
    await team.slack.do("channel", id="C0REVIEW", kind="public")
    with capture_logs() as logs:
        await team.listener.start()
    (found,) = [entry for entry in logs if entry["event"] == "slack.review_channel"]
    assert "everybody can join" in found["detail"]
    assert "private" in found["remedy"]
