"""Numbers, dates and units in Chinese and English text, in one comparable form. Pure.

十五天 = 15 days, 3 万元 = ¥30,000, 百分之五 = 5 %, 半年 = 6 个月, 2024年3月1日 = 1 March 2024, 第三条 = Article 3.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from rag_graph import numerals
from rag_graph.units import COUNTERS, EN_UNITS, MONEY, MONTHS, REFERENCES, ZH_UNITS

__all__ = ["Date", "Quantity", "quantities"]

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


def quantities(text: str) -> list[Quantity]:
    """Every number in `text`, in order; `start` counts characters of its NFKC form."""
    # A full-width comma separates; NFKC would make it join digits (有20，300人).
    whole = rest = unicodedata.normalize("NFKC", text.replace("，", "、"))
    found: list[Quantity] = []
    if not _POSSIBLE.search(whole):
        return found
    for pattern, reader in _RULES:
        pieces, at = [], 0
        for match in pattern.finditer(rest):
            quantity = reader(match.groupdict())
            if quantity is None:
                continue
            found.append(replace(quantity, text=match.group().strip(), start=match.start()))
            pieces += [rest[at : match.start()], "\x00" * (match.end() - match.start())]
            at = match.end()
        rest = "".join([*pieces, rest[at:]])
    return _ranges(
        sorted(found, key=lambda q: q.start), unicodedata.normalize("NFKC", text.replace("，", "、"))
    )


_BETWEEN = re.compile(r"\s*(?:[-–—~至到]|to|and|or|或|、)\s*", re.IGNORECASE)


def _ranges(found: list[Quantity], text: str) -> list[Quantity]:
    """5 至 10 天, 5–10 days: the first number has the second one's unit."""
    for at in range(len(found) - 2, -1, -1):
        first, second = found[at], found[at + 1]
        gap = text[first.start + len(first.text) : second.start]
        united = second.kind in ("percent", "money", "duration", "measure") and isinstance(
            second.value, Fraction
        )
        if first.kind != "number" or not united or not _BETWEEN.fullmatch(gap):
            continue
        assert isinstance(second.value, Fraction)
        # 从1970年的75%, "1970 to 55 %": what falls is seldom a range, and 1970 % never.
        if first.amount is not None and second.amount and first.amount <= second.amount:
            value = first.amount * second.value / second.amount
            found[at] = replace(first, kind=second.kind, unit=second.unit, value=value)
    return found


# --- readers: the named groups of a match become a quantity ---------------------------------------------------------


def _whole(text: str | None) -> int | None:
    value = numerals.read(text) if text else None
    return int(value) if value is not None and value.denominator == 1 else None


def _date(groups: Groups) -> Quantity | None:
    month = groups.get("m")
    number = (MONTHS.get(month.lower()) or _whole(month)) if month else None
    day = _whole(groups.get("d"))
    if (month and not 1 <= (number or 0) <= 12) or not 1 <= (1 if day is None else day) <= 31:
        return None
    return Quantity("date", (_whole(groups.get("y")), number, day))


def _slashed(groups: Groups) -> Quantity | None:
    """3/1/2024 is month first, day first where the first is above 12, and either where both could be months."""
    first, second = _whole(groups["a"]) or 0, _whole(groups["b"]) or 0
    month, day = (second, first) if first > 12 else (first, second)
    date = _date({"y": groups["y"], "m": str(month), "d": str(day)})
    return replace(date, unit="either") if date and first <= 12 and second <= 12 else date


_LATE = ("下午", "晚上", "傍晚", "晚", "pm")
_PARTS = {"半": 30, "一刻": 15, "三刻": 45}


def _time(groups: Groups) -> Quantity | None:
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


def _clause(groups: Groups) -> Quantity | None:
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
_ORDINALS = {word: value for value, word in enumerate(_ORDINAL_WORDS.split(), 1)}


def _ordinal(groups: Groups) -> Quantity | None:
    word = (groups.get("o") or "").lower()
    value = _ORDINALS.get(word) or _whole(re.sub(r"(?<=\d)(?:st|nd|rd|th)", "", word))
    if value is None:
        return None
    return Quantity(
        "ordinal",
        Fraction(value),
        "century" if groups.get("century") else "",
        Fraction(value),
        soft=word in _ORDINALS and not groups.get("century"),
    )


