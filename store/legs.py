"""One statement with both legs, each filtered by who reads: what it is made from, and what it brings."""

import math
from bisect import bisect
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.embedding import Embedder
from store.ranking import Candidate, Statistics, selective
from store.spaces import LANGUAGES
from store.text import clean
from store.words import tsquery_literal

__all__ = ["Ground", "Legs", "Reach", "Scope", "measure", "prepare"]

# Settings of the transaction, and everything the legs' statement is made from. A pooler drops what is set at
# connection start. Without a custom plan a filtered query lost 96 % of its rows after some ten executions on a
# connection; without iterative scan a reader of 10 % got 4 of 10 rows. Relaxed, because what a strict order leaves
# out is lost, and candidates are put in order afterwards anyway.
PREPARE = """
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', :ef_search, true),
       s.id AS space_id, s.model, s.dimension, s.calibration,
       coalesce(c.chunks, 0) AS chunks, coalesce(c.average_length, 0) AS average_length,
       coalesce(c.version, 0) AS version,
       (SELECT jsonb_object_agg(lexeme, documents) FROM lexemes WHERE lexeme = ANY(:lexemes)) AS frequencies
  FROM (SELECT) AS one
  LEFT JOIN corpus AS c ON true
  LEFT JOIN spaces AS s ON s.state = 'active'
"""
# How many chunks these readers have in each language: 1 to 10 ms, and the same until the corpus changes.
REACH = """
SELECT coalesce(sum(v.chunk_count) FILTER (WHERE d.{own}), 0) AS own,
       coalesce(sum(v.chunk_count) FILTER (WHERE d.{other}), 0) AS other
  FROM documents AS d JOIN versions AS v ON v.id = d.current_version_id
 WHERE {readable}
"""

