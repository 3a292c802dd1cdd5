"""Ingestion as a Haystack pipeline: convert → clean → split → embed → write.

Components without `run_async` run in threads, so that the event loop – heartbeats, other jobs – goes on while a PDF
is read. What passes between components is frozen: Haystack copies it at every step.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import structlog
from haystack import Pipeline, component
from haystack.components.joiners import BranchJoiner
from haystack.core.errors import PipelineRuntimeError

from store.chunks import NewChunk, content_hash, embedding_text
from store.documents import Documents, VersionRow
from store.embedding import Embedder
from store.errors import IngestError, StoreError
from store.ingest.chunking import IngestSettings, cut
from store.ingest.component import running_loop, wait_for
from store.ingest.convert import Clean, Convert
from store.ingest.formats import FORMATS, Converted, Limits, Report, detect
from store.text import language

if TYPE_CHECKING:
    from store import Store

__all__ = ["IngestSettings", "Ingested", "OnProgress", "build", "ingest"]

log = structlog.get_logger(__name__)

OnProgress = Callable[[str, int, int], Awaitable[None]]

EMBED_BATCH = 32  # passages between two reports of progress
REPORT_SECONDS = 0.3  # a bar need not move oftener, and each report is a transaction


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a version. `embedded` of its chunks needed the model, the others kept their vectors;
    `textless` pages held pictures that could not be read."""

    version: VersionRow
    title: str = ""
    embedded: int = 0
    textless: tuple[int, ...] = ()


# --- components --------------------------------------------------------------------------------------------------


@component
class Route:
    """Sends the bytes to the converter of their kind."""

    def __init__(self, limits: Limits, media_type: str = "") -> None:
        self.limits = limits
        self.media_type = media_type
        component.set_output_types(self, **{kind.name: bytes for kind in FORMATS}, name=str)

    def run(self, data: bytes, name: str) -> dict[str, Any]:
        return {detect(data, name, self.limits, self.media_type).name: data, "name": name}


