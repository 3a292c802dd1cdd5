"""Documents: what readers see changes in one step or not at all."""

import asyncio

import pytest
from sqlalchemy import text

from store.chunks import content_hash
from store.database import Database
from store.documents import Documents, NewChunk, NewDocument, VersionRow
from store.embedding import NoEmbedder
from store.errors import EmbeddingFailed, NotFound
from tests.embedder import HashEmbedder


class WideEmbedder(HashEmbedder):
    """Another model, with vectors of another length."""

    model = "hash-128"
    dimension = 128


class FailsAfter(WideEmbedder):
    """Answers some batches, then no more."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    async def passages(self, texts):  # type: ignore[no-untyped-def]
        if not self.left:
            raise EmbeddingFailed
        self.left -= 1
        return await super().passages(texts)


@pytest.fixture
async def database(database_url: str):  # type: ignore[no-untyped-def]
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def documents(database: Database, embedder: HashEmbedder) -> Documents:
    return Documents(database.engine, embedder)


class Shelf:
    """Short words for the tests: put a document in, look what the tables say."""

    def __init__(self, database: Database, documents: Documents, embedder: HashEmbedder) -> None:
        self.database = database
        self.documents = documents
        self.embedder = embedder

    async def add(self, body: str, *, source: str = "leave.md", collection: str = "hr", **more) -> VersionRow:  # type: ignore[no-untyped-def]
        return await self.documents.add(NewDocument(collection, source, body.encode(), **more))

    async def publish(self, version: VersionRow, *texts: str, title: str = "Leave") -> VersionRow:
        chunks = [NewChunk(n, ("A",), n + 1, chunk) for n, chunk in enumerate(texts)]
        vectors = await self.embedder.passages(list(texts))
        return await self.documents.publish(
            version.id,
            chunks,
            vectors,
            markdown="\n\n".join(texts),
            pages=len(texts),
            title=title,
            language="en",
        )

    async def live(self, *texts: str, **more) -> VersionRow:  # type: ignore[no-untyped-def]
        return await self.publish(await self.add("".join(texts), **more), *texts)

    async def value(self, statement: str) -> object:
        async with self.database.engine.connect() as connection:
            return await connection.scalar(text(statement))

    async def visible(self) -> list[str]:
        async with self.database.engine.connect() as connection:
            found = await connection.execute(
                text(
                    "SELECT c.text FROM chunks c JOIN documents d ON d.current_version_id = c.version_id ORDER BY c.id"
                )
            )
            return [row.text for row in found]


@pytest.fixture
def shelf(database: Database, documents: Documents, embedder: HashEmbedder) -> Shelf:
    return Shelf(database, documents, embedder)


async def test_a_published_version_is_what_readers_see(shelf: Shelf) -> None:
    """Before publication nothing is visible; after it the chunks, the title and the counts are."""
    version = await shelf.add("bytes")
    assert version.state == "pending"
    assert await shelf.visible() == []
    published = await shelf.publish(version, "Ten days.", "Ask your lead.")
    assert (published.state, published.chunk_count, published.pages) == ("live", 2, 2)
    assert await shelf.visible() == ["Ten days.", "Ask your lead."]
    row = (await shelf.documents.list())[0]
    assert (row.title, row.language, row.state, row.version, row.version_id) == (
        "Leave",
        "en",
        "live",
        1,
        version.id,
    )
    assert row.chunk_count == 2
    assert [(c.page, c.heading_path) for c in await shelf.documents.chunks(version.id)] == [
        (1, ("A",)),
        (2, ("A",)),
    ]
    assert await shelf.documents.markdown(version.id) == "Ten days.\n\nAsk your lead."


async def test_the_old_version_is_served_until_the_new_one_is_published(shelf: Shelf) -> None:
    """A re-upload changes nothing for readers until its publication, which replaces all chunks at once."""
    old = await shelf.live("Ten days.")
    new = await shelf.add("other bytes")
    await shelf.documents.set_progress(new.id, "convert", 1, 2)
    assert await shelf.visible() == ["Ten days."]
    assert (await shelf.documents.show(new.document_id)).state == "converting"
    await shelf.publish(new, "Twelve days.")
    assert await shelf.visible() == ["Twelve days."]
    assert (await shelf.documents.version(old.id)).state == "retired"
    assert new.number == 2


async def test_a_failing_publication_leaves_the_old_version(shelf: Shelf) -> None:
    """When any part of the transaction fails, readers see the old version and nothing of the new one."""
    await shelf.live("Ten days.")
    new = await shelf.add("other bytes")
    broken = [NewChunk(0, (), None, "fine"), NewChunk(0, (), None, "same ordinal")]
    with pytest.raises(Exception, match="uq_chunks_version_id_ordinal"):
        await shelf.documents.publish(new.id, broken, [], markdown="", pages=None, title="X", language="en")
    assert await shelf.visible() == ["Ten days."]
    assert (await shelf.documents.version(new.id)).state == "pending"
    assert await shelf.value("SELECT count(*) FROM chunks") == 1


async def test_identical_bytes_make_no_new_version(shelf: Shelf) -> None:
    """The same bytes again give the version that is live, or the one that waits, and no other."""
    waiting = await shelf.add("bytes")
    assert (await shelf.add("bytes")).id == waiting.id
    await shelf.publish(waiting, "Ten days.")
    again = await shelf.add("bytes")
    assert (again.id, again.state) == (waiting.id, "live")
    assert (await shelf.add("bytes", source="copy.md")).id != waiting.id


async def test_the_old_bytes_again_after_a_failure_heal_the_document(shelf: Shelf) -> None:
    """Uploading what is live after a failed version clears the failure from the list."""
    live = await shelf.live("Ten days.")
    bad = await shelf.add("bad bytes")
    await shelf.documents.fail(bad.id, "broken", "xref")
    row = await shelf.documents.show(live.document_id)
    assert (row.state, row.error_code, row.error_detail, row.version_id) == (
        "failed",
        "broken",
        "xref",
        live.id,
    )
    assert (await shelf.add("Ten days.")).id == live.id
    assert (await shelf.documents.show(live.document_id)).state == "live"


async def test_bytes_are_kept_for_what_may_be_read_again(shelf: Shelf) -> None:
    """The bytes of the current version stay; those of retired and failed ones go."""
    first = await shelf.live("one")
    await shelf.live("two")
    failed = await shelf.add("three")
    await shelf.documents.fail(failed.id, "broken")
    assert await shelf.value("SELECT string_agg(convert_from(data, 'utf8'), ',') FROM uploads") == "two"
    with pytest.raises(NotFound):
        await shelf.documents.upload(first.id)


async def test_an_upload_carries_what_ingestion_needs(shelf: Shelf) -> None:
    """Name, profile and bytes come back as they were given."""
    await shelf.documents.ensure_collection("hr", profile="faq")
    version = await shelf.add("bytes", media_type="text/markdown")
    upload = await shelf.documents.upload(version.id)
    assert (upload.source, upload.profile, upload.data) == ("leave.md", "faq", b"bytes")
    assert upload.version.media_type == "text/markdown"


async def test_a_version_ends_once(shelf: Shelf) -> None:
    """A published version cannot fail or be published again, and a late progress report changes nothing."""
    version = await shelf.live("Ten days.")
    await shelf.documents.fail(version.id, "broken")
    await shelf.documents.set_progress(version.id, "embed", 1, 2)
    await shelf.publish(version, "Something else.")
    assert await shelf.visible() == ["Ten days."]
    assert (await shelf.documents.version(version.id)).state == "live"


async def test_an_older_version_never_replaces_a_newer(shelf: Shelf) -> None:
    """A job that ends late retires its version instead of taking readers back."""
    older = await shelf.add("one")
    newer = await shelf.add("two")
    await shelf.publish(newer, "New.")
    assert (await shelf.publish(older, "Old.")).state == "retired"
    assert await shelf.visible() == ["New."]


async def test_old_versions_are_pruned_to_two(shelf: Shelf) -> None:
    """The current version and the one before keep their chunks; every version keeps its row."""
    versions = [await shelf.live(f"Text {n}.") for n in range(4)]
    counts = [len(await shelf.documents.chunks(version.id)) for version in versions]
    assert counts == [0, 0, 1, 1]
    assert [v.number for v in await shelf.documents.versions(versions[0].document_id)] == [4, 3, 2, 1]


async def test_unchanged_chunks_keep_their_vectors(shelf: Shelf) -> None:
    """The vectors of chunks that a document had before are known by hash, as literals that can be stored again."""
    await shelf.live("Ten days.", "Ask your lead.")
    new = await shelf.add("more")
    same, other = NewChunk(0, ("A",), 1, "Ten days."), NewChunk(1, ("A",), 2, "Changed.")
    hashes = [content_hash("Leave", same), content_hash("Leave", other)]
    known = await shelf.documents.known_vectors(new.id, hashes)
    assert list(known) == hashes[:1]
    fresh = await shelf.embedder.passages(["Changed."])
    await shelf.documents.publish(
        new.id, [same, other], [known[hashes[0]], *fresh], markdown="", pages=1, title="Leave", language="en"
    )
    assert await shelf.value("SELECT count(DISTINCT vector::text) FROM embeddings") == 3


async def test_counts_follow_the_visible_chunks(shelf: Shelf) -> None:
    """Corpus size, mean length and version move with every publication and removal; a refresh finds them right."""
    corpus = "SELECT chunks || ' ' || round(average_length::numeric, 3) FROM corpus"
    await shelf.live("Ten days of leave.", "Ask your lead.")
    await shelf.live("Twelve days.", source="leave.md")
    other = await shelf.live("Trains before planes.", source="travel.md")
    moved = await shelf.value(corpus)
    await shelf.documents.refresh_statistics()
    assert await shelf.value(corpus) == moved
    assert str(moved).startswith("2 ")
    before = await shelf.value("SELECT version FROM corpus")
    await shelf.documents.remove(other.document_id)
    assert str(await shelf.value(corpus)).startswith("1 ")
    assert await shelf.value("SELECT version FROM corpus") == before + 1  # type: ignore[operator]


async def test_lexemes_count_visible_chunks_only(shelf: Shelf) -> None:
    """Document frequencies are those of current versions, without what was replaced or removed."""
    await shelf.live("alpha beta", source="a.md")
    await shelf.live("alpha gamma", source="a.md")
    gone = await shelf.live("alpha delta", source="b.md")
    await shelf.documents.refresh_statistics()
    frequency = "SELECT coalesce(sum(documents), 0) FROM lexemes WHERE lexeme = '{}'"
    assert [await shelf.value(frequency.format(word)) for word in ("alpha", "beta", "gamma")] == [2, 0, 1]
    await shelf.documents.remove(gone.document_id)
    assert [await shelf.value(frequency.format(word)) for word in ("alpha", "delta")] == [1, 0]


async def test_removal_takes_everything_along(shelf: Shelf) -> None:
    """After removal no chunk, vector or byte of the document is left, and removing it again is an error."""
    version = await shelf.live("Ten days.")
    await shelf.documents.remove(version.document_id)
    for table in ("documents", "versions", "chunks", "embeddings", "uploads"):
        assert await shelf.value(f"SELECT count(*) FROM {table}") == 0
    with pytest.raises(NotFound):
        await shelf.documents.remove(version.document_id)
    with pytest.raises(NotFound):
        await shelf.publish(version, "Too late.")


async def test_collections_are_removed_whole(shelf: Shelf) -> None:
    """Removing a collection removes its documents and no others."""
    await shelf.live("one", source="a.md")
    await shelf.live("two", source="b.md")
    await shelf.live("three", collection="it")
    assert await shelf.documents.remove_collection("hr") == 2
    assert await shelf.visible() == ["three"]
    assert [c.name for c in await shelf.documents.collections()] == ["it"]


async def test_removal_by_uploader_spares_what_others_touched(shelf: Shelf) -> None:
    """Documents that only the handbook uploaded go; one that somebody replaced stays."""
    await shelf.live("one", source="a.md", uploaded_by="handbook")
    await shelf.live("two", source="b.md", uploaded_by="handbook")
    await shelf.live("two, mine", source="b.md", uploaded_by="cli:ada")
    assert await shelf.documents.remove_uploaded_by("handbook") == 1
    assert await shelf.visible() == ["two, mine"]


async def test_documents_follow_their_collections_audience(shelf: Shelf) -> None:
    """Without an audience of its own a document has its collection's, also when that changes."""
    await shelf.documents.ensure_collection("hr", audience=["slack:C1"])
    version = await shelf.live("Ten days.")
    assert (await shelf.documents.show(version.document_id)).audience == ("slack:C1",)
    await shelf.documents.set_collection_audience("hr", ["everyone"])
    assert (await shelf.documents.show(version.document_id)).audience == ("everyone",)


