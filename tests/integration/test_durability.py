"""What survives a crash of the question graph, and what it leaves in the database. Real Postgres."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from rag_graph.advance import advance
from rag_graph.contracts import Deps, RunLost, Turn
from rag_graph.graph import NODES, Node
from rag_graph.policy import Rules
from rag_graph.state import QuestionState
from store import Store
from tests.checkpoints import measure
from tests.desk import PENALTY, Desk, approve, reject, thread
from tests.pen import Pen
from tests.shelf import passage


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store.database)


class Killed(BaseException):
    """The process dies here: nothing catches it."""


def dying(name: str, *, before: bool = False, times: int = 1) -> dict[str, Node]:
    """The ten nodes, of which `name` dies `times` times, after (or before) doing its work."""
    left = [times]

    async def node(state: QuestionState, *, runtime: Runtime[Deps]) -> dict[str, Any]:
        dies = left[0] > 0
        left[0] -= 1
        if dies and before:
            raise Killed
        update = await NODES[name](state, runtime=runtime)
        if dies:
            raise Killed
        return update

    return {**NODES, name: node}


async def survive(run: Awaitable[Any]) -> None:
    with pytest.raises(Killed):
        await run


# --- repeated, crashed, concurrent ------------------------------------------------------------------------------


async def test_repeating_a_finished_question_runs_nothing(desk: Desk) -> None:
    """A job that is run again reads the answer that was stored."""
    first = await desk.ask()
    desk.events.clear()
    second = await desk.ask()
    assert second.draft == first.draft
    assert second.status == "answered"
    assert desk.steps == []


async def test_repeating_a_decision_reads_what_came_of_it(desk: Desk) -> None:
    """A resume job that died before it stored the outcome finds the same outcome; another decision is stale."""
    held = await desk.ask(PENALTY)
    first = await desk.resume(held.interrupt_id, approve())
    assert (await desk.resume(held.interrupt_id, approve())).draft == first.draft
    assert (await desk.resume(held.interrupt_id, reject(hint="no"))).status == "stale"
    assert (await desk.resume(held.interrupt_id, approve("web:eve"))).status == "stale"


async def test_repeating_a_rejection_finds_the_new_draft(desk: Desk) -> None:
    """A resume job that died after the new pause finds it, so that its review can be opened."""
    held = await desk.ask(PENALTY)
    again = await desk.resume(held.interrupt_id, reject(hint="ceiling"))
    repeated = await desk.resume(held.interrupt_id, reject(hint="ceiling"))
    assert repeated.status == "held"
    assert repeated.interrupt_id == again.interrupt_id
    assert len(desk.pen.drafted) == 2


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["lookup_verified", "route", "rewrite", "retrieve", "draft", "publish"])
async def test_dying_in_any_node_before_the_first_pause(desk: Desk, name: str, before: bool) -> None:
    """Asked again after the crash, the question is answered as if nothing had happened."""
    broken = Desk(desk.database, nodes=dying(name, before=before))
    await survive(broken.ask())
    outcome = await broken.ask()
    assert outcome.status == "answered"
    assert outcome.draft is not None
    assert outcome.draft.text == "Annual leave is 15 days a year. [1]"


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["publish", "retrieve", "draft"])
async def test_dying_in_any_node_after_a_decision(desk: Desk, name: str, before: bool) -> None:
    """The decision is not lost and not asked for again: the run goes on at the node that died."""
    held = await desk.ask(PENALTY)
    broken = Desk(desk.database, nodes=dying(name, before=before))
    decision = approve() if name == "publish" else reject(hint="ceiling")
    await survive(broken.resume(held.interrupt_id, decision))
    broken.events.clear()
    outcome = await broken.resume(held.interrupt_id, decision)
    assert outcome.status == ("answered" if name == "publish" else "held")
    assert "review" not in broken.steps or name != "publish"


async def test_dying_right_after_the_decision_was_taken(desk: Desk) -> None:
    """The interrupt's answer is durable before the node ends; the repeated job finishes with it."""
    held = await desk.ask(PENALTY)
    broken = Desk(desk.database, nodes=dying("review"))
    await survive(broken.resume(held.interrupt_id, approve()))
    outcome = await broken.resume(held.interrupt_id, approve())
    assert outcome.status == "answered"
    assert outcome.draft == held.draft


