"""Rows 29–48 of the pitfalls that other people's Feishu bots fell into (facts gathered from their issue trackers).

None is left out. 34 is in tests/unit/test_feishu_connection.py, 37 and 46 in tests/unit/test_feishu_events.py, 36 over
both transports in test_feishu_stories.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bot.feishu import doctor, stream
from bot.feishu.connection import Runner, Takers
from bot.feishu.sdk import TokenManager, ws
from bot.messages import CannotStart, Progress, Reply
from tests.emulators.feishu.client import Impossible, StandIn
from tests.scenario.driver import CONTRACT, LEAVE, Scene
from tests.scenario.feishu_team import QUICK, FeishuDriver, Team, feishu_team

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPLY = "POST /open-apis/im/v1/messages/:message_id/reply"


def team_of(scene: Scene) -> Team:
    driver = scene.driver
    assert isinstance(driver, FeishuDriver)
    return driver.team


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def feishu_stage(
    shared_feishu: StandIn,
    cloning: Callable[[], AbstractContextManager[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Team]:
    """One transport: what these traps are about lies behind the door, which the stories open both ways."""
    with cloning() as url:
        async with feishu_team(shared_feishu, url, tmp_path_factory.mktemp("feishu")) as opened:
            yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def own(spare_feishu: StandIn, database_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """A bot of its own, over the long connection."""
    async with feishu_team(spare_feishu, database_url, tmp_path) as team:
        yield Scene(FeishuDriver(team))


async def test_trap_29_30_the_runner_lives_beside_a_running_loop_and_can_be_stopped(
    spare_feishu: StandIn,
) -> None:
    """Started from a running loop it connects in its own; stopped it leaves no connection and no thread."""
    from tests.scenario.feishu_team import settings_for

    settings = settings_for(await spare_feishu.reset(), spare_feishu.base, Path("/nowhere"), webhook=False)
    assert settings.feishu is not None
    assert ws.loop is not asyncio.get_running_loop()

    async def click(body: Any) -> dict[str, Any]:
        return {}

    runner = Runner(settings.feishu, Takers(lambda body: None, click, dict), QUICK)
    runner.start()
    await spare_feishu.until(lambda: _connections(spare_feishu, 1))
    await runner.stop()
    await spare_feishu.until(lambda: _connections(spare_feishu, 0))
    assert runner._thread is not None
    assert not runner._thread.is_alive()


async def _connections(feishu: StandIn, count: int) -> bool:
    return int((await feishu.world())["connections"]) == count


async def test_trap_31_what_nobody_asked_for_is_acknowledged(feishu: Scene) -> None:
    """Frames of the old card type, and every event that has no handler: code 200, so that nothing is sent again."""
    driver = team_of(feishu).feishu
    old = await driver.do("payload", kind="old card", body={"open_id": "ou_ada", "action": {"value": {}}})
    assert old["acked"]
    for event in (
        "im.message.message_read_v1",
        "im.message.reaction.created_v1",
        "application.bot.menu_v6",
        "x.y_v9",
    ):
        assert (await driver.do("other_event", event_type=event, event={}))["acked"]


async def test_trap_32_a_text_for_a_value_is_no_error(feishu: Scene) -> None:
    """A button's value that comes back as text is acknowledged and does nothing."""
    _, card = await feishu.held()
    answer = await team_of(feishu).feishu.do("press", user="ou_rena", message=card.id, value="approve")
    assert answer["acked"]
    assert (await feishu.review()).state == "pending"


async def test_trap_33_a_form_that_was_sent_is_over(feishu: Scene) -> None:
    """The callback's answer carries a card of plain dictionaries, which replaces the form."""
    _, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "reject")
    await feishu.until_form("rena", "Hint")
    await feishu.driver.submit("rena", reason="should_not_answer")
    form = await feishu.driver.form("rena")
    assert form is not None
    assert (form.fields, form.buttons) == ((), frozenset())
    assert "Recorded" in form.text


async def test_trap_35_a_black_holed_connection_is_replaced(own: Scene) -> None:
    """No frame after a ping: the connection is closed and made anew, and what was asked meanwhile arrives."""
    team = team_of(own)
    await team.feishu.do("trouble", black_hole=True)
    runner = team.listener.runner
    assert runner is not None
    await own.until(lambda: _made(runner, 2))
    await team.feishu.do("trouble")
    await own.asked()


