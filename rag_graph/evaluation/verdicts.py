"""What became of people's own questions: which were right, and where the others went wrong. Pure.

A wrong answer is traced side by side (MISSION B2, B23): first what retrieval brought, then what drafting made of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rag_graph.advance import Outcome
from rag_graph.evaluation.questions import KINDS, Groups, OwnQuestion
from rag_graph.evaluation.results import Result, percentiles, share
from rag_graph.evaluation.retrieving import knee
from rag_graph.evaluation.stating import states_all
from store.passages import Passage
from store.text import estimate_tokens, normalise

__all__ = ["FAULTS", "TROUBLES", "Known", "Told", "called", "notes", "results", "row"]

DEEPEST: Final = 10

#: What can be wrong with a question: the side that failed, what that means, and what to do about it.
FAULTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "not indexed": (
        "retrieval",
        "The document is not in the knowledge base, or the one who asks may not read it.",
        "`signoff documents list`: upload it, or widen its audience.",
    ),
    "not retrieved": (
        "retrieval",
        "The search did not bring the document.",
        "`signoff doctor --question` walks through the reasons; add house words to [search] dictionary.",
    ),
    "not in the passages": (
        "retrieval",
        "The search brought no passage that holds the answer: another one, or one that was cut in two.",
        "`signoff eval chunking` tries other sizes and overlaps on your documents.",
    ),
    "ranked too low": (
        "retrieval",
        "A passage with the answer was found, and stood behind those that the draft reads.",
        "A reranker (SIGNOFF_RERANK_BASE_URL), or a larger [search] kept at more tokens.",
    ),
    "refused": (
        "drafting",
        "What answers it was found, and the bot said that it does not know.",
        "`signoff eval abstain` finds the line; [search] abstain_below and retry_below set it.",
    ),
    "not said": (
        "drafting",
        "The passage with the answer was at hand, and the answer says something else.",
        "`signoff eval grounding`; a better model; a rule with unsupported = true holds such drafts.",
    ),
    "not cited": (
        "drafting",
        "The document was found, and the answer points to others.",
        "Look whether two documents say the same or disagree; take the outdated one out.",
    ),
    "without its tool": (
        "tool",
        "It needs a tool that was not called, or not rightly; without a language model none ever is.",
        "The troubles with tools below say what to do; SIGNOFF_LLM_BASE_URL and SIGNOFF_LLM_MODEL set a model.",
    ),
    "not refused": (
        "drafting",
        "The documents do not answer it, and the bot answered all the same.",
        "`signoff eval abstain` finds the line; a rule with confidence_below sends doubtful ones to a person.",
    ),
}  # fmt: skip

#: The three forms of trouble with tools, and a tool that no rule offered (MISSION B19).
TROUBLES: Final[Mapping[str, tuple[str, str]]] = {
    "missing": (
        "not called",
        "Its “use when” does not sound like the question: add an example from real ones, offer fewer tools at once.",
    ),
    "not offered": (
        "not offered",
        "The rule that offers it does not know this wording; it is in rag_graph/tools/router.py.",
    ),
    "needless": (
        "called for nothing",
        "Its scope is too wide: narrow “use when”, say when not to use it, or merge it with its neighbour.",
    ),
    "wrong": (
        "called wrongly",
        "A parameter is not explained: give its type, its range and an example value.",
    ),
}


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
    """A key of `FAULTS`, "" for none: the first thing that went wrong on the way from the documents to the answer."""
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
    """Keys of `TROUBLES`. What a question needs says more than what the run could know: a tool question whose tool was
    not called misses it, however it ended, and a tool that it needs is not called for nothing, whatever the answer
    made of it; one that is rightly refused misses nothing."""
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


# --- all of them ------------------------------------------------------------------------------------------------------


def results(
    name: str, rows: Sequence[Mapping[str, Any]], config: Mapping[str, Any], details: Mapping[str, Any]
) -> list[Result]:
    """All questions together, then each kind that occurs; the first has the questions themselves in its details."""
    parts = {kind: [one for one in rows if one["kind"] == kind] for kind in KINDS}
    whole = {**details, **_curve(rows), "questions": list(rows)}
    return [
        Result(name, len(rows), _figures(rows), config, whole),
        *(
            Result(
                f"{name}, {kind}", len(members), _figures(members), config, {"kind": kind, **_curve(members)}
            )
            for kind, members in parts.items()
            if members
        ),
    ]


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What can be told of these questions; a measure that applies to none of them is left out."""
    known = [one for one in rows if not one["unanswerable"]]
    figures = {
        "right by containment": _share(rows, "right"),
        "right by the judge": _share(rows, "judged"),
        "first hit": _share(rows, "first_hit"),
        **{f"hit@{k}": _hit(rows, k) for k in (3, 5)},
        "all documents found": _share(rows, "all_found"),
        "right refusals": _share([one for one in rows if one["unanswerable"]], "right"),
        "wrong refusals": share([one["status"] in ("declined", "clarified") for one in known]) if known else None,
        "held for review": share([one["status"] == "held" for one in rows]) or None,
        "citation precision": _mean(rows, "citation_precision"),
        "citation recall": _mean(rows, "citation_recall"),
        "right tool called": _share(rows, "tool_right"),
        **{f"tool {told}": _with(rows, trouble) for trouble, (told, _) in TROUBLES.items()},
        "prompt tokens": _spent(rows, "prompt"),
        "completion tokens": _spent(rows, "completion"),
        **_times(rows),
    }  # fmt: skip
    return {measure: value for measure, value in figures.items() if value is not None}


