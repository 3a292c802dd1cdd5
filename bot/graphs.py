"""The two graphs as the use cases call them: compiled once, a saver for each run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.trials import SETTINGS, Trials
from rag_graph.advance import Outcome, advance
from rag_graph.contracts import Decision, Deps, Question, Turn
from rag_graph.conversation import forget, recall, remember
from rag_graph.record import Prompts


@dataclass(frozen=True)
class Graphs:
    """`question_graph` is the compiled question graph without a saver; `saver` makes a new checkpointer.

    One saver holds one lock for the whole process: 200 turn pairs took 14.3 s shared and 6.5 s with one for each
    run, which costs 0.1 ms.
    """

    question_graph: Any
    saver: Callable[[], Any]
    deps: Deps
    prompts: Prompts = field(default_factory=lambda: Prompts("none"))
    variants: Mapping[str, Deps] = field(default_factory=dict)  # by name
    trials: Trials | None = None

    async def advance(
        self,
        question: Question,
        *,
        history: tuple[list[Turn], str] | None = None,
        interrupt_id: str | None = None,
        decision: Decision | None = None,
        on_event: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Start, continue or resume the graph of one question, whichever its checkpoint calls for."""
        resumed = interrupt_id is not None
        variant = await (self._drafted_by(question.id) if resumed else self.variant(question))
        deps = self.variants.get(variant, self.deps)
        deps = replace(deps, on_sentence=_sentences(on_event)) if on_event else deps
        try:
            outcome = await advance(
                self.question_graph,
                self.saver(),
                thread_id(question.conversation_id, question.id),
                deps,
                question=question,
                history=history,
                interrupt_id=interrupt_id,
                decision=decision,
                on_event=on_event,
            )
        except Exception as error:
            self.prompts.failed(question.id, type(error).__name__)
            raise
        calls = self.prompts.take(question.id)
        return replace(outcome, prompts=calls, cost=self.prompts.cost(calls), variant=variant)

    async def variant(self, question: Question) -> str:
        """The variant that answers this question, where it is not resumed; "" for the settings."""
        return SETTINGS if self.trials is None else await self.trials.of(question)

    async def _drafted_by(self, question_id: str) -> str:
        return SETTINGS if self.trials is None else await self.trials.drafted_by(question_id)

    async def recall(self, conversation_id: str) -> tuple[list[Turn], str]:
        return await recall(self.saver(), conversation_id)

    async def remember(self, conversation_id: str, turn: Turn) -> None:
        deps = self.variants.get(await self._drafted_by(turn.question_id), self.deps)
        await remember(self.saver(), conversation_id, turn, deps)

    async def forget(self, conversation_id: str, question_id: str) -> None:
        await forget(self.saver(), conversation_id, question_id)


def thread_id(conversation_id: str, question_id: str) -> str:
    """A question has a LangGraph thread of its own: a new message on a thread with a pending interrupt discards
    the draft, and the old card's plain resume would then approve the new one (measured; docs/design.md)."""
    return f"{conversation_id}/{question_id}"


def _sentences(on_event: Callable[[str, str], Awaitable[None]]) -> Callable[[str, str], Awaitable[None]]:
    async def on_sentence(_question_id: str, sentence: str) -> None:
        await on_event("sentence", sentence)

    return on_sentence
