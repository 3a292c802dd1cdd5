"""Search through the real statement: what is found, who may read it, and what degrades."""

import asyncio
import dataclasses
import time
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from store import Store, open_store, spaces
from store.documents import NewChunk, NewDocument
from store.embedding import NoEmbedder
from store.errors import EmbeddingFailed, NotFound
from store.legs import Legs, Scope, prepare
from store.search import Searcher, SearchSettings
from store.text import clean
from store.words import lexemes, query_lexemes, tokens, tsquery_literal, tsvector_literal
from tests.embedder import HashEmbedder
from tests.knowledge import publish

EVERYONE = ("everyone",)


class Broken(HashEmbedder):
    """Embeds passages and fails for every question."""

    async def query(self, text: str) -> list[float]:
        raise EmbeddingFailed


@pytest.fixture
async def library(store: Store, embedder: HashEmbedder) -> Store:
    await publish(store, embedder, "hr", "leave.md", ["Annual leave is 15 days.", "Sick leave needs a note."])
    await publish(store, embedder, "hr", "年假.md", ["年假制度：每年 15 天年假。", "病假须提交证明。"])
    await publish(
        store,
        embedder,
        "legal",
        "secret.md",
        ["Annual leave of the board is 40 days."],
        audience=("web:#legal",),
    )
    await publish(
        store, embedder, "it", "codes.md", ["ERR_0042 means that the certificate has expired. C++ too."]
    )
    return store


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("annual leave", "leave.md"),
        ("年假", "年假.md"),
        ("年假制度是什么", "年假.md"),
        ("ERR_0042", "codes.md"),
        ("C++", "codes.md"),
        ("ERR_0042 证书", "codes.md"),
    ],
)
async def test_words_of_both_languages_and_identifiers_are_found(
    library: Store, query: str, source: str
) -> None:
    """Chinese words inside longer ones, identifiers and mixed questions find their passage first."""
    result = await library.search.search(query, EVERYONE, top_k=3)
    assert result.passages[0].source == source


async def test_nobody_finds_what_they_may_not_read(library: Store) -> None:
    """The audience is inside the statement: neither search nor ids, sections or titles reach past it."""
    mine = await library.search.search("annual leave of the board", ("everyone", "web:#legal"), top_k=10)
    secret = next(passage for passage in mine.passages if passage.collection == "legal")
    theirs = await library.search.search("annual leave of the board", EVERYONE, top_k=10)
    assert all(passage.collection != "legal" for passage in theirs.passages)
    assert await library.search.passages([secret.id], EVERYONE) == []
    assert await library.search.section(secret.id, EVERYONE) == []
    assert "secret" not in await library.search.titles(EVERYONE)


async def test_no_principal_reads_nothing(library: Store) -> None:
    """An empty list of readers is nobody, not everybody."""
    assert (await library.search.search("annual leave", ())).passages == ()


async def test_a_changed_audience_counts_at_once(library: Store) -> None:
    """No re-embedding: the next search sees the new audience."""
    found = (await library.search.search("annual leave", EVERYONE)).passages[0]
    await library.documents.set_audience(found.document_id, ["web:#hr"])
    after = await library.search.search("annual leave", EVERYONE)
    assert all(passage.document_id != found.document_id for passage in after.passages)


async def test_the_old_version_is_gone_with_the_new_one(library: Store, embedder: HashEmbedder) -> None:
    """A re-upload replaces what is found, whole."""
    await publish(library, embedder, "hr", "leave.md", ["Annual leave is 20 days."])
    result = await library.search.search("annual leave", EVERYONE, top_k=10)
    texts = [passage.text for passage in result.passages if passage.source == "leave.md"]
    assert texts == ["Annual leave is 20 days."]


async def test_keywords_answer_when_the_model_does_not(database_url: str, library: Store) -> None:
    """A failing embedding model costs the vector leg only, and the result says so."""
    async with open_store(database_url, Broken()) as store:
        result = await store.search.search("annual leave", EVERYONE)
    assert result.passages[0].source == "leave.md"
    assert result.degraded == ("embedding",)
    assert not result.calibrated


