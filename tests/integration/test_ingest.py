"""Ingestion end to end: bytes in, visible chunks out; a bad file fails alone and says why."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from reportlab.platypus import PageBreak
from sqlalchemy import text

from store import Store
from store.database import Database
from store.documents import Documents, NewChunk, NewDocument
from store.embedding import NoEmbedder
from store.errors import EmbeddingFailed, IngestError, NotFound
from store.ingest.component import SignoffRetriever
from store.ingest.pipeline import IngestSettings, ingest
from store.passages import Passage, SearchResult
from store.search import Searcher
from tests import documents as make
from tests.embedder import HashEmbedder

LEAVE = b"# Leave\n\n## Annual\n\nTen days a year.\n\n## Sick\n\nA doctor's note after three days.\n"
SETTINGS = IngestSettings()


@dataclass(frozen=True)
class Shelves:
    """The part of a store that ingestion uses."""

    documents: Documents


class Ingesting:
    """Uploads and ingests, and remembers the progress it was told."""

    def __init__(self, database: Database, embedder: HashEmbedder | NoEmbedder) -> None:
        self.database = database
        self.embedder = embedder
        self.documents = Documents(database.engine, embedder)
        self.progress: list[tuple[str, int, int]] = []

    async def upload(self, data: bytes, name: str = "leave.md", collection: str = "hr") -> int:
        return (await self.documents.add(NewDocument(collection, name, data))).id

    async def run(self, version_id: int, settings: IngestSettings = SETTINGS):  # type: ignore[no-untyped-def]
        async def told(step: str, done: int, of: int) -> None:
            self.progress.append((step, done, of))
            await self.documents.set_progress(version_id, step, done, of)

        store = Shelves(self.documents)
        return await ingest(store, self.embedder, version_id, settings=settings, on_progress=told)  # type: ignore[arg-type]

    async def texts(self) -> list[str]:
        async with self.database.engine.connect() as connection:
            found = await connection.execute(
                text(
                    "SELECT c.text FROM chunks c JOIN documents d ON d.current_version_id = c.version_id ORDER BY c.id"
                )
            )
            return [row.text for row in found]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def ingesting(database: Database, embedder: HashEmbedder) -> Ingesting:
    return Ingesting(database, embedder)


async def test_markdown_becomes_chunks_with_their_headings(ingesting: Ingesting) -> None:
    """A Markdown upload is visible with its title, heading paths, language and one vector for each chunk."""
    version_id = await ingesting.upload(LEAVE)
    done = await ingesting.run(version_id)
    assert (done.version.state, done.title, done.embedded) == ("live", "Leave", 2)
    chunks = await ingesting.documents.chunks(version_id)
    assert [(c.heading_path, c.text) for c in chunks] == [
        (("Annual",), "Ten days a year."),
        (("Sick",), "A doctor's note after three days."),
    ]
    row = await ingesting.documents.show(done.version.document_id)
    assert (row.title, row.language, row.chunk_count) == ("Leave", "en", 2)
    assert done.version.media_type == "text/markdown"
    assert ingesting.embedder.passage_batches == [  # type: ignore[union-attr]
        ["Leave\nAnnual\nTen days a year.", "Leave\nSick\nA doctor's note after three days."]
    ]


async def test_a_pdf_table_across_pages_keeps_its_pages(ingesting: Ingesting) -> None:
    """Chunks of a table that crosses a page carry its header, and the page their own rows begin on."""
    rows = [["城市", "级别", "上限"], *[[f"城市{n}", "A", str(n * 10)] for n in range(90)]]
    pdf = make.document(("住宿标准", make.ZH_TITLE), make.grid(rows, [120, 80, 80]))
    version_id = await ingesting.upload(pdf, "travel.pdf")
    done = await ingesting.run(version_id)
    assert (done.version.pages, done.title) == (3, "住宿标准")
    chunks = await ingesting.documents.chunks(version_id)
    assert all(chunk.text.startswith("| 城市 | 级别 | 上限 |") for chunk in chunks)
    assert [chunk.page for chunk in chunks] == sorted(chunk.page or 0 for chunk in chunks)
    assert {chunk.page for chunk in chunks} == {1, 2, 3}
    assert all(any(f"城市{n} " in chunk.text for chunk in chunks) for n in range(90))


async def test_progress_is_told_in_order(ingesting: Ingesting) -> None:
    """The last report is the finished write; reports never go back."""
    await ingesting.run(await ingesting.upload(b"# A\n\n" + b"Many words. " * 3000))
    steps = [step for step, _, _ in ingesting.progress]
    order = ["convert", "split", "embed", "write"]
    assert steps == sorted(steps, key=order.index)
    last = ingesting.progress[-1]
    assert last[0] == "write"
    assert last[1] == last[2] > 50


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "a.md", "empty"),
        (b"<html>", "a.pdf", "broken"),
        (b"PK\x03\x04", "a.docx", "broken"),
        (b"\0\1\2", "a.txt", "not_text"),
        (make.encrypted(), "a.pdf", "encrypted"),
        (make.scanned(), "a.pdf", "scanned"),
        (make.document(("x", make.BODY))[:700], "a.pdf", "broken"),
        (b"# x\n" * 2_000, "a.md", "too_large"),
    ],
)
async def test_a_bad_file_fails_alone(ingesting: Ingesting, data: bytes, name: str, code: str) -> None:
    """The version is marked with the reason, the version before it is served, and the next file is read."""
    before = await ingesting.upload(b"the good version", name)
    chunk = NewChunk(0, (), None, "Ten days a year.")
    await ingesting.documents.publish(
        before, [chunk], [], markdown="Ten days a year.", pages=None, title="Leave", language="en"
    )
    bad = await ingesting.upload(data, name)
    with pytest.raises(IngestError) as caught:
        await ingesting.run(bad, IngestSettings(max_bytes=7_000))
    assert caught.value.code == code
    version = await ingesting.documents.version(bad)
    assert (version.state, version.error_code) == ("failed", code)
    assert "Ten days a year." in await ingesting.texts()
    await ingesting.run(await ingesting.upload(b"# B\n\nOther.", "b.md"))
    assert "Other." in await ingesting.texts()


async def test_only_changed_chunks_are_embedded(ingesting: Ingesting) -> None:
    """A new version asks the model for its new chunks alone."""
    await ingesting.run(await ingesting.upload(LEAVE))
    done = await ingesting.run(await ingesting.upload(LEAVE.replace(b"Ten days", b"Twelve days")))
    assert done.embedded == 1
    assert await ingesting.texts() == ["Twelve days a year.", "A doctor's note after three days."]


async def test_ingesting_twice_changes_nothing(ingesting: Ingesting) -> None:
    """A job that runs again finds its work done."""
    version_id = await ingesting.upload(LEAVE)
    await ingesting.run(version_id)
    ids = [chunk.id for chunk in await ingesting.documents.chunks(version_id)]
    assert (await ingesting.run(version_id)).version.state == "live"
    assert [chunk.id for chunk in await ingesting.documents.chunks(version_id)] == ids


async def test_a_removed_document_is_not_found(ingesting: Ingesting) -> None:
    """Removing a document while its job waits leaves nothing to do, and says so."""
    version_id = await ingesting.upload(LEAVE)
    await ingesting.documents.remove((await ingesting.documents.version(version_id)).document_id)
    with pytest.raises(NotFound):
        await ingesting.run(version_id)


async def test_a_model_that_fails_leaves_the_version_to_be_tried_again(database: Database) -> None:
    """When embedding fails the version is unfinished, not failed; the next run completes it."""

    class Flaky(HashEmbedder):
        fails = True

        async def passages(self, texts):  # type: ignore[no-untyped-def]
            if self.fails:
                raise EmbeddingFailed
            return await super().passages(texts)

    model = Flaky()
    ingesting = Ingesting(database, model)
    version_id = await ingesting.upload(LEAVE)
    with pytest.raises(EmbeddingFailed):
        await ingesting.run(version_id)
    assert (await ingesting.documents.version(version_id)).state in ("pending", "converting", "embedding")
    assert await ingesting.texts() == []
    model.fails = False
    assert (await ingesting.run(version_id)).version.state == "live"


async def test_a_fault_of_ours_is_named_internal(database: Database) -> None:
    """An exception nobody foresaw fails the version with a code of its own, instead of trying for ever."""

    class Wrong(HashEmbedder):
        async def passages(self, texts):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError

    ingesting = Ingesting(database, Wrong())
    version_id = await ingesting.upload(LEAVE)
    with pytest.raises(IngestError, match="internal"):
        await ingesting.run(version_id)
    assert (await ingesting.documents.version(version_id)).error_code == "internal"


async def test_without_a_model_keywords_are_enough(database: Database) -> None:
    """Documents are published without vectors when no embedding model is there."""
    ingesting = Ingesting(database, NoEmbedder())
    done = await ingesting.run(await ingesting.upload(LEAVE))
    assert (done.version.state, done.embedded) == ("live", 0)


async def test_the_collections_profile_is_used(ingesting: Ingesting) -> None:
    """A collection of questions and answers is split by pairs."""
    await ingesting.documents.ensure_collection("faq", profile="faq")
    pairs = "\n".join(f"Q: Question {n}?\nA: Answer {n}." for n in range(2))
    version_id = await ingesting.upload(pairs.encode(), "faq.md", "faq")
    await ingesting.run(version_id)
    assert len(await ingesting.documents.chunks(version_id)) == 2


async def test_the_event_loop_goes_on_while_a_pdf_is_read(ingesting: Ingesting) -> None:
    """Reading happens in a thread: a heartbeat beside it is never late by half of the time it takes."""
    pages = [part for n in range(12) for part in ((f"Page {n}. " + "Words and words. " * 150, make.BODY),)]
    version_id = await ingesting.upload(make.document(*pages), "long.pdf")
    loop = asyncio.get_running_loop()
    late = 0.0

    async def heartbeat() -> None:
        nonlocal late
        while True:
            due = loop.time() + 0.05
            await asyncio.sleep(0.05)
            late = max(late, loop.time() - due)

    beating = asyncio.create_task(heartbeat())
    began = loop.time()
    await ingesting.run(version_id)
    beating.cancel()
    assert late < 0.5 * (loop.time() - began)


async def test_files_are_ingested_side_by_side(ingesting: Ingesting) -> None:
    """Six uploads at once, one of them broken, end in five visible documents."""
    versions = [await ingesting.upload(f"# D{n}\n\nText {n}.".encode(), f"{n}.md") for n in range(5)]
    versions.append(await ingesting.upload(b"no pdf", "broken.pdf"))
    results = await asyncio.gather(*(ingesting.run(v) for v in versions), return_exceptions=True)
    assert [isinstance(result, IngestError) for result in results] == [False] * 5 + [True]
    assert sorted(await ingesting.texts()) == [f"Text {n}." for n in range(5)]


def test_no_telemetry_and_no_haystack_outside_ingestion() -> None:
    """Importing the store loads no Haystack, and ingestion switches its telemetry off before it is loaded."""
    program = (
        "import sys, store, store.documents; assert 'haystack' not in sys.modules; import store.ingest.pipeline;"
        "from haystack.telemetry import _telemetry; assert _telemetry.telemetry is None"
    )
    clean = {"PATH": os.defpath, "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


class Searching:
    """A search that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...], int]] = []

    async def search(self, query, principals, *, top_k=10, joined_up_to=0):  # type: ignore[no-untyped-def]
        self.asked.append((query, tuple(principals), top_k))
        passage = Passage(
            7, 1, 2, 1, "hr", "Leave", "leave.md", ("Annual",), 3, "Ten days.", "h", "en",
            frozenset({"everyone"}), frozenset(), datetime(2026, 1, 1, tzinfo=UTC), score=0.03,
        )  # fmt: skip
        return SearchResult((passage,), 0.8, calibrated=True)