def _share(rows: Sequence[Mapping[str, Any]], measure: str) -> float | None:
    told = [bool(one[measure]) for one in rows if one[measure] is not None]
    return share(told) if told else None


def _hit(rows: Sequence[Mapping[str, Any]], k: int) -> float | None:
    told = [one["place"] is not None and one["place"] <= k for one in rows if one["documents"]]
    return share(told) if told else None


def _mean(rows: Sequence[Mapping[str, Any]], measure: str) -> float | None:
    told = [float(one[measure]) for one in rows if one[measure] is not None]
    return round(sum(told) / len(told), 4) if told else None


def _with(rows: Sequence[Mapping[str, Any]], trouble: str) -> float | None:
    """The share of questions with that trouble; nothing is told where no tool was called or needed."""
    if not any(one["tools"] or one["tool_right"] is not None for one in rows):
        return None
    return share([trouble in one["tool_troubles"] for one in rows])


def _spent(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    told = [one["tokens"][name] for one in rows]
    return round(sum(told) / len(told), 1) if any(told) else None


def _times(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    times: dict[str, float] = {}
    for part, prefix in (("retrieval", "retrieval "), ("model", "model "), ("whole", "")):
        told = [float(one["ms"][part]) for one in rows if one["ms"][part] is not None]
        if told:
            times |= {f"{prefix}ms {name}": value for name, value in percentiles(told).items()}
    return times


def _curve(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """hit@1 to hit@10, the tokens that so many passages are, and the knee of the one over the other."""
    asked = [one for one in rows if one["documents"]]
    if not asked:
        return {}
    hits = [_hit(asked, k) or 0.0 for k in range(1, DEEPEST + 1)]
    tokens = [
        round(sum(sum(one["found_tokens"][:k]) for one in asked) / len(asked), 1)
        for k in range(1, DEEPEST + 1)
    ]
    return {"hits": hits, "tokens": tokens, "knee": knee(tokens, hits)}


def notes(details: Mapping[str, Any]) -> list[str]:
    """What a reader of the figures has to know about how they came about."""
    told = []
    if details.get("guessed"):
        told.append(
            f"The kind of {details['guessed']} questions was guessed: by the rule that offers tools, and by how many "
            "things they ask. Write the column “kind” to measure that rule itself."
        )
    if lines := details.get("unjudged"):
        told.append(f"Nothing to judge by (no facts, no document) on line {', '.join(map(str, lines))}.")
    if unused := details.get("unused"):
        told.append(f"Columns that were not used: {', '.join(unused)}.")
    for part, times in details.get("without", {}).items():
        told.append(f"{times} questions went without: {part}. `signoff doctor` says why.")
    return told