# A vector leg: the nearest in one of the two languages, whose vectors have an index of their own (`store.spaces`). The
# casts to the space's dimension are what that is over.
VECTOR_LEG = """
(SELECT e.chunk_id AS id,
        1 - (e.vector::halfvec({dimension}) <=> CAST(%(vector)s AS halfvec({dimension}))) AS similarity
  FROM embeddings AS e JOIN documents AS d ON d.current_version_id = e.version_id
 WHERE e.space_id = {space} AND e.{language} AND {readable}
 ORDER BY (e.vector::halfvec({dimension}) <=> CAST(%(vector)s AS halfvec({dimension}))){exactly}
 LIMIT {limit})
"""
EXACTLY = " + 0"  # an order by a sum is not the index's: every chunk is compared
# The keyword leg: whatever holds one of the selective terms, by the idf of those it holds. Each term is looked up by
# itself, which only touches the index and the rows' heads; asking each row for each term unpacked its tokens as often
# as there are terms (2,000 rows of 100k chunks: 7.7 ms of processor against 3.8). At 100k chunks that order loses none
# of BM25's first ten (ts_rank: .3 %).
KEYWORD_LEG = """
SELECT c.id
  FROM (SELECT id, version_id, sum(weight) AS weight FROM ({holders}) AS held GROUP BY id, version_id) AS c
  JOIN documents AS d ON d.current_version_id = c.version_id
 WHERE {readable}
 ORDER BY c.weight DESC, c.id
 LIMIT %(keyword_candidates)s
"""
HOLDERS = """
SELECT id, version_id, {weight:.4f}::float8 AS weight FROM chunks WHERE tokens @@ CAST(%({name})s AS tsquery)
"""
# Of a term that is most of the corpus, any rows are as good as any others: by its idf alone they are equal.
SOME_HOLDERS = """
(SELECT c.id, c.version_id, {weight:.4f}::float8 AS weight
  FROM chunks AS c JOIN documents AS d ON d.current_version_id = c.version_id
 WHERE c.tokens @@ CAST(%({name})s AS tsquery) AND {readable} LIMIT {rows})
"""
NO_VECTOR_LEG = "SELECT NULL::bigint AS id, NULL::float8 AS similarity WHERE false"
NO_KEYWORD_LEG = "SELECT NULL::bigint AS id WHERE false"
LEGS = """
WITH v AS ({vector_leg}), k AS ({keyword_leg})
SELECT c.id, d.id AS document_id, d.language, found.similarity, c.length, held.places, held.ranks
  FROM (SELECT coalesce(v.id, k.id) AS id, v.similarity FROM v FULL JOIN k ON k.id = v.id) AS found
  JOIN chunks AS c ON c.id = found.id
  JOIN documents AS d ON d.current_version_id = c.version_id
  LEFT JOIN LATERAL (
    SELECT array_agg(t.place) AS places, array_agg(ts_rank('{{1,1,1,1}}', c.tokens, t.term)) AS ranks
      FROM unnest(CAST(%(terms)s AS tsquery[])) WITH ORDINALITY AS t(term, place) WHERE c.tokens @@ t.term
  ) AS held ON true
"""
MOST_ROWS = 5_000
# How often a chunk holds a term is read from ts_rank: of one term it is the sum of 1 / j² over its occurrences, by
# π² / 6. Unnesting 200 chunks of 265 lexemes for their positions took 12.9 ms, this takes 1.3.
_RANKS = list(accumulate(6 / math.pi**2 / j**2 for j in range(1, 256)))


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks, within what, and in which language."""

    principals: Collection[str]
    collections: Collection[str] = ()
    exclude: Collection[int] = ()
    language: str = ""

    def documents(self) -> str:
        """The condition on a document."""
        conditions = ["d.audience && CAST(%(principals)s AS text[])"]
        if self.collections:
            conditions.append("d.collection = ANY(CAST(%(collections)s AS text[]))")
        return " AND ".join(conditions)

    def readers(self) -> tuple[Hashable, ...]:
        """Who asks and within what, for a key."""
        return frozenset(self.principals), frozenset(self.collections)

    def languages(self) -> tuple[str, str]:
        """The condition on a row's language: the question's own, and the other."""
        chinese, otherwise = LANGUAGES["zh"], LANGUAGES["other"]
        return (chinese, otherwise) if self.language == "zh" else (otherwise, chinese)

    def readable(self, chunk: str) -> str:
        """The condition inside each leg; `chunk` is the SQL of the chunk's id there."""
        if not self.exclude:
            return self.documents()
        return f"{self.documents()} AND {chunk} <> ALL(CAST(%(exclude)s AS bigint[]))"

    def parameters(self) -> dict[str, Any]:
        return {
            "principals": [clean(principal) for principal in self.principals],
            **({"collections": [clean(name) for name in self.collections]} if self.collections else {}),
            **({"exclude": list(self.exclude)} if self.exclude else {}),
        }


