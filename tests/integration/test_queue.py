"""The queue: order for each lock, nothing lost, nothing locked for ever."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from store.database import Database, transaction
from store.errors import DatabaseUnavailable
from store.queue import Queue, Retry, Timing, build_queue

ROOT = Path(__file__).parents[2]
QUICK = Timing(heartbeat=0.1, quiet=0.5, stalled=20.0, rescue=0.1, poll=0.2, shutdown=0.5)
ONCE = Retry(attempts=1)
Admin = psycopg.Connection[tuple[object, ...]]

# Takes jobs, writes down what it begins, and never ends one; with "block" it stops its event loop too.
STUCK = """
import asyncio, sys, time
from store.database import connection_string
from store.queue import Queue, Retry, Timing, build_queue
url, record, how = sys.argv[1:]
async def main():
    queue = Queue(build_queue(connection_string(url), Timing(heartbeat=0.1, quiet=0.5, stalled=20.0, rescue=0.1)))
    async def work(name):
        with open(record, "a") as file:
            file.write(name + "\\n")
        time.sleep(2.5) if how == "block" else await asyncio.sleep(600)
    queue.task("work", work, retry=Retry())
    async with queue.opened():
        await queue.run_worker(["answers"])
asyncio.run(main())
"""


@pytest.fixture
async def queue(database_url: str) -> AsyncIterator[Queue]:
    """An open queue with compressed times."""
    async with another(database_url) as opened:
        yield opened


@contextlib.asynccontextmanager
async def another(url: str, timing: Timing = QUICK) -> AsyncIterator[Queue]:
    async with Queue(build_queue(url, timing)).opened() as opened:
        yield opened


@contextlib.asynccontextmanager
async def working(*queues: Queue) -> AsyncIterator[None]:
    """Workers for the length of the block."""
    tasks = [asyncio.create_task(queue.run_worker(["answers"])) for queue in queues]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def stuck_process(
    url: str, record: Path, how: str = "sleep"
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STUCK, url, str(record), how, cwd=ROOT
    )
    try:
        await until(record.exists, 30)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


async def jobs(queue: Queue, **filters: Any) -> list[tuple[str, str]]:
    """(lock, status) of what is stored."""
    return [
        (job.lock or "", job.status or "") for job in await queue.app.job_manager.list_jobs_async(**filters)
    ]


async def gone(queue: Queue) -> None:
    """Wait until every job succeeded; those are deleted."""
    async with asyncio.timeout(10):
        while await jobs(queue):
            await asyncio.sleep(0.02)


class Record:
    """Remembers what ran, and whether two of one lock ran at once."""

    def __init__(self, lasting: float = 0.0) -> None:
        self.ran: list[str] = []
        self.running: set[str] = set()
        self.overlaps = 0
        self._lasting = lasting

    async def work(self, name: str) -> None:
        lock = name.split("/")[0]
        self.overlaps += lock in self.running
        self.running.add(lock)
        await asyncio.sleep(self._lasting)
        self.running.discard(lock)
        self.ran.append(name)


async def defer(queue: Queue, name: str, **options: Any) -> int:
    return await queue.defer("work", {"name": name}, lock=name.split("/")[0], **options)


# --- order


async def test_jobs_of_one_lock_run_in_order_and_never_at_once(queue: Queue, database_url: str) -> None:
    """Two workers, ten locks, eight jobs each: FIFO for each lock."""
    record = Record(lasting=0.005)
    async with another(database_url) as second:
        for worker in (queue, second):
            worker.task("work", record.work, retry=ONCE)
        names = [f"{lock}/{number}" for number in range(8) for lock in "abcdefghij"]
        for name in names:
            await defer(queue, name)
        async with working(queue, second):
            await until(lambda: len(record.ran) == len(names), 30)
    assert record.overlaps == 0
    for lock in "abcdefghij":
        assert [name for name in record.ran if name[0] == lock] == [f"{lock}/{number}" for number in range(8)]


async def test_the_next_job_of_a_lock_starts_as_soon_as_it_opens(queue: Queue) -> None:
    """procrastinate alone would look at its next poll, here in half a minute."""
    queue.app.timing = Timing(poll=30.0)
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    async with working(queue):
        for number in range(5):
            await defer(queue, f"a/{number}")
        await until(lambda: len(record.ran) == 5, 5)


async def test_a_failed_job_holds_its_lock_until_it_succeeded(queue: Queue) -> None:
    """A retry keeps the order: the question asked later is answered later."""
    ran: list[str] = []

    async def work(name: str) -> None:
        ran.append(name)
        if ran.count("a/0") < 3:
            raise OSError(name)

    queue.task("work", work, retry=Retry(attempts=5, initial_seconds=0.05, longest_seconds=0.1))
    await defer(queue, "a/0")
    await defer(queue, "a/1")
    async with working(queue):
        await gone(queue)
    assert ran == ["a/0", "a/0", "a/0", "a/1"]


async def test_a_scheduled_job_needs_a_lock_of_its_own(queue: Queue) -> None:
    """A reminder locked like its question would hold up the answer until it is due."""
    record = Record()
    queue.task("remind", record.work, retry=ONCE)
    queue.task("work", record.work, retry=ONCE)
    for lock in ("question:1", "web:general:1", "remind"):
        with pytest.raises(ValueError, match="hold up every later job"):
            await queue.defer("remind", {"name": "late"}, lock=lock, schedule_in=60)
    await queue.defer("remind", {"name": "late"}, lock="remind:1", schedule_in=0.5)
    await defer(queue, "question:1")
    async with working(queue):
        await gone(queue)
    assert record.ran == ["question:1", "late"]


# --- with the transaction


async def test_a_job_is_stored_with_its_transaction_or_not_at_all(queue: Queue, database_url: str) -> None:
    """Rolled back, no job is left; committed, it is there."""
    database = Database(database_url)

    async def defer_and(fail: bool) -> None:
        async with transaction(database.engine) as connection:
            await queue.defer("work", {"name": "a"}, lock="a", connection=connection)
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        await defer_and(fail=True)
    assert await jobs(queue) == []
    await defer_and(fail=False)
    assert await jobs(queue) == [("a", "todo")]
    await database.close()


# --- failing


async def test_the_last_failure_is_told_once(queue: Queue) -> None:
    """After the last attempt `exhausted` gets the job's arguments, and the lock opens for the next job."""
    told: list[str] = []
    tried: list[str] = []

    async def work(name: str) -> None:
        tried.append(name)
        raise OSError

    async def exhausted(name: str) -> None:
        told.append(name)

    queue.task("work", work, retry=Retry(3, 0.02, 0.05), exhausted=exhausted)
    await defer(queue, "a/0")
    await defer(queue, "a/1")
    async with working(queue):
        await until(lambda: len(told) == 2)
    assert told == ["a/0", "a/1"]
    assert tried == ["a/0"] * 3 + ["a/1"] * 3
    assert await jobs(queue, status="failed") == [("a", "failed"), ("a", "failed")]
    await queue.sweep(older_than_hours=0)
    assert await jobs(queue) == []


