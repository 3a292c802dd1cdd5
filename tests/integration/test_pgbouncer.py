"""Everything through the real PgBouncer in transaction mode, and only what a session keeps over a direct URL."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from bot.app import Parts
from store import Store, open_store
from store.database import connection_string, migrate
from store.queue import Retry, Timing
from tests.bouncer import BINARY, bounced
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.scenario.desk import Desk, desk

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="no pgbouncer on this machine: install it (apt-get install pgbouncer) to run these"
)


@pytest.fixture
def pooled_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "bouncer"
    folder.mkdir()
    with bounced(database_url, folder) as url:
        yield url


@asynccontextmanager
async def team(pooled: str, direct: str, folder: Path, timing: Timing | None = None) -> AsyncIterator[Desk]:
    parts = Parts(embedder=HashEmbedder(), timing=timing)
    async with desk(
        pooled, folder, parts, database_url=SecretStr(pooled), database_direct_url=SecretStr(direct)
    ) as opened:
        yield opened


async def test_row_07_and_38_a_question_goes_all_the_way(
    pooled_url: str, database_url: str, tmp_path: Path
) -> None:
    """Asked, answered, held, decided, resumed and remembered, with every statement through two pooled sessions. Rows 7
    and 38."""
    async with team(pooled_url, database_url, tmp_path) as opened:
        assert (await opened.answered("年假可以休多少天？")).state == "answered"
        review = await opened.held("合同第 3.2 条规定多少日内付款？")
        assert (await opened.decide(review, "approve")).key == "done"
        row = await opened.ended(review.question_id)
        assert row.answer is not None
        assert "45" in row.answer["text"]
        rows = await asyncio.gather(
            *(opened.answered("年假可以休多少天？", thread=f"c{n}") for n in range(8))
        )
        assert {one.state for one in rows} == {"answered"}


async def test_the_queue_wakes_by_listening(pooled_url: str, database_url: str) -> None:
    """With polling out of reach, a job starts because the direct session heard of it."""
    timing = Timing(poll=60.0)
    ran: list[int] = []

    async def note(number: int) -> None:
        ran.append(number)

    async with open_store(pooled_url, HashEmbedder(), timing=timing, direct_url=database_url) as store:
        store.queue.task("note", note, retry=Retry())
        working = asyncio.create_task(store.queue.run_worker(["answers"]))
        await asyncio.sleep(2.0)  # past the worker's own first look
        await store.queue.defer("note", {"number": 1}, lock="a")
        for _ in range(100):
            if ran:
                break
            await asyncio.sleep(0.05)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert ran == [1]


async def _recall(store: Store) -> list[list[int]]:
    found = [await store.search.search(f"word{n} word{n + 1}", ["everyone"], top_k=10) for n in range(30)]
    return [[passage.id for passage in result.passages] for result in found]


async def test_row_25_search_finds_the_same(pooled_url: str, database_url: str) -> None:
    """Thirty searches, each result in the same order as over a direct connection: the search's own settings travel
    with its transaction. Row 25."""
    embedder = HashEmbedder()
    async with open_store(database_url, embedder) as store:
        for number in range(6):
            texts = [f"word{number * 10 + n} is about word{n}" for n in range(10)]
            await publish(store, embedder, "hr", f"{number}.md", texts)
        directly = await _recall(store)
    async with open_store(pooled_url, embedder, direct_url=database_url) as store:
        assert await _recall(store) == directly
    assert all(directly)


async def test_migrating_needs_the_direct_url(pooled_url: str, database_url: str) -> None:
    """Repeated over the server itself it is harmless, while pooled sessions work."""
    async with await psycopg.AsyncConnection.connect(
        connection_string(pooled_url), prepare_threshold=None
    ) as pooled:
        await pooled.execute("SELECT 1")
        await pooled.commit()
        await migrate(database_url)