async def test_an_audience_of_its_own_stays(shelf: Shelf) -> None:
    """A document set to its collection's very audience by hand does not open up when the collection does."""
    await shelf.documents.ensure_collection("hr", audience=["slack:C1"])
    version = await shelf.live("Ten days.")
    calls = len(shelf.embedder.passage_batches)
    await shelf.documents.set_audience(version.document_id, ["slack:C1"])
    await shelf.documents.set_collection_audience("hr", ["everyone"])
    assert (await shelf.documents.show(version.document_id)).audience == ("slack:C1",)
    await shelf.documents.set_audience(version.document_id, None)
    row = await shelf.documents.show(version.document_id)
    assert (row.audience, row.inherits_audience) == (("everyone",), True)
    assert len(shelf.embedder.passage_batches) == calls


async def test_a_wider_audience_waits_for_its_version(shelf: Shelf) -> None:
    """A re-upload for more readers does not show them the version before."""
    old = await shelf.live("Secret.", audience=("slack:C1",))
    new = await shelf.add("Public.", audience=("everyone",))
    assert (await shelf.documents.show(old.document_id)).audience == ("slack:C1",)
    await shelf.publish(new, "Public.")
    assert (await shelf.documents.show(old.document_id)).audience == ("everyone",)


async def test_an_empty_audience_is_refused(shelf: Shelf) -> None:
    """A document that nobody could read is a mistake, not a setting."""
    version = await shelf.live("Ten days.")
    with pytest.raises(ValueError, match="principal"):
        await shelf.documents.set_audience(version.document_id, [" "])