async def test_a_cancelled_run_goes_on_later(desk: Desk) -> None:
    """Being cancelled in the middle, as at a shutdown, is like a crash: the next call finishes."""
    entered = asyncio.Event()

    async def draft(state: QuestionState, *, runtime: Runtime[Deps]) -> dict[str, Any]:
        entered.set()
        await asyncio.sleep(30)
        return {}

    held = await desk.ask(PENALTY)
    slow = Desk(desk.database, nodes={**NODES, "draft": draft})
    task = asyncio.create_task(slow.resume(held.interrupt_id, reject(hint="ceiling")))
    await asyncio.wait_for(entered.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outcome = await desk.resume(held.interrupt_id, reject(hint="ceiling"))
    assert outcome.status == "held"
    assert outcome.draft is not None
    assert outcome.draft.round == 2


async def test_a_failing_node_is_retried_from_where_it_failed(desk: Desk) -> None:
    """An error in a node surfaces; the next call continues there and searches no second time."""
    failing = Desk(desk.database, shelf=desk.shelf)
    held = await failing.ask(PENALTY)

    class Down(Pen):
        async def draft(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("down")

    failing.pen = Down()
    with pytest.raises(ConnectionError):
        await failing.resume(held.interrupt_id, reject(hint="ceiling"))
    searches = len(failing.shelf.searches)
    failing.pen = Pen()
    outcome = await failing.resume(held.interrupt_id, reject(hint="ceiling"))
    assert outcome.status == "held"
    assert len(failing.shelf.searches) == searches


async def test_a_decision_needs_its_interrupt(desk: Desk) -> None:
    """An interrupt without a decision is a mistake of the caller, not an approval."""
    held = await desk.ask(PENALTY)
    assert desk.database is not None
    with pytest.raises(ValueError, match="decision"):
        await advance(
            desk.graph, desk.database.saver(), thread("q1"), desk.deps, interrupt_id=held.interrupt_id
        )


async def test_a_renamed_node_is_noticed(desk: Desk) -> None:
    """Where the paused node no longer exists the draft is lost: that is an error, never a success."""
    held = await desk.ask(PENALTY)
    renamed = StateGraph(QuestionState, context_schema=Deps)
    renamed.add_node("lookup_verified", NODES["lookup_verified"])
    renamed.add_node("human_review", NODES["review"])
    renamed.add_edge(START, "lookup_verified")
    renamed.add_edge("lookup_verified", "human_review")
    assert desk.database is not None
    with pytest.raises(RunLost):
        await advance(
            renamed.compile(),
            desk.database.saver(),
            thread("q1"),
            desk.deps,
            interrupt_id=held.interrupt_id,
            decision=approve(),
        )


# --- what it leaves behind --------------------------------------------------------------------------------------


def large(desk: Desk) -> None:
    """Ten passages of 1,500 characters, a draft of 1,200 and five turns of history: a full-size question."""
    desk.shelf.passages_ = [
        passage(n, f"Annual leave rule {n} grants {n} days of leave a year. " * 28, title=f"Annual leave {n}")
        for n in range(1, 11)
    ]
    desk.pen.drafts.append(
        " ".join(f"Annual leave rule {n} grants {n} days of leave a year. [{n}]" for n in (1, 2, 3)) * 7
    )


def large_zh(desk: Desk) -> None:
    """The same in Chinese, three bytes a character: ten passages of 400 characters, a draft of 360."""
    desk.shelf.passages_ = [
        passage(n, f"年假规则第{n}条规定每年可休年假{n}天，须提前申请。" * 18, title=f"年假规则第{n}条")
        for n in range(1, 11)
    ]
    desk.pen.drafts.append("".join(f"年假规则第{n}条规定每年可休年假{n}天。[{n}]" for n in (1, 2, 3)) * 6)


HISTORY = ([Turn(f"q{n}", f"What about rule {n}?", "It grants some days. " * 40) for n in range(5)], "Leave.")


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_an_unreviewed_question_leaves_one_small_checkpoint(
    desk: Desk, database_url: str, language: str
) -> None:
    """At most 12 KB before any pruning: one checkpoint of the end, no writes, no history, no passage texts."""
    large(desk) if language == "en" else large_zh(desk)
    text = "How many days does the annual leave rule grant?" if language == "en" else "年假规则给多少天？"
    outcome = await desk.ask(text, history=HISTORY)
    assert outcome.status == "answered"
    size = measure(database_url)
    assert size.checkpoints == 1
    assert size.writes == 0
    assert size.bytes <= 12 * 1024


async def test_a_held_question_is_small_too(desk: Desk, database_url: str) -> None:
    """A pause holds its draft and the history it may be written from again; the end is one checkpoint again."""
    large(desk)
    desk.rules = Rules.parse([], default="hold")
    held = await desk.ask("How many days does the annual leave rule grant?", history=HISTORY)
    paused = measure(database_url)
    await desk.resume(held.interrupt_id, approve())
    done = measure(database_url)
    assert paused.checkpoints == 1
    assert paused.bytes <= 20 * 1024
    assert done.checkpoints == 1
    assert done.writes == 0
    assert done.bytes <= 12 * 1024


async def test_nothing_is_written_before_the_first_pause(desk: Desk, database_url: str) -> None:
    """While a question is first worked on no checkpoint exists: the inbox asks again after a crash."""
    seen: list[int] = []

    async def draft(state: QuestionState, *, runtime: Runtime[Deps]) -> dict[str, Any]:
        seen.append(measure(database_url).rows)
        return await NODES["draft"](state, runtime=runtime)

    await Desk(desk.database, nodes={**NODES, "draft": draft}).ask(PENALTY)
    assert seen == [0]


async def test_after_the_pause_every_step_is_durable(desk: Desk, database_url: str) -> None:
    """From the first pause on a node finds all earlier steps in the database."""
    seen: list[int] = []

    async def publish(state: QuestionState, *, runtime: Runtime[Deps]) -> dict[str, Any]:
        seen.append(measure(database_url).checkpoints)
        return await NODES["publish"](state, runtime=runtime)

    desk = Desk(desk.database, nodes={**NODES, "publish": publish})
    held = await desk.ask(PENALTY)
    await desk.resume(held.interrupt_id, approve())
    assert seen == [2]


async def test_a_deleted_thread_leaves_no_row(desk: Desk, database_url: str) -> None:
    """After its retention nothing of a question remains."""
    held = await desk.ask(PENALTY)
    await desk.resume(held.interrupt_id, approve())
    assert desk.database is not None
    await desk.database.delete_checkpoints([thread("q1")])
    assert measure(database_url).rows == 0


async def test_only_plain_data_is_stored(desk: Desk, database_url: str) -> None:
    """Every channel comes back as plain JSON types: nothing needs a class to be imported to be read."""
    await desk.ask(PENALTY)
    snapshot = await desk.snapshot()

    def plain(value: Any) -> bool:
        if isinstance(value, Mapping):
            return all(isinstance(key, str) and plain(item) for key, item in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return value is None or type(value) in (str, int, float, bool)

    assert plain(snapshot.values)


async def test_a_saver_a_run_leaves_runs_apart(desk: Desk) -> None:
    """Twenty questions at once, each with a saver of its own, all end."""
    outcomes = await asyncio.gather(*(desk.ask(question=f"q{n}") for n in range(20)))
    assert {outcome.status for outcome in outcomes} == {"answered"}
