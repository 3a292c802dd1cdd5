"""`signoff eval`: what a part of the product is worth, measured on people's own questions or on any set in the shared
format (bot/cli/evaluators.py has the table)."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.app import make_embedder
from bot.cli import figures
from bot.cli.evaluators import TABLE, Bench
from bot.cli.session import CommandFailed, Home, Json, dump, run
from bot.settings import Settings, load_settings
from bot.variants import varied

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
    Path | None,
    typer.Option("--csv", help="Write each answer here for people to judge (eval own, eval answers)."),
]
Plotted = Annotated[
    Path | None, typer.Option("--plot", help="Draw hit@5 by chunk size here, as SVG (eval chunking).")
]
Reported = Annotated[
    Path | None, typer.Option("--html", help="Write a report here: one file with its tables and pictures.")
]
Documents = Annotated[
    Path | None,
    typer.Option("--documents", help="Ask this folder of documents, not the knowledge base (eval own)."),
]


# --- the command -------------------------------------------------------------------------------------------------


def register(cli: typer.Typer) -> None:
    names = "\n\n".join(f"{name}: {(runner.__doc__ or '').splitlines()[0]}" for name, runner in TABLE.items())
    cli.command(
        "eval",
        help="Measure a part of the product: on your own questions, or on sets in the shared format.\n\n"
        + names,
    )(evaluate)


def evaluate(
    what: Annotated[str, typer.Argument(help=" | ".join(TABLE))],
    sets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SET…", help="Folders of sets; of eval own files of questions, or none for the sample."
        ),
    ] = None,
    home: Home = None,
    compare: Compare = None,
    documents: Documents = None,
    vectors: Kept = None,
    limit: Limit = None,
    html: Reported = None,
    written: Written = None,
    plotted: Plotted = None,
    as_json: Json = False,
) -> None:
    chosen = _measurable(what, sets or [], documents)
    options = _Options(home, vectors, limit, documents)
    _writable(html, written, plotted)

    async def work() -> None:
        told = [(name, await _rows(what, chosen, name, options)) for name in compare or (HERE,)]
        if compare:
            _pair(*(rows for _, rows in told))
        if as_json:
            dump([{**row, "variant": name} if compare else row for name, rows in told for row in rows])
        elif compare:
            figures.say_both(*(rows for _, rows in told))
        else:
            figures.say(told[0][1])
        if html is not None:
            _report(html, what, chosen, told)
        if written is not None:
            _write_csv(written, options.answers)
        if plotted is not None:
            _plot(plotted, told[0][1])

    run(work())


HERE = "."
OLD = "old"
VARIANT = "variant:"
OWN = "own"


@dataclass(frozen=True)
class _Options:
    home: Path | None
    vectors: Path | None
    limit: int | None
    documents: Path | None = None
    answers: list[dict[str, Any]] = field(default_factory=list)  # of every variant, for --csv


def _measurable(what: str, sets: Sequence[Path], documents: Path | None) -> Sequence[Path]:
    """The sets to measure. Raises `CommandFailed` where the arguments do not go together."""
    if what not in TABLE:
        raise CommandFailed(f"There is no evaluation {what!r}. There are: {', '.join(TABLE)}.")
    if documents is not None and what != OWN:
        raise CommandFailed("--documents goes with `signoff eval own`: the other sets bring their own.")
    if not sets and what == OWN:
        from bot.cli.own_questions import EXAMPLE

        typer.echo(f"The sample handbook's questions, {EXAMPLE}. Write your own like them.", err=True)
        return [EXAMPLE]
    if not sets:
        raise CommandFailed("Name the folder of a set in the shared format.")
    return sets


def _writable(*paths: Path | None) -> None:
    """Raise `CommandFailed` before minutes are spent on what then cannot be written."""
    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise CommandFailed(f"There is no folder {path.parent} to write {path.name} into.")


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
    bench = Bench(settings, KeptEmbedder(embedder, kept), options.limit, variant == OLD, options.documents)
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


def _pair(before: Sequence[Mapping[str, Any]], after: Sequence[dict[str, Any]]) -> None:
    """Put beside the second variant's figures what became of each question, where both have the questions."""
    from rag_graph.evaluation.pairs import changes, paired

    earlier = {
        row["set"]: row["details"]["questions"] for row in before if "questions" in row.get("details", {})
    }
    for row in after:
        then, now = earlier.get(row["set"]), row.get("details", {}).get("questions")
        if then is None or now is None:
            continue
        kinds = dict.fromkeys(one["kind"] for one in now)
        pairs = [paired(measure, then, now) for measure in MEASURES]
        pairs += [paired("right", then, [one for one in now if one["kind"] == kind], kind) for kind in kinds]
        row["details"] |= {
            "paired": [pair.to_json() for pair in pairs if pair is not None],
            "changes": [change.to_json() for change in changes(then, now)],
        }


#: Of a question's row, what is compared pair by pair.
MEASURES = ("right", "judged", "first_hit")


# --- what is written ---------------------------------------------------------------------------------------------


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        raise CommandFailed(
            "--csv has nothing to write: only `eval own` and `eval answers` give answers to judge."
        )
    with path.open("w", encoding="utf-8-sig", newline="") as out:  # the mark lets spreadsheets read Chinese
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)


def harmless(value: Any) -> Any:
    """A cell as a spreadsheet shows it and does not compute it: what a document or a model said may begin like a
    formula (owasp.org, CSV injection)."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )


def _plot(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows or "size" not in rows[0].get("details", {}):
        raise CommandFailed("--plot draws sweeps: `signoff eval chunking`.")
    from rag_graph.evaluation.chunking import plot

    path.write_text(plot(rows), encoding="utf-8")


def _report(
    path: Path, what: str, sets: Sequence[Path], told: Sequence[tuple[str, list[dict[str, Any]]]]
) -> None:
    from bot.report.evaluation import evaluation_page

    names = " ".join([what, *(one.name for one in sets)])
    variants = " ".join(Path(name).name or name for name, _ in told)
    compared = f" --compare {variants}" if len(told) > 1 else ""
    try:
        path.write_text(evaluation_page(f"signoff eval {names}{compared}", told), encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"The report cannot be written to {path}: {error.strerror}.") from error
    typer.echo(f"Report: {path}", err=True)
