"""A writer for tests: answers from a script, otherwise quotes its first passage, and remembers what it was given."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_graph.contracts import Material, ModelUnavailable, OnSentence, Question, ToolCall, Turn, Written
from rag_graph.tools import Registry
from store.text import sentences


@dataclass
class Pen:
    """Satisfies `rag_graph.contracts.Writer`. `broken` makes every method raise `ModelUnavailable`."""

    name: str = "model"
    drafts: deque[str] = field(default_factory=deque)
    rewrites: deque[str] = field(default_factory=deque)
    calls: deque[tuple[ToolCall, ...]] = field(default_factory=deque)
    broken: bool = False
    drafted: list[tuple[Question, tuple[Turn, ...], str, Material]] = field(default_factory=list)
    rewritten: list[tuple[Question, str]] = field(default_factory=list)
    assessed: list[tuple[Material, tuple[str, ...]]] = field(default_factory=list)

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        self.rewritten.append((question, strategy))
        self._check()
        text = self.rewrites.popleft() if self.rewrites else f"{question.text} {strategy}"
        return Written(text, "model", tokens={"prompt": 10, "completion": 5})

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        self.assessed.append((material, tools.names))
        self._check()
        return Written(
            "", "model", self.calls.popleft() if self.calls else (), {"prompt": 20, "completion": 1}
        )

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        self.drafted.append((question, tuple(turns), summary, material))
        self._check()
        text = self.drafts.popleft() if self.drafts else f"{sentences(material.passages[0].text)[0]} [1]"
        if on_sentence is not None:
            await on_sentence(text)
        return Written(text, "model", tokens={"prompt": 100, "completion": 20})

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        self._check()
        return f"{len(turns)} older turns"

    def _check(self) -> None:
        if self.broken:
            raise ModelUnavailable
