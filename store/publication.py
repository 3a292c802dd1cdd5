"""How the corpus changes: a version becomes visible, another retires, and the counts that ranking needs follow."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Integer, RowMapping, Text, bindparam, cast, delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.chunks import NewChunk, rows
from store.dictionary import Dictionary
from store.errors import NotFound
from store.text import language

__all__ = [
    "UNFINISHED",
    "Edition",
    "add_vectors",
    "changed",
    "earlier",
    "literal",
    "prepare",
    "publish",
    "put_back",
    "refresh_statistics",
    "unembedded",
    "withdrawn",
]

UNFINISHED = ("pending", "converting", "embedding")
# The current version and the one before it keep their chunks: a step back needs neither file nor model.
KEPT_VERSIONS = 2
BATCH = 500  # rows an INSERT: 500 vectors of 384 dimensions are 1.5 MB of literals
STATISTICS_LOCK = 0x5169_0001  # one refresh at a time; the waiting one finds little left to change

_documents, _versions, _chunks, _embeddings, _uploads = (
    schema.documents,
    schema.versions,
    schema.chunks,
    schema.embeddings,
    schema.uploads,
)

# The corpus row moves by what came and went, so that the search between a publication and the next refresh already
# has the right number of chunks and mean length.
MOVE_CORPUS = text("""
INSERT INTO corpus AS c ("only", chunks, average_length, version)
VALUES (true, greatest(:chunks, 0), CASE WHEN :chunks > 0 THEN CAST(:length AS float8) / :chunks ELSE 0 END, 1)
ON CONFLICT ("only") DO UPDATE SET
  chunks = greatest(c.chunks + :chunks, 0),
  average_length = CASE WHEN c.chunks + :chunks > 0
                        THEN greatest(c.average_length * c.chunks + :length, 0) / (c.chunks + :chunks) ELSE 0 END,
  version = c.version + 1
""").bindparams(bindparam("chunks", type_=Integer), bindparam("length", type_=Integer))

# Only rows that change are written: a full rewrite of 100k lexemes after each document would be mostly bloat.
REFRESH_LEXEMES = """
WITH fresh AS MATERIALIZED (
  SELECT word, ndoc FROM ts_stat(
    'SELECT c.tokens FROM chunks AS c JOIN documents AS d ON d.current_version_id = c.version_id')
), gone AS (
  DELETE FROM lexemes WHERE NOT EXISTS (SELECT FROM fresh WHERE word = lexeme)
)
INSERT INTO lexemes (lexeme, documents) SELECT word, ndoc FROM fresh
ON CONFLICT (lexeme) DO UPDATE SET documents = EXCLUDED.documents WHERE lexemes.documents <> EXCLUDED.documents
"""
REFRESH_CORPUS = """
INSERT INTO corpus ("only", chunks, average_length)
SELECT true, count(*), coalesce(avg(c.length), 0)
  FROM chunks AS c JOIN documents AS d ON d.current_version_id = c.version_id