@pytest.mark.parametrize(
    "query", ["", "   ", "'; DROP TABLE chunks; --", "a & | ! ( <-> :*", "\\ ' \" %", "🙂"]
)
async def test_any_text_is_a_query(library: Store, query: str) -> None:
    """Operators, quotes and nothing at all are text like any other."""
    await library.search.search(query, EVERYONE)
    assert (await library.search.search("annual leave", EVERYONE)).passages


async def test_the_same_question_finds_the_same(library: Store) -> None:
    """Five times the same ids in the same order, also from fifty searches at once."""
    results = await asyncio.gather(*(library.search.search("annual leave", EVERYONE) for _ in range(50)))
    assert len({tuple(passage.id for passage in result.passages) for result in results}) == 1


async def test_fifty_searches_at_once_wait_for_nobody(library: Store) -> None:
    """A few connections serve fifty different questions within a second each. Row 32."""
    began = time.monotonic()
    results = await asyncio.gather(
        *(library.search.search(f"annual leave of year {n}", EVERYONE) for n in range(50))
    )
    assert all(result.passages[0].source == "leave.md" for result in results)
    assert time.monotonic() - began < 10  # a second on an idle machine; the suite's is not


async def test_times_are_split_by_step(library: Store) -> None:
    """Milliseconds for the model, the database and the ranking."""
    result = await library.search.search("annual leave", EVERYONE)
    assert set(result.timings) == {"embed", "sql", "rank"}
    assert all(value > 0 for value in result.timings.values())
    assert result.corpus_version > 0


async def test_a_question_is_embedded_once(library: Store, embedder: HashEmbedder) -> None:
    """The same words again need no model."""
    for _ in range(3):
        await library.search.search("annual leave", EVERYONE)
    assert embedder.queries == ["annual leave"]


async def test_an_empty_knowledge_base_has_no_answer_and_no_complaint(store: Store) -> None:
    """Nothing found, no confidence, nothing degraded."""
    result = await store.search.search("annual leave", EVERYONE)
    assert (result.passages, result.confidence, result.degraded) == ((), 0.0, ())


# --- within what ---------------------------------------------------------------------------------------------


async def test_passages_and_collections_can_be_left_out(library: Store) -> None:
    """`exclude` takes ids away and others move up; `collections` says where to look."""
    first = await library.search.search("annual leave", EVERYONE, top_k=1)
    second = await library.search.search("annual leave", EVERYONE, top_k=1, exclude=[first.passages[0].id])
    assert len(second.passages) == 1
    assert second.passages[0].id != first.passages[0].id
    it = await library.search.search("annual leave", EVERYONE, collections=["it"])
    assert {passage.collection for passage in it.passages} == {"it"}


async def test_no_more_than_asked(library: Store) -> None:
    """`top_k` bounds the result, and one id is in it once, with one text."""
    result = await library.search.search("annual leave", EVERYONE, top_k=2)
    assert len(result.passages) == 2
    everything = await library.search.search("annual leave note 年假", EVERYONE, top_k=50)
    ids = [passage.id for passage in everything.passages]
    assert len(ids) == len(set(ids)) == 5


async def test_passages_come_in_the_order_asked(library: Store) -> None:
    """By ids, those that are gone or hidden are left out, and repetitions too."""
    found = await library.search.search("annual leave", EVERYONE, top_k=5)
    ids = [passage.id for passage in found.passages]
    asked = [ids[2], 999_999, ids[0], ids[2]]
    assert [p.id for p in await library.search.passages(asked, EVERYONE)] == [ids[2], ids[0]]


async def test_a_section_is_whole_and_in_order(library: Store) -> None:
    """All chunks under the passage's heading, as the document has them."""
    found = (await library.search.search("sick leave needs a note", EVERYONE)).passages[0]
    texts = [passage.text for passage in await library.search.section(found.id, EVERYONE)]
    assert texts == ["Annual leave is 15 days.", "Sick leave needs a note."]


async def test_titles_are_those_one_may_read(library: Store) -> None:
    """Each once, in alphabetical order."""
    assert await library.search.titles(EVERYONE) == ["codes", "leave", "年假"]
    assert "secret" in await library.search.titles(["web:#legal"])


