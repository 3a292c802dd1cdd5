"""Telling other processes that something changed: Postgres LISTEN/NOTIFY. Lossy; the rows are the truth."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.database import single
from store.text import clean

__all__ = ["LISTENING", "Change", "Changes", "announce"]

log = structlog.get_logger(__name__)

CHANNEL = "signoff"
LONGEST = 7_500  # bytes; Postgres refuses 8,000 and more
CHECK_SECONDS = 15.0  # a silent session is asked for a sign of life this often
# The topic of the first change of every session, the first one and each after a loss: what was changed before it
# went unheard, so show everything anew.
LISTENING = "listening"


@dataclass(frozen=True, slots=True)
class Change:
    """`topic`: conversation:<id>, question:<id> (taken back), reviews, documents, or `LISTENING`."""

    topic: str
    payload: Mapping[str, Any]


async def announce(connection: AsyncConnection, topic: str, payload: Mapping[str, Any]) -> None:
    """Tell every listener when the transaction of `connection` commits, and not if it does not.

    Raises `ValueError` for more than 7,500 bytes: send an id, let the listener read the row.
    """
    body = clean(json.dumps({"topic": topic, "payload": payload}, ensure_ascii=False))
    if len(body.encode()) > LONGEST:
        raise ValueError(f"a change of {topic!r} is longer than {LONGEST} bytes; send an id instead")
    await connection.execute(text("SELECT pg_notify(:channel, :body)"), {"channel": CHANNEL, "body": body})


class Changes:
    """`conninfo` must reach Postgres directly for `listen`: PgBouncer's transaction mode drops LISTEN."""

    def __init__(self, engine: AsyncEngine, conninfo: str) -> None:
        self._engine = engine
        self._conninfo = conninfo

    async def notify(
        self, topic: str, payload: Mapping[str, Any], connection: AsyncConnection | None = None
    ) -> None:
        """Tell every listener now; with `connection`, as `announce` does."""
        if connection is not None:
            await announce(connection, topic, payload)
            return
        async with single(self._engine) as own:
            await announce(own, topic, payload)

    async def listen(self) -> AsyncGenerator[Change]:
        """Changes as they happen, for ever, over a session of its own that is opened again whenever it is lost."""
        pause = 0.1
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    pause = 0.1
                    yield Change(LISTENING, {})
                    async with aclosing(_heard(connection)) as heard:
                        async for change in heard:
                            yield change
            except psycopg.OperationalError as error:
                log.warning("changes.lost", error=type(error).__name__, again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)


async def _heard(connection: psycopg.AsyncConnection[Any]) -> AsyncGenerator[Change]:
    while True:
        async for notice in connection.notifies(timeout=CHECK_SECONDS):
            change = _change(notice.payload)
            if change is not None:
                yield change
        await connection.execute("SELECT 1")


def _change(payload: str) -> Change | None:
    """Other programs may use the channel too; what is not ours is left alone."""
    try:
        data = json.loads(payload)
        return Change(data["topic"], data["payload"])
    except (ValueError, KeyError, TypeError):
        return None
