"""`signoff runs`: what was done for questions, and whose fault it was where an answer went wrong."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run
from bot.traces import bars, money, spent, wanted, withheld, zone_of
from bot.verdict import Case, Hint, Ruling, find, reason, remedy, telling
from store.runs import ListedRun, RunRow
from store.tracing import Traced

cli = typer.Typer(
    help="What was done for a question, run by run; lists, verdicts, documents that are never cited.",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Option("--document", help="What should have answered: part of its title or file.")
]
Words = Annotated[str, typer.Option("--words", help="Words of the passage that should have answered.")]
SHORT = 60  # letters of a question in the list


@cli.command("list")
def list_runs(
    home: Home = None,
    outcome: Annotated[str, typer.Option(help="answered, declined, held, clarified or failed.")] = "",
    platform: Annotated[str, typer.Option(help="slack, feishu, web or cli.")] = "",
    channel: Annotated[str, typer.Option(help="The channel's id on its platform.")] = "",
    collection: Annotated[str, typer.Option(help="Of what was cited, else of the best passage found.")] = "",
    variant: Annotated[str, typer.Option(help='A variant\'s name; "." for the settings themselves.')] = "",
    rule: Annotated[str, typer.Option(help="The review rule that decided.")] = "",
    day: Annotated[str, typer.Option(help="YYYY-MM-DD, in the reviewers' time zone.")] = "",
    disliked: Annotated[bool, typer.Option("--disliked", help="Only what somebody found unhelpful.")] = False,
    degraded: Annotated[bool, typer.Option("--degraded", help="Only what had to do without a part.")] = False,
    text: Annotated[str, typer.Option("--id", help="Beginning of a question's id, or a run's number.")] = "",
    before: Annotated[int, typer.Option(min=0, help="Only runs with a smaller number: the next page.")] = 0,
    most: Annotated[int, typer.Option("--most", min=1, max=1_000)] = 50,
    as_json: Json = False,
) -> None:
    """The last runs, newest first."""
    given = {
        "outcome": outcome, "platform": platform, "channel": channel, "collection": collection, "variant": variant,
        "rule": rule, "day": day, "text": text, "disliked": "1" if disliked else "",
        "degraded": "1" if degraded else "",
    }  # fmt: skip

    async def work() -> None:
        async with opened(home) as app:
            which = wanted(given, zone_of(app.settings), before)
            if day and which.since is None:
                raise CommandFailed(f"{day!r} is no day: write it as 2026-12-01.")
            rows = await app.store.runs.page(which, most)
            currency = app.settings.model.prices.currency
        if as_json:
            dump([_listed(row) for row in rows])
            return
        table = Table("run", "when", "outcome", "where", "s", "tokens", "cost", "question", "id")
        for row in rows:
            table.add_row(*_line(row, currency))
        Console().print(table)

    run(work())


def _line(row: ListedRun, currency: str) -> list[str]:
    whole = row.timings.get("answer", row.timings.get("resume"))
    place = "in private" if row.private else f"{row.platform}:{row.channel}"
    marks = [
        row.outcome,
        *row.degraded,
        *([row.error] if row.error else []),
        *(["disliked"] if row.unhelpful else []),
    ]
    return [
        str(row.id),
        f"{row.created_at.astimezone():%m-%d %H:%M}",
        ", ".join(marks),
        place,
        "" if whole is None else f"{whole / 1_000:.2f}",
        str(spent(row.tokens) or ""),
        money(row.cost, currency),
        _words(row)[:SHORT],
        row.question_id[:8],
    ]


def _words(row: ListedRun) -> str:
    """A question's words, unless they are for nobody but their asker."""
    return "" if withheld(row.state, row.private, row.asker, ()) else row.text


def _listed(row: ListedRun) -> dict[str, Any]:
    return {**asdict(row), "text": _words(row)}


