"""Use case: documents. Upload, fetch, look, go back, remove, change who may read."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePath

import structlog

from bot.settings import Settings
from store import Store
from store.documents import DocumentRow, NewDocument, VersionRow
from store.embedding import Embedder
from store.errors import IngestError
from store.ingest.chunking import IngestSettings, Preview, preview
from store.ingest.fetch import Fetcher, FetchLimits
from store.pages import PageRow
from store.spaces import Space

log = structlog.get_logger(__name__)

OnProgress = Callable[[str, int, int], Awaitable[None]]

LATER = -10  # a job's priority
REFETCH = "refetch"  # who uploaded a version that was found by looking again


@dataclass(frozen=True, slots=True)
class Refetched:
    """What looking again at a page gave: a new version, an error, or neither where nothing changed."""

    url: str
    version: VersionRow | None = None
    error: IngestError | None = None


class Admin:
    """`ingest` runs in the worker process only: it alone imports Haystack."""

    def __init__(
        self, store: Store, embedder: Embedder, settings: Settings, fetcher: Fetcher | None = None
    ) -> None:
        self._store = store
        self.embedder = embedder
        self._settings = settings
        limits = FetchLimits(
            bytes=settings.ingest.max_megabytes * 1_000_000, intranet=settings.ingest.intranet_hosts
        )
        self._fetcher = fetcher or Fetcher(limits)

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
        await self._ensure(collection)
        return await self._store.documents.add(
            NewDocument(collection=collection, source=name, data=data, uploaded_by=by, audience=audience)
        )

    async def add_url(
        self, url: str, *, collection: str, by: str, audience: tuple[str, ...] | None = None
    ) -> VersionRow:
        """Read a page or file from the web and queue its ingestion; it is looked at again from time to time.

        Raises `IngestError` with what is wrong with the address, the answer or its size.
        """
        source = url.strip().partition("#")[0]
        fetched = await self._fetcher.fetch(source)
        if fetched is None:
            raise IngestError("unreachable", "304")
        await self._ensure(collection)
        version = await self._store.documents.add(
            NewDocument(
                collection=collection,
                source=source,
                data=fetched.data,
                uploaded_by=by,
                audience=audience,
                media_type=fetched.media_type,
            )
        )
        await self._store.pages.seen(
            version.document_id, etag=fetched.etag, last_modified=fetched.last_modified
        )
        return version

    async def refetch(self, older_than: timedelta | None = None) -> list[Refetched]:
        """Look again at every page last looked at that long ago (`refetch_hours`), and ingest what changed.

        A page that cannot be reached stays as it was read; the next look is after another while.
        """
        hours = self._settings.ingest.refetch_hours
        if older_than is None and not hours:
            return []
        age = timedelta(hours=hours) if older_than is None else older_than
        return [await self._look_again(page) for page in await self._store.pages.due(datetime.now(UTC) - age)]

    async def _look_again(self, page: PageRow) -> Refetched:
        try:
            fetched = await self._fetcher.fetch(page.url, etag=page.etag, last_modified=page.last_modified)
        except IngestError as error:
            log.info("refetch.failed", document=page.document_id, code=error.code)
            await self._store.pages.missed(page.document_id, error.code, error.detail)
            return Refetched(page.url, error=error)
        if fetched is None:
            await self._store.pages.seen(page.document_id, etag=page.etag, last_modified=page.last_modified)
            return Refetched(page.url)
        version = await self._store.documents.add(
            NewDocument(
                page.collection, page.url, fetched.data, uploaded_by=REFETCH, media_type=fetched.media_type
            )
        )
        await self._store.pages.seen(page.document_id, etag=fetched.etag, last_modified=fetched.last_modified)
        return Refetched(page.url, version=None if version.state == "live" else version)

    async def preview(self, name: str, data: bytes, *, collection: str = "", media_type: str = "") -> Preview:
        """What a file would become: title, profile and chunks. Nothing is stored or embedded. Raises `IngestError`."""
        profile = self._settings.profiles.get(collection)
        return await asyncio.to_thread(preview, data, name, self._how(), profile, self.embedder, media_type)

    async def preview_url(self, url: str, *, collection: str = "") -> Preview:
        """The same of a page on the web."""
        fetched = await self._fetcher.fetch(url)
        if fetched is None:
            raise IngestError("unreachable", "304")
        return await self.preview(url, fetched.data, collection=collection, media_type=fetched.media_type)

    async def duplicates(self, version: VersionRow) -> list[DocumentRow]:
        """Other documents that readers see with the very same bytes."""
        return await self._store.documents.same_content(version.content_hash, version.document_id)

    async def rollback(self, document_id: int, number: int | None = None) -> VersionRow:
        """Show readers the version before the current one again, or version `number`. Raises `NotFound`."""
        version = await self._store.documents.rollback(document_id, number)
        await self._store.documents.refresh_statistics()
        await self._store.changes.notify("documents", {"document": document_id})
        return version

    async def _ensure(self, collection: str) -> None:
        await self._store.documents.ensure_collection(
            collection,
            audience=self._settings.audiences.get(collection),
            profile=self._settings.profiles.get(collection),
        )

    def _how(self) -> IngestSettings:
        chosen = self._settings.ingest
        return IngestSettings(
            chunk_characters=chosen.chunk_characters,
            overlap_characters=chosen.overlap_characters,
            max_bytes=chosen.max_megabytes * 1_000_000,
            max_pages=chosen.max_pages,
            max_seconds=chosen.max_seconds,
            max_megabytes=chosen.max_memory_megabytes,
        )

    async def ingest(self, version_id: int, on_progress: OnProgress | None = None) -> VersionRow:
        """Job `ingest`: convert, split, embed, publish. A failure is the document's state, never an exception."""
        # Haystack: 3 s and 116 MB, in the worker only.
        from store.ingest.pipeline import ingest

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
                settings=self._how(),
                on_progress=report,
            )
        except IngestError as error:
            log.info("ingest.failed", version=version_id, code=error.code)
        await self._store.changes.notify("documents", {"version": version_id, "step": "finished"})
        version = await self._store.documents.version(version_id)
        if version.state == "live":  # what nobody could answer may be answered now (bot/gaps.py)
            # One document at a time, after everybody who waits for an answer: it searches for each open question.
            await self._store.queue.defer("replay", {"version_id": version_id}, lock="replay", priority=LATER)
        return version

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

    async def reindex(self, embedder: Embedder | None = None) -> Space:
        """Build the configured model's vectors beside the old ones and switch to them in one step."""
        return await self._store.documents.reindex(embedder or self.embedder)

    async def set_audience(self, document_id: int, principals: tuple[str, ...] | None) -> None:
        """Who may read a document from now on; None: whoever may read its collection."""
        await self._store.documents.set_audience(document_id, principals)


def collection_of(path: PurePath, root: PurePath, given: str | None) -> str:
    """The collection a file belongs to: the one named, else its folder below the root, else "general"."""
    if given:
        return given
    relative = path.relative_to(root)
    return relative.parts[0] if len(relative.parts) > 1 else "general"
