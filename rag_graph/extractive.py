"""The answer without a model: the best supported sentences of the passages, quoted verbatim, each with its mark.

Chosen by how much of the question they cover, rarer words counting more; by the kind of quantity that was asked
for; by headings, rank and place. Same question, same passages, same quotations. Pure.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rag_graph import compound, numerals
from rag_graph.blocks import Group, groups
from rag_graph.contracts import Passage
from rag_graph.numbers import Quantity, quantities
from rag_graph.terms import content
from store.text import language, normalise

__all__ = ["answer"]

QUOTATIONS = 3
PER_PASSAGE = 2
OF_A_PART = 2  # quotations for each thing that a question asks
CLAUSES = 4  # parts of a clause asked for by its number
CLOSE = 0.7  # of the best score: what scores less is left out
WHOLE = 240  # characters; a paragraph up to this long is quoted whole
ROWS = 10  # a longer table is quoted in the rows that match
HEADING = 0.8  # a word in title or headings against one in the sentence itself
ASKED = 0.35  # the quantity asked for
RANK = 0.25  # being the first passage


@dataclass(frozen=True, slots=True)
class _Unit:
    """A group of a passage with its parts' scores."""

    passage: int
    place: int
    group: Group
    scores: tuple[float, ...]
    score: float


_Quoted = tuple[_Unit, tuple[int, ...]]  # with the indices of the parts that are quoted


def answer(question: str, passages: Sequence[Passage], most: int = QUOTATIONS) -> str:
    """Quotations from `passages` (best first) that answer `question`, as Markdown; "" where nothing can be quoted.

    Grouped by document and heading; the mark [n] counts `passages` from 1.
    """
    found = [(at, groups(passage.text)) for at, passage in enumerate(passages)]
    chosen = _clauses(question, passages, found)
    if not chosen and not _absent(question, passages):
        asked = compound.parts(question)
        for part in asked:
            picked = _chosen(part, passages, found, most if len(asked) == 1 else OF_A_PART)
            chosen += [one for one in picked if not any(_alike(one[0], other[0]) for other in chosen)]
    return _rendered(chosen, passages)


_CODE = re.compile(
    r"(?:\b(?:error|code|form|ticket|room)\s*#?|代码|错误码?|编号|工单号?)\s*(\d{2,})", re.IGNORECASE
)


def _absent(question: str, passages: Sequence[Passage]) -> bool:
    """Does the question name a clause (3.2) or an identifier (ERR_4021) that no passage has?

    Whatever the passages say then, it is not about that one.
    """
    named = {clause for clause in _wanted(question) if "." in clause or "(" in clause}
    named |= {str(q.value) for q in _quantities(question) if q.kind == "identifier"}
    named |= {code.lower() for code in _CODE.findall(question)}
    whole = re.sub(
        r"\s", "", normalise("\n".join(f"{_heading(passage)}\n{passage.text}" for passage in passages))
    )
    return any((bare := re.sub(r"\s", "", name)) not in whole and not _between(bare, whole) for name in named)


_LEVEL = re.compile(r"([a-z]+)(\d{1,3})")


def _between(name: str, text: str) -> bool:
    """Is `name` a level of a range that `text` gives: P5 of P4–P6?"""
    level = _LEVEL.fullmatch(name)
    if level is None:
        return False
    ranges = re.finditer(rf"{level[1]}(\d{{1,3}})(?:[-–—~至到]|to){level[1]}(\d{{1,3}})", text)
    return any(int(low) <= int(level[2]) <= int(high) for low, high in (found.groups() for found in ranges))


# --- a clause by its number -----------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def _quantities(text: str) -> tuple[Quantity, ...]:
    return tuple(quantities(text))


_NUMBERED = re.compile(
    r"(?P<n>\d+(?:\.\d+)+)(?![\d%])|(?P<simple>\d{1,3})[.、]\s|(?P<han>[一二三四五六七八九十]{1,3})、"
)
_REFERRED = ("article", "chapter", "paragraph")


def _number_of(text: str) -> str:
    """The clause number that `text` begins with: 第 3.2 条, Clause 3.2, 3.2, 3., 三、"""
    bare = re.sub(r"^[\s>*_#|-]+", "", text)[:24]
    first = next((q for q in _quantities(bare) if q.kind == "clause" and q.start == 0), None)
    if first:
        return str(first.value)
    numbered = _NUMBERED.match(bare)
    if numbered is None:
        return ""
    return numbered["n"] or numbered["simple"] or str(numerals.read(numbered["han"]))


