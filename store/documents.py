"""Collections, documents and their versions: what readers see, and what it takes to change it.

A document's current version is one value in its row. `publish` sets it in the transaction that wrote the new
version's chunks, so that readers see the old version or the new one and nothing between.
"""

import builtins
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import adding, outdating, publication, reindexing, retokenising, schema, spaces, stepping_back
from store.catalogue import (
    VERSION_COLUMNS,
    ChunkRow,
    CollectionRow,
    DocumentRow,
    NewDocument,
    Upload,
    VersionRow,
    as_collection,
    as_document,
    listing,
)
from store.chunks import NewChunk
from store.database import transaction
from store.dictionary import Dictionary
from store.embedding import Embedder
from store.errors import NotFound
from store.queue import Queue
from store.spaces import Space
from store.text import clean

__all__ = [
    "ChunkRow",
    "CollectionRow",
    "DocumentRow",
    "Documents",
    "NewChunk",
    "NewDocument",
    "Space",
    "Upload",
    "VersionRow",
]

NO_WORDS = Dictionary()

_collections, _documents, _versions, _chunks, _uploads = (
    schema.collections,
    schema.documents,
    schema.versions,
    schema.chunks,
    schema.uploads,
)


class Documents:
    """The knowledge base's shelves. All methods are one transaction each, except `reindex`."""

    def __init__(
        self,
        engine: AsyncEngine,
        embedder: Embedder,
        queue: Queue | None = None,
        dictionary: Dictionary = NO_WORDS,
    ) -> None:
        """Without a `queue` nothing ingests what `add` stores: the caller does."""
        self._engine = engine
        self._dictionary = dictionary
        self._embedder = embedder
        self._queue = queue

    # --- collections -------------------------------------------------------------------------------------------

    async def ensure_collection(
        self, name: str, *, audience: Sequence[str] | None = None, profile: str | None = None
    ) -> CollectionRow:
        """Create the collection, or change what is given here and differs."""
        async with transaction(self._engine) as connection:
            before = await adding.collection(connection, clean(name))
            if audience is not None and tuple(audience) != before.audience:
                await _inherit(connection, before.name, audience)
            if profile is not None and profile != before.profile:
                await connection.execute(
                    update(_collections).where(_collections.c.name == before.name).values(profile=profile)
                )
            return await adding.collection(connection, before.name)

    async def collections(self) -> builtins.list[CollectionRow]:
        async with transaction(self._engine) as connection:
            found = await connection.execute(select(_collections).order_by(_collections.c.name))
            return [as_collection(row) for row in found.mappings()]

    async def set_collection_audience(self, name: str, principals: Sequence[str]) -> None:
        """Change who may read a collection's documents, except those with an audience of their own."""
        async with transaction(self._engine) as connection:
            await _inherit(connection, name, principals)

    async def remove_collection(self, name: str) -> int:
        """Remove a collection and its documents; returns how many there were."""
        async with transaction(self._engine) as connection:
            found = select(_documents.c.id).where(_documents.c.collection == name)
            removed = await _remove(connection, self._queue, found)
            await connection.execute(delete(_collections).where(_collections.c.name == name))
        await self.refresh_statistics()
        return removed

    # --- documents ---------------------------------------------------------------------------------------------

    async def add(self, new: NewDocument) -> VersionRow:
        """Store the bytes as the document's next version, and the job that ingests them, all or nothing.

        Bytes that are current already, or wait to be, make no new version: theirs comes back.
        """
        async with transaction(self._engine) as connection:
            return await adding.add(connection, new, self._queue)

    async def list(self, collection: str | None = None) -> builtins.list[DocumentRow]:
        """All documents, by collection and source."""
        query = listing()
        if collection is not None:
            query = query.where(_documents.c.collection == collection)
        async with transaction(self._engine) as connection:
            return [as_document(row) for row in (await connection.execute(query)).mappings()]

    async def show(self, document_id: int) -> DocumentRow:
        async with transaction(self._engine) as connection:
            query = listing().where(_documents.c.id == document_id)
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise NotFound
        return as_document(row)

    async def same_content(self, digest: str, but: int) -> builtins.list[DocumentRow]:
        """Documents other than `but` whose current version is the bytes of this sha256."""
        current = select(_versions.c.id).where(_versions.c.content_hash == digest)
        query = listing().where(_documents.c.current_version_id.in_(current), _documents.c.id != but)
        async with transaction(self._engine) as connection:
            return [as_document(row) for row in (await connection.execute(query)).mappings()]

    async def remove(self, document_id: int) -> None:
        """Remove a document with all its versions. Raises `NotFound`."""
        async with transaction(self._engine) as connection:
            document = select(_documents.c.id).where(_documents.c.id == document_id)
            if not await _remove(connection, self._queue, document):
                raise NotFound
        await self.refresh_statistics()

    async def remove_uploaded_by(self, who: str) -> int:
        """Remove the documents whose every version `who` uploaded; returns how many there were."""
        of_others = select(_versions.c.document_id).where(_versions.c.uploaded_by != who)
        async with transaction(self._engine) as connection:
            removed = await _remove(
                connection, self._queue, select(_documents.c.id).where(_documents.c.id.not_in(of_others))
            )
        await self.refresh_statistics()
        return removed

    async def set_audience(self, document_id: int, principals: Sequence[str] | None) -> None:
        """Change who may read a document, at once and without embedding again; None: whoever may its collection."""
        inherited = select(_collections.c.audience).where(_collections.c.name == _documents.c.collection)
        audience = inherited.scalar_subquery() if principals is None else adding.principals(principals)
        async with transaction(self._engine) as connection:
            changed = await connection.execute(
                update(_documents)
                .where(_documents.c.id == document_id)
                .values(audience=audience, inherits_audience=principals is None)
            )
            if not changed.rowcount:
                raise NotFound
            await publication.changed(connection)
            await outdating.audiences_changed(connection, [document_id])

    # --- versions ----------------------------------------------------------------------------------------------

    async def version(self, version_id: int) -> VersionRow:
        async with transaction(self._engine) as connection:
            return await _version(connection, version_id)

    async def versions(self, document_id: int) -> builtins.list[VersionRow]:
        """A document's versions, newest first."""
        query = select(*VERSION_COLUMNS).where(_versions.c.document_id == document_id)
        async with transaction(self._engine) as connection:
            found = await connection.execute(query.order_by(_versions.c.number.desc()))
            return [VersionRow(*row) for row in found]

    async def upload(self, version_id: int) -> Upload:
        """The bytes to ingest. Raises `NotFound` when the document is gone or the version retired."""
        query = (
            select(_documents.c.source, _collections.c.profile, _uploads.c.data)
            .join_from(_versions, _documents, _documents.c.id == _versions.c.document_id)
            .join(_collections, _collections.c.name == _documents.c.collection)
            .join(_uploads, _uploads.c.version_id == _versions.c.id)
            .where(_versions.c.id == version_id)
        )
        async with transaction(self._engine) as connection:
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                raise NotFound
            return Upload(await _version(connection, version_id), row.source, row.profile, row.data)

    async def set_progress(self, version_id: int, step: str, done: int, of: int) -> None:
        """Say how far ingestion is. A version that has come to its end is left alone."""
        state = "embedding" if step in ("embed", "write") else "converting"
        await self._unfinished(version_id, state=state, progress={"step": step, "done": done, "of": of})

    async def fail(self, version_id: int, code: str, detail: str = "") -> None:
        """Give a version up, with the reason; what readers see stays as it is. Its bytes are deleted."""
        await self._unfinished(version_id, state="failed", error_code=code, error_detail=clean(detail))
        async with transaction(self._engine) as connection:
            failed = select(_versions.c.id).where(_versions.c.id == version_id, _versions.c.state == "failed")
            await connection.execute(delete(_uploads).where(_uploads.c.version_id.in_(failed)))

    async def publish(  # noqa: PLR0913 - a version's parts, by name
        self,
        version_id: int,
        chunks: Sequence[NewChunk],
        vectors: Sequence[Sequence[float] | str | None],
        *,
        markdown: str,
        pages: int | None,
        title: str,
        language: str,
        media_type: str = "",
    ) -> VersionRow:
        """Make a version what readers see, in one transaction; call `refresh_statistics` after it.

        `vectors` are the chunks' embeddings by the store's model, in their order (a `halfvec` literal where it is
        known, None where there is none); empty without a model. Publishing twice, or after a later version,
        changes nothing. Raises `NotFound` when the document is gone.
        """
        rows, literals = await publication.prepare(title, chunks, vectors, self._dictionary)
        edition = publication.Edition(title, language, markdown, pages, media_type, rows, literals)
        space = await self.ensure_space() if any(vector is not None for vector in vectors) else None
        async with transaction(self._engine) as connection:
            await publication.publish(connection, version_id, edition, space.id if space else None)
            version = await _version(connection, version_id)
            await outdating.sources_changed(connection, self._queue, [version.document_id])
            await outdating.audiences_changed(connection, [version.document_id])
            return version

    async def rollback(self, document_id: int, number: int | None = None) -> VersionRow:
        """Make the version before the current one, or version `number`, what readers see again; call
        `refresh_statistics` after it. Raises `NotFound` where its chunks are gone: two versions keep theirs."""
        version_id = await stepping_back.step_back(
            self._engine, self._embedder, self._queue, document_id, number
        )
        async with transaction(self._engine) as connection:
            return await _version(connection, version_id)

    async def chunks(self, version_id: int) -> builtins.list[ChunkRow]:
        """A version's chunks in order, for the preview."""
        query = (
            select(*(_chunks.c[name] for name in ChunkRow.__dataclass_fields__))
            .where(_chunks.c.version_id == version_id)
            .order_by(_chunks.c.ordinal)
        )
        async with transaction(self._engine) as connection:
            return [
                ChunkRow(row.id, row.ordinal, tuple(row.heading_path), row.page, row.text, row.length)
                for row in await connection.execute(query)
            ]

    async def markdown(self, version_id: int) -> str:
        """The converted text with its page anchors. Raises `NotFound` where none is kept."""
        async with transaction(self._engine) as connection:
            found = await connection.scalar(select(_versions.c.markdown).where(_versions.c.id == version_id))
        if found is None:
            raise NotFound
        return str(found)

    # --- what search needs ---------------------------------------------------------------------------------------

    async def active_space(self) -> Space | None:
        """The space that search reads; None while nothing was embedded."""
        async with transaction(self._engine) as connection:
            return await spaces.active(connection)

    async def spaces(self) -> builtins.list[Space]:
        """Every model's space, oldest first."""
        async with transaction(self._engine) as connection:
            return await spaces.every(connection)

    async def ensure_space(self) -> Space | None:
        """The space of the store's embedding model, created where it is missing (active, when it is the first);
        None without a model."""
        return await reindexing.ensure_space(self._engine, self._embedder)

    async def reindex(
        self,
        embedder: Embedder | None = None,
        on_progress: Callable[[int, int], Awaitable[None]] | None = None,
    ) -> Space:
        """Embed every visible chunk by the given model (or the store's) beside the vectors there are, then let search
        read the new ones, in one step. Called again after an interruption it goes on where it stopped.

        `on_progress(done, of)` counts chunks. Raises `EmbeddingFailed`; search then reads what it read before.
        """
        return await reindexing.reindex(self._engine, embedder or self._embedder, on_progress)

    async def known_vectors(self, version_id: int, hashes: Collection[str]) -> Mapping[str, str]:
        """Vectors (`halfvec` literals) of the store's model for those chunk hashes that an earlier version of the
        same document has."""
        async with transaction(self._engine) as connection:
            space = await spaces.find(connection, self._embedder.model, self._embedder.dimension)
            return await publication.known_vectors(connection, space.id, version_id, hashes) if space else {}

    async def follow_dictionary(self) -> int:
        """Cut the chunks again where they were cut with another dictionary; returns how many that were. Search goes
        on meanwhile."""
        if not await retokenising.outdated(self._engine, self._dictionary):
            return 0
        return await retokenising.retokenise(self._engine, self._dictionary)

    async def refresh_statistics(self) -> None:
        """Count the visible chunks' terms anew (100k chunks: 2.5 s). Readers are not held up."""
        async with transaction(self._engine) as connection:
            await publication.refresh_statistics(connection)

    async def _unfinished(self, version_id: int, **values: Any) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(
                update(_versions)
                .where(_versions.c.id == version_id, _versions.c.state.in_(publication.UNFINISHED))
                .values(**values)
            )


