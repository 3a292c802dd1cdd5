"""Pools that survive the server's restarts, transactions, and checkpointers that import nothing."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, TypedDict

import psycopg
import pytest
from langgraph.graph import END, START, StateGraph
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from store import Store
from store.database import Database, connection_string, single, transaction
from store.errors import DatabaseUnavailable, NotFound
from tests.questions import question

COUNT = text("SELECT count(*) FROM inbox")
WRITE = text("INSERT INTO inbox (platform, dedupe_key, kind) VALUES ('web', :key, 'question')")


class State(TypedDict, total=False):
    told: dict[str, Any]
    known: list[Any]


@dataclass
class Tool:
    name: str


def graph() -> "StateGraph[Any]":
    def work(state: State) -> State:
        return {"known": [*state.get("known", []), state["told"]["word"]]}

    built = StateGraph(State)
    built.add_node("work", work)
    built.add_edge(START, "work")
    built.add_edge("work", END)
    return built


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


async def cut_all_sessions(url: str) -> None:
    """What a restart of the server does to its clients."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s%40crt@/signoff?host=%2Frun%2Fpg",
        "postgresql+psycopg://ada:s%40crt@/signoff?host=%2Frun%2Fpg",
    ],
)
def test_both_forms_of_url_reach_the_same_socket(url: str) -> None:
    """Operators paste either; passwords and socket folders with special characters survive."""
    found = psycopg.conninfo.conninfo_to_dict(connection_string(url))
    assert found == {"user": "ada", "password": "s@crt", "dbname": "signoff", "host": "/run/pg"}