async def test_the_retriever_works_in_a_pipeline() -> None:
    """Query and readers go to the search, passages come back as Haystack documents with where they stand."""
    from haystack import Pipeline  # after store.ingest, which says no to telemetry

    searching = Searching()
    pipeline = Pipeline()
    pipeline.add_component("retriever", SignoffRetriever(searching))
    inputs = {"retriever": {"query": "annual leave", "principals": ["everyone"], "top_k": 3}}
    found = (await pipeline.run_async(inputs))["retriever"]
    assert searching.asked == [("annual leave", ("everyone",), 3)]
    document = found["documents"][0]
    assert (document.id, document.content, document.score, found["confidence"]) == (
        "7",
        "Ten days.",
        0.03,
        0.8,
    )
    assert document.meta["heading_path"] == ["Annual"]
    assert document.meta["page"] == 3
    again = await asyncio.to_thread(pipeline.run, inputs)
    assert again["retriever"]["documents"][0].id == "7"


async def test_a_synchronous_run_on_the_loop_is_refused() -> None:
    """Waiting for one's own event loop would hang for ever; it is an error at once."""
    retriever = SignoffRetriever(Searching())
    with pytest.raises(RuntimeError, match="run_async"):
        retriever.run("x", ["everyone"])


async def test_what_was_ingested_is_found_by_its_readers(store: Store, embedder: HashEmbedder) -> None:
    """Search finds an ingested passage with its heading and page, for those who may read it and nobody else."""
    pdf = make.document(
        ("Leave policy", make.TITLE), PageBreak(), ("Annual", make.HEADING), ("Ten days a year.", make.BODY)
    )
    version = await store.documents.add(NewDocument("hr", "leave.pdf", pdf, audience=("web:#hr",)))
    await ingest(store, embedder, version.id, settings=SETTINGS)
    found = (await store.search.search("annual leave days", ["web:#hr"], top_k=1)).passages
    assert [(p.text, p.title, p.heading_path, p.page) for p in found] == [
        ("Ten days a year.", "Leave policy", ("Annual",), 2)
    ]
    assert not (await store.search.search("annual leave days", ["everyone"])).passages
    await store.documents.set_audience(version.document_id, ["everyone"])
    assert (await store.search.search("annual leave days", ["everyone"])).passages
    await store.documents.remove(version.document_id)
    assert not (await store.search.search("annual leave days", ["everyone"])).passages


async def test_search_follows_the_space_that_was_switched_to(store: Store, embedder: HashEmbedder) -> None:
    """After reindexing for another model, a search with that model uses vectors and is not degraded."""

    class Wide(HashEmbedder):
        model = "hash-128"
        dimension = 128

    version = await store.documents.add(NewDocument("hr", "leave.md", LEAVE))
    await ingest(store, embedder, version.id, settings=SETTINGS)
    wide = Wide()
    await store.documents.reindex(wide)
    found = await Searcher(store.database.engine, wide).search("annual leave", ["everyone"])
    assert found.degraded == ()
    assert found.passages[0].vector_rank is not None
    old = await store.search.search("annual leave", ["everyone"])
    assert old.degraded == ("embedding",)