async def test_telling_is_tried_again_when_it_fails_too(queue: Queue) -> None:
    """A failure is never silent: the job is not given up before it was told."""
    told: list[str] = []

    async def work(name: str) -> None:
        raise OSError

    async def exhausted(name: str) -> None:
        told.append(name)
        if len(told) < 3:
            raise OSError

    queue.task("work", work, retry=Retry(1, 0.02, 0.05), exhausted=exhausted)
    await defer(queue, "a/0")
    async with working(queue):
        await until(lambda: len(told) == 3)
    assert await jobs(queue) == [("a", "failed")]


@pytest.mark.parametrize("outage", [DatabaseUnavailable(), psycopg.OperationalError("gone")])
async def test_a_database_that_does_not_answer_costs_no_attempt(queue: Queue, outage: Exception) -> None:
    """However long it is away, the question is answered afterwards, not given up."""
    tried: list[str] = []

    async def work(name: str) -> None:
        tried.append(name)
        if len(tried) < 5:
            raise outage

    async def exhausted(name: str) -> None:
        raise AssertionError(name)

    queue.task("work", work, retry=Retry(2, 0.02, 0.05), exhausted=exhausted)
    await defer(queue, "a/0")
    async with working(queue):
        await gone(queue)
    assert len(tried) == 5


@pytest.mark.parametrize("failures", [1, 2, 5, 40])
def test_pauses_grow_to_a_limit_with_jitter(failures: int) -> None:
    """Exponential, at least half of it, never above the longest pause, never an overflow."""
    rule = Retry(attempts=50, initial_seconds=1.0, longest_seconds=8.0)
    pauses = {rule.pause(failures) for _ in range(50)}
    whole = min(8.0, 2.0 ** (failures - 1))
    assert all(whole / 2 <= pause <= whole for pause in pauses)
    assert len(pauses) > 1


