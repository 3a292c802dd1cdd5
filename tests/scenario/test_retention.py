"""What goes with time, and what goes on request: everywhere, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bot.app import Parts
from bot.settings import Retention
from rag_graph.graph import NODES
from store.database import transaction
from tests.embedder import HashEmbedder
from tests.scenario.desk import Desk, Gate, desk

LEAVE, CLAUSE = "年假可以休多少天？", "合同第 3.2 条规定多少日内付款？"
# Every column that may hold what people wrote or read, as text.
WORDS = """
SELECT string_agg(found::text, ' ') FROM (
  SELECT to_jsonb(t) AS found FROM questions t UNION ALL SELECT to_jsonb(t) FROM conversations t
  UNION ALL SELECT to_jsonb(t) FROM reviews t UNION ALL SELECT to_jsonb(t) FROM review_events t
  UNION ALL SELECT to_jsonb(t) FROM deliveries t UNION ALL SELECT to_jsonb(t) FROM runs t
  UNION ALL SELECT to_jsonb(t) FROM feedback t UNION ALL SELECT to_jsonb(t) FROM identities t
  UNION ALL SELECT to_jsonb(t) FROM rates t UNION ALL SELECT to_jsonb(t) FROM checkpoints t
  UNION ALL SELECT to_jsonb(encode(t.blob, 'escape')) FROM checkpoint_blobs t
  UNION ALL SELECT to_jsonb(encode(t.blob, 'escape')) FROM checkpoint_writes t
) AS everything
"""


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path, retention=Retention(checkpoints_days=0, runs_days=0)) as opened:
        yield opened


async def words(team: Desk) -> str:
    async with transaction(team.app.store.database.engine) as connection:
        return str(await connection.scalar(text(WORDS)))


async def _lived(team: Desk) -> None:
    """Lin asks, follows up, says what she thinks, and has a draft signed by Rita; Ada asks something of her own."""
    first = await team.answered("ERR_0042 的 zebra 是什么意思？")
    await team.answered(LEAVE)
    await team.app.store.conversations.feedback(first.id, "cli:lin", True, "zebra helped")
    run = await team.app.store.runs.latest(first.id)
    assert run is not None
    async with transaction(team.app.store.database.engine) as connection:
        await connection.execute(
            text("UPDATE runs SET prompts = CAST(:prompts AS jsonb) WHERE id = :id"),
            {"id": run.id, "prompts": '[{"role": "draft", "counted": 7, "messages": ["zebra"]}]'},
        )
    review = await team.held(f"{CLAUSE} zebra")
    await team.decide(review, "edit", text="验收合格后 45 日内付款 [1]。zebra")
    await team.ended(review.question_id)
    open_review = await team.held(CLAUSE)
    await team.app.store.reviews.claim(open_review.id, "cli:rita")
    await team.answered(LEAVE, asker="cli:ada")


@pytest.mark.parametrize("whom", ["person", "thread"])
async def test_forgotten_is_forgotten_everywhere(team: Desk, whom: str) -> None:
    """No table and no checkpoint holds a word of it any more, linked identities included; the audit keeps who did what
    on which hash; what others asked stays."""
    await _lived(team)
    await team.app.store.people.link("cli:lin", "web:lin", by="cli:admin")
    assert "zebra" in await words(team)
    erasing = team.app.erasing
    erased = await (erasing.person("web:lin") if whom == "person" else erasing.thread("cli:cli:lin:t1"))
    assert len(erased.questions) == 4

    async def finished() -> bool:
        return await erasing.finished(erased)

    await team.wait(finished, "LangGraph to forget")
    left = await words(team)
    assert "zebra" not in left
    assert CLAUSE not in left
    if whom == "person":
        assert '"cli:lin"' not in left
    turns, summary = await team.app.graphs.recall("cli:cli:lin:t1")
    assert (turns, summary) == ([], "")
    events = await team.app.store.reviews.events(erased.reviews[0])
    assert [(event.action, event.actor) for event in events] == [("opened", ""), ("edited", "cli:rita")]
    assert all(event.version_hash and not event.detail for event in events)
    assert [row.state for row in await team.app.store.reviews.list() if row.state == "withdrawn"] == [
        "withdrawn"
    ]
    other = await team.app.store.conversations.questions("cli:cli:ada:t1")
    assert other[0].answer is not None


async def test_a_reviewer_who_is_forgotten_leaves_a_pseudonym(team: Desk) -> None:
    """The same one in every place, so that the audit still shows that one person acted; the answer stays."""
    await _lived(team)
    await team.app.erasing.person("cli:rita")

    async def gone() -> bool:  # the notes to the askers, which say who holds the draft, are drawn anew
        return '"cli:rita"' not in await words(team)

    await team.wait(gone, "rita to be forgotten")
    edited = next(row for row in await team.app.store.reviews.list() if row.state == "edited")
    assert edited.decided_by is not None
    assert edited.decided_by.startswith("erased:")
    assert (await team.app.store.reviews.events(edited.id))[-1].actor == edited.decided_by
    assert (await team.app.store.conversations.question(edited.question_id)).state == "answered"


async def test_row_10_forgetting_a_running_question_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    """langgraph#7206: a run in flight writes its thread again after it was deleted. Forgotten while it runs, it is cut,
    and its thread is deleted when its lock is free: no row is left. Row 10."""
    gate = Gate()
    nodes: Any = {**NODES, "draft": gate}
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder(), nodes=nodes)) as team:
        question_id = await team.ask(LEAVE)
        await asyncio.wait_for(gate.entered.wait(), 20)
        erased = await team.app.erasing.person("cli:lin")

        async def finished() -> bool:
            return gate.ends == ["cut"] and await team.app.erasing.finished(erased)

        await team.wait(finished, "the run to be cut and forgotten")
        gate.opened.set()
        assert await team.app.store.database.checkpoint_bytes(f"cli:cli:lin:t1/{question_id}") == 0
        assert (await team.app.store.conversations.question(question_id)).answer is None


async def test_row_09_plain_retention_spares_what_waits(team: Desk) -> None:
    """Finished questions lose their checkpoints and runs their words; a pending review, whatever its age, is decided
    afterwards as if nothing had been. Row 9."""
    done = await team.answered("ERR_0042 是什么意思？")
    follow_up = await team.answered("它怎么解决？")
    review = await team.held(CLAUSE)
    store = team.app.store
    async with transaction(store.database.engine) as connection:
        await connection.execute(
            text(
                "UPDATE questions SET finished_at = now() - interval '1 minute' WHERE finished_at IS NOT NULL"
            )
        )
    assert await team.app.upkeep.prune() == 2
    assert await store.database.checkpoint_bytes(f"{done.conversation_id}/{done.id}") == 0
    run = await store.runs.latest(follow_up.id)
    assert run is not None
    assert run.rewritten_question == ""
    assert run.retrieved != ()
    row = await store.conversations.question(review.question_id)
    assert await store.database.checkpoint_bytes(f"{row.conversation_id}/{row.id}") > 0
    await team.decide(review, "approve")
    assert (await team.ended(row.id)).state == "answered"
    assert datetime.now(UTC) - row.asked_at < timedelta(minutes=5)
