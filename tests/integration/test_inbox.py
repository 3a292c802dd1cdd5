"""What comes in is stored once, with its job, or not at all."""

import asyncio
import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from store import Store
from store.database import transaction
from store.inbox import Inbox
from store.queue import Queue
from tests.questions import CONVERSATION, held, question

TABLES = ("inbox", "conversations", "questions", "procrastinate_jobs")


async def counts(store: Store) -> dict[str, int]:
    async with transaction(store.database.engine) as connection:
        return {
            table: await connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0 for table in TABLES
        }


async def jobs(store: Store) -> list[tuple[str, str | None, Mapping[str, Any]]]:
    return [
        (job.task_name, job.lock, job.task_kwargs)
        for job in await store.queue.app.job_manager.list_jobs_async()
    ]


class BrokenQueue(Queue):
    """Stores the job and then fails, as a crash before the commit does."""

    async def defer(self, *arguments: Any, **options: Any) -> int:
        await super().defer(*arguments, **options)
        raise RuntimeError("killed")


async def test_a_question_is_stored_with_its_conversation_and_its_job(store: Store) -> None:
    """One row each, the job locked by the conversation."""
    accepted = await store.inbox.accept(question())
    assert accepted is not None
    assert (accepted.question_id, accepted.conversation_id) == ("q1", CONVERSATION)
    assert await counts(store) == dict.fromkeys(TABLES, 1)
    assert await jobs(store) == [("answer", CONVERSATION, {"question_id": "q1"})]
    stored = await store.conversations.question("q1")
    assert (stored.state, stored.asker, stored.text) == ("received", "web:ada", "question 1")
    conversation = await store.conversations.get(CONVERSATION)
    assert (conversation.title, conversation.channel) == ("question 1", "general")


async def test_a_message_seen_before_is_nothing_new(store: Store) -> None:
    """Platforms redeliver: the second time returns None and stores nothing."""
    await store.inbox.accept(question())
    assert await store.inbox.accept(question(question_id="another")) is None
    assert await counts(store) == dict.fromkeys(TABLES, 1)


async def test_of_many_deliveries_at_once_one_is_accepted(store: Store) -> None:
    """Two ingress processes get the same event at the same moment."""
    accepted = await asyncio.gather(
        *(store.inbox.accept(question(question_id=f"q{copy}")) for copy in range(20))
    )
    assert sum(one is not None for one in accepted) == 1
    assert await counts(store) == dict.fromkeys(TABLES, 1)


async def test_a_crash_before_the_commit_leaves_nothing(store: Store) -> None:
    """No row without its job, no job without its row: the platform redelivers, and then it is new."""
    broken = dataclasses.replace(store, inbox=Inbox(store.database.engine, BrokenQueue(store.queue.app)))
    with pytest.raises(RuntimeError):
        await broken.inbox.accept(question())
    assert await counts(store) == dict.fromkeys(TABLES, 0)
    assert await store.inbox.accept(question()) is not None


async def test_questions_of_a_conversation_keep_one_order(store: Store) -> None:
    """However many arrive at once, their numbers and their jobs agree on the order."""
    await asyncio.gather(*(store.inbox.accept(question(number)) for number in range(20)))
    asked = [row.id for row in await store.conversations.questions(CONVERSATION)]
    assert [arguments["question_id"] for _, _, arguments in await jobs(store)] == asked
    assert len(asked) == 20


async def test_what_postgres_cannot_store_is_cleaned_at_the_door(store: Store) -> None:
    """NUL and lone surrogates are in some people's clipboard; they must not cost them the answer."""
    bad = "a\0b\ud800c"
    await store.inbox.accept(
        question(text=bad, asker=f"web:{bad}", dedupe_key=bad, thread=bad, address={bad: [bad]})
    )
    stored = await store.conversations.question("q1")
    assert stored.text == "ab�c"
    assert stored.asker == "web:ab�c"
    assert stored.address == {"ab�c": ["ab�c"]}
    assert await store.conversations.set_state("q1", "answered", answer={"text": bad})
    assert (await store.conversations.question("q1")).answer == {"text": "ab�c"}


@pytest.mark.parametrize("close", ["withdraw", "supersede"])
async def test_a_deleted_or_edited_message_takes_its_review_with_it(store: Store, close: str) -> None:
    """The question ends and its draft can no longer be decided, in one transaction."""
    review = await held(store)
    assert await getattr(store.inbox, close)("q1")
    state = {"withdraw": "withdrawn", "supersede": "superseded"}[close]
    assert (await store.conversations.question("q1")).state == state
    assert (await store.reviews.get(review.id)).state == "withdrawn"
    assert [event.action for event in await store.reviews.events(review.id)] == ["opened", "withdrawn"]
    decided = await store.reviews.decide(review.id, "hash-1", "approved", "web:bob", {"action": "approve"})
    assert decided.outcome == "gone"


async def test_closing_again_changes_nothing(store: Store) -> None:
    """A repeated deletion is False, and a deleted question stays deleted when an edit follows."""
    await store.inbox.accept(question())
    assert await store.inbox.withdraw("q1")
    assert not await store.inbox.withdraw("q1")
    assert not await store.inbox.supersede("q1")
    assert not await store.inbox.withdraw("unknown")
    assert (await store.conversations.question("q1")).state == "withdrawn"


async def test_a_deleted_question_that_was_answered_is_to_be_forgotten(store: Store) -> None:
    """Its turn becomes due again, for the memory job to take it out."""
    await store.inbox.accept(question())
    await store.conversations.set_state("q1", "answered", answer={"text": "yes"})
    await store.conversations.mark_remembered("q1", "answered")
    assert await store.inbox.withdraw("q1")
    row = await store.conversations.question("q1")
    assert (row.state, row.remembered) == ("withdrawn", False)


async def test_sweeping_forgets_keys_but_no_questions(store: Store) -> None:
    """Dedupe keys are needed for hours; the questions stay."""
    await store.inbox.accept(question())
    assert await store.inbox.sweep(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert await store.inbox.sweep(datetime.now(UTC) + timedelta(hours=1)) == 1
    assert await counts(store) == {**dict.fromkeys(TABLES, 1), "inbox": 0}
