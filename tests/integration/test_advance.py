"""One question's graph on real Postgres: starting, pausing, deciding, and the rows of known faults it survives."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import UnknownInterruptError
from langgraph.runtime import Runtime
from langgraph.types import Command
from psycopg import OperationalError

from rag_graph.advance import STRICT
from rag_graph.contracts import Decision, Deps, Limits, Turn
from rag_graph.conversation import forget, recall, remember
from rag_graph.graph import NODES
from rag_graph.policy import Rules
from rag_graph.state import QuestionState
from store import Store
from store.database import Database
from tests.checkpoints import measure
from tests.desk import LEAVE, PENALTY, Desk, approve, edit, expire, reject, thread
from tests.emulators.openai import OpenAIServer


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store.database)


# --- the way through --------------------------------------------------------------------------------------------


async def test_a_question_that_no_rule_holds_is_answered_at_once(desk: Desk) -> None:
    """Route, search, draft, publish: an answer with a citation and what it took."""
    outcome = await desk.ask()
    assert outcome.status == "answered"
    assert outcome.draft is not None
    assert outcome.draft.text == "Annual leave is 15 days a year. [1]"
    assert outcome.draft.citations[0].passage_id == 1
    assert outcome.draft.sentences[0].support == "supported"
    assert desk.steps == ["lookup_verified", "route", "rewrite", "retrieve", "draft", "publish"]
    assert outcome.confidence == 0.9
    assert outcome.retrieved[0] == 1
    assert outcome.searched == (LEAVE,)
    assert outcome.tokens == {"prompt": 100, "completion": 20}
    assert {"embed", "sql", "retrieve", "draft"} <= outcome.timings.keys()


async def test_a_held_draft_waits_and_is_told_to_nobody(desk: Desk) -> None:
    """A rule holds a contract's answer: an interrupt, the rule's name, and not one sentence streamed."""
    outcome = await desk.ask(PENALTY)
    assert outcome.status == "held"
    assert outcome.interrupt_id
    assert outcome.rule == "contracts"
    assert outcome.reason == "collection: contracts"
    assert outcome.review_status == "pending"
    assert outcome.draft is not None
    assert outcome.draft.round == 1
    assert desk.heard == []


async def test_approval_publishes_what_was_seen(desk: Desk) -> None:
    """The approved answer is the held draft, word for word, and says who decided."""
    held = await desk.ask(PENALTY)
    outcome = await desk.resume(held.interrupt_id, approve("web:rae"))
    assert outcome.status == "answered"
    assert outcome.review_status == "approved"
    assert outcome.decided_by == "web:rae"
    assert outcome.draft == held.draft


async def test_an_edit_is_checked_like_a_draft(desk: Desk) -> None:
    """A reviewer's text loses pings, links and marks that point nowhere, and its sentences are judged again."""
    held = await desk.ask(PENALTY)
    text = "The contract penalty is 2 percent [1]. It is 9 percent elsewhere [1]. Ask <!channel> [8]."
    outcome = await desk.resume(held.interrupt_id, edit(text))
    assert outcome.review_status == "edited"
    assert outcome.draft is not None
    assert "<!channel>" not in outcome.draft.text
    assert "[8]" not in outcome.draft.text
    assert [s.support for s in outcome.draft.sentences][:2] == ["supported", "unsupported"]
    assert [c.passage_id for c in outcome.draft.citations] == [3]


async def test_a_rejection_with_a_hint_searches_again(desk: Desk) -> None:
    """The hint joins the search, the rejected passage comes after the others, and another draft is held."""
    held = await desk.ask(PENALTY)
    again = await desk.resume(held.interrupt_id, reject(hint="ceiling, at most how much"))
    assert again.status == "held"
    assert again.interrupt_id != held.interrupt_id
    assert again.draft is not None
    assert held.draft is not None
    assert again.draft.text != held.draft.text
    assert again.draft.round == 2
    assert f"{PENALTY} ceiling, at most how much" in [search[0] for search in desk.shelf.searches]
    material = desk.pen.drafted[-1][3]
    assert material.guidance == "ceiling, at most how much"
    assert material.passages[0].id == 4
    assert material.rejected == (held.draft.text,)
    done = await desk.resume(again.interrupt_id, approve())
    assert done.draft == again.draft