def _wanted(question: str) -> set[str]:
    """The clauses that `question` names by number."""
    return {str(q.value) for q in _quantities(question) if q.kind == "clause" and q.unit in _REFERRED}


def _clauses(
    question: str, passages: Sequence[Passage], found: Sequence[tuple[int, list[Group]]]
) -> list[_Quoted]:
    """The very clauses that `question` names, from the document that fits it best; [] where it names none."""
    wanted = _wanted(question)
    hits = [
        (_fit(question, passages[at]) - 0.1 * at, _Unit(at, place, group, (), 0.0), parts)
        for at, blocks in found
        for place, group in enumerate(blocks)
        if (parts := _numbered_parts(group, wanted, passages[at]))
    ]
    if not wanted or not hits:
        return []
    best = max(hits, key=lambda hit: hit[0])[1]
    document = passages[best.passage].document_id
    return [(unit, parts) for _, unit, parts in hits if passages[unit.passage].document_id == document][
        :CLAUSES
    ]


def _fit(question: str, passage: Passage) -> int:
    return len(frozenset(content(question)) & frozenset(content(_heading(passage))))


def _numbered_parts(group: Group, wanted: set[str], passage: Passage) -> tuple[int, ...]:
    """The parts of `group` that are a wanted clause: all of them where its first line or a heading has the number."""
    every = tuple(range(len(group.parts)))
    if group.kind == "paragraph":
        own = [group.parts[0], *passage.heading_path]
        return every if any(_number_of(text) in wanted for text in own) else ()
    if any(_number_of(text) in wanted for text in (group.lead, *passage.heading_path)):
        return every
    return tuple(at for at in every if _number_of(group.parts[at]) in wanted)


# --- scoring --------------------------------------------------------------------------------------------------------

_SPAN = ("duration",)
_EXPECTED: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), kinds)
    for pattern, kinds in (
        (r"几点|什么时间|what time|opening hours|office hours", ("time",)),
        (
            r"多少[个]?(?:天|日|小时|周|星期|月|年|工作日|分钟)|几[个]?(?:天|日|小时|周|星期|月|年|工作日)|多久|多长时间|期限|有效期|时限",
            _SPAN,
        ),
        (
            r"how long|how (?:many|much) (?:\w+ )?(?:days?|weeks?|months?|years?|hours?|minutes?|leave|notice)",
            _SPAN,
        ),
        (r"\b(?:duration|period)\b", _SPAN),
        (r"多少[钱元]|金额|费用|价格|标准|补贴|上限|限额|罚款|赔偿", ("money", "percent", "number")),
        (r"how much|\b(?:cost|price|fee|amount|allowance|limit)s?\b", ("money", "percent", "number")),
        (r"比例|百分之几|百分比|税率|利率|percent|rate|share", ("percent",)),
        (
            r"什么时候|何时|哪天|几号|哪一天|截止|when|deadline|due|until|expir|by what date",
            ("date", "time", "duration"),
        ),
        (
            r"多少|几[个名人次份台位项种家]|how many|how often|多大|多远|多高|number of",
            ("number", "duration", "money", "percent", "measure"),
        ),
    )
)


def _expected(question: str) -> tuple[str, ...]:
    """The kinds of quantity that would answer, () where the question asks for none."""
    asked = normalise(question)
    return next((kinds for pattern, kinds in _EXPECTED if pattern.search(asked)), ())


def _heading(passage: Passage) -> str:
    return " ".join((passage.title, *passage.heading_path))


def _chosen(
    question: str, passages: Sequence[Passage], found: Sequence[tuple[int, list[Group]]], most: int
) -> list[_Quoted]:
    units = _scored(question, passages, found)
    ranked = sorted(units, key=lambda unit: (-unit.score, unit.passage, unit.place))
    picked: list[_Unit] = []
    for unit in ranked:
        near = unit.score >= CLOSE * ranked[0].score
        room = sum(other.passage == unit.passage for other in picked) < PER_PASSAGE
        if len(picked) < most and near and room and not any(_alike(unit, other) for other in picked):
            picked.append(unit)
    return [(unit, _parts(unit)) for unit in picked]


