"""One number with its meaning, and how the named groups of a pattern's match become one. Pure.

The patterns are in `rag_graph/numbers.py`. A reader returns None where the match is no such thing after all.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from rag_graph import numerals
from rag_graph.units import EN_UNITS, MONEY, MONTHS, REFERENCES, ZH_UNITS

__all__ = [
    "ORDINALS",
    "PARTS_EN",
    "Date",
    "Groups",
    "Quantity",
    "Reader",
    "clause",
    "count",
    "date",
    "decade",
    "each",
    "fraction",
    "identifier",
    "measure",
    "money",
    "ordinal",
    "part",
    "percent",
    "slashed",
    "time",
]

Date = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number with its meaning.

    `kind`: number, percent, money, duration, measure, ordinal, clause, date, time, identifier. `value` is in
    `unit` (durations in "day", "workday" or "month"; times in minutes); a date is (year, month, day) with None
    for what is not said; a clause and an identifier are text. `amount` is the number as written. `soft` marks
    what a sentence may say without proof ("a day" in "eight hours a day", "first, ...").
    """

    kind: str
    value: Fraction | str | Date
    unit: str = ""
    amount: Fraction | None = None
    text: str = ""
    start: int = 0
    soft: bool = False


Groups = dict[str, str | None]
Reader = Callable[[Groups], Quantity | None]


def _whole(text: str | None) -> int | None:
    value = numerals.read(text) if text else None
    return int(value) if value is not None and value.denominator == 1 else None


def date(groups: Groups) -> Quantity | None:
    month = groups.get("m")
    number = (MONTHS.get(month.lower()) or _whole(month)) if month else None
    day = _whole(groups.get("d"))
    if (month and not 1 <= (number or 0) <= 12) or not 1 <= (1 if day is None else day) <= 31:
        return None
    return Quantity("date", (_whole(groups.get("y")), number, day))


def slashed(groups: Groups) -> Quantity | None:
    """3/1/2024 is month first, day first where the first is above 12, and either where both could be months."""
    first, second = _whole(groups["a"]) or 0, _whole(groups["b"]) or 0
    month, day = (second, first) if first > 12 else (first, second)
    found = date({"y": groups["y"], "m": str(month), "d": str(day)})
    return replace(found, unit="either") if found and first <= 12 and second <= 12 else found


_LATE = ("下午", "晚上", "傍晚", "晚", "pm")
_PARTS = {"半": 30, "一刻": 15, "三刻": 45}


def time(groups: Groups) -> Quantity | None:
    hour, minute = _whole(groups["h"]), _whole(groups.get("min"))
    if minute is None:
        minute = _PARTS.get(groups.get("part") or "", 0)
    if hour is None or hour > 24 or minute > 59:
        return None
    amount, mark = Fraction(hour), (groups.get("ap") or "").lower().replace(".", "")
    if hour < 12 and mark in _LATE:
        hour += 12
    vague = not mark and 1 <= hour <= 12 and not (groups["h"] or "").startswith("0")
    return Quantity("time", Fraction(hour * 60 + minute), "either" if vague else "", amount)


def clause(groups: Groups) -> Quantity | None:
    number = re.sub(r"\s", "", groups["n"] or "").lower()
    if not number[0].isdigit():
        value = numerals.read(number)
        if value is None:
            return None
        number = str(value)
    amount = Fraction(number) if re.fullmatch(r"\d+(?:\.\d+)?", number) else None
    unit = REFERENCES.get((groups.get("u") or "").lower().rstrip("."))
    if unit is None:
        return None if amount is None else Quantity("ordinal", amount, "", amount, soft=amount == 1)
    return Quantity("clause", number, unit, amount)


_ORDINAL_WORDS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
ORDINALS = {word: value for value, word in enumerate(_ORDINAL_WORDS.split(), 1)}


