"""What search remembers of recent questions, and the words of an installation that its chunks are cut with."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event

from store import Store, open_store
from store.dictionary import Dictionary
from store.search import Searcher, SearchSettings
from tests.embedder import HashEmbedder
from tests.knowledge import publish

EVERYONE = ("everyone",)


class Statements:
    """Counts what the database is asked for, so that a remembered result is told from a repeated one."""

    def __init__(self, store: Store) -> None:
        self.searches = 0
        event.listen(store.database.engine.sync_engine, "before_cursor_execute", self._seen)

    def _seen(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        self.searches += "WITH v AS" in statement


@pytest.fixture
async def library(store: Store, embedder: HashEmbedder) -> Store:
    await publish(store, embedder, "hr", "leave.md", ["Annual leave is 15 days."])
    return store


async def test_the_same_question_of_the_same_readers_is_remembered(library: Store) -> None:
    """The second time the legs are not asked; the result is the same, in any order of the readers."""
    seen = Statements(library)
    first = await library.search.search("annual leave", ("everyone", "web:a"))
    again = await library.search.search("annual leave", ("web:a", "everyone"))
    assert again.passages == first.passages
    assert (again.confidence, again.corpus_version) == (first.confidence, first.corpus_version)
    assert seen.searches == 1


@pytest.mark.parametrize(
    "changed", ["readers", "top_k", "exclude", "collections", "corpus", "audience", "removed"]
)
async def test_what_an_answer_depends_on_is_asked_anew(
    library: Store, embedder: HashEmbedder, changed: str
) -> None:
    """Other readers, other bounds, a changed document or audience: nothing remembered is shown."""
    first = await library.search.search("annual leave", EVERYONE)
    seen = Statements(library)
    readers = EVERYONE
    options: dict[str, Any] = {}
    document = first.passages[0].document_id
    if changed == "readers":
        readers = ("web:nobody",)
    elif changed in ("top_k", "exclude", "collections"):
        given: Any = {"top_k": 3, "exclude": (first.passages[0].id,), "collections": ("it",)}[changed]
        options = {changed: given}
    elif changed == "corpus":
        await publish(library, embedder, "hr", "leave.md", ["Annual leave is 20 days."])
    elif changed == "audience":
        await library.documents.set_audience(document, ("web:hr",))
    else:
        await library.documents.remove(document)
    found = await library.search.search("annual leave", readers, **options)
    assert seen.searches == 1
    texts = [passage.text for passage in found.passages]
    assert texts == {"top_k": ["Annual leave is 15 days."], "corpus": ["Annual leave is 20 days."]}.get(
        changed, []
    )


async def test_memory_is_bounded_and_may_be_off(library: Store, embedder: HashEmbedder) -> None:
    """Beyond its bound the oldest is forgotten; with none every search asks."""
    seen = Statements(library)
    for remembered, asked in ((2, 4), (0, 8)):
        searcher = Searcher(library.database.engine, embedder, SearchSettings(remembered=remembered))
        for question in ("annual", "leave", "days", "annual"):
            await searcher.search(question, EVERYONE)
        assert seen.searches == asked


# --- words of one's own ------------------------------------------------------------------------------------------

WORDS = Dictionary.of(["灵犀台账", "Blue Heron"])


@pytest.fixture
async def speaking(database_url: str, store: Store, embedder: HashEmbedder) -> AsyncIterator[Store]:
    """The same knowledge base, opened by an installation with words of its own."""
    others = [f"台账 {number}：灵活 犀利 的 台 账 blue sky, heron {number}" for number in range(30)]
    await publish(store, embedder, "it", "others.md", others)
    await publish(store, embedder, "it", "own.md", ["灵犀台账由行政部维护，Blue Heron 每周核对。"])
    async with open_store(database_url, embedder, dictionary=WORDS) as opened:
        yield opened


async def holders(store: Store, word: str) -> int:
    async with store.database.engine.connect() as connection:
        found = await connection.exec_driver_sql(
            "SELECT count(*) FROM chunks WHERE tokens @@ CAST(%(q)s AS tsquery)", {"q": f"'{word}'"}
        )
        return int(found.scalar_one())


async def test_a_changed_dictionary_cuts_the_chunks_again(speaking: Store) -> None:
    """Once, for every chunk; afterwards the words are found as a whole, and nothing is left to do."""
    assert await holders(speaking, "灵犀台账") == 0
    assert await speaking.documents.follow_dictionary() == 31
    assert await holders(speaking, "灵犀台账") == await holders(speaking, "blue heron") == 1
    assert await speaking.documents.follow_dictionary() == 0
    for question in ("灵犀台账谁来维护", "who checks Blue Heron"):
        found = await speaking.search.search(question, EVERYONE, top_k=10)
        assert [p.source for p in found.passages if p.keyword_rank == 1] == ["own.md"]


async def test_new_documents_are_cut_with_the_dictionary(speaking: Store, embedder: HashEmbedder) -> None:
    """Ingestion and questions use the same words, before anything is cut again."""
    await publish(speaking, embedder, "it", "new.md", ["灵犀台账的新说明"])
    assert await holders(speaking, "灵犀台账") == 1


async def test_a_dictionary_taken_away_is_followed_too(
    speaking: Store, store: Store, embedder: HashEmbedder
) -> None:
    """Without words the chunks are as if there had never been any."""
    await speaking.documents.follow_dictionary()
    assert await store.documents.follow_dictionary() == 31
    assert await holders(store, "灵犀台账") == 0


async def test_search_goes_on_while_chunks_are_cut(speaking: Store) -> None:
    """Before, between and after, the passage is found by its other words."""
    before = await speaking.search.search("灵犀台账谁来维护", EVERYONE, top_k=5)
    await speaking.documents.follow_dictionary()
    after = await speaking.search.search("灵犀台账谁来维护", EVERYONE, top_k=5)
    assert "own.md" in {p.source for p in before.passages} & {p.source for p in after.passages}
    assert after.corpus_version > before.corpus_version
