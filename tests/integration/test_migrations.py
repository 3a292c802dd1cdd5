"""Both roads to the schema arrive at the same place; migrating can be repeated, killed and raced."""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from store.database import Database, connection_string, migrate
from store.errors import ExtensionMissing, SchemaAhead, SchemaOutdated
from store.schema import REVISION, metadata

ROOT = Path(__file__).parents[2]
MIGRATE = "import asyncio, sys; from store.database import migrate; asyncio.run(migrate(sys.argv[1]))"

COLUMNS = """
SELECT c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
       pg_get_expr(d.adbin, d.adrelid)
  FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attnum > 0 AND NOT a.attisdropped
"""
INDEXES = """
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
"""
INVALID = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
OTHERS = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
FOREIGN = ("procrastinate", "checkpoint", "alembic")


async def catalogue(url: str) -> dict[str, set[tuple[Any, ...]]]:
    """Everything Postgres knows about our own tables."""
    async with await psycopg.AsyncConnection.connect(connection_string(url)) as connection:
        return {
            name: {row for row in await (await connection.execute(query)).fetchall() if not _foreign(row[0])}
            for name, query in (("columns", COLUMNS), ("indexes", INDEXES), ("constraints", CONSTRAINTS))
        }


def _foreign(table: str) -> bool:
    return table.startswith(FOREIGN)


async def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(connection_string(url), autocommit=True) as connection:
        for statement in statements:
            cursor = await connection.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []


async def in_process(url: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", MIGRATE, url, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )


async def ready(url: str) -> None:
    database = Database(url, pool_size=1)
    await database.open()
    try:
        await database.assert_ready()
    finally:
        await database.close()


async def test_migrations_arrive_at_the_declared_schema(database_url: str, empty_database_url: str) -> None:
    """Columns, types, nullability, defaults, identities, indexes and constraints are the same by both roads."""
    engine = create_async_engine(empty_database_url.replace("postgresql:", "postgresql+psycopg:"))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE EXTENSION vector"))
        await connection.run_sync(metadata.create_all)
    await engine.dispose()
    declared, migrated = await catalogue(empty_database_url), await catalogue(database_url)
    assert {row[0] for row in declared["columns"]} == set(metadata.tables)
    assert migrated == declared


def test_there_is_one_head_and_serving_processes_know_it() -> None:
    """`schema.REVISION`, which they compare without loading alembic, is alembic's only head."""
    config = Config()
    config.set_main_option("script_location", str(ROOT / "store" / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    """`migrate` is part of every start. Row 6."""
    before = await catalogue(database_url)
    await migrate(database_url)
    assert await catalogue(database_url) == before
    await ready(database_url)


async def test_several_may_migrate_at_once(empty_database_url: str) -> None:
    """Replicas start together: all succeed, one does the work, nothing hangs."""
    processes = [await in_process(empty_database_url) for _ in range(2)]
    await asyncio.gather(*(migrate(empty_database_url) for _ in range(3)))
    ended = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    await ready(empty_database_url)


async def test_a_killed_migration_can_be_run_again(empty_database_url: str) -> None:
    """SIGKILL, or a lost session, at any moment leaves something that the next run completes."""
    chance = random.Random(7)
    for _ in range(20):
        attempt = asyncio.create_task(migrate(empty_database_url))
        await asyncio.sleep(chance.uniform(0.02, 0.3))
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
    process = await in_process(empty_database_url)
    while not await execute(empty_database_url, OTHERS):
        await asyncio.sleep(0.01)
    process.kill()
    await process.communicate()
    await migrate(empty_database_url)
    await ready(empty_database_url)
    assert await execute(empty_database_url, INVALID) == []


async def test_an_invalid_index_is_rebuilt(database_url: str) -> None:
    """An interrupted CREATE INDEX CONCURRENTLY leaves an index that the checkpointer's own set-up accepts for ever.
    Row 40."""
    await execute(database_url, "DROP INDEX checkpoints_thread_id_idx")
    async with await psycopg.AsyncConnection.connect(connection_string(database_url)) as other:
        await other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await other.execute("SELECT 1 FROM checkpoints")  # an old snapshot, as a backup holds for hours
        with pytest.raises(psycopg.errors.QueryCanceled):
            await execute(
                database_url,
                "SET statement_timeout = '300ms'",
                "CREATE INDEX CONCURRENTLY checkpoints_thread_id_idx ON checkpoints (thread_id)",
            )
    assert await execute(database_url, INVALID) == [("checkpoints_thread_id_idx",)]
    await migrate(database_url)
    assert await execute(database_url, INVALID) == []
    assert await execute(
        database_url, "SELECT 1 FROM pg_indexes WHERE indexname = 'checkpoints_thread_id_idx'"
    )


async def test_an_old_pgvector_is_refused_and_mended(database_url: str) -> None:
    """0.8.3 corrupts indexes on vacuum: serving processes refuse it, `migrate` updates it. Row 27."""
    await execute(database_url, "UPDATE pg_extension SET extversion = '0.8.3' WHERE extname = 'vector'")
    with pytest.raises(ExtensionMissing):
        await ready(database_url)
    await migrate(database_url)
    await ready(database_url)


async def test_an_empty_database_asks_for_migrate(empty_database_url: str) -> None:
    """The error's text tells the operator the next action."""
    with pytest.raises(SchemaOutdated, match="signoff migrate"):
        await ready(empty_database_url)


async def test_a_newer_database_is_left_alone(database_url: str) -> None:
    """An older release does not touch what a newer one migrated."""
    await execute(database_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaAhead):
        await migrate(database_url)
    with pytest.raises(SchemaAhead):
        await ready(database_url)


@pytest.mark.parametrize(("steps", "refused"), [(-1, SchemaOutdated), (0, None), (1, None), (2, SchemaAhead)])
async def test_a_process_serves_its_own_schema_and_the_next(
    database_url: str, steps: int, refused: type[Exception] | None
) -> None:
    """Between `signoff migrate` and its replacement a process may die and start again; two versions on, or one
    behind, it must not."""
    found = f"{int(REVISION) + steps:04}"
    await execute(database_url, f"UPDATE alembic_version SET version_num = '{found}'")
    if refused is None:
        await ready(database_url)
        return
    with pytest.raises(refused):
        await ready(database_url)
