"""`signoff ingest`, `documents`, `search`, `handbook`: what the bot knows."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
import watchfiles
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from bot.admin import collection_of
from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, myself, opened, run, see_through
from store.documents import VersionRow
from store.errors import IngestError
from store.ingest.formats import SUFFIXES

documents = typer.Typer(help="What is in the knowledge base.", no_args_is_help=True)
handbook = typer.Typer(help="The sample handbook: put in, take out.", no_args_is_help=True)

HANDBOOK = "handbook"  # who uploaded it, so that one command can take it out again
FINISHED = ("live", "failed", "retired")


def register(cli: typer.Typer) -> None:
    cli.command("ingest")(ingest)
    cli.command("search")(search)
    cli.add_typer(documents, name="documents")
    cli.add_typer(handbook, name="handbook")


def ingest(
    paths: list[Path],
    home: Home = None,
    collection: Annotated[str, typer.Option(help="Where the documents belong; default: their folder.")] = "",
    audience: Annotated[str, typer.Option(help="Who may read them: principals, separated by commas.")] = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: ingest what changes below the paths.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put files or folders into the knowledge base. A file that cannot be read says why and fails alone."""

    async def work() -> None:
        async with opened(home) as app:
            readers = tuple(p.strip() for p in audience.split(",") if p.strip()) or None
            results = await upload(app, paths, collection or None, readers, by=f"cli:{myself()}")
            report(app, results, as_json=as_json)
            if watch:
                async for changed in watchfiles.awatch(*paths):
                    fresh = [Path(path) for kind, path in changed if kind != watchfiles.Change.deleted]
                    report(app, await upload(app, fresh, collection or None, readers, by=f"cli:{myself()}"))
            elif any(version.state == "failed" for _, version in results):
                raise typer.Exit(1)

    run(work())


async def upload(
    app: App, paths: Sequence[Path], collection: str | None, audience: tuple[str, ...] | None, *, by: str
) -> list[tuple[str, VersionRow]]:
    """Upload every file below `paths`, see the ingestion through with a progress bar, return (name, version)."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise CommandFailed(f"Not found: {', '.join(missing)}")
    started: list[tuple[str, VersionRow]] = []
    for base, path in _files_below(paths):
        data = await asyncio.to_thread(path.read_bytes)
        name = path.relative_to(base).as_posix()
        try:
            version = await app.admin.upload(
                name, data, collection=collection_of(path, base, collection), by=by, audience=audience
            )
        except IngestError as error:
            typer.echo(remedy(app, name, error.code, error.detail), err=True)
            continue
        started.append((name, version))
    await _wait(app, started)
    return [(name, await app.store.documents.version(version.id)) for name, version in started]


async def _wait(app: App, started: Sequence[tuple[str, VersionRow]]) -> None:
    ids = [version.id for _, version in started]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Reading documents", total=len(ids))

        async def finished() -> bool:
            rows = [await app.store.documents.version(version_id) for version_id in ids]
            done = sum(row.state in FINISHED for row in rows)
            progress.update(task, completed=done)
            return done == len(ids)

        await see_through(app, ["ingest"], finished, seconds=24 * 3_600)


def _files_below(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """(folder that names are relative to, file) of every readable file at or below `paths`."""
    found = []
    for path in paths:
        if path.is_file():
            found.append((path.parent, path))
        else:
            found += [(path, file) for file in sorted(path.rglob("*")) if _readable(file)]
    return found


def _readable(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in SUFFIXES and not file.name.startswith(".")


def report(app: App, results: Sequence[tuple[str, VersionRow]], *, as_json: bool = False) -> None:
    if as_json:
        dump([{"name": name, **asdict(version)} for name, version in results])
        return
    for name, version in results:
        if version.state == "failed":
            typer.echo(
                remedy(app, name, version.error_code or "internal", version.error_detail or ""), err=True
            )
        else:
            typer.echo(f"{name}: {version.chunk_count} chunks, version {version.number}")


def remedy(app: App, name: str, code: str, detail: str, language: str = "en") -> str:
    """What is wrong with a file and what to do about it, in a sentence each."""
    what = app.words(language, f"ingest.{code}.what", name=name, detail=detail).strip()
    return f"{what} {app.words(language, f'ingest.{code}.remedy', detail=detail)}"


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
            table = Table("", "score", "vector", "cosine", "keyword", "bm25", "where", "text")
            for place, passage in enumerate(result.passages, 1):
                where = " › ".join([passage.title, *passage.heading_path])
                table.add_row(
                    str(place),
                    f"{passage.score:.4f}",
                    str(passage.vector_rank or "–"),
                    "–" if passage.similarity is None else f"{passage.similarity:.3f}",
                    str(passage.keyword_rank or "–"),
                    "–" if passage.bm25 is None else f"{passage.bm25:.1f}",
                    where + (f", p. {passage.page}" if passage.page else ""),
                    passage.text[:80],
                )
            Console().print(table)
            kind = "calibrated" if result.calibrated else "uncalibrated"
            typer.echo(f"confidence {result.confidence:.2f} ({kind}) {dict(result.timings)}")

    run(work())


@documents.command("list")
def list_documents(home: Home = None, collection: str = "", as_json: Json = False) -> None:
    """All documents with their state."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.admin.list(collection or None)
            if as_json:
                dump([asdict(row) for row in rows])
                return
            table = Table("id", "collection", "source", "title", "version", "state", "chunks", "audience")
            for row in rows:
                table.add_row(
                    str(row.id),
                    row.collection,
                    row.source,
                    row.title,
                    str(row.version),
                    row.state,
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


@documents.command("reindex")
def reindex(home: Home = None, as_json: Json = False) -> None:
    """Build the configured embedding model's vectors beside the old ones, then switch in one step."""

    async def work() -> None:
        async with opened(home) as app:
            space = await app.admin.reindex()
            if as_json:
                dump(asdict(space))
            else:
                typer.echo(f"Space {space.id} ({space.model}, {space.dimension} dimensions) is active.")

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


async def upload_handbook(app: App) -> list[tuple[str, VersionRow]]:
    with as_file(files("bot") / "handbook") as folder:
        return await upload(app, [folder], None, None, by=HANDBOOK)
