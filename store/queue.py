"""The work to be done: jobs by name, stored in the transaction that caused them, in order for each lock.

Two jobs of one lock never run at once and run in the order they were deferred. A job may run twice – its worker
was killed, or was taken for dead – so that effects hide behind a row of their own.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import procrastinate
import structlog
from procrastinate import exceptions
from procrastinate.retry import BaseRetryStrategy
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import DatabaseUnavailable, is_outage, translated
from store.rush import Rush
from store.worker import QueueApp, Timing, serve

__all__ = ["ANSWERS", "INGEST", "Queue", "Retry", "Timing", "build_queue"]

ANSWERS = "answers"  # answer, resume, remember, deliver
INGEST = "ingest"
CONCURRENCY: Mapping[str, int] = {ANSWERS: 8, INGEST: 2}
# Locks under which whatever comes later may wait as well: a card is drawn as it is when its time has come.
PATIENT_LOCKS = ("card:",)
# Tries beyond `Retry.attempts` that a job gets when it kills its worker each time (out of memory, say).
CRASHES = 20


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a failed job is tried again: exponential from `initial_seconds`, with full jitter
    above half, at most `longest_seconds` apart. A database that does not answer costs no attempt. What is `hopeless`
    is not tried again: it would fail the same way, and somebody waits to be told."""

    attempts: int = 5
    initial_seconds: float = 1.0
    longest_seconds: float = 30.0
    hopeless: tuple[type[Exception], ...] = ()

    def over(self, error: Exception, failures: int) -> bool:
        """Whether the job is given up after `failures` ≥ 1 tries, the last of which ended in `error`."""
        return failures >= self.attempts or isinstance(error, self.hopeless)

    def pause(self, failures: int) -> float:
        """Seconds before the next try, after `failures` ≥ 1 tries that failed."""
        longest = min(self.longest_seconds, self.initial_seconds * 2.0 ** min(failures - 1, 30))
        return longest * random.uniform(0.5, 1.0)


class NotGivenUp(Exception):
    """The job is past its last attempt, but saying so failed; it will be said later."""


class _Strategy(BaseRetryStrategy):
    """`Retry` in procrastinate's words. CancelledError is a shutdown: whoever runs next takes the job at once."""

    def __init__(self, rule: Retry) -> None:
        self._rule = rule

    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate.jobs.Job
    ) -> procrastinate.RetryDecision | None:
        if not isinstance(exception, Exception):
            return _again(0)
        if isinstance(exception, NotGivenUp) or is_outage(exception):
            return _again(self._rule.longest_seconds)
        failures = job.attempts + 1
        return None if self._rule.over(exception, failures) else _again(self._rule.pause(failures))


def _again(seconds: float) -> procrastinate.RetryDecision:
    return procrastinate.RetryDecision(retry_in={"milliseconds": int(seconds * 1_000)})


def build_queue(conninfo: str, timing: Timing | None = None, direct: str | None = None) -> QueueApp:
    """The procrastinate app over its own small pool; nothing connects before it is opened. `direct` reaches the
    server itself where `conninfo` leads to PgBouncer."""
    return QueueApp(conninfo, timing or Timing(), direct)


