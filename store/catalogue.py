"""What the knowledge base's rows look like from outside, and the list that shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, func, select, true

from store.schema import documents, versions

__all__ = [
    "VERSION_COLUMNS",
    "ChunkRow",
    "CollectionRow",
    "DocumentRow",
    "NewDocument",
    "Upload",
    "VersionRow",
    "as_collection",
    "as_document",
    "listing",
]


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A file to be read. `source` (path or URL) names the document within its collection; `audience` None follows
    the collection's."""

    collection: str
    source: str
    data: bytes = field(repr=False)
    uploaded_by: str = ""
    audience: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """`state` is pending, converting, embedding, live, retired or failed; `error_code` a key of the words files;
    `changes` counts chunks against the version before: added, removed, unchanged; {} until it is published."""

    id: int
    document_id: int
    number: int
    state: str
    media_type: str
    content_hash: str
    pages: int | None
    chunk_count: int
    progress: Mapping[str, Any]
    error_code: str | None
    error_detail: str | None
    uploaded_by: str
    created_at: datetime
    published_at: datetime | None
    title: str
    changes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as the list shows it. `version_id`, `version`, `pages` and `chunk_count` are of the version that
    readers see, None and 0 before the first; state, progress and error are of the newest version."""

    id: int
    collection: str
    source: str
    title: str
    language: str
    audience: tuple[str, ...]
    inherits_audience: bool
    labels: tuple[str, ...]
    version_id: int | None
    version: int | None
    pages: int | None
    chunk_count: int
    state: str
    progress: Mapping[str, Any]
    error_code: str | None
    error_detail: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """`audience` is what its documents inherit; `profile` is structured, messages, faq, or None to guess."""

    name: str
    audience: tuple[str, ...]
    profile: str | None


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk for the preview. `length` is in search terms."""

    id: int
    ordinal: int
    heading_path: tuple[str, ...]
    page: int | None
    text: str
    length: int


@dataclass(frozen=True, slots=True)
class Upload:
    """What ingestion starts from."""

    version: VersionRow
    source: str
    profile: str | None
    data: bytes = field(repr=False)


VERSION_COLUMNS = tuple(versions.c[name] for name in VersionRow.__dataclass_fields__)


def listing() -> Select[Any]:
    """Each document with the version that readers see and the state of its newest."""
    current = versions.alias("current")
    newest = (
        select(versions)
        .where(versions.c.document_id == documents.c.id)
        .order_by((versions.c.state != "retired").desc(), versions.c.number.desc())
        .limit(1)
        .lateral("newest")
    )
    own = (
        "id",
        "collection",
        "source",
        "title",
        "language",
        "audience",
        "inherits_audience",
        "labels",
        "updated_at",
    )
    return (
        select(
            *(documents.c[name] for name in own),
            current.c.id.label("version_id"),
            current.c.number.label("version"),
            current.c.pages,
            func.coalesce(current.c.chunk_count, 0).label("chunk_count"),
            newest.c.state,
            newest.c.progress,
            newest.c.error_code,
            newest.c.error_detail,
        )
        .join_from(documents, newest, true())
        .outerjoin(current, current.c.id == documents.c.current_version_id)
        .order_by(documents.c.collection, documents.c.source)
    )


def as_document(row: RowMapping) -> DocumentRow:
    return DocumentRow(**{**row, "audience": tuple(row["audience"]), "labels": tuple(row["labels"])})


def as_collection(row: RowMapping) -> CollectionRow:
    return CollectionRow(row["name"], tuple(row["audience"]), row["profile"])
