"""How a reply to one of the fifty questions is judged, and what the judgements add up to. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import quantiles
from typing import Any

from bench.question_set import Item, answers, covers


@dataclass(frozen=True, slots=True)
class Reply:
    """What a chain did with one question; times are milliseconds.

    `found` are the documents of the retrieved passages, best first; `window` is the first 2,000 characters of their
    text (as much as four chunks of 500, whatever a chain would show); `cited` are the documents that the answer
    points to; `score` is what a refusal goes by: a cosine or a confidence; `told_right` is what a model said of the
    answer, None where none was asked.
    """

    found: tuple[str, ...]
    window: str
    cited: tuple[str, ...]
    text: str
    refused: bool
    ms: float
    score: float
    split: Mapping[str, float] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    told_right: bool | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """How one reply did. None where a measure does not apply: an absent question has no right document."""

    id: str
    kind: str
    language: str
    refused: bool
    right: bool
    first: bool | None = None
    in_window: bool | None = None
    cited: bool | None = None
    cited_all: bool | None = None
    only_cited: bool | None = None
    told_right: bool | None = None


def judge(item: Item, reply: Reply) -> Judged:
    """An absent question is right when it is refused; the others when they are answered with every fact."""
    if item.kind == "absent":
        return Judged(item.id, item.kind, item.language, reply.refused, reply.refused)
    cited = set() if reply.refused else set(reply.cited)
    return Judged(
        id=item.id,
        kind=item.kind,
        language=item.language,
        refused=reply.refused,
        right=not reply.refused and answers(reply.text, item),
        first=bool(reply.found) and reply.found[0] in item.relevant,
        in_window=answers(reply.window, item),
        cited=bool(cited & item.relevant),
        cited_all=covers(cited, item),
        only_cited=bool(cited) and cited <= item.relevant,
        told_right=None if reply.told_right is None else reply.told_right and not reply.refused,
    )


def share(values: Sequence[bool | None]) -> dict[str, float | int]:
    """How many of those a measure applies to, and the share of them in [0, 1]."""
    told = [value for value in values if value is not None]
    return {"n": len(told), "hits": sum(told), "share": round(sum(told) / len(told), 4) if told else 0.0}


#: The measures, in the order of the table: name, what it reads from a judgement.
MEASURES: Mapping[str, Callable[[Judged], bool | None]] = {
    "first_hit": lambda j: j.first,
    "answer_in_window": lambda j: j.in_window,
    "right_document_cited": lambda j: j.cited,
    "all_documents_cited": lambda j: j.cited_all,
    "only_right_documents_cited": lambda j: j.only_cited,
    "answer_stated": lambda j: j.right if j.kind != "absent" else None,
    "told_right": lambda j: j.told_right,
    "right_refusal": lambda j: j.right if j.kind == "absent" else None,
    "false_refusal": lambda j: j.refused if j.kind != "absent" else None,
    "right": lambda j: j.right,
}


def summarise(judged: Sequence[Judged], milliseconds: Sequence[float]) -> dict[str, Any]:
    """Every measure over `judged`, `right` by kind and language, and latency percentiles."""
    return {
        "measures": {name: share([measure(j) for j in judged]) for name, measure in MEASURES.items()},
        "right_by_kind": {
            kind: share([j.right for j in judged if j.kind == kind])
            for kind in ("single", "several", "absent")
        },
        "right_by_language": {
            language: share([j.right for j in judged if j.language == language]) for language in ("zh", "en")
        },
        "latency_ms": percentiles(milliseconds),
    }


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "n": len(milliseconds)}


def halves(items: Sequence[Item]) -> tuple[list[int], list[int]]:
    """Places of the questions to tune on and of those to report on: every other one of each kind."""
    tuning: list[int] = []
    held_out: list[int] = []
    for kind in ("single", "several", "absent"):
        places = [place for place, item in enumerate(items) if item.kind == kind]
        tuning += places[::2]
        held_out += places[1::2]
    return sorted(tuning), sorted(held_out)


def tuned(scores: Sequence[float], right: Callable[[int, bool], bool]) -> float:
    """The threshold on `scores` that makes most questions right; ties go to the one that refuses least.

    `right(i, refused)` says whether question i comes out right when it is refused or answered.
    """
    ordered = sorted(set(scores))
    candidates = [ordered[0] - 1.0, *((a + b) / 2 for a, b in pairwise(ordered))]
    candidates.append(ordered[-1] + 1.0)

    def correct(threshold: float) -> int:
        return sum(right(i, score < threshold) for i, score in enumerate(scores))

    return max(candidates, key=lambda threshold: (correct(threshold), -threshold))
