"""Another embedding model's vectors, built beside those that search reads, and the switch to them."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy import Row, insert, null, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import publication, schema, spaces
from store.chunks import embedding_text
from store.confidence import load_calibration
from store.database import transaction
from store.embedding import Embedder
from store.errors import EmbeddingFailed
from store.spaces import Space

__all__ = ["OnReindex", "ensure_space", "reindex"]

OnReindex = Callable[[int, int], Awaitable[None]]

# A space made before its model was calibrated becomes so with the switch; one's own fit stays.
CALIBRATE = text("""
UPDATE spaces SET calibration = CAST(:calibration AS jsonb)
 WHERE id = :space AND calibration IS NULL AND CAST(:calibration AS jsonb) IS NOT NULL
""")
BATCH = 64
SPACE_LOCK = 0x5169_0002  # two processes that publish their first document make one space

# Visible chunks that have no vector in a space, in order. What is done is in the table itself, so an interrupted
# reindex simply goes on.
MISSING = text("""
SELECT c.id, c.version_id, d.title, c.heading_path, c.text
  FROM chunks AS c
  JOIN documents AS d ON d.current_version_id = c.version_id
 WHERE c.id > :after AND NOT EXISTS (SELECT FROM embeddings AS e WHERE e.space_id = :space AND e.chunk_id = c.id)
 ORDER BY c.id LIMIT :batch
""")
COUNTS = text("""
SELECT count(*) AS visible, count(e.chunk_id) AS embedded
  FROM chunks AS c
  JOIN documents AS d ON d.current_version_id = c.version_id
  LEFT JOIN embeddings AS e ON e.space_id = :space AND e.chunk_id = c.id
""")
# A document removed or replaced meanwhile has taken its chunks along.
ADD = text("""
INSERT INTO embeddings (space_id, chunk_id, version_id, vector, language)
SELECT :space, c.id, c.version_id, CAST(:vector AS halfvec), d.language
  FROM chunks AS c JOIN versions AS v ON v.id = c.version_id JOIN documents AS d ON d.id = v.document_id
 WHERE c.id = :chunk FOR KEY SHARE OF c
ON CONFLICT DO NOTHING
""")


async def ensure_space(engine: AsyncEngine, embedder: Embedder) -> Space | None:
    """The embedder's space; the first one there is becomes active at once. None while its dimension is unknown."""
    if not embedder.dimension:
        return None
    async with transaction(engine) as connection:
        found = await spaces.find(connection, embedder.model, embedder.dimension)
        return found or await _new_space(connection, embedder)


async def _new_space(connection: AsyncConnection, embedder: Embedder) -> Space:
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SPACE_LOCK})
    found = await spaces.find(connection, embedder.model, embedder.dimension)
    if found:
        return found
    first = await spaces.active(connection) is None
    await connection.execute(
        insert(schema.spaces).values(
            model=embedder.model,
            dimension=embedder.dimension,
            query_prefix=getattr(embedder, "query_prefix", ""),
            passage_prefix=getattr(embedder, "passage_prefix", ""),
            max_tokens=embedder.max_tokens,
            calibration=load_calibration(embedder.model) or null(),
            state="active" if first else "building",
        )
    )
    created = await spaces.find(connection, embedder.model, embedder.dimension)
    assert created is not None
    await spaces.create_index(connection, created.id, created.dimension)
    return created


async def reindex(engine: AsyncEngine, embedder: Embedder, on_progress: OnReindex | None = None) -> Space:
    """See `store.documents.Documents.reindex`."""
    if not embedder.dimension:
        await embedder.query(
            "dimension"
        )  # an endpoint says it with its first answer; without a model this raises
    space = await ensure_space(engine, embedder)
    if space is None:
        raise EmbeddingFailed
    await _fill(engine, embedder, space, on_progress)
    async with transaction(engine) as connection:
        await spaces.activate(connection, space.id)
        await connection.execute(CALIBRATE, {"space": space.id, "calibration": _shipped(space.model)})
        await publication.changed(connection)
        switched = await spaces.active(connection)
    assert switched is not None
    # What was published between the last look and the switch.
    await _fill(engine, embedder, switched, None)
    return switched


def _shipped(model: str) -> str | None:
    calibration = load_calibration(model)
    return None if calibration is None else json.dumps(calibration)


async def _fill(engine: AsyncEngine, embedder: Embedder, space: Space, on_progress: OnReindex | None) -> None:
    after = 0
    while True:
        async with transaction(engine) as connection:
            parameters = {"space": space.id, "after": after, "batch": BATCH}
            missing = (await connection.execute(MISSING, parameters)).all()
        if not missing:
            return
        vectors = await embedder.passages(
            [embedding_text(row.title, row.heading_path, row.text) for row in missing]
        )
        after = missing[-1].id
        async with transaction(engine) as connection:
            await connection.execute(ADD, _rows(space, missing, vectors))
            counts = (await connection.execute(COUNTS, {"space": space.id})).one()
        if on_progress:
            await on_progress(counts.embedded, counts.visible)


def _rows(
    space: Space, missing: Sequence[Row[Any]], vectors: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    return [
        {"space": space.id, "chunk": row.id, "vector": publication.literal(vector)}
        for row, vector in zip(missing, vectors, strict=True)
    ]
