"""The ten nodes: functions from the state to a partial update. They return new objects and change nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from rag_graph import decisions, drafting, ramp, retrieval, reuse, routing
from rag_graph.contracts import (
    Deps,
    Draft,
    Material,
    ModelUnavailable,
    OnSentence,
    Passage,
    Question,
    ToolCall,
    Written,
)
from rag_graph.drafting import assemble, by_tools, edited
from rag_graph.models import ExtractiveWriter
from rag_graph.policy import Hold, Private, Refuse, Two, Verdict, decide, precheck
from rag_graph.rewrite import CARRY_OVER
from rag_graph.state import QuestionState, ReviewStatus, question_of, turns_of
from rag_graph.tools.contract import Context
from store.text import clean

__all__ = [
    "clarify",
    "decline",
    "draft",
    "lookup_verified",
    "publish",
    "retrieve",
    "review",
    "rewrite",
    "route",
    "tools",
]

Update = dict[str, Any]
Run = Runtime[Deps]

QUERY_CHARACTERS: Final = 400  # a string channel is copied into every checkpoint row
TOOL_PASSAGES: Final = 3  # passages a tool may add to what the draft reads
KEPT: Final = 8
HELD: Final = (Hold.disposition, Private.disposition, Two.disposition)


async def lookup_verified(state: QuestionState, runtime: Run) -> Update:
    """The answer that was signed off for this very question, if there is one that these readers may read."""
    question = question_of(state)
    if retrieval.next_strategy(state, runtime.context):
        return {}  # it means nothing without its thread; looked up once it was made whole
    return await reuse.looked_up(runtime.context, question, question.text)


async def route(state: QuestionState, runtime: Run) -> Update:
    """Small talk and questions about the bot are said at once, one too vague is asked back, the rest searched."""
    chosen = routing.route(state["question"]["text"], turns_of(state))
    notes = {"route": chosen.kind, "topic": chosen.topic}
    if chosen.kind == "smalltalk":
        return {"draft": Draft("", "smalltalk").to_json(), "notes": notes}
    return {"notes": notes}


async def clarify(state: QuestionState, runtime: Run) -> Update:
    """One question back; its words are the bot's, the topic says which."""
    return _end(Draft("", "clarify"))


async def rewrite(state: QuestionState, runtime: Run) -> Update:
    """The question as search can use it: the topic carried over, or, after a weak search, put another way."""
    deps, notes = runtime.context, state["notes"]
    strategy = retrieval.next_strategy(state, deps)
    if not strategy:
        return {"rewritten_question": ""}
    written = await retrieval.rewritten(state, deps, strategy)
    text = clean(written.text).strip()[:QUERY_CHARACTERS]
    tried = [*notes.get("strategies", ()), strategy]
    made_whole = strategy == CARRY_OVER and not notes.get("held")
    found = await reuse.looked_up(deps, question_of(state), text) if made_whole else {}
    return {
        **found,
        "rewritten_question": "" if text == state["question"]["text"] else text,
        "notes": {
            "strategies": tried,
            "whole": text if strategy == CARRY_OVER else notes.get("whole", ""),
            **retrieval.spent(notes, written),
            **found.get("notes", {}),
        },
    }


async def retrieve(state: QuestionState, runtime: Run) -> Update:
    """Search once, or take in what tools found; then say whether it is enough, weak or nothing."""
    deps, question = runtime.context, question_of(state)
    iteration = state["iteration"] + 1
    if state["notes"].get("returned"):
        update: Update = {"notes": {"returned": False}}
    else:
        update = await retrieval.search(state, deps, question)
    after: QuestionState = {
        **state,
        **update,  # type: ignore[typeddict-item] # keys of the state only
        "iteration": iteration,
        "notes": {**state["notes"], **update["notes"]},
    }
    written, offered = await retrieval.assess(after, deps, question)
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in written.tool_calls]
    notes = {
        **update["notes"],
        **retrieval.spent(after["notes"], written),
        "found": retrieval.weigh(after, deps),
        "offered": list(dict.fromkeys([*state["notes"].get("offered", ()), *offered])),
    }
    return {**update, "iteration": iteration, "tool_calls": calls, "notes": notes}


