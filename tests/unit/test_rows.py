"""The known faults of what we stand on (LangGraph, Postgres, the queue), a row each: every one has a test naming it.

Rows are numbered as in the list that the product was planned with; those of chat platforms have a list of their own.
"""

import re
from pathlib import Path
from typing import Any

import pytest

import bot
import rag_graph
import store
from bot import jobs
from store.database import Database
from store.queue import Queue, build_queue

ROWS = range(1, 41)
TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"test_row_(\d+)(?:_and_(\d+))?|\bRows? (\d+)(?: and (\d+))?\.")


def sources() -> list[tuple[str, str]]:
    rooms = (bot, rag_graph, store)
    paths = [path for room in rooms for path in Path(str(room.__file__)).parent.rglob("*.py")]
    return [(path.name, path.read_text(encoding="utf-8")) for path in paths]


def test_every_row_has_a_test() -> None:
    """Forty rows, each named by a test's name or docstring."""
    found: set[int] = set()
    for path in (path for path in TESTS.rglob("test_*.py") if "traps" not in path.name):
        for match in NAMED.finditer(path.read_text(encoding="utf-8")):
            found |= {int(number) for number in match.groups() if number}
    assert set(ROWS) - found == set()


@pytest.mark.parametrize(
    ("row", "banned"),
    [
        (11, "ShallowPostgresSaver"),  # langgraph#8810: an older checkpoint overwrites a newer one
        (5, "pipeline=True"),  # langgraph#5675: one closed connection breaks every later call
        (16, "checkpoint_id"),  # langgraph#6663: answering an old checkpoint forks the thread
    ],
)
def test_row_05_and_11_what_is_never_used(row: int, banned: str) -> None:
    """Not once in the product: what is known to lose data, by its name."""
    assert [name for name, text in sources() if banned in text and name != "events.py"] == []


async def test_row_05_no_saver_uses_a_pipeline() -> None:
    """langgraph#5675; the pool hands out plain connections, and the saver is given none."""
    database = Database("postgresql://nobody@/nothing?host=/nowhere")
    assert database.saver().pipe is None
    await database.engine.dispose()


def test_row_34_a_queueing_lock_is_only_for_periodic_work() -> None:
    """procrastinate#1543: with a retry, a job whose twin is queued stays "doing" for ever. Only the periodic tasks have
    such a lock, and none of them a retry."""
    queue = Queue(build_queue("postgresql://nobody@/nothing?host=/nowhere"))
    whole: Any = None
    jobs.register_answering(queue, whole, whole)
    jobs.register_reviews(queue, whole, whole, whole)
    jobs.register_verified(queue, whole, whole)
    jobs.register_sending(queue, whole, whole)
    jobs.register_documents(queue, whole, whole, whole)
    jobs.register_upkeep(queue, whole)
    periodic = {task.name for task, _ in _periodic(queue)}
    tasks = {name: task for name, task in queue.app.tasks.items() if not name.startswith("builtin:")}
    assert {"answer", "resume", "remember", "tell", "ingest"} <= set(tasks) - periodic
    for name, task in tasks.items():
        assert (task.queueing_lock is not None) is (name in periodic), name
        assert task.queueing_lock is None or (task.retry_strategy is None and task.lock is None), name


def _periodic(queue: Queue) -> list[tuple[Any, Any]]:
    registered = queue.app.periodic_registry.periodic_tasks.values()
    return [(task.task, task.cron) for task in registered]