class Queue:
    """Jobs by name. Names and functions meet in `task`, which the process that works calls at start."""

    def __init__(
        self,
        app: QueueApp,
        about: Callable[..., AbstractContextManager[Any]] = structlog.contextvars.bound_contextvars,
    ) -> None:
        """`about` is entered around each job with the ids that it was deferred with: every line that it logs says which
        question, review or document it is about."""
        self.app = app
        self._about = about

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Queue"]:
        """Connect for the length of the block. Raises `DatabaseUnavailable`."""
        with translated():
            await self.app.open_async()
        try:
            yield self
        finally:
            await self.app.close_async()

    @property
    def rush(self) -> Rush:
        """What the door tells this process's worker."""
        return self.app.job_manager.rush

    def task(
        self,
        name: str,
        function: Callable[..., Awaitable[None]],
        *,
        retry: Retry,
        exhausted: Callable[..., Awaitable[None]] | None = None,
    ) -> None:
        """Run `function(**args)` for jobs called `name`.

        `exhausted(**args)` is called once the last attempt failed, before the job is given up; when it fails too,
        only it is tried again. CPU work belongs in a thread: it would hold up every other job and the heartbeat.
        """

        async def run(context: procrastinate.JobContext, /, **args: Any) -> None:
            failures = context.job.attempts
            if failures >= retry.attempts + CRASHES:
                await _give_up(exhausted, args)
                raise RuntimeError(f"job {context.job.id} ({name}) never came to its end in {failures} tries")
            with self._about(**_ids(args)):
                try:
                    await function(**args)
                except Exception as error:
                    # Outages also as the checkpointer raises them, which knows nothing of our errors.
                    if not is_outage(error) and retry.over(error, failures + 1):
                        await _give_up(exhausted, args)
                    raise

        self.app.task(name=name, retry=_Strategy(retry), pass_context=True, queue=ANSWERS)(run)

    def periodic(self, name: str, function: Callable[[], Awaitable[None]], *, cron: str) -> None:
        """Run `function()` at the times of `cron` (five fields, UTC), in one process, never twice at once."""

        async def run(timestamp: int) -> None:
            await function()

        task = self.app.task(name=name, queue=ANSWERS, queueing_lock=name)(run)
        self.app.periodic(cron=cron)(task)

    async def defer(  # noqa: PLR0913 - what a job may be given, all but two by name
        self,
        task: str,
        args: Mapping[str, Any],
        *,
        lock: str,
        queue: str = ANSWERS,
        connection: AsyncConnection | None = None,
        schedule_in: float | None = None,
        priority: int = 0,
    ) -> int:
        """Store a job and return its id; with `connection`, in that connection's transaction.

        `schedule_in` seconds from now needs a lock of the task's own, "<task>:…": a job that waits for its time
        keeps every later job of its lock waiting with it. Raises `ValueError` otherwise. A higher `priority` goes
        before all others.
        """
        if schedule_in is not None and not lock.startswith((f"{task}:", *PATIENT_LOCKS)):
            raise ValueError(
                f"a scheduled {task!r} would hold up every later job of {lock!r}; lock it '{task}:…'"
            )
        raw = None
        if connection is not None:
            raw = (await connection.get_raw_connection()).driver_connection
        deferrer = self.app.configure_task(
            task,
            lock=lock,
            queue=queue,
            connection=raw,
            priority=priority,
            schedule_in=None if schedule_in is None else {"milliseconds": int(schedule_in * 1_000)},
        )
        with _queue_errors():
            return await deferrer.defer_async(**args)

    async def run_worker(self, queues: Sequence[str], *, concurrency: int | None = None) -> None:
        """Work on `queues` until cancelled, through outages of the database.

        Cancelling waits for running jobs, at most `Timing.shutdown` seconds; what is cut then runs again elsewhere.
        """
        await serve(self.app, queues, concurrency or max(CONCURRENCY.get(queue, 1) for queue in queues))

    async def served(self) -> bool:
        """Whether a worker, in any process, gave a sign of life within the last seconds."""
        with _queue_errors():
            return await self.app.served()

    async def rescue(self) -> list[int]:
        """Put the jobs of dead workers back into the queue now; running workers do so by themselves."""
        with _queue_errors():
            return await self.app.rescue()

    async def sweep(self, older_than_hours: int) -> None:
        """Delete jobs that failed or were cancelled that long ago. Jobs that succeeded are gone already."""
        with _queue_errors():
            await self.app.job_manager.delete_old_jobs(
                older_than_hours, include_failed=True, include_cancelled=True, include_aborted=True
            )


@contextmanager
def _queue_errors() -> Iterator[None]:
    try:
        yield
    except exceptions.ConnectorException as error:
        if error.__cause__ is not None and is_outage(error.__cause__):
            raise DatabaseUnavailable from error
        raise


def _ids(args: Mapping[str, Any]) -> dict[str, Any]:
    """question_id → question, as our lines call it. A job may carry words; those are not for the log."""
    return {name.removesuffix("_id"): value for name, value in args.items() if name.endswith("_id")}


async def _give_up(exhausted: Callable[..., Awaitable[None]] | None, args: Mapping[str, Any]) -> None:
    if exhausted is None:
        return
    try:
        await exhausted(**args)
    except Exception as error:
        raise NotGivenUp from error
