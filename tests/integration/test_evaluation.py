"""`signoff eval`: sets in the shared shape, measured through the code that serves questions, in a scratch database."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from bot.cli import cli
from bot.cli.session import CommandFailed
from rag_graph.evaluation import EvaluationSet, ReadyEmbedder, Result, SetUnusable, load
from rag_graph.evaluation.old_chain import windows
from rag_graph.evaluation.tools import choosing
from rag_graph.evaluation.vectors import KeptEmbedder
from store.scratch import Row, fill, scratch
from store.search import Searcher
from tests.embedder import HashEmbedder
from tests.emulators.openai import MODEL, OpenAIServer, Say, Scripted
from tests.emulators.openai_script import content, parrot

CORPUS = [
    {"id": "leave-0-40", "title": "年假制度", "text": "年休假为五天，须提前三天申请。"},
    {"id": "leave-40-80", "title": "年假制度", "text": "年假由部门经理审批。"},
    {"id": "travel", "title": "差旅制度", "text": "差旅餐补为每天一百二十元。"},
]
HISTORY = [{"role": "user", "text": "年假制度是什么？"}, {"role": "assistant", "text": "年休假为五天。"}]
QUERIES: list[dict[str, object]] = [
    {"id": "q1", "text": "谁审批？", "history": HISTORY, "type": "elliptical"},
    {"id": "q2", "text": "差旅餐补是多少？", "history": [], "type": "explicit"},
]
QRELS = "q1\tleave-40-80\t1\nq2\ttravel\t1\nq2\tleave-0-40\t0\n"


def lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of three chunks and two questions, without vectors."""
    made = tmp_path / "small"
    made.mkdir()
    (made / "corpus.jsonl").write_text(lines(CORPUS), encoding="utf-8")
    (made / "queries.jsonl").write_text(lines(QUERIES), encoding="utf-8")
    (made / "qrels.tsv").write_text(QRELS, encoding="utf-8")
    return made


@pytest.fixture
def signoff(monkeypatch: pytest.MonkeyPatch, postgres_url: str, tmp_path: Path) -> Callable[..., object]:
    """The command, on the tests' server, without a model; returns what `--json` prints."""
    monkeypatch.setenv("SIGNOFF_DATABASE_URL", postgres_url)
    (tmp_path / "signoff.toml").write_text("local_embedding = false\n", encoding="utf-8")

    def command(*arguments: str) -> object:
        done = CliRunner().invoke(cli, ["eval", *arguments, "--home", str(tmp_path), "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return json.loads(done.stdout)

    return command


def test_a_set_is_read_with_its_documents_and_grades(folder: Path) -> None:
    """Rows cut from one page are one document, grade 0 is not relevant, and a set without vectors has none."""
    chosen = load(folder)
    assert [row.document for row in chosen.rows] == ["leave", "leave", "travel"]
    assert chosen.relevant == {"q1": {"leave-40-80": 1.0}, "q2": {"travel": 1.0}}
    assert not chosen.passage_vectors


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("queries.jsonl", None),
        ("queries.jsonl", "no json"),
        ("qrels.tsv", "q1 leave"),
        ("corpus.jsonl", '{"id": "x"}'),
    ],
)
def test_a_folder_in_another_shape_is_refused(folder: Path, file: str, content: str | None) -> None:
    """What is missing or malformed is named, never measured as if it were empty."""
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(SetUnusable, match=str(folder)):
        load(folder)


async def test_a_scratch_database_is_searched_and_gone(postgres_url: str, folder: Path) -> None:
    """The corpus is found with its ids while the block runs; afterwards the server has no such database."""
    chosen = load(folder)
    async with scratch(postgres_url) as database:
        ids = await fill(database.engine, chosen.rows, {})
        found = await Searcher(database.engine, ReadyEmbedder(chosen)).search("差旅餐补", ["everyone"])
        assert ids[found.passages[0].id] == "travel"
    with psycopg.connect(postgres_url) as server:
        left = server.execute(
            "SELECT count(*) FROM pg_database WHERE datname LIKE 'signoff\\_eval\\_%'"
        ).fetchone()
    assert left == (0,)


