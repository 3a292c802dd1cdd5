"""The fifty questions on the sample handbook: reading them, and when an answer counts as right."""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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


def normalise(text: str) -> str:
    """Width, case, thousands separators, Markdown marks and layout made equal; no space beside a Chinese character.

    A table row and the sentence that says the same compare equal: `| 满 3 年 | 12 天 |` becomes "满3年12天".
    """
    text = unicodedata.normalize("NFKC", text).lower()
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"\[\d+\]", " ", text)  # citation marks
    text = re.sub(r"[\u2010-\u2015]", "-", text)
    text = re.sub(r"[\u2018\u2019]", "'", text)
    text = re.sub(r"[\s|*`>_#]+", " ", text)
    return re.sub(r" ?([\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]) ?", r"\1", text).strip()


def states(text: str, wording: str) -> bool:
    """Whether `text` contains `wording` after normalisation; a figure is not found inside a longer one."""
    wanted = normalise(wording)
    before = r"(?<![\d.])" if wanted[:1].isdigit() else ""
    after = r"(?!\.?\d)" if wanted[-1:].isdigit() else ""
    return re.search(before + re.escape(wanted) + after, normalise(text)) is not None


def answers(text: str, item: Item) -> bool:
    """Whether `text` states every fact the question asks for."""
    return bool(item.facts) and all(any(states(text, wording) for wording in group) for group in item.facts)


def covers(sources: Iterable[str], item: Item) -> bool:
    """Whether every group of documents that the answer stands on is among `sources`."""
    given = set(sources)
    return bool(item.sources) and all(given.intersection(group) for group in item.sources)
