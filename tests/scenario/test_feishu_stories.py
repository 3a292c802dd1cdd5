"""What people do in Feishu and nowhere else in this way, over both transports, with what must always hold checked
after each story. What every platform has is told in test_stories.py."""

import asyncio

import pytest

from tests.scenario.driver import LEAVE, Scene
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


# --- reviewers


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
