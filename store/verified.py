"""Signed-off answers that serve the same question again, while everything they cite is what readers see."""

import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import schema, spaces
from store.database import single, transaction
from store.embedding import Embedder
from store.errors import NotFound
from store.likeness import likeness
from store.nearest import COLUMNS, PROPOSED, READABLE, Nearest
from store.outdating import audiences_changed
from store.publication import literal
from store.queue import Queue
from store.search import Searcher
from store.spaces import LANGUAGES
from store.text import clean, language

__all__ = ["ChunkNow", "NewVerified", "Source", "Verified", "VerifiedRow"]

_documents, _chunks = schema.documents, schema.chunks
_verified, _sources, _uses = schema.verified, schema.verified_sources, schema.verified_uses

BATCH = 32

# S608: what is put together are constants of this file.
BY_WORDING = text(f"""
SELECT v.id FROM verified AS v WHERE v.wording = :wording AND {READABLE} ORDER BY v.signed_at DESC LIMIT {PROPOSED}
""")  # noqa: S608
SOURCES_NOW = text("""
SELECT s.document_id, s.content_hash, c.id, c.heading_path, c.text, d.title
  FROM unnest(CAST(:documents AS bigint[]), CAST(:hashes AS text[])) AS s(document_id, content_hash)
  JOIN documents AS d ON d.id = s.document_id
  JOIN LATERAL (SELECT * FROM chunks WHERE version_id = d.current_version_id AND content_hash = s.content_hash
                 ORDER BY ordinal LIMIT 1) AS c ON true
 FOR SHARE OF d
""")
UNEMBEDDED = text("""
SELECT id, question FROM verified
 WHERE state <> 'retired' AND id > :after AND (space_id IS DISTINCT FROM :space OR vector IS NULL)
 ORDER BY id LIMIT :batch
""")
STANDING = text("""
SELECT s.content_hash, c.id FROM verified AS v
  JOIN verified_sources AS s ON s.verified_id = v.id
  JOIN documents AS d ON d.id = s.document_id AND d.audience && CAST(:principals AS text[])
  JOIN LATERAL (SELECT id FROM chunks WHERE version_id = d.current_version_id AND content_hash = s.content_hash
                 ORDER BY ordinal LIMIT 1) AS c ON true
 WHERE v.id = :id AND v.state = 'active' AND v.audience && CAST(:principals AS text[])
""")


@dataclass(frozen=True, slots=True)
class NewVerified:
    """`answer` is `Draft.to_json()`; `sources` the (document id, content hash) of everything that its draft cited, also
    what an edited text no longer does; `signed_for` their audience."""

    question_id: str | None
    question: str
    language: str
    wording: str
    answer: Mapping[str, Any]
    sources: Collection[tuple[int, str]]
    signed_for: Sequence[str]
    signed_by: str
    how: str


