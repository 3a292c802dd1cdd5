"""`signoff documents`, `search`, `handbook`: what the bot knows."""

import json
from dataclasses import asdict
from importlib.resources import as_file, files
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bot.app import App, embedding
from bot.cli.ingesting import Result, Shelf, files_below, ingest, report, upload
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run
from store.errors import NotFound
from store.passages import Passage

documents = typer.Typer(help="What is in the knowledge base.", no_args_is_help=True)
handbook = typer.Typer(help="The sample handbook: put in, take out.", no_args_is_help=True)

HANDBOOK = "handbook"  # who uploaded it, so that one command can take it out again


def register(cli: typer.Typer) -> None:
    cli.command("ingest")(ingest)
    cli.command("search")(search)
    cli.add_typer(documents, name="documents")
    cli.add_typer(handbook, name="handbook")


def search(
    text: str,
    home: Home = None,
    principals: Annotated[list[str] | None, typer.Option("--as", help="Who searches; repeatable.")] = None,
    k: Annotated[int, typer.Option("--k", help="How many passages.")] = 5,
    as_json: Json = False,
) -> None:
    """Search alone, with each leg's rank: what retrieval finds before anybody drafts."""

    async def work() -> None:
        async with opened(home) as app:
            result = await app.store.search.search(text, principals or ["everyone"], top_k=k)
            if as_json:
                dump({**asdict(result), "passages": [asdict(passage) for passage in result.passages]})
                return
            table = Table("", "score", "why", "vector", "cosine", "keyword", "bm25", "where", "text")
            for place, passage in enumerate(result.passages, 1):
                where = " › ".join([passage.title, *passage.heading_path])
                table.add_row(
                    str(place),
                    f"{passage.score:.4f}",
                    _why(passage),
                    str(passage.vector_rank or "–"),
                    "–" if passage.similarity is None else f"{passage.similarity:.3f}",
                    str(passage.keyword_rank or "–"),
                    "–" if passage.bm25 is None else f"{passage.bm25:.1f}",
                    where + (f", p. {passage.page}" if passage.page else ""),
                    passage.text[:80],
                )
            Console().print(table)
            if result.degraded:
                typer.echo(f"Without {', '.join(result.degraded)}: `signoff doctor` says why.", err=True)
            kind = "calibrated" if result.calibrated else "uncalibrated"
            typer.echo(f"confidence {result.confidence:.2f} ({kind}) {dict(result.timings)}")

    run(work())


def _why(passage: Passage) -> str:
    """What put it there, the most telling first: each leg's part of the score, or the reranker's judgement."""
    told = sorted(passage.shares.items(), key=lambda share: -share[1])
    parts = [f"{name} {value / passage.score:.0%}" for name, value in told if value and passage.score]
    judged = [] if passage.reranked is None else [f"reranker {passage.reranked:.3g}"]
    return ", ".join(judged + parts)


@documents.command("list")
def list_documents(home: Home = None, collection: str = "", as_json: Json = False) -> None:
    """All documents with their state."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.admin.list(collection or None)
            gone = await app.store.pages.failing()
            if as_json:
                dump([{**asdict(row), "page_error": gone.get(row.id)} for row in rows])
                return
            table = Table("id", "collection", "source", "title", "version", "state", "chunks", "audience")
            for row in rows:
                table.add_row(
                    str(row.id),
                    row.collection,
                    row.source,
                    row.title,
                    str(row.version),
                    row.state + (f", its page {gone[row.id]}" if row.id in gone else ""),
                    str(row.chunk_count),
                    ", ".join(row.audience),
                )
            Console().print(table)

    run(work())


@documents.command("show")
def show(document_id: int, home: Home = None, as_json: Json = False) -> None:
    """One document's versions and chunks."""

    async def work() -> None:
        async with opened(home) as app:
            shown = await app.store.documents.show(document_id)
            chunks = await app.store.documents.chunks(shown.version_id) if shown.version_id else []
            if as_json:
                dump({**asdict(shown), "chunks": [asdict(chunk) for chunk in chunks]})
                return
            typer.echo(json.dumps(asdict(shown), ensure_ascii=False, default=str, indent=2))
            for chunk in chunks:
                page = f" p. {chunk.page}" if chunk.page else ""
                typer.echo(f"\n[{chunk.ordinal}] {' › '.join(chunk.heading_path)}{page}\n{chunk.text}")

    run(work())


