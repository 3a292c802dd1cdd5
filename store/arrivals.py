"""Payloads as a platform sent them: stored with the job that looks at them, before they are acknowledged.

For platforms whose payloads need questions answered first (who is that, which chat is this?) that must not hold up
the acknowledgement. One row for each thing that happened, whatever is delivered again.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import transaction
from store.errors import translated
from store.queue import ANSWERS
from store.schema import arrivals, inbox
from store.text import clean

__all__ = ["Arrivals", "SyncDoor"]

# The row and its job in one statement: both or neither, and neither when the row is there already.
ACCEPT = """
WITH new AS (
  INSERT INTO arrivals (platform, dedupe_key, payload)
  VALUES ({platform}, {key}, CAST({payload} AS jsonb))
  ON CONFLICT DO NOTHING RETURNING id
)
SELECT procrastinate_defer_jobs_v1(ARRAY[
         ROW({queue}, {task}, 0, {lock}, NULL, jsonb_build_object('arrival_id', new.id), NULL)
         ::procrastinate_job_to_defer_v1]) AS jobs
  FROM new
"""
NAMES = ("platform", "key", "payload", "queue", "task", "lock")
ASYNC_ACCEPT = text(ACCEPT.format(**{name: f":{name}" for name in NAMES}).replace("::", "\\:\\:"))
SYNC_ACCEPT = ACCEPT.format(**{name: f"%({name})s" for name in NAMES})
# The platforms wait three seconds for their acknowledgement; then they send again.
SYNC_OPTIONS: Mapping[str, Any] = {"connect_timeout": 2, "tcp_user_timeout": 2_500, "prepare_threshold": None}


class Arrivals:
    """`take` gives a payload to its job, `done` forgets it: people's words are kept no longer than needed."""

    def __init__(self, engine: AsyncEngine, conninfo: str) -> None:
        self._engine = engine
        self._conninfo = conninfo

    async def accept(
        self, platform: str, key: str, payload: Mapping[str, Any], *, task: str, lock: str
    ) -> bool:
        """Store the payload and its job `task(arrival_id)`; False when `key` came before. Raises
        `DatabaseUnavailable`: then do not acknowledge."""
        async with transaction(self._engine) as connection:
            values = _values(platform, key, payload, task=task, lock=lock)
            return (await connection.execute(ASYNC_ACCEPT, values)).first() is not None

    async def take(self, arrival_id: int) -> Mapping[str, Any] | None:
        """The payload; None when it was dealt with already."""
        async with transaction(self._engine) as connection:
            found = await connection.scalar(select(arrivals.c.payload).where(arrivals.c.id == arrival_id))
            return dict(found) if found is not None else None

    async def done(self, arrival_id: int) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(update(arrivals).where(arrivals.c.id == arrival_id).values(payload=None))

    async def question_of(self, platform: str, key: str) -> str | None:
        """The question that a message became, as far as the inbox remembers."""
        query = select(inbox.c.subject).where(inbox.c.platform == platform, inbox.c.dedupe_key == clean(key))
        async with transaction(self._engine) as connection:
            found = await connection.scalar(query)
        return str(found) if found else None

    async def last(self, platform: str) -> datetime | None:
        """When something arrived last."""
        query = select(func.max(arrivals.c.received_at)).where(arrivals.c.platform == platform)
        async with transaction(self._engine) as connection:
            found: datetime | None = await connection.scalar(query)
        return found

    async def sweep(self, older_than: datetime) -> int:
        """Forget what arrived before that moment; returns how many rows."""
        async with transaction(self._engine) as connection:
            gone = await connection.execute(delete(arrivals).where(arrivals.c.received_at < older_than))
        return gone.rowcount

    def door(self) -> "SyncDoor":
        """A door of its own for a thread that has no event loop of ours."""
        return SyncDoor(self._conninfo)


class SyncDoor:
    """The same `accept` over one synchronous connection, made anew whenever it is lost. For one thread."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None

    def accept(self, platform: str, key: str, payload: Mapping[str, Any], *, task: str, lock: str) -> bool:
        """As `Arrivals.accept`. A connection that broke while it was idle is tried once more."""
        values = _values(platform, key, payload, task=task, lock=lock)
        with translated():
            if self._connection is not None:
                try:
                    return self._run(values)
                except psycopg.OperationalError:
                    self.close()
            return self._run(values)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, values: Mapping[str, Any]) -> bool:
        if self._connection is None:
            self._connection = psycopg.connect(self._conninfo, autocommit=True, **SYNC_OPTIONS)
        return self._connection.execute(SYNC_ACCEPT.encode(), values).fetchone() is not None


def _values(platform: str, key: str, payload: Mapping[str, Any], *, task: str, lock: str) -> dict[str, Any]:
    return {
        "platform": platform,
        "key": clean(key),
        "payload": json.dumps(_cleaned(payload), ensure_ascii=False),
        "queue": ANSWERS,
        "task": task,
        "lock": clean(lock),
    }


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
