"""The signed-off answers whose questions come nearest to a vector, among those in service that a reader may read."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.embedding import Embedder
from store.recent import Recent
from store.spaces import LANGUAGES

__all__ = ["EXACT", "PROPOSED", "READABLE", "Nearest"]

PROPOSED = 5  # of each language, for the rule that decides
EXACT = 5_000  # so many are compared one by one; of more the index finds the nearest
REMEMBERED, REMEMBERED_SECONDS = 2_000, 3_600  # readers
READABLE = "v.state = 'active' AND v.audience && CAST(:principals AS text[]) AND v.signed_at > :since"
# Custom plans and an iterative scan, as in store/legs.py. Left to itself Postgres sorts all that a reader of 10 % may
# have, and the scan of a language in which they have nothing goes through 20,000 rows: 123 ms among 100,000, either.
PREPARE = text("""
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('hnsw.ef_search', '100', true), set_config('hnsw.max_scan_tuples', '4000', true),
       set_config('enable_bitmapscan', :bitmaps, true), set_config('enable_sort', :bitmaps, true),
       (SELECT id FROM spaces WHERE state = 'active' AND model = :model AND dimension = :dimension) AS space
""")
# Every row that the reader may have, compared, in one pass over them: for a reader of 1,000 counting them first and
# then looking for each language by itself took 12.9 ms, this 4. One row more than that says that there are more.
COMPARED = """
WITH readable AS MATERIALIZED (
  SELECT v.id, v.language, v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension})) AS distance
    FROM verified AS v WHERE v.space_id = {space} AND {readable} LIMIT {most} + 1
), nearest AS ({legs})
SELECT n.id, 1 - n.distance AS similarity, (SELECT count(*) FROM readable) AS reach FROM nearest AS n
"""
COMPARED_LEG = "(SELECT id, distance FROM readable WHERE {language} ORDER BY distance LIMIT {limit})"
# The nearest of one language by its index, which is over the casts to the space's dimension.
LEG = """
(SELECT v.id, 1 - (v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension}))) AS similarity
   FROM verified AS v
  WHERE v.space_id = {space} AND v.{language} AND {readable}
  ORDER BY v.vector::halfvec({dimension}) <=> CAST(:vector AS halfvec({dimension})) LIMIT {limit})
"""


class Nearest:
    """Remembers, for an hour, which readers have more than `EXACT`: their look-ups need not find that out again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._many: Recent[tuple[frozenset[str], int], bool] = Recent(REMEMBERED)

    async def cosines(
        self, connection: AsyncConnection, vector: Sequence[float], parameters: Mapping[str, Any]
    ) -> Mapping[int, float]:
        """Cosine by id of the `PROPOSED` nearest of each language. `parameters` has what `READABLE` names."""
        dimension = self._embedder.dimension
        reader = frozenset(parameters["principals"]), int(time.time() / REMEMBERED_SECONDS)
        many = self._many.get(reader) is not None
        setting = {"model": self._embedder.model, "dimension": dimension, "bitmaps": "off" if many else "on"}
        space = (await connection.execute(PREPARE, setting)).one().space
        if space is None:
            return {}
        given = {**parameters, "vector": "[" + ",".join(f"{value:.7g}" for value in vector) + "]"}
        if many:
            near = await connection.execute(text(_by_index(space, dimension)), given)
            return {row.id: row.similarity for row in near}
        rows = (await connection.execute(text(_compared(space, dimension)), given)).all()
        if rows and rows[0].reach > EXACT:
            self._many.put(reader, True)
            return await self.cosines(connection, vector, parameters)
        return {row.id: row.similarity for row in rows}


def _by_index(space: int, dimension: int) -> str:
    named = {"space": int(space), "dimension": int(dimension), "readable": READABLE, "limit": PROPOSED}
    return " UNION ALL ".join(LEG.format(language=condition, **named) for condition in LANGUAGES.values())


def _compared(space: int, dimension: int) -> str:
    legs = [COMPARED_LEG.format(language=condition, limit=PROPOSED) for condition in LANGUAGES.values()]
    named = {"space": int(space), "dimension": int(dimension), "readable": READABLE, "most": EXACT}
    return COMPARED.format(legs=" UNION ALL ".join(legs), **named)
