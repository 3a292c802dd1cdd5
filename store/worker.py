"""What procrastinate's worker lacks for us, as subclasses of its own parts.

Measured, and mended here: a `finish_job` that fails once leaves its job "doing" and its lock shut for ever; a
worker stops when one heartbeat, fetch or LISTEN fails; a job that waits for a lock is looked for only at the next
poll; a killed worker's jobs are retried by nobody.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import procrastinate
import psycopg
import structlog
from procrastinate import exceptions, jobs, manager, worker
from psycopg_pool import AsyncConnectionPool

from store.database import Idle
from store.rush import Rush

__all__ = ["QueueApp", "QueueWorker", "Timing"]

log = structlog.get_logger(__name__)

UNKNOWN_SECONDS, UNKNOWN_TRIES = 2, 1_800  # an hour for whoever knows the task to come
ALIVE = 0x5167  # class of the advisory locks that say "this worker's process lives"

# Finishing and retrying touch a job only while it is still this worker's: one that was taken for dead and comes
# back must not set another worker's job free. Both are safe to repeat when an answer got lost.
FINISH = """
WITH mine AS MATERIALIZED (
  SELECT id FROM procrastinate_jobs
   WHERE id = %(job)s AND status = 'doing' AND (worker_id = %(worker)s OR worker_id IS NULL)
     FOR UPDATE
)
SELECT procrastinate_finish_job_v1(id, %(status)s::procrastinate_job_status, %(delete)s) FROM mine
"""
RETRY = """
WITH mine AS MATERIALIZED (
  SELECT id FROM procrastinate_jobs
   WHERE id = %(job)s AND status = 'doing' AND (worker_id = %(worker)s OR worker_id IS NULL)
     FOR UPDATE
)
SELECT procrastinate_retry_job_v2(id, %(at)s, %(priority)s, %(queue)s, %(lock)s) FROM mine
"""
# A worker is gone when its heartbeat is very old, or old while no session holds its advisory lock: a blocked event
# loop keeps its session, a killed process does not. (Taking a loop blocked for 12 s for dead ran its job twice.)
RESCUE = """
WITH gone AS MATERIALIZED (
  SELECT job.id
    FROM procrastinate_jobs AS job
    LEFT JOIN procrastinate_workers AS worker ON worker.id = job.worker_id
   WHERE job.status = 'doing' AND job.worker_id IS DISTINCT FROM %(own)s::bigint
     AND (worker.id IS NULL
          OR worker.last_heartbeat < now() - make_interval(secs => %(stalled)s)
          OR worker.last_heartbeat < now() - make_interval(secs => %(quiet)s)
             AND NOT EXISTS (SELECT FROM pg_locks
                              WHERE locktype = 'advisory' AND objsubid = 2 AND granted
                                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                                AND classid = %(alive)s::oid AND objid = (worker.id & 2147483647)::oid))
     FOR UPDATE OF job SKIP LOCKED
)
SELECT id, procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM gone
"""
LOST = "SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id = %(worker)s"
HEARTBEAT = "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker)s RETURNING id"
SERVED = """
SELECT count(*) AS workers FROM procrastinate_workers
 WHERE last_heartbeat > now() - make_interval(secs => %(quiet)s)
"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Tests compress them; the relations matter: heartbeat < quiet < stalled."""

    heartbeat: float = 2.0
    quiet: float = 6.0  # without a heartbeat and without its session, a worker is gone
    stalled: float = (
        60.0  # without a heartbeat, whatever its session says (PgBouncer keeps sessions of the dead)
    )
    rescue: float = 2.0
    poll: float = 1.0
    shutdown: float = 15.0  # what running jobs get to finish; the supervisor kills after 20


class WorkerForgotten(Exception):
    """This worker was taken for dead and struck from the list; it registers again."""


class Pulse:
    """A session that holds an advisory lock for this process's worker, so that its death is seen at once."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._held: int | None = None
        self._one = asyncio.Lock()
        self.worker_id: int | None = None

    async def hold(self, worker_id: int) -> None:
        self.worker_id = worker_id
        await self.keep()

    async def keep(self) -> bool:
        """Connect again if the session was lost, and say whether it stands."""
        async with self._one:
            try:
                if self._connection is None:
                    self._connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
                    self._held = None
                await self._connection.execute("SELECT 1")
                if self._held != self.worker_id and self.worker_id is not None:
                    await self._connection.execute("SELECT pg_advisory_unlock_all()")
                    key = self.worker_id & 0x7FFFFFFF
                    await self._connection.execute("SELECT pg_try_advisory_lock(%s, %s::int)", (ALIVE, key))
                    self._held = self.worker_id
            except psycopg.OperationalError as error:
                log.warning("queue.pulse_lost", error=type(error).__name__)
                await self._disconnect()
                return False
        return True

    async def close(self) -> None:
        async with self._one:
            self.worker_id = None
            await self._disconnect()

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class Connector(procrastinate.PsycopgConnector):
    """procrastinate's connector, which listens over a session of the server itself: PgBouncer drops LISTEN."""

    direct: str

    @asynccontextmanager
    async def _get_standalone_connection(self) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
        connection = await psycopg.AsyncConnection.connect(self.direct, autocommit=True)
        async with connection:
            yield connection