ON CONFLICT ("only") DO UPDATE SET chunks = EXCLUDED.chunks, average_length = EXCLUDED.average_length
"""


@dataclass(frozen=True, slots=True)
class Edition:
    """A version ready to be written: chunk rows, and their vectors as `halfvec` literals (None: no vector)."""

    title: str
    language: str
    markdown: str
    pages: int | None
    media_type: str
    chunks: Sequence[Mapping[str, Any]]
    vectors: Sequence[str | None]


def literal(vector: Sequence[float]) -> str:
    """A `halfvec` literal; half precision has three and a half digits."""
    return "[" + ",".join(f"{value:.5g}" for value in vector) + "]"


async def prepare(
    title: str,
    chunks: Sequence[NewChunk],
    vectors: Sequence[Sequence[float] | str | None],
    dictionary: Dictionary,
) -> tuple[Sequence[Mapping[str, Any]], Sequence[str | None]]:
    """Chunk rows, tokenised in a thread (3,000 chunks/s) so that the event loop goes on, and `halfvec` literals."""
    if vectors and len(vectors) != len(chunks):
        raise ValueError(f"{len(vectors)} vectors for {len(chunks)} chunks")
    prepared = await asyncio.to_thread(rows, title, chunks, dictionary)
    literals = [
        vector if vector is None or isinstance(vector, str) else literal(vector) for vector in vectors
    ]
    return prepared, literals or [None] * len(chunks)


async def publish(
    connection: AsyncConnection, version_id: int, edition: Edition, space_id: int | None
) -> None:
    """Write `edition` and make it current, unless the version came to its end before. Raises `NotFound`."""
    document_id = await connection.scalar(select(_versions.c.document_id).where(_versions.c.id == version_id))
    document = await _locked(connection, document_id)
    state, number, audience = (
        await connection.execute(
            select(_versions.c.state, _versions.c.number, _versions.c.audience).where(
                _versions.c.id == version_id
            )
        )
    ).one()
    if state not in UNFINISHED:
        return
    current = document["current_version_id"]
    if current is not None and number < await _number(connection, current):
        await _retire(connection, version_id)
        return
    changes = await _changes(connection, current, edition)
    await _write(connection, version_id, edition, space_id)
    before = await _size(connection, [current] if current is not None else [])
    if current is not None:
        await _retire(connection, current)
    await _make_current(connection, document["id"], version_id, edition, audience)
    await connection.execute(
        update(_versions).where(_versions.c.id == version_id).values(title=edition.title, changes=changes)
    )
    await _prune(connection, document["id"], number)
    after = len(edition.chunks), sum(row["length"] for row in edition.chunks)
    await _move_corpus(connection, after[0] - before[0], after[1] - before[1])


async def known_vectors(
    connection: AsyncConnection, space_id: int, version_id: int, hashes: Collection[str]
) -> Mapping[str, str]:
    """Content hash → `halfvec` literal, from the other versions of the same document."""
    of_version = select(_versions.c.document_id).where(_versions.c.id == version_id).scalar_subquery()
    siblings = select(_versions.c.id).where(_versions.c.document_id == of_version)
    found = await connection.execute(
        select(_chunks.c.content_hash, cast(_embeddings.c.vector, Text))
        .join(_embeddings, _embeddings.c.chunk_id == _chunks.c.id)
        .where(
            _chunks.c.version_id.in_(siblings),
            _embeddings.c.space_id == space_id,
            _chunks.c.content_hash.in_(hashes),
        )
    )
    return {row[0]: row[1] for row in found}


async def earlier(connection: AsyncConnection, document_id: int, number: int | None) -> RowMapping:
    """The version to go back to: the one before, or `number`. Locks the document.

    Raises `NotFound` where no such version has its chunks left.
    """
    document = await _locked(connection, document_id)
    current = document["current_version_id"]
    candidates = select(_versions).where(
        _versions.c.document_id == document_id,
        _versions.c.id.in_(select(_chunks.c.version_id).where(_chunks.c.version_id == _versions.c.id)),
    )
    if number is not None:
        candidates = candidates.where(_versions.c.number == number)
    else:
        candidates = candidates.where(
            _versions.c.published_at.is_not(None),
            _versions.c.number < (await _number(connection, current) if current is not None else 0),
        )
    found = await connection.execute(candidates.order_by(_versions.c.number.desc()).limit(1))
    target = found.mappings().one_or_none()
    if target is None:
        raise NotFound
    return target


async def put_back(connection: AsyncConnection, document_id: int, number: int) -> None:
    """Make version `number` current again. The one it replaces is gone back to by its number only."""
    target = await earlier(connection, document_id, number)
    document = await _locked(connection, document_id)
    if target["id"] != document["current_version_id"]:
        await _swap(connection, document, target)


async def _swap(connection: AsyncConnection, document: RowMapping, target: RowMapping) -> None:
    current = document["current_version_id"]
    before = await _size(connection, [current] if current is not None else [])
    after = await _size(connection, [target["id"]])
    if current is not None:
        await _retire(connection, current)
        await connection.execute(update(_versions).where(_versions.c.id == current).values(published_at=None))
    await connection.execute(
        update(_versions)
        .where(_versions.c.id == target["id"])
        .values(state="live", published_at=func.coalesce(_versions.c.published_at, func.now()))
    )
    await connection.execute(
        update(_documents)
        .where(_documents.c.id == document["id"])
        .values(
            current_version_id=target["id"],
            title=target["title"] or document["title"],
            language=language((target["markdown"] or "")[:20_000]),
            updated_at=func.now(),
        )
    )
    await _move_corpus(connection, after[0] - before[0], after[1] - before[1])


async def unembedded(connection: AsyncConnection, version_id: int, space_id: int) -> Sequence[RowMapping]:
    """The chunks (id, heading_path, text) of a version that have no vector in that space."""
    found = await connection.execute(
        select(_chunks.c.id, _chunks.c.heading_path, _chunks.c.text)
        .outerjoin(
            _embeddings, (_embeddings.c.chunk_id == _chunks.c.id) & (_embeddings.c.space_id == space_id)
        )
        .where(_chunks.c.version_id == version_id, _embeddings.c.chunk_id.is_(None))
        .order_by(_chunks.c.ordinal)
    )
    return found.mappings().all()


async def add_vectors(
    connection: AsyncConnection, version_id: int, space_id: int, vectors: Mapping[int, Sequence[float]]
) -> None:
    """Vectors of one version's chunks, by chunk id."""
    markdown = await connection.scalar(select(_versions.c.markdown).where(_versions.c.id == version_id))
    rows = [
        {
            "space_id": space_id,
            "chunk_id": chunk_id,
            "version_id": version_id,
            "vector": literal(vector),
            "language": language((markdown or "")[:20_000]),
        }
        for chunk_id, vector in vectors.items()
    ]
    for start in range(0, len(rows), BATCH):
        await connection.execute(insert(_embeddings), rows[start : start + BATCH])


async def withdrawn(connection: AsyncConnection, document_ids: Sequence[int]) -> None:
    """Take the documents' visible chunks out of the counts; call it before their rows are deleted."""
    found = await connection.execute(
        select(_documents.c.current_version_id).where(
            _documents.c.id.in_(document_ids), _documents.c.current_version_id.is_not(None)
        )
    )
    chunks, length = await _size(connection, [row.current_version_id for row in found])
    await _move_corpus(connection, -chunks, -length)


