"""`signoff runs show`: what one question's answering found, cited, spent, called and asked a model."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from bot.cli.session import CommandFailed, Home, Json, dump, opened, run
from store.runs import RunRow

cli = typer.Typer(help="What was done for a question, run by run.", no_args_is_help=True)


@cli.callback()
def _group() -> None:
    """Commands about runs."""


@cli.command("show")
def show(
    question_id: Annotated[str, typer.Argument(help="As `signoff ask --json` gives it.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the runs of a question, with the exact prompts as far as [model] text keeps them."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.runs.for_question(question_id)
        if not rows:
            raise CommandFailed(f"There is no run of a question {question_id!r}.")
        if as_json:
            dump([asdict(row) for row in rows])
            return
        for row in rows:
            _print(row)

    run(work())


def _print(row: RunRow) -> None:
    typer.echo(f"run {row.id}  {row.created_at:%Y-%m-%d %H:%M:%S}  {row.outcome}")
    facts: dict[str, Any] = {
        "searched": row.rewritten_question,
        "retrieved": ", ".join(map(str, row.retrieved)),
        "cited": ", ".join(map(str, row.cited)),
        "confidence": "" if row.confidence is None else f"{row.confidence:.3f}",
        "rule": row.rule,
        "without": ", ".join(row.degraded),
        "tokens": ", ".join(f"{name} {count}" for name, count in row.tokens.items()),
    }
    for name, value in facts.items():
        if value:
            typer.echo(f"  {name:12} {value}")
    for tool in row.tools:
        trouble = f"  [{tool['trouble']}]" if tool.get("trouble") else ""
        typer.echo(f"  {'tool':12} {tool.get('name') or 'none called'} {tool.get('arguments', '')}{trouble}")
    for call in row.prompts:
        counts = f"{call['estimated']} tokens estimated, {call['counted'] or 'none'} counted"
        typer.echo(f"  {'prompt':12} {call['role']} by {call['model']}: {counts}")
        for message in call.get("messages", ()):
            typer.echo(f"--- {message['role']}\n{message['content']}")
