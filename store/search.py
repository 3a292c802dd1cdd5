"""Query in, passages out: both legs in one statement, ranked by pure functions, the winners' text in a second."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import ranking, schema
from store.chunks import embedding_text
from store.confidence import READ, confidence, features
from store.database import transaction
from store.dictionary import Dictionary
from store.embedding import Embedder
from store.errors import EmbeddingFailed, RerankFailed
from store.joining import joined
from store.legs import Ground, Legs, Reach, Scope, measure, prepare
from store.passages import Passage, SearchResult
from store.ranking import Evidence, Fusion, Query, Ranked, Statistics, rank
from store.recent import Recent
from store.reranking import Reranker
from store.spaces import EF_CONSTRUCTION
from store.text import clean, language
from store.words import query_lexemes, references

__all__ = ["SearchSettings", "Searcher", "configuration"]

# Terms that are scored; those of a pasted page beyond the most telling ones only cost.
MOST_TERMS = 64
# Before the corpus' statistics say which those are.
MOST_LEXEMES = 500
REMEMBERED_QUERIES = 512
REMEMBERED_READERS = 2_000

FUSION = Fusion()


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What an operator may tune.

    `deduplicate`, `constant` and `documents` as in `store.ranking.Fusion`. Where readers have at most `exact_chunks` in
    a language, each is compared with the question: of 10,000 that takes 8.4 ms of processor and misses nothing; the
    index under a filter of 10 % took 12.4 ms and missed one in seventy of the nearest ten.

    `ef_search` (`bench.scale`, almost all readable): 200 found .991 of the nearest ten among 100,000 and .974 of those
    in the other language, 320 .996 and .984 for 2 ms more; among 300,000 320 takes 50 ms, 500 would take 59.

    `embedding_seconds` is how long a question waits for its vector before keywords alone have to do, `rerank_seconds`
    for a reranker's judgement of the first `rerank_candidates` before the search's own order stands. `remembered`
    results are kept in memory.
    """

    deduplicate: str = FUSION.deduplicate
    constant: int = FUSION.constant
    documents: float = FUSION.documents
    vector_candidates: int = 50
    keyword_candidates: int = 100
    exact_chunks: int = 10_000
    ef_search: int = 320
    embedding_seconds: float = 8.0
    rerank_candidates: int = 20
    rerank_seconds: float = 3.0
    remembered: int = 256

    @property
    def fusion(self) -> Fusion:
        return Fusion(self.deduplicate, self.constant, self.documents, self.vector_candidates)


def configuration(settings: SearchSettings) -> dict[str, Any]:
    """Everything that what is found depends on, for the hash beside a measurement: the settings, and the constants of
    ranking and of the vector indexes."""
    constants = ("K1", "B", "FREQUENT", "NUMEROUS", "ROWS", "FOREIGN_COVERAGE", "FEW_HOLDERS")
    return (
        asdict(settings)
        | {name.lower(): getattr(ranking, name) for name in constants}
        | {"ef_construction": EF_CONSTRUCTION}
    )


