"""`signoff verified …`: the signed-off answers that serve the same question again."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run, see_through
from store.errors import NotFound
from store.verified import VerifiedRow

cli = typer.Typer(help="Signed-off answers that serve again: list, show, retire.", no_args_is_help=True)


@cli.command("list")
def list_verified(
    home: Home = None,
    state: Annotated[str, typer.Option(help="active, review, retired, or all but the retired.")] = "",
    as_json: Json = False,
) -> None:
    """Those in service and those with a reviewer, last signed first."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.verified.list(state or None)
            uses = await app.store.verified.counts()
            if as_json:
                dump([{**asdict(row), "uses": uses.get(row.id, 0)} for row in rows])
                return
            table = Table("id", "state", "signed", "by", "used", "question")
            for row in rows:
                named = f"{row.state} ({row.reason})" if row.reason else row.state
                day = f"{row.signed_at:%Y-%m-%d}"
                table.add_row(str(row.id), named, day, row.signed_by, str(uses.get(row.id, 0)), row.question)
            Console().print(table)

    run(work())


@cli.command("show")
def show(verified_id: int, home: Home = None, as_json: Json = False) -> None:
    """One answer, who may be given it, and what it rests on."""

    async def work() -> None:
        async with opened(home) as app:
            row = await _find(app, verified_id)
            sources = await app.store.verified.sources(row.id)
            if as_json:
                dump({**asdict(row), "sources": [asdict(source) for source in sources]})
                return
            console = Console()
            console.print(
                f"{row.id} · {row.state} {row.reason} · {row.signed_by}, {row.signed_at:%Y-%m-%d %H:%M}"
            )
            console.print(row.question, markup=False, style="bold")
            console.print(Markdown(str(row.answer["text"])))
            console.print(f"for: {' '.join(row.audience)}", markup=False, style="dim")
            for source in sources:
                console.print(f"  {source.title}: {source.text}", markup=False, style="cyan")

    run(work())


@cli.command("retire")
def retire(
    verified_id: int,
    home: Home = None,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="Also take back what was sent, and tell those it was sent to.")
    ] = False,
    who: Annotated[str, typer.Option("--as", help="Who says so.")] = "cli:admin",
    as_json: Json = False,
) -> None:
    """Take an answer out of service for good."""

    async def work() -> None:
        async with opened(home) as app:
            row = await _find(app, verified_id)
            reason = "wrong" if wrong else "retired"
            retired = await app.verifying.retire(row.id, who, reason, wrong=wrong)
            if wrong:
                await see_through(app, ["answers"], lambda: _gone(app, row.id), seconds=60)
            if as_json:
                dump({"id": row.id, "retired": retired})
                return
            key = "verified_done" if retired else "verified_twice"
            typer.echo(app.words("en", f"chat.kb.{key}", id=row.id))

    run(work())


async def _gone(app: App, verified_id: int) -> bool:
    return (await app.store.verified.get(verified_id)).state == "retired"


async def _find(app: App, verified_id: int) -> VerifiedRow:
    try:
        return await app.store.verified.get(verified_id)
    except NotFound:
        raise CommandFailed(app.words("en", "chat.kb.verified_absent", id=verified_id)) from None