async def tools(state: QuestionState, runtime: Run) -> Update:
    """Run what the model asked for, side by side; passages found join the others."""
    deps = runtime.context
    context = Context(question_of(state), deps)
    calls = [ToolCall(**call) for call in state["tool_calls"]]
    before = [row["name"] for row in retrieval.results(state)]
    names = [*before, *(call.name for call in calls)]
    runs = await asyncio.gather(
        *(
            deps.tools.run(call, context, already=at, of_this=names[:at].count(call.name))
            for at, call in enumerate(calls, len(before))
        )
    )
    found = [passage for run in runs for passage in run.passages[:TOOL_PASSAGES]]
    known = {doc["id"] for doc in state["retrieved_docs"]}
    kept = list(dict.fromkeys([*state["notes"].get("kept", ()), *(p.id for p in found)]))[:KEPT]
    best = max([state["notes"].get("confidence", 0.0), *(run.confidence for run in runs)])
    return {
        "tool_calls": [],
        "tool_results": [retrieval.tool_row(run) for run in runs],
        "retrieved_docs": [
            *state["retrieved_docs"],
            *(retrieval.entry(p) for p in {p.id: p for p in found}.values() if p.id not in known),
        ],
        "notes": {"returned": True, "kept": kept, "confidence": best},
    }


async def draft(state: QuestionState, runtime: Run) -> Update:
    """Write an answer from the kept passages, check it, and ask the policy what becomes of it."""
    deps, question, notes = runtime.context, question_of(state), state["notes"]
    passages = await deps.retriever.passages(notes["kept"], question.principals)
    rejected = notes.get("rejected", ())
    made, written = await _drafted(state, deps, question, passages)
    spent = retrieval.spent(notes, written)
    if made is not None and decisions.repeats(made.text, rejected):
        # The same words that a reviewer rejected: once more without the passages they came from, or not at all.
        other = [passage for passage in passages if passage.id not in notes.get("demoted", ())]
        made, written = await _drafted(state, deps, question, other)
        spent = retrieval.spent({**notes, **spent}, written)
    if made is None or decisions.repeats(made.text, rejected):
        return {"draft": {}, "notes": {**spent, "reason": "unsupported"}}
    verdict = await _loosened(
        deps, question, made, decide(question, made, deps.rules, state["rewritten_question"])
    )
    if isinstance(verdict, Refuse):
        return {"draft": {}, "notes": {**spent, **_said(verdict)}}
    if isinstance(verdict, Hold | Private) or notes.get("held"):
        return _hold(state, made, verdict, spent)
    return {"draft": made.to_json(), "notes": {**spent, **_said(verdict)}}


async def review(state: QuestionState, runtime: Run) -> Update:
    """Wait for a person. On resume the node runs again from its start, so nothing else belongs here."""
    answer = interrupt({"round": state["draft"]["round"], "rule": state["notes"].get("rule", "")})
    return decisions.apply(state, answer, runtime.context.limits.review_rounds)


async def publish(state: QuestionState, runtime: Run) -> Update:
    """Let the draft go, if what it cites is unchanged and its readers may still read it."""
    deps, question = runtime.context, question_of(state)
    made = Draft.from_json(state["draft"])
    if not made.citations and state["review_status"] != ReviewStatus.EDITED:
        return _end(made)
    cited = [citation.passage_id for citation in made.citations]
    passages = await deps.retriever.passages(cited, question.principals)
    unchanged = [c.content_hash for c in made.citations] == [p.content_hash for p in passages]
    if not unchanged:
        return _sources_changed(state, deps)
    if state["review_status"] == ReviewStatus.EDITED:
        made = edited(made, passages)
    return _end(made)


async def decline(state: QuestionState, runtime: Run) -> Update:
    """Say that the documents do not answer it; what was searched and whom to ask are facts for the bot's words."""
    notes = state["notes"]
    ended = _end(
        Draft(
            "",
            "declined",
            confidence=notes.get("confidence", 0.0),
            calibrated=notes.get("calibrated", False),
            round=notes.get("round", 1),
        )
    )
    # Sent back to search and nothing found: that is not knowing, and no longer a reviewer's refusal or approval.
    return {**ended, "review_status": ReviewStatus.NONE} if notes.get("again") else ended


async def _loosened(deps: Deps, question: Question, made: Draft, verdict: Verdict) -> Verdict:
    """What the trust ramp makes of a hold."""
    rule = deps.rules.named(verdict.rule)
    if deps.trust is None or deps.ramp is None or rule is None or not rule.ramp:
        return verdict
    standings = await deps.trust(ramp.topics(verdict.rule, made.collections))
    return ramp.loosened(verdict, question, made, deps.rules, standings, deps.ramp)


