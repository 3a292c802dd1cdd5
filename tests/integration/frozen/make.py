"""Freezes checkpoints: `python -m tests.integration.frozen.make NAME…` writes NAME.json beside this file.

Run it for a new shape, never to mend a failing test: a file that no longer loads is a waiting draft that is lost.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from langgraph.runtime import Runtime
from sqlalchemy import make_url

from rag_graph.contracts import ToolCall, Turn
from rag_graph.graph import NODES
from rag_graph.state import QuestionState
from store.database import Database, migrate
from store.embedded import EmbeddedPostgres
from tests.checkpoints import dump
from tests.desk import Desk, approve, reject, thread
from tests.pen import Pen
from tests.shelf import Shelf, passage

FOLDER = Path(__file__).parent
QUESTION = "What is the contract penalty, and who may waive it?"
HISTORY = ([Turn("q0", "Is there a contract?", "Yes, the framework contract.")], "They talked of suppliers.")


def shelf() -> Shelf:
    """What the frozen drafts cite. Part of the format: never change a text or a hash."""
    return Shelf(
        [
            passage(
                3, "The contract penalty is 2 percent of the price.", title="Penalty", collection="contracts"
            ),
            passage(
                4, "The contract penalty never exceeds 10 percent.", title="Ceiling", collection="contracts"
            ),
            passage(6, "Only the head of legal may waive a penalty.", title="Waiver", collection="contracts"),
        ],
        confidence=0.9,
    )


async def first_pause(desk: Desk) -> str | None:
    """The first draft waits."""
    return (await desk.ask(QUESTION, history=HISTORY)).interrupt_id


async def second_round(desk: Desk) -> str | None:
    """A draft was rejected with a hint, the second one waits."""
    held = await desk.ask(QUESTION, history=HISTORY)
    return (await desk.resume(held.interrupt_id, reject(hint="ceiling"))).interrupt_id


async def after_tools(desk: Desk) -> str | None:
    """A tool was called before the draft that waits."""
    desk.pen.calls.append((ToolCall("call_1", "search_knowledge_base", {"query": "waive penalty"}),))
    return (await desk.ask(QUESTION, history=HISTORY)).interrupt_id


async def decided(desk: Desk) -> str | None:
    """It was approved, and the process died before publishing."""
    held = await desk.ask(QUESTION, history=HISTORY)

    async def publish(state: QuestionState, *, runtime: Runtime[Any]) -> dict[str, Any]:
        raise InterruptedError

    broken = Desk(desk.database, shelf=desk.shelf, nodes={**NODES, "publish": publish})
    try:
        await broken.resume(held.interrupt_id, approve())
    except InterruptedError:
        return held.interrupt_id
    raise AssertionError("it did not die")


SHAPES: Mapping[str, Callable[[Desk], Awaitable[str | None]]] = {
    "first_pause": first_pause,
    "second_round": second_round,
    "after_tools": after_tools,
    "decided": decided,
}


async def freeze(server: str, name: str) -> None:
    """Write the rows of one shape, made in a database of its own."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    url = make_url(server).set(database=name).render_as_string(hide_password=False)
    await migrate(url)
    database = Database(url)
    await database.open()
    try:
        interrupt_id = await SHAPES[name](Desk(database, shelf=shelf(), pen=Pen()))
        frozen = {
            "made_with": {p: version(p) for p in ("langgraph", "langgraph-checkpoint-postgres")},
            "interrupt_id": interrupt_id,
            "tables": dump(url, thread("q1")),
        }
    finally:
        await database.close()
    text = json.dumps(frozen, ensure_ascii=False, indent=1, sort_keys=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Freeze the shapes named, on an embedded server that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home", durable=False)
        url = server.start()
        try:
            for name in names:
                asyncio.run(freeze(url, name))
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