def _pool(**options: Any) -> AsyncConnectionPool:
    """procrastinate's own asks every connection that it hands out; see `Idle`."""
    return AsyncConnectionPool(**{**options, "check": Idle().check})


class QueueManager(manager.JobManager):
    """procrastinate's job manager, patient with a database that goes away and comes back."""

    def __init__(self, connector: procrastinate.PsycopgConnector, pulse: Pulse) -> None:
        super().__init__(connector)
        self.pulse = pulse
        self.closing = False
        self.fetching = False
        self.rush = Rush()
        self.freed: Callable[[], None] = lambda: None  # a lock opened: look for its next job

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        await self._insist(FINISH, job, status=status.value, delete=delete_job)

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        at = retry_at or procrastinate.utils.utcnow()
        await self._insist(RETRY, job, at=at, priority=priority, queue=queue, lock=lock)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        if pause := self.rush.pause():
            await asyncio.sleep(pause)
        self.fetching = True
        try:
            return await super().fetch_job(queues, worker_id)
        except exceptions.ConnectorException as error:
            if isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                raise WorkerForgotten from error
            log.warning("queue.fetch_failed", error=_name(error))
            return None
        finally:
            self.fetching = False

    async def update_heartbeat(self, worker_id: int) -> None:
        try:
            if not await self.connector.execute_query_all_async(HEARTBEAT, worker=worker_id):
                raise WorkerForgotten
        except exceptions.ConnectorException as error:
            log.warning("queue.heartbeat_failed", error=_name(error))

    async def register_worker(self) -> int:
        worker_id = await super().register_worker()
        await self.pulse.hold(worker_id)
        return worker_id

    async def unregister_worker(self, worker_id: int) -> None:
        try:
            await super().unregister_worker(worker_id)
        except exceptions.ConnectorException as error:
            log.warning("queue.unregister_failed", error=_name(error))

    async def sign_off(self) -> None:
        """Leave no registration behind, not even of a worker that was cut while it registered."""
        try:
            if self.pulse.worker_id is not None:
                await self.unregister_worker(self.pulse.worker_id)
        finally:
            await self.pulse.close()

    async def defer_periodic_job(self, job: jobs.Job, periodic_id: str, defer_timestamp: int) -> int | None:
        try:
            return await super().defer_periodic_job(job, periodic_id, defer_timestamp)
        except exceptions.ConnectorException as error:
            log.warning("queue.periodic_skipped", task=job.task_name, error=_name(error))
            return None

    async def listen_for_jobs(
        self, *, on_notification: manager.NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        while True:
            try:
                await super().listen_for_jobs(on_notification=on_notification, queues=queues)
            except exceptions.ConnectorException as error:
                log.warning("queue.listen_lost", error=_name(error))
            await asyncio.sleep(1.0)

    async def _insist(self, query: Any, job: jobs.Job, **arguments: Any) -> None:
        """Run `query` until the database answers: nobody else may free this job while its worker lives."""
        pause = 0.1
        while True:
            try:
                await self.connector.execute_query_async(query, job=job.id, worker=job.worker_id, **arguments)
                return self.freed()
            except exceptions.ConnectorException as error:
                log.warning("queue.unfinished", job=job.id, error=_name(error))
                if self.closing and pause > 1.0:
                    raise  # the process ends; whoever runs next finds the job without its worker
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)


class QueueWorker(worker.Worker):
    """procrastinate's worker, which looks for the next job of a lock as soon as the lock is free, and puts back a job
    whose task it does not know: while an upgrade goes on, a newer version's."""

    @property
    def running(self) -> set[int]:
        """Ids of the jobs this worker runs, until their outcome is stored."""
        return {context.job.id for context in self._running_jobs.values() if context.job.id is not None}

    async def _persist_job_status(
        self,
        job: jobs.Job,
        status: jobs.Status,
        retry_decision: procrastinate.RetryDecision | None,
        context: procrastinate.JobContext,
        job_result: Any,
    ) -> None:
        if job.task_name not in self.app.tasks and job.attempts < UNKNOWN_TRIES:
            retry_decision = procrastinate.RetryDecision(retry_in={"seconds": UNKNOWN_SECONDS})
        await super()._persist_job_status(job, status, retry_decision, context, job_result)

    def look_again(self) -> None:
        """Look for a job now, and once more for a fetch under way, which clears the event without having seen why."""
        self._new_job_event.set()
        asyncio.get_running_loop().call_later(0.05, self._new_job_event.set)


