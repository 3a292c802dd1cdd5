"""What a run's ids stand for, where what should have answered is, and which documents never answer anything."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from store.catalogue import DocumentRow, as_document, listing
from store.database import single
from store.schema import chunks, documents, versions
from store.text import clean

__all__ = ["Place", "Traced", "Tracing", "Uncited"]

# Blanks, marks of Markdown and case say nothing: words are compared without them, as people copy them. It reads every
# passage: 2.2 to 4.5 s for 100,000 on two busy cores; translate() in place of the pattern took 11.4 s.
MARKS = "[[:space:]*_`|#>]+"
_BARE = re.compile(r"[\s*_`|#>]+")
# Passages with certain words, of the version that readers see and of the one before it: a run may have seen that one.
WITH_WORDS = """
SELECT chunks.id, versions.document_id, versions.published_at,
       chunks.version_id = documents.current_version_id AS current
  FROM chunks
  JOIN versions ON versions.id = chunks.version_id
  JOIN documents ON documents.id = versions.document_id
 WHERE (CAST(:documents AS bigint[]) IS NULL OR documents.id = ANY (CAST(:documents AS bigint[])))
   AND strpos(regexp_replace(lower(array_to_string(chunks.heading_path, ' ') || ' ' || chunks.text), :marks, '', 'g'),
              :words) > 0
"""
SINCE = """
SELECT document_id, min(published_at) AS first,
       min(published_at) FILTER (WHERE EXISTS (SELECT FROM chunks WHERE chunks.version_id = versions.id)) AS kept
  FROM versions WHERE document_id = ANY (:documents) GROUP BY document_id
"""
# A document counts as cited once an answer with a passage of it reached its readers: of a passage that was found the
# run itself knows the document, of a signed answer used again its chunk. A resumed stretch that searched nothing found
# nothing.
UNCITED = """
WITH found AS (
  SELECT place.document_id, count(*) AS retrieved, bool_or(place.cited AND runs.outcome = 'answered') AS cited
    FROM runs
   CROSS JOIN LATERAL (
     SELECT (score ->> 'document')::bigint AS document_id, bool_or((score ->> 'id')::bigint = ANY (runs.cited)) AS cited
       FROM jsonb_array_elements(runs.scores) AS score GROUP BY 1) AS place
   WHERE NOT jsonb_exists(runs.timings, 'resume') OR jsonb_exists(runs.timings, 'retrieve')
   GROUP BY place.document_id),
cited AS (
  SELECT DISTINCT versions.document_id
    FROM runs
   CROSS JOIN LATERAL unnest(runs.cited) AS passage (id)
    JOIN chunks ON chunks.id = passage.id
    JOIN versions ON versions.id = chunks.version_id
   WHERE runs.outcome = 'answered')
