"""The chunks' tokens, cut again with another dictionary while search goes on."""

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncEngine

from store import publication
from store.chunks import terms
from store.database import transaction
from store.dictionary import Dictionary
from store.words import tsvector_literal

__all__ = ["outdated", "retokenise"]

BATCH = 500
CHUNKS = text("""
SELECT c.id, d.title, c.heading_path, c.text
  FROM chunks AS c JOIN versions AS v ON v.id = c.version_id JOIN documents AS d ON d.id = v.document_id
 WHERE c.id > :after ORDER BY c.id LIMIT :batch
""")
WRITE = text("UPDATE chunks SET tokens = CAST(:tokens AS tsvector), length = :length WHERE id = :id")
USED = text("SELECT dictionary FROM corpus")
USE = text("""
INSERT INTO corpus ("only", dictionary) VALUES (true, :digest)
ON CONFLICT ("only") DO UPDATE SET dictionary = EXCLUDED.dictionary, version = corpus.version + 1
""")


async def outdated(engine: AsyncEngine, dictionary: Dictionary) -> bool:
    """Were the chunks that are there cut with another dictionary?"""
    async with transaction(engine) as connection:
        return (await connection.scalar(USED) or "") != dictionary.digest


async def retokenise(engine: AsyncEngine, dictionary: Dictionary) -> int:
    """Cut every chunk again; returns how many. Interrupted, it begins anew: the digest is written last.

    Search goes on: a chunk not yet cut lacks the new words as it did before.
    """
    after = done = 0
    while True:
        async with transaction(engine) as connection:
            rows = (await connection.execute(CHUNKS, {"after": after, "batch": BATCH})).all()
        if not rows:
            break
        written = await asyncio.to_thread(_cut, rows, dictionary)
        async with transaction(engine) as connection:
            await connection.execute(WRITE, written)
        after, done = rows[-1].id, done + len(rows)
    async with transaction(engine) as connection:
        await connection.execute(USE, {"digest": dictionary.digest})
        await publication.refresh_statistics(connection)
    return done


def _cut(rows: Sequence[Row[Any]], dictionary: Dictionary) -> list[dict[str, Any]]:
    written = []
    for row in rows:
        found = terms(row.title, row.heading_path, row.text, dictionary)
        written.append({"id": row.id, "tokens": tsvector_literal(found), "length": len(found)})
    return written
