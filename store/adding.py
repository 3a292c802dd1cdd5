"""A document's next version: the row it belongs to, whether its bytes are news, and the job that reads them."""

import hashlib
from collections.abc import Sequence

from sqlalchemy import RowMapping, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from store import publication, schema
from store.catalogue import VERSION_COLUMNS, CollectionRow, NewDocument, VersionRow, as_collection
from store.queue import INGEST, Queue
from store.text import clean

__all__ = ["add", "collection", "principals"]

_collections, _documents, _versions, _uploads = (
    schema.collections,
    schema.documents,
    schema.versions,
    schema.uploads,
)


async def add(connection: AsyncConnection, new: NewDocument, queue: Queue | None) -> VersionRow:
    """See `store.documents.Documents.add`. Raises `ValueError` for an audience of nobody."""
    digest = hashlib.sha256(new.data).hexdigest()
    document, created = await _document(connection, new)
    newest = await _newest(connection, document["id"])
    if same := await _same_bytes(connection, document, newest, digest):
        return same
    added = await connection.execute(
        insert(_versions)
        .values(
            document_id=document["id"],
            number=newest.number + 1 if newest else 1,
            media_type=new.media_type,
            content_hash=digest,
            uploaded_by=clean(new.uploaded_by),
            audience=None if created or new.audience is None else principals(new.audience),
        )
        .returning(*VERSION_COLUMNS)
    )
    version = VersionRow(*added.one())
    await connection.execute(insert(_uploads).values(version_id=version.id, data=new.data))
    if queue:
        await queue.defer(
            "ingest",
            {"version_id": version.id},
            lock=f"document:{version.document_id}",
            queue=INGEST,
            connection=connection,
        )
    return version


def principals(audience: Sequence[str]) -> list[str]:
    """An audience as it is stored: each principal once, in order. Raises `ValueError` for none."""
    found = sorted({clean(principal).strip() for principal in audience} - {""})
    if not found:
        raise ValueError("an audience names at least one principal")
    return found


async def collection(connection: AsyncConnection, name: str) -> CollectionRow:
    """The collection, created where it is missing."""
    await connection.execute(upsert(_collections).values(name=name).on_conflict_do_nothing())
    found = await connection.execute(select(_collections).where(_collections.c.name == name))
    return as_collection(found.mappings().one())


async def _document(connection: AsyncConnection, new: NewDocument) -> tuple[RowMapping, bool]:
    """The document's row, locked, and whether it was created here."""
    shelf = await collection(connection, clean(new.collection))
    source = clean(new.source)
    created = await connection.execute(
        upsert(_documents)
        .values(
            collection=shelf.name,
            source=source,
            title=source,
            audience=list(shelf.audience) if new.audience is None else principals(new.audience),
            inherits_audience=new.audience is None,
            labels=[clean(label) for label in new.labels],
        )
        .on_conflict_do_nothing()
        .returning(_documents.c.id)
    )
    found = await connection.execute(
        select(_documents)
        .where(_documents.c.collection == shelf.name, _documents.c.source == source)
        .with_for_update()
    )
    return found.mappings().one(), created.one_or_none() is not None


async def _same_bytes(
    connection: AsyncConnection, document: RowMapping, newest: VersionRow | None, digest: str
) -> VersionRow | None:
    """The version that is these bytes already and is current, or waits to be."""
    if newest is None:
        return None
    if newest.content_hash == digest and newest.state in publication.UNFINISHED:
        return newest
    if document["current_version_id"] is None or newest.state in publication.UNFINISHED:
        return None
    found = await connection.execute(
        select(*VERSION_COLUMNS).where(_versions.c.id == document["current_version_id"])
    )
    current = VersionRow(*found.one())
    if current.content_hash != digest:
        return None
    # Whatever failed after it is answered by these bytes.
    await connection.execute(
        update(_versions)
        .where(
            _versions.c.document_id == document["id"],
            _versions.c.number > current.number,
            _versions.c.state == "failed",
        )
        .values(state="retired")
    )
    return current


async def _newest(connection: AsyncConnection, document_id: int) -> VersionRow | None:
    query = select(*VERSION_COLUMNS).where(_versions.c.document_id == document_id)
    row = (await connection.execute(query.order_by(_versions.c.number.desc()).limit(1))).one_or_none()
    return VersionRow(*row) if row else None
