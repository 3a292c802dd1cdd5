"""Driving the question graph: start, continue or resume, whichever the checkpoint calls for, and say what came of it.

Measured in LangGraph 1.2.24, and why this is the only door: a resume on an unknown thread starts the graph with an
empty state; one with a stale id is ignored without a word; one by plain value approves whatever waits there now;
a resume after the paused node was renamed "succeeds" and the draft is gone. A resume with an old checkpoint id
forks the thread, so none is ever stored or sent.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StateSnapshot
from langsmith import tracing_context

from rag_graph.contracts import Decision, Deps, Draft, Question, RunLost, Turn
from rag_graph.deadline import within
from rag_graph.decisions import fingerprint
from rag_graph.graph import RETRIEVE, QuestionGraph
from rag_graph.state import ReviewStatus, initial
from rag_graph.tools import troubles

__all__ = ["OnEvent", "Outcome", "Status", "advance"]

Status = Literal["answered", "declined", "clarified", "held", "stale"]
OnEvent = Callable[[str, str], Awaitable[None]]  # (node name as it starts, the question it searches with)

# Undocumented, and the difference between an error and a silently ignored answer (langgraph#8836).
STRICT: Final = "__pregel_strict_resume"
# The longest way between two pauses is under twenty nodes.
STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a question stands. `interrupt_id` is set while held; `timings` are milliseconds by step of this run.

    `status` "stale": nothing was done, because the thread is unknown or the decision belongs to no pause of it.
    `topic` names the small talk or the vagueness; `searched` is what was looked for, in order; `question` the
    text that was answered where a reviewer put a better one; `whole` a follow-up as it can be asked alone; `verified`
    the signed-off answer that was used again: id, by, at and how.
    """

    status: Status
    draft: Draft | None = None
    interrupt_id: str | None = None
    review_status: str = ReviewStatus.NONE
    decided_by: str = ""
    topic: str = ""
    rule: str = ""
    reason: str = ""
    disposition: str = ""
    question: str = ""
    rewritten_question: str = ""
    whole: str = ""
    verified: Mapping[str, Any] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    retrieved: tuple[int, ...] = ()
    scores: tuple[Mapping[str, Any], ...] = ()  # rows for `runs.scores`
    confidence: float = 0.0
    calibrated: bool = False
    degraded: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    prompts: tuple[
        Mapping[str, Any], ...
    ] = ()  # what the model was asked in this run, as far as that is kept
    cost: float | None = None  # of those calls; None where a price is not known
    variant: str = ""  # that answered; "": the settings


async def advance(  # noqa: PLR0913 - one door for starting, continuing and resuming; all but four by name
    graph: QuestionGraph,
    saver: BaseCheckpointSaver[Any],
    thread: str,
    deps: Deps,
    *,
    question: Question | None = None,
    history: tuple[Sequence[Turn], str] | None = None,
    interrupt_id: str | None = None,
    decision: Decision | None = None,
    on_event: OnEvent | None = None,
) -> Outcome:
    """Bring `thread` to its next pause or its end. Repeating a call after a crash anywhere is harmless.

    Give `question` (and `history`) to start, `interrupt_id` and `decision` to resume; a run that died half way is
    continued by either. The caller serialises calls for one thread. `saver` is one made for this call.

    Raises `RunLost` where a resumed thread ends in neither an answer nor a pause.
    """
    running = graph.copy({"checkpointer": saver})  # 0.03 ms; compiling takes 2 ms
    config: RunnableConfig = {
        "configurable": {"thread_id": thread, STRICT: True},
        "recursion_limit": STEPS,
    }
    before = await running.aget_state(config)
    if before.values:
        move = _next_move(before, thread, interrupt_id, decision)
    else:
        move = initial(question, history) if question and interrupt_id is None else STALE
    if move is STALE:
        return Outcome("stale")
    if move is REST:
        return _outcome(before)
    # Nothing needs to be saved before the first pause (the inbox asks again after a crash): one checkpoint of
    # the end state instead of one a step. From the pause on every step is.
    reviewed = bool(before.values) and before.values["notes"].get("held", False)
    with within(deps.limits.question_seconds):
        timings = await _run(running, move, config, deps, on_event, "sync" if reviewed else "exit")
    after = await running.aget_state(config)
    if not after.interrupts and not after.values.get("answer"):
        raise RunLost(f"{thread} ended at {after.next or 'nothing'} without an answer or a pause")
    if reviewed and not after.interrupts:
        # The steps since the pause have served: three rounds leave 66 KB, their last checkpoint 10.
        await saver.aprune([thread])
    return _outcome(after, timings)