# --- steps of draft ---------------------------------------------------------------------------------------------


async def _drafted(
    state: QuestionState, deps: Deps, question: Question, passages: Sequence[Passage]
) -> tuple[Draft | None, Written]:
    """A checked draft from `passages`, by the model or, where it does not answer, in quotations."""
    results = retrieval.results(state)
    if not passages and not any(not row["error"] for row in results):
        return None, Written("", "rules")
    notes, turns = state["notes"], turns_of(state)
    material = Material(
        tuple(passages),
        results,
        notes.get("guidance", ""),
        tuple(notes.get("rejected", ())),
    )
    degraded: tuple[str, ...] = ()
    try:
        written = await deps.writer.draft(
            question, turns, notes.get("summary", ""), material, _listener(state, deps, question)
        )
    except ModelUnavailable:
        degraded = ("model",)
        written = await ExtractiveWriter().draft(question, turns, notes.get("summary", ""), material)
    written = replace(written, degraded=(*written.degraded, *degraded))
    said = [str(row["text"]) for row in results if not row["error"]]
    made = assemble(written, passages, notes)
    if made is None and written.kind == "model":
        made = by_tools(written, said, question.principals, notes)
    if made is None and written.kind == "model" and not material.redo and drafting.claims(written):
        return await _redone(state, deps, passages, replace(material, redo=True), written)
    return made, written


async def _redone(
    state: QuestionState, deps: Deps, passages: Sequence[Passage], material: Material, first: Written
) -> tuple[Draft | None, Written]:
    """Once more, told why the first draft could not stand; it streams to nobody, the first one may have."""
    notes = state["notes"]
    try:
        again = await deps.writer.draft(
            question_of(state), turns_of(state), notes.get("summary", ""), material
        )
    except ModelUnavailable:
        return None, first
    tokens = {
        key: first.tokens.get(key, 0) + again.tokens.get(key, 0) for key in {**first.tokens, **again.tokens}
    }
    return assemble(again, passages, notes), replace(again, tokens=tokens)


def _listener(state: QuestionState, deps: Deps, question: Question) -> OnSentence | None:
    """Who hears the sentences as they are written: nobody, if any rule could hold this draft (invariant 3)."""
    tell = deps.on_sentence
    searched = state["rewritten_question"] or question.text
    if tell is None or state["notes"].get("held") or not precheck(question, deps.rules, searched):
        return None

    async def on_sentence(piece: str) -> None:
        await tell(question.id, piece)

    return on_sentence


def _hold(state: QuestionState, made: Draft, verdict: Verdict, spent: Update) -> Update:
    """A question that was held once is held again, whatever the rules say of its next draft."""
    said = _said(verdict)
    if not isinstance(verdict, Hold | Private):
        notes = state["notes"]
        before = str(notes.get("disposition", ""))  # two people go on being two
        said = {
            "disposition": before if before in HELD else Hold.disposition,
            "rule": notes.get("rule", ""),
            "reason": notes.get("reason", ""),
        }
    return {
        "draft": made.to_json(),
        "review_status": ReviewStatus.PENDING,
        "notes": {**spent, **said, "held": True, "round": made.round, "again": False},
    }


def _said(verdict: Verdict) -> Update:
    return {"disposition": verdict.disposition, "rule": verdict.rule, "reason": verdict.reason}


# --- steps of publish -------------------------------------------------------------------------------------------


def _end(made: Draft) -> Update:
    """The draft becomes the answer; the history it was written from is the conversation graph's to keep."""
    return {"draft": {}, "answer": made.to_json(), "chat_history": []}


def _sources_changed(state: QuestionState, deps: Deps) -> Update:
    """Search again. A signed draft is held anew; one that nobody holds may not go round for ever."""
    notes: Update = {"reason": "sources_changed", "again": True, "verified": {}}
    if state["notes"].get("held"):
        return decisions.searched_anew(state, notes)
    again = state["iteration"] < deps.limits.hard_iterations
    return {
        "draft": {},
        "retrieved_docs": [],
        "notes": {**notes, "confidence": 0.0, "kept": [], "again": again},
    }