@dataclass(frozen=True, slots=True)
class VerifiedRow:
    """`state`: active (in service), review (its source changed or it is old; a person looks at it), retired. `sure` is
    the calibrated likeness to the question that was looked up, None without one."""

    id: int
    question_id: str | None
    question: str
    language: str
    answer: Mapping[str, Any]
    signed_for: tuple[str, ...]
    audience: tuple[str, ...]
    state: str
    reason: str
    signed_by: str
    how: str
    signed_at: datetime
    ended_by: str
    ended_at: datetime | None
    sure: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A chunk as it was signed."""

    document_id: int
    content_hash: str
    title: str
    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ChunkNow:
    """A chunk as readers see it."""

    id: int
    heading_path: tuple[str, ...]
    text: str
    content_hash: str


class Verified:
    """The shelf of signed answers. Every look-up filters by who reads inside the statement."""

    def __init__(self, engine: AsyncEngine, queue: Queue, embedder: Embedder, searcher: Searcher) -> None:
        self._engine = engine
        self._queue = queue
        self._embedder = embedder
        self._searcher = searcher
        self._nearest = Nearest(engine, embedder)

    # --- signing

    async def keep(self, new: NewVerified) -> int | None:
        """Put a signed answer into service; None where a source has changed since, or nobody may read all of them.

        One question has one: signed again, the first row's id comes back. Its vector is made by a job of its own.
        """
        async with transaction(self._engine) as connection:
            found = await _standing(connection, new.sources)
            if found is None or not new.signed_for:
                return None
            added = await connection.execute(
                insert(_verified)
                .values(
                    question_id=new.question_id,
                    question=clean(new.question),
                    language=new.language,
                    wording=new.wording,
                    answer=dict(new.answer),
                    signed_for=list(new.signed_for),
                    audience=list(new.signed_for),
                    signed_by=clean(new.signed_by),
                    how=new.how,
                )
                .on_conflict_do_nothing(index_elements=["question_id"])
                .returning(_verified.c.id)
            )
            verified_id: int | None = added.scalar()
            if verified_id is None:
                query = select(_verified.c.id).where(_verified.c.question_id == new.question_id)
                return await connection.scalar(query)
            await _write_sources(connection, verified_id, found)
            await self._queue.defer("embed_verified", {}, lock="embed_verified", connection=connection)
            return verified_id

    async def renew(
        self,
        verified_id: int,
        answer: Mapping[str, Any],
        sources: Collection[tuple[int, str]],
        by: str,
        how: str,
    ) -> bool:
        """Put a reviewed answer back into service, on its sources of now; False where one has changed again or is gone,
        or nobody waits for it."""
        async with transaction(self._engine) as connection:
            found = await _standing(connection, sources)
            if not found:
                return False
            changed = await connection.execute(
                update(_verified)
                .where(_verified.c.id == verified_id, _verified.c.state == "review")
                .values(
                    state="active", reason="", answer=dict(answer), signed_by=clean(by), how=how,
                    signed_at=func.now(), ended_by="", ended_at=None,
                )
            )  # fmt: skip
            if not changed.rowcount:
                return False
            await connection.execute(delete(_sources).where(_sources.c.verified_id == verified_id))
            await _write_sources(connection, verified_id, found)
            return True

    async def retire(self, verified_id: int, by: str, reason: str) -> bool:
        """Take an answer out of service for good; False where it was already."""
        async with transaction(self._engine) as connection:
            changed = await connection.execute(
                update(_verified)
                .where(_verified.c.id == verified_id, _verified.c.state != "retired")
                .values(state="retired", reason=clean(reason), ended_by=clean(by), ended_at=func.now())
            )
            return bool(changed.rowcount)

    async def outlived(self, days: float) -> int:
        """Bring what was signed longer ago than that back to a reviewer; returns how many."""
        if not days:
            return 0
        async with transaction(self._engine) as connection:
            gone = await connection.execute(
                update(_verified)
                .where(
                    _verified.c.state == "active", _verified.c.signed_at < func.now() - timedelta(days=days)
                )
                .values(state="review", reason="old", ended_at=func.now())
                .returning(_verified.c.id)
            )
            ids = list(gone.scalars())
            for verified_id in ids:
                await self._queue.defer(
                    "reverify",
                    {"verified_id": verified_id},
                    lock=f"verified:{verified_id}",
                    connection=connection,
                )
            return len(ids)

    # --- looking up

    async def near(
        self,
        question: str,
        wording: str,
        principals: Collection[str],
        since: datetime,
        *,
        vector: Sequence[float] | None = None,
    ) -> builtins.list[VerifiedRow]:
        """What is in service for these readers and comes near `question`, nearest first, signed after `since`.

        The same wording is found without a model; then that alone comes back. Nothing leaves the database that
        `principals` may not read. `vector` is the question's, where it is known already.
        """
        parameters = {"principals": [clean(p) for p in principals], "since": since, "wording": wording}
        async with single(self._engine) as connection:
            ids = (await connection.execute(BY_WORDING, parameters)).scalars().all()
            if ids:
                same = await _rows(connection, dict.fromkeys(ids, 1.0))
                return [replace(row, sure=1.0) for row in same]
        vector = vector or await self._searcher.vector(question)
        if vector is None:
            return []
        chinese, model = language(question) == "zh", self._embedder.model
        sure = [
            replace(row, sure=likeness(cosine, model, foreign=(row.language == "zh") != chinese))
            for row, cosine in [
                (_row(found), found["similarity"]) for found in await self._nearest.found(vector, parameters)
            ]
        ]
        return sorted(sure, key=lambda row: -(row.sure or 0.0))

    async def standing(self, verified_id: int, principals: Collection[str]) -> Mapping[str, int]:
        """Content hash → id of the chunk that readers see now, for those of its sources that `principals` may read;
        empty where it is not in service for them."""
        async with single(self._engine) as connection:
            found = await connection.execute(
                STANDING, {"id": verified_id, "principals": [clean(p) for p in principals]}
            )
            return {row.content_hash: row.id for row in found}

    async def used(self, verified_id: int, question_id: str) -> None:
        """Note that a question was given this answer."""
        async with transaction(self._engine) as connection:
            row = insert(_uses).values(question_id=question_id, verified_id=verified_id)
            await connection.execute(row.on_conflict_do_nothing())

    async def uses(self, verified_id: int, since: datetime) -> builtins.list[str]:
        """Ids of the questions that were given it since then, and the one it was signed for."""
        async with single(self._engine) as connection:
            used = await connection.execute(
                select(_uses.c.question_id)
                .where(_uses.c.verified_id == verified_id, _uses.c.used_at > since)
                .order_by(_uses.c.used_at)
            )
            own = await connection.scalar(
                select(_verified.c.question_id).where(_verified.c.id == verified_id)
            )
            return list(dict.fromkeys([*([own] if own else []), *used.scalars()]))

    # --- the list

    async def get(self, verified_id: int) -> VerifiedRow:
        """Raises `NotFound`."""
        found = await self._list(select(*_columns()).where(_verified.c.id == verified_id))
        if not found:
            raise NotFound(f"There is no verified answer {verified_id}.")
        return found[0]

    async def of_question(self, question_id: str) -> VerifiedRow | None:
        """What was signed for that question."""
        found = await self._list(select(*_columns()).where(_verified.c.question_id == question_id))
        return found[0] if found else None

    async def list(self, state: str | None = None, *, limit: int = 200) -> builtins.list[VerifiedRow]:
        """Those in `state` or all that are not retired, last signed first."""
        query = select(*_columns()).order_by(_verified.c.signed_at.desc(), _verified.c.id.desc()).limit(limit)
        wanted = _verified.c.state != "retired" if state is None else _verified.c.state == state
        return await self._list(query.where(wanted))

    async def counts(self) -> Mapping[int, int]:
        """Verified answer → how many questions were given it."""
        async with single(self._engine) as connection:
            query = select(_uses.c.verified_id, func.count()).group_by(_uses.c.verified_id)
            return {row[0]: row[1] for row in await connection.execute(query)}

    async def now(self, document_id: int) -> builtins.list[ChunkNow]:
        """What a document's current version says, in order; empty where it is gone."""
        async with single(self._engine) as connection:
            found = await connection.execute(
                select(_chunks.c.id, _chunks.c.heading_path, _chunks.c.text, _chunks.c.content_hash)
                .join_from(_chunks, _documents, _documents.c.current_version_id == _chunks.c.version_id)
                .where(_documents.c.id == document_id)
                .order_by(_chunks.c.ordinal)
            )
            return [ChunkNow(row.id, tuple(row.heading_path), row.text, row.content_hash) for row in found]

    async def sources(self, verified_id: int) -> builtins.list[Source]:
        """What it rests on, as it was signed."""
        async with single(self._engine) as connection:
            found = await connection.execute(
                select(_sources).where(_sources.c.verified_id == verified_id).order_by(_sources.c.document_id)
            )
            return [
                Source(row.document_id, row.content_hash, row.title, tuple(row.heading_path), row.text)
                for row in found
            ]

    # --- vectors

    async def embed(self) -> int:
        """Make the vectors that are missing in the space that search reads; returns how many. Raises
        `EmbeddingFailed`."""
        async with transaction(self._engine) as connection:
            space = await spaces.active(connection)
            if space is None or (space.model, space.dimension) != (
                self._embedder.model,
                self._embedder.dimension,
            ):
                return 0
            await create_index(connection, space.id, space.dimension)
        done = after = 0
        while True:
            async with single(self._engine) as connection:
                parameters = {"after": after, "space": space.id, "batch": BATCH}
                missing = (await connection.execute(UNEMBEDDED, parameters)).all()
            if not missing:
                return done
            for row in missing:
                vector = await self._embedder.query(row.question)
                async with transaction(self._engine) as connection:
                    await connection.execute(
                        update(_verified)
                        .where(_verified.c.id == row.id)
                        .values(space_id=space.id, vector=literal(vector))
                    )
            done, after = done + len(missing), missing[-1].id

    async def _list(self, query: Select[Any]) -> builtins.list[VerifiedRow]:
        async with single(self._engine) as connection:
            return [_row(row) for row in (await connection.execute(query)).mappings()]


