"""The answer without a model: the sentences of the passages that answer best, quoted word for word and cited. Pure.

What it can do is choose, and it says that it quotes. Sentences are chosen by the weight of the question's words that
they hold; a question for a number prefers a sentence with one, a question for a clause that very clause; items of one
list and rows of one table come together, since a tier alone misleads.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rag_graph.numbers import quantities
from rag_graph.terms import content
from store.passages import Passage
from store.text import language, sentences

__all__ = ["answer"]

QUOTATIONS: Final = 4
CHARACTERS: Final = 700  # a chat message that is read, not scrolled
GROUP: Final = 8  # items of a list, or rows of a table, that are still quoted as a whole
# A sentence that holds less of the question's weight than this says nothing about it.
LEAST: Final = 0.2
NEAR: Final = 0.62  # of the best score: what else is quoted
HEADING: Final = 0.55  # of a word's weight, where the heading holds it and the sentence does not
NUMBER: Final = 0.25
CLAUSE: Final = 1.0
LATER: Final = 0.04  # a place further down the ranking costs that much

_ASKS_NUMBER = re.compile(
    r"多少|几[天日个年月次人元岁点号]|多久|多长|何时|什么时候|哪[天年月]|上限|下限|最多|最少|最高|最低|期限|截止|金额|比例|"
    r"\bhow (?:many|much|long|often|soon|late|early)\b|\bwhen\b|\bwhat time\b|\bdeadline\b|\blimit\b|\bmaximum\b|"
    r"\bminimum\b|\bper day\b|\brate\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:[-*+•]\s+|\d{1,3}[.)、]\s*|[（(][一二三四五六七八九十\d]{1,3}[）)])")
_RULE_ROW = re.compile(r"\s*\|?[\s:|-]+\|?\s*")
_PAGE = re.compile(r"<!--.*?-->")


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing that can be quoted. `group` names the list or table it belongs to, 0 for prose."""

    passage: int  # 1-based, as the marks count
    place: int
    text: str
    group: int
    words: frozenset[str]
    headings: frozenset[str]


def answer(question: str, passages: Sequence[Passage]) -> str:
    """Quotations from `passages` with marks that count them from 1; "" where none of them speaks of it.

    The same passages always give the same answer.
    """
    units = [unit for number, passage in enumerate(passages, 1) for unit in _units(number, passage)]
    if not units:
        return ""
    asked = content(question)
    scores = _scores(question, asked, units)
    best = max(scores)
    if best < LEAST:
        if any(language(question) == passage.language for passage in passages):
            return ""
        chosen = _foreign(question, units)
    else:
        chosen = _chosen(units, scores, best)
    return _rendered(chosen)


# --- what can be quoted ------------------------------------------------------------------------------------------


def _units(number: int, passage: Passage) -> list[Unit]:
    headings = frozenset(content(" ".join((passage.title, *passage.heading_path))))
    found: list[Unit] = []
    for group, block in enumerate(re.split(r"\n\s*\n", _PAGE.sub("", passage.text)), 1):
        lines = [line for line in block.splitlines() if line.strip()]
        for text, grouped in _block(lines):
            found.append(
                Unit(number, len(found), text, group if grouped else 0, frozenset(content(text)), headings)
            )
    return found


def _block(lines: Sequence[str]) -> list[tuple[str, bool]]:
    """(text, belongs to a list or table) for each piece of a block."""
    if lines and all(line.lstrip().startswith("|") for line in lines):
        return [(row, True) for row in _rows(lines)]
    pieces: list[tuple[str, bool]] = []
    lead = ""
    for piece in sentences("\n".join(line for line in lines if not line.lstrip().startswith("#"))):
        item = _ITEM.match(piece)
        if item and piece[item.end() :].strip():
            body = piece[item.end() :].strip()
            pieces.append((f"{lead} {body}".strip() if lead else body, True))
            continue
        text = " ".join(piece.split())
        # A line that introduces a list is quoted with its items, never alone.
        lead = text if text.endswith((":", "：")) else ""
        if not lead:
            pieces.append((text, False))
    return pieces