def _scored(
    question: str, passages: Sequence[Passage], found: Sequence[tuple[int, list[Group]]]
) -> list[_Unit]:
    wanted = content(question)
    spoken = language(question)
    expected = _expected(question)
    frequency = Counter(
        word for _, blocks in found for group in blocks for word in frozenset(content("\n".join(group.parts)))
    )
    total = sum(len(blocks) for _, blocks in found)
    weights = {word: _rarity(word, frequency[word], total) for word in wanted}
    units = []
    for at, blocks in found:
        heading = frozenset(content(_heading(passages[at])))
        foreign = language(passages[at].text) != spoken
        for place, group in enumerate(blocks):
            lead = frozenset(content(group.lead)) | heading
            scores = tuple(
                _score(part, lead, weights, () if group.kind == "code" else expected, foreign=foreign)
                for part in group.parts
            )
            prior = RANK / (1 + at) + 0.03 / (1 + place)
            units.append(_Unit(at, place, group, scores, max(scores) + prior))
    return units


def _rarity(word: str, frequency: int, total: int) -> float:
    weight = 0.5 if len(word) == 1 and not word.isascii() else 1.0
    return weight * math.log(1 + (total + 1) / (frequency + 0.5))


def _score(
    part: str, around: frozenset[str], weights: dict[str, float], expected: Iterable[str], *, foreign: bool
) -> float:
    """The weighted share of the question's words in `part` or, for less, around it; more for the quantity asked."""
    own = frozenset(content(part))
    whole = sum(weights.values()) or 1.0
    covered = sum(
        weight * (1.0 if word in own else HEADING) for word, weight in weights.items() if word in own | around
    )
    kinds = {quantity.kind for quantity in _quantities(part) if not quantity.soft}
    asked = ASKED if kinds.intersection(expected) else 0.0
    # Between languages words say next to nothing, so the quantity says twice as much.
    return covered / whole + (2 * asked if foreign else asked)


def _alike(unit: _Unit, other: _Unit) -> bool:
    """Do two groups say the same, as neighbouring chunks and two versions of a text do?"""
    mine, theirs = (frozenset(content("\n".join(u.group.parts))) for u in (unit, other))
    smaller = min(len(mine), len(theirs))
    return smaller > 0 and len(mine & theirs) / smaller >= 0.8


def _parts(unit: _Unit) -> tuple[int, ...]:
    """Which parts of a group are quoted: all, where they are tiers or steps of one thing; else the best."""
    best = max(unit.scores)
    every = tuple(range(len(unit.scores)))
    size = sum(len(part) for part in unit.group.parts)
    if unit.group.kind in ("table", "list"):
        outstanding = [at for at, score in enumerate(unit.scores) if score >= best - 0.02]
        few = len(outstanding) <= max(1, len(every) // 3)
        return tuple(outstanding) if (few and best - min(unit.scores) > 0.25) or len(every) > ROWS else every
    if unit.group.kind == "code" or size <= WHOLE:
        return every
    at = unit.scores.index(best)
    following = at + 1 < len(every) and unit.scores[at + 1] >= CLOSE * best
    return (at, at + 1) if following else (at,)


# --- rendering ------------------------------------------------------------------------------------------------------


def _rendered(chosen: Sequence[_Quoted], passages: Sequence[Passage]) -> str:
    """By document and heading, the best first; under one heading in reading order."""
    under: dict[tuple[int, str], list[_Quoted]] = {}
    for unit, parts in chosen:
        passage = passages[unit.passage]
        path = " › ".join(dict.fromkeys((passage.title, *passage.heading_path))).replace("*", "")
        under.setdefault((passage.document_id, path), []).append((unit, parts))
    pieces: list[str] = []
    for (_, path), quoted in under.items():
        pieces.append(f"**{path}**")
        quoted.sort(key=lambda pair: (passages[pair[0].passage].ordinal, pair[0].passage, pair[0].place))
        pieces += [_quotation(unit.group, parts, unit.passage + 1) for unit, parts in quoted]
    return "\n\n".join(pieces)


def _quotation(group: Group, parts: tuple[int, ...], number: int) -> str:
    """A block quotation. The mark stands behind a paragraph, each list item, and under a table."""
    texts = [group.parts[at] for at in parts]
    if group.kind == "table":
        lines = [*group.lead.splitlines(), *texts, "", f"[{number}]"]
    elif group.kind == "list":
        lines = [*([group.lead, ""] if group.lead else []), *(f"{text} [{number}]" for text in texts)]
    elif group.kind == "code":
        lines = [*texts[0].splitlines(), "", f"[{number}]"]
    else:
        apart = len(parts) > 1 and parts[-1] - parts[0] + 1 != len(parts)
        lines = [f"{(' … ' if apart else _gap(texts)).join(texts)} [{number}]"]
    return "\n".join(f"> {line}".rstrip() for text in lines for line in (text.splitlines() or [""]))


def _gap(texts: Sequence[str]) -> str:
    return "" if language(texts[0]) == "zh" else " "
