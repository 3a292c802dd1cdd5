"""Documents through their life: what a new version changed, a step back, pages looked at again, the preview."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.admin import Admin
from bot.app import Parts, open_app
from bot.cli import ingesting
from bot.cli.ingesting import Shelf
from bot.settings import Settings
from store import Store
from store.documents import VersionRow
from store.errors import IngestError, NotFound
from store.ingest.fetch import Fetched, Fetcher, FetchLimits
from tests import office
from tests.embedder import HashEmbedder

FIRST = b"# Leave\n\n## Annual\n\nTen days a year.\n\n## Sick\n\nA doctor's note after three days.\n"
SECOND = FIRST.replace(b"Ten", b"Twelve") + b"\n## Parental\n\nSix months.\n"


class Web(Fetcher):
    """Pages by address; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(FetchLimits())
        self.pages: dict[str, Fetched | IngestError | None] = {}
        self.asked: list[tuple[str, str, str]] = []

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched | None:
        self.asked.append((url, etag, last_modified))
        page = self.pages[url]
        if isinstance(page, IngestError):
            raise page
        return page


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
async def shelves(store: Store, embedder: HashEmbedder, web: Web, tmp_path: Path) -> Admin:
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml", profiles={"mail": "messages"})
    return Admin(store, embedder, settings, web)


async def put(shelves: Admin, data: bytes, name: str = "leave.md", collection: str = "hr") -> VersionRow:
    version = await shelves.upload(name, data, collection=collection, by="web:admin")
    return version if version.state == "live" else await shelves.ingest(version.id)


async def found(store: Store, question: str) -> list[str]:
    return [passage.text for passage in (await store.search.search(question, ["everyone"])).passages]


async def test_a_new_version_says_what_it_changed(shelves: Admin) -> None:
    """Chunks are counted against the version before: the first adds all, the second what differs."""
    assert (await put(shelves, FIRST)).changes == {"added": 2, "removed": 0, "unchanged": 0}
    assert (await put(shelves, SECOND)).changes == {"added": 2, "removed": 1, "unchanged": 1}


async def test_a_step_back_shows_the_version_before(
    shelves: Admin, store: Store, embedder: HashEmbedder
) -> None:
    """Readers see the earlier text at once, nothing is embedded anew, and the counts follow."""
    first = await put(shelves, FIRST)
    await put(shelves, SECOND.replace(b"# Leave", b"# Absence", 1))
    embedder.passage_batches.clear()
    back = await shelves.rollback(first.document_id)
    assert (back.id, back.state) == (first.id, "live")
    document = await store.documents.show(first.document_id)
    assert (document.version, document.title, document.chunk_count, document.state) == (1, "Leave", 2, "live")
    assert "Ten days a year." in await found(store, "days a year")
    assert not any("Six months" in text for text in await found(store, "Parental six months"))
    assert embedder.passage_batches == []


async def test_a_version_that_was_left_is_gone_back_to_by_its_number_only(
    shelves: Admin, store: Store
) -> None:
    """After a step back and a better third version, a step back leads to the first, never to the one that was left;
    its number still brings it back while its chunks are there."""
    first = await put(shelves, FIRST)
    second = await put(shelves, SECOND)
    await shelves.rollback(first.document_id)
    assert (await shelves.rollback(first.document_id, 2)).id == second.id
    await shelves.rollback(first.document_id, 1)
    third = await put(shelves, FIRST + b"\n## Unpaid\n\nBy agreement.\n")
    assert third.number == 3
    assert (await shelves.rollback(first.document_id)).number == 1


async def test_there_is_not_always_a_step_back(shelves: Admin) -> None:
    """A first version has none before it, and a number nobody gave is none."""
    version = await put(shelves, FIRST)
    with pytest.raises(NotFound):
        await shelves.rollback(version.document_id)
    with pytest.raises(NotFound):
        await shelves.rollback(version.document_id, 7)
    with pytest.raises(NotFound):
        await shelves.rollback(999_999)


async def test_a_step_back_over_a_change_of_model_makes_the_missing_vectors(
    shelves: Admin, store: Store, embedder: HashEmbedder
) -> None:
    """Vectors that the present model never made for the old version are made before readers see it."""
    first = await put(shelves, FIRST)
    await put(shelves, SECOND)

    class Other(HashEmbedder):
        model = "other"

    other = Other()
    await store.documents.reindex(other)
    shelves = Admin(store, other, shelves._settings)
    store.documents._embedder = other
    await shelves.rollback(first.document_id)
    assert [text for batch in other.passage_batches for text in batch if "Ten days" in text]
    assert "Ten days a year." in await found(store, "days a year")


async def test_the_same_bytes_elsewhere_are_recognised(shelves: Admin) -> None:
    """Another document of the very same bytes is named; the same upload again is the version that is there."""
    first = await put(shelves, FIRST)
    twin = await put(shelves, FIRST, "copy.md")
    assert [row.source for row in await shelves.duplicates(twin)] == ["leave.md"]
    assert (await put(shelves, FIRST)).id == first.id
    assert await shelves.duplicates(await put(shelves, SECOND, "other.md")) == []