# --- one document among others -------------------------------------------------------------------------------


async def test_a_long_document_does_not_crowd_the_others_out(store: Store, embedder: HashEmbedder) -> None:
    """With a cap all three sources are among the first five; without, one document's chunks are all of them."""
    await publish(
        store, embedder, "hr", "long.md", [f"Parking permit rule {n}: parking permit." for n in range(8)]
    )
    await publish(
        store, embedder, "hr", "two.md", ["A parking permit costs nothing at the north gate, says security."]
    )
    await publish(
        store, embedder, "hr", "three.md", ["Visitors get a parking permit from the front desk on arrival."]
    )
    sources = {}
    for mode in ("off", "cap:2", "document"):
        searcher = Searcher(store.database.engine, embedder, SearchSettings(deduplicate=mode))
        result = await searcher.search("parking permit", EVERYONE, top_k=5)
        sources[mode] = {passage.source for passage in result.passages}
    assert sources["off"] == {"long.md"}
    assert sources["cap:2"] == sources["document"] == {"long.md", "two.md", "three.md"}


async def test_a_new_document_is_found_before_its_words_are_counted(
    library: Store, embedder: HashEmbedder
) -> None:
    """Statistics follow publication; the document's rare words find it meanwhile."""
    version = await library.documents.add(NewDocument("it", "new.md", b"ERR_0777"))
    chunk = NewChunk(0, ("new",), None, "ERR_0777 means that the disk is full.")
    await library.documents.publish(
        version.id, [chunk], await embedder.passages([chunk.text]),
        markdown=chunk.text, pages=None, title="new", language="en",
    )  # fmt: skip
    result = await library.search.search("ERR_0777", EVERYONE)
    assert (result.passages[0].source, result.passages[0].keyword_rank) == ("new.md", 1)


async def test_the_other_language_has_a_leg_of_its_own(store: Store, embedder: HashEmbedder) -> None:
    """However many passages are in the question's language, the nearest of the others is found."""
    for n in range(60):
        await publish(store, embedder, "hr", f"{n}.md", [f"Expense claims are paid on Friday, note {n}."])
    await publish(store, embedder, "hr", "班车.md", ["一号线末班车二十一点四十分发车。"])
    result = await store.search.search("When does a bus depart?", EVERYONE, top_k=3)
    assert "班车.md" in {passage.source for passage in result.passages}


# --- the model -----------------------------------------------------------------------------------------------


class Slow(HashEmbedder):
    """Takes longer than anybody waits."""

    async def query(self, text: str) -> list[float]:
        await asyncio.sleep(30)
        return await super().query(text)


class Other(HashEmbedder):
    """Another model, whose vectors have never been stored."""

    model = "other-64"


@pytest.mark.parametrize("embedder_", [Slow(), Other(), NoEmbedder()], ids=["slow", "other", "none"])
async def test_without_vectors_to_compare_keywords_answer(
    library: Store, embedder_: HashEmbedder | NoEmbedder
) -> None:
    """A model that hangs, a model that was exchanged and not reindexed, and none are said to be missing."""
    quick = SearchSettings(embedding_seconds=0.05)
    result = await Searcher(library.database.engine, embedder_, quick).search("annual leave", EVERYONE)
    assert result.passages[0].source == "leave.md"
    assert result.passages[0].vector_rank is None
    assert (result.degraded, result.calibrated) == (("embedding",), False)
    assert 0 < result.confidence < 1


async def test_an_unknown_model_says_that_it_is_not_calibrated(library: Store) -> None:
    """Vectors rank, but only keywords are judged."""
    result = await library.search.search("annual leave", EVERYONE)
    assert result.passages[0].vector_rank is not None
    assert (result.degraded, result.calibrated) == ((), False)


async def test_a_known_model_is_calibrated(library: Store, embedder: HashEmbedder) -> None:
    """The coefficients of the active space decide."""
    async with library.database.engine.begin() as connection:
        await connection.execute(
            text("""UPDATE spaces SET calibration = '{"same": {"intercept": 3.0, "weights": {}}}'""")
        )
    result = await Searcher(library.database.engine, embedder).search("annual leave", EVERYONE)
    assert result.calibrated
    assert result.confidence == pytest.approx(0.9526, abs=1e-4)


