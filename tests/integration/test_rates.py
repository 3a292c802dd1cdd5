"""What a person or a channel may ask is counted in the database, by one statement, for every process alike."""

import asyncio

import pytest
from sqlalchemy import text

from store import Store
from store.database import transaction
from store.inbox import Accepted, Door
from store.rates import Allowance, sweep, take
from tests.questions import question


async def ask(store: Store, allowance: Allowance) -> tuple[str, float] | None:
    async with transaction(store.database.engine) as connection:
        return await take(connection, allowance)


async def test_an_allowance_is_exact_however_many_ask_at_once(store: Store) -> None:
    """Forty at the same moment over an allowance of five: five pass, the others learn how long it takes."""
    answers = await asyncio.gather(*(ask(store, Allowance(600, {"person:a": 5})) for _ in range(40)))
    refused = [answer for answer in answers if answer is not None]
    assert len(answers) - len(refused) == 5
    assert all(key == "person:a" and 110 < wait <= 120 for key, wait in refused)


async def test_it_fills_up_again_evenly(store: Store) -> None:
    """A fifth of the period gives one question back, no more; a refusal costs nothing."""
    allowance = Allowance(600, {"person:a": 5})
    assert [await ask(store, allowance) for _ in range(5)] == [None] * 5
    for _ in range(3):
        assert await ask(store, allowance) is not None
    async with transaction(store.database.engine) as connection:
        await connection.execute(text("UPDATE rates SET whole_at = whole_at - interval '121 seconds'"))
    assert await ask(store, allowance) is None
    assert await ask(store, allowance) is not None


async def test_a_person_and_a_channel_have_their_own(store: Store) -> None:
    """Whichever is used up is named; two keys taken in either order by many at once never lock each other."""
    both = Allowance(600, {"person:a": 2, "channel:web:general": 100})
    swapped = Allowance(600, {"channel:web:general": 100, "person:b": 100})
    await asyncio.gather(*(ask(store, one) for one in (both, swapped) * 10))
    over = await ask(store, both)
    assert over is not None
    assert over[0] == "person:a"


async def test_what_is_whole_is_forgotten(store: Store) -> None:
    """The table holds who asked lately, not who ever asked."""
    await ask(store, Allowance(600, {"person:a": 5}))
    async with transaction(store.database.engine) as connection:
        await sweep(connection)
        assert await connection.scalar(text("SELECT count(*) FROM rates")) == 1
        await connection.execute(text("UPDATE rates SET whole_at = now() - interval '1 second'"))
        await sweep(connection)
        assert await connection.scalar(text("SELECT count(*) FROM rates")) == 0


@pytest.mark.parametrize("reason", ["person", "full", "away"])
async def test_a_refused_message_is_stored_like_any_other(store: Store, reason: str) -> None:
    """Its redelivery is nothing new; it leaves no question to be answered and no turn to be remembered."""
    doors = {
        "person": Door(allowance=Allowance(600, {"person:web:ada": 1})),
        "full": Door(waiting=1),
        "away": Door(refused="away"),
    }
    if reason != "away":
        assert await store.inbox.accept(question(1), doors[reason]) is not None
    accepted = await store.inbox.accept(question(2), doors[reason])
    assert isinstance(accepted, Accepted)
    assert accepted.refused == reason
    assert await store.inbox.accept(question(2), doors[reason]) is None
    row = await store.conversations.question(accepted.question_id)
    assert (row.state, row.remembered) == ("refused", True)
    jobs = await store.queue.app.job_manager.list_jobs_async(task="tell")
    assert [job.task_kwargs["reason"] for job in jobs] == [reason]
