"""A twentieth of the chaos runs; the whole of them is `make bench-chaos`.

Processes, transports, stand-ins and timings are those of the full runs, only fewer people ask for a shorter time.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.emulators.slack.client import StandIn
from tests.load import chaos
from tests.load.fleet import Nursery
from tests.load.previous import Missing
from tests.load.upgrade import upgraded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.fixture
def ground(stand_in: StandIn, nursery: Nursery, database_url: str, tmp_path: Path) -> chaos.Ground:
    return chaos.Ground(database_url, stand_in, tmp_path, nursery)


async def test_killed_processes_lose_double_and_mix_up_nothing(ground: chaos.Ground) -> None:
    """Two processes, one of them killed with -9 in the middle of ten questions that arrive two to four times, four
    clicks against each other on each review: each answered once and in order, each review decided once."""
    report = await chaos.killed(
        ground, questions=10, conversations=4, held=4, processes=2, kills=1, every=6.0, seed=7
    )
    assert report.faults == []
    assert report.reviews >= 4
    assert len(report.measured["recoveries"]) == 1


async def test_a_database_that_comes_back_finds_everything_that_was_acknowledged(
    stand_in: StandIn, nursery: Nursery, tmp_path: Path
) -> None:
    """Postgres is killed under questions and started again: what was acknowledged is stored and answered, and a
    question asked then is answered within fifteen seconds."""
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            await migrate(url)
            ground = chaos.Ground(url, stand_in, tmp_path, nursery)
            report = await chaos.restarted(
                ground,
                server,
                questions=8,
                conversations=4,
                held=2,
                processes=1,
                restarts=1,
                away=2.0,
                every=8.0,
            )
        finally:
            server.stop()
    assert report.faults == []
    assert len(report.measured["working_again_seconds"]) == 1


async def test_a_platform_that_refuses_and_forgets_gets_each_answer_once(ground: chaos.Ground) -> None:
    """Of all calls 30 % are answered with 429 and 5 % carried out and never answered: no answer is there twice, none
    is missing without a word."""
    report = await chaos.limited(ground, questions=10, conversations=4, held=2, over=5.0, seed=3)
    assert report.faults == []
    assert report.measured["met"]["ratelimited"] > 5
    assert report.measured["met"]["lost"] > 0


async def test_a_failing_model_leaves_nobody_without_a_word(ground: chaos.Ground) -> None:
    """A third of the model's calls fails (429, 500, a cut stream): every question ends in an answer, quotations or an
    honest sentence. Silence of a minute is left to the full run, which waits for it."""
    report = await chaos.unsteady(ground, questions=12, held=2, odds=0.4, hang=0.2, over=3.0, budget=60.0)
    assert report.faults == []
    assert sum(report.measured["model_calls"].values()) > report.measured["model_calls"]["Say"]


async def test_a_burst_is_acknowledged_and_answered_whole(ground: chaos.Ground) -> None:
    """Fifty direct messages in half a second: each is acknowledged and answered once. How soon is for the full run: a
    wall clock on shared processors judges the neighbours."""
    report = await chaos.burst(ground, events=50, over=0.5, people=10, processes=1, ack=60.0)
    assert report.faults == []
    assert report.questions == 50


async def test_an_upgrade_under_load_loses_nothing(ground: chaos.Ground, empty_database_url: str) -> None:
    """The release before this schema serves, its drafts wait and a document is queued; the schema is migrated under
    it and its process replaced: everything is answered once, what waited is decided, the document still waits."""
    try:
        report = await upgraded(
            ground,
            empty_database_url,
            questions=8,
            conversations=4,
            held=3,
            processes=1,
            over=5.0,
            worker=False,  # eight seconds of imports; the whole run has it
        )
    except Missing as missing:
        pytest.skip(str(missing))
    assert report.faults == []
    assert report.measured["paused_reviews"] >= 1


async def test_without_the_inbox_key_the_kit_finds_doubles(ground: chaos.Ground) -> None:
    """The kit can fail: with the inbox's unique key removed, questions delivered twice are answered twice, and the
    judge says so."""
    with psycopg.connect(ground.database, autocommit=True) as connection:
        connection.execute("ALTER TABLE inbox DROP CONSTRAINT uq_inbox_platform_dedupe_key")
    report = await chaos.limited(
        ground, questions=4, conversations=4, held=0, ratelimited=0.0, lost=0.0, over=1.0, copies=(2, 2)
    )
    assert any("stored" in fault and "times" in fault for fault in report.faults)
    assert any("was answered" in fault and "times" in fault for fault in report.faults)
