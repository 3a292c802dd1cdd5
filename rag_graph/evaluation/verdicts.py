"""What became of people's own questions: which were right, and where the others went wrong. Pure.

A wrong answer is traced side by side (MISSION B2, B23): first what retrieval brought, then what drafting made of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_graph.advance import Outcome
from rag_graph.evaluation.questions import Groups, OwnQuestion
from rag_graph.evaluation.stating import states_all
from store.passages import Passage
from store.text import estimate_tokens, normalise

__all__ = ["Known", "Told", "called", "row"]


@dataclass(frozen=True, slots=True)
class Known:
    """A document of the knowledge base."""

    title: str
    source: str
    collection: str = ""
    audience: frozenset[str] = frozenset({"everyone"})


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one question. `found` are the passages in the order of the run, of which the draft reads the first
    `read`; times are milliseconds, `model_ms` None without a model; `judged` is what a judge model said; `offered` are
    names of tools."""

    question: OwnQuestion
    outcome: Outcome
    found: tuple[Passage, ...]
    read: int
    ms: float
    model_ms: float | None = None
    judged: bool | None = None
    offered: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        return self.outcome.draft.text if self.outcome.draft else ""

    @property
    def refused(self) -> bool:
        return self.outcome.status in ("declined", "clarified")


# --- one question ---------------------------------------------------------------------------------------------------


def row(told: Told, known: Sequence[Known]) -> dict[str, Any]:
    """Everything that is kept of a question, as JSON takes it."""
    question, outcome = told.question, told.outcome
    places = [_named(passage, question.documents) for passage in told.found]
    cited = [] if told.refused else _cited(told)
    right = _right(told)
    kept = {
        "id": question.id,
        "line": question.line,
        "text": question.text,
        "kind": question.kind,
        "guessed": question.guessed,
        "unanswerable": question.unanswerable,
        "facts": [list(group) for group in question.facts],
        "documents": [list(group) for group in question.documents],
        "status": outcome.status,
        "rule": outcome.rule,
        "answer": told.answer,
        "searched": list(outcome.searched),
        "confidence": outcome.confidence,
        "right": right,
        "judged": told.judged,
        "place": next((at for at, one in enumerate(places, 1) if one), None) if question.documents else None,
        "first_hit": bool(places and places[0]) if question.documents else None,
        "all_found": _covered(told.found, question.documents) if question.documents else None,
        "retrieved": [_shown(passage, bool(one)) for passage, one in zip(told.found, places, strict=True)],
        "found_tokens": [estimate_tokens(passage.text) for passage in told.found],
        "cited": [_shown(passage, bool(_named(passage, question.documents))) for passage in cited],
        "citation_precision": _precision(cited, question.documents),
        "citation_recall": _recalled(cited, question.documents) if not told.refused else None,
        "tools": [_call(call) for call in outcome.tools if call.get("name")],
        "tool_right": _tool_right(told),
        "tool_troubles": _troubles(told),
        "ms": {"retrieval": _retrieval(outcome), "model": told.model_ms, "whole": told.ms},
        "tokens": {name: outcome.tokens.get(name, 0) for name in ("prompt", "completion")},
        "without": list(outcome.degraded),
    }
    return kept | {"fault": _fault(told, known, kept)}


def _right(told: Told) -> bool | None:
    """By containment; an unanswerable question is right when it is refused. None where nothing says what is right."""
    if told.question.unanswerable:
        return told.refused
    if not told.question.facts:
        return None
    return not told.refused and states_all(told.answer, told.question.facts)


def _fault(told: Told, known: Sequence[Known], kept: Mapping[str, Any]) -> str:
    """A key of `faults.FAULTS`, "" for none: the first thing that went wrong between the documents and the answer."""
    question = told.question
    if question.unanswerable:
        return "" if told.refused else "not refused"
    if not _failed(told, kept):
        return ""
    if question.kind == "tool" and not kept["tool_right"]:
        return "without its tool"
    return _before(told, known, kept) or _made(told, kept)


def _failed(told: Told, kept: Mapping[str, Any]) -> bool:
    """Whether anything that says what is right was not met; a refused question that says nothing is no failure."""
    cited_right = kept["citation_precision"] is None or kept["citation_precision"] > 0
    refused = told.refused and told.question.judged
    return refused or kept["right"] is False or not cited_right


def _before(told: Told, known: Sequence[Known], kept: Mapping[str, Any]) -> str:
    """What retrieval brought: "" where it brought what answers the question."""
    question = told.question
    if question.documents:
        if not _indexed(question, known):
            return "not indexed"
        if kept["place"] is None:
            return "not retrieved"
    if question.facts and not states_all("\n".join(p.text for p in told.found), question.facts):
        return _partly(kept)
    if question.facts and not states_all("\n".join(p.text for p in told.found[: told.read]), question.facts):
        return "ranked too low"
    return ""


