"""Payloads are stored once with their job, from the loop's side and from a thread's."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from store import Store
from store.arrivals import SyncDoor
from store.errors import DatabaseUnavailable
from store.queue import Retry

PAYLOAD: dict[str, Any] = {"event": {"text": "签发 \x00 \ud800"}, "list": [1, {"a": None}]}


async def test_a_payload_is_stored_once_whichever_way_it_comes(store: Store) -> None:
    """The same key a second time, over either door, is neither stored nor queued again; its job gets it whole."""
    taken: list[int] = []

    async def look(arrival_id: int) -> None:
        taken.append(arrival_id)

    store.queue.task("look", look, retry=Retry())
    door = store.arrivals.door()
    how = {"task": "look", "lock": "look:1"}
    assert await asyncio.to_thread(door.accept, "feishu", "k1", PAYLOAD, **how)
    assert not await store.arrivals.accept("feishu", "k1", PAYLOAD, **how)
    assert await store.arrivals.accept("feishu", "k2", PAYLOAD, **how)
    assert not await asyncio.to_thread(door.accept, "feishu", "k2", PAYLOAD, **how)
    working = asyncio.create_task(store.queue.run_worker(["answers"]))
    async with asyncio.timeout(20):
        while len(taken) < 2:
            await asyncio.sleep(0.02)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert taken == sorted(taken)
    kept = await store.arrivals.take(taken[0])
    assert kept is not None
    assert kept["list"] == [1, {"a": None}]
    assert "\x00" not in kept["event"]["text"]
    await store.arrivals.done(taken[0])
    assert await store.arrivals.take(taken[0]) is None
    assert await store.arrivals.sweep(datetime.now(UTC) + timedelta(hours=1)) == 2
    door.close()


async def test_a_broken_connection_is_made_anew(store: Store, database_url: str) -> None:
    """The server ends the thread's session while it is idle: the next payload is stored all the same."""
    door = store.arrivals.door()
    assert door.accept("feishu", "a", {}, task="look", lock="x")
    assert door._connection is not None
    pid = door._connection.info.backend_pid
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert door.accept("feishu", "b", {}, task="look", lock="x")
    door.close()


def test_a_database_that_is_away_is_said_so() -> None:
    """Then the payload is not acknowledged, and the platform sends it again."""
    door = SyncDoor("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseUnavailable):
        door.accept("feishu", "a", {}, task="look", lock="x")


async def test_what_is_kept_about_a_person_ends(store: Store) -> None:
    """Replaced by its key, found within its time, forgotten after it."""
    await store.kept.put("feishu:ou_1", "file", "f1", {"name": "a"})
    await store.kept.put("feishu:ou_1", "file", "f1", {"name": "b"})
    await store.kept.put("feishu:ou_2", "file", "f1", {"name": "c"})
    assert [row.data["name"] for row in await store.kept.get("feishu:ou_1", "file")] == ["b"]
    assert await store.kept.get("feishu:ou_1", "file", timedelta(0)) == []
    await store.kept.drop("feishu:ou_1", "file", "f1")
    assert await store.kept.sweep("file", datetime.now(UTC) + timedelta(hours=1)) == 1
