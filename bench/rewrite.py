"""Follow-ups rewritten by rule, without a model: when the rules fire, and what that does for search.

    python -m bench.rewrite [--out FILE]      bench/results/rewrite.json

zh_kdconv_travel and en_mtrag go through the code that serves questions, on a real Postgres with ready vectors (only
the rewritten questions are embedded here); en_rewrite has gold rewrites and no corpus. KdConv's titles are the
corpus' own, as `Retriever.titles` would give them. The word lists of the rules were drawn up on these three sets, so
the rates are not those of unseen conversations. Sets that are not there are skipped, and said.
"""

import argparse
import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.corpus import DATA, PublicSet, ReadyEmbedder, available
from bench.provenance import ROOT, provenance
from bench.retrieval import config, filled, read, recall, server
from rag_graph.contracts import Turn
from rag_graph.rewrite import carry_over, needs_rewrite
from store.embedding import LocalEmbedder
from store.errors import EmbeddingFailed
from store.search import Searcher, SearchSettings

RESULT = ROOT / "bench/results/rewrite.json"
SHOWN = 12  # rewrites printed for a look


class HalfReady(ReadyEmbedder):
    """The set's vectors for its own questions, the local model for what was rewritten."""

    def __init__(self, public: PublicSet) -> None:
        super().__init__(public)
        self._local = LocalEmbedder()

    async def query(self, text: str) -> list[float]:
        try:
            return await super().query(text)
        except EmbeddingFailed:
            return await self._local.query(text)


def turns_of(history: Sequence[Mapping[str, str]]) -> list[Turn]:
    """Pairs of question and answer; the sets' histories miss one or the other here and there."""
    turns: list[Turn] = []
    asked = ""
    for said in history:
        if said["role"] == "user":
            turns += [Turn("", asked, "")] if asked else []
            asked = said["text"]
        else:
            turns.append(Turn("", asked, said["text"]))
            asked = ""
    return turns + ([Turn("", asked, "")] if asked else [])


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def rewritten(question: Mapping[str, Any], titles: Sequence[str]) -> str | None:
    """The rewrite, or None where the rules leave the question alone."""
    turns = turns_of(question["history"])
    if not needs_rewrite(question["text"], turns):
        return None
    return carry_over(question["text"], turns, "", titles)


async def searched(
    searcher: Searcher, ids: Mapping[int, str], text: str, relevant: Mapping[str, float]
) -> float:
    result = await searcher.search(text, ("everyone",), top_k=5)
    return recall([ids[passage.id] for passage in result.passages], relevant, 5)


async def retrieval(
    name: str,
    url: str,
    titles: Callable[[PublicSet], Sequence[str]],
    groups: Mapping[str, Callable[[Mapping[str, Any]], bool]],
) -> dict[str, Any]:
    """R@5 as asked and as rewritten, of all questions and by group."""
    public, settings = read(name), SearchSettings()
    known = titles(public)
    async with filled(url, name, public.rows, public.passage_vectors) as (database, ids):
        searcher = Searcher(database.engine, HalfReady(public), settings)
        rows: list[tuple[Mapping[str, Any], bool, float, float]] = []
        milliseconds: list[float] = []
        for question in (q for q in public.queries if q["id"] in public.relevant):
            started = time.perf_counter()
            text = rewritten(question, known)
            milliseconds.append(1000 * (time.perf_counter() - started))
            relevant = public.relevant[question["id"]]
            before = await searched(searcher, ids, question["text"], relevant)
            after = before if text is None else await searched(searcher, ids, text, relevant)
            rows.append((question, text is not None, before, after))
            if text is not None and len(rows) % (len(public.queries) // SHOWN) == 0:
                print(f"  {question['text']}  →  {text}")
    named = {"all": lambda q: True, **groups}
    return {
        "set": name,
        "n": len(rows),
        "rewrite_ms_mean": round(sum(milliseconds) / len(milliseconds), 2),
        "groups": {
            group: _scores([row for row in rows if belongs(row[0])]) for group, belongs in named.items()
        },
    }


def _scores(rows: Sequence[tuple[Mapping[str, Any], bool, float, float]]) -> dict[str, Any]:
    count = len(rows) or 1
    return {
        "n": len(rows),
        "fired": round(sum(fired for _, fired, _, _ in rows) / count, 4),
        "recall@5 as asked": round(sum(before for _, _, before, _ in rows) / count, 4),
        "recall@5 rewritten": round(sum(after for _, _, _, after in rows) / count, 4),
    }


def fire_rates() -> dict[str, Any]:
    """en_rewrite: how often the rules fire, by whether the human rewrite changed anything. First turns are left out."""
    with (DATA / "en_rewrite/queries.jsonl").open(encoding="utf-8") as lines:
        questions = [json.loads(line) for line in lines]
    followed = [question for question in questions if question["history"]]
    same = [q for q in followed if plain(q["text"]) == plain(q["answer"][0])]
    other = [q for q in followed if plain(q["text"]) != plain(q["answer"][0])]

    def rate(asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        fired = [needs_rewrite(q["text"], turns_of(q["history"])) for q in asked]
        return {"n": len(fired), "fired": round(sum(fired) / len(fired), 4)}

    kinds = sorted({question["type"] for question in other})
    return {
        "set": "en_rewrite",
        "gold equals the question": rate(same),
        "gold differs": rate(other),
        "gold differs, by source": {kind: rate([q for q in other if q["type"] == kind]) for kind in kinds},
    }


def _alone(question: Mapping[str, Any]) -> bool:
    """A first turn, or one that its human rewriter left as it was."""
    gold = question.get("rewrite") or ""
    return not question["history"] or plain(gold) == plain(question["text"])


async def run() -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    with server() as url:
        if available("zh_kdconv_travel"):
            kinds = ("elliptical", "explicit")
            groups = {kind: (lambda q, kind=kind: q["type"] == kind) for kind in kinds}
            titles = lambda public: list(dict.fromkeys(row.title for row in public.rows))  # noqa: E731 - one use
            results.append(await retrieval("zh_kdconv_travel", url, titles, groups))
        if available("en_mtrag"):
            by_gold = {"stand-alone": _alone, "others": lambda q: not _alone(q)}
            results.append(await retrieval("en_mtrag", url, lambda public: [], by_gold))
    if (DATA / "en_rewrite/queries.jsonl").exists():
        results.append(fire_rates())
    done = {result["set"] for result in results}
    for name in ("zh_kdconv_travel", "en_mtrag", "en_rewrite"):
        if name not in done:
            print(f"{name}: skipped, ../shared/data/{name} is not there")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    out = parser.parse_args().out
    results = asyncio.run(run())
    print(json.dumps(results, indent=1, ensure_ascii=False))
    about = provenance("python -m bench.rewrite", config(SearchSettings()))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps(about | {"results": results}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