async def test_office_files_go_the_whole_way(shelves: Admin, store: Store) -> None:
    """A deck's notes and a sheet's rows are found, with their slide and their header."""
    deck = office.deck()
    office.slide(deck, "Onboarding", "Laptop", notes="Badges are handed out in room 4.")
    await put(shelves, office.saved(deck), "deck.pptx")
    await put(shelves, office.workbook({"Rates": [["city", "limit"], ["Paris", 200]]}), "rates.xlsx")
    result = await store.search.search("badges room", ["everyone"])
    assert (result.passages[0].page, "room 4" in result.passages[0].text) == (1, True)
    assert any(
        "| city | limit |" in text and "| Paris | 200 |" in text for text in await found(store, "Paris limit")
    )


async def test_a_watched_file_keeps_its_name(
    tmp_path: Path, database_url: str, embedder: HashEmbedder
) -> None:
    """A file that changes in a watched folder is the next version of the document it was, in its folder's collection;
    half-written and foreign files are left alone."""
    folder = tmp_path / "docs"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr/leave.md").write_bytes(FIRST)
    shelf = Shelf(None, None, "cli:test")
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    async with open_app(settings, database_url, Parts(embedder=embedder)) as app:
        (first,) = await ingesting.upload(app, ingesting.files_below([folder]), shelf)
        assert first.version is not None
        watching = asyncio.create_task(ingesting._watch_files(app, [folder], shelf))
        row = await app.store.documents.show(first.version.document_id)
        for _ in range(100):
            if row.version == 2:
                break
            (folder / "hr/~$leave.docx").write_bytes(b"lock")
            (folder / "hr/leave.md").write_bytes(SECOND)
            await asyncio.sleep(0.2)
            row = await app.store.documents.show(first.version.document_id)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert [(row.collection, row.source, row.version) for row in await app.admin.list()] == [
            ("hr", "hr/leave.md", 2)
        ]


# --- pages -----------------------------------------------------------------------------------------------------


URL = "https://example.org/leave"


async def test_a_page_is_read_and_looked_at_again(shelves: Admin, store: Store, web: Web) -> None:
    """The server's marks are kept and sent back; a page that did not change makes no version, one that did does."""
    web.pages[URL] = Fetched(URL, b"<html><h1>Leave</h1><p>Ten days.</p>", "text/html", etag='"1"')
    version = await shelves.add_url(f" {URL}#annual", collection="web", by="web:admin")
    live = await shelves.ingest(version.id)
    assert (live.state, live.media_type, live.title) == ("live", "text/html", "Leave")
    assert (await store.documents.show(live.document_id)).source == URL

    web.pages[URL] = None
    assert await shelves.refetch() == []  # looked at a moment ago
    assert [page.version for page in await shelves.refetch(timedelta())] == [None]
    assert web.asked[-1] == (URL, '"1"', "")

    web.pages[URL] = Fetched(URL, b"<html><h1>Leave</h1><p>Twelve days.</p>", "text/html", etag='"2"')
    (page,) = await shelves.refetch(timedelta())
    assert page.version is not None
    await shelves.ingest(page.version.id)
    assert "Twelve days." in await found(store, "how many days")


async def test_a_page_that_is_gone_stays_as_it_was_read(shelves: Admin, store: Store, web: Web) -> None:
    """The reason is kept beside the document, whose text goes on being found."""
    web.pages[URL] = Fetched(URL, b"<html><p>Ten days of leave.</p>", "text/html")
    version = await shelves.add_url(URL, collection="web", by="web:admin")
    await shelves.ingest(version.id)
    web.pages[URL] = IngestError("unreachable", "404")
    (page,) = await shelves.refetch(timedelta())
    assert page.error is not None
    (row,) = await store.pages.due(datetime.now(UTC) + timedelta(seconds=5))
    assert row.error_code == "unreachable"
    assert await store.pages.failing() == {row.document_id: "unreachable"}
    assert "Ten days of leave." in await found(store, "leave")


async def test_a_page_that_is_refused_makes_no_document(shelves: Admin, web: Web) -> None:
    """Nothing is stored for an address that may not be asked."""
    web.pages[URL] = IngestError("address_refused", "example.org")
    with pytest.raises(IngestError):
        await shelves.add_url(URL, collection="web", by="web:admin")
    assert await shelves.list() == []


# --- preview -----------------------------------------------------------------------------------------------------


MAIL = "\n\n".join(f"From: a{n}@example.org\nSubject: s{n}\n\nSee you at {n}." for n in range(4)).encode()


async def test_a_preview_shows_the_chunks_and_stores_nothing(shelves: Admin, embedder: HashEmbedder) -> None:
    """Title, profile and chunks as ingestion would make them: the same ones, and no trace of it."""
    shown = await shelves.preview("leave.md", FIRST)
    assert (shown.title, shown.profile, shown.guessed) == ("Leave", "structured", True)
    assert [chunk.text for chunk in shown.chunks] == ["Ten days a year.", "A doctor's note after three days."]
    assert (await shelves.list(), embedder.passage_batches) == ([], [])
    with pytest.raises(IngestError, match="empty"):
        await shelves.preview("a.md", b" ")


async def test_the_profile_is_the_collections_or_guessed(shelves: Admin, store: Store) -> None:
    """Mail is guessed by its marks; a collection's setting counts before any guess, in the preview and for good."""
    assert (await shelves.preview("a.txt", MAIL)).profile == "messages"
    shown = await shelves.preview("leave.md", FIRST, collection="mail")
    assert (shown.profile, shown.guessed, len(shown.chunks)) == ("messages", False, 1)
    version = await put(shelves, FIRST, collection="mail")
    assert [chunk.text for chunk in await store.documents.chunks(version.id)] == [shown.chunks[0].text]
