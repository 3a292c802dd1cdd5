"""What can never be answered is said, soon and once, by whichever job finds out."""

import time
from pathlib import Path
from typing import Any

import pytest

from bot.app import Parts
from rag_graph.graph import NODES
from tests.embedder import HashEmbedder
from tests.scenario.desk import desk

LEAVE, CLAUSE = "年假可以休多少天？", "合同第 3.2 条规定多少日内付款？"


async def test_a_fault_of_ours_is_told_at_once(database_url: str, tmp_path: Path) -> None:
    """The same input would fail the same way: nobody waits for five tries, and the conversation goes on."""
    runs: list[str] = []

    async def broken(state: Any, runtime: Any) -> Any:
        runs.append(state["question"]["id"])
        if len(runs) == 1:
            raise TypeError("a fault of ours")
        node: Any = NODES["draft"]
        return await node(state, runtime=runtime)

    nodes: Any = {**NODES, "draft": broken}
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder(), nodes=nodes)) as team:
        began = time.monotonic()
        row = await team.answered(LEAVE)
        assert row.state == "failed"
        assert time.monotonic() - began < 10
        assert runs == [row.id]
        ((kind, told),) = await team.messages(row.id)
        assert kind == "failed"
        assert row.id[:8] in told
        (run,) = await team.app.store.runs.for_question(row.id)
        assert (run.outcome, run.error) == ("failed", "TypeError")
        again = await team.answered(LEAVE)
        assert again.state == "answered"
        (answered,) = await team.app.store.runs.for_question(again.id)
        assert [score["id"] for score in answered.scores] == list(answered.retrieved)
        assert answered.scores[0].keys() == {"id", "document", "score", "read", "vector", "keyword"}
        assert {score["id"] for score in answered.scores if score["read"]} >= set(answered.cited)
        assert answered.cost is None  # no price, no cost


@pytest.mark.parametrize("how", ["lost", "broken"])
async def test_a_decision_that_leads_nowhere_is_told(database_url: str, tmp_path: Path, how: str) -> None:
    """The paused thread is gone, or cannot go on: the asker hears it, with a reference, instead of waiting for ever;
    the decision stands as it was made."""

    async def broken(state: Any, runtime: Any) -> Any:
        raise LookupError("a fault of ours")

    nodes: Any = {**NODES, "publish": broken} if how == "broken" else NODES
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder(), nodes=nodes)) as team:
        review = await team.held(CLAUSE)
        if how == "lost":
            await team.app.store.database.delete_checkpoints([f"cli:cli:lin:t1/{review.question_id}"])
        assert (await team.decide(review, "approve")).key == "done"
        row = await team.ended(review.question_id)
        assert row.state == "failed"
        kinds = await team.messages(row.id)
        assert [kind for kind, _ in kinds] == ["held", "failed"]
        assert row.id[:8] in kinds[1][1]
        held, failed = await team.app.store.runs.for_question(row.id)
        assert (held.outcome, failed.outcome) == ("held", "failed")
        assert failed.error == ("Lost" if how == "lost" else "LookupError")
        assert (await team.app.store.reviews.get(review.id)).state == "approved"
