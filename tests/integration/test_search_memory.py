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


async def test_neighbours_take_one_place(store: Store, embedder: HashEmbedder) -> None:
    """Asked to join, chunks that follow one another are one passage with the ids of both, and others move up."""
    await publish(
        store,
        embedder,
        "hr",
        "long.md",
        ["travel budget one", "travel budget two", "x", "travel budget four"],
    )
    await publish(store, embedder, "hr", "other.md", ["travel budget of others"])
    plain = await store.search.search("travel budget", EVERYONE, top_k=3)
    whole = await store.search.search("travel budget", EVERYONE, top_k=3, joined_up_to=1_000)
    assert all(passage.parts == () for passage in plain.passages)
    assert len({passage.id for passage in whole.passages}) == 3
    together = [passage for passage in whole.passages if passage.parts]
    assert len(together) == 1
    assert "travel budget one\ntravel budget two" in together[0].text
    assert together[0].id in together[0].parts


# --- what is named exactly ---------------------------------------------------------------------------------------

NAMED = {
    "第三条": "第三条 员工依法享有带薪年假。",
    "第四条": "第四条 员工依法享有带薪病假。",
    "3.2": "3.2 The notice period is thirty days.",
    "3.3": "3.3 The trial period is ninety days.",
    "7(b)": "§7(b) The penalty for late payment is five percent.",
    "7(a)": "§7(a) The discount for early payment is two percent.",
    "ISO-9001": "ISO-9001 audits take place in spring.",
    "ISO-9002": "ISO-9002 audits take place in autumn.",
    "ERR_0042": "ERR_0042 证书已过期，请联系 IT。",
    "ERR_0043": "ERR_0043 密码已过期，请联系 IT。",
    "C++": "C++ code is reviewed by two people.",
    "C": "C code is reviewed by one person.",
}


@pytest.fixture
async def named(store: Store, embedder: HashEmbedder) -> Store:
    for number, texts in enumerate(zip(*[iter(NAMED.values())] * 2, strict=True)):
        await publish(store, embedder, "it", f"{number}.md", texts, title="rules")
    return store


async def test_clauses_and_identifiers_are_found_by_name(named: Store) -> None:
    """However they are written, in a question of either language, what is named comes before what looks like it."""
    questions = {
        "第三条": ("第三条", "第三条规定了什么？", "第 3 条", "What does Article 3 say?"),
        "3.2": ("3.2", "clause 3.2", "第 3.2 条说的是什么", "３．２"),
        "7(b)": ("§7(b)", "what is in 7(b)", "§ 7 (b)", "第7条(b)"),
        "ISO-9001": ("ISO-9001", "iso 9001 audits", "ISO-9001 审核在什么时候"),
        "ERR_0042": ("ERR_0042", "err_0042 怎么办", "What does ERR_0042 mean?"),
        "C++": ("C++", "C++ 代码由谁评审", "who reviews c++"),
    }
    missed = []
    for name, asked in questions.items():
        for question in asked:
            found = await named.search.search(question, EVERYONE, top_k=1)
            if [passage.text for passage in found.passages] != [NAMED[name]]:
                missed.append((question, [passage.text for passage in found.passages]))
    assert missed == []


async def test_a_mixed_question_loses_neither_half(store: Store, embedder: HashEmbedder) -> None:
    """Of "VPN 客户端" the Latin word finds one passage, the Chinese word another, and both together the third first."""
    await publish(store, embedder, "it", "a.md", ["VPN access is granted by IT."])
    await publish(store, embedder, "it", "b.md", ["客户端每周更新一次。"])
    await publish(store, embedder, "it", "c.md", ["VPN 客户端的安装步骤如下。"])
    found = await store.search.search("VPN 客户端怎么安装", EVERYONE, top_k=10)
    assert found.passages[0].source == "c.md"
    assert {passage.source for passage in found.passages if passage.keyword_rank} == {"a.md", "b.md", "c.md"}
