"""The newcomer's six steps, through the real application without a model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rag_graph.contracts import Turn
from tests.scenario.desk import Desk, desk


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "quoted", "title"),
    [
        ("年假可以休多少天？", "15 天年假", "年假制度"),
        ("How many days of annual leave do I get?", "15 days of annual leave", "leave"),
        ("What does ERR_0042 mean?", "certificate has expired", "vpn"),
    ],
)
async def test_an_answer_quotes_and_cites(team: Desk, question: str, quoted: str, title: str) -> None:
    """A question in either language is answered with numbered citations that name their document."""
    row = await team.answered(question)
    assert row.state == "answered"
    assert row.answer is not None
    assert quoted in row.answer["text"]
    assert "[1]" in row.answer["text"]
    assert row.answer["citations"][0]["title"] == title
    assert row.answer["meta"]["kind"] == "extractive"


async def test_a_follow_up_is_rewritten_and_says_so(team: Desk) -> None:
    """ "Its" is resolved from the thread for searching, the rewritten question is shown, the first one has none."""
    first = await team.answered("年假可以休多少天？")
    follow_up = await team.answered("它的有效期到什么时候？")
    assert first.answer is not None
    assert first.answer["meta"]["rewritten_question"] == ""
    assert follow_up.answer is not None
    assert "年假" in follow_up.answer["meta"]["rewritten_question"]
    assert "3 月 31 日" in follow_up.answer["text"]


async def test_a_complete_follow_up_is_left_alone(team: Desk) -> None:
    """A question that needs no context is searched as it stands."""
    await team.answered("年假可以休多少天？")
    other = await team.answered("What does ERR_0042 mean?")
    assert other.answer is not None
    assert other.answer["meta"]["rewritten_question"] == ""


async def test_a_held_answer_waits_and_holds_up_nothing(team: Desk) -> None:
    """While a draft waits for a person its text is not shown, and another question of the thread is answered."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    other = await team.answered("年假可以休多少天？")
    assert other.state == "answered"
    kinds = await team.messages(review.question_id)
    assert [kind for kind, _ in kinds] == ["held"]
    assert "45" not in kinds[0][1]
    turns, _ = await team.app.graphs.recall("cli:cli:lin:t1")
    assert [turn.status for turn in turns if turn.question_id == review.question_id] == ["in review"]


async def test_approval_sends_the_draft_once(team: Desk) -> None:
    """Approved, the very draft goes out, marked with who signed it, and replaces "in review" in memory."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    acted = await team.decide(review, "approve")
    row = await team.ended(review.question_id)
    assert acted.key == "done"
    assert row.answer is not None
    assert row.answer["text"] == review.draft["text"]
    assert row.answer["meta"]["signed_by"] == "cli:rita"
    assert [kind for kind, _ in await team.messages(row.id)] == ["held", "answer"]
    turns, _ = await team.app.graphs.recall("cli:cli:lin:t1")
    assert turns == [Turn(row.id, row.text, row.answer["text"], "answered")]


async def test_an_edit_is_what_the_asker_reads(team: Desk) -> None:
    """The reviewer's text goes out with its citation, and nothing in it can ping or link."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    await team.decide(review, "edit", text="验收合格后 45 日内付款 [1]。<!channel> https://evil.example/x")
    row = await team.ended(review.question_id)
    assert row.answer is not None
    assert "45 日内付款 [1]" in row.answer["text"]
    assert "<!channel>" not in row.answer["text"]
    assert row.answer["meta"]["signed"] == "edited"


async def test_a_hint_brings_another_draft(team: Desk) -> None:
    """Rejected with a hint, the question is searched again and a different draft waits for a second decision."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    await team.decide(review, "reject", reason="incomplete", hint="赔偿责任 上限")
    second = await team.review_of(review.question_id, 2)
    assert second.draft["text"] != review.draft["text"]
    assert "上限" in second.draft["text"]
    await team.decide(second, "approve")
    assert (await team.ended(review.question_id)).state == "answered"


async def test_a_better_question_is_answered_instead(team: Desk) -> None:
    """Rejected with a better question, that one is drafted, and it too waits for a person."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    await team.decide(review, "reject", reason="other", question="第 7.1 条的赔偿责任上限是什么？")
    second = await team.review_of(review.question_id, 2)
    assert "合同总价" in second.draft["text"]


async def test_two_held_questions_resume_in_either_order(team: Desk) -> None:
    """The one asked last may be decided first; each gets its own answer."""
    first = await team.held("合同第 3.2 条规定多少日内付款？")
    second = await team.held("第 7.1 条的赔偿责任上限是什么？")
    await team.decide(second, "approve")
    later = await team.ended(second.question_id)
    await team.decide(first, "approve")
    earlier = await team.ended(first.question_id)
    assert later.answer is not None
    assert earlier.answer is not None
    assert "合同总价" in later.answer["text"]
    assert "45" in earlier.answer["text"]


async def test_a_second_decision_is_told_who_decided_what(team: Desk) -> None:
    """A late click changes nothing and learns the decider and the decision."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    await team.decide(review, "approve")
    late = await team.decide(review, "reject", actor="cli:raj", reason="other")
    assert late.key == "late"
    assert late.review is not None
    assert (late.review.decided_by, late.review.state) == ("cli:rita", "approved")


@pytest.mark.parametrize(("actor", "key"), [("cli:mallory", "forbidden"), ("cli:lin", "own")])
async def test_only_another_reviewer_decides(team: Desk, actor: str, key: str) -> None:
    """Neither a stranger nor the asker, though a reviewer, can decide; both get a sentence."""
    review = await team.held("合同第 3.2 条规定多少日内付款？")
    assert (await team.decide(review, "approve", actor=actor)).key == key
    assert (await team.app.store.reviews.get(review.id)).state == "pending"


async def test_what_the_documents_do_not_answer_is_said(team: Desk) -> None:
    """Nothing is invented: what was searched and whom to ask are named, in the asker's language."""
    row = await team.answered("健身房会员可以报销吗？")
    assert row.state == "declined"
    assert row.answer is not None
    assert "我不知道" in row.answer["text"]
    assert "健身房" in row.answer["text"]
    assert "the people desk" in row.answer["text"]
    assert row.answer["citations"] == []


async def test_the_same_question_cites_the_same(team: Desk) -> None:
    """Five times over an unchanged corpus: the same citations, the same words."""
    rows = [await team.answered("年假可以休多少天？", thread=f"t{n}") for n in range(5)]
    assert len({str(row.answer) for row in rows}) == 1


async def test_a_redelivered_message_is_one_question(team: Desk) -> None:
    """The platform's second delivery of a message is recognised at the door."""
    await team.ask("年假可以休多少天？", key="m1")
    again = await team.app.store.conversations.questions("cli:cli:lin:t1")
    with pytest.raises(AssertionError):
        await team.ask("年假可以休多少天？", key="m1")
    assert await team.app.store.conversations.questions("cli:cli:lin:t1") == again


async def test_checkpoints_are_small_and_go(team: Desk) -> None:
    """An unreviewed question leaves at most 12 KB of checkpoints, and none after its retention."""
    row = await team.answered("年假可以休多少天？")
    assert 0 < await team.app.store.database.checkpoint_bytes(f"{row.conversation_id}/{row.id}") <= 12_288
    await team.app.store.database.delete_checkpoints([f"{row.conversation_id}/{row.id}"])
    assert await team.app.store.database.checkpoint_bytes(f"{row.conversation_id}/{row.id}") == 0
