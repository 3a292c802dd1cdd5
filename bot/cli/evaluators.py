"""What `signoff eval` can measure. One table: a name and its runner, which gets a set's folder (a file of questions, of
eval own) and what it may use, and returns results."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.app import limits, make_writer, search_settings
from bot.cli.session import database
from bot.settings import Settings

if TYPE_CHECKING:
    # Loaded where they are used: no other command needs numpy, and none should wait for it.
    from rag_graph.evaluation import EvaluationSet, Result
    from rag_graph.evaluation.vectors import KeptEmbedder
    from store.database import Database
    from store.search import Searcher

__all__ = ["TABLE", "Bench", "Runner"]


@dataclass(frozen=True)
class Bench:
    """What a runner may use: the settings, an embedder whose vectors are kept, and databases of its own."""

    settings: Settings
    embedder: "KeptEmbedder"
    limit: int | None = None
    old: bool = False  # measure the chain to compare with (eval answers)
    documents: Path | None = None  # ask these instead of the knowledge base (eval own)
    rows: list[dict[str, Any]] = field(default_factory=list)  # for --csv

    def read(self, folder: Path, *, qrels: str = "qrels.tsv") -> "EvaluationSet":
        """The set in `folder`, cut to the first `limit` queries."""
        from dataclasses import replace

        from rag_graph.evaluation import load

        chosen = load(folder, qrels=qrels)
        return replace(chosen, queries=chosen.queries[: self.limit])

    @asynccontextmanager
    async def empty(self) -> AsyncIterator["Database"]:
        """A temporary database on the configured server."""
        from store.scratch import scratch

        async with database(self.settings) as url, scratch(url) as opened:
            yield opened

    @asynccontextmanager
    async def searchable(
        self, chosen: "EvaluationSet"
    ) -> AsyncIterator[tuple["Searcher", Mapping[int, str]]]:
        """The set's corpus in a temporary database, and the rows' ids by chunk id. Vectors are the set's own where
        it has some, else the embedder's."""
        from rag_graph.evaluation.vectors import ReadyEmbedder, passage_vectors
        from store.scratch import fill
        from store.search import Searcher

        vectors = await passage_vectors(chosen, self.embedder)
        await self.embedder.save()
        ready = ReadyEmbedder(chosen, self.embedder) if chosen.passage_vectors else self.embedder
        async with self.empty() as opened:
            ids = await fill(opened.engine, chosen.rows, vectors, model=ready.model)
            yield Searcher(opened.engine, ready, search_settings(self.settings)), ids

    def config(self, **others: Any) -> dict[str, Any]:
        """What stands behind a result: the search settings, the embedding model, and the runner's own."""
        return {"search": self.settings.search.model_dump(), "embedder": self.embedder.model, **others}


Runner = Callable[[Bench, Path], Awaitable[Sequence["Result"]]]


# --- runners -----------------------------------------------------------------------------------------------------


