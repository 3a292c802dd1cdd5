"""`signoff eval retrieval` on a small set of its own, through Postgres and the code that serves questions."""

import json
from pathlib import Path

import numpy as np
import pytest

from rag_graph.evaluation import Result, SetUnusable, load
from rag_graph.evaluation.retrieving import knee, measure, ndcg, parts, recall
from rag_graph.evaluation.vectors import ReadyEmbedder
from store.embedding import NoEmbedder
from store.scratch import fill, scratch
from store.search import Searcher, SearchSettings, configuration


def written(folder: Path, *, languages: bool = False) -> Path:
    """A set of four passages and two questions, with vectors that put the second question's answer first."""
    folder.mkdir()
    rows = [
        ("a", "annual leave is 15 days", "en"),
        ("b", "年假十五天", "zh"),
        ("c", "travel budget", "en"),
        ("d", "病假", "zh"),
    ]
    queries = [("q1", "annual leave", "en"), ("q2", "年假", "zh")]

    def entries(pairs: list[tuple[str, str, str]]) -> str:
        return "\n".join(
            json.dumps({"id": one, "text": text, **({"lang": lang} if languages else {})})
            for one, text, lang in pairs
        )

    (folder / "corpus.jsonl").write_text(entries(rows), encoding="utf-8")
    (folder / "queries.jsonl").write_text(entries(queries), encoding="utf-8")
    (folder / "qrels.tsv").write_text("q1\ta\t1\nq2\tb\t1\n")
    if languages:
        (folder / "qrels_cross.tsv").write_text("q1\tb\t1\nq2\ta\t1\n")
    vectors = np.eye(4, 8, dtype="f2")
    np.savez(folder / "vectors.npz", ids=["a", "b", "c", "d"], vec=vectors)
    np.savez(folder / "query_vectors.npz", ids=["q1", "q2"], vec=vectors[:2])
    return folder


def test_recall_is_the_share_of_relevant_ids() -> None:
    """Of two relevant ids one among the first k is a half."""
    assert recall(["a", "x", "b"], {"a": 1, "b": 1}, 2) == 0.5
    assert recall(["a", "x", "b"], {"a": 1, "b": 1}, 3) == 1


def test_ndcg_has_linear_gains() -> None:
    """The ideal order is 1; a swap of grades 2 and 1 costs what linear gains say."""
    relevant = {"a": 2.0, "b": 1.0}
    assert ndcg(["a", "b"], relevant, 10) == pytest.approx(1)
    assert ndcg(["b", "a"], relevant, 10) == pytest.approx((1 + 2 * 0.63093) / (2 + 0.63093), abs=1e-4)
    assert ndcg(["x"], relevant, 10) == 0


def test_the_knee_is_where_more_passages_cost_more_than_they_bring() -> None:
    """A curve that bends at three has its knee there; a flat one at one, whatever it costs."""
    tokens = [100.0 * k for k in range(1, 11)]
    assert knee(tokens, [0.5, 0.7, 0.9, *(0.9 + 0.005 * k for k in range(1, 8))]) == 3
    assert knee(tokens, [0.8] * 10) == 1
    assert knee([], []) == 1


async def test_a_set_is_searched_like_a_knowledge_base(tmp_path: Path, database_url: str) -> None:
    """Scores, hits and tokens for each k; the configuration's hash changes with the settings."""
    chosen = load(written(tmp_path / "small"))
    async with scratch(database_url) as database:
        ids = await fill(database.engine, chosen.rows, chosen.passage_vectors, model="none")
        searcher = Searcher(database.engine, ReadyEmbedder(chosen, NoEmbedder()))
        [part] = parts(chosen)
        result = await measure(part, searcher, ids, configuration(SearchSettings()))
    assert (result.set, result.n) == ("small", 2)
    assert result.metrics["recall@5"] == result.metrics["hit@1"] == result.metrics["hit@10"] == 1
    assert 0 < result.metrics["tokens@1"] < result.metrics["tokens@2"]
    assert result.metrics["knee"] == 1
    other = configuration(SearchSettings(deduplicate="off"))
    same = configuration(SearchSettings())
    assert result.config_hash == Result("x", 1, {}, same).config_hash
    assert result.config_hash != Result("x", 1, {}, other).config_hash


def test_a_set_in_two_languages_is_four_tasks(tmp_path: Path) -> None:
    """Each language's questions to its own documents, and to the other's by the qrels for that."""
    folder = written(tmp_path / "two", languages=True)
    chosen, cross = load(folder), load(folder, qrels="qrels_cross.tsv")
    assert [(part.name, part.readers, len(part.queries)) for part in parts(chosen, cross)] == [
        ("two en", ("lang:en",), 1),
        ("two zh", ("lang:zh",), 1),
        ("two en→zh", ("lang:zh",), 1),
        ("two zh→en", ("lang:en",), 1),
    ]


def test_without_qrels_nothing_is_judged(tmp_path: Path) -> None:
    """The message says what is missing."""
    folder = written(tmp_path / "bare")
    (folder / "qrels.tsv").unlink()
    with pytest.raises(SetUnusable, match=r"no qrels\.tsv"):
        parts(load(folder))
