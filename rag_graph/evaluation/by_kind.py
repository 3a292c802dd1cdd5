"""The figures of people's own questions: all together, and each kind apart. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rag_graph.evaluation.faults import TROUBLES
from rag_graph.evaluation.questions import KINDS
from rag_graph.evaluation.results import Result, percentiles, share
from rag_graph.evaluation.retrieving import knee

__all__ = ["results"]

DEEPEST: Final = 10
Rows = Sequence[Mapping[str, Any]]


def results(name: str, rows: Rows, config: Mapping[str, Any], details: Mapping[str, Any]) -> list[Result]:
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


def _figures(rows: Rows) -> dict[str, float]:
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


def _share(rows: Rows, measure: str) -> float | None:
    told = [bool(one[measure]) for one in rows if one[measure] is not None]
    return share(told) if told else None


def _hit(rows: Rows, k: int) -> float | None:
    told = [one["place"] is not None and one["place"] <= k for one in rows if one["documents"]]
    return share(told) if told else None


def _mean(rows: Rows, measure: str) -> float | None:
    told = [float(one[measure]) for one in rows if one[measure] is not None]
    return round(sum(told) / len(told), 4) if told else None


def _with(rows: Rows, trouble: str) -> float | None:
    """The share of questions with that trouble; nothing is told where no tool was called or needed."""
    if not any(one["tools"] or one["tool_right"] is not None for one in rows):
        return None
    return share([trouble in one["tool_troubles"] for one in rows])


def _spent(rows: Rows, name: str) -> float | None:
    told = [one["tokens"][name] for one in rows]
    return round(sum(told) / len(told), 1) if any(told) else None


def _times(rows: Rows) -> dict[str, float]:
    times: dict[str, float] = {}
    for part, prefix in (("retrieval", "retrieval "), ("model", "model "), ("whole", "")):
        told = [float(one["ms"][part]) for one in rows if one["ms"][part] is not None]
        if told:
            times |= {f"{prefix}ms {name}": value for name, value in percentiles(told).items()}
    return times


def _curve(rows: Rows) -> dict[str, Any]:
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
