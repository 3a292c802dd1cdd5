"""Follow-ups rewritten by rule: when the rules fire, and what that does for search."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_graph.contracts import Retriever
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable, turns_of
from rag_graph.evaluation.results import Result, share
from rag_graph.rewrite import carry_over, needs_rewrite

__all__ = ["fire_rates", "retrieval", "rewritten"]

Query = Mapping[str, Any]
K = 5


def rewritten(question: Query, titles: Sequence[str]) -> str | None:
    """The question as search would get it, or None where the rules leave it alone."""
    turns = turns_of(question.get("history", ()))
    if not needs_rewrite(question["text"], turns):
        return None
    return carry_over(question["text"], turns, "", titles)


async def retrieval(
    chosen: EvaluationSet, retriever: Retriever, ids: Mapping[int, str], config: Mapping[str, Any]
) -> list[Result]:
    """R@5 as asked and as rewritten: of all questions and by group. `ids` are the rows' ids by chunk id.

    Known titles are the corpus' own where each names one thing (a knowledge base's titles do); those of cut web
    pages, which are empty, name nothing.
    """
    titles = list(dict.fromkeys(row.title for row in chosen.rows if row.title))
    rows: list[tuple[Query, bool, float, float]] = []
    milliseconds: list[float] = []
    for question in chosen.judged():
        started = time.perf_counter()
        text = rewritten(question, titles)
        milliseconds.append(1_000 * (time.perf_counter() - started))
        relevant = chosen.relevant[question["id"]]
        before = await _recall(retriever, ids, question["text"], relevant)
        after = before if text is None else await _recall(retriever, ids, text, relevant)
        rows.append((question, text is not None, before, after))
    if not rows:
        raise SetUnusable(f"{chosen.name} has no qrels: only whether the rules fire can be measured.")
    mean = round(sum(milliseconds) / len(milliseconds), 2)
    groups = {"": lambda _: True, **_groups([question for question, _, _, _ in rows])}
    return [
        Result(
            f"{chosen.name} {group}".strip(),
            len(members),
            {**_scores(members), "rewrite_ms_mean": mean},
            config,
        )
        for group, belongs in groups.items()
        if (members := [row for row in rows if belongs(row[0])])
    ]


def _groups(questions: Sequence[Query]) -> dict[str, Callable[[Query], bool]]:
    """By the human rewrite where there is one, else by the question's type."""
    if any("rewrite" in question for question in questions):
        return {"stand-alone": _alone, "others": lambda question: not _alone(question)}
    kinds = sorted({str(question.get("type", "")) for question in questions} - {""})
    return {kind: (lambda question, kind=kind: question["type"] == kind) for kind in kinds if len(kinds) > 1}  # type: ignore[misc]


def _alone(question: Query) -> bool:
    """A first turn, or one that its human rewriter left as it was."""
    return not question["history"] or _plain(question.get("rewrite") or "") == _plain(question["text"])


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


async def _recall(
    retriever: Retriever, ids: Mapping[int, str], text: str, relevant: Mapping[str, float]
) -> float:
    result = await retriever.search(text, ("everyone",), top_k=K)
    return len({ids[passage.id] for passage in result.passages} & set(relevant)) / len(relevant)


def _scores(rows: Sequence[tuple[Query, bool, float, float]]) -> dict[str, float]:
    before = sum(row[2] for row in rows) / len(rows)
    after = sum(row[3] for row in rows) / len(rows)
    return {
        "fired": share([fired for _, fired, _, _ in rows]),
        "recall@5 as asked": round(before, 4),
        "recall@5": round(after, 4),
        "gain": round(after - before, 4),
    }


def fire_rates(chosen: EvaluationSet, config: Mapping[str, Any]) -> list[Result]:
    """How often the rules fire, by whether the human rewrite (`answer[0]`) changed anything. First turns are left
    out, there is nothing to carry over."""
    followed = [question for question in chosen.queries if question.get("history") and question.get("answer")]
    if not followed:
        raise SetUnusable(f"{chosen.name} has no queries with a history and a rewrite as their answer.")
    same = [q for q in followed if _plain(q["text"]) == _plain(q["answer"][0])]
    other = [q for q in followed if _plain(q["text"]) != _plain(q["answer"][0])]
    kinds = sorted({str(question.get("type", "")) for question in other} - {""})
    groups = {"gold equals the question": same, "gold differs": other}
    groups |= {f"gold differs, {kind}": [q for q in other if q["type"] == kind] for kind in kinds}
    return [
        Result(
            f"{chosen.name}: {group}",
            len(members),
            {"fired": share([needs_rewrite(q["text"], turns_of(q["history"])) for q in members])},
            config,
        )
        for group, members in groups.items()
        if members
    ]
