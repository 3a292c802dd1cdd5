"""What a chat platform has to keep about a person for a while: files handed in before their command, a new session."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import transaction
from store.schema import kept
from store.text import clean

__all__ = ["Kept", "KeptRow"]


@dataclass(frozen=True, slots=True)
class KeptRow:
    key: str
    data: Mapping[str, Any]
    kept_at: datetime


class Kept:
    """Rows by person (a principal), kind and key. `within` is how old they may be."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, person: str, kind: str, key: str, data: Mapping[str, Any]) -> None:
        """Keep `data`; the same key again replaces it and begins its time anew."""
        row = insert(kept).values(person=clean(person), kind=kind, key=clean(key), data=dict(data))
        again = {"data": row.excluded.data, "kept_at": func.now()}
        async with transaction(self._engine) as connection:
            await connection.execute(
                row.on_conflict_do_update(index_elements=["person", "kind", "key"], set_=again)
            )

    async def get(self, person: str, kind: str, within: timedelta | None = None) -> list[KeptRow]:
        """What is kept, oldest first."""
        query = select(kept.c.key, kept.c.data, kept.c.kept_at).where(
            kept.c.person == clean(person), kept.c.kind == kind
        )
        if within is not None:
            query = query.where(kept.c.kept_at > func.now() - within)
        async with transaction(self._engine) as connection:
            found = await connection.execute(query.order_by(kept.c.kept_at, kept.c.key))
            return [KeptRow(**row) for row in found.mappings()]

    async def drop(self, person: str, kind: str, key: str) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(
                delete(kept).where(
                    kept.c.person == clean(person), kept.c.kind == kind, kept.c.key == clean(key)
                )
            )

    async def sweep(self, kind: str, older_than: datetime) -> int:
        """Forget rows of that kind kept before that moment; returns how many."""
        async with transaction(self._engine) as connection:
            gone = await connection.execute(
                delete(kept).where(kept.c.kind == kind, kept.c.kept_at < older_than)
            )
        return gone.rowcount