async def rewrite(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Follow-ups by rule: how often they fire, and R@5 as asked and as rewritten where there are qrels."""
    from rag_graph.evaluation import rewriting

    chosen = bench.read(folder)
    if not chosen.relevant:
        return rewriting.fire_rates(chosen, bench.config())
    async with bench.searchable(chosen) as (searcher, ids):
        return await rewriting.retrieval(chosen, searcher, ids, bench.config())


async def grounding(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Sentences of the set, true and made false by a seeded script: how many are caught, how many false alarms."""
    from rag_graph.evaluation.grounded import grounded

    return grounded(bench.read(folder), {"checker": "rag_graph.grounding"})


async def tools(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Choosing a tool: the right one of N, the right function of those offered, and none where none fits."""
    from rag_graph.evaluation.tools import choosing

    return await choosing(bench.read(folder), bench.embedder, {"embedder": bench.embedder.model})


async def retrieval(bench: Bench, folder: Path) -> "Sequence[Result]":
    """What search finds: R@5, nDCG@10, hit@1…10 with the tokens of so many passages, and the knee of that curve."""
    from rag_graph.evaluation import retrieving
    from store.search import configuration

    chosen = bench.read(folder)
    cross = folder / "qrels_cross.tsv"
    parts = retrieving.parts(chosen, bench.read(folder, qrels=cross.name) if cross.exists() else None)
    config = bench.config(engine=configuration(search_settings(bench.settings)))
    async with bench.searchable(chosen) as (searcher, ids):
        return [await retrieving.measure(part, searcher, ids, config) for part in parts]


async def chunking(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Chunk sizes and overlaps tried on your own questions (twenty are enough): hit@k; --plot draws it."""
    from rag_graph.evaluation.chunking import sweep

    config = bench.config()
    return await sweep(bench.read(folder), bench.embedder, bench.searchable, config)


async def multihop(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Questions of several hops through the loop, their sub-questions filled by an oracle: all gold in the top ten."""
    from rag_graph.evaluation.multihop import multihop as measured

    chosen = bench.read(folder)
    async with bench.searchable(chosen) as (searcher, ids):
        return await measured(chosen, searcher, ids, bench.config())


async def context(bench: Bench, folder: Path) -> "Sequence[Result]":
    """What reaches the model at equal tokens: a budgeted context against the top k pasted whole, for k of 1 to 5."""
    from rag_graph.evaluation.contexts import contexts

    chosen = bench.read(folder)
    async with bench.searchable(chosen) as (searcher, ids):
        return await contexts(chosen, searcher, ids, bench.config())


async def answers(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Whole answers: right by containment and by a judge model, citations, tokens and latency; --csv for people."""
    from rag_graph.contracts import Deps
    from rag_graph.evaluation.answering import answers as measured
    from rag_graph.evaluation.answering import old_chain, our_chain
    from rag_graph.evaluation.old_chain import OldChain
    from rag_graph.models import ModelWriter
    from rag_graph.policy import Rules
    from rag_graph.tools import builtin_registry

    chosen, writer = bench.read(folder), make_writer(bench.settings)
    config = bench.config(
        model=bench.settings.llm.model if bench.settings.llm else "none", roles=bench.settings.model
    )
    judge = writer.judge if isinstance(writer, ModelWriter) else None
    try:
        if bench.old:
            chain = old_chain(await OldChain.of(chosen.rows, bench.embedder), writer)
            results, rows = await measured(chosen, chain, config | {"chain": "old"}, judge)
        else:
            async with bench.searchable(chosen) as (searcher, ids):
                deps = Deps(searcher, writer, Rules.parse([]), limits(bench.settings), builtin_registry())
                results, rows = await measured(chosen, our_chain(deps, ids), config, judge)
    finally:
        if isinstance(writer, ModelWriter):
            await writer.close()
    bench.rows.extend(rows)
    return results


async def abstain(bench: Bench, folder: Path) -> "Sequence[Result]":
    """Knowing when not to answer: AUROC, and false answers where 95 % of the answerable questions are answered."""
    from rag_graph.evaluation.abstaining import abstaining

    chosen = bench.read(folder)
    async with bench.searchable(chosen) as (searcher, ids):
        del ids
        return await abstaining(chosen, searcher, bench.config())


async def own(bench: Bench, questions: Path) -> "Sequence[Result]":
    """Your own questions (CSV or JSONL) put to your knowledge base: each kind apart, and which side failed; --html."""
    from bot.cli.own_questions import measured

    return await measured(bench, questions)


#: What can be measured; the first line of each docstring is its help.
TABLE: Mapping[str, Runner] = {
    "own": own,
    "retrieval": retrieval,
    "rewrite": rewrite,
    "chunking": chunking,
    "grounding": grounding,
    "tools": tools,
    "context": context,
    "abstain": abstain,
    "answers": answers,
    "multihop": multihop,
}