async def test_trap_35_a_silent_night_ends_with_a_planned_reconnect(
    spare_feishu: StandIn, database_url: str, tmp_path: Path
) -> None:
    """A connection that pongs and delivers nothing is replaced, the new one first: no moment without any."""
    from dataclasses import replace

    async with feishu_team(spare_feishu, database_url, tmp_path, timing=replace(QUICK, quiet=0.8)) as team:
        runner = team.listener.runner
        assert runner is not None
        await spare_feishu.until(lambda: _made(runner, 3))
        assert runner.unwell() == ""
        await Scene(FeishuDriver(team)).asked()


async def test_trap_35_a_secret_rotated_during_a_reconnect_is_seen(own: Scene) -> None:
    """The connection breaks while its secret is no longer valid: /readyz is red until it is valid again, then it heals;
    the SDK's own client stays a thread that is connected to nothing."""
    team = team_of(own)
    before = (await team.feishu.do("secret", secret="rotated"))["before"]
    await team.feishu.do("close")

    async def red() -> bool:
        return "refused" in team.app.health["feishu"]()

    async def named() -> bool:
        found = await doctor._hearing(team.app, team.house)
        return not found.ok and "FEISHU_APP_SECRET" in found.remedy

    await own.until(red)
    await own.until(named)
    await team.feishu.do("secret", secret=before)

    async def green() -> bool:
        return team.app.health["feishu"]() == ""

    await own.until(green)
    await own.asked()


async def _made(runner: Runner, count: int) -> bool:
    return runner.connections >= count


async def test_trap_36_a_question_of_long_ago_is_not_answered_unasked(feishu: Scene) -> None:
    """After offline time a replay may carry a new message id: what is older than ten minutes is told, not answered."""
    team = team_of(feishu)
    await team.feishu.say("ou_ada", "oc_general", LEAVE, mention=True, age=3_600)
    row = await feishu.question(LEAVE)
    assert row.state == "refused"
    told = await feishu.until_seen("ada", "general", "while I was away")
    await feishu.driver.click("ada", "general", told.id, "again")
    await feishu.until_seen("ada", "general", "15 days of annual leave")


async def test_trap_38_a_revoked_token_is_renewed_at_once(feishu: Scene) -> None:
    """99991663 comes with HTTP 200, and the SDK's cache would serve the dead token for two hours."""
    await feishu.asked()
    await team_of(feishu).feishu.do("revoke")
    await feishu.asked("What does ERR_0042 mean?")


@pytest.mark.parametrize("code", [230020, 230006, 11232, 99991400])
async def test_trap_39_pressure_delays_an_answer_and_loses_none(feishu: Scene, code: int) -> None:
    """Rate limits and pressure at the full hour are waited out."""
    team = team_of(feishu)
    status = 429 if code == 99991400 else 400
    await team.feishu.do("fault", api=REPLY, kind="code", code=code, status=status, times=2)
    message = await feishu.asked()
    assert len(await feishu.answers("general", message)) == 1


async def test_trap_40_an_answer_whose_confirmation_is_lost_is_posted_once(feishu: Scene) -> None:
    """The same uuid for every attempt; a gateway's HTML page is an attempt that failed, not a crash."""
    team = team_of(feishu)
    await team.feishu.do("fault", api=REPLY, kind="lost", times=1)
    message = await feishu.asked()
    assert len(await feishu.answers("general", message)) == 1
    await team.feishu.do("fault", api=REPLY, kind="html", times=1)
    again = await feishu.asked("What does ERR_0042 mean?")
    assert len(await feishu.answers("general", again)) == 1


@pytest.mark.parametrize(("refusals", "kind"), [(1, "post"), (2, "text"), (3, "file")])
async def test_trap_41_what_no_card_shows_is_sent_plainly_and_says_so(
    feishu: Scene, refusals: int, kind: str
) -> None:
    """230099: the words come as a post, else as text, else as a file; never not at all."""
    team = team_of(feishu)
    await team.feishu.do("fault", api=REPLY, kind="code", code=230099, times=refusals)
    message = await feishu.asked()
    shown = [m for m in await team.feishu.see("ou_ada", "oc_general") if m["root"] == message]
    assert shown[-1]["type"] == kind
    said = "\n".join(m["text"] for m in shown)
    assert "could not show this as a card" in said or "in the file below" in said


