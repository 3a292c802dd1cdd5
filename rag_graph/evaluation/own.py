"""People's own questions put to the graph that serves them, over a knowledge base that is only looked at.

Each question is a run of its own whose checkpoint is in memory: nothing is stored of it, no review is opened, nobody is
told. A draft that a rule would hold is judged as its reviewer would see it. Signed-off answers are not used again: what
a person wrote says nothing of search and drafting.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from langgraph.checkpoint.memory import InMemorySaver

from rag_graph.advance import Outcome, advance
from rag_graph.contracts import Deps, Material, OnSentence, Question, Turn, Writer, Written
from rag_graph.conversation import gist, questions_asked
from rag_graph.evaluation.answering import Judge
from rag_graph.evaluation.by_kind import results
from rag_graph.evaluation.questions import OwnQuestion
from rag_graph.evaluation.results import Result
from rag_graph.evaluation.verdicts import Known, Told, row
from rag_graph.graph import build_question_graph
from rag_graph.models import ExtractiveWriter
from rag_graph.retrieval import COVERING
from rag_graph.tools import Registry
from rag_graph.tools.offering import offered
from store.text import language

__all__ = ["Known", "OnQuestion", "own"]

T = TypeVar("T")
#: Told after each question how many are done.
OnQuestion = Callable[[int], None]


class Clocked:
    """Satisfies `contracts.Writer` with another one, and counts the milliseconds that it takes."""

    def __init__(self, inner: Writer) -> None:
        self._inner = inner
        self.name = inner.name
        self._spent = 0.0

    def taken(self) -> float:
        """Milliseconds since this was last asked."""
        spent, self._spent = self._spent, 0.0
        return round(spent, 1)

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        return await self._timed(self._inner.rewrite(question, turns, summary, strategy))

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        return await self._timed(self._inner.assess(question, material, tools))

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        return await self._timed(self._inner.draft(question, turns, summary, material, on_sentence))

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        return await self._timed(self._inner.summarise(summary, turns, language))

    async def _timed(self, call: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            return await call
        finally:
            self._spent += 1_000 * (time.perf_counter() - began)


async def own(  # noqa: PLR0913 - what is asked of what; all but three by name
    name: str,
    questions: Sequence[OwnQuestion],
    deps: Deps,
    *,
    known: Sequence[Known],
    config: Mapping[str, Any],
    judge: Judge | None = None,
    on_question: OnQuestion = lambda _: None,
) -> list[Result]:
    """The figures of all `questions` and of each kind; the first result's details hold every question's row.

    They are asked one after the other, so that times are a single question's; those of a conversation in their order,
    each after the bot's own answers to the ones before it. `known` are the documents of the knowledge base.
    """
    writer = Clocked(deps.writer)
    desk = _Desk(build_question_graph(), replace(deps, writer=writer, shelf=None, trust=None), writer, judge)
    await deps.retriever.search("签发 sign off", ("everyone",), top_k=1)  # what loads does so once, uncounted
    rows = []
    for done, question in enumerate(questions, 1):
        rows.append(row(await desk.ask(question), known))
        on_question(done)
    degraded = [part for one in rows for part in one["without"]]
    details = {
        "documents": len(known),
        "model": writer.name != ExtractiveWriter.name,
        "guessed": sum(question.guessed for question in questions),
        "unjudged": [question.line for question in questions if not question.judged],
        "without": {part: degraded.count(part) for part in dict.fromkeys(degraded)},
    }
    return results(name, rows, config, details)


@dataclass
class _Desk:
    """Asks, and remembers what was said in which conversation."""

    graph: Any
    deps: Deps
    writer: Clocked
    judge: Judge | None
    said: dict[str, list[Turn]] = field(default_factory=dict)

    async def ask(self, asked: OwnQuestion) -> Told:
        question = Question(
            id=asked.id,
            conversation_id=f"evaluation:{asked.conversation or asked.id}",
            text=asked.text,
            language=language(asked.text),
            asker="evaluation",
            principals=asked.principals,
        )
        began = time.perf_counter()
        outcome = await advance(
            self.graph,
            InMemorySaver(),
            f"{question.conversation_id}/{question.id}",
            self.deps,
            question=question,
            history=self._history(asked),
        )
        ms = round(1_000 * (time.perf_counter() - began), 1)
        model_ms = self.writer.taken() if self.writer.name != ExtractiveWriter.name else None
        self._remember(asked, outcome)
        told = Told(
            asked,
            outcome,
            tuple(await self.deps.retriever.passages(outcome.retrieved, question.principals)),
            self.deps.limits.kept + COVERING,
            ms,
            model_ms,
            offered=await self._offered(asked),
        )
        return replace(told, judged=await self._judged(told))

    def _history(self, asked: OwnQuestion) -> tuple[list[Turn], str]:
        """The last turns, and of older ones what was asked: what memory keeps without asking a model."""
        turns = self.said.get(asked.conversation, []) if asked.conversation else []
        kept = self.deps.limits.history_turns
        older = [gist(asdict(turn)) for turn in turns[:-kept]]
        return turns[-kept:], questions_asked(older)

    def _remember(self, asked: OwnQuestion, outcome: Outcome) -> None:
        if asked.conversation:
            answer = outcome.draft.text if outcome.draft else ""
            status = "declined" if outcome.status == "declined" else "answered"
            self.said.setdefault(asked.conversation, []).append(Turn(asked.id, asked.text, answer, status))

    async def _offered(self, asked: OwnQuestion) -> tuple[str, ...]:
        if asked.kind != "tool" or self.writer.name == ExtractiveWriter.name:
            return ()
        return (await offered(asked.text, self.deps.tools, self.deps.nearness)).names

    async def _judged(self, told: Told) -> bool | None:
        """What the judge says of an answer; None where there is no judge or nothing to compare with."""
        facts = told.question.facts
        if self.judge is None or told.question.unanswerable or not facts:
            return None
        accepted = ("; ".join(group[0] for group in facts),)
        return not told.refused and await self.judge(told.question.text, accepted, told.answer)
