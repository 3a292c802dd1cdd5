"""Sets in the shared shape: a folder with corpus.jsonl, queries.jsonl, qrels.tsv and, where there are some, vectors.

    corpus.jsonl   {"id", "title", "text", …}
    queries.jsonl  {"id", "text", "history"?: [{"role", "text"}…], "answer"?, "type"?, …}
    qrels.tsv      query id, document id, grade, by tabs; a grade above 0 is relevant
    vectors.npz, query_vectors.npz   "ids" and "vec" [n, dimension]

Each part may be missing, as long as what is measured does not need it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_graph.contracts import Turn
from store.scratch import Row
from store.text import language

__all__ = ["EvaluationSet", "SetUnusable", "document_of", "load", "turns_of"]


class SetUnusable(Exception):
    """The set cannot be measured like this; the message says what is missing from its folder."""


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A set. `relevant` maps a query to its documents' grades; vectors are by id."""

    name: str
    rows: Sequence[Row]
    queries: Sequence[Mapping[str, Any]]
    relevant: Mapping[str, Mapping[str, float]]
    passage_vectors: Mapping[str, np.ndarray[Any, Any]]
    query_vectors: Mapping[str, np.ndarray[Any, Any]]

    def judged(self) -> list[Mapping[str, Any]]:
        """The queries that have a relevant document."""
        return [query for query in self.queries if query["id"] in self.relevant]


# The id of a chunk that is a span of characters: page-0-349.
_SPAN = re.compile(r"(?P<document>.+)-\d+-\d+")


def document_of(entry: Mapping[str, Any]) -> str:
    """The document a corpus row was cut from: its "doc" or what its id says; else it is one of its own."""
    cut = _SPAN.fullmatch(str(entry["id"]))
    return str(entry.get("doc") or (cut["document"] if cut else entry["id"]))


def load(
    folder: Path,
    *,
    document: Callable[[Mapping[str, Any]], str] = document_of,
    qrels: str = "qrels.tsv",
) -> EvaluationSet:
    """Read a set; `document` names the document a corpus row belongs to.

    Raises `SetUnusable` where there are no queries, or a line is not what it should be.
    """
    if not (folder / "queries.jsonl").exists():
        raise SetUnusable(f"{folder} has no queries.jsonl. Name the folder of a set in the shared format.")
    try:
        rows = [_row(entry, document) for entry in _lines(folder / "corpus.jsonl")]
        queries = list(_lines(folder / "queries.jsonl"))
        relevant = _relevant(folder / qrels)
    except (ValueError, KeyError, TypeError) as error:
        raise SetUnusable(f"{folder} is not in the shared format: {error!r}") from error
    vectors = (_vectors(folder / f"{name}.npz") for name in ("vectors", "query_vectors"))
    return EvaluationSet(folder.name, rows, queries, relevant, *vectors)


def _row(entry: Mapping[str, Any], document: Callable[[Mapping[str, Any]], str]) -> Row:
    """A corpus that mixes languages says so by "lang", and can be searched in one of them alone."""
    return Row(
        id=entry["id"],
        document=document(entry),
        title=entry.get("title") or "",
        text=entry["text"],
        language=entry.get("lang") or language(entry["text"][:300]),
        audience=("everyone", f"lang:{entry['lang']}") if entry.get("lang") else ("everyone",),
    )


def _relevant(path: Path) -> dict[str, dict[str, float]]:
    relevant: dict[str, dict[str, float]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            query, passage, grade = line.split("\t")
            if float(grade) > 0:
                relevant.setdefault(query, {})[passage] = float(grade)
    return relevant


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _vectors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if not path.exists():
        return {}
    with np.load(path) as loaded:
        return dict(zip(map(str, loaded["ids"]), loaded["vec"].astype("f4"), strict=True))


def turns_of(history: Sequence[Mapping[str, str]]) -> list[Turn]:
    """Pairs of question and answer; histories miss one or the other here and there."""
    turns: list[Turn] = []
    asked = ""
    for said in history:
        if said["role"] == "user":
            turns += [Turn("", asked, "")] if asked else []
            asked = said["text"]
        else:
            turns.append(Turn("", asked, said["text"]))
            asked = ""
    return turns + ([Turn("", asked, "")] if asked else [])