async def test_trap_42_a_stream_that_closes_loses_nothing(own: Scene) -> None:
    """Sentences grow in one card under a growing sequence; Feishu closes it at ten minutes, and the last change holds
    the whole answer. A restart goes on with the same card."""
    team = team_of(own)
    await own.driver.say("ada", "general", CONTRACT)
    row = await own.question(CONTRACT)
    await own.card()
    address = {**row.address}

    async def tell(sentence: str) -> None:
        await team.house.progress(address, Progress(row.id, row.conversation_id, "sentence", sentence))

    await tell("First sentence.")
    await own.until(lambda: _card_holds(team, "First sentence."))
    await tell("Second <at id=all></at> sentence.")
    await own.until(lambda: _card_holds(team, "Second"))
    # A new process knows the card and its sequence from the row alone.
    running = team.house.streams._running.pop(row.id)
    running._task.cancel()
    await tell("Third sentence.")
    await own.until(lambda: _card_holds(team, "Third"))
    await team.feishu.do("wind", seconds=601)
    await tell("Fourth sentence.")
    await own.until(lambda: _card_holds(team, "Fourth"))
    whole = Reply("answer", "First. Second. Third. Fourth. Fifth.", "en")
    await team.house.send(f"answer:{row.id}", address, whole)
    assert await _card_holds(team, "Fifth.")
    world = await team.feishu.world()
    (card,) = world["cards"]
    assert card["streaming_since"] is None
    refused = [c.get("code") for c in world["calls"] if "cardkit" in c["path"] and c.get("code")]
    assert set(refused) <= {200850, 300309}