def _made(told: Told, kept: Mapping[str, Any]) -> str:
    """What drafting made of it."""
    if told.refused:
        return "refused"
    return "not said" if kept["right"] is False else "not cited"


def _partly(kept: Mapping[str, Any]) -> str:
    """No passage holds it: one that calls a tool may still have said it, so a right answer is not blamed."""
    return "not cited" if kept["right"] else "not in the passages"


def _indexed(question: OwnQuestion, known: Sequence[Known]) -> bool:
    readable = [one for one in known if one.audience & set(question.principals)]
    return all(any(called(one, group) for one in readable) for group in question.documents)


# --- documents by their names ---------------------------------------------------------------------------------------


def _names(document: Known | Passage) -> set[str]:
    """Its title, its address, and the file's name with and without its endings (leave.zh.md: also leave)."""
    source = normalise(document.source)
    file = source.rsplit("/", 1)[-1]
    stem = re.sub(r"\.[a-z0-9]{1,5}$", "", file)
    bare = re.sub(r"\.(?:zh|en)(?:-[a-z]+)?$", "", stem)
    return {normalise(document.title), source, f"{normalise(document.collection)}/{source}", file, stem, bare}


def called(document: Known | Passage, group: Sequence[str]) -> bool:
    """Whether the document goes by one of these names."""
    return bool(_names(document) & {normalise(name).strip() for name in group})


def _named(passage: Passage, documents: Groups) -> list[int]:
    """Which of the expected documents it belongs to."""
    return [at for at, group in enumerate(documents) if called(passage, group)]


def _covered(passages: Sequence[Passage], documents: Groups) -> bool:
    return {at for passage in passages for at in _named(passage, documents)} == set(range(len(documents)))


def _cited(told: Told) -> list[Passage]:
    """The passages that the answer points to; what a tool brought is among those found."""
    wanted = [citation.passage_id for citation in told.outcome.draft.citations] if told.outcome.draft else []
    by_id = {passage.id: passage for passage in told.found}
    return [by_id[identity] for identity in wanted if identity in by_id]


def _precision(cited: Sequence[Passage], documents: Groups) -> float | None:
    """The share of cited passages that are of an expected document; None where nothing is cited or expected."""
    if not cited or not documents:
        return None
    return round(sum(bool(_named(passage, documents)) for passage in cited) / len(cited), 4)


def _recalled(cited: Sequence[Passage], documents: Groups) -> float | None:
    if not documents:
        return None
    return round(len({at for passage in cited for at in _named(passage, documents)}) / len(documents), 4)


def _shown(passage: Passage, right: bool) -> dict[str, Any]:
    return {
        "passage": passage.id,
        "document": passage.title,
        "source": passage.source,
        "heading": " › ".join(passage.heading_path),
        "right": right,
    }


# --- tools and times --------------------------------------------------------------------------------------------------


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: call.get(name) for name in ("name", "arguments", "error", "trouble")}
    return told | ({"said": str(call.get("text", ""))[:300]} if call.get("error") else {})


def _tool_right(told: Told) -> bool | None:
    """Was a tool that the question needs called, with arguments that it could run with? None of other kinds, and
    without a model, which calls none."""
    if told.question.kind != "tool" or told.model_ms is None:
        return None
    wanted = told.question.tools
    calls = [call for call in told.outcome.tools if call.get("name") and not call.get("error")]
    return any(call["name"] in wanted or not wanted for call in calls)


def _troubles(told: Told) -> list[str]:
    """Keys of `faults.TROUBLES`. What a question needs says more than what the run could know: a tool question whose
    tool was not called misses it, however it ended, and a tool that it needs is not called for nothing, whatever the
    answer made of it; one that is rightly refused misses nothing."""
    if told.model_ms is None:
        return []
    found = dict.fromkeys(
        str(call.get("trouble") or "") for call in told.outcome.tools if not _needed(call, told)
    )
    found.pop("", None)
    if told.question.unanswerable or told.question.kind == "tool":
        found.pop("missing", None)
    if _tool_right(told) is False and "wrong" not in found:
        wanted = told.question.tools
        offered = not wanted or bool(set(wanted) & set(told.offered))
        found["missing" if offered else "not offered"] = None
    return list(found)


def _needed(call: Mapping[str, Any], told: Told) -> bool:
    return call.get("trouble") == "needless" and call.get("name") in told.question.tools


def _retrieval(outcome: Outcome) -> float:
    """Milliseconds of the searches: embedding, database, ranking, reranking; those of tools as a whole."""
    searched = sum(float(outcome.timings.get(step, 0.0)) for step in ("embed", "sql", "rank", "rerank"))
    return round(searched + sum(float(call.get("ms") or 0.0) for call in outcome.tools), 1)