async def test_a_better_question_is_the_one_that_is_answered(desk: Desk) -> None:
    """The reviewer's question is searched and drafted; the round is held again."""
    held = await desk.ask(PENALTY)
    again = await desk.resume(
        held.interrupt_id, reject(question="What is the ceiling of the contract penalty?")
    )
    assert again.status == "held"
    assert again.question == "What is the ceiling of the contract penalty?"
    assert desk.shelf.searches[-1][0] == again.question
    assert desk.pen.drafted[-1][0].text == again.question


async def test_a_rejection_without_a_way_on_declines(desk: Desk) -> None:
    """No hint and no question: it should not be answered."""
    held = await desk.ask(PENALTY)
    outcome = await desk.resume(held.interrupt_id, reject(reason="should_not_answer"))
    assert outcome.status == "declined"
    assert outcome.review_status == "rejected"
    assert outcome.reason == "should_not_answer"
    assert len(desk.pen.drafted) == 1


async def test_three_rounds_are_the_last(desk: Desk) -> None:
    """The third rejection ends it: a person answers."""
    outcome = await desk.ask(PENALTY)
    for hint in ("ceiling", "price", "annual"):
        assert outcome.status == "held"
        outcome = await desk.resume(outcome.interrupt_id, reject(hint=hint))
    assert outcome.status == "declined"
    assert outcome.reason == "rounds"
    assert len(desk.pen.drafted) == 3


async def test_expiry_is_a_state_of_its_own(desk: Desk) -> None:
    """The hard limit ends in a decline that says expired, not rejected."""
    held = await desk.ask(PENALTY)
    outcome = await desk.resume(held.interrupt_id, expire())
    assert outcome.status == "declined"
    assert outcome.review_status == "expired"


async def test_the_same_words_are_not_held_twice(desk: Desk) -> None:
    """A second draft that repeats the rejected one is written again from other passages, or declined."""
    desk.pen.drafts.extend(["The contract penalty is 2 percent of the price. [1]"] * 3)
    held = await desk.ask(PENALTY)
    desk.shelf.passages_ = [p for p in desk.shelf.passages_ if p.id == 3]
    outcome = await desk.resume(held.interrupt_id, reject(hint="more"))
    assert outcome.status == "declined"
    assert outcome.reason == "unsupported"


async def test_changed_sources_reopen_the_review(desk: Desk) -> None:
    """An approval after the document changed publishes nothing: a draft from the new text is held."""
    held = await desk.ask(PENALTY)
    desk.shelf.change(3, "The contract penalty is 5 percent of the price.")
    again = await desk.resume(held.interrupt_id, approve())
    assert again.status == "held"
    assert again.draft is not None
    assert "5 percent" in again.draft.text
    assert again.reason == "sources_changed" or again.rule == "contracts"
    assert again.review_status == "pending"
    done = await desk.resume(again.interrupt_id, approve())
    assert done.status == "answered"
    assert done.draft == again.draft


async def test_sources_that_may_no_longer_be_read_are_not_published(desk: Desk) -> None:
    """An approved answer from a document that was closed to the asker meanwhile does not reach them."""
    held = await desk.ask(PENALTY)
    desk.shelf.hide(3)
    desk.shelf.hide(4)
    outcome = await desk.resume(held.interrupt_id, approve())
    assert outcome.status in ("held", "declined")
    assert "penalty" not in (outcome.draft.text if outcome.draft else "")


async def test_a_question_once_held_is_held_again(desk: Desk) -> None:
    """A second draft from a document that no rule names still waits for the reviewer."""
    held = await desk.ask(PENALTY)
    again = await desk.resume(held.interrupt_id, reject(question=LEAVE))
    assert again.status == "held"
    assert again.rule == "contracts"


# --- rows of reliability.md -------------------------------------------------------------------------------------


