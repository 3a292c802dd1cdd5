"""Use case: documents. Upload, look, remove, change who may read."""

from collections.abc import Awaitable, Callable
from pathlib import PurePath

import structlog

from bot.settings import Ingest, Settings
from store import Store
from store.documents import DocumentRow, NewDocument, VersionRow
from store.embedding import Embedder
from store.errors import IngestError
from store.spaces import Space

log = structlog.get_logger(__name__)

OnProgress = Callable[[str, int, int], Awaitable[None]]


class Admin:
    """`ingest` runs in the worker process only: it alone imports Haystack."""

    def __init__(self, store: Store, embedder: Embedder, settings: Settings) -> None:
        self._store = store
        self.embedder = embedder
        self._settings = settings

    async def upload(
        self,
        name: str,
        data: bytes,
        *,
        collection: str,
        by: str,
        audience: tuple[str, ...] | None = None,
    ) -> VersionRow:
        """Store the bytes as a new version and queue its ingestion. Identical bytes are recognised and come back
        as the version that is live; a file over the size limit is refused with `IngestError("too_large")`."""
        limit = self._settings.ingest.max_megabytes
        if len(data) > limit * 1_000_000:
            raise IngestError("too_large", f"{limit} MB")
        await self._store.documents.ensure_collection(
            collection, audience=self._settings.audiences.get(collection)
        )
        return await self._store.documents.add(
            NewDocument(collection=collection, source=name, data=data, uploaded_by=by, audience=audience)
        )

    async def ingest(self, version_id: int, on_progress: OnProgress | None = None) -> VersionRow:
        """Job `ingest`: convert, split, embed, publish. A failure is the document's state, never an exception."""
        # Haystack: 3 s and 116 MB, in the worker only.
        from store.ingest.pipeline import IngestSettings, ingest

        chosen: Ingest = self._settings.ingest

        async def report(step: str, done: int, of: int) -> None:
            await self._store.documents.set_progress(version_id, step, done, of)
            await self._store.changes.notify("documents", {"version": version_id, "step": step})
            if on_progress:
                await on_progress(step, done, of)

        try:
            await ingest(
                self._store,
                self.embedder,
                version_id,
                settings=IngestSettings(
                    chunk_characters=chosen.chunk_characters,
                    overlap_characters=chosen.overlap_characters,
                    max_bytes=chosen.max_megabytes * 1_000_000,
                    max_pages=chosen.max_pages,
                    max_seconds=chosen.max_seconds,
                    max_megabytes=chosen.max_memory_megabytes,
                ),
                on_progress=report,
            )
        except IngestError as error:
            log.info("ingest.failed", version=version_id, code=error.code)
        await self._store.changes.notify("documents", {"version": version_id, "step": "finished"})
        return await self._store.documents.version(version_id)

    async def give_up(self, version_id: int) -> None:
        """The job was tried to its last attempt: the document says so instead of hanging half read."""
        await self._store.documents.fail(version_id, "internal")
        await self._store.changes.notify("documents", {"version": version_id, "step": "finished"})

    async def list(self, collection: str | None = None) -> list[DocumentRow]:
        return await self._store.documents.list(collection)

    async def remove(self, document_id: int) -> None:
        await self._store.documents.remove(document_id)
        await self._store.changes.notify("documents", {"document": document_id})

    async def remove_collection(self, name: str) -> int:
        """Remove every document of a collection; returns how many there were."""
        removed = await self._store.documents.remove_collection(name)
        await self._store.changes.notify("documents", {"collection": name})
        return removed

    async def remove_uploaded_by(self, who: str) -> int:
        """Remove what `who` uploaded; returns how many documents that were."""
        removed = await self._store.documents.remove_uploaded_by(who)
        await self._store.changes.notify("documents", {"uploaded_by": who})
        return removed

    async def reindex(self) -> Space:
        """Build the configured model's vectors beside the old ones and switch to them in one step."""
        return await self._store.documents.reindex(self.embedder)

    async def set_audience(self, document_id: int, principals: tuple[str, ...] | None) -> None:
        """Who may read a document from now on; None: whoever may read its collection."""
        await self._store.documents.set_audience(document_id, principals)


def collection_of(path: PurePath, root: PurePath, given: str | None) -> str:
    """The collection a file belongs to: the one named, else its folder below the root, else "general"."""
    if given:
        return given
    relative = path.relative_to(root)
    return relative.parts[0] if len(relative.parts) > 1 else "general"