async def test_trap_42_a_stream_is_rolled_over_before_feishu_closes_it(
    own: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At nine minutes streaming mode is ended by us; from then on the card is replaced as a whole."""
    monkeypatch.setattr(stream, "ROLL_OVER", 0.5)
    monkeypatch.setattr(stream, "WHOLE_GAP", 0.1)
    team = team_of(own)
    await own.driver.say("ada", "general", CONTRACT)
    row = await own.question(CONTRACT)
    await own.card()
    for sentence in ("First.", "Second.", "Third."):
        progress = Progress(row.id, row.conversation_id, "sentence", sentence)
        await team.house.progress(row.address, progress)
        await own.until(partial(_card_holds, team, sentence))
    codes = [c["code"] for c in await team.feishu.calls() if "cardkit" in c["path"]]
    assert set(codes) == {0}
    assert len(await team.feishu.calls("PATCH /open-apis/cardkit/v1/cards/:card_id/settings")) == 1


async def _card_holds(team: Team, text: str) -> bool:
    return any(text in str(card["content"]) for card in (await team.feishu.world())["cards"])


async def test_trap_43_cards_are_patched(feishu: Scene) -> None:
    """PUT is for text and posts (230001 on cards); a claim changes the card with PATCH alone."""
    _, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "claim")
    await feishu.until_seen("rolf", "review", "rena took it")
    calls = await team_of(feishu).feishu.calls()
    assert any(c["method"] == "PATCH" and card.id in c["path"] for c in calls)
    assert not any(c["method"] == "PUT" and "/im/v1/messages/" in c["path"] for c in calls)


async def test_trap_44_callbacks_that_nobody_subscribed_to_are_named(
    spare_feishu: StandIn, database_url: str, tmp_path: Path
) -> None:
    """Without the callback page every click shows 200340 and nothing arrives: the doctor says which page it is."""
    async with feishu_team(spare_feishu, database_url, tmp_path, callbacks=()) as team:
        scene = Scene(FeishuDriver(team))
        _, card = await scene.held()
        clicked = await team.feishu.click("ou_rena", card.id, "approve")
        assert clicked["error"] == 200340

        async def hears() -> bool:
            return (await doctor._hearing(team.app, team.house)).ok

        await scene.until(hears)
        findings = {f.name: f for f in await doctor.examine_feishu(team.app, team.house)}
        assert not findings["feishu clicks"].ok
        assert "card.action.trigger" in findings["feishu clicks"].remedy
        assert findings["feishu credentials"].ok
        assert findings["feishu permissions"].ok
        assert findings["feishu events"].ok
        assert findings["feishu review chat oc_review"].ok


async def test_trap_45_answers_stay_in_their_topic(feishu: Scene) -> None:
    """In a topic group the answer is a reply; events without thread_id find their topic by its first message."""
    team = team_of(feishu)
    first = await feishu.asked("年假可以休多少天？", where="oc_topic")
    (answer,) = await feishu.answers("oc_topic", first)
    await team.feishu.say(
        "ou_ada", "oc_topic", "它的有效期到什么时候？", reply_to=answer.id, bare_thread=True
    )
    row = await feishu.ended("它的有效期")
    assert row.conversation_id == f"feishu:oc_topic:{first}"
    await feishu.until(lambda: _two(feishu, first))
    threads = {m["thread_id"] for m in await team.feishu.see("ou_ada", "oc_topic") if m["root"] == first}
    assert len(threads) == 1


async def _two(scene: Scene, first: str) -> bool:
    return len(await scene.answers("oc_topic", first)) == 2


async def test_trap_45_an_answer_without_its_question_goes_to_its_asker(feishu: Scene) -> None:
    """Reviewed after its message and topic were recalled by others: a direct message, not a topic that nobody began."""
    team = team_of(feishu)
    await team.feishu.do("fault", api=REPLY, kind="code", code=230011, times=50)
    await feishu.driver.say("ada", "oc_topic", LEAVE)
    await feishu.until_seen("ada", "direct", "15 days of annual leave")


async def test_trap_45_a_group_without_topics_is_answered_all_the_same(feishu: Scene) -> None:
    """230071: the reply is a plain one, and the next one asks for no topic any more."""
    message = await feishu.asked(where="oc_flat")
    (answer,) = await feishu.answers("oc_flat", message)
    assert "15 days" in answer.text
    calls = [c for c in await team_of(feishu).feishu.calls(REPLY) if not c.get("fault")]
    assert [c["body"]["reply_in_thread"] for c in calls][-1] is False


async def test_trap_47_a_click_without_a_chat_is_answered_from_our_row(feishu: Scene) -> None:
    """open_chat_id is missing: whose rights count is what the question's row says."""
    message = await feishu.asked()
    (answer,) = await feishu.answers("general", message)
    row = await feishu.question(LEAVE)
    assert row.answer is not None
    value = {"do": "passage:1", "question": row.id, "passage": row.answer["citations"][0]["passage_id"]}
    event = {
        "operator": {"open_id": "ou_lin", "tenant_key": "t0sign"},
        "action": {"value": value},
        "context": {"open_message_id": answer.id},
    }
    body = {
        "schema": "2.0",
        "header": {"event_id": "e47", "event_type": "card.action.trigger"},
        "event": event,
    }
    sent = await team_of(feishu).feishu.do(
        "payload", kind="click", body={**body, "token": "stand-in-verification-token"}
    )
    assert sent["response"]["toast"]["type"] == "info"
    await feishu.until_seen("lin", "direct", "15 days of annual leave")


async def test_trap_48_only_messages_are_answered(feishu: Scene) -> None:
    """A callback's token ("c-…") is no message id: whatever address names a message, it names one with om_."""
    _, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "approve")
    await feishu.ended(CONTRACT)
    paths = [c["path"] for c in await team_of(feishu).feishu.calls() if "/im/v1/messages/" in c["path"]]
    assert paths
    assert all(path.split("/im/v1/messages/")[1].startswith("om_") for path in paths)


# --- who is not answered, and what is asked of the door


async def test_strangers_and_programs_get_no_word(feishu: Scene) -> None:
    """Another organisation's person, another bot, an external group: no question is stored, nothing is sent there."""
    team = team_of(feishu)
    await team.feishu.do("chat", id="oc_general", add=["ou_eve"])
    await team.feishu.say("ou_eve", "oc_general", LEAVE, mention=True)
    await team.feishu.say("ou_otherbot", "oc_general", LEAVE, mention=True)
    await team.feishu.say("ou_ada", "oc_partner", LEAVE, mention=True)
    await feishu.until_seen("ada", "direct", "shared with another organisation")
    await feishu.quiet()
    assert await feishu.app.store.conversations.list("feishu") == []
    assert not any(
        m["sender"] == "ou_bot" and m["chat_id"] != "oc_p2p_ada"
        for m in (await team.feishu.world())["messages"]
    )


