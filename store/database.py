"""One Postgres: its pools, its schema, and whether it answers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
import structlog
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from procrastinate.schema import SchemaManager
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg.types.string import StrDumperUnknown
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import Connection, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from store.errors import ExtensionMissing, SchemaAhead, SchemaOutdated, translated
from store.schema import REVISION
from store.text import clean

__all__ = ["Database", "Idle", "connection_string", "migrate", "single", "storable", "transaction"]

log = structlog.get_logger(__name__)

PGVECTOR = (0, 8, 6)  # 0.8.2 overflows in parallel HNSW builds, 0.8.3 corrupts indexes on vacuum
MIGRATION_LOCK = 0x5169_6E6F_6666  # "Signoff", any number that nobody else uses
OPEN_SECONDS = 10.0
LINE_SECONDS = 10.0  # the longest wait for one of the pool's connections
IDLE_SECONDS = 1.0  # a connection that lay still longer is asked whether it stands
CHECKPOINT_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

# Never prepared: behind PgBouncer in transaction mode 11 of 12 calls failed on prepared statements, and a plan
# that Postgres turned generic lost 96 % of a filtered vector query's rows.
UNPREPARED: dict[str, Any] = {"prepare_threshold": None}


class StorableDumper(StrDumperUnknown):
    """Whatever text goes into a statement, whoever forgot to clean it: a NUL or half a character in an id or a name
    finds nothing, and is no fault of the server's."""

    def dump(self, obj: str) -> bytes | None:
        try:
            if "\0" not in obj:
                return cast(bytes | None, super().dump(obj))
        except UnicodeEncodeError:
            pass
        return cast(bytes | None, super().dump(clean(obj)))


# Indexes whose CREATE INDEX CONCURRENTLY was interrupted; those still being built are somebody's work.
INVALID_INDEXES = """
SELECT index.relname AS name, namespace.nspname AS schema, pg_get_indexdef(index.oid) AS definition
  FROM pg_index
  JOIN pg_class AS index ON index.oid = pg_index.indexrelid
  JOIN pg_namespace AS namespace ON namespace.oid = index.relnamespace
 WHERE NOT (pg_index.indisvalid AND pg_index.indisready)
   AND namespace.nspname = current_schema()
   AND index.oid NOT IN (SELECT index_relid FROM pg_stat_progress_create_index WHERE index_relid IS NOT NULL)
"""


def connection_string(url: str) -> str:
    """The libpq form of a `postgresql://` or `postgresql+psycopg://` URL, socket hosts in its query kept."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """One transaction: committed at the end of the block, rolled back on any error.

    Raises `DatabaseUnavailable` where the server does not answer.
    """
    with translated():
        async with engine.begin() as connection:
            yield connection


@asynccontextmanager
async def single(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection for one statement that stands by itself, without BEGIN and COMMIT: 1.1 ms instead of 1.4, and under
    load each round trip waits for its turn in the event loop. What it changes is committed when it ends.

    Raises `DatabaseUnavailable` where the server does not answer.
    """
    with translated():
        async with engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")


CHECKPOINT_BYTES = """
SELECT (SELECT coalesce(sum(pg_column_size(t)), 0) FROM checkpoints AS t WHERE thread_id = :thread)
     + (SELECT coalesce(sum(pg_column_size(t)), 0) FROM checkpoint_blobs AS t WHERE thread_id = :thread)
     + (SELECT coalesce(sum(pg_column_size(t)), 0) FROM checkpoint_writes AS t WHERE thread_id = :thread)
"""


