"""The numbers of the quality page, against rows whose answer is known."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, text

from bench.quality import plant
from store import Store, schema
from store.database import transaction
from store.quality import Figures, Span
from store.standing import Waiting
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.workspace import settings_for, workspace

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPAN = Span(NOW, days=7, step="day", zone="Asia/Shanghai")
MONDAY = datetime(2026, 11, 30, 1, tzinfo=UTC)
SUNDAY = datetime(2026, 11, 29, 2, tzinfo=UTC)
LATE_SUNDAY = datetime(2026, 11, 29, 16, 30, tzinfo=UTC)  # Monday morning in Shanghai


async def write(store: Store, table: Any, **values: Any) -> None:
    async with transaction(store.database.engine) as connection:
        await connection.execute(insert(table).values(**values))


async def asked(store: Store, name: str, at: datetime, state: str = "answered") -> None:
    async with transaction(store.database.engine) as connection:
        await connection.execute(
            text("INSERT INTO conversations VALUES ('web:hr:t', 'web', 'hr') ON CONFLICT DO NOTHING")
        )
    await write(
        store, schema.questions, id=name, conversation_id="web:hr:t", asker="web:lin", text="?", language="en",
        state=state, asked_at=at, finished_at=at,
    )  # fmt: skip


async def ran(store: Store, name: str, at: datetime, outcome: str = "answered", **values: Any) -> None:
    """A run; `seconds` and `tokens` as short forms."""
    seconds, spent = values.pop("seconds", None), values.pop("spent", (0, 0))
    timings = {"resume": 5.0} if seconds is None else {"wait": 500.0, "answer": 1_000 * seconds - 500}
    tokens = {"prompt": spent[0], "completion": spent[1]}
    await write(
        store,
        schema.runs,
        question_id=name,
        outcome=outcome,
        created_at=at,
        timings=timings,
        tokens=tokens,
        **values,
    )


@pytest.fixture
async def passages(store: Store, embedder: HashEmbedder) -> dict[str, list[int]]:
    """Two documents of two passages, in two collections."""
    found = {}
    for collection in ("hr", "contracts"):
        version = await publish(
            store, embedder, collection, f"{collection}.md", ["One thing.", "Another thing."]
        )
        found[collection] = [chunk.id for chunk in await store.documents.chunks(version.id)]
    return found


@pytest.fixture
async def week(store: Store, passages: dict[str, list[int]]) -> Store:
    """A Sunday and a Monday of a small house.

    Sunday: one answer that hits, one that does not. Monday: one not known, one asked back, one failed, one that waited
    for a reviewer and was edited, one of the variant "b"; all but the first two Monday ones are of Monday in Shanghai.
    """
    hr, contracts = passages["hr"], passages["contracts"]
    await asked(store, "hit", SUNDAY)
    await ran(store, "hit", SUNDAY, seconds=1, spent=(100, 10), retrieved=hr, cited=[hr[1]], cost=0.01)
    await asked(store, "miss", SUNDAY)
    await ran(
        store,
        "miss",
        SUNDAY,
        seconds=3,
        spent=(300, 30),
        retrieved=[hr[0], contracts[0]],
        cited=[contracts[0]],
    )
    await asked(store, "unknown", LATE_SUNDAY, "declined")
    await ran(store, "unknown", LATE_SUNDAY, "declined", seconds=2, retrieved=hr)
    await asked(store, "vague", MONDAY)
    await ran(store, "vague", MONDAY, "clarified", seconds=0.5)
    await asked(store, "broken", MONDAY, "failed")
    await asked(store, "held", SUNDAY)
    await ran(
        store, "held", SUNDAY, "held", seconds=4, spent=(400, 40), retrieved=contracts, cited=contracts[:1]
    )
    await ran(store, "held", MONDAY, "answered", retrieved=contracts, cited=contracts[:1])
    await asked(store, "other", MONDAY)
    await ran(store, "other", MONDAY, seconds=9, retrieved=[10**9, hr[0]], cited=[hr[0]], variant="b")
    review = {"interrupt_id": "i", "version_hash": "", "reason": "contracts", "draft": {}, "audience": []}
    await write(store, schema.reviews, question_id="held", state="edited", opened_at=SUNDAY,
                decided_at=SUNDAY + timedelta(hours=23), **review)  # fmt: skip
    await write(store, schema.feedback, question_id="hit", person="web:lin", helpful=True, given_at=MONDAY)
    await write(store, schema.feedback, question_id="miss", person="web:lin", helpful=False, given_at=MONDAY)
    return store


async def test_a_week_is_counted_by_day(week: Store) -> None:
    """Each thing in the day it happened on, in the house's time zone; days without anything are there, empty."""
    report = await week.quality.report(SPAN)
    days = {figures.begins: figures for figures in report.buckets}
    assert list(days) == [date(2026, 11, 24) + timedelta(days=n) for n in range(7)]
    assert days[date(2026, 11, 24)] == Figures(begins=date(2026, 11, 24))
    sunday, monday = days[date(2026, 11, 29)], days[date(2026, 11, 30)]
    assert (sunday.questions, sunday.answered, sunday.hits, sunday.told) == (2, 2, 1, 2)
    assert (sunday.prompt, sunday.completion, sunday.cost) == (800, 80, 0.01)
    assert (monday.questions, monday.answered, monday.declined, monday.clarified) == (4, 2, 1, 1)
    assert (monday.failed, monday.edited, monday.liked, monday.disliked) == (1, 1, 1, 1)
    assert (monday.hits, monday.told) == (1, 1)  # of "other" nobody can tell: its first passage is gone
    assert monday.decision_seconds == 23 * 3_600
    assert report.collections == ("contracts", "hr")
    assert report.variants == ("", "b")


