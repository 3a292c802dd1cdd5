"""`signoff eval own`: people's own questions put to the knowledge base of this installation, which is only looked at,
or to a folder of documents in a database that is gone afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bot.app import Parts, limits, make_reranker, make_writer, open_app, search_settings
from bot.cli.ingesting import Shelf, files_below, report, upload
from bot.cli.session import CommandFailed, database
from bot.principals import unreadable
from bot.telemetry import configure_logging
from store.dictionary import Dictionary
from store.embedding import EndpointEmbedder
from store.reranking import EndpointReranker

if TYPE_CHECKING:
    from bot.cli.evaluators import Bench
    from rag_graph.evaluation import Result
    from rag_graph.evaluation.questions import Read
    from store.readonly import Onlooker

__all__ = ["EXAMPLE", "measured"]

#: Questions on the sample handbook, to try the command with and to write others like.
EXAMPLE = Path(str(files("bot"))) / "questions.example.csv"
UPLOADER = "cli:evaluation"


async def measured(bench: "Bench", path: Path) -> "list[Result]":
    """The figures of the questions in `path`. Raises `CommandFailed` with everything that is wrong with the file."""
    from rag_graph.contracts import Deps
    from rag_graph.evaluation.own import Known, own
    from rag_graph.models import ModelWriter
    from rag_graph.tools import builtin_registry
    from rag_graph.tools.offering import Nearness
    from store.search import configuration

    # Results go to standard output, which may be JSON; what is logged goes beside it.
    configure_logging("WARNING", human=True)
    asked = reading(path)
    questions = asked.questions[: bench.limit]
    settings, writer = bench.settings, make_writer(bench.settings)
    config = bench.config(
        engine=configuration(search_settings(settings)),
        model=settings.llm.model if settings.llm else "none",
        roles=settings.model.model_dump(),
        rules=[asdict(rule) for rule in settings.rules.rules],
    )
    try:
        async with knowledge(bench) as looked_at:
            known = [
                Known(row.title, row.source, row.collection, frozenset(row.audience))
                for row in await looked_at.documents()
            ]
            if not known:
                raise CommandFailed(
                    "The knowledge base is empty. `signoff ingest PATH`, or name a folder: --documents."
                )
            deps = Deps(
                looked_at.search, writer, settings.rules, limits(settings), builtin_registry(),
                nearness=Nearness(bench.embedder.inner), contact=settings.workspace.contact,
            )  # fmt: skip
            with _progress() as progress:
                task = progress.add_task("Asking", total=len(questions))
                results = await own(
                    path.stem, questions, deps, known=known, config=config,
                    judge=writer.judge if isinstance(writer, ModelWriter) else None,
                    on_question=lambda done: progress.update(task, completed=done),
                )  # fmt: skip
    finally:
        if isinstance(writer, ModelWriter):
            await writer.close()
    bench.rows.extend(_for_people(row) for row in results[0].details["questions"])
    first = replace(results[0], details={**results[0].details, "unused": list(asked.unused)})
    return [first, *results[1:]]


def reading(path: Path) -> "Read":
    """The questions in a file, CSV unless its name says JSONL. Raises `CommandFailed` naming every faulty line."""
    from rag_graph.evaluation.questions import read

    if path.is_dir():
        raise CommandFailed(
            f"{path} is a folder. `signoff eval own` reads a file of questions: CSV or JSONL."
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from error
    found = read(
        data,
        jsonl=path.suffix.lower() in (".jsonl", ".ndjson", ".json"),
        principal=lambda name: not unreadable([name]),
    )
    if found.faults:
        told = "\n".join(f"  {fault}" for fault in found.faults)
        raise CommandFailed(
            f"{path} cannot be used; nothing was asked:\n{told}\ndocs/evaluation.md lists the columns."
        )
    return found


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


# --- what is asked --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def knowledge(bench: "Bench") -> "AsyncIterator[Onlooker]":
    """The knowledge base of the settings; or the folder's documents, read in as any other. Questions are embedded anew
    each time: a vector kept from an earlier run would make the search look faster than it is."""
    from store.readonly import onlooking
    from store.scratch import scratch

    settings = bench.settings
    reranker = make_reranker(settings)
    options: dict[str, Any] = {
        "search": search_settings(settings),
        "reranker": reranker,
        "dictionary": Dictionary(settings.search.dictionary),
    }
    try:
        if bench.documents is None:
            async with (
                database(settings) as url,
                onlooking(url, bench.embedder.inner, **options) as looked_at,
            ):
                yield looked_at
        else:
            async with database(settings) as url, scratch(settings.direct(url)) as own:
                await _fill(bench, own.conninfo, bench.documents)
                async with onlooking(own.conninfo, bench.embedder.inner, **options) as looked_at:
                    yield looked_at
    finally:
        if isinstance(reranker, EndpointReranker):
            await reranker.close()


async def _fill(bench: "Bench", url: str, folder: Path) -> None:
    """Read the folder in by the settings' own way of cutting. What cannot be read is told, and left out."""
    if isinstance(bench.embedder.inner, EndpointEmbedder):
        await bench.embedder.inner.query("dimension")  # which it knows only once it was asked
    elsewhere = dict.fromkeys(("database_direct_url", "slack", "feishu", "llm", "rerank"))
    quiet = bench.settings.model_copy(update=elsewhere)
    async with open_app(quiet, url, Parts(embedder=bench.embedder)) as app:
        done = await upload(app, files_below([folder]), Shelf(None, None, UPLOADER))
        report(app, [result for result in done if result.failed])


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    """A line of --csv: what was asked, expected and said; the last column is theirs to fill in."""
    return {
        "line": row["line"],
        "kind": row["kind"],
        "question": row["text"],
        "facts": "; ".join("|".join(group) for group in row["facts"]),
        "answer": row["answer"],
        "status": row["status"],
        "searched": " | ".join(row["searched"]),
        "cited": " | ".join(dict.fromkeys(one["document"] for one in row["cited"])),
        "contains": "" if row["right"] is None else row["right"],
        "judge": "" if row["judged"] is None else row["judged"],
        "wrong": row["fault"],
        "ms": row["ms"]["whole"],
        "right": "",
    }
