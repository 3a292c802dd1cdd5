"""The signed-off answers whose questions come nearest to a vector, among those in service that a reader may read."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single, transaction
from store.embedding import Embedder
from store.recent import Recent
from store.spaces import LANGUAGES

__all__ = ["COLUMNS", "EXACT", "PROPOSED", "READABLE", "Nearest"]

COLUMNS = (
    "id", "question_id", "question", "language", "answer", "signed_for", "audience", "state", "reason",
    "signed_by", "how", "signed_at", "ended_by", "ended_at",
)  # fmt: skip
SHOWN = ", ".join(f"v.{name}" for name in COLUMNS)
PROPOSED = 5  # of each language, for the rule that decides
EXACT = 5_000  # so many are compared one by one; of more the index finds the nearest
REMEMBERED, REMEMBERED_SECONDS = 2_000, 3_600  # readers
READABLE = "v.state = 'active' AND v.audience && CAST(:principals AS text[]) AND v.signed_at > :since"
ACTIVE = "(SELECT id FROM spaces WHERE state = 'active' AND model = :model AND dimension = :dimension)"
# Every row that the reader may have, compared, in one pass over them and without a transaction: for a reader of 1,000
# counting them first and then looking for each language by itself took 12.9 ms. One row more says that there are more.
COMPARED = """
WITH readable AS MATERIALIZED (
  SELECT v.id, v.language, v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension})) AS distance
    FROM verified AS v WHERE v.space_id = {active} AND {readable} LIMIT {most} + 1
), nearest AS ({legs})
SELECT {columns}, 1 - n.distance AS similarity, (SELECT count(*) FROM readable) AS reach
  FROM nearest AS n JOIN verified AS v ON v.id = n.id
"""
COMPARED_LEG = "(SELECT id, distance FROM readable WHERE {language} ORDER BY distance LIMIT {limit})"
# Custom plans and an iterative scan, as in store/legs.py. Left to itself Postgres sorts all that a reader of 10 % may
# have, and the scan of a language in which they have nothing goes through 20,000 rows: 123 ms among 100,000, either.
PREPARE = text(f"""
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', '100', true), set_config('hnsw.max_scan_tuples', '4000', true),
       set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), {ACTIVE} AS space
""")
# The nearest of one language by its index, which is over the casts to the space's dimension.
LEG = """
(SELECT {columns}, 1 - (v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension}))) AS similarity
   FROM verified AS v
  WHERE v.space_id = {space} AND v.{language} AND {readable}
  ORDER BY v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension})) LIMIT {limit})
"""


class Nearest:
    """Remembers, for an hour, which readers have more than `EXACT`: their look-ups need not find that out again."""

    def __init__(self, engine: AsyncEngine, embedder: Embedder) -> None:
        self._engine = engine
        self._embedder = embedder
        self._many: Recent[tuple[frozenset[str], int], bool] = Recent(REMEMBERED)

    async def found(
        self, vector: Sequence[float], parameters: Mapping[str, Any]
    ) -> Sequence[Mapping[Any, Any]]:
        """The `PROPOSED` nearest of each language: `COLUMNS`, and "similarity", their cosine. `parameters` has what
        `READABLE` names."""
        reader = frozenset(parameters["principals"]), int(time.time() / REMEMBERED_SECONDS)
        model = {"model": self._embedder.model, "dimension": self._embedder.dimension}
        given = {**parameters, **model, "vector": "[" + ",".join(f"{value:.7g}" for value in vector) + "]"}
        if self._many.get(reader) is None:
            async with single(self._engine) as connection:
                compared = await connection.execute(text(_compared(self._embedder.dimension)), given)
                rows = compared.mappings().all()
            if not rows or rows[0]["reach"] <= EXACT:
                return rows
            self._many.put(reader, True)
        async with transaction(self._engine) as connection:
            space = (await connection.execute(PREPARE, model)).one().space
            if space is None:
                return []
            near = await connection.execute(text(_by_index(space, self._embedder.dimension)), given)
            return near.mappings().all()


def _compared(dimension: int) -> str:
    legs = [COMPARED_LEG.format(language=condition, limit=PROPOSED) for condition in LANGUAGES.values()]
    named = {
        "columns": SHOWN,
        "dimension": int(dimension),
        "active": ACTIVE,
        "readable": READABLE,
        "most": EXACT,
    }
    return COMPARED.format(legs=" UNION ALL ".join(legs), **named)


def _by_index(space: int, dimension: int) -> str:
    named = {"columns": SHOWN, "space": int(space), "dimension": int(dimension), "readable": READABLE}
    legs = [LEG.format(language=condition, limit=PROPOSED, **named) for condition in LANGUAGES.values()]
    return " UNION ALL ".join(legs)
