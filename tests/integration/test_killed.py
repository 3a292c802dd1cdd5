"""A process that is really killed, by signal, inside a node; another one goes on. Nothing of ours runs at the end."""

import asyncio
import signal
import sys
import textwrap

import pytest

from store import Store
from tests.checkpoints import measure
from tests.desk import LEAVE, PENALTY, Desk, approve, reject

SCRIPT = """
import asyncio, os, signal, sys
from rag_graph.graph import NODES
from store.database import Database
from tests.desk import Desk, LEAVE, PENALTY, approve, reject

url, name, when, interrupt_id = sys.argv[1:]

async def node(state, *, runtime):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    update = await NODES[name](state, runtime=runtime)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    database = Database(url)
    await database.open()
    desk = Desk(database, nodes={**NODES, name: node})
    if not interrupt_id:
        await desk.ask(LEAVE)
    else:
        await desk.resume(interrupt_id, reject(hint="ceiling") if name == "draft" else approve())

asyncio.run(main())
"""


async def killed(url: str, name: str, when: str, interrupt_id: str = "") -> None:
    """Run one call in a process of its own, which dies in node `name`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(SCRIPT), url, name, when, interrupt_id
    )
    assert await process.wait() == -signal.SIGKILL


@pytest.mark.slow
async def test_killed_before_the_first_pause(store: Store, database_url: str) -> None:
    """Nothing was stored, so the question is asked again, and answered."""
    await killed(database_url, "draft", "after")
    assert measure(database_url).rows == 0
    outcome = await Desk(store.database).ask(LEAVE)
    assert outcome.status == "answered"


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["review", "publish"])
async def test_killed_after_an_approval(store: Store, database_url: str, name: str, when: str) -> None:
    """The same decision, given again by the repeated job, ends in the answer that was approved."""
    desk = Desk(store.database)
    held = await desk.ask(PENALTY)
    assert held.interrupt_id is not None
    await killed(database_url, name, when, held.interrupt_id)
    outcome = await desk.resume(held.interrupt_id, approve())
    assert outcome.status == "answered"
    assert outcome.draft == held.draft


@pytest.mark.slow
async def test_killed_while_drafting_again(store: Store, database_url: str) -> None:
    """A rejection survives the process that was carrying it out: the second draft is held, and once."""
    desk = Desk(store.database)
    held = await desk.ask(PENALTY)
    assert held.interrupt_id is not None
    await killed(database_url, "draft", "after", held.interrupt_id)
    searches = len(desk.shelf.searches)
    again = await desk.resume(held.interrupt_id, reject(hint="ceiling"))
    assert again.status == "held"
    assert again.draft is not None
    assert again.draft.round == 2
    assert len(desk.shelf.searches) == searches  # what was searched before the kill is not searched again