async def _version(connection: AsyncConnection, version_id: int) -> VersionRow:
    found = await connection.execute(select(*VERSION_COLUMNS).where(_versions.c.id == version_id))
    row = found.one_or_none()
    if row is None:
        raise NotFound
    return VersionRow(*row)


async def _inherit(connection: AsyncConnection, name: str, principals: Sequence[str]) -> None:
    """Give a collection, and the documents that follow it, another audience."""
    audience = adding.principals(principals)
    changed = await connection.execute(
        update(_collections).where(_collections.c.name == name).values(audience=audience)
    )
    if not changed.rowcount:
        raise NotFound
    follow = await connection.execute(
        update(_documents)
        .where(_documents.c.collection == name, _documents.c.inherits_audience)
        .values(audience=audience)
        .returning(_documents.c.id)
    )
    await publication.changed(connection)
    await outdating.audiences_changed(connection, list(follow.scalars()))


async def _remove(connection: AsyncConnection, queue: Queue | None, found: Select[Any]) -> int:
    ids = [row.id for row in await connection.execute(found.with_for_update())]
    if ids:
        await publication.withdrawn(connection, ids)
        await connection.execute(delete(_documents).where(_documents.c.id.in_(ids)))
        await outdating.sources_changed(connection, queue, ids)
    return len(ids)
