"""`signoff reviews …`: the reviewer's desk in a terminal."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run, see_through
from bot.exporting import audit, export
from bot.messages import REASONS, Action
from bot.review import Acted
from store.reviews import ReviewRow

cli = typer.Typer(
    help="Held drafts: list, show, claim, release, reassign, approve, edit, reject; export, audit.",
    no_args_is_help=True,
)

As = Annotated[str, typer.Option("--as", help="Who decides; must be on the list of reviewers.")]
REVIEWER = "cli:reviewer"


@cli.command("list")
def list_reviews(
    home: Home = None,
    state: Annotated[
        str, typer.Option(help="pending, approved, edited, rejected, expired or all.")
    ] = "pending",
    as_json: Json = False,
) -> None:
    """The drafts that wait, oldest first."""

    async def work() -> None:
        async with opened(home) as app:
            rows = await app.store.reviews.list(None if state == "all" else state)
            if as_json:
                dump([asdict(row) for row in rows])
                return
            table = Table("id", "state", "since", "held by", "claimed by", "question")
            for row in rows:
                question = await app.store.conversations.question(row.question_id)
                since = row.opened_at.astimezone().strftime("%m-%d %H:%M")
                table.add_row(str(row.id), row.state, since, row.reason, row.claimed_by or "", question.text)
            Console().print(table)

    run(work())


@cli.command("show")
def show(review_id: int, home: Home = None, as_json: Json = False) -> None:
    """One draft with its question, its passages and what happened to it."""

    async def work() -> None:
        async with opened(home) as app:
            review = await _find(app, review_id)
            events = [asdict(event) for event in await app.store.reviews.events(review_id)]
            if as_json:
                dump({**asdict(review), "events": events})
            else:
                await _print(app, review)

    run(work())


@cli.command("claim")
def claim(review_id: int, home: Home = None, who: As = REVIEWER, as_json: Json = False) -> None:
    """Take a review, so that others see who has it."""
    _act(home, review_id, who, as_json, verb="claim")


@cli.command("release")
def release(review_id: int, home: Home = None, who: As = REVIEWER, as_json: Json = False) -> None:
    """Give a review back, so that others take it."""
    _act(home, review_id, who, as_json, verb="release")


@cli.command("reassign")
def reassign(
    review_id: int,
    to: Annotated[str, typer.Option("--to", help="The reviewer who is to have it, whoever has it now.")],
    home: Home = None,
    who: As = REVIEWER,
    as_json: Json = False,
) -> None:
    """Pass a review on to another reviewer."""
    _act(home, review_id, who, as_json, verb="reassign", to=to)


@cli.command("approve")
def approve(review_id: int, home: Home = None, who: As = REVIEWER, as_json: Json = False) -> None:
    """Let the draft go as it stands."""
    _act(home, review_id, who, as_json, verb="approve")


@cli.command("edit")
def edit(
    review_id: int,
    text: Annotated[str, typer.Argument(help="The answer that the asker should read; [1] marks stay.")],
    home: Home = None,
    who: As = REVIEWER,
    as_json: Json = False,
) -> None:
    """Replace the draft's text and let it go."""
    _act(home, review_id, who, as_json, verb="edit", text=text)


@cli.command("reject")
def reject(
    review_id: int,
    home: Home = None,
    reason: Annotated[str, typer.Option(help=f"{', '.join(REASONS[:-1])} or {REASONS[-1]}.")] = "other",
    hint: Annotated[str, typer.Option(help="What to look for instead; goes back to retrieval.")] = "",
    question: Annotated[str, typer.Option(help="A better question, answered instead.")] = "",
    who: As = REVIEWER,
    as_json: Json = False,
) -> None:
    """Send the draft back: with a hint or a better question to retrieval, with neither for good."""
    if reason not in REASONS:
        raise CommandFailed(f"{reason!r} is no reason; the reasons are {', '.join(REASONS)}.")
    _act(home, review_id, who, as_json, verb="reject", reason=reason, hint=hint, question=question)