STALE: Final = object()
REST: Final = object()


def _next_move(
    before: StateSnapshot, thread: str, interrupt_id: str | None, decision: Decision | None
) -> Any:
    """What to feed a thread that exists: a resume, None to continue, or nothing."""
    pending = [interrupt.id for interrupt in before.interrupts]
    if before.tasks and not before.next:
        return None  # a step is done and the process or the database went before its checkpoint was stored
    if not before.next and not before.values.get("answer"):
        raise RunLost(f"{thread} waits at a node that this version does not have")
    if interrupt_id is not None and interrupt_id in pending:
        if decision is None:
            raise ValueError("an interrupt is answered with a decision")
        return Command(resume={interrupt_id: {**decision.to_json(), "interrupt_id": interrupt_id}})
    if before.next and not pending:
        return None
    if interrupt_id is None:
        return REST
    # A repeated job finds its decision taken and reads what came of it; another one for the same pause is stale.
    taken = before.values["notes"].get("decided", {}).get(interrupt_id)
    return REST if decision is not None and taken == fingerprint(decision) else STALE


async def _run(
    graph: QuestionGraph,
    move: Any,
    config: RunnableConfig,
    deps: Deps,
    on_event: OnEvent | None,
    durability: Literal["exit", "sync"],
) -> dict[str, float]:
    """Run to the next pause or the end; returns milliseconds by node. Nothing of it is ever traced elsewhere."""
    spent: dict[str, float] = {}
    started: dict[str, float] = {}
    with tracing_context(enabled=False):
        async for task in graph.astream(
            move, config, context=deps, stream_mode="tasks", durability=durability
        ):
            name = task["name"]
            if "triggers" in task:
                started[task["id"]] = time.perf_counter()
                if on_event is not None:
                    searching = name == RETRIEVE
                    await on_event(name, task["input"].get("rewritten_question", "") if searching else "")
            elif task["id"] in started:
                spent[name] = spent.get(name, 0.0) + (time.perf_counter() - started[task["id"]]) * 1_000
    return spent


def _outcome(snapshot: StateSnapshot, timings: Mapping[str, float] | None = None) -> Outcome:
    values = snapshot.values
    notes: Mapping[str, Any] = values["notes"]
    held = bool(snapshot.interrupts)
    draft = Draft.from_json(values["draft"] if held else values["answer"])
    return Outcome(
        status="held" if held else _STATUS.get(draft.kind, "answered"),
        draft=draft,
        interrupt_id=snapshot.interrupts[0].id if held else None,
        review_status=values["review_status"],
        decided_by=notes.get("by", ""),
        topic=notes.get("topic", ""),
        rule=notes.get("rule", ""),
        reason=notes.get("reason", ""),
        disposition=notes.get("disposition", ""),
        question=values["question"]["text"],
        rewritten_question=values.get("rewritten_question", ""),
        whole=notes.get("whole", ""),
        verified=notes.get("verified", {}),
        searched=tuple(notes.get("queries", ())),
        retrieved=tuple(doc["id"] for doc in values.get("retrieved_docs", ())),
        scores=tuple(_score(doc, notes) for doc in values.get("retrieved_docs", ())),
        confidence=notes.get("confidence", 0.0),
        calibrated=notes.get("calibrated", False),
        degraded=tuple(notes.get("degraded", ())),
        tools=troubles.told(values.get("tool_results", ()), notes.get("offered", ()), draft),
        tokens=notes.get("tokens", {}),
        timings={**notes.get("timings", {}), **(timings or {})},
    )


def _score(doc: Mapping[str, Any], notes: Mapping[str, Any]) -> dict[str, Any]:
    """A retrieved passage for `runs.scores`. One that an earlier version put into a checkpoint has no ranks."""
    places = {name: doc[name] for name in ("vector", "keyword", "reranked") if name in doc}
    return {
        "id": doc["id"],
        "document": doc["document_id"],
        "score": doc["score"],
        "read": doc["id"] in notes.get("kept", ()),
        **places,
    }


_STATUS: Final[Mapping[str, Status]] = {"declined": "declined", "clarify": "clarified"}
