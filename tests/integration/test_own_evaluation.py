"""`signoff eval own`: people's own questions over the knowledge base that serves them, which stays as it was."""

import asyncio
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from bot.cli import cli
from bot.cli.session import CommandFailed
from store import open_store
from store.embedding import EndpointEmbedder, NoEmbedder
from store.readonly import onlooking
from tests.emulators.openai import MODEL, Call, OpenAIServer, Say, Scripted
from tests.emulators.openai_script import content, parrot
from tests.knowledge import publish

Command = Callable[..., Any]
DOCUMENTS = {
    "leave.en.md": ["Employees receive 15 days of annual leave each year.", "It is valid until 31 March."],
    "expenses.en.md": ["An expense report must be filed within 30 days of the trip."],
    "travel.zh.md": ["差旅餐补为每天一百二十元。"],
}
QUESTIONS = """question,facts,document,kind,unanswerable,conversation,tool
How many days of annual leave do employees receive?,15 days,leave,single,,leave,
Until when is it valid?,31 March,leave,single,,leave,
差旅餐补是每天多少？,一百二十元,travel,single,,,
Is the <script>alert(1)</script> pool open?,,,single,yes,,
"Within how many days is an expense report filed, and how long is leave?",30 days; 15 days,expenses; leave,multi-hop,,,
Can I still file an expense report today?,30 days,expenses,tool,,,today
"""


def answer(body: Mapping[str, Any]) -> Scripted:
    """Calls `today` once where it may, judges everything right that speaks of days, and quotes otherwise."""
    prompt = "\n".join(content(message) for message in body["messages"])
    if "RIGHT" in prompt and "WRONG" in prompt:
        return Say("RIGHT" if "days" in prompt.rpartition("Answer:")[2] else "WRONG")
    if "Last question" in prompt:
        return Say("Until when is annual leave valid?")
    offered = {tool["function"]["name"] for tool in body.get("tools", ())}
    if "today" in offered and " tool today]]" not in prompt:
        return Call("today", {})
    return parrot(body)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer(default=answer) as server:
        for part in ("LLM", "EMBEDDING"):
            monkeypatch.setenv(f"SIGNOFF_{part}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"SIGNOFF_{part}_API_KEY", server.key)
            monkeypatch.setenv(f"SIGNOFF_{part}_MODEL", MODEL)
        yield server


async def fill(url: str, server: OpenAIServer | None) -> None:
    embedder = EndpointEmbedder(server.base_url, server.key, MODEL) if server else NoEmbedder()
    if isinstance(embedder, EndpointEmbedder):
        await embedder.query("dimension")
    async with open_store(url, embedder) as store:
        for source, texts in DOCUMENTS.items():
            await publish(store, embedder, "hr", source, texts)
    if isinstance(embedder, EndpointEmbedder):
        await embedder.close()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, database_url: str, tmp_path: Path) -> Command:
    """The command over a database of its own; the questions are written beside it."""
    monkeypatch.setenv("SIGNOFF_DATABASE_URL", database_url)
    (tmp_path / "signoff.toml").write_text("local_embedding = false\n", encoding="utf-8")
    (tmp_path / "questions.csv").write_text(QUESTIONS, encoding="utf-8-sig")

    def command(*arguments: str) -> Any:
        done = CliRunner().invoke(cli, ["eval", "own", *arguments, "--home", str(tmp_path)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return command


def counts(url: str) -> dict[str, int]:
    """The rows of every table there is."""
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        found = {}
        for (name,) in names:
            row = connection.execute(
                sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))
            ).fetchone()
            assert row is not None
            found[name] = row[0]
        return found