@component
class Split:
    """Markdown into chunks that fit the embedding model's window."""

    def __init__(
        self, settings: IngestSettings, profile: str | None, embedder: Embedder, report: Report
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.embedder = embedder
        self.report = report

    @component.output_types(converted=Converted, chunks=list[NewChunk])
    def run(self, converted: Converted) -> dict[str, Any]:
        _, chunks = cut(converted, self.settings, self.profile, self.embedder)
        self.report("split", len(chunks), len(chunks))
        return {"converted": converted, "chunks": chunks}


@component
class Embed:
    """Vectors for the chunks that have none yet. `known` finds, by content hash, those an earlier version had."""

    def __init__(
        self,
        embedder: Embedder,
        known: Callable[[Collection[str]], Awaitable[Mapping[str, str]]],
        report: Report,
    ) -> None:
        self.embedder = embedder
        self.known = known
        self.report = report
        self._loop = running_loop()

    @component.output_types(vectors=list[Any], embedded=int)
    async def run_async(self, converted: Converted, chunks: list[NewChunk]) -> dict[str, Any]:
        hashes = [content_hash(converted.title, chunk) for chunk in chunks]
        known = await self.known(hashes)
        vectors: list[Any] = [known.get(digest) for digest in hashes]
        missing = [at for at, vector in enumerate(vectors) if vector is None]
        self.report("embed", 0, len(missing))
        for start in range(0, len(missing), EMBED_BATCH):
            batch = missing[start : start + EMBED_BATCH]
            texts = [
                embedding_text(converted.title, chunks[at].heading_path, chunks[at].text) for at in batch
            ]
            fresh = await self.embedder.passages(texts)
            if not fresh:  # no model: keywords alone
                return {"vectors": [], "embedded": 0}
            for at, vector in zip(batch, fresh, strict=True):
                vectors[at] = tuple(vector)
            self.report("embed", min(start + EMBED_BATCH, len(missing)), len(missing))
        return {"vectors": vectors, "embedded": len(missing)}

    @component.output_types(vectors=list[Any], embedded=int)
    def run(self, converted: Converted, chunks: list[NewChunk]) -> dict[str, Any]:
        return wait_for(self.run_async(converted, chunks), self._loop)


@component
class Write:
    """Publishes the version, in one transaction, and refreshes what ranking counts."""

    def __init__(self, documents: Documents, version_id: int, report: Report) -> None:
        self.documents = documents
        self.version_id = version_id
        self.report = report
        self._loop = running_loop()

    @component.output_types(ingested=Ingested)
    async def run_async(
        self, converted: Converted, chunks: list[NewChunk], vectors: list[Any], embedded: int
    ) -> dict[str, Any]:
        self.report("write", 0, len(chunks))
        version = await self.documents.publish(
            self.version_id,
            chunks,
            vectors,
            markdown=converted.markdown,
            pages=converted.pages,
            title=converted.title,
            language=language(converted.markdown[:20_000]),
            media_type=converted.media_type,
        )
        await self.documents.refresh_statistics()
        self.report("write", len(chunks), len(chunks))
        return {"ingested": Ingested(version, converted.title, embedded, converted.textless)}

    @component.output_types(ingested=Ingested)
    def run(
        self, converted: Converted, chunks: list[NewChunk], vectors: list[Any], embedded: int
    ) -> dict[str, Any]:
        return wait_for(self.run_async(converted, chunks, vectors, embedded), self._loop)


def build(route: Route, split_: Split, embed: Embed, write: Write, report: Report) -> Pipeline:
    """The pipeline, one converter for each row of `FORMATS`."""
    pipeline = Pipeline()
    pipeline.add_component("route", route)
    pipeline.add_component("converted", BranchJoiner(Converted))
    for kind in FORMATS:
        pipeline.add_component(kind.name, Convert(kind, route.limits, report))
        pipeline.connect(f"route.{kind.name}", f"{kind.name}.data")
        pipeline.connect("route.name", f"{kind.name}.name")
        pipeline.connect(f"{kind.name}.converted", "converted.value")
    pipeline.add_component("clean", Clean())
    pipeline.add_component("split", split_)
    pipeline.add_component("embed", embed)
    pipeline.add_component("write", write)
    pipeline.connect("converted.value", "clean.converted")
    pipeline.connect("clean.converted", "split.converted")
    for socket in ("converted", "chunks"):
        pipeline.connect(f"split.{socket}", f"embed.{socket}")
        pipeline.connect(f"split.{socket}", f"write.{socket}")
    pipeline.connect("embed.vectors", "write.vectors")
    pipeline.connect("embed.embedded", "write.embedded")
    return pipeline


# --- the job -------------------------------------------------------------------------------------------------------


async def ingest(
    store: "Store",
    embedder: Embedder,
    version_id: int,
    *,
    settings: IngestSettings,
    on_progress: OnProgress | None = None,
) -> Ingested:
    """Read an uploaded version and make it what readers see.

    Repeating it is harmless. A document that cannot be read fails with the reason, alone: `IngestError` is raised
    after the version has been marked. What may pass (`EmbeddingFailed`, `DatabaseUnavailable`) leaves it
    unfinished, to be tried again. Raises `NotFound` when it is gone, or superseded.
    """
    upload = await store.documents.upload(version_id)
    if upload.version.state == "live":
        return Ingested(upload.version)

    async def known(hashes: Collection[str]) -> Mapping[str, str]:
        return await store.documents.known_vectors(version_id, hashes)

    async with Progress(on_progress) as report:
        pipeline = build(
            Route(settings.limits, upload.version.media_type),
            Split(settings, upload.profile, embedder, report),
            Embed(embedder, known, report),
            Write(store.documents, version_id, report),
            report,
        )
        report("convert", 0, 1)
        try:
            done = await pipeline.run_async({"route": {"data": upload.data, "name": upload.source}})
        except PipelineRuntimeError as error:
            raise await _reason(store.documents, version_id, error) from error
    ingested: Ingested = done["write"]["ingested"]
    if ingested.textless:
        log.warning("ingest.pages_without_text", version=version_id, pages=len(ingested.textless))
    return ingested


async def _reason(documents: Documents, version_id: int, error: PipelineRuntimeError) -> BaseException:
    """What to raise for a failed run, after the version was marked where trying again would not help."""
    cause = error.__cause__
    if isinstance(cause, IngestError):
        await documents.fail(version_id, cause.code, cause.detail)
        return cause
    if isinstance(cause, StoreError):
        return cause
    log.error(
        "ingest.internal", version=version_id, component=error.component_name, error=type(cause).__name__
    )
    await documents.fail(version_id, "internal")
    return IngestError("internal")


class Progress:
    """Hands reports from any thread to an async callback, the latest one at most every `REPORT_SECONDS`."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._tell = on_progress
        self._latest: tuple[str, int, int] | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, step: str, done: int, of: int) -> None:
        self._latest = (step, done, of)
        self._loop.call_soon_threadsafe(self._changed.set)

    async def __aenter__(self) -> "Progress":
        if self._tell:
            self._task = asyncio.create_task(self._telling(self._tell), name="ingest progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._tell and kind is None and self._latest:
            await self._tell(*self._latest)

    async def _telling(self, tell: OnProgress) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._latest:
                await tell(*self._latest)
            await asyncio.sleep(REPORT_SECONDS)
