"""`signoff ingest`: files, folders and pages into the knowledge base, and the look at what they would become."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import watchfiles
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bot.admin import collection_of
from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, myself, opened, run, see_through
from bot.principals import unreadable
from store.documents import VersionRow
from store.errors import IngestError
from store.ingest.chunking import Preview
from store.ingest.formats import SUFFIXES

FINISHED = ("live", "failed", "retired")
ADDRESSES = ("http://", "https://")
WEB = "web"  # the collection of pages that are given none
KINDS = ", ".join(suffix.removeprefix(".") for suffix in SUFFIXES)


@dataclass(frozen=True)
class Result:
    """What became of one file or page: a version, or the reason why it was not taken. `known`: it was there, byte for
    byte; `twins` are other documents of the same bytes."""

    name: str
    version: VersionRow | None = None
    error: IngestError | None = None
    known: bool = False
    twins: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.error is not None or (self.version is not None and self.version.state == "failed")


@dataclass(frozen=True)
class Shelf:
    """Where what is ingested goes, who may read it, and who put it there. None: the default."""

    collection: str | None
    audience: tuple[str, ...] | None
    by: str


def ingest(
    sources: Annotated[list[str], typer.Argument(help=f"Files, folders, or web addresses. Kinds: {KINDS}.")],
    home: Home = None,
    collection: Annotated[str, typer.Option(help="Where the documents belong; default: their folder.")] = "",
    audience: Annotated[str, typer.Option(help="Who may read them: principals, separated by commas.")] = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: ingest what changes below the paths, or behind addresses.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="With --watch: minutes between two looks at an address.", min=0.1)
    ] = 60.0,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show the chunks that would be made; store nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put files, folders or web pages into the knowledge base. What cannot be read says why and fails alone."""
    addresses = [source for source in sources if source.startswith(ADDRESSES)]
    paths = [Path(source) for source in sources if not source.startswith(ADDRESSES)]
    shelf = Shelf(
        collection or None,
        tuple(p.strip() for p in audience.split(",") if p.strip()) or None,
        f"cli:{myself()}",
    )
    refuse_nobody(shelf.audience or ())

    async def work() -> None:
        async with opened(home) as app:
            if preview:
                await _preview(app, paths, addresses, shelf, as_json=as_json)
                return
            results = [*await upload(app, files_below(paths), shelf), *await fetch(app, addresses, shelf)]
            report(app, results, as_json=as_json)
            if watch:
                await _watch(app, paths, shelf, every if addresses else None)
            elif any(result.failed for result in results):
                raise typer.Exit(1)

    run(work())


def refuse_nobody(principals: Sequence[str]) -> None:
    """Raise `CommandFailed` where one of `principals` could be nobody: what only such may read is read by none."""
    if wrong := unreadable(principals):
        raise CommandFailed(
            f"Nobody could be {', '.join(wrong)}. Principals are everyone, slack:C…, feishu:ou_…, web:lin and the like."
        )


async def upload(app: App, found: Sequence[tuple[Path, Path]], shelf: Shelf) -> list[Result]:
    """Upload files, each named relative to its base folder, and see the ingestion through with a progress bar."""
    started: list[Result] = []
    for base, path in found:
        data = await asyncio.to_thread(path.read_bytes)
        name = path.relative_to(base).as_posix()
        try:
            version = await app.admin.upload(
                name,
                data,
                collection=collection_of(path, base, shelf.collection),
                by=shelf.by,
                audience=shelf.audience,
            )
        except IngestError as error:
            started.append(Result(name, error=error))
        else:
            started.append(Result(name, version, known=version.state == "live"))
    return await _seen_through(app, started)


async def fetch(app: App, addresses: Sequence[str], shelf: Shelf) -> list[Result]:
    """Read every address and see the ingestion through."""
    started: list[Result] = []
    for address in addresses:
        try:
            version = await app.admin.add_url(
                address, collection=shelf.collection or WEB, by=shelf.by, audience=shelf.audience
            )
        except IngestError as error:
            started.append(Result(address, error=error))
        else:
            started.append(Result(address, version, known=version.state == "live"))
    return await _seen_through(app, started)


async def _seen_through(app: App, started: Sequence[Result]) -> list[Result]:
    ids = [result.version.id for result in started if result.version]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Reading documents", total=len(ids))

        async def finished() -> bool:
            rows = [await app.store.documents.version(version_id) for version_id in ids]
            done = sum(row.state in FINISHED for row in rows)
            progress.update(task, completed=done)
            return done == len(ids)

        await see_through(app, ["ingest"], finished, seconds=24 * 3_600)
    return [await _finished(app, result) for result in started]


async def _finished(app: App, result: Result) -> Result:
    if result.version is None:
        return result
    version = await app.store.documents.version(result.version.id)
    twins = [] if version.state == "failed" else await app.admin.duplicates(version)
    return Result(result.name, version, None, result.known, tuple(row.source for row in twins))