async def test_the_whole_is_not_the_sum_of_medians(week: Store) -> None:
    """Percentiles are of all questions together, without those that waited for a person; counts add up."""
    report = await week.quality.report(SPAN)
    assert report.whole.p50 == 2.0
    assert report.whole.p99 == pytest.approx(8.76)
    assert report.whole.questions == sum(figures.questions for figures in report.buckets) == 6
    assert (report.whole.hits, report.whole.told) == (2, 3)
    assert report.whole.begins is None


async def test_by_week_begins_on_monday(week: Store) -> None:
    """Seven days that reach into two weeks are two weeks, the first one whole."""
    report = await week.quality.report(replace(SPAN, step="week"))
    assert [figures.begins for figures in report.buckets] == [date(2026, 11, 23), date(2026, 11, 30)]
    assert [figures.questions for figures in report.buckets] == [2, 4]


async def test_one_collection_and_one_variant(week: Store) -> None:
    """A run is of the collections that it cites, or else found; reviews and opinions follow their question."""
    contracts = (await week.quality.report(replace(SPAN, collection="contracts"))).whole
    assert (contracts.questions, contracts.answered, contracts.edited, contracts.disliked) == (2, 2, 1, 1)
    assert (contracts.liked, contracts.failed) == (0, 0)
    hr = (await week.quality.report(replace(SPAN, collection="hr"))).whole
    assert (hr.questions, hr.answered, hr.declined, hr.liked, hr.edited) == (3, 2, 1, 1, 0)
    variant = (await week.quality.report(replace(SPAN, variant="b"))).whole
    assert (variant.questions, variant.p50, variant.told) == (1, 9.0, 0)
    themselves = (await week.quality.report(replace(SPAN, variant="", collection="hr"))).whole
    assert themselves.questions == 2


async def test_what_stands_in_the_queue_is_counted(store: Store) -> None:
    """Jobs that could run now with the age of the oldest; one that is scheduled waits for its time and nobody else."""
    await store.queue.defer("answer", {"question_id": "q"}, lock="a")
    await store.queue.defer("answer", {"question_id": "r"}, lock="b")
    await store.queue.defer("redraw", {"review_id": 1}, lock="card:1", schedule_in=3_600)
    async with transaction(store.database.engine) as connection:
        await connection.execute(text("UPDATE procrastinate_events SET at = now() - interval '90 seconds'"))
    await write(store, schema.canaries, variant="b", percent=20, started_by="web:admin")
    standing = await store.standings.now()
    assert standing.jobs["answers"].many == 2
    assert 89 < standing.jobs["answers"].oldest < 120
    assert standing.reviews == Waiting()
    assert standing.canary == 20


async def test_the_page_draws_what_was_counted(database_url: str, tmp_path: Path) -> None:
    """A month of a busy house in pictures and tables; one collection of nothing is said in a sentence."""
    async with workspace(database_url, settings_for(tmp_path), working=False) as site:
        await plant(site.app.store.database.engine, 400, 30, documents=6)
        async with httpx.AsyncClient(base_url=site.address, timeout=20) as client:
            page = (await client.get("/~admin/console/quality?days=30&by=week")).text
            assert page.count('<svg class="plot"') == 9
            assert page.count('<tr><th scope="row">') >= 9 * 5
            assert "First-hit rate" in page
            assert " style=" not in page
            empty = (await client.get("/~admin/console/quality?variant=nobody&days=7")).text
            assert '<svg class="plot"' not in empty
            assert empty.count("Nothing of this kind happened") == 8
            odd = await client.get("/~admin/console/quality?days=x&by=y&collection=%00&variant=%F0%9F")
            assert odd.status_code == 200