async def test_row_01_a_stale_interrupt_id_is_an_error_and_our_door_says_stale(desk: Desk) -> None:
    """langgraph#8836: strict resume raises for an unknown id; `advance` answers "stale" and does nothing."""
    held = await desk.ask(PENALTY)
    assert desk.database is not None
    graph = desk.graph.copy({"checkpointer": desk.database.saver()})
    config: RunnableConfig = {"configurable": {"thread_id": thread("q1"), STRICT: True}}
    with pytest.raises(UnknownInterruptError):
        await graph.ainvoke(Command(resume={"0" * 32: {"action": "approve"}}), config, context=desk.deps)
    assert (await desk.resume("0" * 32, approve())).status == "stale"
    assert (await desk.ask(PENALTY)).interrupt_id == held.interrupt_id


async def test_row_02_an_answer_is_not_given_to_the_next_interrupt(desk: Desk) -> None:
    """langgraph#8837: after a resume by id, continuing the thread leaves the second pause pending."""
    held = await desk.ask(PENALTY)
    again = await desk.resume(held.interrupt_id, reject(hint="ceiling"))
    for _ in range(2):
        outcome = await desk.ask(PENALTY)
        assert outcome.status == "held"
        assert outcome.interrupt_id == again.interrupt_id


async def test_row_08_a_nul_in_the_question_is_survived(desk: Desk, database_url: str) -> None:
    """langgraph#1878: NUL and lone surrogates reach no string channel, whoever wrote them."""
    desk.pen.rewrites.append("annual\0 leave\ud800")
    history = ([Turn("q0", "Tell me about annual\0 leave", "15\0 days")], "talked\0 of leave")
    outcome = await desk.ask("How long\0 is it?", history=history)
    assert outcome.status == "answered"
    assert outcome.rewritten_question == "annual leave\ufffd"
    desk.rules = Rules.parse([], default="hold")
    assert (await desk.ask("a\0b annual leave", question="q2")).status == "held"


async def test_row_13_each_review_is_asked_once(desk: Desk) -> None:
    """langgraph#7780: one interrupt a visit. Three rejections and an approval run the node's body eight times:
    twice a visit, once to pause and once to resume, and never again for an earlier answer."""
    visits: list[int] = []

    async def review(state: QuestionState, *, runtime: Runtime[Deps]) -> dict[str, Any]:
        visits.append(state["draft"]["round"])
        return await NODES["review"](state, runtime=runtime)

    desk = Desk(
        desk.database, nodes={**NODES, "review": review}, limits=replace(desk.limits, review_rounds=9)
    )
    outcome = await desk.ask(PENALTY)
    for hint in ("ceiling", "price", "annual"):
        outcome = await desk.resume(outcome.interrupt_id, reject(hint=hint))
    await desk.resume(outcome.interrupt_id, approve())
    assert visits == [1, 1, 2, 2, 3, 3, 4, 4]


async def test_row_16_no_checkpoint_id_leaves_the_graph(desk: Desk) -> None:
    """langgraph#6663: what a card is made from holds an interrupt id and no checkpoint id to fork by."""
    held = await desk.ask(PENALTY)
    assert desk.database is not None
    snapshot = await desk.snapshot()
    checkpoint = snapshot.config["configurable"]["checkpoint_id"]
    assert checkpoint not in repr(held)


async def test_row_17_two_held_questions_of_one_thread_resume_in_either_order(desk: Desk) -> None:
    """langgraph#6108: each waits on a thread of its own and is named by its own id."""
    first = await desk.ask(PENALTY, question="q1")
    second = await desk.ask("How high is the penalty ceiling of a contract?", question="q2")
    two = await desk.resume(second.interrupt_id, approve(), question="q2")
    one = await desk.resume(first.interrupt_id, approve(), question="q1")
    assert one.draft == first.draft
    assert two.draft == second.draft
    assert (await desk.resume(first.interrupt_id, approve(), question="q2")).status == "stale"


async def test_row_23_asking_again_meanwhile_leaves_the_draft_alone(desk: Desk) -> None:
    """agent-chat-ui#85: another question in the conversation is answered, and the waiting draft is the same."""
    held = await desk.ask(PENALTY, question="q1")
    assert (await desk.ask(LEAVE, question="q2")).status == "answered"
    outcome = await desk.resume(held.interrupt_id, approve(), question="q1")
    assert outcome.draft == held.draft


