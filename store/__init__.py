"""The data side: Postgres, and nobody else knows SQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from store.database import Database, migrate

__all__ = ["Store", "migrate", "open_store"]


@dataclass(frozen=True)
class Store:
    """Everything the rooms above may ask of the data side."""

    database: Database


@asynccontextmanager
async def open_store(url: str, embedder: Any, *, pool_size: int = 8) -> AsyncIterator[Store]:
    database = Database(url, pool_size=pool_size)
    await database.open()
    try:
        await database.assert_ready()
        yield Store(database=database)
    finally:
        await database.close()