async def test_vectors_are_made_once(tmp_path: Path) -> None:
    """A second embedder over the same file asks the model for nothing, and gives the same vectors."""
    path = tmp_path / "kept.npz"
    first = KeptEmbedder(HashEmbedder(), path)
    made = await first.passages(["年假", "差旅"]), await first.query("年假")
    await first.save()

    class Silent(HashEmbedder):
        async def query(self, text: str) -> list[float]:
            raise AssertionError(text)

        async def passages(self, texts: object) -> list[list[float]]:
            raise AssertionError(texts)

    again = KeptEmbedder(Silent(), path)
    assert (await again.passages(["年假", "差旅"]), await again.query("年假")) == made


def test_eval_rewrite_tells_recall_before_and_after(signoff: Callable[..., object], folder: Path) -> None:
    """The follow-up finds its document only as rewritten; each row has set, n, metrics and the configuration's hash."""
    rows = signoff("rewrite", str(folder))
    assert isinstance(rows, list)
    assert {row["set"]: row["n"] for row in rows} == {"small": 2, "small elliptical": 1, "small explicit": 1}
    assert rows[0]["metrics"]["fired"] == 0.5
    assert rows[0]["metrics"]["recall@5"] >= rows[0]["metrics"]["recall@5 as asked"]
    assert len(rows[0]["config_hash"]) == 12


def test_two_variants_are_compared(signoff: Callable[..., object], folder: Path, tmp_path: Path) -> None:
    """--compare takes settings files and earlier results; other settings have another hash."""
    other = tmp_path / "other.toml"
    other.write_text('local_embedding = false\n[search]\ndeduplicate = "document"\n', encoding="utf-8")
    stored = tmp_path / "before.json"
    stored.write_text(json.dumps(signoff("rewrite", str(folder))), encoding="utf-8")
    rows = signoff("rewrite", str(folder), "--compare", str(stored), str(other))
    assert isinstance(rows, list)
    hashes = {row["variant"]: row["config_hash"] for row in rows if row["set"] == "small"}
    assert set(hashes) == {str(stored), str(other)}
    assert len(set(hashes.values())) == 2


def test_an_unknown_evaluation_names_the_known_ones(signoff: Callable[..., object], folder: Path) -> None:
    """A misspelt name is answered with the list."""
    with pytest.raises(CommandFailed, match="rewrite"):
        signoff("rewrites", str(folder))


def test_the_hash_is_of_the_configuration_alone() -> None:
    """Other figures have the same hash; another setting has another."""
    first, second = Result("s", 1, {"x": 1.0}, {"k": 1}), Result("t", 9, {"x": 0.0}, {"k": 1})
    assert first.config_hash == second.config_hash != Result("s", 1, {"x": 1.0}, {"k": 2}).config_hash


ANSWERED = [
    {"id": "a1", "text": "差旅餐补每天多少元？", "answer": ["一百二十元", "120 元"], "type": "answerable"},
    {"id": "a2", "text": "公司的股票代码是什么？", "answer": ["600001"], "type": "unanswerable"},
]


