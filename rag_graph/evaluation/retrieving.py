"""Retrieval on a set in the shared format: what is found, how much text that is, and how long it takes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_graph.contracts import Retriever
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.results import Result, percentiles
from store.text import estimate_tokens

__all__ = ["Part", "knee", "measure", "ndcg", "parts", "recall"]

DEEPEST = 10


def recall(found: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """The share of a query's relevant ids in the first `k`."""
    return len(set(found[:k]) & set(relevant)) / len(relevant)


def ndcg(found: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """With linear gains."""
    gained = sum(relevant.get(one, 0.0) / math.log2(place + 1) for place, one in enumerate(found[:k], 1))
    ideal = sorted(relevant.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(place + 1) for place, grade in enumerate(ideal, 1))


def knee(tokens: Sequence[float], hits: Sequence[float]) -> int:
    """The number of passages after which more of them bring less than they cost: of the curve of hits over tokens, both
    from 0 to 1, the point farthest above the straight line. Counts from 1; 1 where the curve is flat."""
    if not hits or hits[-1] <= hits[0] or tokens[-1] <= tokens[0]:
        return 1
    gains = [
        (hit - hits[0]) / (hits[-1] - hits[0]) - (token - tokens[0]) / (tokens[-1] - tokens[0])
        for token, hit in zip(tokens, hits, strict=True)
    ]
    return gains.index(max(gains)) + 1


@dataclass(frozen=True, slots=True)
class Part:
    """Some queries of a set, what answers them, and who asks."""

    name: str
    queries: Sequence[Mapping[str, Any]]
    relevant: Mapping[str, Mapping[str, float]]
    readers: tuple[str, ...] = ("everyone",)


def parts(chosen: EvaluationSet, cross: EvaluationSet | None = None) -> list[Part]:
    """The set as one part; or, where its queries and corpus name their languages ("lang"), each language's questions to
    its own documents, and to the other's where `cross` has the qrels for that. Raises `SetUnusable`."""
    if not chosen.judged():
        raise SetUnusable(
            f"{chosen.name} has no qrels.tsv that names one of its queries: nothing can be judged."
        )
    mixed = all(query.get("lang") for query in chosen.queries) and all(
        len(row.audience) > 1 for row in chosen.rows
    )
    if not mixed:
        return [Part(chosen.name, chosen.judged(), chosen.relevant)]
    languages = sorted({str(query["lang"]) for query in chosen.judged()})
    found = [_part(chosen, f"{name}", name, name) for name in languages]
    if cross is not None and cross.judged():
        pairs = [(asked, other) for asked in languages for other in languages if asked != other]
        found += [_part(cross, f"{asked}→{other}", asked, other) for asked, other in pairs]
    return found


def _part(chosen: EvaluationSet, name: str, asked: str, searched: str) -> Part:
    queries = [query for query in chosen.judged() if query["lang"] == asked]
    return Part(f"{chosen.name} {name}", queries, chosen.relevant, (f"lang:{searched}",))


async def measure(
    part: Part, retriever: Retriever, ids: Mapping[int, str], config: Mapping[str, Any]
) -> Result:
    """R@5, nDCG@10, hit@1…10 with the tokens that so many passages are, and the knee of that curve.

    `ids` are the rows' ids by chunk id. Milliseconds are those of database and ranking, without embedding.
    """
    rows = []
    for query in part.queries:
        result = await retriever.search(query["text"], part.readers, top_k=DEEPEST)
        relevant = part.relevant[query["id"]]
        found = [ids[passage.id] for passage in result.passages]
        hits = [float(any(one in relevant for one in found[:k])) for k in range(1, DEEPEST + 1)]
        sizes = [estimate_tokens(passage.text) for passage in result.passages]
        tokens = [float(sum(sizes[:k])) for k in range(1, DEEPEST + 1)]
        milliseconds = sum(value for step, value in result.timings.items() if step != "embed")
        rows.append((recall(found, relevant, 5), ndcg(found, relevant, 10), milliseconds, hits, tokens))
    hits_at = [_mean(row[3][k] for row in rows) for k in range(DEEPEST)]
    tokens_at = [_mean(row[4][k] for row in rows) for k in range(DEEPEST)]
    metrics = {
        "recall@5": _mean(row[0] for row in rows),
        "ndcg@10": _mean(row[1] for row in rows),
        **{f"hit@{k}": value for k, value in enumerate(hits_at, 1)},
        **{f"tokens@{k}": round(value, 1) for k, value in enumerate(tokens_at, 1)},
        "knee": float(knee(tokens_at, hits_at)),
        **{f"{name}_ms": value for name, value in percentiles([row[2] for row in rows]).items()},
    }
    return Result(part.name, len(rows), metrics, config)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return round(sum(listed) / len(listed), 4)
