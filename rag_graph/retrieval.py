"""What `rewrite`, `retrieve` and `tools` do step by step: put the question, search, weigh what was found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from rag_graph.compound import parts
from rag_graph.contracts import Deps, Material, ModelUnavailable, Passage, Question, SearchResult, Written
from rag_graph.models import ExtractiveWriter
from rag_graph.rewrite import CARRY_OVER, by_rule, needs_rewrite, strategies
from rag_graph.state import EXTRACT, MENTION, QuestionState, question_of, turns_of
from rag_graph.terms import content
from rag_graph.tools.contract import ToolRun
from rag_graph.tools.offering import offered
from rag_graph.tools.router import CATALOGUE

__all__ = ["assess", "entry", "next_strategy", "results", "rewritten", "search", "spent", "tool_row", "weigh"]

# What a tool said is kept in the state: all of it where that is its whole yield, the beginning where its
# passages join the others.
RESULT_CHARACTERS: Final = 2_000
LISTING_CHARACTERS: Final = 300
COVERING: Final = 2  # passages that are read for a word of the question which the best ones lack
DEMOTED: Final = 2  # passages of rejected drafts that the next one reads, besides those kept


def _limit(deps: Deps) -> int:
    return min(deps.limits.iterations, deps.limits.hard_iterations)


def next_strategy(state: QuestionState, deps: Deps) -> str:
    """How to put the question this time; "" to leave it as it is, or when every way was tried."""
    text, notes = state["question"]["text"], state["notes"]
    if state["iteration"] == 0:
        return CARRY_OVER if needs_rewrite(text, turns_of(state)) else ""
    model = deps.writer.name != ExtractiveWriter.name and not _failing(notes)
    return strategies(notes.get("whole") or text, notes.get("strategies", []), model=model)


async def rewritten(state: QuestionState, deps: Deps, strategy: str) -> Written:
    """By the model, from the question as the first rewrite made it whole; by rule where there is none."""
    question, turns, notes = question_of(state), turns_of(state), state["notes"]
    summary = notes.get("summary", "")
    degraded: tuple[str, ...] = ()
    try:
        whole = replace(question, text=notes.get("whole") or question.text)
        written = None if _failing(notes) else await deps.writer.rewrite(whole, turns, summary, strategy)
        if written is not None and written.text.strip():
            return written
    except ModelUnavailable:
        degraded = ("rewrite",)
    titles = await deps.retriever.titles(question.principals)
    return Written(by_rule(question.text, turns, summary, titles, strategy), "rules", degraded=degraded)


async def search(state: QuestionState, deps: Deps, question: Question) -> dict[str, Any]:
    """Search, and keep the better of this result and the best so far."""
    notes, limits = state["notes"], deps.limits
    query = " ".join(filter(None, (state["rewritten_question"] or question.text, notes.get("wanted", ""))))
    result = await _found(deps, question, query)
    asked = len(parts(query))
    wanted = limits.kept + (asked if asked > 1 else 0)
    update: dict[str, Any] = {
        "queries": [*notes.get("queries", ()), query],
        "timings": _added(notes.get("timings", {}), result.timings),
        "degraded": _joined(notes.get("degraded", ()), result.degraded),
    }
    if state["retrieved_docs"] and result.confidence <= notes.get("confidence", 0.0):
        return {"notes": update}
    # What a rejected draft cited comes last and takes nobody's place. It is not left out: a section often holds
    # both the clause that was quoted and the one that the hint asks for.
    demoted = frozenset(notes.get("demoted", ()))
    fresh = [passage for passage in result.passages if passage.id not in demoted]
    again = [passage for passage in result.passages if passage.id in demoted]
    first, rest = _covering(query, fresh, wanted)
    kept = [*first, *again[:DEMOTED]]
    others = [*rest, *again[DEMOTED:]]
    update |= {
        "confidence": result.confidence,
        "calibrated": result.calibrated,
        "kept": [passage.id for passage in kept],
    }
    docs = [*(entry(passage) for passage in kept), *(entry(passage, MENTION) for passage in others)]
    return {"retrieved_docs": docs, "notes": update}


async def _found(deps: Deps, question: Question, query: str) -> SearchResult:
    """What one search brings; where a question asks several things, the best passage for each of them before it.

    As sure as of the part that is surest: what answers one part is worth saying.
    """
    asked, most = parts(query), deps.limits.candidates
    whole = await deps.retriever.search(query, question.principals, top_k=most)
    if len(asked) == 1:
        return whole
    found = [await deps.retriever.search(part, question.principals, top_k=most) for part in asked]
    best = [passage for result in found for passage in result.passages[:1]]
    passages = {passage.id: passage for passage in (*best, *whole.passages)}
    surest = max((whole, *found), key=lambda result: result.confidence)
    return replace(
        surest,
        passages=tuple(passages.values())[:most],
        degraded=tuple(_joined((), [part for result in (whole, *found) for part in result.degraded])),
        timings=reduce(_added, (result.timings for result in found), whole.timings),
    )


def _covering(query: str, passages: Sequence[Passage], wanted: int) -> tuple[list[Passage], list[Passage]]:
    """The first `wanted`, with at most two more that hold a word of the question which none before them has; and the
    rest."""
    kept, rest = list(passages[:wanted]), []
    lacking = set(content(query)).difference(*map(_words, kept))
    for passage in passages[wanted:]:
        held = lacking & _words(passage)
        if held and len(kept) < wanted + COVERING:
            kept.append(passage)
            lacking -= held
        else:
            rest.append(passage)
    return kept, rest


def _words(passage: Passage) -> frozenset[str]:
    return frozenset(content("\n".join((passage.title, *passage.heading_path, passage.text))))


def weigh(state: QuestionState, deps: Deps) -> str:
    """ "enough" to draft from, "weak": worth another way, or "nothing"."""
    notes, limits = state["notes"], deps.limits
    kept, confidence = bool(notes.get("kept")), notes.get("confidence", 0.0)
    if notes.get("held"):
        # A person reads the next draft before anybody else does, and said what to look for.
        return "enough" if kept else "nothing"
    if not kept and any(not row["error"] for row in results(state)):
        return "enough"  # what day it is, which documents there are: a tool's answer needs no passage
    if _listed(state, deps):
        return "enough"
    retry, abstain = limits.retry_below, limits.abstain_below
    if not notes.get("calibrated"):
        retry, abstain = min(retry, limits.uncalibrated_below), min(abstain, limits.uncalibrated_below)
    if kept and confidence >= retry:
        return "enough"
    if state["iteration"] < _limit(deps) and next_strategy(state, deps):
        return "weak"
    return "enough" if kept and confidence >= abstain else "nothing"


def _listed(state: QuestionState, deps: Deps) -> bool:
    """Did a tool tell which documents there are? That is the answer, however weakly their passages match the question:
    by those, five of five Chinese questions for the list were declined with the list at hand."""
    listing = {tool.name for tool in deps.tools.tools if tool.group == CATALOGUE}
    return any(row["name"] in listing and not row["error"] for row in results(state))


async def assess(state: QuestionState, deps: Deps, question: Question) -> tuple[Written, tuple[str, ...]]:
    """The tool calls that a model wants, where tools may help and a search is left, and what it was offered."""
    nothing = Written("", "rules")
    spent_up = state["iteration"] >= deps.limits.hard_iterations
    if spent_up or _failing(state["notes"]) or deps.writer.name == ExtractiveWriter.name:
        return nothing, ()
    registry = await offered(question.text, deps.tools, deps.nearness)
    if not registry:
        return nothing, ()
    passages = await deps.retriever.passages(state["notes"].get("kept", []), question.principals)
    try:
        material = Material(tuple(passages), results(state))
        return await deps.writer.assess(question, material, registry), registry.names
    except ModelUnavailable:
        return replace(nothing, degraded=("tools",)), registry.names


def _failing(notes: Mapping[str, Any]) -> bool:
    """Did the model fail in this run? It is not waited for again before the draft, which does try it: an endpoint
    may refuse tools, or be short for a moment, and still write."""
    return bool({"rewrite", "tools"} & set(notes.get("degraded", ())))


def results(state: QuestionState) -> tuple[Mapping[str, Any], ...]:
    """What tools answered since the search began."""
    return tuple(state["tool_results"][state["notes"].get("tools_from", 0) :])


def entry(passage: Passage, characters: int = EXTRACT) -> dict[str, Any]:
    """What the state keeps of a passage; of its places only those that it has."""
    places = {
        "vector": passage.vector_rank,
        "keyword": passage.keyword_rank,
        "reranked": None if passage.reranked is None else round(passage.reranked, 4),
    }
    return {
        "id": passage.id,
        "document_id": passage.document_id,
        "title": passage.title,
        "score": round(passage.score, 4),
        "extract": passage.text[:characters],
        **{name: place for name, place in places.items() if place is not None},
    }


def tool_row(run: ToolRun) -> dict[str, Any]:
    limit = LISTING_CHARACTERS if run.passages else RESULT_CHARACTERS
    return {
        "id": run.call_id,
        "name": run.name,
        "arguments": run.arguments,
        "text": run.text[:limit],
        "passages": [passage.id for passage in run.passages],
        "error": run.error,
        "ms": round(run.milliseconds),
    }


# --- accounts ---------------------------------------------------------------------------------------------------


def spent(notes: Mapping[str, Any], written: Written) -> dict[str, Any]:
    return {
        "tokens": _added(notes.get("tokens", {}), written.tokens),
        "degraded": _joined(notes.get("degraded", ()), written.degraded),
    }


def _added(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {**old, **{key: round(old.get(key, 0) + value, 1) for key, value in new.items()}}


def _joined(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