def ordinal(groups: Groups) -> Quantity | None:
    word = (groups.get("o") or "").lower()
    value = ORDINALS.get(word) or _whole(re.sub(r"(?<=\d)(?:st|nd|rd|th)", "", word))
    if value is None:
        return None
    return Quantity(
        "ordinal",
        Fraction(value),
        "century" if groups.get("century") else "",
        Fraction(value),
        soft=word in ORDINALS and not groups.get("century"),
    )


def decade(groups: Groups) -> Quantity | None:
    """The nineties, as the number 1990; 90 where no century is said."""
    start = _whole(groups.get("start")) or max((_whole(groups.get("century")) or 1) - 1, 0) * 100
    year = Fraction(start + (_whole(groups.get("tens")) or 0))
    return Quantity("number", year, "decade", year) if year > 0 else None


PARTS_EN = {"third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}


def part(groups: Groups) -> Quantity | None:
    """Two-thirds, a quarter of. A single fifth may be the fifth of several."""
    over, under = numerals.read(groups["over"] or ""), PARTS_EN[(groups["part"] or "").lower()]
    if not over or over >= under:
        return None
    return Quantity("number", over / under, "", over / under, soft=over == 1)


def percent(factor: Fraction) -> Reader:
    def reader(groups: Groups) -> Quantity | None:
        value = numerals.read(groups["v"] or "")
        return None if value is None else Quantity("percent", value * factor, "", value)

    return reader


def fraction(groups: Groups) -> Quantity | None:
    of = groups["of"] or ""
    over, under = numerals.read(groups["v"] or ""), numerals.read(f"一{of}" if of in "百千" else of)
    if over is None or not under:
        return None
    if under in (100, 1000):
        return Quantity("percent", over * 100 / under, "", over)
    return Quantity("number", over / under, "", over / under)


_SCALES = {"k": 10**3, "m": 10**6, "bn": 10**9}


def money(groups: Groups) -> Quantity | None:
    value = numerals.read(groups["v"] or "")
    sign = (groups.get("sign") or "").lower()
    currency = MONEY.get(sign) or MONEY.get(sign.rstrip("s"), "")
    scale = _SCALES.get((groups.get("scale") or "").lower(), 1)  # £30m
    return None if value is None else Quantity("money", value * scale, currency, value)


def measure(groups: Groups) -> Quantity | None:
    """A number and its unit. 半 and "half" are one half, alone (半年) or on top (两年半, 3.5 years)."""
    value = numerals.read(groups["v"] or "") if groups.get("v") else Fraction(0)
    surface = re.sub(r"\s+", " ", groups["u"] or "")
    known = ZH_UNITS.get(surface) or EN_UNITS.get(surface) or EN_UNITS.get(surface.lower())
    if value is None or known is None:
        return None
    value += Fraction(1, 2) * sum(bool(groups.get(name)) for name in ("half", "tail"))
    kind, unit, factor = known
    soft = groups.get("v") == "一" and surface in ("天", "日")
    return Quantity(kind, value * factor, unit, value, soft=soft)


def each(groups: Groups) -> Quantity | None:
    kind, unit, factor = EN_UNITS[(groups["u"] or "").lower()]
    return Quantity(kind, factor, unit, Fraction(1), soft=True)


def count(groups: Groups) -> Quantity | None:
    """A bare or counted number; 一个 and "one" are articles more often than counts."""
    surface = groups["v"] or ""
    value = None if surface.lower() in ("一", "one") else numerals.read(surface)
    return None if value is None else Quantity("number", value, "", value)


_NUMBERED = re.compile(r"[A-Z]?[a-z]{4,}-(\d{1,3})")


def identifier(groups: Groups) -> Quantity | None:
    """A code is one thing; "oxygen-18" is a word and its number (氧-18)."""
    numbered = _NUMBERED.fullmatch(groups["v"] or "")
    if numbered:
        return Quantity("number", Fraction(numbered[1]), "", Fraction(numbered[1]))
    return Quantity("identifier", (groups["v"] or "").lower())