class Searcher:
    """Satisfies `rag_graph.contracts.Retriever` over one database and one embedding model.

    Stateless but for what recent questions brought, which is kept by the corpus' version and the readers. Nothing of
    a passage leaves the database unless one of `principals` is in its document's audience.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        embedder: Embedder,
        settings: SearchSettings | None = None,
        reranker: Reranker | None = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        self._engine = engine
        self._embedder = embedder
        self._reranker = reranker
        self._dictionary = dictionary or Dictionary()
        self._settings = settings or SearchSettings()
        self._vectors: Recent[str, list[float]] = Recent(REMEMBERED_QUERIES)
        self._reaches: Recent[Hashable, Reach] = Recent(REMEMBERED_READERS)
        self._results: Recent[Hashable, SearchResult] = Recent(self._settings.remembered)

    @property
    def reranker(self) -> Reranker | None:
        """What puts the first passages in order, if anything does."""
        return self._reranker

    async def search(
        self,
        query: str,
        principals: Collection[str],
        *,
        top_k: int = 10,
        exclude: Collection[int] = (),
        collections: Collection[str] = (),
        joined_up_to: int = 0,
    ) -> SearchResult:
        """The `top_k` best passages for `query` among those `principals` may read, best first.

        With `joined_up_to` characters, neighbouring chunks among three times as many are one passage and take one
        place (`store.joining`).

        `exclude` are passage ids to leave out, `collections` (empty: all) where to look. A failing embedding model or
        reranker is no error: `degraded` says so. Raises `DatabaseUnavailable`.
        """
        scope = Scope(principals, collections, exclude)
        depth = 3 * top_k if joined_up_to else top_k
        async with self._asked(query, scope) as asked:
            key = (top_k, joined_up_to, *asked.key())
            kept = self._results.get(key)
            if kept is not None and not asked.degraded:
                return replace(kept, timings=asked.timings)
            found = await self._found(asked)
            began = time.perf_counter()
            wanted = max(depth, self._settings.rerank_candidates) if self._reranker else depth
            passages = await _winners(asked.connection, found.order[:wanted], principals)
            asked.timings["sql"] += 1e3 * (time.perf_counter() - began)
        # No connection is held while a model reads.
        result = await self._judged(query, SearchResult(
            passages=tuple(passages),
            confidence=0.0,
            calibrated=False,
            degraded=asked.degraded,
            timings=asked.timings,
            corpus_version=asked.ground.version,
        ))  # fmt: skip
        calibration = None if asked.degraded else asked.ground.calibration
        sure, calibrated = confidence(_features(asked, found, passages), calibration)
        chosen = joined(result.passages, joined_up_to) if joined_up_to else result.passages
        result = replace(
            result,
            passages=tuple(chosen[:top_k]),
            confidence=sure if passages else 0.0,
            calibrated=calibrated,
        )
        # What was missing may be there the next time.
        return result if result.degraded else self._results.put(key, result)

    async def features(
        self, query: str, principals: Collection[str], *, exclude: Collection[int] = ()
    ) -> Mapping[str, float]:
        """What confidence is computed from, for fitting a calibration; empty when nothing was found."""
        async with self._asked(query, Scope(principals, exclude=exclude)) as asked:
            found = await self._found(asked)
            return _features(asked, found, await _winners(asked.connection, found.order[:READ], principals))

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

    async def neighbours(self, passage_id: int, principals: Collection[str]) -> list[Passage]:
        """The chunks just before and after the passage in its version, in document order, whatever their heading."""
        here = _chunks.alias()
        beside = select(here.c.id).where(
            here.c.id == passage_id,
            here.c.version_id == _chunks.c.version_id,
            func.abs(here.c.ordinal - _chunks.c.ordinal) == 1,
        )
        async with transaction(self._engine) as connection:
            return await _passages(connection, principals, beside.exists())

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
    async def _asked(self, query: str, scope: Scope) -> AsyncIterator["_Asked"]:
        """The question, and what its legs are made from; the transaction stays open for the block."""
        query = clean(query)
        lexemes, spoken = query_lexemes(query, self._dictionary)[:MOST_LEXEMES], language(query)
        scope = replace(scope, language=spoken)
        began = time.perf_counter()
        # No connection is held while the model computes.
        vector = await self._vector(query)
        embedded = time.perf_counter()
        async with transaction(self._engine) as connection:
            ground = await prepare(connection, lexemes, self._settings.ef_search)
            compared = vector if ground.holds(self._embedder) else None
            missing = query.strip() and ground.statistics.chunks and compared is None
            yield _Asked(
                connection=connection,
                query=Query(
                    terms=_telling(lexemes, ground.statistics),
                    language=spoken,
                    references=references(query),
                    names=[lexeme for lexeme in lexemes if lexeme in self._dictionary.words],
                ),
                text=query,
                scope=scope,
                ground=ground,
                vector=compared,
                degraded=("embedding",) if missing else (),
                timings={"embed": 1e3 * (embedded - began), "sql": 1e3 * (time.perf_counter() - embedded), "rank": 0.0},
            )  # fmt: skip

    async def _found(self, asked: "_Asked") -> "_Found":
        """Both legs, ranked."""
        began = time.perf_counter()
        terms, statistics, settings = asked.query.terms, asked.ground.statistics, self._settings
        legs = Legs(asked.scope)
        if asked.vector is not None:
            reach = await self._reach(asked)
            legs.by_vector(
                asked.ground, reach, asked.vector, settings.vector_candidates, settings.exact_chunks
            )
        legs.by_keywords(terms, statistics, settings.keyword_candidates)
        candidates = await legs.candidates(asked.connection, terms)
        fetched = time.perf_counter()
        order, evidence = rank(candidates, asked.query, statistics, settings.fusion)
        asked.timings["sql"] += 1e3 * (fetched - began)
        asked.timings["rank"] += 1e3 * (time.perf_counter() - fetched)
        return _Found(order, evidence)

    async def _reach(self, asked: "_Asked") -> Reach:
        key = (asked.ground.version, *asked.scope.readers(), asked.scope.language)
        return self._reaches.get(key) or self._reaches.put(key, await measure(asked.connection, asked.scope))

    async def _judged(self, query: str, result: SearchResult) -> SearchResult:
        """In the reranker's order, where there is one and it answers in time."""
        if self._reranker is None or not result.passages:
            return result
        began = time.perf_counter()
        texts = [embedding_text(p.title, p.heading_path, p.text) for p in result.passages]
        try:
            async with asyncio.timeout(self._settings.rerank_seconds):
                scores = await self._reranker.scores(query, texts)
        except (RerankFailed, TimeoutError):
            return replace(result, degraded=(*result.degraded, "rerank"))
        judged = [replace(p, reranked=score) for p, score in zip(result.passages, scores, strict=True)]
        judged.sort(key=lambda passage: -(passage.reranked or 0.0))
        timings = {**result.timings, "rerank": 1e3 * (time.perf_counter() - began)}
        return replace(result, passages=tuple(judged), timings=timings)

    async def vector(self, query: str) -> list[float] | None:
        """The question's vector, or None where the model does not answer. Asked again soon it is not made again."""
        return await self._vector(clean(query))

    async def _vector(self, query: str) -> list[float] | None:
        if not query.strip():
            return None
        if kept := self._vectors.get(query):
            return kept
        try:
            async with asyncio.timeout(self._settings.embedding_seconds):
                return self._vectors.put(query, await self._embedder.query(query))
        except (EmbeddingFailed, TimeoutError):
            return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question on its ground. `vector` is None where there is none to compare with the space's."""

    connection: AsyncConnection
    query: Query
    text: str
    scope: Scope
    ground: Ground
    vector: Sequence[float] | None
    degraded: tuple[str, ...]
    timings: dict[str, float]

    def key(self) -> tuple[Hashable, ...]:
        """What an answer depends on, besides the settings: two questions with the same key find the same."""
        statistics = self.ground.statistics
        counted = frozenset(statistics.frequencies.items())
        corpus = (
            self.ground.version,
            self.ground.space_id,
            statistics.chunks,
            statistics.average_length,
            counted,
        )
        return (self.text, *self.scope.readers(), frozenset(self.scope.exclude), *corpus)


@dataclass(frozen=True, slots=True)
class _Found:
    """One search before its texts are fetched."""

    order: Sequence[Ranked]
    evidence: Evidence


def _features(asked: _Asked, found: _Found, passages: Sequence[Passage]) -> dict[str, float]:
    texts = [passage.text for passage in passages[:READ]]
    return features(found.evidence, asked.query, asked.ground.statistics, texts)


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
            shares=ranked.shares,
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
