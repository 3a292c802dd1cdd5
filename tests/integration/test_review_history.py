"""The audit adds lines and changes none; what reviewers decided can be taken along as a set."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bot.exporting import audit, export
from rag_graph.evaluation import load
from store import Store
from store.database import transaction
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.questions import held, question, review

SINCE = datetime.now(UTC) - timedelta(days=1)


async def execute(store: Store, statement: str, **values: Any) -> None:
    async with transaction(store.database.engine) as connection:
        await connection.execute(text(statement), values)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE review_events SET actor = 'web:mallory'", "DELETE FROM review_events", "DELETE FROM questions"],
)
async def test_the_audit_is_append_only(store: Store, statement: str) -> None:
    """The database itself refuses to change or delete a line, also along with its question."""
    opened = await held(store)
    await store.reviews.claim(opened.id, "web:bob")
    before = await store.reviews.events(opened.id)
    with pytest.raises(Exception, match="append-only"):
        await execute(store, statement)
    assert await store.reviews.events(opened.id) == before


async def test_a_person_is_taken_out_of_it_and_the_lines_stay(store: Store) -> None:
    """Forgetting puts a pseudonym in their place, also among those who approved first."""
    opened = await held(store, disposition="two_reviewers")
    await store.reviews.saw(opened.id, "web:bob")
    assert await store.reviews.approve(opened.id, "hash-1", "web:bob", ())
    lines = len(await store.reviews.events(opened.id))
    await store.erasure.person(["web:bob"])
    after = await store.reviews.events(opened.id)
    assert len(after) == lines
    assert not any("bob" in event.actor for event in after)
    (name,) = (await store.reviews.get(opened.id)).approved_by
    assert name.startswith("erased:")


async def test_opening_is_noted_once_for_each_draft(store: Store) -> None:
    """Who saw it: the first time, and again when the draft is another one."""
    opened = await held(store, disposition="two_reviewers")
    for _ in range(3):
        await store.reviews.saw(opened.id, "web:bob")
    assert await store.reviews.revise(opened.id, "hash-1", "web:eve", {"text": "Ten days."}, "hash-2")
    await store.reviews.saw(opened.id, "web:bob")
    saw = [event.version_hash for event in await store.reviews.events(opened.id) if event.action == "saw"]
    assert saw == ["hash-1", "hash-2"]


async def test_the_audit_is_exported_in_order(store: Store) -> None:
    """Who did what, when, on which draft of which question, over several reviews."""
    first, second = await held(store), await held(store, 2)
    await store.reviews.claim(second.id, "web:bob")
    await store.reviews.decide(first.id, "hash-1", "approved", "web:eve", {"action": "approve"})
    lines = [line async for line in audit(store, SINCE)]
    assert [(line["question"], line["actor"], line["action"], line["draft"]) for line in lines] == [
        ("q1", "", "opened", "hash-1"),
        ("q2", "", "opened", "hash-1"),
        ("q2", "web:bob", "claimed", "hash-1"),
        ("q1", "web:eve", "approved", "hash-1"),
    ]
    assert json.dumps(lines)


async def test_reviews_become_a_set(store: Store, tmp_path: Path) -> None:
    """In the shared format: signed answers, rejected drafts, the passages of the collections that were cited, and which
    of them are right; nobody's name is in it."""
    version = await publish(store, HashEmbedder(), "hr", "leave.md", ["Thirty days.", "Ask the office."])
    passages = await store.verified.now(version.document_id)
    citations = [
        {"number": n, "document_id": version.document_id, "content_hash": chunk.content_hash}
        for n, chunk in enumerate(passages, 1)
    ]
    for number, (state, said) in enumerate((("edited", "Thirty days [1]."), ("rejected", "")), 1):
        await store.inbox.accept(question(number))
        draft = {"text": "About thirty [1]. Ask [2].", "citations": citations}
        opened = await store.reviews.open(review(number, draft=draft))
        decision = {"action": state, "by": "web:bob", "text": said, "reason": "incomplete"}
        await store.reviews.decide(opened.id, "hash-1", state, "web:bob", decision)
    assert await export(store, SINCE, tmp_path / "set") == 2
    chosen = load(tmp_path / "set")
    gold, wrong = chosen.queries
    assert (gold["text"], gold["type"], gold["answer"]) == ("question 1", "edited", ["Thirty days."])
    assert (wrong["type"], wrong["rejected"], wrong["reasons"]) == (
        "rejected", ["About thirty. Ask."], ["incomplete"],
    )  # fmt: skip
    assert [row.text for row in chosen.rows] == ["Thirty days.", "Ask the office."]
    assert chosen.relevant == {gold["id"]: {"hr/leave.md#0": 1.0}}
    assert "\t0\n" in (tmp_path / "set" / "qrels.tsv").read_text()
    assert "bob" not in (tmp_path / "set" / "queries.jsonl").read_text()
    assert "ada" not in (tmp_path / "set" / "queries.jsonl").read_text()


async def test_what_a_rule_has_led_to(store: Store) -> None:
    """Outcomes by rule and collection, in order, those of people alone; and since a moment."""
    for number, state in enumerate(("approved", "edited", "expired", "rejected"), 1):
        opened = await held(store, number, draft={"text": "x", "collections": ["hr", "it"]})
        by = "" if state == "expired" else "web:bob"
        await store.reviews.decide(opened.id, "hash-1", state, by, {"action": state})
    await held(store, 5, draft={"text": "x", "collections": []})
    assert await store.history.outcomes("contracts", "it") == ["approved", "edited", "rejected"]
    assert await store.history.outcomes("contracts", "finance") == []
    assert await store.history.outcomes("contracts", "it", datetime.now(UTC) + timedelta(minutes=1)) == []
    assert await store.history.collections("contracts") == ["hr", "it"]
    assert len(await store.history.past(["contracts"], SINCE, 10)) == 3


async def test_steps_of_the_waiting_are_jobs_of_their_own(store: Store) -> None:
    """Ordered with the review, each under its own lock and at its own time; noted once."""
    opened = await held(store, later={"reminded": 60.0, "timed_out": 3_600.0})
    async with transaction(store.database.engine) as connection:
        rows = await connection.execute(
            text(
                "SELECT lock, scheduled_at > now() AS later FROM procrastinate_jobs WHERE task_name = 'patience'"
            )
        )
        found = {(row.lock, row.later) for row in rows}
    assert found == {(f"patience:{opened.id}:reminded", True), (f"patience:{opened.id}:timed_out", True)}
    assert await store.reviews.note(opened.id, "reminded")
    assert not await store.reviews.note(opened.id, "reminded")
    assert await store.history.marks([opened.id]) == {opened.id: "reminded"}
    await store.reviews.decide(opened.id, "hash-1", "approved", "web:bob", {"action": "approve"})
    assert not await store.reviews.note(opened.id, "timed_out")