Days = Annotated[float, typer.Option("--days", min=0, help="How far back to look.")]


@cli.command("export")
def export_set(
    folder: Annotated[Path, typer.Argument(help="Where to write queries.jsonl, corpus.jsonl and qrels.tsv.")],
    home: Home = None,
    days: Days = 365,
    as_json: Json = False,
) -> None:
    """Every review as a test: signed answers as gold, rejected drafts as what must not be said again.

    `signoff eval answers FOLDER --compare . OTHER.toml` replays them against other settings. Nobody is named in it.
    """

    async def work() -> None:
        async with opened(home) as app:
            count = await export(app.store, datetime.now(UTC) - timedelta(days=days), folder)
        if as_json:
            dump({"folder": str(folder), "questions": count})
        else:
            typer.echo(f"{count} questions written to {folder}. Replay them: signoff eval answers {folder}")

    run(work())


@cli.command("audit")
def print_audit(home: Home = None, days: Days = 90) -> None:
    """Who saw, claimed and decided what, when, on which draft: one line of JSON each, in order."""

    async def work() -> None:
        async with opened(home) as app:
            async for line in audit(app.store, datetime.now(UTC) - timedelta(days=days)):
                typer.echo(json.dumps(line, ensure_ascii=False))

    run(work())


def _act(home: Any, review_id: int, who: str, as_json: bool, **fields: Any) -> None:
    async def work() -> None:
        async with opened(home) as app:
            review = await _find(app, review_id)
            acted = await app.reviewing.act(
                Action(
                    platform="cli",
                    review_id=review_id,
                    version_hash=review.version_hash,
                    actor=who,
                    **fields,
                )
            )
            if acted.key == "done":
                await see_through(app, ["answers"], lambda: _resumed(app, review_id), seconds=60)
            if as_json:
                dump({"outcome": acted.key, "review": asdict(acted.review) if acted.review else None})
            else:
                typer.echo(sentence(app, acted, to=fields.get("to", "")))
            if not acted.changed:
                raise typer.Exit(1)

    run(work())


async def _resumed(app: App, review_id: int) -> bool:
    return (await app.store.reviews.get(review_id)).resumed


async def _find(app: App, review_id: int) -> ReviewRow:
    review = await app.store.reviews.find(review_id)
    if review is None:
        raise CommandFailed(app.words("en", "review.gone"))
    return review


def sentence(app: App, acted: Acted, language: str = "en", *, to: str = "") -> str:
    """What the clicker reads."""
    review = acted.review
    state = app.words(language, f"review.state.{review.state}") if review else ""
    who = to or ((review.decided_by or review.claimed_by or "") if review else "")
    return app.words(language, f"review.{acted.key}", state=state, who=who)


async def _print(app: App, review: ReviewRow) -> None:
    console = Console()
    question = await app.store.conversations.question(review.question_id)
    console.print(
        f"Review {review.id} · {review.state} · round {review.round} · held by rule {review.reason!r}"
    )
    console.print(f"{question.asker} asked: {question.text}", markup=False)
    if review.draft.get("rewritten_question"):
        console.print(f"searched for: {review.draft['rewritten_question']}", style="dim", markup=False)
    console.print(Markdown(review.draft["text"]))
    for citation in review.draft["citations"]:
        place = " › ".join([citation["title"], *citation["heading_path"]])
        page = f", p. {citation['page']}" if citation["page"] else ""
        console.print(f"  [{citation['number']}] {place}{page}", style="cyan", markup=False)
    for piece in review.draft["sentences"]:
        console.print(f"  {piece['support']:>11}  {piece['text']}", style="dim", markup=False)
    for event in await app.store.reviews.events(review.id):
        console.print(
            f"  {event.at:%Y-%m-%d %H:%M:%S}  {event.actor} {event.action}", style="dim", markup=False
        )
