"""Everything that goes out is a row first, and goes out once."""

import asyncio

import pytest
from sqlalchemy import text

from store import NotFound, Store
from store.database import transaction
from store.deliveries import DeliveryRow, NewDelivery
from tests.questions import CONVERSATION, held, question


def delivery(purpose: str = "answer:q1", words: str = "Thirty days [1].", **links: str | int) -> NewDelivery:
    return NewDelivery(purpose, "web", "answer", {"text": words}, {"thread": "1"}, **links)  # type: ignore[arg-type]


async def put(store: Store, purpose: str = "answer:q1") -> DeliveryRow:
    await store.inbox.accept(question())
    return await store.deliveries.put(delivery(purpose, conversation_id=CONVERSATION, question_id="q1"))


async def test_one_purpose_is_one_row(store: Store) -> None:
    """Put again, also at once and with other words, it is the row that is there."""
    first = await put(store)
    again = await asyncio.gather(*(store.deliveries.put(delivery(words=f"{n}")) for n in range(10)))
    assert all(row == first for row in again)
    assert (first.state, first.content, first.attempts) == ("pending", {"text": "Thirty days [1]."}, 0)


async def test_of_many_senders_one_sends(store: Store) -> None:
    """The claim is a compare-and-set, and counts the attempts."""
    row = await put(store)
    claims = await asyncio.gather(*(store.deliveries.claim(row.id) for _ in range(20)))
    assert sum(claims) == 1
    sending = await store.deliveries.get(row.id)
    assert (sending.state, sending.attempts) == ("sending", 1)


async def test_what_was_sent_is_not_sent_again(store: Store) -> None:
    """It has the platform's id, and cannot be claimed."""
    row = await put(store)
    await store.deliveries.claim(row.id)
    sent = await store.deliveries.sent(row.id, "1700.42")
    assert (sent.state, sent.message_id) == ("sent", "1700.42")
    assert sent.sent_at is not None
    assert not await store.deliveries.claim(row.id)
    assert await store.deliveries.due(10) == []


async def test_what_failed_may_be_tried_again_and_what_is_unknown_may_not(store: Store) -> None:
    """ "Not taken" is safe to repeat; "nobody knows" is looked up by the house that knows how."""
    row = await put(store)
    await store.deliveries.claim(row.id)
    failed = await store.deliveries.failed(row.id, "HTTP 503 " * 200)
    assert failed.state == "failed"
    assert len(failed.error) == 500
    assert await store.deliveries.claim(row.id)
    assert (await store.deliveries.unknown(row.id, "TimeoutError")).state == "unknown"
    assert not await store.deliveries.claim(row.id)


async def _aged(store: Store, delivery_id: int, age: str) -> None:
    async with transaction(store.database.engine) as connection:
        await connection.execute(
            text("UPDATE deliveries SET created_at = now() - CAST(:age AS interval) WHERE id = :id"),
            {"age": age, "id": delivery_id},
        )


@pytest.mark.parametrize(
    ("state", "attempts", "early", "late"),
    [
        ("pending", 0, "9 minutes", "11 minutes"),
        ("sending", 1, "9 minutes", "11 minutes"),
        ("failed", 4, "50 seconds", "70 seconds"),
        ("failed", 8, "15 minutes", "17 minutes"),
    ],
)
async def test_what_was_left_unsent_comes_due(
    store: Store, state: str, attempts: int, early: str, late: str
) -> None:
    """What its sender dropped is found after ten minutes, what failed after pauses that double; neither before."""
    row = await put(store)
    for _ in range(attempts):
        await store.deliveries.claim(row.id)
        await store.deliveries.failed(row.id, "ConnectionError")
    if state == "sending":
        await store.deliveries.claim(row.id)
    await _aged(store, row.id, early)
    assert await store.deliveries.due(10) == []
    await _aged(store, row.id, late)
    assert [found.id for found in await store.deliveries.due(10)] == [row.id]


async def test_a_day_is_enough(store: Store) -> None:
    """What could not be sent for a day is refused once, and is due no more."""
    row = await put(store)
    await store.deliveries.claim(row.id)
    await store.deliveries.failed(row.id, "ConnectionError")
    await _aged(store, row.id, "25 hours")
    assert await store.deliveries.due(10) == []
    assert [found.id for found in await store.deliveries.give_up()] == [row.id]
    assert await store.deliveries.give_up() == []
    assert not await store.deliveries.claim(row.id)


async def test_a_sent_message_is_rewritten_in_place(store: Store) -> None:
    """A corrected answer keeps its id, its state and its place."""
    row = await put(store)
    await store.deliveries.sent(row.id, "1700.42")
    changed = await store.deliveries.rewrite(row.id, {"text": "Forty days [1]."})
    assert (changed.state, changed.message_id) == ("sent", "1700.42")
    assert changed.content == {"text": "Forty days [1]."}


async def test_messages_are_found_by_what_they_belong_to(store: Store) -> None:
    """In the order they were put."""
    review = await held(store)
    first = await put(store, "held:q1:1")
    second = await put(store, "answer:q1")
    card = await store.deliveries.put(delivery("card:1", review_id=review.id))
    assert [row.id for row in await store.deliveries.for_conversation(CONVERSATION)] == [first.id, second.id]
    assert [row.id for row in await store.deliveries.for_question("q1")] == [first.id, second.id]
    assert await store.deliveries.for_review(review.id) == [card]


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    """Every change of one message says so."""
    for change in (
        store.deliveries.get(404),
        store.deliveries.sent(404, "1"),
        store.deliveries.failed(404, "x"),
        store.deliveries.rewrite(404, {}),
    ):
        with pytest.raises(NotFound, match="404"):
            await change
    assert not await store.deliveries.claim(404)
