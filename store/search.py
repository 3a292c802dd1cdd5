"""Query in, passages out: both legs in one statement, ranked by pure functions, the winners' text in a second."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import schema
from store.confidence import confidence, features
from store.database import transaction
from store.embedding import Embedder
from store.errors import EmbeddingFailed
from store.legs import Ground, Legs, Scope, prepare
from store.passages import Passage, SearchResult
from store.ranking import Fusion, Query, Ranked, Statistics, rank
from store.text import clean, language, query_lexemes, references

__all__ = ["SearchSettings", "Searcher"]

# Terms that are scored; those of a pasted page beyond the most telling ones only cost.
MOST_TERMS = 64
# Before the corpus' statistics say which those are.
MOST_LEXEMES = 500
REMEMBERED_QUERIES = 512

FUSION = Fusion()


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What an operator may tune.

    `deduplicate`, `constant` and `documents` as in `store.ranking.Fusion`. `embedding_seconds` is how long a
    question waits for its vector before keywords alone have to do.
    """

    deduplicate: str = FUSION.deduplicate
    constant: int = FUSION.constant
    documents: float = FUSION.documents
    vector_candidates: int = 50
    keyword_candidates: int = 100
    ef_search: int = 100
    embedding_seconds: float = 8.0

    @property
    def fusion(self) -> Fusion:
        return Fusion(self.deduplicate, self.constant, self.documents, self.vector_candidates)


