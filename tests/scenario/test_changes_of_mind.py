"""What people do to a question after they sent it, and what is not answered at all: nothing is lost, nothing is told
twice, and what nobody waits for any more stops."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.app import Parts
from bot.messages import AGAIN, Change, Reply
from bot.settings import Limits, Workspace
from rag_graph.graph import NODES
from store.conversations import QuestionRow
from tests.embedder import HashEmbedder
from tests.scenario.desk import Desk, Gate, desk

LEAVE, CLAUSE = "年假可以休多少天？", "合同第 3.2 条规定多少日内付款？"


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path) as opened:
        yield opened


async def change(
    team: Desk, question_id: str, text: str | None, key: str = "", ask: bool = False
) -> str | None:
    row = await team.app.store.conversations.question(question_id)
    return await team.app.asking.change(
        Change("cli", key or f"{question_id}:{text}", question_id, row.asker, text, ask)
    )


async def _row(team: Desk, question_id: str) -> QuestionRow:
    return await team.app.store.conversations.question(question_id)


# --- edits


@pytest.mark.parametrize("how", ["edited", "deleted"])
async def test_a_running_answer_is_cut(database_url: str, tmp_path: Path, how: str) -> None:
    """An edit or a deletion ends the run at once, whatever holds the conversation's lock; only the new wording is
    answered, and nothing of the old one is sent."""
    gate = Gate()
    nodes: Any = {**NODES, "draft": gate}
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder(), nodes=nodes)) as team:
        asked = await team.ask(LEAVE)
        await asyncio.wait_for(gate.entered.wait(), 20)
        began = time.monotonic()
        again = await change(team, asked, "年假的有效期到什么时候？" if how == "edited" else None)

        async def cut() -> bool:
            return gate.ends == ["cut"]

        await team.wait(cut, "the run to be cut")
        assert time.monotonic() - began < 2.0
        gate.opened.set()
        if again is not None:
            answer = (await team.ended(again)).answer
            assert answer is not None
            assert "3 月 31 日" in answer["text"]
        assert (await _row(team, asked)).state == ("superseded" if how == "edited" else "withdrawn")
        assert await team.messages(asked) == []


async def test_an_edit_while_held_takes_the_card_away(team: Desk) -> None:
    """The review of the old wording is withdrawn, a click on it is told so, and the new wording is answered."""
    review = await team.held(CLAUSE)
    again = await change(team, review.question_id, LEAVE)
    assert again is not None
    assert (await team.decide(review, "approve")).key == "gone"
    row = await team.ended(again)
    assert row.state == "answered"
    assert (await _row(team, review.question_id)).state == "superseded"


async def test_an_edit_after_the_answer_is_offered(team: Desk) -> None:
    """The answer stays; one message offers to ask again, which asks the newest wording once."""
    first = await team.answered(LEAVE)
    assert await change(team, first.id, "年假的有效期？") is None
    assert await change(team, first.id, "未休的年假有效期到什么时候？") is None
    kinds = await team.messages(first.id)
    assert [kind for kind, _ in kinds] == ["answer", "notice"]
    offer = (await team.app.store.deliveries.for_question(first.id))[-1]
    assert Reply.from_json(offer.content).meta == {"question_id": first.id, "actions": [AGAIN]}
    assert (await _row(team, first.id)).state == "answered"
    assert await team.app.asking.again(first.id, "cli:mallory") == "forbidden"
    assert await team.app.asking.again(first.id, "cli:lin") == "asked"
    assert await team.app.asking.again(first.id, "cli:lin") == "twice"
    newest = (await team.app.store.conversations.questions(first.conversation_id))[-1]
    assert newest.text == "未休的年假有效期到什么时候？"
    assert (await team.ended(newest.id)).state == "answered"
    turns, _ = await team.app.graphs.recall(first.conversation_id)
    assert [turn.question_id for turn in turns] == [newest.id]


async def test_an_edit_that_changes_nothing_asks_nothing(team: Desk) -> None:
    """Link previews and repeated deliveries of one edit arrive as edits too."""
    first = await team.answered(LEAVE)
    assert await change(team, first.id, f" {LEAVE} ", ask=True) is None
    assert await change(team, first.id, "未休的年假有效期到什么时候？", key="edit", ask=True) is not None
    assert await change(team, first.id, "未休的年假有效期到什么时候？", key="edit", ask=True) is None
    assert len(await team.app.store.conversations.questions(first.conversation_id)) == 2


async def test_a_deleted_question_is_not_brought_back_by_an_edit(team: Desk) -> None:
    """Deleted is for ever: a late edit of it is nothing."""
    first = await team.answered(LEAVE)
    await change(team, first.id, None)
    assert await change(team, first.id, "年假？") is None
    assert (await _row(team, first.id)).state == "withdrawn"


# --- what is not answered


async def refused(team: Desk, question_id: str) -> Reply:
    async def told() -> bool:
        return (await _row(team, question_id)).answer is not None

    await team.wait(told, f"{question_id} to be explained")
    row = await _row(team, question_id)
    assert row.state == "refused"
    assert row.answer is not None
    return Reply.from_json(row.answer)


async def test_what_comes_too_late_is_told_and_offered(team: Desk) -> None:
    """A question redelivered long after it was asked is not answered unasked, told once, and one click away."""
    late = await team.ask(LEAVE, key="m1", age=timedelta(minutes=11))
    reply = await refused(team, late)
    assert reply.text == team.app.words("zh", "refused.away")
    assert reply.meta["actions"] == [AGAIN]
    with pytest.raises(AssertionError):
        await team.ask(LEAVE, key="m1", age=timedelta(hours=6))

    async def sent() -> bool:
        return [kind for kind, _ in await team.messages(late)] == ["refused"]

    await team.wait(sent, "the reason to be sent")
    assert await team.app.asking.again(late, "cli:lin") == "asked"
    newest = (await team.app.store.conversations.questions("cli:cli:lin:t1"))[-1]
    assert (await team.ended(newest.id)).state == "answered"


async def test_nothing_is_cut_silently(database_url: str, tmp_path: Path) -> None:
    """A text over the limit is refused whole and said to be too long; at the limit it is answered."""
    async with desk(database_url, tmp_path, workspace=Workspace(question_characters=100)) as team:
        reply = await refused(team, await team.ask("年假" * 51))
        assert "100" in reply.text
        assert "actions" not in reply.meta
        assert (await team.answered("年假" * 50, thread="t2")).state in ("answered", "declined")


async def test_limits_hold_for_a_person_and_for_all(database_url: str, tmp_path: Path) -> None:
    """Who asks too much, and who comes when too many wait, is told once a minute; others are answered."""
    limits = Limits(person_questions=2, minutes=10, waiting_questions=3)
    async with desk(database_url, tmp_path, limits=limits) as team:
        asked = [await team.ask(LEAVE, thread="t1") for _ in range(5)]
        reasons = [(await refused(team, one)).meta["reason"] for one in asked[2:]]
        assert reasons == ["person"] * 3
        told = [
            row
            for row in await team.app.store.deliveries.for_conversation("cli:cli:lin:t1")
            if row.kind == "refused"
        ]
        assert len(told) in (1, 2)  # the minute may end in between
        assert (await team.answered(LEAVE, asker="cli:ada")).state == "answered"


async def test_a_full_queue_says_so(database_url: str, tmp_path: Path) -> None:
    """With as many waiting as may wait, the next is refused with a sentence, and those that wait are answered."""
    gate = Gate()
    nodes: Any = {**NODES, "draft": gate}
    limits = Limits(waiting_questions=2)
    async with desk(
        database_url, tmp_path, Parts(embedder=HashEmbedder(), nodes=nodes), limits=limits
    ) as team:
        asked = [await team.ask(LEAVE)]
        await asyncio.wait_for(gate.entered.wait(), 20)
        asked += [await team.ask(LEAVE) for _ in range(2)]
        assert (await refused(team, await team.ask(LEAVE))).meta["reason"] == "full"
        gate.opened.set()
        assert [(await team.ended(one)).state for one in asked] == ["answered"] * 3
