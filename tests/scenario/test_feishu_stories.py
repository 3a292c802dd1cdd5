"""What people do in Feishu, over both transports, with what must always hold checked after each story."""

import pytest

from tests.scenario.driver import CONTRACT, LEAVE, Scene

pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- employees


async def test_a_mention_is_answered_once_in_its_topic(feishu: Scene) -> None:
    """One answer below the question, with its sources and its buttons; the question's reaction is gone again."""
    message = await feishu.asked()
    (answer,) = await feishu.answers("general", message)
    assert "15 days of annual leave" in answer.text
    assert "[1] leave" in answer.text
    assert {"passage:1", "helpful", "unhelpful", "person"} <= answer.buttons


async def test_the_askers_follow_up_needs_no_mention(feishu: Scene) -> None:
    """In a topic of ours the asker goes on without a mention, and the topic is the context."""
    message = await feishu.asked("年假可以休多少天？")
    await feishu.driver.say("ada", "general", "它的有效期到什么时候？", mention=False, thread=message)
    row = await feishu.ended("它的有效期")
    assert row.answer is not None
    assert "3 月 31 日" in row.answer["text"]


async def test_direct_messages_have_sessions(feishu: Scene) -> None:
    """No mention is needed; what follows has its context, until /new begins another conversation."""
    await feishu.asked("年假可以休多少天？", where="direct")
    await feishu.driver.say("ada", "direct", "它的有效期到什么时候？")
    first = await feishu.ended("它的有效期")
    await feishu.driver.command("ada", "direct", "/new")
    await feishu.until_seen("ada", "direct", "新的对话")
    await feishu.driver.say("ada", "direct", LEAVE)
    assert (await feishu.ended(LEAVE)).conversation_id != first.conversation_id


async def test_a_passage_opens_for_its_reader_alone(feishu: Scene) -> None:
    """The button of a citation sends the passage to whoever clicked, and to nobody else."""
    message = await feishu.asked()
    (answer,) = await feishu.answers("general", message)
    await feishu.driver.click("lin", "general", answer.id, "passage:1")
    form = await feishu.until_form("lin", "15 days of annual leave")
    assert "leave" in form.text
    assert len(await feishu.answers("general", message)) == 1


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


async def test_a_recalled_question_is_withdrawn(feishu: Scene) -> None:
    """Recalling the message while its draft waits takes the question and the card's buttons back."""
    message, card = await feishu.held()
    await feishu.driver.delete("ada", "general", message)
    assert (await feishu.ended(CONTRACT)).state == "withdrawn"

    async def over() -> bool:
        shown = await feishu.driver.see("rena", "review")
        return not any("approve" in m.buttons for m in shown if m.id == card.id)

    await feishu.until(over)


async def test_stop_takes_a_question_back(feishu: Scene) -> None:
    """ "stop" in the topic, or the button of the notice."""
    message, _ = await feishu.held()
    await feishu.driver.say("ada", "general", "停", thread=message)
    assert (await feishu.ended(CONTRACT)).state == "withdrawn"


# --- reviewers


async def test_an_approval_sends_the_answer_and_ends_the_card(feishu: Scene) -> None:
    """One click, its toast within three seconds: the answer says who signed it, the card has no button left."""
    message, card = await feishu.held()
    for shown in ("ada", "general", CONTRACT, "45 日内付款", "contracts"):
        assert shown in card.text
    (notice,) = await feishu.answers("general", message)
    assert "45" not in notice.text
    await feishu.driver.click("rena", "review", card.id, "approve")
    answer = await feishu.until_seen("ada", "general", "45 日内", thread=message)
    assert "rena 已签发" in answer.text
    await feishu.until_seen("rolf", "review", "approved by rena")
    await feishu.until_seen("rena", "review", "Recorded")


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


async def test_a_hint_brings_another_draft(feishu: Scene) -> None:
    """Rejected with a hint, a second card comes; the first one is over."""
    _, card = await feishu.held()
    await feishu.driver.click("rena", "review", card.id, "reject")
    await feishu.until_form("rena", "Hint")
    await feishu.driver.submit("rena", reason="incomplete", hint="赔偿责任 上限")
    second = await feishu.until_seen("rena", "review", "round 2")
    assert "上限" in second.text
    await feishu.driver.click("rena", "review", second.id, "approve")
    assert (await feishu.ended(CONTRACT)).state == "answered"


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


async def test_only_administrators_manage(feishu: Scene) -> None:
    """The same table as elsewhere, in direct messages or after a mention; others are refused with a sentence."""
    await feishu.driver.command("ada", "direct", "/kb list")
    await feishu.until_seen("ada", "direct", "Only administrators")
    await feishu.driver.command("adam", "general", "/kb list")
    await feishu.until_seen("adam", "direct", "leave")
    await feishu.driver.command("adam", "direct", "/kb nonsense")
    await feishu.until_seen("adam", "direct", "no such command")


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