class Searcher:
    """Satisfies `rag_graph.contracts.Retriever` over one database and one embedding model.

    Stateless but for the vectors of recent questions. Nothing of a passage leaves the database unless one of
    `principals` is in its document's audience.
    """

    def __init__(
        self, engine: AsyncEngine, embedder: Embedder, settings: SearchSettings | None = None
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._settings = settings or SearchSettings()
        self._vectors: OrderedDict[str, list[float]] = OrderedDict()

    async def search(
        self,
        query: str,
        principals: Collection[str],
        *,
        top_k: int = 10,
        exclude: Collection[int] = (),
        collections: Collection[str] = (),
    ) -> SearchResult:
        """The `top_k` best passages for `query` among those `principals` may read, best first.

        `exclude` are passage ids to leave out, `collections` (empty: all) where to look. A failing embedding
        model is no error: keywords answer, and `degraded` says so. Raises `DatabaseUnavailable`.
        """
        async with self._found(query, Scope(principals, collections, exclude)) as found:
            began = time.perf_counter()
            passages = await _winners(found.connection, found.order[:top_k], principals)
            found.timings["sql"] += 1e3 * (time.perf_counter() - began)
        calibration = None if found.degraded else found.ground.calibration
        sure, calibrated = confidence(found.features, calibration)
        return SearchResult(
            passages=tuple(passages),
            confidence=sure if passages else 0.0,
            calibrated=calibrated,
            degraded=found.degraded,
            timings=found.timings,
            corpus_version=found.ground.version,
        )

    async def features(
        self, query: str, principals: Collection[str], *, exclude: Collection[int] = ()
    ) -> Mapping[str, float]:
        """What confidence is computed from, for fitting a calibration; empty when nothing was found."""
        async with self._found(query, Scope(principals, exclude=exclude)) as found:
            return found.features

    async def passages(self, ids: Sequence[int], principals: Collection[str]) -> list[Passage]:
        """Those of `ids` that are still current and readable, in the order asked; the others are left out."""
        async with transaction(self._engine) as connection:
            found = await _passages(connection, principals, _chunks.c.id.in_(ids))
        by_id = {passage.id: passage for passage in found}
        return [by_id[identity] for identity in dict.fromkeys(ids) if identity in by_id]

    async def section(self, passage_id: int, principals: Collection[str]) -> list[Passage]:
        """All chunks of the passage's version under the same heading, in document order."""
        here = _chunks.alias()
        same = select(here.c.id).where(
            here.c.id == passage_id,
            here.c.version_id == _chunks.c.version_id,
            here.c.heading_path == _chunks.c.heading_path,
        )
        async with transaction(self._engine) as connection:
            return await _passages(connection, principals, same.exists())

    async def titles(self, principals: Collection[str]) -> list[str]:
        """Titles of the readable documents, each once, in alphabetical order."""
        query = (
            select(_documents.c.title)
            .where(_documents.c.current_version_id.is_not(None), _readable(principals))
            .group_by(_documents.c.title)
            .order_by(_documents.c.title)
        )
        async with transaction(self._engine) as connection:
            return list((await connection.execute(query)).scalars())

    # --- the steps of a search -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _found(self, query: str, scope: Scope) -> AsyncIterator["_Found"]:
        """Both legs, ranked; the transaction they were read in stays open for the block."""
        query = clean(query)
        lexemes, spoken = query_lexemes(query)[:MOST_LEXEMES], language(query)
        scope = replace(scope, language=spoken)
        began = time.perf_counter()
        # No connection is held while the model computes.
        vector = await self._vector(query)
        embedded = time.perf_counter()
        async with transaction(self._engine) as connection:
            ground = await prepare(connection, scope, lexemes, self._settings.ef_search)
            terms = _telling(lexemes, ground.statistics)
            degraded = () if not query.strip() or not ground.statistics.chunks else ("embedding",)
            legs = Legs(scope)
            if vector is not None and ground.holds(self._embedder):
                legs.by_vector(ground, vector, self._settings.vector_candidates)
                degraded = ()
            legs.by_keywords(terms, ground.statistics, self._settings.keyword_candidates)
            candidates = await legs.candidates(connection, terms)
            fetched = time.perf_counter()
            asked = Query(terms, spoken, references(query))
            order, evidence = rank(candidates, asked, ground.statistics, self._settings.fusion)
            ranked = time.perf_counter()
            yield _Found(
                connection=connection,
                ground=ground,
                degraded=degraded,
                order=order,
                features=features(evidence, asked, ground.statistics),
                timings={
                    "embed": 1e3 * (embedded - began),
                    "sql": 1e3 * (fetched - embedded),
                    "rank": 1e3 * (ranked - fetched),
                },
            )

    async def _vector(self, query: str) -> list[float] | None:
        """The question's vector, or None where the model does not answer."""
        if not query.strip():
            return None
        if query in self._vectors:
            self._vectors.move_to_end(query)
            return self._vectors[query]
        try:
            async with asyncio.timeout(self._settings.embedding_seconds):
                vector = await self._embedder.query(query)
        except (EmbeddingFailed, TimeoutError):
            return None
        self._vectors[query] = vector
        if len(self._vectors) > REMEMBERED_QUERIES:
            self._vectors.popitem(last=False)
        return vector


@dataclass(frozen=True, slots=True)
class _Found:
    """One search before its texts are fetched."""

    connection: AsyncConnection
    ground: Ground
    degraded: tuple[str, ...]
    order: Sequence[Ranked]
    features: Mapping[str, float]
    timings: dict[str, float]


def _telling(lexemes: Sequence[str], statistics: Statistics) -> list[str]:
    """The lexemes to score by, in their order: all of a question's, the rarest of a pasted page's."""
    if len(lexemes) <= MOST_TERMS:
        return list(lexemes)
    known = [lexeme for lexeme in lexemes if statistics.frequencies.get(lexeme)] or lexemes
    rarest = set(sorted(known, key=lambda lexeme: (-statistics.idf(lexeme), lexeme))[:MOST_TERMS])
    return [lexeme for lexeme in lexemes if lexeme in rarest]


# --- passages ----------------------------------------------------------------------------------------------------

_documents, _versions, _chunks = schema.documents, schema.versions, schema.chunks


def _readable(principals: Collection[str]) -> ColumnElement[bool]:
    audience: ColumnElement[Sequence[str]] = _documents.c.audience
    return audience.bool_op("&&")([clean(principal) for principal in principals])


async def _winners(
    connection: AsyncConnection, order: Sequence[Ranked], principals: Collection[str]
) -> list[Passage]:
    found = {
        passage.id: passage
        for passage in await _passages(connection, principals, _chunks.c.id.in_([r.id for r in order]))
    }
    return [
        replace(
            found[ranked.id],
            score=ranked.score,
            vector_rank=ranked.vector_rank,
            keyword_rank=ranked.keyword_rank,
            similarity=ranked.similarity,
            bm25=ranked.bm25,
        )
        for ranked in order
        if ranked.id in found
    ]


async def _passages(
    connection: AsyncConnection, principals: Collection[str], condition: ColumnElement[bool]
) -> list[Passage]:
    """Visible, readable chunks as passages, in document order."""
    query = (
        select(
            *(_chunks.c[name] for name in ("id", "version_id", "ordinal", "page", "text", "content_hash")),
            *(_documents.c[name] for name in ("collection", "title", "source", "language", "updated_at")),
            _chunks.c.heading_path,
            _documents.c.audience,
            _documents.c.labels,
            _documents.c.id.label("document_id"),
            _versions.c.number.label("version"),
        )
        .join_from(_chunks, _documents, _documents.c.current_version_id == _chunks.c.version_id)
        .join(_versions, _versions.c.id == _chunks.c.version_id)
        .where(condition, _readable(principals))
        .order_by(_chunks.c.version_id, _chunks.c.ordinal)
    )
    return [_passage(row) for row in (await connection.execute(query)).mappings()]


def _passage(row: RowMapping) -> Passage:
    return Passage(
        **{
            **row,
            "heading_path": tuple(row["heading_path"]),
            "audience": frozenset(row["audience"]),
            "labels": frozenset(row["labels"]),
        }
    )