@documents.command("remove")
def remove(document_ids: list[int], home: Home = None) -> None:
    """Take documents out, with all their versions."""

    async def work() -> None:
        async with opened(home) as app:
            for document_id in document_ids:
                await app.admin.remove(document_id)
            typer.echo(f"Removed {len(document_ids)}.")

    run(work())


@documents.command("rollback")
def rollback(
    document_id: int,
    home: Home = None,
    to: Annotated[int | None, typer.Option("--to", help="The version; default: the one before.")] = None,
    as_json: Json = False,
) -> None:
    """Show readers an earlier version again, at once and without embedding anew."""

    async def work() -> None:
        async with opened(home) as app:
            try:
                version = await app.admin.rollback(document_id, to)
            except NotFound:
                versions = await app.store.documents.versions(document_id)
                kept = ", ".join(f"{row.number} ({row.state})" for row in versions) or "none"
                raise CommandFailed(
                    f"There is no such version to go back to: the current one and the one before keep their text. "
                    f"Document {document_id} has versions {kept}. Upload the file of an older one again."
                ) from None
            if as_json:
                dump(asdict(version))
            else:
                typer.echo(
                    f"Version {version.number} is what readers see again ({version.chunk_count} chunks)."
                )

    run(work())


@documents.command("reindex")
def reindex(
    home: Home = None,
    space: Annotated[
        str, typer.Option(help="Another model's name, or a number of `documents spaces`, to go (back) to.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Build an embedding model's vectors beside those there are, then switch to them in one step."""

    async def work() -> None:
        async with opened(home) as app, embedding(app.settings, await _model(app, space)) as embedder:
            switched = await app.admin.reindex(embedder)
            if as_json:
                dump(asdict(switched))
                return
            calibrated = "calibrated" if switched.calibration else "uncalibrated"
            typer.echo(
                f"Space {switched.id} ({switched.model}, {switched.dimension} dimensions, {calibrated}) is active."
            )
            if switched.model != app.admin.embedder.model:
                typer.echo(
                    f"Questions still go to {app.admin.embedder.model}, and so to keywords alone: set "
                    f"SIGNOFF_EMBEDDING_MODEL to {switched.model} and restart the processes.",
                    err=True,
                )

    run(work())


async def _model(app: App, space: str) -> str:
    """The model that is meant: the one that is set, one by name, or that of a space by number."""
    if not space.isdigit():
        return space or app.admin.embedder.model
    known = {one.id: one.model for one in await app.store.documents.spaces()}
    if int(space) not in known:
        raise CommandFailed(f"There is no space {space}. There are: {known or 'none'}.")
    return known[int(space)]


@documents.command("spaces")
def list_spaces(home: Home = None, as_json: Json = False) -> None:
    """The embedding models that documents have vectors of, and which of them search reads."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.documents.spaces()
            if as_json:
                dump([asdict(row) for row in rows])
                return
            table = Table("id", "model", "dimension", "state", "calibrated")
            for row in rows:
                table.add_row(
                    str(row.id), row.model, str(row.dimension), row.state, "yes" if row.calibration else "no"
                )
            Console().print(table)

    run(work())


@handbook.command("add")
def add_handbook(home: Home = None) -> None:
    """Put the sample handbook into the knowledge base."""

    async def work() -> None:
        async with opened(home) as app:
            report(app, await upload_handbook(app))

    run(work())


@handbook.command("remove")
def remove_handbook(home: Home = None) -> None:
    """Take the sample handbook out again, and nothing else."""

    async def work() -> None:
        async with opened(home) as app:
            typer.echo(f"Removed {await app.admin.remove_uploaded_by(HANDBOOK)} documents.")

    run(work())


async def upload_handbook(app: App) -> list[Result]:
    with as_file(files("bot") / "handbook") as folder:
        return await upload(app, files_below([folder]), Shelf(None, None, HANDBOOK))
