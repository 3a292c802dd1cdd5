"""The commands that keep house, within this process: linking people, what did not arrive, forgetting."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bot.cli import cli
from store import Store, open_store
from store.deliveries import NewDelivery
from tests.embedder import HashEmbedder
from tests.questions import CONVERSATION, held, question

Run = Callable[..., Any]


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Run:
    environment = {"SIGNOFF_HOME": str(tmp_path), "SIGNOFF_DATABASE_URL": database_url}

    def command(*arguments: str, status: int = 0) -> Any:
        done = CliRunner(env=environment).invoke(cli, list(arguments))
        assert done.exit_code == status, done.output
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    return command


def with_store(url: str, work: Callable[[Store], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        async with open_store(url, HashEmbedder()) as store:
            return await work(store)

    return asyncio.run(opened())


def test_people_are_linked_listed_and_unlinked(run: Run) -> None:
    """What an admin says is recorded with who said it."""
    run("people", "link", "slack:U1", "feishu:ou_1", "--as", "cli:boss")
    (person,) = run("people", "list", "--json")
    assert [(one["principal"], one["linked_by"]) for one in person["identities"]] == [
        ("feishu:ou_1", "cli:boss"),
        ("slack:U1", "cli:boss"),
    ]
    assert "alone" in run("people", "unlink", "slack:U1")
    assert len(run("people", "list", "--json")) == 2


def test_a_review_is_passed_on_and_given_back(run: Run, database_url: str) -> None:
    """To one who may decide it; anybody else is refused with a sentence and a status of one."""
    review = with_store(database_url, held)
    assert "may not decide" in run("reviews", "reassign", str(review.id), "--to", "cli:stranger", status=1)
    assert "web:reviewer" in run("reviews", "reassign", str(review.id), "--to", "web:reviewer")
    run("reviews", "release", str(review.id), "--as", "web:reviewer")
    assert run("reviews", "show", str(review.id), "--json")["claimed_by"] is None


def test_what_did_not_arrive_is_listed(run: Run, database_url: str) -> None:
    """With its state, the platform's word and the question; without anybody's text."""

    async def fail(store: Store) -> None:
        await store.inbox.accept(question())
        row = await store.deliveries.put(
            NewDelivery("answer:q1", "slack", "answer", {"text": "secret"}, question_id="q1")
        )
        await store.deliveries.refused(row.id, "not_in_channel")

    with_store(database_url, fail)
    (row,) = run("deliveries", "--json")
    assert (row["state"], row["error"], row["question_id"]) == ("refused", "not_in_channel", "q1")
    assert "secret" not in run("deliveries", "--json")[0].values()
    findings = {finding["name"]: finding for finding in run("doctor", "--json", status=1)}
    assert findings["deliveries"]["ok"] is False
    assert "1 refused" in findings["deliveries"]["detail"]


def test_a_thread_is_forgotten_by_command(run: Run, database_url: str) -> None:
    """The command sees it through by itself where nothing serves, and an unknown thread is said to be that."""
    with_store(database_url, held)
    assert "Forgot 1" in run("prune", "--thread", CONVERSATION)
    row = with_store(database_url, lambda store: store.conversations.question("q1"))
    assert (row.text, row.answer, row.state, row.asker) == ("", None, "withdrawn", "web:ada")
    assert (
        CliRunner(env={"SIGNOFF_DATABASE_URL": database_url})
        .invoke(cli, ["prune", "--thread", "no"])
        .exit_code
    )


def test_a_question_too_many_is_told_in_the_terminal(run: Run, tmp_path: Path) -> None:
    """Also the second one of a minute, which has no message of its own: the command neither hangs nor is silent."""
    (tmp_path / "signoff.toml").write_text("local_embedding = false\n[limits]\nperson_questions = 1\n")
    run("ask", "anything?", "--conversation", "c")
    for _ in range(2):
        assert "a great deal" in run("ask", "anything?", "--conversation", "c")
    assert run("ask", "anything?", "--conversation", "c", "--json")["status"] == "refused"