async def _watch(app: App, paths: Sequence[Path], shelf: Shelf, minutes: float | None) -> None:
    """For ever: what changes below the paths, and pages that were last looked at `minutes` ago."""
    async with asyncio.TaskGroup() as both:
        if paths:
            both.create_task(_watch_files(app, paths, shelf))
        if minutes is not None:
            both.create_task(_watch_pages(app, timedelta(minutes=minutes)))


async def _watch_files(app: App, paths: Sequence[Path], shelf: Shelf) -> None:
    """A file that is changed again has the name it was first ingested under; one that is deleted stays a document."""
    roots = [path.resolve() for path in paths]
    async for changed in watchfiles.awatch(*roots):
        fresh = {Path(path) for kind, path in changed if kind != watchfiles.Change.deleted}
        found = [
            (root if root.is_dir() else root.parent, path)
            for root in roots
            for path in sorted(fresh)
            if path.is_relative_to(root) and _readable(path)
        ]
        report(app, await upload(app, found, shelf))


async def _watch_pages(app: App, age: timedelta) -> None:
    while True:
        await asyncio.sleep(age.total_seconds())
        looked = await app.admin.refetch(age)
        changed = [
            Result(page.url, page.version, page.error) for page in looked if page.version or page.error
        ]
        report(app, await _seen_through(app, changed))


def files_below(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """(folder that names are relative to, file) of every readable file at or below `paths`. Raises `CommandFailed`."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise CommandFailed(f"Not found: {', '.join(missing)}")
    found = []
    for path in paths:
        if path.is_file():
            found.append((path.parent, path))
        else:
            found += [(path, file) for file in sorted(path.rglob("*")) if _readable(file)]
    return found


def _readable(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in SUFFIXES and not file.name.startswith((".", "~$"))


# --- what is printed -------------------------------------------------------------------------------------------


def report(app: App, results: Sequence[Result], *, as_json: bool = False) -> None:
    if as_json:
        dump([_row(app, result) for result in results])
        return
    for result in results:
        if result.failed:
            typer.echo(_reason(app, result), err=True)
        elif result.version:
            typer.echo(f"{result.name}: {_said(result, result.version)}")


def _said(result: Result, version: VersionRow) -> str:
    if result.known:
        return f"these bytes are version {version.number} already, {version.chunk_count} chunks"
    said = f"{version.chunk_count} chunks, version {version.number}"
    if version.number > 1 and version.changes:
        said += " ({added} added, {removed} removed, {unchanged} unchanged)".format(**version.changes)
    return said + (f"; the same bytes as {', '.join(result.twins)}" if result.twins else "")


def _row(app: App, result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {"name": result.name, **(asdict(result.version) if result.version else {})}
    if result.error:
        row |= {"state": "failed", "error_code": result.error.code, "error_detail": result.error.detail}
    if result.failed:
        row["message"] = _reason(app, result)
    return {**row, "known": result.known, "same_as": list(result.twins)}


def _reason(app: App, result: Result) -> str:
    if result.error:
        return remedy(app, result.name, result.error.code, result.error.detail)
    version = result.version
    code, detail = (version.error_code, version.error_detail) if version else (None, None)
    return remedy(app, result.name, code or "internal", detail or "")


def remedy(app: App, name: str, code: str, detail: str, language: str = "en") -> str:
    """What is wrong with a file and what to do about it, in a sentence each."""
    what = app.words(language, f"ingest.{code}.what", name=name, detail=detail).strip()
    return f"{what} {app.words(language, f'ingest.{code}.remedy', detail=detail)}"


async def _preview(
    app: App, paths: Sequence[Path], addresses: Sequence[str], shelf: Shelf, *, as_json: bool
) -> None:
    found: list[dict[str, Any]] = []
    looks: list[tuple[str, Callable[[], Awaitable[Preview]]]] = []
    for base, path in files_below(paths):
        looks.append((path.relative_to(base).as_posix(), partial(_look, app, base, path, shelf)))
    for address in addresses:
        place = shelf.collection or WEB
        looks.append((address, partial(app.admin.preview_url, address, collection=place)))
    for name, look in looks:
        try:
            shown = await look()
        except IngestError as error:
            typer.echo(remedy(app, name, error.code, error.detail), err=True)
            continue
        found.append({"name": name, **asdict(shown)})
        if not as_json:
            _show(name, shown)
    if as_json:
        dump(found)


async def _look(app: App, base: Path, path: Path, shelf: Shelf) -> Preview:
    data = await asyncio.to_thread(path.read_bytes)
    collection = collection_of(path, base, shelf.collection)
    return await app.admin.preview(path.relative_to(base).as_posix(), data, collection=collection)


def _show(name: str, shown: Preview) -> None:
    how = f"{shown.profile}, {'guessed' if shown.guessed else 'as set'}"
    pages = f", {shown.pages} pages" if shown.pages else ""
    typer.echo(f"{name}: “{shown.title}”, {len(shown.chunks)} chunks ({how}){pages}")
    for chunk in shown.chunks:
        page = f" p. {chunk.page}" if chunk.page else ""
        typer.echo(f"\n[{chunk.ordinal}] {' › '.join(chunk.heading_path)}{page}\n{chunk.text}")
