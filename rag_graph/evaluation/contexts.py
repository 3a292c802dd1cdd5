"""What reaches the model at equal tokens: the budgeted context against the top k pasted whole."""

from collections.abc import Mapping, Sequence
from typing import Any

from rag_graph.contracts import Passage, Retriever
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.results import Result, share
from rag_graph.selection import selected
from store.text import clean, estimate_tokens, sentences

__all__ = ["contexts"]

KS = (1, 2, 3, 4, 5)
RETRIEVED = 10

Query = Mapping[str, Any]


async def contexts(
    chosen: EvaluationSet, retriever: Retriever, ids: Mapping[int, str], config: Mapping[str, Any]
) -> list[Result]:
    """For each k: the share of the evidence that is in the k best passages pasted whole, and in a context made from the
    ten best within the same tokens.

    Evidence is the answer's sentence of each gold passage: the whole sentence, so that an answer that happens to occur
    elsewhere does not count; a question of several hops has one for each. "tokens" are what each took on average,
    by estimate.
    """
    questions = [(query, wanted) for query in chosen.judged() if (wanted := _evidence(chosen, query))]
    if not questions:
        raise SetUnusable(f"{chosen.name} has no answers that stand in their passages.")
    told: dict[int, list[tuple[float, float, int, int]]] = {k: [] for k in KS}
    for query, wanted in questions:
        readers = (f"lang:{query['lang']}",) if query.get("lang") else ("everyone",)
        found = (await retriever.search(query["text"], readers, top_k=RETRIEVED)).passages
        for k in KS:
            pasted = "\n\n".join(passage.text for passage in found[:k])
            shown = _fitted(query["text"], found, estimate_tokens(pasted))
            told[k].append(
                (
                    _share(pasted, wanted),
                    _share(shown, wanted),
                    estimate_tokens(pasted),
                    estimate_tokens(shown),
                )
            )
    metrics: dict[str, float] = {}
    curve = []
    for k, rows in told.items():
        whole, ours = (round(sum(row[side] for row in rows) / len(rows), 4) for side in (0, 1))
        metrics |= {f"pasted@{k}": whole, f"context@{k}": ours}
        curve.append(
            {
                "k": k,
                "pasted": whole,
                "context": ours,
                "all_pasted": share([row[0] == 1 for row in rows]),
                "all_context": share([row[1] == 1 for row in rows]),
                "tokens_pasted": round(sum(row[2] for row in rows) / len(rows), 1),
                "tokens_context": round(sum(row[3] for row in rows) / len(rows), 1),
            }
        )
    metrics["least gain"] = round(min(metrics[f"context@{k}"] - metrics[f"pasted@{k}"] for k in KS), 4)
    return [Result(chosen.name, len(questions), metrics, {**config, "k": KS}, {"curve": curve})]


def _evidence(chosen: EvaluationSet, query: Query) -> list[str]:
    """For each gold passage the sentence with the answer, or with what its step of the decomposition answers."""
    texts = {row.id: clean(row.text) for row in chosen.rows}
    steps = {step["doc"]: [step["answer"]] for step in query.get("decomposition") or () if step.get("doc")}
    wanted = []
    for gold in chosen.relevant[query["id"]]:
        answers = steps.get(gold) or query.get("answer", ())
        found = [s for s in sentences(texts.get(gold, "")) if any(answer in s for answer in answers)]
        if not found:
            return []
        wanted.append(found[0])
    return wanted


def _fitted(question: str, passages: Sequence[Passage], tokens: int) -> str:
    """Their texts cut so that they take at most `tokens` together, blank lines between them included."""
    texts, titles = [passage.text for passage in passages], [passage.title for passage in passages]
    for spare in range(len(texts)):
        shown = "\n\n".join(filter(None, selected(question, texts, tokens - spare, titles)))
        if estimate_tokens(shown) <= tokens:
            return shown
    return ""


def _share(text: str, wanted: Sequence[str]) -> float:
    return sum(sentence in text for sentence in wanted) / len(wanted)