def _rows(lines: Sequence[str]) -> list[str]:
    """Table rows as sentences, each cell under its header: chat clients draw tables badly or not at all."""
    cells = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in lines
        if not _RULE_ROW.fullmatch(line)
    ]
    if len(cells) < 2:
        return [" · ".join(filter(None, row)) for row in cells]
    head = cells[0]
    return [
        "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(head, row, strict=False) if cell)
        for row in cells[1:]
    ]


# --- choosing ----------------------------------------------------------------------------------------------------


def _scores(question: str, asked: Sequence[str], units: Sequence[Unit]) -> list[float]:
    """How much of the question's weight each unit holds, and the bonuses; a rare word weighs more."""
    held = Counter(word for unit in units for word in unit.words)
    weights = {word: math.log(1 + len(units) / (1 + held[word])) + 0.2 for word in asked}
    whole = sum(weights.values()) or 1.0
    wants_number = bool(_ASKS_NUMBER.search(question))
    clauses = _clauses(question)
    scores = []
    for unit in units:
        share = sum(
            weight * (1.0 if word in unit.words else HEADING if word in unit.headings else 0.0)
            for word, weight in weights.items()
        )
        own = sum(weight for word, weight in weights.items() if word in unit.words)
        score = share / whole
        if own and wants_number and any(not q.soft for q in quantities(unit.text)):
            score += NUMBER
        if clauses:
            score += _clause_bonus(clauses, unit)
        # The heading alone answers nothing: something of the question must stand in the sentence, or it must be
        # the kind of thing that was asked for.
        scores.append(
            (score if own or (wants_number and quantities(unit.text)) else score / 2) - LATER * unit.passage
        )
    return scores


def _clauses(text: str) -> set[str]:
    return {str(q.value) for q in quantities(text) if q.kind == "clause"}


def _clause_bonus(asked: set[str], unit: Unit) -> float:
    begins = {str(q.value) for q in quantities(unit.text[:40]) if q.kind == "clause" and q.start < 12}
    if begins & asked:
        return CLAUSE
    return -0.3 if begins else 0.0


def _chosen(units: Sequence[Unit], scores: Sequence[float], best: float) -> list[Unit]:
    order = sorted(range(len(units)), key=lambda at: (-scores[at], units[at].passage, units[at].place))
    top = units[order[0]]
    chosen = [top]
    if top.group:
        together = [unit for unit in units if (unit.passage, unit.group) == (top.passage, top.group)]
        rivals = sum(1 for at in order if units[at] in together and scores[at] >= NEAR * best)
        # One row that stands out is the answer; several alike are tiers, and belong together.
        if rivals > 1 and len(together) <= GROUP:
            chosen = together
    length, most = sum(len(unit.text) for unit in chosen), max(QUOTATIONS, len(chosen))
    for at in order[1:]:
        unit = units[at]
        if len(chosen) >= most or scores[at] < NEAR * best:
            break
        if unit in chosen or _said(unit, chosen) or length + len(unit.text) > CHARACTERS:
            continue
        chosen.append(unit)
        length += len(unit.text)
    return chosen


def _said(unit: Unit, chosen: Sequence[Unit]) -> bool:
    """Is most of it said already, in another passage's words?"""
    return any(len(unit.words & other.words) >= 0.8 * max(1, len(unit.words)) for other in chosen)


def _foreign(question: str, units: Sequence[Unit]) -> list[Unit]:
    """No word in common, since the passage is in another language: what the best passage says, numbers first."""
    first = [unit for unit in units if unit.passage == 1]
    if _ASKS_NUMBER.search(question):
        numbered = [unit for unit in first if any(not q.soft for q in quantities(unit.text))]
        first = numbered or first
    return first[:2]


def _rendered(chosen: Sequence[Unit]) -> str:
    """Quotations in the passages' order, a block for each passage."""
    ordered = sorted(chosen, key=lambda unit: (unit.passage, unit.place))
    blocks = [
        "\n".join(f"> {unit.text} [{number}]  " for unit in group).rstrip()
        for number, group in groupby(ordered, key=lambda unit: unit.passage)
    ]
    return "\n\n".join(blocks)
