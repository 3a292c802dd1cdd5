"""Questions of several hops through the loop: search, read, search again with what was found.

The sub-questions come from the set's decomposition, and `#1` in one is filled with the gold answer of the first: an
oracle in the model's place, declared as such. What is measured is the loop and the search, not a model's wit.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rag_graph.contracts import (
    Deps,
    Limits,
    Material,
    OnSentence,
    Question,
    Retriever,
    ToolCall,
    Turn,
    Written,
)
from rag_graph.drafting import NO_ANSWER
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.results import Result, share
from rag_graph.graph import build_question_graph
from rag_graph.policy import Rules
from rag_graph.state import initial
from rag_graph.tools import Registry, builtin_registry
from rag_graph.tools.router import groups

__all__ = ["multihop"]

Query = Mapping[str, Any]
TOP = 10


class Oracle:
    """Asks the next sub-questions whose answers it needs are known, and never writes an answer."""

    name = "oracle"

    def __init__(self, query: Query) -> None:
        self._left = [(n, step) for n, step in enumerate(query["decomposition"], 1)]
        self._answers: dict[int, str] = {}

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        return None

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        """All that can be asked now: a hop waits for those that it names."""
        ready = [(n, step) for n, step in self._left if self._needs(step) <= set(self._answers)]
        self._left = [pair for pair in self._left if pair not in ready]
        calls = tuple(
            ToolCall(f"hop_{n}", "search_knowledge_base", {"query": self._filled(step)[:200], "top_k": 5})
            for n, step in ready
        )
        self._answers |= {n: step["answer"] for n, step in ready}
        return Written("", "model", calls)

    def _needs(self, step: Mapping[str, str]) -> set[int]:
        return {int(n) for n in re.findall(r"#(\d)", step["question"])}

    def _filled(self, step: Mapping[str, str]) -> str:
        filled = re.sub(r"#(\d)", lambda match: self._answers[int(match[1])], step["question"])
        return filled.replace(" >> ", " ")

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        return Written(NO_ANSWER, "model")

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        return ""


async def multihop(
    chosen: EvaluationSet, retriever: Retriever, ids: Mapping[int, str], config: Mapping[str, Any]
) -> list[Result]:
    """All gold passages in the top ten: of one search, and of the loop; and in what the draft would read. By hops."""
    queries = [query for query in chosen.judged() if query.get("decomposition")]
    if not queries:
        raise SetUnusable(f"{chosen.name} has no queries with a decomposition.")
    graph = build_question_graph()
    rows: list[tuple[int, bool, bool, bool, bool]] = []
    for query in queries:
        question = Question(query["id"], "evaluation", query["text"], "en", "evaluation", ("everyone",))
        deps = Deps(retriever, Oracle(query), Rules.parse([]), Limits(), builtin_registry())
        state = await graph.ainvoke(initial(question), context=deps)
        found = [ids[doc["id"]] for doc in state["retrieved_docs"]]
        read = [ids[identity] for identity in state["notes"].get("kept", ())]
        gold = set(chosen.relevant[query["id"]])
        once = (await retriever.search(query["text"], ("everyone",), top_k=TOP)).passages
        rows.append(
            (
                len(query["decomposition"]),
                gold <= {ids[passage.id] for passage in once},
                gold <= set(list(dict.fromkeys([*read, *found]))[:TOP]),
                gold <= set(read),
                bool(groups(query["text"])),
            )
        )
    parts = {
        "": rows,
        **{f"{n} hops": [row for row in rows if row[0] == n] for n in sorted({r[0] for r in rows})},
    }
    return [
        Result(f"{chosen.name} {part}".strip(), len(members), _figures(members), {**config, "oracle": True})
        for part, members in parts.items()
    ]


def _figures(rows: Sequence[tuple[int, bool, bool, bool, bool]]) -> dict[str, float]:
    return {
        "all gold, one search": share([row[1] for row in rows]),
        "all gold, the loop": share([row[2] for row in rows]),
        "all gold read by the draft": share([row[3] for row in rows]),
        "tools were offered": share([row[4] for row in rows]),
    }