# --- dying


async def test_a_killed_workers_job_is_run_by_another(
    queue: Queue, database_url: str, tmp_path: Path
) -> None:
    """SIGKILL: the job runs again within seconds, and only then the next one of its lock. Row 33."""
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    await defer(queue, "a/1")
    async with stuck_process(database_url, tmp_path / "begun") as process, working(queue):
        await asyncio.sleep(1.0)
        assert record.ran == []
        process.kill()
        began = asyncio.get_running_loop().time()
        await until(lambda: len(record.ran) == 2)
        assert asyncio.get_running_loop().time() - began < 8
    assert record.ran == ["a/0", "a/1"]
    assert (tmp_path / "begun").read_text() == "a/0\n"


async def test_a_worker_whose_loop_is_blocked_is_not_taken_for_dead(
    queue: Queue, database_url: str, tmp_path: Path
) -> None:
    """Its heartbeat stops but its session lives. By heartbeat alone its job ran twice at once, despite the lock."""
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    async with stuck_process(database_url, tmp_path / "begun", "block"), working(queue):
        await asyncio.sleep(1.5)
        assert record.ran == []
        await gone(queue)
    assert record.ran == []


async def test_a_worker_without_sign_of_life_is_given_up_in_the_end(queue: Queue, database_url: str) -> None:
    """Where sessions outlive their processes (PgBouncer), the heartbeat alone decides, later."""
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    worker = await queue.app.job_manager.register_worker()  # its session stays: this process lives
    assert await queue.app.job_manager.fetch_job(["answers"], worker)
    async with another(database_url, Timing(quiet=0.2, stalled=1.0)) as second:
        await asyncio.sleep(0.4)
        assert await second.rescue() == []
        await asyncio.sleep(0.8)
        assert len(await second.rescue()) == 1
    assert await jobs(queue) == [("a", "todo")]
    await queue.app.job_manager.pulse.close()


async def test_stopping_waits_for_running_jobs(queue: Queue) -> None:
    """A job that ends within the grace ends properly, and no other begins."""
    record = Record(lasting=0.3)
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    await defer(queue, "a/1")
    async with working(queue):
        await until(lambda: record.running == {"a"})
    assert record.ran == ["a/0"]
    assert await jobs(queue) == [("a", "todo")]


async def test_what_is_cut_at_the_end_of_the_grace_runs_again(queue: Queue, database_url: str) -> None:
    """A job that takes longer than the shutdown is not lost: the next worker runs it."""
    record = Record(lasting=60)
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    async with working(queue):
        await until(lambda: record.running == {"a"})
    assert await jobs(queue) == [("a", "todo")]
    async with another(database_url) as second:
        quick = Record()
        second.task("work", quick.work, retry=ONCE)
        async with working(second):
            await gone(second)
    assert quick.ran == ["a/0"]


async def test_a_job_that_kills_every_worker_is_told_at_last(queue: Queue) -> None:
    """Out of memory each time: it is given up and told rather than killing workers for ever."""
    told: list[str] = []
    record = Record()

    async def exhausted(name: str) -> None:
        told.append(name)

    queue.task("work", record.work, retry=Retry(attempts=2), exhausted=exhausted)
    await defer(queue, "a/0")
    await queue.app.connector.execute_query_async("UPDATE procrastinate_jobs SET attempts = 22")
    async with working(queue):
        await until(lambda: bool(told))
    assert record.ran == []


# --- outages


@contextlib.contextmanager
def outage(admin: Admin, url: str) -> Any:
    """The database refuses every session for the length of the block."""
    name = make_url(url).database or ""
    switch = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    admin.execute(switch.format(sql.Identifier(name), sql.SQL("false")))
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    try:
        yield
    finally:
        admin.execute(switch.format(sql.Identifier(name), sql.SQL("true")))


async def test_finishing_waits_for_the_database(queue: Queue, database_url: str, admin: Admin) -> None:
    """A job that ends during an outage runs once, is finished afterwards, and its lock opens."""
    record = Record(lasting=0.3)
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    await defer(queue, "a/1")
    async with working(queue):
        await until(lambda: record.running == {"a"})
        with outage(admin, database_url):
            await until(lambda: record.ran == ["a/0"])
            await asyncio.sleep(1.0)
        await until(lambda: record.ran == ["a/0", "a/1"], 20)
        await gone(queue)


