"""Other processes hear what changed, and hear that they missed something."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from store import Store
from store.changes import LISTENING, Change, Changes
from store.database import Database, transaction
from tests.integration.test_database import cut_all_sessions


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[Changes]:
    """The changes of another process."""
    database = Database(database_url)
    yield Changes(database.engine, database.conninfo)
    await database.close()


async def test_a_change_is_heard_elsewhere(store: Store, elsewhere: Changes) -> None:
    """Topic and payload arrive, in order, after the listener said that it listens."""
    async with asyncio.timeout(10), aclosing(elsewhere.listen()) as heard:
        assert await anext(heard) == Change(LISTENING, {})
        await store.changes.notify("reviews", {"review": 1})
        await store.changes.notify("conversation:web:general:1", {"text": "年假\0\ud800"})
        assert await anext(heard) == Change("reviews", {"review": 1})
        second = await anext(heard)
        assert second.topic == "conversation:web:general:1"
        assert second.payload["text"].startswith("年假")


async def test_a_change_comes_with_its_transaction(store: Store, elsewhere: Changes) -> None:
    """Rolled back, nobody hears of it."""

    async def change(name: str, *, fail: bool) -> None:
        async with transaction(store.database.engine) as connection:
            await store.changes.notify(name, {}, connection)
            if fail:
                raise RuntimeError

    async with asyncio.timeout(10), aclosing(elsewhere.listen()) as heard:
        await anext(heard)
        with pytest.raises(RuntimeError):
            await change("undone", fail=True)
        await change("done", fail=False)
        assert (await anext(heard)).topic == "done"


async def test_a_lost_session_is_opened_again_and_said(
    store: Store, elsewhere: Changes, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of the server the listener hears that it may have missed something, and then what is new."""
    monkeypatch.setattr("store.database.IDLE_SECONDS", 0.0)
    async with asyncio.timeout(20), aclosing(elsewhere.listen()) as heard:
        await anext(heard)
        await cut_all_sessions(database_url)
        assert await anext(heard) == Change(LISTENING, {})
        await store.changes.notify("reviews", {})
        assert (await anext(heard)).topic == "reviews"


async def test_a_long_change_is_refused_before_postgres_does(store: Store) -> None:
    """7,500 bytes, counted as bytes: 2,600 Chinese characters are too many."""
    await store.changes.notify("reviews", {"text": "假" * 2_400})
    with pytest.raises(ValueError, match="send an id"):
        await store.changes.notify("reviews", {"text": "假" * 2_600})


async def test_what_others_say_on_the_channel_is_left_alone(store: Store, elsewhere: Changes) -> None:
    """Neither broken JSON nor another program's message disturbs the listener."""
    from sqlalchemy import text

    async with asyncio.timeout(10), aclosing(elsewhere.listen()) as heard:
        await anext(heard)
        async with transaction(store.database.engine) as connection:
            for body in ("{", "[]", '"x"', '{"topic": 1}'):
                await connection.execute(text("SELECT pg_notify('signoff', :body)"), {"body": body})
        await store.changes.notify("reviews", {})
        assert (await anext(heard)).topic == "reviews"