@cli.command("show")
def show(
    question_id: Annotated[
        str, typer.Argument(help="As `signoff ask --json` gives it; its beginning is enough.")
    ],
    home: Home = None,
    document: Name = "",
    words: Words = "",
    as_json: Json = False,
) -> None:
    """The runs of a question, with the prompts as far as [model] text keeps them, and the verdict: not indexed, not
    retrieved, or retrieved but not cited."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.runs.for_question(await _whole(app, question_id))
            if not rows:
                raise CommandFailed(f"There is no run of a question {question_id!r}.")
            case = await _case(app, rows)
            known = await app.store.tracing.passages(
                sorted({i for r in rows for i in (*r.retrieved, *r.cited)})
            )
            ruling = await find(app, case, Hint(document, words), "en")
            verdict = _verdict(app, case, ruling) if ruling else None
            opinions = [asdict(row) for row in await app.store.conversations.feedback_on(case.question.id)]
            sent = await app.store.deliveries.for_question(case.question.id)
        if as_json:
            # A list of runs; what is about their question stands in each.
            dump([{**asdict(row), "verdict": verdict, "feedback": opinions} for row in rows])
            return
        for row in rows:
            _print(row, known)
        for delivery in sent:
            told = f"{delivery.kind} to {delivery.platform}: {delivery.state} {delivery.error}"
            typer.echo(f"  {'delivery':12} {told}".rstrip())
        for opinion in opinions:
            helped = "helpful" if opinion["helpful"] else "not helpful"
            typer.echo(f"  {'feedback':12} {helped} {opinion['reason']}".rstrip())
        if verdict:
            typer.echo(f"{verdict['fault']}: {verdict['said']}\n  {verdict['remedy']}")

    run(work())


async def _whole(app: App, beginning: str) -> str:
    """The question's id that begins like that, where it is the only one."""
    found = await app.store.runs.page(wanted({"text": beginning}, UTC), 50)
    ids = {row.question_id for row in found if row.question_id.startswith(beginning)}
    return ids.pop() if len(ids) == 1 else beginning


async def _case(app: App, rows: list[RunRow]) -> Case:
    question = await app.store.conversations.question(rows[-1].question_id)
    return Case(
        question, await app.store.conversations.get(question.conversation_id), telling(rows) or rows[-1]
    )


def _verdict(app: App, case: Case, ruling: Ruling) -> dict[str, Any]:
    first = ruling.first
    return {
        "fault": app.words("en", f"verdict.fault.{first.fault}"),
        "kind": first.kind,
        "document": first.match.document_id if first.match else None,
        "presumed": ruling.presumed,
        "said": reason(app.words, "en", case, ruling, first),
        "remedy": remedy(app.words, "en", case, ruling, first),
    }


def _print(row: RunRow, known: dict[int, Traced]) -> None:
    typer.echo(f"run {row.id}  {row.created_at:%Y-%m-%d %H:%M:%S}  {row.outcome}")
    facts: dict[str, Any] = {
        "searched": " | ".join(row.searched),
        "confidence": "" if row.confidence is None else f"{row.confidence:.3f}",
        "rule": row.rule,
        "variant": row.variant,
        "without": ", ".join(row.degraded),
        "tokens": ", ".join(f"{name} {count}" for name, count in row.tokens.items()),
        "cost": money(row.cost, ""),
        "error": row.error,
        "time": ", ".join(f"{bar.name} {bar.milliseconds}" for bar in bars(row.timings) if not bar.within),
    }
    for name, value in facts.items():
        if value:
            typer.echo(f"  {name:12} {value}")
    _print_passages(row, known)
    for tool in row.tools:
        trouble = f"  [{tool['trouble']}]" if tool.get("trouble") else ""
        typer.echo(f"  {'tool':12} {tool.get('name') or 'none called'} {tool.get('arguments', '')}{trouble}")
    for call in row.calls:
        counts = f"{call['estimated']} tokens estimated, {call['counted'] or 'none'} counted"
        parts = ", ".join(f"{name} {tokens}" for name, tokens in call.get("parts", {}).items() if tokens)
        typer.echo(
            f"  {'prompt':12} {call['role']} by {call['model']}: {counts}{f' ({parts})' if parts else ''}"
        )
        for message in call.get("messages", ()):
            typer.echo(f"--- {message['role']}\n{message['content']}")


def _print_passages(row: RunRow, known: dict[int, Traced]) -> None:
    """Each retrieved passage with its places: in all, by meaning, by words."""
    scores = {score["id"]: score for score in row.scores}
    for place, passage in enumerate(row.retrieved, 1):
        score, traced = scores.get(passage, {}), known.get(passage)
        name = " › ".join((traced.title, *traced.heading_path)) if traced else "kept no more"
        marks = [mark for mark, on in (("read", score.get("read")), ("cited", passage in row.cited)) if on]
        places = f"meaning {score.get('vector', '–')}, words {score.get('keyword', '–')}"
        told = f"{place:2}. {passage} {name}  ({places}) {' '.join(marks)}".rstrip()
        typer.echo(f"  {'retrieved':12} {told}")


@cli.command("uncited")
def uncited(
    home: Home = None,
    days: Annotated[float, typer.Option("--days", min=0, help="Visible for longer than that.")] = 30,
    as_json: Json = False,
) -> None:
    """Documents that readers see and no answer ever cited, those found most often first."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.tracing.uncited(datetime.now(UTC) - timedelta(days=days))
        if as_json:
            dump([asdict(row) for row in rows])
            return
        table = Table("document", "collection", "title", "found by", "since")
        for row in rows:
            table.add_row(str(row.id), row.collection, row.title, str(row.retrieved), f"{row.since:%Y-%m-%d}")
        Console().print(table)

    run(work())
