"""`signoff ask` and `signoff chat`: a question from the terminal, through the same door as every platform's."""

import asyncio
import sys
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from bot.app import App
from bot.cli.session import CommandFailed, Home, Json, dump, opened, run, see_through
from bot.messages import Incoming
from bot.telling import signed_line
from store.conversations import QuestionRow
from store.deliveries import DeliveryRow

As = Annotated[str, typer.Option("--as", help="Who asks: cli:<name>.")]
Conversation = Annotated[
    str, typer.Option("--conversation", help="A name; the same name is the same thread.")
]

OPEN = ("received", "answering")


def register(cli: typer.Typer) -> None:
    cli.command("ask")(ask)
    cli.command("chat")(chat)


def ask(
    text: str,
    home: Home = None,
    conversation: Conversation = "",
    who: As = "cli:employee",
    as_json: Json = False,
) -> None:
    """Ask one question and print the answer with its citations."""

    async def work() -> None:
        async with opened(home) as app:
            row = await asked(app, text, conversation or uuid.uuid4().hex[:8], who)
            if not await see_through(app, ["answers"], lambda: _settled(app, row.id)):
                raise CommandFailed("No answer within ten minutes. `signoff doctor` says what does not run.")
            if as_json:
                dump(await as_dict(app, row.id))
            else:
                await show(app, row.id)

    run(work())


def chat(home: Home = None, conversation: Conversation = "", who: As = "cli:employee") -> None:
    """Ask in a thread, in the terminal. An empty line or Ctrl-D ends it; a held answer appears once decided."""

    async def work() -> None:
        async with opened(home) as app:
            name = conversation or uuid.uuid4().hex[:8]
            typer.echo(f"Thread {name}. Ask a question; an empty line ends the chat.")
            shown: set[int] = set()
            while True:
                typer.echo("\n> ", nl=False)
                line = (await asyncio.to_thread(sys.stdin.readline)).strip()
                await _show_late(app, f"cli:{who}:{name}", shown)
                if not line:
                    return
                row = await asked(app, line, name, who)
                await see_through(app, ["answers"], lambda row=row: _settled(app, row.id))  # type: ignore[misc]
                await show(app, row.id)
                shown |= {delivery.id for delivery in await app.store.deliveries.for_question(row.id)}

    run(work())


async def asked(app: App, text: str, conversation: str, who: str) -> QuestionRow:
    """Put the question through the inbox, as a platform's listener does."""
    if not text.strip():
        raise CommandFailed("The question is empty. Write it as one argument, in quotes.")
    question_id = await app.asking.accept(
        Incoming(
            platform="cli",
            dedupe_key=uuid.uuid4().hex,
            conversation_id=f"cli:{who}:{conversation}",
            channel=who,
            thread=conversation,
            private=True,
            asker=who,
            text=text,
            sent_at=datetime.now(UTC),
        )
    )
    if question_id is None:
        raise CommandFailed("The question was not accepted. Please try again.")
    return await app.store.conversations.question(question_id)


async def _settled(app: App, question_id: str) -> bool:
    """True once the question has an outcome that its thread was told of."""
    row = await app.store.conversations.question(question_id)
    if row.state in OPEN:
        return False
    if row.state == "refused":  # of several in a minute only the first has a message of its own
        return row.answer is not None
    deliveries = await app.store.deliveries.for_question(question_id)
    return any(delivery.state in ("sent", "failed") for delivery in deliveries)


async def as_dict(app: App, question_id: str) -> dict[str, Any]:
    """What `--json` prints."""
    row = await app.store.conversations.question(question_id)
    execution = await app.store.runs.latest(question_id)
    reviews = await app.store.reviews.for_question(question_id)
    answer = row.answer or {}
    return {
        "question_id": row.id,
        "conversation": row.conversation_id,
        "status": row.state,
        "answer": answer.get("text", ""),
        "citations": answer.get("citations", []),
        "rewritten_question": execution.rewritten_question if execution else "",
        "confidence": execution.confidence if execution else None,
        "rule": execution.rule if execution else "",
        "degraded": list(execution.degraded) if execution else [],
        "review_id": reviews[-1].id if reviews else None,
        "timings": dict(execution.timings) if execution else {},
        "tokens": dict(execution.tokens) if execution else {},
        "tools": list(execution.tools) if execution else [],
        "prompts": list(execution.calls) if execution else [],
    }


async def show(app: App, question_id: str) -> None:
    row = await app.store.conversations.question(question_id)
    if row.state == "refused" and row.answer:
        Console().print(row.answer["text"], markup=False)
        return
    for delivery in await app.store.deliveries.for_question(question_id):
        _print(app, delivery)


async def _show_late(app: App, conversation_id: str, shown: set[int]) -> None:
    """Answers that were decided while the person typed."""
    for delivery in await app.store.deliveries.for_conversation(conversation_id):
        if delivery.id not in shown and shown:
            _print(app, delivery)
            shown.add(delivery.id)


def _print(app: App, delivery: DeliveryRow) -> None:
    console = Console()
    content = delivery.content
    language, meta = content["language"], content["meta"]
    rewritten = meta.get("rewritten_question")
    if rewritten:
        console.print(app.words(language, "answer.rewritten", question=rewritten), style="dim", markup=False)
    if meta.get("kind") == "extractive":
        console.print(app.words(language, "answer.quoted"), style="dim", markup=False)
    console.print(Markdown(content["text"]))
    for citation in content["citations"]:
        place = [citation["title"], *citation["heading_path"]]
        if citation["page"]:
            place.append(app.words(language, "answer.page", page=citation["page"]))
        console.print(f"  [{citation['number']}] {' › '.join(place)}", style="cyan", markup=False)
    if line := signed_line(app.words, language, meta, str(meta.get("signed_by", ""))):
        console.print(line, style="green", markup=False)