async def test_one_space_is_active_at_a_time(library: Store) -> None:
    """Activating a space retires the one before; its index exists and may be asked for again."""
    async with library.database.engine.begin() as connection:
        await connection.execute(
            text("INSERT INTO spaces (model, dimension, max_tokens) VALUES ('m', 3, 512)")
        )
        new = await spaces.find(connection, "m", 3)
        assert new is not None
        for _ in range(2):
            await spaces.create_index(connection, new.id, new.dimension)
        await spaces.activate(connection, new.id)
        assert await spaces.active(connection) == dataclasses.replace(new, state="active")
        with pytest.raises(NotFound):
            await spaces.activate(connection, 999)


# --- the statement -------------------------------------------------------------------------------------------


async def test_what_search_sets_does_not_outlive_it(library: Store) -> None:
    """Planner settings hold for the search's transaction: the pool's connections serve others too."""
    await library.search.search("annual leave", EVERYONE)
    async with library.database.engine.connect() as connection:
        modes = [
            await connection.scalar(text(f"SHOW {name}"))
            for name in ("plan_cache_mode", "hnsw.iterative_scan")
        ]
    assert modes == ["auto", "off"]


async def test_tokens_are_kept_in_their_rows(library: Store) -> None:
    """Compressed or moved out, they would be unpacked once a term and row: five times the work of a search."""
    async with library.database.engine.connect() as connection:
        options = await connection.scalar(text("SELECT reloptions FROM pg_class WHERE relname = 'chunks'"))
    assert options == ["toast_tuple_target=8160"]


async def test_occurrences_are_read_from_ranks(library: Store) -> None:
    """A chunk's count of a term is exact, up to the 255 that a tsvector keeps."""
    async with library.database.engine.begin() as connection:
        for times in (1, 2, 3, 17, 254, 255, 300):
            scope = Scope(EVERYONE, language="en")
            await connection.execute(
                text("UPDATE chunks SET tokens = CAST(:tokens AS tsvector)"),
                {"tokens": tsvector_literal(["other", *["leave"] * times])},
            )
            ground = await prepare(connection, ["leave"], 100)
            legs = Legs(scope)
            legs.by_keywords(["leave"], ground.statistics, 10)
            found = await legs.candidates(connection, ["absent", "leave"])
            assert {tuple(one.counts.items()) for one in found} == {(("leave", min(times, 255)),)}


async def test_a_pasted_page_is_a_question_too(library: Store) -> None:
    """Thousands of words are cut to the telling ones, and answered."""
    page = " ".join(f"paragraph{n} about many things" for n in range(3_000)) + " annual leave"
    result = await library.search.search(page, EVERYONE, top_k=3)
    assert result.passages


@pytest.fixture(scope="module")
def session(postgres_url: str) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@given(text=st.text(st.characters(), max_size=400))
@settings(max_examples=100, deadline=None)
def test_postgres_takes_the_tokens_of_any_text(
    session: "psycopg.Connection[tuple[object, ...]]", text: str
) -> None:
    """Every text is a tsvector and a tsquery, and finds itself whenever it has a token."""
    for terms in (tokens(text), lexemes(text)):
        found = session.execute(
            "SELECT %s::tsvector @@ %s::tsquery", (tsvector_literal(terms), tsquery_literal(terms))
        )
        assert found.fetchone() == (bool(terms),)
    assert set(query_lexemes(text)) <= set(lexemes(text))
    assert session.execute("SELECT %s::text", (clean(text),)).fetchone() == (clean(text),)


def test_postgres_takes_more_than_it_can_hold(session: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Long tokens, many positions and megabytes are cut to what a tsvector holds."""
    vast = ["x" * 5_000, "年" * 900, *["the"] * 30_000, *(f"word{n}" * 20 for n in range(20_000))]
    for terms in (vast[2:], lexemes(" ".join(vast))):
        assert session.execute("SELECT length(%s::tsvector)", (tsvector_literal(terms),)).fetchone()
        assert session.execute("SELECT numnode(%s::tsquery)", (tsquery_literal(terms),)).fetchone()
