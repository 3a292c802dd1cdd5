"""The fifty questions on the sample handbook: reading them, and when an answer counts as right."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag_graph.evaluation.stating import normalise, states, states_all

__all__ = ["FOLDER", "HANDBOOK", "ROOT", "Item", "answers", "covers", "load", "normalise", "states"]

ROOT = Path(__file__).resolve().parent.parent
HANDBOOK = ROOT / "bot/handbook"
FOLDER = ROOT / "bench/sets/handbook"

Kind = Literal["single", "several", "absent"]


@dataclass(frozen=True, slots=True)
class Item:
    """One question. `history` is (role, text) in order.

    `facts` are what a right answer states: of each group one wording is enough, and every group is needed.
    `sources` are the documents (paths below the handbook) that a right answer stands on, in the same way. Both are
    empty where the handbook has no answer; `missing` is then a wording that occurs nowhere in it.
    """

    id: str
    text: str
    kind: Kind
    language: str
    history: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, ...], ...]
    sources: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    missing: str = ""

    @property
    def relevant(self) -> frozenset[str]:
        """Every document that answers some part of it."""
        return frozenset(source for group in self.sources for source in group)


def load(folder: Path = FOLDER) -> list[Item]:
    """The questions in file order."""
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [_item(json.loads(line)) for line in lines]


def _item(row: dict[str, object]) -> Item:
    def groups(name: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(group) for group in row.get(name, ()))  # type: ignore[attr-defined]

    history: Sequence[dict[str, str]] = row.get("history", ())  # type: ignore[assignment]
    return Item(
        id=str(row["id"]),
        text=str(row["text"]),
        kind=row["type"],  # type: ignore[arg-type]
        language=str(row["language"]),
        history=tuple((turn["role"], turn["text"]) for turn in history),
        facts=groups("facts"),
        sources=groups("sources"),
        tags=tuple(row.get("tags", ())),  # type: ignore[arg-type]
        missing=str(row.get("missing", "")),
    )


def answers(text: str, item: Item) -> bool:
    """Whether `text` states every fact the question asks for."""
    return states_all(text, item.facts)


def covers(sources: Iterable[str], item: Item) -> bool:
    """Whether every group of documents that the answer stands on is among `sources`."""
    given = set(sources)
    return bool(item.sources) and all(given.intersection(group) for group in item.sources)