async def test_row_39_a_decision_on_an_unknown_thread_starts_nothing(desk: Desk, database_url: str) -> None:
    """A click for a deleted question runs no node, asks no model and writes no row."""
    assert (await desk.resume("0" * 32, approve(), question="gone")).status == "stale"
    assert desk.steps == []
    assert desk.pen.drafted == []
    assert measure(database_url).rows == 0


async def test_neither_graph_is_traced_even_when_the_shell_asks_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A developer's LANGSMITH_TRACING sends no state, no question and no turn anywhere."""
    assert desk.database is not None
    with OpenAIServer() as tracer:
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
            monkeypatch.setenv(name, "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", tracer.base_url)
        monkeypatch.setenv("LANGSMITH_API_KEY", tracer.key)
        held = await desk.ask(PENALTY)
        await desk.resume(held.interrupt_id, approve())
        await remember(desk.database.saver(), "c1", Turn("q1", PENALTY, "2 percent."), desk.deps)
        await recall(desk.database.saver(), "c1")
        await forget(desk.database.saver(), "c1", "q1")
        await asyncio.sleep(0.5)
        assert tracer.hits == 0


async def test_row_22_nothing_is_revived_from_a_row(desk: Desk) -> None:
    """GHSA-fjqc-hq36-qh5p: a type that somebody wrote into the tables comes back as data, never as an object,
    whatever the environment says; and the versions that mend it are the least we run with."""
    assert desk.database is not None
    kind, data = JsonPlusSerializer(allowed_msgpack_modules=True).dumps_typed({"x": desk.limits})
    revived = desk.database.saver().serde.loads_typed((kind, data))
    assert not isinstance(revived["x"], Limits)
    assert parsed("langgraph-checkpoint") >= (4, 1, 1)
    assert parsed("langgraph-checkpoint-postgres") >= (3, 1, 1)


class Losing:
    """A database whose checkpointer loses its connection at the `at`-th write, before it or just after: then the
    answer is lost, not the write."""

    def __init__(self, database: Database, at: int, *, after: bool) -> None:
        self._database, self._at, self._after = database, at, after
        self.lost = False

    def saver(self) -> Any:
        saver: Any = self._database.saver()
        for name in ("aput", "aput_writes"):
            setattr(saver, name, self._counted(getattr(saver, name)))
        return saver

    def _counted(self, write: Any) -> Any:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self._at -= 1
            last = self._at == 0
            if last and not self._after:
                self.lost = True
                raise OperationalError
            done = await write(*args, **kwargs)
            if last:
                self.lost = True
                raise OperationalError
            return done

        return counted


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "decision",
    [approve(), edit("Two percent, says Rae. [1]"), reject(reason="wrong"), reject(hint="the ceiling")],
    ids=["approve", "edit", "reject", "hint"],
)
async def test_a_decision_survives_the_database_going_at_any_write(
    desk: Desk, decision: Decision, after: bool
) -> None:
    """Whatever write of the resumed run is the last, repeating the job comes to where an undisturbed run comes. Found
    by restarting Postgres under load: between a step and its checkpoint nothing is next, and the run was given up."""
    assert desk.database is not None
    whole, at = desk.database, 0
    held = await desk.ask(PENALTY, question="whole")
    wanted = await desk.resume(held.interrupt_id, decision, question="whole")
    lost = True
    while lost:
        at += 1
        name = f"q{at}"
        held = await desk.ask(PENALTY, question=name)
        losing: Any = Losing(whole, at, after=after)
        desk.database = losing
        with suppress(OperationalError):
            await desk.resume(held.interrupt_id, decision, question=name)
        lost, desk.database = losing.lost, whole
        outcome = await desk.resume(held.interrupt_id, decision, question=name)
        assert (outcome.status, outcome.review_status) == (wanted.status, wanted.review_status), at
        assert (outcome.draft and outcome.draft.text) == (wanted.draft and wanted.draft.text)
        assert (outcome.interrupt_id is None) == (wanted.interrupt_id is None)
    assert at > 3


def parsed(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version(package).split(".")[:3])
