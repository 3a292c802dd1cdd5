"""A question's states, its conversation's memory, feedback and retention."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from store import NotFound, Store
from store.conversations import OPEN, TERMINAL
from store.database import transaction
from tests.questions import CONVERSATION, held, question


async def test_conversations_are_listed_last_active_first(store: Store) -> None:
    """By platform, or by one of its channels."""
    for number, channel in enumerate(("general", "legal", "general")):
        await store.inbox.accept(question(number, conversation_id=f"web:{channel}:{number}", channel=channel))
    assert [row.id for row in await store.conversations.list("web")] == [
        "web:general:2",
        "web:legal:1",
        "web:general:0",
    ]
    assert [row.id for row in await store.conversations.list("web", "legal")] == ["web:legal:1"]
    assert await store.conversations.list("slack") == []


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    """With the id in the message, for the log."""
    with pytest.raises(NotFound, match="nowhere"):
        await store.conversations.get("nowhere")
    with pytest.raises(NotFound, match="q9"):
        await store.conversations.question("q9")
    with pytest.raises(NotFound):
        await store.conversations.feedback("q9", "web:ada", helpful=True)
    assert not await store.conversations.set_state("q9", "answered")


@pytest.mark.parametrize("end", sorted(TERMINAL))
async def test_an_end_is_for_ever(store: Store, end: str) -> None:
    """No state follows an end, and the answer stays what readers were shown."""
    await store.inbox.accept(question())
    assert await store.conversations.set_state("q1", "answering")
    assert await store.conversations.set_state("q1", end, answer={"text": "first"})
    for state in sorted(OPEN | TERMINAL):
        assert not await store.conversations.set_state("q1", state, answer={"text": "second"})
    row = await store.conversations.question("q1")
    assert (row.state, row.answer) == (end, {"text": "first"})
    assert row.finished_at is not None


async def test_only_an_answer_can_be_corrected(store: Store) -> None:
    """Asked for explicitly, an answered question gets a new answer; no other end does."""
    for number, end in enumerate(("answered", "withdrawn")):
        await store.inbox.accept(question(number))
        await store.conversations.set_state(f"q{number}", end, answer={"text": "first"})
        await store.conversations.mark_remembered(f"q{number}", end)
    corrected: dict[str, Any] = {"answer": {"text": "second"}, "correction": True}
    assert await store.conversations.set_state("q0", "answered", **corrected)
    assert not await store.conversations.set_state("q1", "answered", **corrected)
    row = await store.conversations.question("q0")
    assert (row.answer, row.remembered) == ({"text": "second"}, False)
    with pytest.raises(ValueError, match="correction"):
        await store.conversations.set_state("q0", "declined", correction=True)
    with pytest.raises(ValueError, match="no state"):
        await store.conversations.set_state("q0", "asnwered")


async def test_of_two_ends_at_once_one_wins(store: Store) -> None:
    """An answer and a deletion race: one of them is told that it lost."""
    await store.inbox.accept(question())
    changed = await asyncio.gather(
        *(store.conversations.set_state("q1", state) for state in ("answered", "declined", "failed") * 10)
    )
    assert sum(changed) == 1


async def test_turns_not_yet_remembered_are_found_in_order(store: Store) -> None:
    """What the next question needs and the memory job has not reached; what was taken back is left out."""
    for number in range(5):
        await store.inbox.accept(question(number))
    for number in range(4):
        await store.conversations.set_state(f"q{number}", "answered", answer={"text": "yes"})
    await store.conversations.mark_remembered("q0", "answered")
    await store.inbox.withdraw("q2")
    asking = await store.conversations.question("q4")
    late = await store.conversations.unremembered(CONVERSATION, asking.sequence)
    assert [row.id for row in late] == ["q1", "q3"]


async def test_a_held_turn_is_due_again_once_it_is_answered(store: Store) -> None:
    """It was remembered as "in review"; the answer must replace that."""
    await held(store)
    await store.conversations.mark_remembered("q1", "held")
    assert (await store.conversations.question("q1")).remembered
    await store.conversations.set_state("q1", "answered", answer={"text": "yes"})
    await store.conversations.mark_remembered("q1", "held")
    assert not (await store.conversations.question("q1")).remembered


async def test_the_last_word_of_a_person_counts(store: Store) -> None:
    """One row for each person and question."""
    await store.inbox.accept(question())
    await store.conversations.feedback("q1", "web:ada", helpful=True)
    await store.conversations.feedback("q1", "web:ada", helpful=False, reason="out of date\0")
    await store.conversations.feedback("q1", "web:bob", helpful=True)
    async with transaction(store.database.engine) as connection:
        rows = await connection.execute(text("SELECT person, helpful, reason FROM feedback ORDER BY 1"))
        assert [tuple(row) for row in rows] == [("web:ada", False, "out of date"), ("web:bob", True, "")]


async def checkpoint(store: Store, thread: str) -> None:
    async with transaction(store.database.engine) as connection:
        await connection.execute(
            text(
                "INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint) VALUES (:thread, '1', '{}')"
            ),
            {"thread": thread},
        )


async def test_retention_finds_finished_threads_until_they_are_gone(store: Store) -> None:
    """Ended long enough ago and still taking room; deleted once, it is not found again."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for number in range(3):
        await store.inbox.accept(question(number))
    for number in range(2):
        await store.conversations.set_state(f"q{number}", "answered")
        await checkpoint(store, f"{CONVERSATION}/q{number}")
    await checkpoint(store, f"{CONVERSATION}/q2")
    assert await store.conversations.finished_before(datetime.now(UTC) - timedelta(days=1)) == []
    found = await store.conversations.finished_before(tomorrow)
    assert [row.id for row in found] == ["q0", "q1"]
    await store.database.delete_checkpoints([f"{CONVERSATION}/{row.id}" for row in found])
    assert await store.conversations.finished_before(tomorrow) == []


async def test_a_pending_review_survives_every_age(store: Store) -> None:
    """Even where its question counts as ended, its interrupt must stay."""
    await held(store)
    await checkpoint(store, f"{CONVERSATION}/q1")
    await store.conversations.set_state("q1", "failed")
    assert await store.conversations.finished_before(datetime.now(UTC) + timedelta(days=1)) == []


async def test_runs_are_kept_for_each_stretch_of_the_way(store: Store) -> None:
    """The trace: what was retrieved, cited, spent and decided, the last run first at hand."""
    from store.runs import NewRun

    assert await store.runs.latest("q1") is None
    await store.inbox.accept(question())
    run: dict[str, Any] = {"retrieved": (3, 1), "cited": (3,), "confidence": 0.8, "rule": "contracts"}
    await store.runs.record(NewRun("q1", "held", "leave days\0", timings={"sql": 1.5}, **run))
    await store.runs.record(NewRun("q1", "answered", tokens={"prompt": 7}, tools=[{"name": "search"}]))
    first, last = await store.runs.for_question("q1")
    assert (first.outcome, first.retrieved, first.rewritten_question) == ("held", (3, 1), "leave days")
    assert first.timings == {"sql": 1.5}
    assert (last.outcome, last.tokens, last.tools) == ("answered", {"prompt": 7}, [{"name": "search"}])
    assert await store.runs.latest("q1") == last