async def test_without_a_model_there_are_no_vectors(database: Database) -> None:
    """Documents are published with keywords alone and no space is made."""
    documents = Documents(database.engine, NoEmbedder())
    version = await documents.add(NewDocument("hr", "a.md", b"x"))
    await documents.publish(
        version.id,
        [NewChunk(0, (), None, "Ten days.")],
        [],
        markdown="",
        pages=None,
        title="A",
        language="en",
    )
    assert await documents.active_space() is None
    with pytest.raises(EmbeddingFailed):
        await documents.reindex()


async def test_reindexing_builds_beside_and_switches(shelf: Shelf) -> None:
    """Another model's space is complete before search reads it, and the old one's vectors are still there."""
    await shelf.live(*[f"Text {n}." for n in range(70)], source="a.md")
    old = await shelf.documents.active_space()
    seen: list[tuple[int, int]] = []

    async def progress(done: int, of: int) -> None:
        seen.append((done, of))
        active = await shelf.documents.active_space()
        assert active == old

    space = await shelf.documents.reindex(WideEmbedder(), progress)
    assert (space.model, space.dimension, space.state) == ("hash-128", 128, "active")
    assert seen == [(64, 70), (70, 70)]
    assert await shelf.value(f"SELECT count(*) FROM embeddings WHERE space_id = {space.id}") == 70
    assert (
        await shelf.value(f"SELECT vector_dims(vector) FROM embeddings WHERE space_id = {space.id} LIMIT 1")
        == 128
    )
    assert await shelf.value("SELECT count(*) FROM spaces WHERE state = 'active'") == 1
    assert await shelf.value("SELECT count(*) FROM embeddings") == 140


