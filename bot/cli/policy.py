"""`signoff policy test`: past questions under the rules as they are now, and what would change."""

from dataclasses import fields
from typing import Annotated, Any

import typer

from bot.app import App
from bot.cli.session import Home, Json, dump, opened, run
from bot.principals import readers
from bot.verifying import of_verified
from rag_graph.contracts import Draft, Question
from rag_graph.policy import decide
from rag_graph.reuse import RULE
from store.conversations import ConversationRow, QuestionRow
from store.reviews import ReviewRow

cli = typer.Typer(help="Review rules.", no_args_is_help=True)
Last = Annotated[int, typer.Option("--last", min=1, max=10_000, help="How many of the latest questions.")]


@cli.callback()
def _group() -> None:
    """Commands about review rules."""


@cli.command("test")
def replay(home: Home = None, last: Last = 200, as_json: Json = False) -> None:
    """Decide past answers again by the rules in force, and list those that would take another way.

    Beside each stands which rule decided then, and which does now. Answers that a signed one gave again are left out,
    and the trust ramp, which depends on reviews, is not applied. Nothing is changed and nobody is told.
    """

    async def work() -> None:
        async with opened(home) as app:
            rows = await _replayed(app, last)
        changed = [row for row in rows if row["then"] != row["now"]]
        if as_json:
            dump({"questions": len(rows), "changed": changed})
            return
        for row in changed:
            then = f"{row['then']} ({row['then_rule'] or 'default'})"
            now = f"{row['now']} ({row['rule'] or 'default'})"
            typer.echo(f"{row['question_id']}  {then} → {now}  {row['text']}")
        typer.echo(
            f"{len(changed)} of {len(rows)} answers would take another way under the rules as they are now."
        )

    run(work())


async def _replayed(app: App, last: int) -> list[dict[str, Any]]:
    """Every drafted answer of the last questions: how it went out then, and what the rules say now."""
    replayed = []
    for row in await app.store.conversations.latest(last):
        every = await app.store.reviews.for_question(row.id)
        reviews = [
            review for review in every if of_verified(review) is None
        ]  # of its draft, not a later second look
        conversation = await app.store.conversations.get(row.conversation_id)
        made = _reviewed(reviews[0]) if reviews else await _sent(app, row, conversation)
        if made is None:
            continue
        execution = await app.store.runs.latest(row.id)
        if execution is not None and execution.rule == RULE:
            continue  # a signed answer was used again: no rule was asked about a draft
        question = Question(
            row.id, row.conversation_id, row.text, row.language, row.asker, (),
            conversation.channel, conversation.private,
        )  # fmt: skip
        searched = execution.rewritten_question if execution else ""
        verdict = decide(question, made, app.settings.rules, searched)
        replayed.append(
            {
                "question_id": row.id,
                "text": row.text,
                "then": reviews[0].disposition if reviews else "send",
                "then_rule": reviews[0].reason if reviews else execution.rule if execution else "",
                "now": verdict.disposition,
                "rule": verdict.rule,
                "reason": verdict.reason,
            }
        )
    return replayed


def _reviewed(review: ReviewRow) -> Draft:
    """The first draft that was held; a review's row says more beside it than a draft has places for."""
    known = {field.name for field in fields(Draft)}
    return Draft.from_json({name: value for name, value in review.draft.items() if name in known})


async def _sent(app: App, row: QuestionRow, conversation: ConversationRow) -> Draft | None:
    """The draft behind an answer that went out unreviewed; None for small talk and the like. Collections and labels
    are those of its sources as they are now; sources that are gone have none."""
    if row.answer is None or row.answer["kind"] != "answer":
        return None
    meta, cited = row.answer["meta"], row.answer["citations"]
    sources = await app.store.search.passages(
        [citation["passage_id"] for citation in cited], readers(conversation, row.asker)
    )
    return Draft.from_json(
        {
            "text": row.answer["text"],
            "kind": meta.get("kind", "model"),
            "citations": cited,
            "sentences": meta.get("sentences", ()),
            "confidence": meta.get("confidence", 0.0),
            "calibrated": meta.get("calibrated", False),
            "collections": [source.collection for source in sources],
            "labels": [label for source in sources for label in sorted(source.labels)],
        }
    )
