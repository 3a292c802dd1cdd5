"""`signoff documents`, `handbook`: what the bot knows."""

from dataclasses import asdict
from importlib.resources import as_file, files
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bot.app import App, embedding
from bot.cli.ingesting import Result, Shelf, files_below, ingest, refuse_nobody, report, upload
from bot.cli.searching import search
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run
from bot.commands import INHERIT
from store.documents import ChunkRow, DocumentRow, VersionRow
from store.errors import NotFound

documents = typer.Typer(help="What is in the knowledge base.", no_args_is_help=True)
handbook = typer.Typer(help="The sample handbook: put in, take out.", no_args_is_help=True)

HANDBOOK = "handbook"  # who uploaded it, so that one command can take it out again


def register(cli: typer.Typer) -> None:
    cli.command("ingest")(ingest)
    cli.command("search")(search)
    cli.add_typer(documents, name="documents")
    cli.add_typer(handbook, name="handbook")


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
            table = Table("id", "collection")
            table.add_column("source", overflow="fold")
            for name in ("title", "version", "state", "chunks", "audience"):
                table.add_column(name)
            for row in rows:
                table.add_row(
                    str(row.id),
                    row.collection,
                    row.source,
                    row.title,
                    str(row.version or "–"),
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
            versions = await app.store.documents.versions(document_id)
            chunks = await app.store.documents.chunks(shown.version_id) if shown.version_id else []
        if as_json:
            dump(
                {
                    **asdict(shown),
                    "versions": [asdict(version) for version in versions],
                    "chunks": [asdict(chunk) for chunk in chunks],
                }
            )
        else:
            _show(shown, versions, chunks)

    run(work())


def _show(shown: DocumentRow, versions: list[VersionRow], chunks: list[ChunkRow]) -> None:
    audience = ", ".join(shown.audience) + (" (as the collection)" if shown.inherits_audience else "")
    typer.echo(f"{shown.title}\n{shown.collection}: {shown.source}, {shown.language}, read by {audience}\n")
    for version in versions:
        changes = ", ".join(f"{count} {how}" for how, count in version.changes.items())
        failure = f"{version.error_code} ({version.error_detail})" if version.error_code else ""
        seen = " ← what readers see" if version.id == shown.version_id else ""
        what = changes or failure or f"{version.chunk_count} chunks"
        typer.echo(
            f"version {version.number}, {version.created_at:%Y-%m-%d %H:%M}: {version.state}, {what}{seen}"
        )
    for chunk in chunks:
        page = f" p. {chunk.page}" if chunk.page else ""
        typer.echo(f"\n[{chunk.ordinal}] {' › '.join(chunk.heading_path)}{page}\n{chunk.text}")


@documents.command("audience")
def audience(
    what: Annotated[str, typer.Argument(help="A document's id, or a collection's name.")],
    principals: Annotated[
        list[str] | None,
        typer.Argument(help=f"Who may read it from now on; {INHERIT}: whoever may read its collection."),
    ] = None,
    home: Home = None,
) -> None:
    """Who may read a document, or a collection; changed at once, without embedding anew."""
    named = principals or []
    refuse_nobody([name for name in named if name != INHERIT])

    async def work() -> None:
        async with opened(home) as app:
            collections = {row.name: row for row in await app.store.documents.collections()}
            if what in collections:
                if named:
                    await app.store.documents.set_collection_audience(what, named)
                typer.echo(f"{what}: {', '.join(named or collections[what].audience)}")
                return
            if not what.isdigit():
                raise CommandFailed(
                    f"There is no collection {what}. There are: {', '.join(collections) or 'none'}."
                )
            if named:
                await app.admin.set_audience(int(what), None if INHERIT in named else tuple(named))
            shown = await app.store.documents.show(int(what))
            how = " (as the collection)" if shown.inherits_audience else ""
            typer.echo(f"{shown.title}: {', '.join(shown.audience)}{how}")

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