def test_the_kinds_are_told_apart_and_nothing_is_left_behind(
    own: Command, endpoint: OpenAIServer, database_url: str, tmp_path: Path
) -> None:
    """With a model: single facts with a follow-up, two facts, a tool that is called; judged by containment and by the
    judge, timed in parts. Every table has as many rows as before. The report shows a planted script as text and needs
    nothing from outside; --csv has a line for each question."""
    asyncio.run(fill(database_url, endpoint))
    before, report, answers = counts(database_url), tmp_path / "report.html", tmp_path / "answers.csv"
    done = own(str(tmp_path / "questions.csv"), "--json", "--html", str(report), "--csv", str(answers))
    rows = {row["set"]: row for row in json.loads(done.stdout)}
    assert {name: row["n"] for name, row in rows.items()} == {
        "questions": 6, "questions, single": 4, "questions, multi-hop": 1, "questions, tool": 1,
    }  # fmt: skip
    asked = {one["line"]: one for one in rows["questions"]["details"]["questions"]}
    assert asked[2]["right"]
    assert asked[2]["first_hit"]
    assert asked[3]["searched"] != [
        asked[3]["text"]
    ]  # it means nothing alone: what it searched names the topic
    assert asked[3]["place"] == 1
    assert asked[7]["tool_right"]
    tool, whole = rows["questions, tool"]["metrics"], rows["questions"]["metrics"]
    assert tool["right tool called"] == 1.0
    assert {"right by the judge", "first hit", "citation precision", "prompt tokens"} <= set(whole)
    assert 0 < whole["retrieval ms p50"] < whole["ms p99"]
    assert 0 < whole["model ms p50"] < whole["ms p99"]
    assert counts(database_url) == before
    page = report.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert page.count("<svg") >= 2
    assert [row["right"] for row in csv.DictReader(answers.read_text(encoding="utf-8-sig").splitlines())] == [
        ""
    ] * 6


def test_a_variant_is_compared_question_by_question(own: Command, database_url: str, tmp_path: Path) -> None:
    """A stored run against settings that refuse everything: each question that became worse is listed with what is
    wrong now, and so few are not sold as a difference. Without a model nothing is said of tools."""
    asyncio.run(fill(database_url, None))
    stored, other = tmp_path / "before.json", tmp_path / "other.toml"
    stored.write_text(own(str(tmp_path / "questions.csv"), "--json").stdout, encoding="utf-8")
    assert "right tool called" not in json.loads(stored.read_text(encoding="utf-8"))[0]["metrics"]
    other.write_text(
        'local_embedding = false\n[[review.rules]]\nname = "all"\ncollections = ["hr"]\naction = "refuse"\n',
        encoding="utf-8",
    )
    told = own(str(tmp_path / "questions.csv"), "--compare", str(stored), str(other)).stdout
    assert "worse" in told
    assert "(now: refused)" in told
    assert "better, and that" not in told


def test_a_folder_is_asked_instead_of_the_knowledge_base(
    own: Command, database_url: str, tmp_path: Path
) -> None:
    """--documents reads a folder in as any other, answers from it, and leaves the installation's database empty."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "leave.en.md").write_text(
        "# Leave\n\nEmployees receive 15 days of annual leave.\n", encoding="utf-8"
    )
    (tmp_path / "one.csv").write_text(
        "question,facts,document\nHow many days of annual leave do employees receive?,15 days,leave\n",
        encoding="utf-8",
    )
    (row, *_) = json.loads(own(str(tmp_path / "one.csv"), "--documents", str(folder), "--json").stdout)
    assert row["metrics"]["right by containment"] == 1.0
    assert row["details"]["documents"] == 1
    assert counts(database_url)["documents"] == 0


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("wrong.csv", "question,kind\nHow long?,double\n,single\n", "line 3"),
        ("empty.csv", "question\nHow long?\n", "knowledge base is empty"),
        ("none.csv", None, "cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(
    own: Command, tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    """Faulty lines, an empty knowledge base, no file: said before anything is asked."""
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(CommandFailed, match=told):
        own(str(tmp_path / name))


def test_a_report_that_cannot_be_written_is_said_before_anything_is_asked(
    own: Command, tmp_path: Path
) -> None:
    """A folder that is not there is named; the knowledge base, which is empty here, was not even looked at."""
    with pytest.raises(CommandFailed, match="no folder"):
        own(str(tmp_path / "questions.csv"), "--html", str(tmp_path / "nowhere" / "report.html"))


async def test_who_only_looks_cannot_write(database_url: str) -> None:
    """Postgres itself refuses a change, whatever our own code would do."""
    async with onlooking(database_url, NoEmbedder()) as looked_at:
        assert await looked_at.documents() == []
        with pytest.raises(Exception, match="read-only"):
            await looked_at._documents.remove(1)
