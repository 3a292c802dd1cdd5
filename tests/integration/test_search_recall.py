"""Recall under a filter, at the first execution on a connection and at the thirtieth."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from sqlalchemy import text

from store import Store, open_store
from store.legs import Legs, Scope, measure, prepare
from store.search import SearchSettings
from tests.embedder import HashEmbedder
from tests.knowledge import publish

CHUNKS = 6_000
FEW = 1_200
QUESTIONS = 20
# So that the index answers also for the reader of 1 %.
BY_INDEX = SearchSettings(exact_chunks=0, remembered=0)
EXACT = text("""
SELECT e.chunk_id FROM embeddings AS e JOIN documents AS d ON d.current_version_id = e.version_id
 WHERE d.audience && CAST(:principals AS text[])
 ORDER BY e.vector <=> CAST(:vector AS halfvec) LIMIT 10
""")


async def fill(
    store: Store, embedder: HashEmbedder, seed: int = 3, chunks: int = CHUNKS
) -> list[list[float]]:
    """`chunks` one-chunk documents with clustered vectors; one in a hundred is for web:one alone, one in ten for
    web:ten, the others for everyone. Returns as many questions' vectors from the same clusters."""
    chance = random.Random(seed)
    await publish(store, embedder, "seed", "seed.md", ["seed"])
    space = await store.documents.active_space()
    assert space is not None
    centres = [[chance.gauss(0, 1) for _ in range(embedder.dimension)] for _ in range(40)]
    vectors = [[value + chance.gauss(0, 0.6) for value in centres[n % len(centres)]] for n in range(chunks)]
    audiences = [
        "{web:one}" if n % 100 == 0 else "{web:ten}" if n % 10 == 1 else "{everyone}" for n in range(chunks)
    ]
    async with store.database.engine.begin() as connection:
        await connection.execute(
            text("""
            WITH given AS (SELECT n, audience, vector FROM unnest(
                     CAST(:numbers AS int[]), CAST(:audiences AS text[]), CAST(:vectors AS text[])
                 ) AS g(n, audience, vector)),
            d AS (INSERT INTO documents (collection, source, title, audience)
                  SELECT 'seed', n::text, 'T' || n, audience::text[] FROM given RETURNING id, source),
            v AS (INSERT INTO versions (document_id, number, state, content_hash, chunk_count)
                  SELECT id, 1, 'live', source, 1 FROM d RETURNING id, document_id),
            c AS (INSERT INTO chunks (version_id, ordinal, text, content_hash, tokens, length)
                  SELECT v.id, 0, 'x', d.source, ''::tsvector, 1 FROM v JOIN d ON d.id = v.document_id
                  RETURNING id, version_id, content_hash)
            INSERT INTO embeddings (space_id, chunk_id, version_id, vector)
            SELECT :space, c.id, c.version_id, given.vector::halfvec
              FROM c JOIN given ON given.n::text = c.content_hash
            """),
            {
                "numbers": list(range(chunks)),
                "audiences": audiences,
                "vectors": [str(vector) for vector in vectors],
                "space": space.id,
            },
        )
        await connection.execute(
            text("""
            UPDATE documents SET current_version_id = versions.id FROM versions
             WHERE versions.document_id = documents.id AND documents.current_version_id IS NULL
            """)
        )
        await connection.execute(text("ANALYZE documents"))
        await connection.execute(text("ANALYZE embeddings"))
    return [[value + chance.gauss(0, 0.6) for value in chance.choice(centres)] for _ in range(QUESTIONS)]


class Given(HashEmbedder):
    """Questions are numbers of given vectors."""

    def __init__(self, vectors: Sequence[Sequence[float]]) -> None:
        super().__init__()
        self._vectors = vectors

    async def query(self, text: str) -> list[float]:
        return list(self._vectors[int(text)])