async def test_a_job_its_live_worker_does_not_run_is_freed(queue: Queue) -> None:
    """A lost answer to a fetch, or to a finish, must not lock a conversation for ever."""
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    async with working(queue):
        await until(lambda: bool(queue.app.job_manager.pulse.worker_id))
        worker = queue.app.job_manager.pulse.worker_id
        await queue.app.connector.execute_query_async(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args, status, worker_id)"
            """ VALUES ('answers', 'work', 'a', '{"name": "a/0"}', 'doing', %(worker)s)""",
            worker=worker,
        )
        await defer(queue, "a/1")
        await until(lambda: record.ran == ["a/0", "a/1"])


async def test_running_jobs_are_not_mistaken_for_lost_ones(queue: Queue) -> None:
    """A long job under a live worker runs once, however often the reconciler looks."""
    record = Record(lasting=1.0)
    queue.task("work", record.work, retry=ONCE)
    await defer(queue, "a/0")
    async with working(queue):
        await gone(queue)
    assert record.ran == ["a/0"]


async def test_a_worker_that_was_struck_off_comes_back(queue: Queue) -> None:
    """It finds its registration gone, registers again and works on."""
    record = Record()
    queue.task("work", record.work, retry=ONCE)
    async with working(queue):
        await until(lambda: bool(queue.app.job_manager.pulse.worker_id))
        await queue.app.connector.execute_query_async("DELETE FROM procrastinate_workers")
        await asyncio.sleep(0.3)
        await defer(queue, "a/0")
        await until(lambda: record.ran == ["a/0"], 15)


async def test_a_worker_back_from_the_dead_does_not_finish_anothers_job(queue: Queue) -> None:
    """Its late "done" changes nothing while somebody else runs the job; the lock stays shut."""
    manager = queue.app.job_manager
    await defer(queue, "a/0")
    late = await manager.register_worker()
    taken = await manager.fetch_job(["answers"], late)
    assert taken is not None
    await queue.app.connector.execute_query_async("DELETE FROM procrastinate_workers")
    await queue.rescue()
    again = await manager.fetch_job(["answers"], await manager.register_worker())
    assert again is not None
    assert again.id == taken.id
    await manager.finish_job(taken, status=_succeeded(), delete_job=True)
    assert await jobs(queue) == [("a", "doing")]
    await manager.finish_job(again, status=_succeeded(), delete_job=True)
    assert await jobs(queue) == []
    await manager.pulse.close()


def _succeeded() -> Any:
    from procrastinate.jobs import Status

    return Status.SUCCEEDED


# --- the rest


async def test_a_task_that_this_version_does_not_know_is_left_for_one_that_does(
    queue: Queue, database_url: str
) -> None:
    """While an upgrade goes on, an old worker takes a job of the new version's: it is put back, and done there."""
    done = asyncio.Event()

    async def novel() -> None:
        done.set()

    def put_back() -> bool:
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT status, attempts FROM procrastinate_jobs").fetchone()
        return row == ("todo", 1)

    async with working(queue):
        await queue.defer("novel", {}, lock="novel:1")
        await until(put_back)
    async with another(database_url) as newer:
        newer.task("novel", novel, retry=ONCE)
        async with working(newer):
            await asyncio.wait_for(done.wait(), 10)


async def test_says_whether_anybody_works(queue: Queue) -> None:
    """True while a worker lives; false once it went."""
    assert not await queue.served()
    async with working(queue):
        await until(lambda: bool(queue.app.job_manager.pulse.worker_id))
        assert await queue.served()
    assert not await queue.served()


async def test_periodic_work_runs_in_one_process(queue: Queue, database_url: str) -> None:
    """Two workers, one run for each time; no lock and no retry, which together wedge a queue."""
    times: list[float] = []

    async def sweep() -> None:
        times.append(asyncio.get_running_loop().time())

    async with another(database_url) as second:
        for worker in (queue, second):
            worker.periodic("sweep", sweep, cron="* * * * * *")
            task = worker.app.tasks["sweep"]
            assert task.lock is None
            assert task.retry_strategy is None
        async with working(queue, second):
            await asyncio.sleep(3.2)
    assert 2 <= len(times) <= 4


async def test_rescue_is_nobodys_job(queue: Queue) -> None:
    """Rescuing is done by every worker beside its jobs: as a job it would wait behind what it must free."""
    assert not [name for name in queue.app.tasks if "rescue" in name]
    waiting: list[Awaitable[Any]] = [queue.rescue() for _ in range(5)]
    assert await asyncio.gather(*waiting) == [[]] * 5
