"""`signoff`: the commands. Each translates its arguments into one use case and prints what came of it."""

import sys

import typer

from bot.cli import asking, canary, evaluation, knowledge, people, policy, process, reviews, runs, verified
from bot.cli.session import CommandFailed
from bot.messages import CannotStart
from bot.settings import SettingsError
from store.errors import StoreError

cli = typer.Typer(
    name="signoff",
    help="Answers a team's questions from its own documents; a person signs off the ones that matter.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
process.register(cli)
asking.register(cli)
knowledge.register(cli)
evaluation.register(cli)
cli.add_typer(reviews.cli, name="reviews")
cli.add_typer(verified.cli, name="verified")
cli.add_typer(people.cli, name="people")
cli.add_typer(policy.cli, name="policy")
cli.add_typer(runs.cli, name="runs")
cli.add_typer(canary.cli, name="canary")


def main() -> None:
    """Entry point. What an operator can mend is printed as a sentence; anything else keeps its traceback."""
    try:
        cli()
    except (CannotStart, CommandFailed, SettingsError, StoreError) as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