async def test_only_reviewers_decide_and_never_on_their_own(feishu: Scene) -> None:
    """A colleague's click, a stranger's and the asker's own change nothing, and each reads why."""
    team = team_of(feishu)
    await team.feishu.do("chat", id="oc_review", add=["ou_lin", "ou_eve"])
    await team.feishu.do("chat", id="oc_general", add=["ou_rolf"])
    await feishu.driver.say("rolf", "general", CONTRACT)
    card = await feishu.card()
    for who, why in (("lin", "reviewers"), ("eve", "reviewers"), ("rolf", "yourself")):
        await feishu.driver.click(who, "review", card.id, "approve")
        toasts = await team.feishu.do("toasts", user=f"ou_{who}")
        assert why in toasts[-1]["content"].lower(), toasts
    assert (await feishu.review()).state == "pending"


async def test_without_a_permission_less_is_done_and_nothing_fails(
    spare_feishu: StandIn, database_url: str, tmp_path: Path
) -> None:
    """No reactions, no names of people, no group messages: a mention is still answered, and the doctor names them."""
    without = ("im:message.reactions:write_only", "im:message.group_msg", "contact:user.base:readonly")
    async with feishu_team(spare_feishu, database_url, tmp_path, without=without) as team:
        scene = Scene(FeishuDriver(team))
        await scene.asked()
        findings = {f.name: f for f in await doctor.examine_feishu(team.app, team.house)}
        assert "contact:user.base:readonly" in findings["feishu permissions"].detail


async def test_an_ageing_card_is_posted_anew(feishu: Scene) -> None:
    """Twelve days on a new card takes the old one's place, before Feishu lets nobody change it any more."""
    from datetime import UTC, datetime, timedelta

    _, card = await feishu.held()
    later = datetime.now(UTC) + timedelta(days=12, minutes=1)
    review = await feishu.review()
    assert await feishu.app.cards.ageing(datetime.now(UTC)) == []
    assert await feishu.app.cards.ageing(later) == [review.id]
    await feishu.app.cards.renew(review.id, later)
    assert await feishu.app.cards.ageing(datetime.now(UTC)) == []
    shown = [m for m in await feishu.driver.see("rena", "review") if CONTRACT in m.text]
    assert [("approve" in m.buttons) for m in shown] == [False, True]
    await feishu.driver.click("rena", "review", shown[1].id, "approve")
    await feishu.until_seen("rolf", "review", "approved by rena")
    with pytest.raises(Impossible):
        await team_of(feishu).feishu.click("ou_rolf", card.id, "approve")


async def test_logs_carry_ids_and_no_words(feishu: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    """What people write, what is answered, the app's secret and the connection's ticket are in no log line."""
    team = team_of(feishu)
    await team.feishu.do("fault", api=REPLY, kind="code", code=230099, times=1)
    await feishu.asked()
    _, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "approve")
    await feishu.ended(CONTRACT)
    said = "".join(capfd.readouterr())
    assert "delivery.unshowable" in said
    secret = team.house.settings.app_secret.get_secret_value()
    for words in (LEAVE, CONTRACT, "15 days", "45 日", secret, "Bearer", "access_key", "/ws/"):
        assert words not in said


async def test_wrong_credentials_end_the_start_and_an_outage_does_not(
    spare_feishu: StandIn, database_url: str, tmp_path: Path
) -> None:
    """A secret that Feishu refuses is said in a sentence, by the start and by the doctor; while it is away the other
    platforms go on, /readyz is red, and it begins when Feishu is back."""
    async with feishu_team(spare_feishu, database_url, tmp_path, queues=()) as team:
        before = (await spare_feishu.do("secret", secret="another"))["before"]
        TokenManager.cache.cache.clear()
        team.house.people._identity = None
        with pytest.raises(CannotStart, match="FEISHU_APP_SECRET"):
            await team.listener.start()
        (finding,) = await doctor.examine_feishu(team.app, team.house)
        assert (finding.name, finding.ok) == ("feishu credentials", False)
        assert "FEISHU_DOMAIN" in finding.remedy
        await spare_feishu.do("secret", secret=before)
        await spare_feishu.do("fault", api="GET /open-apis/bot/v3/info", kind="html", times=1)
        with pytest.raises(OSError, match="502"):
            await team.listener.start()
        await team.listener.start()