async def create_index(connection: AsyncConnection, space_id: int, dimension: int) -> None:
    """The HNSW indexes over one space's vectors, one a language as in `store.spaces`; harmless where they are."""
    space_id, dimension = int(space_id), int(dimension)
    for name, condition in LANGUAGES.items():
        index = f"ix_verified_space_{space_id}_{name}"
        # IF NOT EXISTS would lock the table before it looks.
        if await connection.scalar(text("SELECT to_regclass(:index)"), {"index": index}) is not None:
            continue
        await connection.execute(
            text(
                f"CREATE INDEX IF NOT EXISTS {index} ON verified "
                f"USING hnsw ((vector::halfvec({dimension})) halfvec_cosine_ops) "
                f"WHERE space_id = {space_id} AND state = 'active' AND {condition}"
            )
        )


async def _rows(connection: AsyncConnection, found: Mapping[int, float]) -> list[VerifiedRow]:
    if not found:
        return []
    rows = await connection.execute(select(*_columns()).where(_verified.c.id.in_(found)))
    return sorted((_row(row) for row in rows.mappings()), key=lambda row: (-found[row.id], -row.id))


async def _standing(
    connection: AsyncConnection, sources: Collection[tuple[int, str]]
) -> Sequence[Any] | None:
    """The chunks of now, their documents locked against a new version; None where one is gone."""
    wanted = sorted(set(sources))
    if not wanted:
        return None
    documents, hashes = zip(*wanted, strict=True)
    found = (
        await connection.execute(SOURCES_NOW, {"documents": list(documents), "hashes": list(hashes)})
    ).all()
    return found if len(found) == len(wanted) else None


async def _write_sources(connection: AsyncConnection, verified_id: int, found: Sequence[Any]) -> None:
    await connection.execute(
        insert(_sources),
        [
            {
                "verified_id": verified_id,
                "document_id": row.document_id,
                "content_hash": row.content_hash,
                "title": row.title,
                "heading_path": list(row.heading_path),
                "text": row.text,
            }
            for row in found
        ],
    )
    await audiences_changed(connection, [row.document_id for row in found], verified_id)


def _columns() -> list[Any]:
    return [_verified.c[name] for name in COLUMNS]


def _row(row: Mapping[Any, Any]) -> VerifiedRow:
    values = {name: row[name] for name in COLUMNS}
    return VerifiedRow(
        **{**values, "signed_for": tuple(row["signed_for"]), "audience": tuple(row["audience"])}
    )