def test_eval_answers_judges_whole_answers(
    signoff: Callable[..., object], folder: Path, tmp_path: Path
) -> None:
    """Containment, citations and latency by type; --csv has a line for each answer with an empty column to fill in."""
    (folder / "queries.jsonl").write_text(lines(ANSWERED), encoding="utf-8")
    (folder / "qrels.tsv").write_text("a1\ttravel\t1\n", encoding="utf-8")
    out = tmp_path / "answers.csv"
    rows = signoff("answers", str(folder), "--csv", str(out))
    assert isinstance(rows, list)
    figures = {row["set"]: row["metrics"] for row in rows}
    assert figures["small answerable"]["right by containment"] == 1
    assert figures["small answerable"]["citation recall"] == 1
    assert figures["small unanswerable"]["right by containment"] == 1
    told = list(csv.DictReader(out.read_text(encoding="utf-8-sig").splitlines()))
    assert [row["id"] for row in told] == ["a1", "a2"]
    assert {row["right"] for row in told} == {""}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A model and an embedding model on loopback. As a judge it finds right whatever speaks of 120."""

    def answer(body: Mapping[str, Any]) -> Scripted:
        prompt = "\n".join(content(message) for message in body["messages"])
        if "RIGHT" in prompt:
            return Say("RIGHT" if "一百二十" in prompt.rpartition("答案：")[2] else "WRONG")
        return parrot(body)

    with OpenAIServer(default=answer) as server:
        for part in ("LLM", "EMBEDDING"):
            monkeypatch.setenv(f"SIGNOFF_{part}_BASE_URL", server.base_url)
            monkeypatch.setenv(f"SIGNOFF_{part}_API_KEY", server.key)
        monkeypatch.setenv("SIGNOFF_LLM_MODEL", MODEL)
        monkeypatch.setenv("SIGNOFF_EMBEDDING_MODEL", "emulated-embedding")
        yield server


def test_eval_answers_sets_the_old_chain_beside_ours(
    signoff: Callable[..., object], endpoint: OpenAIServer, folder: Path, tmp_path: Path
) -> None:
    """Both are written and judged by the configured endpoint, each type apart; the old chain declines nothing."""
    (folder / "queries.jsonl").write_text(lines(ANSWERED), encoding="utf-8")
    (folder / "qrels.tsv").write_text("a1\ttravel\t1\n", encoding="utf-8")
    out = tmp_path / "answers.csv"
    rows = signoff("answers", str(folder), "--compare", "old", ".", "--csv", str(out))
    assert isinstance(rows, list)
    figures = {(row["variant"], row["set"]): row["metrics"] for row in rows}
    assert set(figures) == {
        (v, s) for v in ("old", ".") for s in ("small", "small answerable", "small unanswerable")
    }
    for variant in ("old", "."):
        answered = figures[variant, "small answerable"]
        assert answered["right by the judge"] == answered["right by containment"]
        assert answered["prompt tokens"] > 0
        assert 0 <= answered["first hit"] <= 1
    assert figures["old", "small unanswerable"]["right by containment"] == 0
    assert [row["variant"] for row in csv.DictReader(out.read_text(encoding="utf-8-sig").splitlines())] == [
        "old",
        "old",
        ".",
        ".",
    ]
    judged = [prompt for prompt in endpoint.prompts() if "RIGHT" in prompt]
    assert 1 <= len(judged) <= 2  # the answerable question of each chain; none for what was declined


def test_the_old_chain_is_for_answers_alone(signoff: Callable[..., object], folder: Path) -> None:
    """Asked of another part it is refused by name."""
    with pytest.raises(CommandFailed, match="eval answers"):
        signoff("rewrite", str(folder), "--compare", "old", ".")


def test_the_old_chain_needs_vectors(signoff: Callable[..., object], folder: Path) -> None:
    """It has no keywords to fall back on, and says so."""
    (folder / "queries.jsonl").write_text(lines(ANSWERED), encoding="utf-8")
    with pytest.raises(CommandFailed, match="embedding model"):
        signoff("answers", str(folder), "--compare", "old", ".")


def test_windows_are_cut_by_character() -> None:
    """Five hundred characters each, fifty shared with the next; a short text is one window."""
    text = "".join(chr(0x4E00 + number) for number in range(1_200))
    made = windows(text)
    assert [len(window) for window in made] == [500, 500, 300]
    assert made[0][-50:] == made[1][:50]
    assert windows("") == [""]


def test_eval_context_compares_at_equal_tokens(signoff: Callable[..., object], folder: Path) -> None:
    """Neither side takes more than the other may, and each k has both figures."""
    (folder / "queries.jsonl").write_text(lines(ANSWERED[:1]), encoding="utf-8")
    (folder / "qrels.tsv").write_text("a1\ttravel\t1\n", encoding="utf-8")
    rows = signoff("context", str(folder))
    assert isinstance(rows, list)
    (row,) = rows
    assert row["metrics"]["pasted@1"] == row["metrics"]["context@1"] == 1
    assert all(point["tokens_context"] <= point["tokens_pasted"] for point in row["details"]["curve"])


def test_eval_multihop_goes_through_the_loop(signoff: Callable[..., object], folder: Path) -> None:
    """The second hop is asked with the first one's answer, and finds what one search for the question does not."""
    corpus = [
        {"id": "p1", "title": "Sings America", "text": "Sings America is performed by David Hasselhoff."},
        {"id": "p2", "title": "David Hasselhoff", "text": "David Hasselhoff played Snapper Foster."},
        *(
            {"id": f"x{n}", "title": "Sings", "text": f"America sings song {n} of the performer."}
            for n in range(12)
        ),
    ]
    steps = [
        {"question": "Who is the performer of Sings America?", "answer": "David Hasselhoff", "doc": "p1"},
        {"question": "Who did #1 play?", "answer": "Snapper Foster", "doc": "p2"},
    ]
    query = {
        "id": "m1",
        "text": "Who did the performer of Sings America play?",
        "answer": ["x"],
        "decomposition": steps,
    }
    (folder / "corpus.jsonl").write_text(lines(corpus), encoding="utf-8")
    (folder / "queries.jsonl").write_text(lines([query]), encoding="utf-8")
    (folder / "qrels.tsv").write_text("m1\tp1\t1\nm1\tp2\t1\n", encoding="utf-8")
    rows = signoff("multihop", str(folder))
    assert isinstance(rows, list)
    assert rows[0]["metrics"]["all gold, the loop"] == 1
    assert rows[0]["metrics"]["tools were offered"] == 1


