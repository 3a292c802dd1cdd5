"""What people do in Feishu and nowhere else in this way, over both transports, with what must always hold checked
after each story. What every platform has is told in test_stories.py."""

import asyncio

import pytest

from tests.scenario.driver import CONTRACT, LEAVE, Scene
from tests.scenario.feishu_team import FeishuDriver, Team

pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- employees


async def test_direct_messages_have_sessions(feishu: Scene) -> None:
    """No mention is needed; what follows has its context, until /new begins another conversation."""
    await feishu.asked("年假可以休多少天？", where="direct")
    await feishu.driver.say("ada", "direct", "它的有效期到什么时候？")
    first = await feishu.ended("它的有效期")
    await feishu.driver.command("ada", "direct", "/new")
    await feishu.until_seen("ada", "direct", "新的对话")
    await feishu.driver.say("ada", "direct", LEAVE)
    assert (await feishu.ended(LEAVE)).conversation_id != first.conversation_id


async def test_feedback_is_kept(feishu: Scene) -> None:
    """Helpful with one click; not helpful asks for the reason in a form."""
    message = await feishu.asked()
    (answer,) = await feishu.answers("general", message)
    await feishu.driver.click("ada", "general", answer.id, "unhelpful")
    await feishu.until_form("ada", "wrong")
    await feishu.driver.submit("ada", reason="outdated", words="It is 16 now.")
    row = await feishu.question(LEAVE)
    (given,) = await feishu.app.store.conversations.feedback_by(row.conversation_id, "feishu:ou_ada")
    assert (given.helpful, given.reason) == (False, "outdated: It is 16 now.")


async def test_a_person_is_asked(feishu: Scene) -> None:
    """The question goes to the review chat, once, with who wants it."""
    message = await feishu.asked()
    (answer,) = await feishu.answers("general", message)
    await feishu.driver.click("ada", "general", answer.id, "person")
    wanted = await feishu.until_seen("rena", "review", "would like a person")
    assert "ada" in wanted.text
    assert LEAVE in wanted.text


async def test_ask_is_private(feishu: Scene) -> None:
    """/ask after a mention is answered directly; nothing is left in the group, until its asker shares it."""
    await feishu.driver.command("ada", "general", f"/ask {LEAVE}")
    answer = await feishu.until_seen("ada", "direct", "15 days of annual leave")
    assert not any("15 days" in m.text for m in await feishu.driver.see("lin", "general"))
    await feishu.driver.click("ada", "direct", answer.id, "share")
    shared = await feishu.until_seen("lin", "general", "15 days of annual leave")
    assert LEAVE in shared.text


# --- reviewers


async def test_a_short_draft_is_edited_in_a_form(feishu: Scene) -> None:
    """The form comes to the reviewer alone; what is sent is their text, without pings or links."""
    message, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "edit")
    form = await feishu.until_form("rena", "45")
    assert form.fields == ("text0",)
    await feishu.driver.submit("rena", text0="验收合格后 45 日内 [1]。<at id=all></at> https://evil.example")
    answer = await feishu.until_seen("ada", "general", "验收合格后 45 日内", thread=message)
    assert "rena 修改后签发" in answer.text


async def test_a_long_draft_is_edited_by_answering_its_card(feishu: Scene) -> None:
    """An answer to the card is shown once more and sent by its author's click; until then nothing is sent."""
    message, card = await feishu.held()
    await feishu.driver.say("rena", "review", "验收合格之日起 45 日内付款 [1]。" * 60, thread=card.id)
    shown = await feishu.until_seen("rena", "review", "send this as the answer")
    await feishu.driver.click("rolf", "review", shown.id, "edit:confirm")
    await feishu.until_seen("rolf", "review", "Only the reviewer who wrote this")
    assert not [m for m in await feishu.answers("general", message) if "验收合格之日起" in m.text]
    await feishu.driver.click("rena", "review", shown.id, "edit:confirm")
    await feishu.until_seen("ada", "general", "验收合格之日起", thread=message)


async def test_a_claimed_review_says_whose_it_is(feishu: Scene) -> None:
    """Everybody sees it on the card; the asker reads who has it, and since when."""
    message, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "claim")
    await feishu.until_seen("rolf", "review", "rena has it")
    await feishu.until_seen("ada", "general", "rena 正在处理（刚刚接手）", thread=message)
    await feishu.driver.click("rena", "review", card.id, "release")
    await feishu.until_seen("rolf", "review", "nobody has taken it")


async def test_a_draft_from_closed_documents_is_opened_privately(feishu: Scene) -> None:
    """Where the review chat may not read the sources, the card shows metadata; a reviewer opens it alone."""
    for document in await feishu.app.admin.list("contracts"):
        await feishu.app.admin.set_audience(document.id, ("feishu:oc_general",))
    await feishu.driver.say("ada", "general", CONTRACT)
    card = await feishu.until_seen("rena", "review", "Open it privately")
    assert "45" not in card.text
    assert CONTRACT not in card.text
    await feishu.driver.click("rena", "review", card.id, "open")
    await feishu.until_form("rena", "45")
    await feishu.driver.click_form("rena", "approve")
    assert (await feishu.ended(CONTRACT)).state == "answered"


# --- admins


async def test_files_come_first_and_then_their_command(feishu: Scene) -> None:
    """Files sent within half an hour are taken by /kb add; the file that the command answers alone where it answers
    one."""
    file = await feishu.driver.upload(
        "adam", "parking.md", b"# Parking\n\nBicycles stand behind the house.\n"
    )
    await feishu.driver.say("adam", "direct", "", files=[file])
    await feishu.until_seen("adam", "direct", "Got parking.md")
    await feishu.driver.command("adam", "direct", "/kb add house")
    told = await feishu.until_seen("adam", "direct", "is searchable")
    assert "Bicycles stand behind the house" in told.text
    assert (await feishu.app.admin.list("house"))[0].source == "parking.md"


# --- the door, both ways


def team_of(scene: Scene) -> Team:
    driver = scene.driver
    assert isinstance(driver, FeishuDriver)
    return driver.team


async def test_trap_36_what_is_delivered_again_is_answered_once(feishu: Scene) -> None:
    """Acknowledgements are lost, the ladder runs to its end six hours later, everything is replayed: one answer."""
    team = team_of(feishu)
    await team.feishu.do("trouble", lose_acks=4, duplicates=1, shuffle=True)
    message = await team.feishu.say("ou_ada", "oc_general", LEAVE, mention=True, wait=False)
    for seconds in (16, 301, 3_601, 21_601):
        await asyncio.sleep(0.15)
        await team.feishu.do("wind", seconds=seconds)
    await feishu.ended(LEAVE)
    await feishu.until(lambda: _answered(feishu, message))
    await team.feishu.do("replay_events")
    await feishu.quiet()
    assert len(await feishu.answers("general", message)) == 1
    attempts = [len(d["attempts"]) for d in (await team.feishu.world())["deliveries"]]
    assert max(attempts) >= 2


async def _answered(scene: Scene, message: str) -> bool:
    return bool(await scene.answers("general", message))


async def test_forged_requests_are_refused(feishu: Scene) -> None:
    """Over HTTP: plain text, unsigned, long ago. Nothing of it is stored."""
    team = team_of(feishu)
    if not team.listener.uses_webhook:
        pytest.skip("the long connection has no such door")
    body = {
        "header": {"event_type": "im.message.receive_v1", "token": "stand-in-verification-token"},
        "event": {},
    }
    for how in ({"sealed": False}, {"signed": False}, {"at": 1_000.0}):
        assert (await team.feishu.do("raw", path="/events", body=body, **how))["status"] == 401