async def nearest(store: Store, principal: str, vector: Sequence[float]) -> set[int]:
    """The true ten, without an index."""
    async with store.database.engine.begin() as connection:
        await connection.execute(text("SET LOCAL enable_indexscan = off"))
        rows = await connection.execute(EXACT, {"principals": [principal], "vector": str(list(vector))})
        return {row.chunk_id for row in rows}


async def index_scans(store: Store) -> int:
    async with store.database.engine.connect() as connection:
        found = await connection.scalar(
            text(
                "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'ix_embeddings_space_%'"
            )
        )
    return int(found or 0)


@pytest.mark.slow
async def test_a_filtered_reader_gets_all_of_the_nearest(
    database_url: str, store: Store, embedder: HashEmbedder
) -> None:
    """Readers of 1 %, of 10 % and of most get ten passages, the true ten (recall ≥ .99). Row 24."""
    questions = await fill(store, embedder)
    async with open_store(database_url, Given(questions), pool_size=1, search=BY_INDEX) as searching:
        for principal in ("web:one", "web:ten", "everyone"):
            hits = 0
            for number, vector in enumerate(questions):
                result = await searching.search.search(str(number), (principal,), top_k=10)
                assert len(result.passages) == 10
                found = {passage.id for passage in result.passages}
                hits += len(found & await nearest(store, principal, vector))
            assert hits / (10 * QUESTIONS) >= 0.99
    assert await index_scans(store) > 0  # it was the index that found them


@pytest.mark.slow
async def test_few_chunks_are_compared_one_by_one(
    database_url: str, store: Store, embedder: HashEmbedder
) -> None:
    """Where readers have few chunks nothing is approximate: exactly the nearest, and no use of the index."""
    questions = await fill(store, embedder, chunks=FEW)
    async with open_store(database_url, Given(questions), pool_size=1) as searching:
        for number, vector in enumerate(questions):
            result = await searching.search.search(str(number), ("web:ten",), top_k=10)
            assert {passage.id for passage in result.passages} == await nearest(store, "web:ten", vector)
    assert await index_scans(store) == 0


@pytest.mark.slow
async def test_each_language_has_an_index_that_is_used(store: Store, embedder: HashEmbedder) -> None:
    """Questions of one language, chunks of both: either leg is planned on its own index, and filled. Row 26."""
    questions = await fill(store, embedder, chunks=3_000)
    async with store.database.engine.begin() as connection:
        await connection.execute(text("UPDATE documents SET language = 'zh' WHERE id % 2 = 0"))
        await connection.execute(
            text(
                "UPDATE embeddings e SET language = d.language FROM documents d"
                " WHERE d.current_version_id = e.version_id"
            )
        )
        scope = Scope(("everyone",), language="zh")
        ground, reach = await prepare(connection, ["x"], 200), await measure(connection, scope)
        legs = Legs(scope)
        legs.by_vector(ground, reach, questions[0], 50, exact=0)
        plan = await legs.plan(connection, ["x"])
        found = await legs.candidates(connection, ["x"])
    used = {f"ix_embeddings_space_{ground.space_id}_{name}" for name in ("zh", "other")}
    assert all(any(f"using {name} " in line for line in plan) for name in used), "\n".join(plan)
    assert Counter(one.language for one in found) == {"zh": 50, "": 25}


@pytest.mark.slow
async def test_the_thirtieth_execution_finds_what_the_first_found(
    database_url: str, store: Store, embedder: HashEmbedder
) -> None:
    """On one connection the plan stays the one for these readers: a generic one lost 96 % of the rows after ten."""
    questions = await fill(store, embedder)
    async with open_store(database_url, Given(questions), pool_size=1, search=BY_INDEX) as searching:
        for principal in ("web:one", "web:ten"):
            results = [await searching.search.search("0", (principal,), top_k=10) for _ in range(30)]
            ids = {tuple(passage.id for passage in result.passages) for result in results}
            assert ids == {tuple(passage.id for passage in results[0].passages)}
            assert len(set(ids.pop()) & await nearest(store, principal, questions[0])) >= 9
