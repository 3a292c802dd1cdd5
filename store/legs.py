"""One statement with both legs, each filtered by who reads: what it is made from, and what it brings."""

import math
from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.embedding import Embedder
from store.ranking import Candidate, Statistics, selective
from store.text import clean, tsquery_literal

__all__ = ["Ground", "Legs", "Scope", "prepare"]

# Settings of the transaction, and everything the legs' statement is made from. A pooler drops what is set at
# connection start. Without a custom plan a filtered query lost 96 % of its rows after some ten executions on a
# connection; without iterative scan a reader of 10 % got 4 of 10 rows.
PREPARE = """
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('hnsw.iterative_scan', 'strict_order', true),
       set_config('hnsw.ef_search', :ef_search, true),
       s.id AS space_id, s.model, s.dimension, s.calibration,
       coalesce(c.chunks, 0) AS chunks, coalesce(c.average_length, 0) AS average_length,
       coalesce(c.version, 0) AS version,
       (SELECT jsonb_object_agg(lexeme, documents) FROM lexemes WHERE lexeme = ANY(:lexemes)) AS frequencies,
       EXISTS (SELECT FROM documents AS d WHERE d.current_version_id IS NOT NULL AND {readable} AND {own}) AND
       EXISTS (SELECT FROM documents AS d WHERE d.current_version_id IS NOT NULL AND {readable} AND NOT {own})
         AS bilingual
  FROM (SELECT) AS one
  LEFT JOIN corpus AS c ON true
  LEFT JOIN spaces AS s ON s.state = 'active'
"""
OWN = "d.language IN (:language, '')"

# A vector leg. The cast to the space's dimension is what its partial index is over.
VECTOR_LEG = """
(SELECT e.chunk_id AS id, 1 - (e.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension}))) AS similarity
  FROM embeddings AS e JOIN documents AS d ON d.current_version_id = e.version_id
 WHERE e.space_id = {space} AND {readable}
 ORDER BY e.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension}))
 LIMIT {limit})
"""
# The keyword leg: whatever holds one of the selective terms, by the idf of those it holds. At 100k chunks that order
# loses none of BM25's first ten (ts_rank: .3 %) and costs the same.
KEYWORD_LEG = """
SELECT c.id
  FROM chunks AS c JOIN documents AS d ON d.current_version_id = c.version_id
 WHERE c.tokens @@ CAST(:query AS tsquery) AND {readable}
 ORDER BY {weight} DESC, c.id
 LIMIT :keyword_candidates
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
      FROM unnest(CAST(:terms AS tsquery[])) WITH ORDINALITY AS t(term, place) WHERE c.tokens @@ t.term
  ) AS held ON true
"""
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
        conditions = ["d.audience && CAST(:principals AS text[])"]
        if self.collections:
            conditions.append("d.collection = ANY(CAST(:collections AS text[]))")
        return " AND ".join(conditions)

    def readable(self, chunk: str) -> str:
        """The condition inside each leg; `chunk` is the SQL of the chunk's id there."""
        if not self.exclude:
            return self.documents()
        return f"{self.documents()} AND {chunk} <> ALL(CAST(:exclude AS bigint[]))"

    def parameters(self) -> dict[str, Any]:
        return {
            "language": self.language,
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
    bilingual: bool  # the reader's documents are in the question's language and in another

    def holds(self, embedder: Embedder) -> bool:
        """Are the vectors that search reads this model's? Others cannot be compared with a question's."""
        return self.space_id is not None and (self.model, self.dimension) == (
            embedder.model,
            embedder.dimension,
        )


async def prepare(
    connection: AsyncConnection, scope: Scope, lexemes: Sequence[str], ef_search: int
) -> Ground:
    """Set the transaction up for searching, and read what the legs are made from."""
    statement = text(PREPARE.format(readable=scope.documents(), own=OWN))
    parameters = scope.parameters() | {"ef_search": str(ef_search), "lexemes": list(lexemes)}
    row = (await connection.execute(statement, parameters)).one()
    return Ground(
        statistics=Statistics(row.chunks, row.average_length, row.frequencies or {}),
        space_id=row.space_id,
        model=row.model,
        dimension=row.dimension,
        calibration=row.calibration,
        version=row.version,
        bilingual=row.bilingual,
    )


class Legs:
    """The legs' statement in the making, with its parameters."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._vector, self._keyword = NO_VECTOR_LEG, NO_KEYWORD_LEG
        self._parameters: dict[str, Any] = scope.parameters()

    def by_vector(self, ground: Ground, vector: Sequence[float], limit: int) -> None:
        """The `limit` nearest chunks; where the reader's documents are in two languages, half as many more of the
        other one."""
        assert ground.space_id is not None
        assert ground.dimension is not None
        readable = self._scope.readable("e.chunk_id")
        legs = [(readable, limit)]
        if ground.bilingual:
            legs = [(f"{readable} AND {OWN}", limit), (f"{readable} AND NOT {OWN}", limit // 2)]
        self._vector = " UNION ALL ".join(
            VECTOR_LEG.format(
                dimension=int(ground.dimension),
                space=int(ground.space_id),
                readable=condition,
                limit=int(most),
            )
            for condition, most in legs
        )
        self._parameters["vector"] = "[" + ",".join(f"{value:.7g}" for value in vector) + "]"

    def by_keywords(self, terms: Sequence[str], statistics: Statistics, limit: int) -> None:
        chosen = selective(terms, statistics)
        if not chosen:
            return
        names = {f"term_{place}": term for place, term in enumerate(chosen)}
        weight = " + ".join(
            f"CASE WHEN c.tokens @@ CAST(:{name} AS tsquery) THEN {statistics.idf(term):.4f}::float8 ELSE 0 END"
            for name, term in names.items()
        )
        self._keyword = KEYWORD_LEG.format(readable=self._scope.readable("c.id"), weight=weight)
        self._parameters |= {name: tsquery_literal([term]) for name, term in names.items()}
        self._parameters |= {"query": tsquery_literal(chosen), "keyword_candidates": limit}

    async def candidates(self, connection: AsyncConnection, terms: Sequence[str]) -> list[Candidate]:
        """What either leg returned, with the counts of `terms`; in no particular order."""
        if self._vector is NO_VECTOR_LEG and self._keyword is NO_KEYWORD_LEG:
            return []
        statement = LEGS.format(vector_leg=self._vector, keyword_leg=self._keyword)
        wanted = [tsquery_literal([term]) for term in terms]
        rows = await connection.execute(text(statement), self._parameters | {"terms": wanted})
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
