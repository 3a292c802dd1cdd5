"""The conversation graph: what a chat thread remembers, on LangGraph's thread of the conversation's own id.

It holds the last turns and, of older ones, a sentence or two. A turn's id is its question's, so remembering twice is
harmless, and an edit, a correction or a deletion rewrites the turn. A question in review stands there as that, never
as its draft. Only the newest checkpoint is kept: thirty turns take no more room than ten.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langsmith import tracing_context

from rag_graph.contracts import Deps, ModelUnavailable, Turn
from store.text import language

__all__ = [
    "ConversationState",
    "build_conversation_graph",
    "forget",
    "gist",
    "questions_asked",
    "recall",
    "remember",
]

SUMMARISE: Final = "summarise"
END: Final = "__end__"  # langgraph's END, as a literal
REMOVED: Final = "removed"
SETTLED: Final = frozenset({"answered", "declined", "failed"})

ANSWER_CHARACTERS = 2_000  # the draft's history budget is 1,500 tokens for all turns together
GIST_CHARACTERS = 60
GISTS = 20
# More open questions than this in one thread are folded like settled ones, so that the state stays bounded.
MESSAGES = 12


def upsert(old: list[dict[str, str]], new: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Append turns; one whose question is known replaces its earlier self in place, or removes it."""
    turns = {turn["question_id"]: turn for turn in old}
    for turn in new:
        turns[turn["question_id"]] = turn
    return [turn for turn in turns.values() if turn["status"] != REMOVED]


class ConversationState(TypedDict, total=False):
    """`messages`: turns as dicts, oldest first. `summary`: {"text", "turns": gists of what it covers, bounded}."""

    messages: Annotated[list[dict[str, str]], upsert]
    summary: dict[str, Any]


ConversationGraph = CompiledStateGraph[ConversationState, Deps, ConversationState, ConversationState]


def build_conversation_graph() -> ConversationGraph:
    graph = StateGraph(ConversationState, context_schema=Deps)
    graph.add_node(SUMMARISE, summarise)
    graph.add_conditional_edges(START, grown, {SUMMARISE: SUMMARISE, END: END})
    graph.add_edge(SUMMARISE, END)
    return graph.compile()


def grown(state: ConversationState, runtime: Runtime[Deps]) -> Literal["summarise", "__end__"]:
    """Older turns are folded a few at a time, so that a model is not asked on every turn."""
    return SUMMARISE if len(state["messages"]) > runtime.context.limits.history_turns else END


async def summarise(state: ConversationState, runtime: Runtime[Deps]) -> dict[str, Any]:
    """Fold all but the last turns into the summary. Open questions stay, their answer is still to come."""
    deps = runtime.context
    messages = state["messages"]
    older = messages[: -deps.limits.verbatim_turns]
    if len(messages) <= MESSAGES:
        older = [turn for turn in older if turn["status"] in SETTLED]
    if not older:
        return {}
    summary = state.get("summary") or {"text": "", "turns": []}
    gists = [*summary["turns"], *map(gist, older)][-GISTS:]
    turns = [Turn(**turn) for turn in older]
    try:
        text = await deps.writer.summarise(summary["text"], turns, language(turns[-1].question))
    except ModelUnavailable:
        text = questions_asked(gists)
    return {
        "messages": [{**turn, "status": REMOVED} for turn in older],
        "summary": {"text": text, "turns": gists},
    }


def gist(turn: dict[str, str]) -> dict[str, str]:
    """What is kept of a folded turn: enough to forget it, and to notice that it changed."""
    return {
        "question_id": turn["question_id"],
        "question": _shortened(turn["question"], GIST_CHARACTERS),
        "digest": _digest(turn),
    }


def questions_asked(gists: Sequence[dict[str, str]]) -> str:
    """A summary without a model: the last questions, shortened."""
    return " / ".join(entry["question"] for entry in gists[-6:])


async def remember(saver: BaseCheckpointSaver[Any], conversation_id: str, turn: Turn, deps: Deps) -> None:
    """Store `turn`, replacing an earlier version of it. The caller serialises calls for one conversation."""
    stored = asdict(replace(turn, answer=_shortened(turn.answer, ANSWER_CHARACTERS)))
    state = await _state(saver, conversation_id)
    gists = state.get("summary", {}).get("turns", [])
    if stored in state.get("messages", ()) or any(entry["digest"] == _digest(stored) for entry in gists):
        return
    update: ConversationState = {"messages": [stored]}
    if any(entry["question_id"] == turn.question_id for entry in gists):
        update["summary"] = _without(state["summary"], turn.question_id)
    await _write(saver, conversation_id, update, deps)


async def recall(saver: BaseCheckpointSaver[Any], conversation_id: str) -> tuple[list[Turn], str]:
    """The last turns, oldest first, and the summary of what went before them ("" without any)."""
    state = await _state(saver, conversation_id)
    turns = [Turn(**turn) for turn in state.get("messages", ())]
    return turns, state.get("summary", {}).get("text", "")


async def forget(saver: BaseCheckpointSaver[Any], conversation_id: str, question_id: str) -> None:
    """Remove a turn, also from the summary, which is then made anew from the questions that remain."""
    state = await _state(saver, conversation_id)
    if not state:
        return
    if any(turn["question_id"] == question_id for turn in state["messages"]):
        removed = asdict(Turn(question_id, "", "", REMOVED))
        await _rewrite(saver, conversation_id, {"messages": [removed]})
    elif state.get("summary"):
        # Also when the gist is no longer listed: the summary's sentence may still tell of it.
        summary = _without(state["summary"], question_id)
        await _rewrite(saver, conversation_id, {"messages": [], "summary": summary})


GRAPH: Final = build_conversation_graph()


def _config(conversation_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": conversation_id}}


async def _state(saver: BaseCheckpointSaver[Any], conversation_id: str) -> ConversationState:
    snapshot = await GRAPH.copy({"checkpointer": saver}).aget_state(_config(conversation_id))
    return cast(ConversationState, snapshot.values)


async def _write(
    saver: BaseCheckpointSaver[Any], conversation_id: str, update: ConversationState, deps: Deps
) -> None:
    graph = GRAPH.copy({"checkpointer": saver})
    with tracing_context(enabled=False):
        await graph.ainvoke(update, _config(conversation_id), context=deps, durability="exit")
    await saver.aprune([conversation_id])


async def _rewrite(saver: BaseCheckpointSaver[Any], conversation_id: str, update: ConversationState) -> None:
    """Change the state without running a node: nothing is added, so there is nothing to summarise."""
    graph = GRAPH.copy({"checkpointer": saver})
    with tracing_context(enabled=False):
        await graph.aupdate_state(_config(conversation_id), update, as_node=SUMMARISE)
    await saver.aprune([conversation_id])


def _without(summary: dict[str, Any], question_id: str) -> dict[str, Any]:
    gists = [entry for entry in summary["turns"] if entry["question_id"] != question_id]
    return {"text": questions_asked(gists), "turns": gists}


def _digest(turn: dict[str, str]) -> str:
    facts = "\x1f".join((turn["question_id"], turn["question"], turn["answer"], turn["status"]))
    return hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()[:16]


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