@dataclass(frozen=True, slots=True)
class Ground:
    """What a search stands on: the corpus' statistics and the active space, of which there may be none."""

    statistics: Statistics
    space_id: int | None
    model: str | None
    dimension: int | None
    calibration: Mapping[str, Any] | None
    version: int

    def holds(self, embedder: Embedder) -> bool:
        """Are the vectors that search reads this model's? Others cannot be compared with a question's."""
        return self.space_id is not None and (self.model, self.dimension) == (
            embedder.model,
            embedder.dimension,
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """How many chunks the readers may see in the question's language, and in the other."""

    own: int
    other: int


async def prepare(connection: AsyncConnection, lexemes: Sequence[str], ef_search: int) -> Ground:
    """Set the transaction up for searching, and read what the legs are made from."""
    parameters = {"ef_search": str(ef_search), "lexemes": list(lexemes)}
    row = (await connection.execute(text(PREPARE), parameters)).one()
    return Ground(
        statistics=Statistics(row.chunks, row.average_length, row.frequencies or {}),
        space_id=row.space_id,
        model=row.model,
        dimension=row.dimension,
        calibration=row.calibration,
        version=row.version,
    )


async def measure(connection: AsyncConnection, scope: Scope) -> Reach:
    """Count what the readers may see within the scope."""
    own, other = scope.languages()
    statement = REACH.format(readable=scope.documents(), own=own, other=other)
    row = (await connection.exec_driver_sql(statement, scope.parameters())).one()
    return Reach(int(row.own), int(row.other))


class Legs:
    """The legs' statement in the making, with its parameters."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._vector, self._keyword = NO_VECTOR_LEG, NO_KEYWORD_LEG
        self._parameters: dict[str, Any] = scope.parameters()

    def by_vector(
        self, ground: Ground, reach: Reach, vector: Sequence[float], limit: int, exact: int
    ) -> None:
        """The `limit` nearest chunks; where the reader's documents are in two languages, half as many more of the
        other one. Of at most `exact` chunks each is compared, of more the index finds the nearest."""
        assert ground.space_id is not None
        assert ground.dimension is not None
        own, other = self._scope.languages()
        legs = [(own, reach.own, limit), (other, reach.other, limit // 2 if reach.own else limit)]
        if not reach.own and not reach.other:
            return
        self._vector = " UNION ALL ".join(
            VECTOR_LEG.format(
                dimension=int(ground.dimension),
                space=int(ground.space_id),
                language=language,
                readable=self._scope.readable("e.chunk_id"),
                exactly=EXACTLY if chunks <= exact else "",
                limit=int(most),
            )
            for language, chunks, most in legs
            if chunks
        )
        self._parameters["vector"] = "[" + ",".join(f"{value:.7g}" for value in vector) + "]"

    def by_keywords(self, terms: Sequence[str], statistics: Statistics, limit: int) -> None:
        chosen = selective(terms, statistics)
        if not chosen:
            return
        readable = self._scope.readable("c.id")
        names = {f"term_{place}": term for place, term in enumerate(chosen)}
        holders = " UNION ALL ".join(
            (SOME_HOLDERS if statistics.frequencies.get(term, 0) > MOST_ROWS else HOLDERS).format(
                weight=statistics.idf(term), name=name, readable=readable, rows=MOST_ROWS
            )
            for name, term in names.items()
        )
        self._keyword = KEYWORD_LEG.format(readable=readable, holders=holders)
        self._parameters |= {name: tsquery_literal([term]) for name, term in names.items()}
        self._parameters["keyword_candidates"] = limit

    async def plan(self, connection: AsyncConnection, terms: Sequence[str]) -> list[str]:
        """How Postgres would execute `candidates`, a line each."""
        statement, parameters = self._statement(terms)
        return [row[0] for row in await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)]

    def _statement(self, terms: Sequence[str]) -> tuple[str, dict[str, Any]]:
        statement = LEGS.format(vector_leg=self._vector, keyword_leg=self._keyword)
        return statement, self._parameters | {"terms": [tsquery_literal([term]) for term in terms]}

    async def candidates(self, connection: AsyncConnection, terms: Sequence[str]) -> list[Candidate]:
        """What either leg returned, with the counts of `terms`; in no particular order."""
        if self._vector is NO_VECTOR_LEG and self._keyword is NO_KEYWORD_LEG:
            return []
        statement, parameters = self._statement(terms)
        # Past SQLAlchemy's compiler: the statement is another one for every question, and its text cost 1 ms a search.
        rows = await connection.exec_driver_sql(statement, parameters)
        return [
            Candidate(
                id=row.id,
                document_id=row.document_id,
                language=row.language,
                similarity=row.similarity,
                counts={
                    terms[place - 1]: _occurrences(rank)
                    for place, rank in zip(row.places or (), row.ranks or (), strict=True)
                },
                length=row.length,
            )
            for row in rows
        ]


def _occurrences(rank: float) -> int:
    """How often a term occurs whose `ts_rank` this is; at most 255, as many as a tsvector keeps."""
    # Half of the smallest step, since ranks are single precision.
    return bisect(_RANKS, rank + 4e-6) or 1
