"""Spaces: one embedding model each, with its dimension, index and calibration. One is active at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import NotFound
from store.schema import spaces

__all__ = ["LANGUAGES", "Space", "activate", "active", "create_index", "every", "find"]

# The two kinds of row by language, as `store.text.language` tells them: the conditions of the vector indexes, which
# a query repeats word by word to use them.
LANGUAGES = {"zh": "language = 'zh'", "other": "language <> 'zh'"}
EF_CONSTRUCTION = 128


@dataclass(frozen=True, slots=True)
class Space:
    """One row of `spaces`. `calibration` is None where confidence is uncalibrated."""

    id: int
    model: str
    dimension: int
    query_prefix: str
    passage_prefix: str
    max_tokens: int
    calibration: Mapping[str, Any] | None
    state: str  # building | active | retired


async def active(connection: AsyncConnection) -> Space | None:
    """The space that search reads, if any."""
    return await _one(connection, _rows().where(spaces.c.state == "active"))


async def find(connection: AsyncConnection, model: str, dimension: int) -> Space | None:
    """The space of this model, whatever its state."""
    return await _one(connection, _rows().where(spaces.c.model == model, spaces.c.dimension == dimension))


async def every(connection: AsyncConnection) -> list[Space]:
    """All spaces, oldest first."""
    return [Space(**row._mapping) for row in await connection.execute(_rows().order_by(spaces.c.id))]


async def create_index(connection: AsyncConnection, space_id: int, dimension: int) -> None:
    """The HNSW indexes over one space's vectors, one for each language; harmless where they exist.

    The column has no dimension, so an index is over a cast and covers one space: `halfvec` because it has the same
    recall as `vector` at 43 % less index. Two languages in one index are two clouds far apart: a search for the
    second walked through the first (100k chunks: 104 ms of processor and .25 of the other language's nearest, against
    11 ms and .92).
    """
    space_id, dimension = int(space_id), int(dimension)
    for name, condition in LANGUAGES.items():
        await connection.execute(
            text(
                f"CREATE INDEX IF NOT EXISTS ix_embeddings_space_{space_id}_{name} ON embeddings "
                f"USING hnsw ((vector::halfvec({dimension})) halfvec_cosine_ops) "
                f"WITH (ef_construction={EF_CONSTRUCTION}) WHERE space_id = {space_id} AND {condition}"
            )
        )


async def activate(connection: AsyncConnection, space_id: int) -> None:
    """Let search read this space and retire the one before, within the caller's transaction.

    Raises `NotFound`.
    """
    await connection.execute(
        update(spaces).where(spaces.c.state == "active", spaces.c.id != space_id).values(state="retired")
    )
    done = await connection.execute(update(spaces).where(spaces.c.id == space_id).values(state="active"))
    if done.rowcount == 0:
        raise NotFound


def _rows() -> Select[Any]:
    names = (
        "id",
        "model",
        "dimension",
        "query_prefix",
        "passage_prefix",
        "max_tokens",
        "calibration",
        "state",
    )
    return select(*(spaces.c[name] for name in names))


async def _one(connection: AsyncConnection, query: Select[Any]) -> Space | None:
    row: Row[Any] | None = (await connection.execute(query)).one_or_none()
    return None if row is None else Space(**row._mapping)
