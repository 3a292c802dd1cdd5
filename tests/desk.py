"""The question graph on a desk: a shelf, a pen, rules and a saver, with the calls a test makes most."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from langgraph.runtime import Runtime

from rag_graph.advance import Outcome, advance
from rag_graph.contracts import Decision, Deps, Limits, Question, ToolCall, Turn
from rag_graph.graph import NODES, Node, build_question_graph
from rag_graph.policy import Rules
from rag_graph.state import QuestionState, initial, merge
from rag_graph.tools import builtin_registry
from store.database import Database
from tests.pen import Pen
from tests.shelf import Shelf, passage

HOLD_CONTRACTS = [{"name": "contracts", "collections": ["contracts"], "action": "hold"}]

HANDBOOK = [
    passage(1, "Annual leave is 15 days a year. Ask your manager first.", title="Annual leave", document=1),
    passage(2, "Unused annual leave expires on 31 March.", title="Carry-over of annual leave", document=2),
    passage(
        3, "The contract penalty is 2 percent of the price.", title="Contract penalty", collection="contracts"
    ),
    passage(
        4, "The contract penalty never exceeds 10 percent.", title="Penalty ceiling", collection="contracts"
    ),
    passage(5, "年假每年 15 天，须提前申请。", title="年假"),
]
LEAVE = "How many days of annual leave a year?"
PENALTY = "What is the contract penalty?"
HOP = "What is the contract penalty, and who grants annual leave?"
SEARCH = ToolCall("call_1", "search_knowledge_base", {"query": "annual leave manager"})
TALKED = ([Turn("q0", "How many days of annual leave do I get?", "15 days. [1]")], "")


@dataclass
class Desk:
    """`database` is None for tests that call nodes one by one."""

    database: Database | None = None
    shelf: Shelf = field(default_factory=lambda: Shelf(list(HANDBOOK), confidence=0.9))
    pen: Any = field(default_factory=Pen)
    rules: Rules = field(default_factory=lambda: Rules.parse(HOLD_CONTRACTS))
    limits: Limits = field(default_factory=Limits)
    nodes: Mapping[str, Node] = field(default_factory=lambda: NODES)
    events: list[tuple[str, str]] = field(default_factory=list)
    heard: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = build_question_graph(self.nodes)

    @property
    def deps(self) -> Deps:
        return Deps(
            retriever=self.shelf,
            writer=self.pen,
            rules=self.rules,
            limits=self.limits,
            tools=builtin_registry(),
            contact="#ask-people",
            today=lambda: date(2025, 3, 3),
            on_sentence=self._hear,
        )

    async def ask(
        self, text: str = LEAVE, *, question: str = "q1", history: tuple[Sequence[Turn], str] | None = None
    ) -> Outcome:
        return await self._advance(question, question=asked(text, question), history=history)

    async def resume(self, interrupt_id: str | None, decision: Decision, *, question: str = "q1") -> Outcome:
        return await self._advance(
            question, question=asked("", question), interrupt_id=interrupt_id, decision=decision
        )

    async def _advance(self, name: str, **values: Any) -> Outcome:
        assert self.database is not None
        saver = self.database.saver()
        return await advance(self.graph, saver, thread(name), self.deps, on_event=self._event, **values)

    async def snapshot(self, question: str = "q1") -> Any:
        assert self.database is not None
        graph = self.graph.copy({"checkpointer": self.database.saver()})
        return await graph.aget_state({"configurable": {"thread_id": thread(question)}})

    async def _event(self, step: str, text: str) -> None:
        self.events.append((step, text))

    async def _hear(self, question_id: str, piece: str) -> None:
        self.heard.append((question_id, piece))

    @property
    def steps(self) -> list[str]:
        """The nodes that ran, in order."""
        return [step for step, _ in self.events]


async def through(name: str, state: QuestionState, at: Desk) -> QuestionState:
    """The state after node `name`, reducers applied; fails if the node changed the state it was given."""
    before = copy.deepcopy(state)
    node: Any = at.nodes[name]
    update = await node(state, runtime=Runtime(context=at.deps))
    assert state == before
    after: Any = {**state, **update}
    after["notes"] = merge(state["notes"], update.get("notes", {}))
    after["tool_results"] = [*state["tool_results"], *update.get("tool_results", ())]
    return after  # type: ignore[no-any-return]


async def retrieved(at: Desk, text: str = LEAVE, history: Any = None) -> QuestionState:
    """The state after the first search for `text`."""
    state = initial(asked(text), history)
    for name in ("lookup_verified", "route", "rewrite", "retrieve"):
        state = await through(name, state, at)
    return state


def thread(question: str) -> str:
    return f"web:general:t1/{question}"


def asked(text: str, identity: str = "q1", **changes: Any) -> Question:
    language = "zh" if any("\u4e00" <= character <= "\u9fff" for character in text) else "en"
    question = Question(identity, "web:general:t1", text, language, "web:ada", ("everyone", "web:ada"))
    return replace(question, **changes)


def approve(by: str = "web:rae") -> Decision:
    return Decision("approve", by)


def edit(text: str, by: str = "web:rae") -> Decision:
    return Decision("edit", by, text=text)


def reject(*, hint: str = "", question: str = "", reason: str = "", by: str = "web:rae") -> Decision:
    return Decision("reject", by, reason=reason, hint=hint, question=question)


def expire() -> Decision:
    return Decision("expire", "")
