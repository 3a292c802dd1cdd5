"""The memory of a chat thread, on real Postgres."""

from collections.abc import Sequence
from datetime import date

import pytest

from rag_graph.contracts import (
    Deps,
    Limits,
    Material,
    ModelUnavailable,
    OnSentence,
    Question,
    Turn,
    Written,
)
from rag_graph.conversation import forget, recall, remember
from rag_graph.policy import Rules
from rag_graph.tools import Registry
from store import Store
from tests.checkpoints import measure
from tests.shelf import Shelf

THREAD = "web:general:t1"


class Scribe:
    """A writer that only summarises, and remembers what it was given."""

    name = "scribe"

    def __init__(self, *, broken: bool = False) -> None:
        self.folded: list[list[str]] = []
        self.broken = broken

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        raise NotImplementedError

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        raise NotImplementedError

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        raise NotImplementedError

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        if self.broken:
            raise ModelUnavailable
        self.folded.append([turn.question_id for turn in turns])
        return f"[{language}] {','.join(turn.question_id for turn in turns)}"


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


@pytest.fixture
def deps(scribe: Scribe) -> Deps:
    return make_deps(scribe)


def make_deps(writer: Scribe) -> Deps:
    return Deps(Shelf(), writer, Rules.parse([]), Limits(), Registry([]), today=lambda: date(2025, 3, 3))


def turn(number: int, *, answer: str = "", status: str = "answered") -> Turn:
    return Turn(f"q{number}", f"Question number {number}?", answer or f"Answer {number}.", status)


async def fill(store: Store, deps: Deps, count: int) -> None:
    for number in range(1, count + 1):
        await remember(store.database.saver(), THREAD, turn(number), deps)


async def test_an_unknown_conversation_remembers_nothing(store: Store) -> None:
    """A thread nobody asked in has no turns and no summary."""
    assert await recall(store.database.saver(), THREAD) == ([], "")


async def test_turns_come_back_in_the_order_they_were_asked(store: Store, deps: Deps) -> None:
    """Three turns are recalled verbatim, oldest first."""
    await fill(store, deps, 3)
    turns, summary = await recall(store.database.saver(), THREAD)
    assert turns == [turn(1), turn(2), turn(3)]
    assert summary == ""


async def test_remembering_twice_is_harmless(store: Store, deps: Deps, database_url: str) -> None:
    """The same turn again changes nothing, not even a row."""
    await fill(store, deps, 2)
    before = measure(database_url)
    await remember(store.database.saver(), THREAD, turn(1), deps)
    turns, _ = await recall(store.database.saver(), THREAD)
    assert turns == [turn(1), turn(2)]
    assert measure(database_url) == before


async def test_a_held_question_becomes_its_answer_in_place(store: Store, deps: Deps) -> None:
    """A turn in review is replaced where it stands once it is answered."""
    held = turn(1, status="in review")
    await remember(
        store.database.saver(), THREAD, Turn(held.question_id, held.question, "", "in review"), deps
    )
    await remember(store.database.saver(), THREAD, turn(2), deps)
    await remember(store.database.saver(), THREAD, turn(1), deps)
    turns, _ = await recall(store.database.saver(), THREAD)
    assert [(t.question_id, t.status) for t in turns] == [("q1", "answered"), ("q2", "answered")]


async def test_older_turns_fold_into_the_summary(store: Store, deps: Deps, scribe: Scribe) -> None:
    """Beyond five turns all but the last three are summarised, by the writer, in one call."""
    await fill(store, deps, 6)
    turns, summary = await recall(store.database.saver(), THREAD)
    assert [t.question_id for t in turns] == ["q4", "q5", "q6"]
    assert summary == "[en] q1,q2,q3"
    assert scribe.folded == [["q1", "q2", "q3"]]


async def test_a_question_in_review_is_not_folded(store: Store, deps: Deps) -> None:
    """An open question keeps its place until it is settled, so that its answer lands there."""
    await remember(store.database.saver(), THREAD, Turn("q0", "Held?", "", "in review"), deps)
    await fill(store, deps, 6)
    turns, _ = await recall(store.database.saver(), THREAD)
    assert turns[0] == Turn("q0", "Held?", "", "in review")


async def test_many_open_questions_stay_bounded(store: Store, deps: Deps) -> None:
    """Twenty open questions do not make twenty turns."""
    for number in range(20):
        await remember(store.database.saver(), THREAD, Turn(f"h{number}", "Held?", "", "in review"), deps)
    turns, _ = await recall(store.database.saver(), THREAD)
    assert len(turns) <= 12


async def test_without_a_model_the_summary_is_the_questions_asked(store: Store) -> None:
    """When the writer fails, the older questions themselves are the summary."""
    await fill(store, make_deps(Scribe(broken=True)), 6)
    _, summary = await recall(store.database.saver(), THREAD)
    assert summary == "Question number 1? / Question number 2? / Question number 3?"


async def test_a_repeated_job_does_not_bring_a_folded_turn_back(store: Store, deps: Deps) -> None:
    """Remembering a turn that was folded long ago, unchanged, is harmless too."""
    await fill(store, deps, 6)
    await remember(store.database.saver(), THREAD, turn(1), deps)
    turns, _ = await recall(store.database.saver(), THREAD)
    assert [t.question_id for t in turns] == ["q4", "q5", "q6"]


async def test_a_correction_of_a_folded_turn_is_the_latest_news(store: Store, deps: Deps) -> None:
    """A folded turn with another answer leaves the summary and stands among the turns again."""
    await fill(store, deps, 6)
    await remember(store.database.saver(), THREAD, turn(1, answer="Corrected."), deps)
    turns, summary = await recall(store.database.saver(), THREAD)
    assert [t.question_id for t in turns] == ["q4", "q5", "q6", "q1"]
    assert turns[-1].answer == "Corrected."
    assert "number 1?" not in summary
    assert "number 2?" in summary


async def test_forgetting_removes_a_turn(store: Store, deps: Deps) -> None:
    """A deleted question is no longer recalled."""
    await fill(store, deps, 3)
    await forget(store.database.saver(), THREAD, "q2")
    turns, _ = await recall(store.database.saver(), THREAD)
    assert [t.question_id for t in turns] == ["q1", "q3"]


async def test_forgetting_a_folded_turn_rewrites_the_summary(store: Store, deps: Deps) -> None:
    """A summary that told of a deleted question is made anew without it."""
    await fill(store, deps, 6)
    await forget(store.database.saver(), THREAD, "q2")
    _, summary = await recall(store.database.saver(), THREAD)
    assert summary == "Question number 1? / Question number 3?"


async def test_forgetting_in_an_unknown_conversation_writes_nothing(store: Store, database_url: str) -> None:
    """Deleting a question that was never remembered leaves no rows."""
    await forget(store.database.saver(), THREAD, "q1")
    assert measure(database_url).rows == 0


async def test_thirty_turns_take_no_more_room_than_twenty(
    store: Store, deps: Deps, database_url: str
) -> None:
    """One checkpoint remains whatever the number of turns, and its bytes stop growing with them."""
    sizes = []
    for number in range(100, 130):
        await remember(store.database.saver(), THREAD, turn(number, answer="Yes, by 31 March. " * 60), deps)
        sizes.append(measure(database_url))
    assert {size.checkpoints for size in sizes} == {1}
    assert {size.writes for size in sizes} == {0}
    largest = max(size.bytes for size in sizes)
    assert largest <= 1.25 * max(size.bytes for size in sizes[:20])
    assert largest < 12_000