class QueueApp(procrastinate.App):
    """The procrastinate app with our manager, and the care for jobs that nobody runs."""

    job_manager: QueueManager

    def __init__(self, conninfo: str, timing: Timing, direct: str | None = None) -> None:
        # min_size 1: a CLI command defers one job. No prepared statements, PgBouncer loses them.
        connector = Connector(
            conninfo=conninfo,
            min_size=1,
            max_size=4,
            timeout=10.0,
            reconnect_timeout=5.0,  # the pool's pauses double up to this: back within seconds of a long outage
            pool_factory=_pool,
            kwargs={"prepare_threshold": None},
        )
        connector.direct = direct or conninfo
        super().__init__(connector=connector)
        self.timing = timing
        self.job_manager = QueueManager(connector, Pulse(direct or conninfo))

    async def rescue(self) -> list[int]:
        """Put the jobs of dead workers back into the queue; returns their ids. Any process may, at any time."""
        timing = self.timing
        rows = await self.connector.execute_query_all_async(
            RESCUE,
            stalled=timing.stalled,
            quiet=timing.quiet,
            alive=ALIVE,
            own=self.job_manager.pulse.worker_id,
        )
        return [row["id"] for row in rows]

    async def served(self) -> bool:
        """Whether some worker, here or in another process, gave a sign of life lately."""
        rows = await self.connector.execute_query_all_async(SERVED, quiet=self.timing.quiet)
        return bool(rows[0]["workers"])

    async def tend(self, current: "CurrentWorker") -> None:
        """For ever: rescue dead workers' jobs, and this worker's own that it does not run."""
        clock = asyncio.get_running_loop().time
        missing: set[int] = set()
        patience = 0.0  # until then others, too, come back from an outage: nobody is taken for dead
        while True:
            await asyncio.sleep(self.timing.rescue)
            began = clock()
            steady = await self.job_manager.pulse.keep()
            try:
                if steady and began > patience:
                    for job_id in await self.rescue():
                        log.warning("queue.rescued", job=job_id)
                missing = await self._reconcile(current, missing)
            except exceptions.ConnectorException as error:
                log.warning("queue.rescue_failed", error=_name(error))
                steady = False
            if not steady or clock() - began > self.timing.quiet:
                patience = clock() + self.timing.quiet

    async def _reconcile(self, current: "CurrentWorker", missing: set[int]) -> set[int]:
        """Free jobs that are this live worker's by the database but that it was twice seen not to run."""
        if current.worker is None or current.worker.worker_id is None or self.job_manager.fetching:
            return missing
        worker_id = current.worker.worker_id
        before = current.worker.running
        rows = await self.connector.execute_query_all_async(LOST, worker=worker_id)
        found = {row["id"] for row in rows} - before - current.worker.running
        for job_id in found & missing:
            log.warning("queue.freed", job=job_id)
            await self.connector.execute_query_async(
                RETRY,
                job=job_id,
                worker=worker_id,
                at=procrastinate.utils.utcnow(),
                priority=None,
                queue=None,
                lock=None,
            )
        return found - missing


@dataclass
class CurrentWorker:
    """The worker that runs now; another one after each restart."""

    worker: QueueWorker | None = None


async def serve(app: QueueApp, queues: Sequence[str], concurrency: int) -> None:
    """Work on `queues` until cancelled; running jobs then get `Timing.shutdown` seconds to finish."""
    if app.job_manager.pulse.worker_id is not None:
        raise RuntimeError("this queue has a worker already; name all its queues in one call")
    current = CurrentWorker()
    app.job_manager.closing = False
    working = asyncio.create_task(_work(app, current, queues, concurrency), name="queue work")
    tending = asyncio.create_task(app.tend(current), name="queue tending")
    try:
        ended, _ = await asyncio.wait({working, tending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        app.job_manager.closing = True
        # The pulse outlasts the work: while jobs still finish, others must not take them over.
        for task in (working, tending):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await app.job_manager.sign_off()
    for task in ended:
        task.result()  # neither ends by itself, except by a fault


async def _work(app: QueueApp, current: CurrentWorker, queues: Sequence[str], concurrency: int) -> None:
    # Not for ever: a worker that fails while it stops raises that instead of the cancellation.
    while not app.job_manager.closing:
        try:
            current.worker = _worker(app, queues, concurrency)
            app.job_manager.freed = current.worker.look_again
            await current.worker.run()  # type: ignore[no-untyped-call]
        except (exceptions.ConnectorException, WorkerForgotten) as error:
            log.warning("queue.worker_restarts", error=_name(error))
        await asyncio.sleep(1.0)


def _worker(app: QueueApp, queues: Sequence[str], concurrency: int) -> QueueWorker:
    timing = app.timing
    return QueueWorker(
        app,
        queues=list(queues),
        concurrency=concurrency,
        fetch_job_polling_interval=timing.poll,
        abort_job_polling_interval=60.0,
        shutdown_graceful_timeout=timing.shutdown,
        delete_jobs=jobs.DeleteJobCondition.SUCCESSFUL,
        install_signal_handlers=False,
        update_heartbeat_interval=timing.heartbeat,
        stalled_worker_timeout=timing.stalled,
    )


def _name(error: BaseException) -> str:
    cause = error.__cause__ or error
    return type(cause).__name__