class Database:
    """The pools of one process. `url` is a Postgres URL, `pool_size` the connections for checkpoints, and half as many
    again for statements; `direct_url` reaches the server itself where `url` leads to PgBouncer in transaction mode.
    With the queue's and those that listen a process takes thirty at most.

    Open it inside the event loop that uses it. Nothing in here is held while a graph runs: four runs over a pool
    of four deadlocked when each kept a connection for its lock.
    """

    def __init__(self, url: str, *, pool_size: int = 8, direct_url: str | None = None) -> None:
        self.conninfo = connection_string(url)
        # For what lives as long as a session: LISTEN, session locks.
        self.direct = connection_string(direct_url or url)
        # No overflow: its connections are closed when they come back, and under load the server forked all the time. A
        # line of more than ten seconds is better sent away: platforms repeat what was not taken within three.
        self.engine: AsyncEngine = _engine(
            url, pool_size=pool_size + pool_size // 2, max_overflow=0, pool_timeout=LINE_SECONDS
        )
        _ask_the_idle(self.engine)
        self._checkpoints: AsyncConnectionPool[psycopg.AsyncConnection[DictRow]] = AsyncConnectionPool(
            self.conninfo,
            min_size=1,
            max_size=pool_size,
            open=False,
            reconnect_timeout=5.0,  # pauses between attempts double up to this, not to minutes
            # Without a check the first two calls after a restart of the server failed.
            check=Idle().check,
            kwargs={"autocommit": True, "row_factory": dict_row, **UNPREPARED},
        )

    async def open(self) -> None:
        """Connect. Raises `DatabaseUnavailable` after ten seconds without an answer."""
        with translated():
            await self._checkpoints.open(wait=True, timeout=OPEN_SECONDS)

    async def close(self) -> None:
        await self._checkpoints.close()
        await self.engine.dispose()

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` unless the server answers."""
        async with transaction(self.engine) as connection:
            await connection.execute(text("SELECT 1"))

    async def now(self) -> datetime:
        """The server's clock."""
        async with transaction(self.engine) as connection:
            moment: datetime = await connection.scalar(text("SELECT clock_timestamp()"))
        return moment

    async def assert_ready(self) -> None:
        """Raise `ExtensionMissing`, `SchemaOutdated` or `SchemaAhead` unless this version can work with what is there:
        its own schema, or the next one, which every migration leaves it able to read and write. So a process that dies
        between `signoff migrate` and its replacement starts again."""
        async with transaction(self.engine) as connection:
            ahead = _ahead(await _revision(connection))
            if ahead is None or ahead < 0:
                raise SchemaOutdated
            if ahead > 1:
                raise SchemaAhead
            for table in ("procrastinate_jobs", *CHECKPOINT_TABLES):
                if await connection.scalar(text("SELECT to_regclass(:name)"), {"name": table}) is None:
                    raise SchemaOutdated
            if await _pgvector(connection) < PGVECTOR:
                raise ExtensionMissing

    def saver(self) -> AsyncPostgresSaver:
        """A checkpointer for one run.

        Each has a lock of its own, so one for the whole process would serialise all runs: 200 turn pairs took
        14.3 s over one, 6.5 s over one a run (0.1 ms each). Types outside msgpack's safe list come back as plain
        data: nothing is imported because a row says so.
        """
        return AsyncPostgresSaver(self._checkpoints, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    async def checkpoint_bytes(self, thread: str) -> int:
        """Bytes that a LangGraph thread takes up in the checkpointer's three tables, as stored."""
        async with transaction(self.engine) as connection:
            found = await connection.scalar(text(CHECKPOINT_BYTES), {"thread": thread})
        return int(found or 0)

    async def delete_checkpoints(self, threads: Collection[str]) -> None:
        """Forget LangGraph threads. Call it under the threads' own locks: a run in flight writes rows again."""
        saver = self.saver()
        with translated():
            for thread in threads:
                await saver.adelete_thread(thread)


async def migrate(url: str) -> None:
    """Bring the database at `url` to this version: the extension, our tables, the checkpointer's, the queue's.

    Safe from several processes at once and after being killed anywhere. Needs a direct connection (PgBouncer's
    transaction mode loses session locks). Raises `DatabaseUnavailable`, `ExtensionMissing` or `SchemaAhead`.
    """
    with translated():
        async with await psycopg.AsyncConnection.connect(
            connection_string(url), autocommit=True, row_factory=dict_row, **UNPREPARED
        ) as connection:
            # A waiter in a blocking pg_advisory_lock holds a snapshot, and CREATE INDEX CONCURRENTLY inside the
            # lock waits for that snapshot: the two hung for ever.
            while not await _value(connection, "SELECT pg_try_advisory_lock(%s)", (MIGRATION_LOCK,)):
                log.info("migrate.waiting")  # for another process that migrates
                await asyncio.sleep(0.5)
            await connection.execute("SET statement_timeout = 0")
            await _ensure_pgvector(connection)
            await _upgrade(url)
            await AsyncPostgresSaver(connection).setup()
            await _ensure_queue(connection)
            await _mend_indexes(connection)


async def _ensure_pgvector(connection: psycopg.AsyncConnection[DictRow]) -> None:
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if _numbers(await _value(connection, VECTOR_VERSION)) < PGVECTOR:
            await connection.execute("ALTER EXTENSION vector UPDATE")
    except (
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.UndefinedFile,
    ) as error:
        raise ExtensionMissing from error
    if _numbers(await _value(connection, VECTOR_VERSION)) < PGVECTOR:
        raise ExtensionMissing


async def _upgrade(url: str) -> None:
    """Our own tables, in one transaction: a killed upgrade leaves nothing behind."""
    engine = _engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text("SET LOCAL statement_timeout = 0"))
            await connection.run_sync(_upgrade_to_head)
    finally:
        await engine.dispose()


def _upgrade_to_head(connection: Connection) -> None:
    # Imported here: serving processes never migrate, and alembic costs them 0.1 s and 8 MB.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:  # the revision in the database is not among ours
        raise SchemaAhead from error


async def _ensure_queue(connection: psycopg.AsyncConnection[DictRow]) -> None:
    """procrastinate's tables, all or none. Its later versions' changes become revisions of ours."""
    if await _value(connection, "SELECT to_regclass('procrastinate_jobs')") is None:
        async with connection.transaction():
            await connection.execute(SchemaManager.get_schema())


async def _mend_indexes(connection: psycopg.AsyncConnection[DictRow]) -> None:
    """Rebuild what an interrupted CREATE INDEX CONCURRENTLY left: IF NOT EXISTS accepts an invalid index for ever."""
    found = await (await connection.execute(INVALID_INDEXES)).fetchall()
    for row in found:
        await connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(row["schema"], row["name"])))
        if (
            "_ccnew" not in row["name"] and "_ccold" not in row["name"]
        ):  # REINDEX's leftovers have a valid twin
            await connection.execute(row["definition"].encode())


VECTOR_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"


async def _pgvector(connection: AsyncConnection) -> tuple[int, ...]:
    return _numbers(await connection.scalar(text(VECTOR_VERSION)))


async def _revision(connection: AsyncConnection) -> str | None:
    if await connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision: str | None = await connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def _ahead(revision: str | None) -> int | None:
    """How many migrations the database is ahead of this version; None where it has none of them."""
    return int(revision) - int(REVISION) if revision is not None and revision.isdecimal() else None


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "0").split("."))


async def _value(
    connection: psycopg.AsyncConnection[DictRow], query: str, parameters: tuple[object, ...] = ()
) -> Any:
    row = await (await connection.execute(query.encode(), parameters)).fetchone()
    return None if row is None else next(iter(row.values()))


def _engine(url: str, **options: Any) -> AsyncEngine:
    engine = create_async_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        connect_args=dict(UNPREPARED),
        json_serializer=storable,
        **options,
    )
    event.listen(engine.sync_engine, "connect", _storable)
    return engine


def _storable(connection: DBAPIConnection, _record: object) -> None:
    driver: Any = connection.driver_connection
    driver.adapters.register_dumper(str, StorableDumper)


def _ask_the_idle(engine: AsyncEngine) -> None:
    """Whether a pooled connection still stands is asked only after it lay still for a while. Asking at every
    checkout was a fifth of a short transaction; a server that restarts within the second costs one failed call,
    after which the pool is emptied."""
    dialect = engine.sync_engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def returned(_: object, record: ConnectionPoolEntry) -> None:
        record.info["returned"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def taken(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info.get("returned", time.monotonic()) < IDLE_SECONDS:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error


class Idle:
    """The same for psycopg's pools: which connection was handed out when. An answered question takes twenty from them,
    and each was a round trip more."""

    def __init__(self) -> None:
        self._taken: WeakKeyDictionary[psycopg.AsyncConnection[Any], float] = WeakKeyDictionary()

    async def check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        now = time.monotonic()
        if now - self._taken.get(connection, 0.0) > IDLE_SECONDS:
            await AsyncConnectionPool.check_connection(connection)
        self._taken[connection] = now


def storable(value: Any) -> str:
    """JSON that Postgres takes: a model's answer may hold NUL or half a character, which JSONB refuses."""
    return json.dumps(_cleaned(value), ensure_ascii=False, allow_nan=False)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
