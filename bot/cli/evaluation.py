"""`signoff eval`: what a part of the product is worth, measured on any set in the shared format.

One table: a name and its runner. A runner gets the set's folder and what it may use, and returns results.
"""

import csv
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot.app import limits, make_embedder, make_writer, search_settings
from bot.cli.session import CommandFailed, Home, Json, database, dump, run
from bot.settings import Settings, load_settings
from bot.variants import varied

if TYPE_CHECKING:
    # Loaded where they are used: no other command needs numpy, and none should wait for it.
    from rag_graph.evaluation import EvaluationSet, Result
    from rag_graph.evaluation.vectors import KeptEmbedder
    from store.database import Database
    from store.search import Searcher

__all__ = ["TABLE", "Bench", "register"]

Kept = Annotated[
    Path | None,
    typer.Option("--vectors", help="File that keeps the vectors made for sets that have none (npz)."),
]
Compare = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--compare",
        metavar="A B",
        help="Two of: a signoff.toml, a variant by its name (or variant:NAME), a result stored with --json, . for the "
        "settings in force, or, of eval answers, "
        "old for the chain that most begin with.",
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many queries.")]
Written = Annotated[
    Path | None, typer.Option("--csv", help="Write each answer here for people to judge (eval answers).")
]
Plotted = Annotated[
    Path | None, typer.Option("--plot", help="Draw hit@5 by chunk size here, as SVG (eval chunking).")
]


@dataclass(frozen=True)
class Bench:
    """What a runner may use: the settings, an embedder whose vectors are kept, and databases of its own."""

    settings: Settings
    embedder: "KeptEmbedder"
    limit: int | None = None
    old: bool = False  # measure the chain to compare with (eval answers)
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


#: What can be measured; the first line of each docstring is its help.
TABLE: Mapping[str, Runner] = {
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


# --- the command -------------------------------------------------------------------------------------------------


def register(cli: typer.Typer) -> None:
    names = "\n\n".join(f"{name}: {(runner.__doc__ or '').splitlines()[0]}" for name, runner in TABLE.items())
    cli.command("eval", help=f"Measure a part of the product on sets in the shared format.\n\n{names}")(
        evaluate
    )


def evaluate(
    what: Annotated[str, typer.Argument(help=" | ".join(TABLE))],
    sets: Annotated[list[Path], typer.Argument(metavar="SET…", help="Folders of sets.")],
    home: Home = None,
    compare: Compare = None,
    vectors: Kept = None,
    limit: Limit = None,
    written: Written = None,
    plotted: Plotted = None,
    as_json: Json = False,
) -> None:
    if what not in TABLE:
        raise CommandFailed(f"There is no evaluation {what!r}. There are: {', '.join(TABLE)}.")

    options = _Options(home, vectors, limit)

    async def work() -> None:
        told = [(name, await _rows(what, sets, name, options)) for name in compare or (HERE,)]
        if as_json:
            dump([{**row, "variant": name} if compare else row for name, rows in told for row in rows])
        elif compare:
            _say_both(*(rows for _, rows in told))
        else:
            _say(told[0][1])
            _draw(told[0][1])
        if written is not None:
            _write_csv(written, options.answers)
        if plotted is not None:
            _plot(plotted, told[0][1])

    run(work())


HERE = "."
OLD = "old"
VARIANT = "variant:"


@dataclass(frozen=True)
class _Options:
    home: Path | None
    vectors: Path | None
    limit: int | None
    answers: list[dict[str, Any]] = field(default_factory=list)  # of every variant, for --csv


async def _rows(what: str, sets: Sequence[Path], variant: str, options: _Options) -> list[dict[str, Any]]:
    """The rows of one variant: measured, or read from an earlier run's --json."""
    if variant.endswith(".json"):
        return _stored(Path(variant))
    from rag_graph.evaluation import SetUnusable
    from rag_graph.evaluation.vectors import KeptEmbedder
    from store.embedding import EndpointEmbedder

    if variant == OLD and what != "answers":
        raise CommandFailed("The old chain is measured by `signoff eval answers` alone.")
    settings = _chosen(options.home, variant)
    kept = options.vectors or settings.home / "evaluation-vectors.npz"
    embedder = make_embedder(settings)
    bench = Bench(settings, KeptEmbedder(embedder, kept), options.limit, variant == OLD)
    try:
        rows = [result.to_json() for folder in sets for result in await TABLE[what](bench, folder)]
    except SetUnusable as error:
        raise CommandFailed(str(error)) from error
    finally:
        await bench.embedder.save()
        if isinstance(embedder, EndpointEmbedder):
            await embedder.close()
    options.answers.extend({"variant": variant, **row} for row in bench.rows)
    return rows


def _chosen(home: Path | None, variant: str) -> Settings:
    """The settings in force, another signoff.toml, or, by its name, a variant of [variants]."""
    if variant in (HERE, OLD):
        return load_settings(home)
    name = variant.removeprefix(VARIANT)
    if name == variant and Path(variant).is_file():
        return load_settings(home, config=Path(variant))
    settings = load_settings(home)
    if name in settings.variants:
        return varied(settings, name)
    raise CommandFailed(
        f"{variant} is neither a file nor a variant. [variants] in {settings.config} has: "
        f"{', '.join(settings.variants) or 'none'}."
    )


def _stored(path: Path) -> list[dict[str, Any]]:
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))
        rows = rows["results"] if isinstance(rows, dict) else rows
        return [{"set": row["set"], "n": row["n"], **row} for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"{path} is no result of `signoff eval … --json`: {error!r}") from error


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        raise CommandFailed("--csv has nothing to write: only `eval answers` gives answers to judge.")
    with path.open("w", encoding="utf-8-sig", newline="") as out:  # the mark lets spreadsheets read Chinese
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# --- what a person reads -----------------------------------------------------------------------------------------


def _say(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        typer.echo(f"{row['set']}  n={row['n']}  configuration {row['config_hash']}")
        for name, value in row["metrics"].items():
            typer.echo(f"  {name:32} {value:10.4f}")


def _draw(rows: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each setting of a sweep; nothing for other rows."""
    if rows and "size" in rows[0].get("details", {}):
        from rag_graph.evaluation.chunking import bars

        typer.echo("\n".join(["", *bars(rows)]))


def _plot(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows or "size" not in rows[0].get("details", {}):
        raise CommandFailed("--plot draws sweeps: `signoff eval chunking`.")
    from rag_graph.evaluation.chunking import plot

    path.write_text(plot(rows), encoding="utf-8")


def _say_both(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> None:
    """Side by side, by set and metric; what only one of them has is shown with a gap."""
    ours = {row["set"]: row for row in second}
    for row in first:
        other = ours.pop(row["set"], None)
        typer.echo(f"{row['set']}  n={row['n']}, {other['n'] if other else '–'}")
        for name in dict.fromkeys([*row["metrics"], *(other["metrics"] if other else ())]):
            before, after = row["metrics"].get(name), other["metrics"].get(name) if other else None
            change = "" if before is None or after is None else f"{after - before:+10.4f}"
            typer.echo(f"  {name:32} {_figure(before)} {_figure(after)} {change}")
    _say(list(ours.values()))


def _figure(value: float | None) -> str:
    return f"{'–':>10}" if value is None else f"{value:10.4f}"
