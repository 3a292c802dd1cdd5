"""`signoff canary …`: try a variant of the settings on some conversations."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated

import typer

from bot.app import App
from bot.canary import Refused
from bot.canary_command import outcome
from bot.canary_lines import refusal, shown
from bot.cli.session import CommandFailed, Home, Json, dump, myself, opened, run
from store.canaries import CanaryRow

cli = typer.Typer(help="Try a variant of the settings on some conversations.", no_args_is_help=True)
LANGUAGE = "en"

Force = Annotated[bool, typer.Option("--force", help="Although it is too early, or was taken back before.")]


@cli.command("start")
def start(
    variant: Annotated[str, typer.Argument(help="Its name: [variants.NAME] in signoff.toml.")],
    percent: Annotated[
        int | None, typer.Option(help="Of conversations, 1 to 100; else the first of [canary] steps.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="Only conversations there: slack:C…, feishu:oc_…; repeatable.")
    ] = None,
    home: Home = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Let a variant answer some conversations: the same ones until it is moved on or taken back."""
    _act(
        home,
        as_json,
        lambda app: app.trying.start(variant, _me(), percent=percent, channels=channel or (), force=force),
    )


@cli.command("status")
def status(home: Home = None, as_json: Json = False) -> None:
    """Where it stands: the step, each guardrail, and what comes next."""

    async def work() -> None:
        async with opened(home) as app:
            found = await app.trying.status()
            if as_json:
                dump(asdict(found))
                return
            for line in shown(app.words, LANGUAGE, found):
                typer.echo(line)

    run(work())


@cli.command("promote")
def promote(home: Home = None, force: Force = False, as_json: Json = False) -> None:
    """The next step; after the last one it stays in force for all, and the lines for the settings are printed."""
    _act(home, as_json, lambda app: app.trying.promote(_me(), force=force))


@cli.command("rollback")
def rollback(
    home: Home = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "",
    as_json: Json = False,
) -> None:
    """Answer everything by the settings again, in every process within seconds."""
    _act(home, as_json, lambda app: app.trying.rollback(_me(), reason))


def _act(home: Home, as_json: bool, act: Callable[[App], Awaitable[CanaryRow]]) -> None:
    async def work() -> None:
        async with opened(home) as app:
            try:
                row = await act(app)
            except Refused as error:
                raise CommandFailed(refusal(app.words, LANGUAGE, error)) from None
            if as_json:
                dump(asdict(row))
                return
            for line in await outcome(app, LANGUAGE, row):
                typer.echo(line)

    run(work())


def _me() -> str:
    return f"cli:{myself()}"
