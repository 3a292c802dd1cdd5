"""The rows of variants that are tried, and the counts that guardrails judge. Real Postgres."""

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from store import Store
from store.canaries import Arm, Tally
from store.changes import LISTENING
from store.database import transaction
from store.runs import NewRun
from tests.questions import asked, review

SINCE = datetime.now(UTC) - timedelta(days=1)
LATER = datetime.now(UTC) + timedelta(days=1)
OURS, THEIRS = Arm("wide", SINCE, LATER), Arm("", SINCE, LATER)
NONE = Tally(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


async def tally(store: Store, arm: Arm = OURS, **changes: Any) -> Tally:
    values: dict[str, Any] = {"step_at": SINCE, "failing": ("model",), "slow": 150.0, **changes}
    return await store.canaries.tally(arm, **values)


async def test_one_runs_at_a_time_and_ends_once(store: Store) -> None:
    """The database holds it: a second start, a step and an end from an old reading change nothing."""
    first = await store.canaries.start("wide", 5, ["slack:C1"], "cli:admin", digest="abc")
    assert first is not None
    assert await store.canaries.start("narrow", 5, [], "cli:admin") is None
    assert await store.canaries.step(first, 20, "cli:admin")
    assert not await store.canaries.step(first, 20, "cli:admin")
    assert not await store.canaries.end(first, "rolled_back", reason="error", by="signoff", what="back")
    second = await store.canaries.get(first.id)
    assert (second.percent, second.channels, second.digest) == (20, ("slack:C1",), "abc")
    assert second.step_at > first.step_at
    assert await store.canaries.end(
        second, "rolled_back", reason="error", by="signoff", what="back", ours=[3, 3]
    )
    assert not await store.canaries.end(second, "promoted", reason="", by="cli:admin", what="promoted")
    ended = await store.canaries.latest()
    assert ended is not None
    assert (ended.state, ended.reason, ended.in_force, ended.ended_at is not None) == (
        "rolled_back",
        "error",
        False,
        True,
    )
    assert [(step["what"], step["percent"], step["by"]) for step in ended.steps] == [
        ("start", 5, "cli:admin"), ("step", 20, "cli:admin"), ("back", 20, "signoff"),
    ]  # fmt: skip
    assert ended.steps[-1]["ours"] == [3, 3]
    assert (await store.canaries.start("narrow", 5, [], "cli:admin")) is not None


async def test_who_acted_can_be_forgotten(store: Store) -> None:
    """A pseudonym stands in the row and in its steps; what others did stays theirs."""
    row = await store.canaries.start("wide", 5, [], "slack:UADM")
    assert row is not None
    await store.canaries.step(row, 20, "cli:admin")
    await store.erasure.person(["slack:UADM"])
    after = await store.canaries.get(row.id)
    assert after.started_by.startswith("erased:")
    assert [step["by"] for step in after.steps] == [after.started_by, "cli:admin"]


async def test_every_change_is_told_to_all_processes(store: Store) -> None:
    """With its commit, by the topic that they listen to."""
    heard: list[str] = []
    async with aclosing(store.changes.listen()) as changes:
        async for change in changes:
            heard.append(change.topic)
            if change.topic == LISTENING:
                row = await store.canaries.start("wide", 5, [], "cli:admin")
                assert row is not None
                await store.canaries.step(row, 20, "cli:admin")
            if len(heard) == 3:
                break
    assert heard == [LISTENING, "canaries", "canaries"]


async def test_questions_are_counted_once_and_by_side(store: Store) -> None:
    """A run after a decision is no further question; what failed for good, or with its model, is a failure; an answer
    that asked back is neither an answer nor a want of one."""
    await asked(store, 1)
    await store.runs.record(NewRun("q1", "answered", variant="wide", timings={"resume": 5.0}))
    await asked(store, 2, outcome="declined", timings={"answer": 200.0})
    await asked(store, 3, degraded=("model",))
    await asked(store, 4, degraded=("embedding",), outcome="clarified")
    await asked(store, 5, outcome="failed", timings={})
    await asked(store, 6, variant="", outcome="held")
    assert await tally(store) == Tally(
        questions=5, of_step=5, failed=2, settled=3, declined=1, timed=4, slow=1,
        decided=0, rejected=0, signed=0, voted=0, disliked=0,
    )  # fmt: skip
    assert (await tally(store, THEIRS)).settled == 1
    assert await tally(store, Arm("other", SINCE, LATER)) == NONE
    assert (await tally(store, slow=None)).slow == 0
    assert (await tally(store, step_at=LATER)).of_step == 0
    assert await tally(store, Arm("wide", LATER, LATER)) == NONE


async def test_decisions_and_votes_count_when_they_come(store: Store) -> None:
    """A question once, whatever the rounds and voters; rejected in any round, disliked by anybody."""
    for number in (1, 2, 3, 4):
        await asked(store, number)
        await store.reviews.open(review(number))
        await store.canaries.tally(OURS, step_at=SINCE, failing=(), slow=None)
    assert (await tally(store)).decided == 0
    decisions = {1: "approved", 2: "edited", 3: "rejected"}
    for number, state in decisions.items():
        (opened,) = await store.reviews.for_question(f"q{number}")
        await store.reviews.decide(
            opened.id, "hash-1", state, "web:rita", {"action": state, "text": "Ten days."}
        )
    await store.reviews.open(review(3, interrupt_id="again", round=2, version_hash="hash-2"))
    again = (await store.reviews.for_question("q3"))[-1]
    await store.reviews.decide(again.id, "hash-2", "approved", "web:rita", {"action": "approve"})
    await store.conversations.feedback("q1", "web:ada", True)
    await store.conversations.feedback("q2", "web:ada", True)
    await store.conversations.feedback("q2", "web:lin", False, "wrong")
    found = await tally(store)
    assert (found.decided, found.rejected, found.signed, found.voted, found.disliked) == (3, 1, 3, 2, 1)
    (edit,) = await store.canaries.edits(OURS, ())
    assert (edit.question_id, edit.before, edit.after) == ("q2", "Thirty days [1].", "Ten days.")
    (known,) = await store.canaries.edits(OURS, (edit.id,))
    assert (known.id, known.before, known.after) == (edit.id, None, None)
    assert await store.canaries.edits(THEIRS, ()) == []


async def test_a_side_can_be_its_channels(store: Store) -> None:
    """Only conversations there."""
    await asked(store, 1, channel="C1")
    await asked(store, 2, channel="C2", outcome="declined")
    found = await tally(store, Arm("wide", SINCE, LATER, ("slack:C2", "slack:C3")))
    assert (found.questions, found.declined) == (1, 1)


async def test_what_is_slow_is_a_quantile_of_the_past(store: Store) -> None:
    """Of answering, not of waiting; nothing where nothing was asked."""
    for number in range(1, 21):
        await asked(store, number, variant="", timings={"answer": 10.0 * number, "wait": 9_999.0})
    assert await store.canaries.quantile(THEIRS, 0.95) == (20, 190.0)
    assert await store.canaries.quantile(OURS, 0.95) == (0, None)


@pytest.mark.slow
async def test_counting_takes_little_of_a_large_table(store: Store) -> None:
    """Twenty thousand questions: both sides are counted in less than a second, once a second at most."""
    async with transaction(store.database.engine) as connection:
        await connection.execute(text(MANY))
    began = datetime.now(UTC)
    ours, theirs = await tally(store), await tally(store, THEIRS)
    assert (ours.questions, theirs.questions) == (1_000, 19_000)
    assert (datetime.now(UTC) - began).total_seconds() < 1


MANY = """
WITH made AS (
  INSERT INTO conversations (id, platform, channel, thread, private, title)
  SELECT 'slack:C:' || n, 'slack', 'C', n::text, false, '' FROM generate_series(1, 20000) AS n RETURNING id
), asked AS (
  INSERT INTO questions (id, conversation_id, asker, text, language, state, address)
  SELECT 'q' || substr(id, 9), id, 'slack:U', 'x', 'en', 'answered', '{}' FROM made RETURNING id
)
INSERT INTO runs (question_id, outcome, timings, variant)
SELECT id, 'answered', '{"answer": 800, "wait": 3, "embed": 4, "sql": 5}',
       CASE WHEN substr(id, 2)::int % 20 = 0 THEN 'wide' ELSE '' END
  FROM asked
"""