async def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    """An error in the block takes back what the block wrote."""

    async def write_and_fail() -> None:
        async with transaction(store.database.engine) as connection:
            await connection.execute(WRITE, {"key": "a"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await write_and_fail()
    async with transaction(store.database.engine) as connection:
        assert await connection.scalar(COUNT) == 0


async def test_no_call_fails_after_a_restart_of_the_server(
    store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools replace dead connections that lay still before they hand them out."""
    monkeypatch.setattr("store.database.IDLE_SECONDS", 0.0)
    compiled = graph().compile(checkpointer=store.database.saver())
    await compiled.ainvoke({"told": {"word": "one"}}, thread("t"))
    await cut_all_sessions(database_url)
    await store.database.ping()
    compiled = graph().compile(checkpointer=store.database.saver())
    state = await compiled.ainvoke({"told": {"word": "two"}}, thread("t"))
    assert state["known"] == ["one", "two"]


async def test_a_restart_amid_work_costs_one_call(store: Store, database_url: str) -> None:
    """A connection used a moment ago is not asked whether it stands: the first call over it says that the database
    is away, and empties the pool."""
    await asyncio.gather(*(store.database.ping() for _ in range(4)))
    await cut_all_sessions(database_url)
    with pytest.raises(DatabaseUnavailable):
        await store.database.ping()
    for _ in range(4):
        await store.database.ping()


async def test_a_lone_read_opens_no_transaction(store: Store) -> None:
    """`reading` spares BEGIN and COMMIT, and leaves no connection that writes without them."""
    at = text("SELECT now() = statement_timestamp()")  # two statements of one transaction have one now()
    async with single(store.database.engine) as connection:
        await connection.execute(text("SELECT pg_sleep(.01)"))
        assert await connection.scalar(at)
    async with transaction(store.database.engine) as connection:
        await connection.execute(text("SELECT pg_sleep(.01)"))
        assert not await connection.scalar(at)


async def test_a_database_that_does_not_answer_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One error for every way of not being there, and its text says what to check."""
    caplog.set_level(logging.ERROR)  # the pool's own warnings of the vain attempts
    monkeypatch.setattr("store.database.OPEN_SECONDS", 0.3)
    nobody = Database("postgresql://ada@/signoff?host=%2Fnowhere")
    with pytest.raises(DatabaseUnavailable, match="SIGNOFF_DATABASE_URL"):
        await nobody.ping()
    with pytest.raises(DatabaseUnavailable):
        await nobody.open()
    await nobody.close()


async def test_a_statement_that_fails_is_not_an_outage(store: Store) -> None:
    """A time-out would be repeated for ever if it were taken for a database that is away."""

    async def slow() -> None:
        async with transaction(store.database.engine) as connection:
            await connection.execute(text("SET LOCAL statement_timeout = '50ms'"))
            await connection.execute(text("SELECT pg_sleep(5)"))

    with pytest.raises(OperationalError, match="statement timeout"):
        await slow()


async def test_nothing_is_prepared_on_the_server(store: Store) -> None:
    """PgBouncer loses prepared statements, and a generic plan cost a vector query 96 % of its rows."""
    async with transaction(store.database.engine) as connection:
        for _ in range(12):
            await connection.execute(text("SELECT 1 WHERE :n = 1"), {"n": 1})
        assert await connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) == 0
    saver = store.database.saver()
    for _ in range(12):
        await saver.aget_tuple(thread("t"))
    assert isinstance(saver.conn, AsyncConnectionPool)
    async with saver.conn.connection() as own:
        row = await (await own.execute("SELECT count(*) AS prepared FROM pg_prepared_statements")).fetchone()
    assert row == {"prepared": 0}


async def test_every_run_has_a_saver_of_its_own(store: Store) -> None:
    """A saver has one lock; eight runs over pools of four finish, since nobody waits while holding a connection.
    Rows 4 and 35."""
    assert store.database.saver() is not store.database.saver()
    small = Database(store.database.conninfo, pool_size=4)
    await small.open()

    async def turn(name: str) -> None:
        compiled = graph().compile(checkpointer=small.saver())
        for word in ("one", "two"):
            await compiled.ainvoke({"told": {"word": word}}, thread(name))
            await small.ping()

    async with asyncio.timeout(20):
        await asyncio.gather(*(turn(f"t{number}") for number in range(8)))
    await small.close()


async def test_a_checkpoint_imports_nothing(store: Store) -> None:
    """Plain state returns as it was; a type that a row names is not imported but comes back as plain data."""
    serializer = store.database.saver().serde
    plain = {"word": "年假\0", "list": [1, 2.5, None, True], "nested": {"a": ["b"]}}
    assert serializer.loads_typed(serializer.dumps_typed(plain)) == plain
    returned = serializer.loads_typed(serializer.dumps_typed({"tool": Tool("search")}))
    assert not isinstance(returned["tool"], Tool)


async def test_forgetting_a_thread_leaves_no_row_and_no_other_thread(store: Store) -> None:
    """Retention deletes checkpoints, blobs and writes of exactly the threads it names."""
    compiled = graph().compile(checkpointer=store.database.saver())
    for name in ("c/1", "c/2"):
        await compiled.ainvoke({"told": {"word": "one"}}, thread(name))
    await store.database.delete_checkpoints(["c/1"])
    async with transaction(store.database.engine) as connection:
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            found = await connection.scalars(text(f"SELECT DISTINCT thread_id FROM {table}"))
            assert "c/1" not in found.all()
    assert (await compiled.aget_state(thread("c/2"))).values["known"] == ["one"]


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
async def test_whatever_text_goes_into_a_statement_is_storable(store: Store, bad: str) -> None:
    """An id, a name or a principal that nobody cleaned finds nothing, and breaks nothing, wherever it enters."""
    with pytest.raises(NotFound):
        await store.conversations.get(bad)
    with pytest.raises(NotFound):
        await store.conversations.question(bad)
    assert await store.documents.list(bad) == []
    assert await store.documents.remove_collection(bad) == 0
    assert await store.conversations.list(bad, bad) == []
    assert await store.reviews.list(bad) == []
    assert not await store.conversations.set_state(bad, "answered", answer={bad: bad})
    assert not await store.reviews.claim(1, bad)
    await store.people.link(bad, f"{bad}2", bad)
    assert len(await store.people.principals(bad)) == 2
    await store.changes.notify("reviews", {bad: bad})
    await store.inbox.accept(question(conversation_id=bad, channel=bad, question_id="q9", text=bad))
    await store.conversations.feedback("q9", bad, True, bad)
    assert [
        word.reason
        for word in await store.conversations.feedback_by("ab" if "\0" in bad else "a\ufffdb", bad)
    ]
