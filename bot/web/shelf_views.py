"""What the console shows of documents and of search: from rows to frozen values. Pure."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from bot.pausing import place_of
from bot.web.render import markdown
from bot.web.views import Reader, degraded
from rag_graph.contracts import Passage, SearchResult
from store.documents import ChunkRow, DocumentRow, VersionRow
from store.switches import Switch

WORKING = ("pending", "converting", "embedding")
# A long document's preview ends here and says so; `signoff documents show` lists them all.
PREVIEWED = 200
STEPS = ("convert", "clean", "split", "embed", "write")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file could not be used, and what to do about it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DocumentView:
    id: int
    title: str
    source: str
    state: str
    working: bool
    step: str
    done: int
    of: int
    failed: bool
    what: str
    remedy: str
    readers: str
    version: int | None
    chunks: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Shelf:
    name: str
    key: str  # for the page's ids: a collection may have any name
    documents: tuple[DocumentView, ...]


@dataclass(frozen=True, slots=True)
class PauseView:
    """Where answering is paused: `place` is a channel's principal, "" for everywhere."""

    place: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class VersionView:
    number: int
    state: str
    working: bool
    step: str
    done: int
    of: int
    what: str
    remedy: str
    by: str
    at: datetime
    chunks: int
    pages: int | None


@dataclass(frozen=True, slots=True)
class ChunkView:
    number: int
    path: str
    page: int | None
    characters: int
    html: Markup


@dataclass(frozen=True, slots=True)
class Sheet:
    """One document: its versions, its readers, the chunks of the version that readers see."""

    id: int
    source: str
    audience: str
    failed: Failure | None
    versions: tuple[VersionView, ...]
    chunk_count: int
    chunks: tuple[ChunkView, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Hit:
    place: int
    document_id: int
    title: str
    path: str
    collection: str
    version: int
    page: int | None
    score: str
    vector_rank: str
    similarity: str
    keyword_rank: str
    bm25: str
    html: Markup


@dataclass(frozen=True, slots=True)
class Found:
    hits: tuple[Hit, ...]
    confidence: float
    calibrated: bool
    degraded: tuple[str, ...]
    timings: str


def failure(words: Callable[..., str], code: str, name: str, detail: str) -> Failure:
    """The two sentences of an ingestion code; one that has none is the internal one."""
    try:
        return Failure(
            words(f"ingest.{code}.what", name=name, detail=detail),
            words(f"ingest.{code}.remedy", name=name, detail=detail),
        )
    except KeyError:
        return failure(words, "internal", name, detail) if code != "internal" else Failure(code, "")


def pause(switch: Switch, reader: Reader) -> PauseView:
    return PauseView(place_of(switch), reader.name(switch.set_by), switch.set_at)


def shelves(rows: Sequence[DocumentRow], reader: Reader) -> tuple[Shelf, ...]:
    """The documents by collection."""
    grouped = itertools.groupby(
        sorted(rows, key=lambda row: (row.collection, row.source)), lambda r: r.collection
    )
    return tuple(
        Shelf(
            name,
            hashlib.sha256(name.encode()).hexdigest()[:12],
            tuple(document(row, reader) for row in group),
        )
        for name, group in grouped
    )


def document(row: DocumentRow, reader: Reader) -> DocumentView:
    why = _why(row.state, row.error_code, row.error_detail, row.source, reader)
    step, done, of = _progress(row.progress)
    return DocumentView(
        id=row.id,
        title=row.title,
        source=row.source if row.source != row.title else "",
        state=row.state,
        working=row.state in WORKING,
        step=step,
        done=done,
        of=of,
        failed=why is not None,
        what=why.what if why else "",
        remedy=why.remedy if why else "",
        readers=", ".join(row.audience),
        version=row.version,
        chunks=row.chunk_count,
        updated_at=row.updated_at,
    )


def sheet(
    row: DocumentRow, versions: Sequence[VersionRow], chunks: Sequence[ChunkRow], reader: Reader
) -> Sheet:
    return Sheet(
        id=row.id,
        source=f"{row.collection} / {row.source}",
        audience=", ".join(row.audience),
        failed=_why(row.state, row.error_code, row.error_detail, row.source, reader),
        versions=tuple(_version(version, row.source, reader) for version in versions),
        chunk_count=row.chunk_count,
        chunks=tuple(
            ChunkView(
                chunk.ordinal + 1,
                " › ".join(chunk.heading_path),
                chunk.page,
                len(chunk.text),
                markdown(chunk.text),
            )
            for chunk in chunks[:PREVIEWED]
        ),
        more=max(0, len(chunks) - PREVIEWED),
    )


def found(result: SearchResult, reader: Reader) -> Found:
    return Found(
        hits=tuple(_hit(place, passage) for place, passage in enumerate(result.passages, 1)),
        confidence=result.confidence,
        calibrated=result.calibrated,
        degraded=degraded(result.degraded, reader),
        timings=" · ".join(f"{name} {value:.0f} ms" for name, value in result.timings.items()),
    )


def _hit(place: int, passage: Passage) -> Hit:
    return Hit(
        place=place,
        document_id=passage.document_id,
        title=passage.title,
        path=" › ".join(passage.heading_path),
        collection=passage.collection,
        version=passage.version,
        page=passage.page,
        score=f"{passage.score:.4f}",
        vector_rank=_number(passage.vector_rank),
        similarity=_number(passage.similarity),
        keyword_rank=_number(passage.keyword_rank),
        bm25=_number(passage.bm25),
        html=markdown(passage.text),
    )


def _version(row: VersionRow, source: str, reader: Reader) -> VersionView:
    why = _why(row.state, row.error_code, row.error_detail, source, reader)
    step, done, of = _progress(row.progress)
    return VersionView(
        number=row.number,
        state=row.state,
        working=row.state in WORKING,
        step=step,
        done=done,
        of=of,
        what=why.what if why else "",
        remedy=why.remedy if why else "",
        by=reader.name(row.uploaded_by),
        at=row.published_at or row.created_at,
        chunks=row.chunk_count,
        pages=row.pages,
    )


def _why(state: str, code: str | None, detail: str | None, source: str, reader: Reader) -> Failure | None:
    return failure(reader.words, code or "internal", source, detail or "") if state == "failed" else None


def _progress(progress: object) -> tuple[str, int, int]:
    if not isinstance(progress, dict) or not progress:
        return "", 0, 0
    step = str(progress.get("step", ""))
    return step if step in STEPS else "convert", int(progress.get("done", 0)), int(progress.get("of", 0))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