async def test_tools_are_ranked_and_refused_in_both_shapes(tmp_path: Path) -> None:
    """A corpus of tools is ranked at several sizes; functions offered with a question, or none that fits."""
    tools = EvaluationSet(
        "tools",
        [Row(n, n, n, f"{n}: {told}", "en") for n, told in (("rooms", "Finds a free room."), ("cars", "Rents a car."))],
        [{"id": "t1", "text": "Is a room free?", "answer": ["rooms"]}],
        {}, {}, {},
    )  # fmt: skip
    embedder = KeptEmbedder(HashEmbedder(), tmp_path / "kept.npz")
    (result,) = await choosing(tools, embedder, {})
    assert result.metrics["top1@2"] == 1
    functions = [{"name": "find_rooms", "description": "Finds a free room.", "parameters": {}}]
    offered = [
        {
            "id": f"f{n}",
            "text": "Is a room free?",
            "answer": ["find_rooms"],
            "type": "multiple",
            "functions": functions,
        }
        for n in range(6)
    ] + [
        {
            "id": f"i{n}",
            "text": "Who was Napoleon?",
            "answer": [],
            "type": "irrelevance",
            "functions": functions,
        }
        for n in range(6)
    ]
    results = {
        r.set: r.metrics for r in await choosing(EvaluationSet("f", [], offered, {}, {}, {}), embedder, {})
    }
    assert results["f: multiple"]["right name"] == 1
    assert results["f"]["irrelevance recognised by folds"] == 1


def test_eval_abstain_tells_known_from_unknown(signoff: Callable[..., object], folder: Path) -> None:
    """By language: the shipped confidence and one by folds, and what is left of it in the other language."""
    known = [
        {"id": f"k{n}", "text": "差旅餐补每天多少元？", "type": "answerable", "lang": "zh"} for n in range(3)
    ]
    unknown = [
        {"id": f"u{n}", "text": "月球上有几座火山？", "type": "unanswerable", "lang": "zh"} for n in range(3)
    ]
    english = [
        {**one, "id": one["id"] + "e", "lang": "en", "text": "travel meals"} for one in (*known, *unknown)
    ]
    (folder / "queries.jsonl").write_text(lines([*known, *unknown, *english]), encoding="utf-8")
    (folder / "qrels.tsv").write_text("".join(f"k{n}\ttravel\t1\n" for n in range(3)), encoding="utf-8")
    rows = signoff("abstain", str(folder))
    assert isinstance(rows, list)
    figures = {row["set"]: row["metrics"] for row in rows}
    assert figures["small zh"]["auroc, shipped"] == 1
    assert figures["small zh"]["false answers, shipped"] == 0
    assert set(figures) == {"small en", "small zh", "small en → zh", "small zh → en"}
