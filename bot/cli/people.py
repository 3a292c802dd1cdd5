"""`signoff people …`: whose accounts belong together."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bot.cli.session import Home, Json, dump, opened, run
from store.people import Person

cli = typer.Typer(
    help="Accounts of one person on several platforms: list, link, unlink.", no_args_is_help=True
)

Principal = Annotated[str, typer.Argument(help="slack:U…, feishu:ou_…, web:name, cli:name")]
By = Annotated[str, typer.Option("--as", help="Who says so; the record keeps it.")]
ADMIN = "cli:admin"


@cli.command("list")
def list_people(home: Home = None, as_json: Json = False) -> None:
    """Everybody of whom an account is known, and how it came to be linked."""

    async def work() -> None:
        async with opened(home) as app:
            people = await app.store.people.list()
        if as_json:
            dump([_as_dict(person) for person in people])
            return
        table = Table("person", "accounts", "linked by")
        for person in people:
            names = "\n".join(identity.principal for identity in person.identities)
            how = "\n".join(identity.linked_by for identity in person.identities)
            table.add_row(str(person.id), names, how)
        Console().print(table)

    run(work())


@cli.command("link")
def link(
    principal: Principal, other: Principal, home: Home = None, by: By = ADMIN, as_json: Json = False
) -> None:
    """Say that two accounts are one person's: they then decide across platforms, but never on their own question."""

    async def work() -> None:
        async with opened(home) as app:
            person = await app.store.people.link(principal, other, by)
        if as_json:
            dump(_as_dict(person))
        else:
            typer.echo(f"One person: {', '.join(sorted(person.principals))}")

    run(work())


@cli.command("unlink")
def unlink(principal: Principal, home: Home = None, by: By = ADMIN, as_json: Json = False) -> None:
    """Make an account stand alone; no e-mail address links it again."""

    async def work() -> None:
        async with opened(home) as app:
            await app.store.people.unlink(principal, by)
        if as_json:
            dump({"principal": principal, "linked": False})
        else:
            typer.echo(f"{principal} stands alone now.")

    run(work())


def _as_dict(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "identities": [
            {"principal": one.principal, "linked_by": one.linked_by, "linked_at": one.linked_at}
            for one in person.identities
        ],
    }