SELECT documents.id, documents.title, documents.collection, documents.created_at AS since,
       coalesce(found.retrieved, 0) AS retrieved
  FROM documents LEFT JOIN found ON found.document_id = documents.id
 WHERE documents.current_version_id IS NOT NULL AND documents.created_at < :before
   AND NOT coalesce(found.cited, false) AND documents.id NOT IN (SELECT document_id FROM cited)
 ORDER BY retrieved DESC, documents.created_at, documents.id
 LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class Traced:
    """A passage by its id, whoever may read it. `current`: of the version that readers see."""

    id: int
    document_id: int
    title: str
    collection: str
    heading_path: tuple[str, ...]
    page: int | None
    version: int
    current: bool
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A document that was named, or that holds the words looked for. `passages` are the ids of those passages, also of
    the version before; `there`: the version that readers see has one. `since` is when the first of them came before
    readers, None where none has."""

    document: DocumentRow
    passages: frozenset[int]
    there: bool
    since: datetime | None


@dataclass(frozen=True, slots=True)
class _Row:
    """A passage that would do, and when its version came before readers."""

    id: int
    document_id: int
    published_at: datetime | None
    current: bool


@dataclass(frozen=True, slots=True)
class Uncited:
    """A document that readers see and no answer has cited; `retrieved` searches found it."""

    id: int
    title: str
    collection: str
    since: datetime
    retrieved: int


class Tracing:
    """For those who run Signoff: none of it asks for an audience."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def passages(self, ids: Sequence[int]) -> dict[int, Traced]:
        """Those of `ids` that are kept, by id."""
        query = (
            select(
                chunks.c.id,
                chunks.c.heading_path,
                chunks.c.page,
                chunks.c.text,
                documents.c.id.label("document_id"),
                documents.c.title,
                documents.c.collection,
                versions.c.number.label("version"),
                (documents.c.current_version_id == versions.c.id).label("current"),
            )
            .join_from(chunks, versions, versions.c.id == chunks.c.version_id)
            .join(documents, documents.c.id == versions.c.document_id)
            .where(chunks.c.id.in_(list(ids)))
        )
        async with single(self._engine) as connection:
            rows = (await connection.execute(query)).mappings()
            return {row["id"]: Traced(**{**row, "heading_path": tuple(row["heading_path"])}) for row in rows}

    async def titles(self, document_ids: Sequence[int]) -> dict[int, str]:
        """What those documents are called that are still there."""
        query = select(documents.c.id, documents.c.title).where(documents.c.id.in_(list(document_ids)))
        async with single(self._engine) as connection:
            return {row.id: row.title for row in await connection.execute(query)}

    async def audiences(self) -> tuple[str, ...]:
        """Every principal that any document is for: a search as all of them finds whatever is there."""
        query = select(func.unnest(documents.c.audience).label("principal")).distinct()
        async with single(self._engine) as connection:
            return tuple(sorted((await connection.execute(query)).scalars()))

    async def places(self, name: str, words: str) -> list[Place]:
        """Documents whose title or source has `name` in it, with their passages that hold `words`; without words all
        of their passages, without a name whatever document holds the words."""
        name, words = clean(name).strip().lower(), _BARE.sub("", clean(words).lower())
        if not name and not words:
            return []
        named = await self._named(name) if name else None
        if words:
            rows = await self._with_words(words, None if named is None else [row.id for row in named])
        else:
            rows = await self._rows(documents.c.id.in_([row.id for row in named or ()]))
        if named is None:
            named = await self._by_id(sorted({row.document_id for row in rows}))
        since = await self._since([document.id for document in named])
        return [_place(document, rows, since.get(document.id)) for document in named]

    async def place(self, passage_id: int) -> Place | None:
        """A passage, with those that say the same in its document's other version; None where it is kept no more."""
        query = (
            select(versions.c.document_id, chunks.c.content_hash)
            .join(versions, versions.c.id == chunks.c.version_id)
            .where(chunks.c.id == passage_id)
        )
        async with single(self._engine) as connection:
            found = (await connection.execute(query)).one_or_none()
        if found is None:
            return None
        same = and_(documents.c.id == found.document_id, chunks.c.content_hash == found.content_hash)
        (document,) = await self._by_id([found.document_id])
        since = await self._since([document.id])
        return _place(document, await self._rows(same), since.get(document.id))

    async def uncited(self, before: datetime, most: int = 500) -> list[Uncited]:
        """Documents that came in before that moment and no answer ever cited; those found most often first."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(UNCITED), {"before": before, "most": most})
            return [Uncited(**row) for row in found.mappings()]

    # --- steps of `places`

    async def _named(self, name: str) -> list[DocumentRow]:
        called = or_(
            func.strpos(func.lower(documents.c.title), name) > 0,
            func.strpos(func.lower(documents.c.source), name) > 0,
        )
        async with single(self._engine) as connection:
            found = await connection.execute(listing().where(called))
            return [as_document(row) for row in found.mappings()]

    async def _by_id(self, ids: Sequence[int]) -> list[DocumentRow]:
        async with single(self._engine) as connection:
            found = await connection.execute(listing().where(documents.c.id.in_(list(ids))))
            return [as_document(row) for row in found.mappings()]

    async def _with_words(self, words: str, within: Sequence[int] | None) -> list[_Row]:
        values = {"words": words, "marks": MARKS, "documents": None if within is None else list(within)}
        async with single(self._engine) as connection:
            return [_Row(**row) for row in (await connection.execute(text(WITH_WORDS), values)).mappings()]

    async def _rows(self, which: ColumnElement[bool]) -> list[_Row]:
        query = (
            select(
                chunks.c.id,
                versions.c.document_id,
                versions.c.published_at,
                (documents.c.current_version_id == versions.c.id).label("current"),
            )
            .join(versions, versions.c.id == chunks.c.version_id)
            .join(documents, documents.c.id == versions.c.document_id)
            .where(which)
        )
        async with single(self._engine) as connection:
            return [_Row(**row) for row in (await connection.execute(query)).mappings()]

    async def _since(self, document_ids: Sequence[int]) -> dict[int, tuple[datetime | None, datetime | None]]:
        """By document: when its first version came before readers, and the first of those whose passages are kept."""
        async with single(self._engine) as connection:
            found = await connection.execute(text(SINCE), {"documents": list(document_ids)})
            return {row.document_id: (row.first, row.kept) for row in found}


def _place(
    document: DocumentRow, rows: Sequence[_Row], since: tuple[datetime | None, datetime | None] | None
) -> Place:
    own = [row for row in rows if row.document_id == document.id]
    earliest = min((row.published_at for row in own if row.published_at is not None), default=None)
    first, kept = since or (None, None)
    # Whether it stood in a version that is not kept any more nobody knows: then it was there from the beginning.
    at = first if earliest is not None and earliest == kept else earliest
    return Place(document, frozenset(row.id for row in own), any(row.current for row in own), at)