async def changed(connection: AsyncConnection) -> None:
    """Say that readers may see other passages than before, though no chunk came or went."""
    await _move_corpus(connection, 0, 0)


async def refresh_statistics(connection: AsyncConnection) -> None:
    """Document frequencies and mean length of the visible chunks, counted anew."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": STATISTICS_LOCK})
    await connection.execute(text(REFRESH_LEXEMES))
    await connection.execute(text(REFRESH_CORPUS))


async def _locked(connection: AsyncConnection, document_id: int | None) -> RowMapping:
    found = await connection.execute(
        select(_documents).where(_documents.c.id == document_id).with_for_update()
    )
    row = found.mappings().one_or_none()
    if row is None:
        raise NotFound
    return row


async def _number(connection: AsyncConnection, version_id: int) -> int:
    found: int = (
        await connection.execute(select(_versions.c.number).where(_versions.c.id == version_id))
    ).scalar_one()
    return found


async def _write(
    connection: AsyncConnection, version_id: int, edition: Edition, space_id: int | None
) -> None:
    statement = insert(_chunks).values(tokens=cast(bindparam("tokens"), TSVECTOR)).returning(_chunks.c.id)
    for start in range(0, len(edition.chunks), BATCH):
        batch = [{**row, "version_id": version_id} for row in edition.chunks[start : start + BATCH]]
        added = await connection.execute(statement.execution_options(sort_by_parameter_order=True), batch)
        ids = [row.id for row in added]
        vectors = edition.vectors[start : start + BATCH]
        embedded = [
            {
                "space_id": space_id,
                "chunk_id": chunk_id,
                "version_id": version_id,
                "vector": vector,
                "language": edition.language,
            }
            for chunk_id, vector in zip(ids, vectors, strict=True)
            if vector is not None
        ]
        if embedded and space_id is not None:
            await connection.execute(insert(_embeddings), embedded)


async def _changes(connection: AsyncConnection, before: int | None, edition: Edition) -> dict[str, int]:
    """How many chunks are new, gone and the same (by content hash) against the version `before`."""
    found = await connection.execute(select(_chunks.c.content_hash).where(_chunks.c.version_id == before))
    old, new = Counter(found.scalars()), Counter(row["content_hash"] for row in edition.chunks)
    same = (old & new).total()
    return {"added": new.total() - same, "removed": old.total() - same, "unchanged": same}


async def _make_current(
    connection: AsyncConnection,
    document_id: int,
    version_id: int,
    edition: Edition,
    audience: Sequence[str] | None,
) -> None:
    await connection.execute(
        update(_versions)
        .where(_versions.c.id == version_id)
        .values(
            state="live",
            markdown=edition.markdown,
            pages=edition.pages,
            chunk_count=len(edition.chunks),
            progress={},
            published_at=func.now(),
            media_type=edition.media_type or _versions.c.media_type,
        )
    )
    values: dict[str, Any] = {
        "title": edition.title,
        "language": edition.language,
        "current_version_id": version_id,
        "updated_at": func.now(),
    }
    if audience is not None:
        values |= {"audience": list(audience), "inherits_audience": False}
    await connection.execute(update(_documents).where(_documents.c.id == document_id).values(**values))


async def _retire(connection: AsyncConnection, version_id: int) -> None:
    await connection.execute(
        update(_versions).where(_versions.c.id == version_id).values(state="retired", progress={})
    )
    await connection.execute(delete(_uploads).where(_uploads.c.version_id == version_id))


async def _prune(connection: AsyncConnection, document_id: int, number: int) -> None:
    """Delete the chunks and text of versions too old to go back to; their rows stay, for citations name them."""
    kept = (
        select(_versions.c.id)
        .where(
            _versions.c.document_id == document_id,
            _versions.c.number <= number,
            _versions.c.published_at.is_not(None),
        )
        .order_by(_versions.c.number.desc())
        .limit(KEPT_VERSIONS)
    )
    old = select(_versions.c.id).where(
        _versions.c.document_id == document_id, _versions.c.number < number, _versions.c.id.not_in(kept)
    )
    await connection.execute(delete(_chunks).where(_chunks.c.version_id.in_(old)))
    await connection.execute(update(_versions).where(_versions.c.id.in_(old)).values(markdown=None))


async def _size(connection: AsyncConnection, version_ids: Sequence[int]) -> tuple[int, int]:
    """Chunks and search terms of these versions."""
    if not version_ids:
        return 0, 0
    counted = await connection.execute(
        select(func.count(), func.coalesce(func.sum(_chunks.c.length), 0)).where(
            _chunks.c.version_id.in_(version_ids)
        )
    )
    chunks, length = counted.one()
    return int(chunks), int(length)


async def _move_corpus(connection: AsyncConnection, chunks: int, length: int) -> None:
    await connection.execute(MOVE_CORPUS, {"chunks": chunks, "length": length})
