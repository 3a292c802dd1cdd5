"""Whole answers to question–answer pairs, by whatever endpoint is configured or in quotations without one."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_graph.contracts import Deps, Draft, Question, Turn, Writer
from rag_graph.drafting import NO_ANSWER
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable, turns_of
from rag_graph.evaluation.old_chain import Answered, OldChain
from rag_graph.evaluation.results import Result, percentiles, share
from rag_graph.graph import build_question_graph
from rag_graph.state import initial
from store.text import language, normalise

__all__ = ["Chain", "Judge", "answers", "contains", "old_chain", "our_chain"]

Query = Mapping[str, Any]
UNANSWERABLE = ("unanswerable", "absent")  # types of questions that the corpus does not answer
#: Is `answer` right, given the question and the accepted answers? By another model, or by a person.
Judge = Callable[[str, tuple[str, ...], str], Awaitable[bool]]
#: What answers a question after the turns before it, for those readers.
Chain = Callable[[Question, list[Turn]], Awaitable[Answered]]


@dataclass(frozen=True, slots=True)
class _Row:
    query: Query
    told: Answered
    gold: frozenset[str]
    ms: float
    contained: bool
    judged: bool | None
    repeated: bool  # it says again what a reviewer rejected


def contains(answer: str, accepted: tuple[str, ...]) -> bool:
    """Is one of the accepted answers in `answer`, whatever its case, width and spacing?"""
    text = _plain(answer)
    return any(_plain(one) in text for one in accepted if _plain(one))


def _plain(text: str) -> str:
    return re.sub(r"[\s\W]+", "", re.sub(r"\[\d+\]", "", normalise(text)))


def our_chain(deps: Deps, ids: Mapping[int, str]) -> Chain:
    """The question graph; `ids` are the rows' by chunk id."""
    graph = build_question_graph()

    async def answer(question: Question, turns: list[Turn]) -> Answered:
        state = await graph.ainvoke(initial(question, (turns, "")), context=deps)
        draft, notes, found = Draft.from_json(state["answer"]), state["notes"], state["retrieved_docs"]
        return Answered(
            draft,
            tuple(notes.get("queries", ())),
            ids[found[0]["id"]] if found else "",
            frozenset(ids[citation.passage_id] for citation in draft.citations),
            notes.get("tokens", {}),
        )

    return answer


def old_chain(chain: OldChain, writer: Writer) -> Chain:
    """The chain to compare with. It always answers; where its model says NO_ANSWER, that counts as declined."""

    async def answer(question: Question, turns: list[Turn]) -> Answered:
        told = await chain.answer(question, turns, question.principals, writer)
        refused = NO_ANSWER in told.draft.text
        return replace(told, draft=Draft("", "declined"), cited=frozenset()) if refused else told

    return answer


async def answers(
    chosen: EvaluationSet,
    chain: Chain,
    config: Mapping[str, Any],
    judge: Judge | None = None,
) -> tuple[list[Result], list[dict[str, Any]]]:
    """The set's figures by type, and a row for each answer that people may judge.

    An unanswerable question is right when it is declined; the others when they contain an accepted answer, and where
    there is none, when they do not say again what a reviewer rejected ("rejected": [text…]). Citation
    precision is the share of cited documents that are gold, recall that of gold ones cited, both over what was
    answered.
    """
    asked = [
        query
        for query in chosen.queries
        if query.get("answer") or query.get("rejected") or query.get("type") in UNANSWERABLE
    ]
    if not any(query.get("answer") or query.get("rejected") for query in asked):
        raise SetUnusable(f"{chosen.name} has no answers to compare with.")
    rows = [await _answered(query, chosen, chain, judge) for query in asked]
    kinds = sorted({str(row.query.get("type", "")) for row in rows})
    parts = {
        "": rows,
        **(
            {kind: [r for r in rows if r.query.get("type") == kind] for kind in kinds}
            if len(kinds) > 1
            else {}
        ),
    }
    results = [
        Result(f"{chosen.name} {name}".strip(), len(members), _figures(members), config)
        for name, members in parts.items()
    ]
    return results, [_told(row) for row in rows]


async def _answered(query: Query, chosen: EvaluationSet, chain: Chain, judge: Judge | None) -> _Row:
    readers = (f"lang:{query['lang']}",) if query.get("lang") else ("everyone",)
    question = Question(
        str(query["id"]), "evaluation", query["text"], language(query["text"]), "evaluation", readers
    )
    began = time.perf_counter()
    told = await chain(question, turns_of(query.get("history", ())))
    ms = 1_000 * (time.perf_counter() - began)
    accepted, declined = tuple(query.get("answer") or ()), told.draft.kind == "declined"
    answerable = query.get("type") not in UNANSWERABLE
    repeated = contains(told.draft.text, tuple(query.get("rejected") or ()))
    right = contains(told.draft.text, accepted) if accepted else not repeated
    judged = None
    if judge is not None and answerable and accepted:
        judged = not declined and await judge(query["text"], accepted, told.draft.text)
    return _Row(
        query,
        told,
        frozenset(chosen.relevant.get(query["id"], ())),
        ms,
        right if answerable else declined,
        judged,
        repeated,
    )


def _figures(rows: list[_Row]) -> dict[str, float]:
    answered = [row for row in rows if row.told.draft.kind not in ("declined", "clarify")]
    cited = [row for row in answered if row.gold and row.told.cited]
    figures = {
        "right by containment": share([row.contained for row in rows]),
        "first hit": share([row.told.first in row.gold for row in rows if row.gold]),
        "answered": round(len(answered) / len(rows), 4),
        "citation precision": _mean([len(row.told.cited & row.gold) / len(row.told.cited) for row in cited]),
        "citation recall": _mean(
            [len(row.told.cited & row.gold) / len(row.gold) for row in answered if row.gold]
        ),
        "prompt tokens": _mean([row.told.tokens.get("prompt", 0) for row in rows]),
        "completion tokens": _mean([row.told.tokens.get("completion", 0) for row in rows]),
    }
    refused = [row for row in rows if row.query.get("rejected")]
    if refused:
        figures["says a rejected draft again"] = share([row.repeated for row in refused])
    if judged := [row.judged for row in rows if row.judged is not None]:
        figures["right by the judge"] = share(judged)
    return figures | {f"ms {name}": value for name, value in percentiles([row.ms for row in rows]).items()}


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0


def _told(row: _Row) -> dict[str, Any]:
    """A line for a person: what was asked, expected and said; `right` is theirs to fill in."""
    return {
        "id": row.query["id"],
        "question": row.query["text"],
        "accepted": " | ".join(row.query.get("answer") or ()),
        "answer": row.told.draft.text,
        "kind": row.told.draft.kind,
        "searched": " | ".join(row.told.searched),
        "cited": " ".join(sorted(row.told.cited)),
        "gold": " ".join(sorted(row.gold)),
        "contains": row.contained,
        "judge": "" if row.judged is None else row.judged,
        "ms": round(row.ms, 1),
        "right": "",
    }
