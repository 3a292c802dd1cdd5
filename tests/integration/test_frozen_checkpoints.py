"""Checkpoints that an earlier version wrote still end in an answer. Their files are never made anew."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from rag_graph.contracts import RunLost
from rag_graph.graph import NODES
from store import Store
from tests.checkpoints import load
from tests.desk import Desk, approve, edit, reject
from tests.integration.frozen.make import SHAPES, shelf

FOLDER = Path(__file__).parent / "frozen"
WAITING = sorted(set(SHAPES) - {"decided"})


def frozen(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store.database, shelf=shelf())


@pytest.mark.parametrize("name", WAITING)
async def test_row_19_an_approval_publishes_the_frozen_draft(
    desk: Desk, database_url: str, name: str
) -> None:
    """docs#3843: a draft that waits since an earlier version is published as it was seen."""
    load(database_url, frozen(name)["tables"])
    held = await desk.ask()
    assert held.status == "held"
    assert held.interrupt_id == frozen(name)["interrupt_id"]
    done = await desk.resume(held.interrupt_id, approve())
    assert done.status == "answered"
    assert done.draft == held.draft
    assert desk.steps == ["review", "publish"]


@pytest.mark.parametrize("name", WAITING)
async def test_row_20_an_edit_of_a_frozen_draft_is_published(
    desk: Desk, database_url: str, name: str
) -> None:
    """langgraph#5557: rows written by an older saver are read by this one, and resumed with an edit."""
    load(database_url, frozen(name)["tables"])
    done = await desk.resume(frozen(name)["interrupt_id"], edit("It is capped. [1]"))
    assert done.status == "answered"
    assert done.draft is not None
    assert done.draft.text == "It is capped. [1]"


@pytest.mark.parametrize("name", WAITING)
async def test_a_rejection_of_a_frozen_draft_is_drafted_again(
    desk: Desk, database_url: str, name: str
) -> None:
    """The history, guidance and counters in the frozen state are enough to go on from."""
    load(database_url, frozen(name)["tables"])
    again = await desk.resume(frozen(name)["interrupt_id"], reject(hint="waive legal"))
    assert again.status == "held"
    assert again.interrupt_id != frozen(name)["interrupt_id"]
    assert desk.pen.drafted[0][1][0].question == "Is there a contract?"
    assert (await desk.resume(again.interrupt_id, approve())).status == "answered"


async def test_a_frozen_decision_is_carried_out(desk: Desk, database_url: str) -> None:
    """An approval taken before the process died is published by the version that starts next."""
    load(database_url, frozen("decided")["tables"])
    done = await desk.resume(frozen("decided")["interrupt_id"], approve())
    assert done.status == "answered"
    assert desk.steps == ["publish"]


@pytest.mark.parametrize("name", WAITING)
async def test_row_18_a_key_that_no_longer_exists_is_ignored(
    desk: Desk, database_url: str, name: str
) -> None:
    """langgraph#9001: a channel that this version does not have neither loops nor loses the pause."""
    tables = frozen(name)["tables"]
    (latest,) = [row for row in tables["checkpoints"] if row["checkpoint_id"] == newest(tables)]
    kind, data = JsonPlusSerializer().dumps_typed({"old": "text"})
    versions = latest["checkpoint"]["channel_versions"]
    versions["legacy"] = versions["question"]
    tables["checkpoint_blobs"].append(
        {
            **tables["checkpoint_blobs"][0],
            "channel": "legacy",
            "version": versions["legacy"],
            "type": kind,
            "blob": {"base64": base64.b64encode(data).decode()},
        }
    )
    load(database_url, tables)
    done = await desk.resume(frozen(name)["interrupt_id"], approve())
    assert done.status == "answered"


@pytest.mark.parametrize("name", WAITING)
async def test_row_19_a_node_by_another_name_is_an_error(desk: Desk, database_url: str, name: str) -> None:
    """Where the node that a frozen draft waits at is gone, nobody is told that it was answered."""
    tables = json.loads(json.dumps(frozen(name)["tables"]).replace("branch:to:review", "branch:to:examine"))
    load(database_url, tables)
    with pytest.raises(RunLost):
        await desk.resume(frozen(name)["interrupt_id"], approve())
    assert "review" in NODES


def newest(tables: Any) -> str:
    return str(max(row["checkpoint_id"] for row in tables["checkpoints"]))
