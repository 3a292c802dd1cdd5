"""`signoff eval chunking` on a set of one's own."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bot.cli import cli
from rag_graph.evaluation import chunking
from rag_graph.evaluation.chunking import Setting

PARAGRAPH = "Nothing of interest is said in this sentence about the canteen. " * 4


def test_a_sweep_says_which_size_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """Each setting has its hit@k: excerpts that a small chunk cuts in two are found by the larger one alone; an
    answer's wording and the qrels count where there are no excerpts. The picture is written."""
    monkeypatch.setenv("SIGNOFF_DATABASE_URL", postgres_url)
    monkeypatch.setattr(chunking, "GRID", (Setting(120, 0), Setting(600, 60)))
    (tmp_path / "signoff.toml").write_text("local_embedding = false\n", encoding="utf-8")
    answer = (
        "Annual leave is ten days, " + "counted from the first of January, " * 5 + "and expires in March."
    )
    text = f"# Leave\n\n{answer}\n\n## Canteen\n\n{PARAGRAPH}\n"
    start = text.index(answer)
    gold = {"doc": "d", "start": start, "end": start + len(answer)}
    queries = [
        {"id": "1", "text": "annual leave days", "gold_excerpts": [gold]},
        {"id": "2", "text": "canteen", "answer": ["of interest"]},
        {"id": "3", "text": "January", "answer": []},
        {"id": "4", "text": "nobody knows"},
    ]  # fmt: skip
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "d", "title": "Leave", "text": text}))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (tmp_path / "qrels.tsv").write_text("3\td\t1\n")
    picture = tmp_path / "sweep.svg"
    arguments = ["eval", "chunking", str(tmp_path), "--home", str(tmp_path), "--plot", str(picture), "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    small, large = json.loads(done.stdout)
    assert (small["n"], small["metrics"]["hit@10"], large["metrics"]["hit@1"]) == (3, 0.6667, 1.0)
    assert 0.5 < small["metrics"]["characters found@5"] < large["metrics"]["characters found@5"] == 1.0
    assert small["config_hash"] != large["config_hash"]
    assert picture.read_text().startswith("<svg")