def _decade(groups: Groups) -> Quantity | None:
    """The nineties, as the number 1990; 90 where no century is said."""
    start = _whole(groups.get("start")) or max((_whole(groups.get("century")) or 1) - 1, 0) * 100
    year = Fraction(start + (_whole(groups.get("tens")) or 0))
    return Quantity("number", year, "decade", year) if year > 0 else None


_PARTS_EN = {"third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}


def _part(groups: Groups) -> Quantity | None:
    """Two-thirds, a quarter of. A single fifth may be the fifth of several."""
    over, under = numerals.read(groups["over"] or ""), _PARTS_EN[(groups["part"] or "").lower()]
    if not over or over >= under:
        return None
    return Quantity("number", over / under, "", over / under, soft=over == 1)


def _percent(factor: Fraction) -> Reader:
    def reader(groups: Groups) -> Quantity | None:
        value = numerals.read(groups["v"] or "")
        return None if value is None else Quantity("percent", value * factor, "", value)

    return reader


def _fraction(groups: Groups) -> Quantity | None:
    of = groups["of"] or ""
    over, under = numerals.read(groups["v"] or ""), numerals.read(f"一{of}" if of in "百千" else of)
    if over is None or not under:
        return None
    if under in (100, 1000):
        return Quantity("percent", over * 100 / under, "", over)
    return Quantity("number", over / under, "", over / under)


_SCALES = {"k": 10**3, "m": 10**6, "bn": 10**9}


def _money(groups: Groups) -> Quantity | None:
    value = numerals.read(groups["v"] or "")
    sign = (groups.get("sign") or "").lower()
    currency = MONEY.get(sign) or MONEY.get(sign.rstrip("s"), "")
    scale = _SCALES.get((groups.get("scale") or "").lower(), 1)  # £30m
    return None if value is None else Quantity("money", value * scale, currency, value)


def _measure(groups: Groups) -> Quantity | None:
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


def _each(groups: Groups) -> Quantity | None:
    kind, unit, factor = EN_UNITS[(groups["u"] or "").lower()]
    return Quantity(kind, factor, unit, Fraction(1), soft=True)


def _count(groups: Groups) -> Quantity | None:
    """A bare or counted number; 一个 and "one" are articles more often than counts."""
    surface = groups["v"] or ""
    value = None if surface.lower() in ("一", "one") else numerals.read(surface)
    return None if value is None else Quantity("number", value, "", value)


_NUMBERED = re.compile(r"[A-Z]?[a-z]{4,}-(\d{1,3})")


def _identifier(groups: Groups) -> Quantity | None:
    """A code is one thing; "oxygen-18" is a word and its number (氧-18)."""
    numbered = _NUMBERED.fullmatch(groups["v"] or "")
    if numbered:
        return Quantity("number", Fraction(numbered[1]), "", Fraction(numbered[1]))
    return Quantity("identifier", (groups["v"] or "").lower())


# --- rules, in this order, each on what the earlier ones left -------------------------------------------------------


def _any(surfaces: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(surfaces, key=len, reverse=True))


_NUMERAL = rf"(?:{numerals.ARABIC}|{numerals.HAN}|{numerals.ENGLISH})"
_V = rf"(?P<v>{_NUMERAL})"
_AGAIN = rf"(?:\s*\(\s*{_NUMERAL}\s*\))?"  # fifteen (15) days
_ABOUT = r"\s*[多余来]?\s*"
_LATIN = "[A-Za-z0-9_]"
_SMALL = r"(?:\d{1,2}|[一二三四五六七八九十]{1,3})"

_Y = r"(?P<y>[12]\d{3})"
_ZH_Y = r"(?<!\d)(?P<y>[12]\d{3}|[一二][〇零○一二三四五六七八九]{3})"
_ZH_DAY = rf"\s*(?P<d>{_SMALL})\s*[日号]"
_EN_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
# Capitals only: "may" and "march" are verbs.
_MONTH = rf"(?P<m>(?-i:{_any(month.title() for month in MONTHS)}))\b\.?"
_IN_MONTH = "|".join(
    rf"(?<=\b{word} )"
    for word in (
        "in",
        "by",
        "of",
        "until",
        "from",
        "since",
        "for",
        "during",
        "last",
        "this",
        "next",
        "early",
        "late",
    )
)

_DATES: tuple[tuple[str, Reader], ...] = (
    (rf"(?<![A-Za-z0-9_.]){_Y}(?P<s>[-/.])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}})(?!\d)", _date),
    (rf"(?<![\d/])(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})/{_Y}(?!\d)", _slashed),
    (rf"{_ZH_Y}\s*年(?![间级龄代])(?:\s*(?P<m>{_SMALL})\s*月(?:{_ZH_DAY})?)?", _date),
    (rf"(?<![\d个])(?P<m>{_SMALL})\s*月(?:份|{_ZH_DAY})?", _date),
    (rf"\b{_EN_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_Y}\b)?", _date),
    (rf"\b{_MONTH}\s+{_EN_DAY}\b(?![:\d])(?:,?\s+{_Y}\b)?", _date),
    (rf"\b{_MONTH},?\s+{_Y}\b", _date),
    (rf"(?:{_IN_MONTH}){_MONTH}", _date),
    (rf"\b(?P<m>(?-i:{_any(month.title() for month in MONTHS if len(month) > 5)}))\b", _date),
    (rf"(?<![A-Za-z0-9_-]){_Y}-(?P<m>0[1-9]|1[0-2])(?![\d-])", _date),
    (
        r"(?:(?P<century>\d+|[一二三四五六七八九十]+)世纪)?(?P<tens>[1-9]0|[一二三四五六七八九]十)年代",
        _decade,
    ),
    (r"(?<![A-Za-z0-9_])(?P<start>[12]\d{2}0)(?:s\b|年代)", _decade),
)

_DIALLED = (
    r"\d{3,4}-\d{3,4}-\d{4}|\d{3,4}-\d{6,8}(?:-\d+)?|\d+(?:\.\d+){2,}|\d{9,}"  # telephones, versions, ids
)
_HALF_DAY = r"(?P<ap>上午|下午|晚上|早上|凌晨|中午|傍晚|晚|早)\s*"
_AM_PM = r"(?P<ap>[ap]\.?m\b\.?)"
_CLOCK = r"(?<![\d:.])(?P<h>\d{1,2}):(?P<min>\d{2})(?::\d{2})?(?![\d:])"
_PAST = rf"(?:整|钟|(?P<part>半|一刻|三刻)|(?P<min>{_SMALL})分)"

_TIMES: tuple[tuple[str, Reader], ...] = (
    (rf"(?<![A-Za-z0-9_.])(?P<v>{_DIALLED})(?![A-Za-z0-9_])", _identifier),
    (r"(?<!\d)(?P<h>\d{1,2})\s*分\s*(?P<min>\d{2})\s*秒", _time),  # 4 分 51 秒 is 4:51
    (rf"{_CLOCK}\s*{_AM_PM}", _time),
    (rf"(?:{_HALF_DAY})?{_CLOCK}", _time),
    (rf"{_HALF_DAY}(?P<h>{_SMALL})\s*[点时]{_PAST}?", _time),
    (rf"(?P<h>{_SMALL})\s*[点时]{_PAST}", _time),
    (r"(?<![\d.])(?P<h>\d{1,2})\s*(?:点(?!\d)|时(?![候间期代]))", _time),
    (rf"(?<![\d.:])(?P<h>\d{{1,2}})\s*(?:{_AM_PM}|o'?clock)", _time),
)

_ZH_N = r"(?P<n>\d+(?:\.\d+)*(?:\s*\([a-z0-9]{1,4}\))?|[零〇一二两三四五六七八九十百千]+)"
_EN_N = r"(?P<n>\d+(?:\.\d+)*(?:\s?\([a-z0-9]{1,4}\))?)(?![\d%])"
_CITED = r"(?P<u>\b(?:article|section|clause|chapter|paragraph|page|step|sec\.|art\.)|§)(?:s\b|§)?\s*"
_CENTURY = r"(?:\s+(?P<century>century|centuries))?"

_PLACES: tuple[tuple[str, Reader], ...] = (
    (rf"第\s*{_ZH_N}\s*(?P<u>[条款项章节编页步])?", _clause),
    (_CITED + _EN_N, _clause),
    (r"\bQ(?P<o>[1-4])\b", _ordinal),
    (r"(?P<o>\d+|[一二三四五六七八九十]+)(?P<century>世纪)", _ordinal),
    (rf"(?<!\w)(?P<o>\d+(?:st|nd|rd|th)|(?:{_any(_ORDINALS)}))\b{_CENTURY}", _ordinal),
)

_PERCENT = r"%|percent\b|per\s?cent\b|pct\b|个?百分点|percentage points?"
_AMBIGUOUS = ("元", "圆", "块钱", "dollar", "euro", "pound")
_BEFORE = rf"(?P<sign>{_any(sign for sign in MONEY if sign not in _AMBIGUOUS)})\s*"
_AFTER = (
    rf"(?P<sign>(?:{_any(sign for sign in MONEY if sign.isalpha())})(?:(?<=[a-z])s)?)(?![A-Za-z旦素月宵组件])"
)
_ZH_UNIT = rf"(?P<u>{_any(ZH_UNITS)})(?![级代龄津])"
_EN_LONG = _any(unit for unit in EN_UNITS if len(unit) > 1)
_EN_UNIT = rf"(?P<u>(?:{_EN_LONG})(?![A-Za-z])|(?-i:[mghlL])(?![A-Za-z]))"
_KIND_OF = r"(?:(?:calendar|consecutive|full|whole|paid|natural|additional|further|extra|more|annual)[\s-]+)*"
_SPANS = _any(unit for unit, known in EN_UNITS.items() if known[0] == "duration" and len(unit) > 1)
# A Han numeral without a unit counts only when it is more than one character and has a place (十五, 三百, 三点五万).
_BARE_HAN = (
    r"[一二三四五六七八九]?十[一二三四五六七八九](?!分)|[一二两三四五六七八九]十"
    r"|[一二两三四五六七八九十][百千万亿][零一二两三四五六七八九十百千万亿]*"
    r"|[一二三四五六七八九]点[零一二三四五六七八九]+[万亿]*"
)

_AMOUNTS: tuple[tuple[str, Reader], ...] = (
    (rf"(?P<of>{numerals.HAN}|百|千|\d+)\s*分\s*之\s*{_V}", _fraction),
    (
        rf"\b(?P<over>an?|{_any(numerals.SMALL)})[\s-]+(?P<part>{_any(_PARTS_EN)})s?\b(?![\s-]+(?:of\s+)?(?:the\s+)?(?:century|time|place|party|quarter|person|world))",
        _part,
    ),
    (rf"{_V}\s*(?:{_PERCENT})", _percent(Fraction(1))),
    (rf"{_V}\s*‰", _percent(Fraction(1, 10))),
    (rf"{_V}成(?![员为立功本长果就熟人效交分都])", _percent(Fraction(10))),
    (rf"{_BEFORE}{_V}(?:(?P<scale>m|bn|k)\b)?(?:\s*(?:元|yuan))?", _money),
    (rf"{_V}{_ABOUT}{_AFTER}", _money),
    (rf"(?<!{_LATIN})(?P<v>[A-Za-z]+[-_.]?\d{_LATIN}*(?:[-_.]{_LATIN}*\d{_LATIN}*)*)", _identifier),
    (rf"(?<![几数]){_V}{_AGAIN}{_ABOUT}个?(?P<half>半)?\s*{_ZH_UNIT}(?P<tail>半)?", _measure),
    (rf"(?P<half>半)个?{_ZH_UNIT}", _measure),
    (
        rf"{_V}{_AGAIN}(?P<half>\s+and\s+an?\s+half)?[\s-]*{_KIND_OF}{_EN_UNIT}(?P<tail>\s+and\s+a\s+half)?",
        _measure,
    ),
    (rf"\b(?:a\s+)?(?P<half>half)[\s-]+(?:an?\s+)?(?P<u>{_EN_LONG})(?![A-Za-z])", _measure),
    (rf"\b(?:an?|per|each|every)\s+(?P<u>{_SPANS})(?![A-Za-z])", _each),
    (rf"{_V}{_AGAIN}{_ABOUT}[{COUNTERS}]", _count),
    (rf"(?<![A-Za-z0-9_.,])(?P<v>\d+[A-Za-z]{_LATIN}*)", _identifier),
    (rf"(?P<v>{numerals.ARABIC}|{numerals.ENGLISH}|{_BARE_HAN})", _count),
)

# Most sentences hold no number at all: one look instead of forty.
_POSSIBLE = re.compile(
    rf"[\d零〇○一二两三四五六七八九十半壹贰叁肆伍陆柒捌玖拾]|\b(?:half|an?|per|each|every|{_any(_ORDINALS)})\b"
    rf"|{numerals.ENGLISH}|{_MONTH}",
    re.IGNORECASE,
)
_RULES: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reader)
    for pattern, reader in (*_DATES, *_TIMES, *_PLACES, *_AMOUNTS)
)