async def test_reindexing_goes_on_where_it_stopped(shelf: Shelf) -> None:
    """When the model fails half way search reads the old space; the next run embeds only what is missing."""
    await shelf.live(*[f"Text {n}." for n in range(150)], source="a.md")
    old = await shelf.documents.active_space()
    with pytest.raises(EmbeddingFailed):
        await shelf.documents.reindex(FailsAfter(1))
    assert await shelf.documents.active_space() == old
    second = WideEmbedder()
    space = await shelf.documents.reindex(second)
    assert space.state == "active"
    assert sum(map(len, second.passage_batches)) == 150 - 64


async def test_concurrent_first_publications_share_one_space(shelf: Shelf) -> None:
    """Eight documents published at once, the first ever, end in one active space and right counts."""
    versions = [await shelf.add(f"{n}", source=f"{n}.md") for n in range(8)]
    await asyncio.gather(*(shelf.publish(version, f"Text {n}.") for n, version in enumerate(versions)))
    assert await shelf.value("SELECT count(*) FROM spaces") == 1
    assert await shelf.value("SELECT chunks FROM corpus") == 8


async def test_text_that_postgres_cannot_store_is_cleaned(shelf: Shelf) -> None:
    """NUL and lone surrogates in names and error details do not fail the upload."""
    version = await shelf.add("x", source="a\0b\ud800.md", uploaded_by="u\0")
    await shelf.documents.fail(version.id, "broken", "a\0b")
    row = await shelf.documents.show(version.document_id)
    assert (row.source, row.error_detail) == ("ab\ufffd.md", "ab")
