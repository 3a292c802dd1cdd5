"""Numbers, dates and units in Chinese and English text, in one comparable form. Pure.

十五天 = 15 days, 3 万元 = ¥30,000, 百分之五 = 5 %, 半年 = 6 个月, 2024年3月1日 = 1 March 2024, 第三条 = Article 3.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from rag_graph import numerals, readers
from rag_graph.readers import Date, Quantity, Reader
from rag_graph.units import COUNTERS, EN_UNITS, MONEY, MONTHS, ZH_UNITS

__all__ = ["Date", "Quantity", "quantities"]


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
    return _ranges(sorted(found, key=lambda q: q.start), whole)


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
    (rf"(?<![A-Za-z0-9_.]){_Y}(?P<s>[-/.])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}})(?!\d)", readers.date),
    (rf"(?<![\d/])(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})/{_Y}(?!\d)", readers.slashed),
    (rf"{_ZH_Y}\s*年(?![间级龄代])(?:\s*(?P<m>{_SMALL})\s*月(?:{_ZH_DAY})?)?", readers.date),
    (rf"(?<![\d个])(?P<m>{_SMALL})\s*月(?:份|{_ZH_DAY})?", readers.date),
    (rf"\b{_EN_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_Y}\b)?", readers.date),
    (rf"\b{_MONTH}\s+{_EN_DAY}\b(?![:\d])(?:,?\s+{_Y}\b)?", readers.date),
    (rf"\b{_MONTH},?\s+{_Y}\b", readers.date),
    (rf"(?:{_IN_MONTH}){_MONTH}", readers.date),
    (rf"\b(?P<m>(?-i:{_any(month.title() for month in MONTHS if len(month) > 5)}))\b", readers.date),
    (rf"(?<![A-Za-z0-9_-]){_Y}-(?P<m>0[1-9]|1[0-2])(?![\d-])", readers.date),
    (
        r"(?:(?P<century>\d+|[一二三四五六七八九十]+)世纪)?(?P<tens>[1-9]0|[一二三四五六七八九]十)年代",
        readers.decade,
    ),
    (r"(?<![A-Za-z0-9_])(?P<start>[12]\d{2}0)(?:s\b|年代)", readers.decade),
)

_DIALLED = (
    r"\d{3,4}-\d{3,4}-\d{4}|\d{3,4}-\d{6,8}(?:-\d+)?|\d+(?:\.\d+){2,}|\d{9,}"  # telephones, versions, ids
)
_HALF_DAY = r"(?P<ap>上午|下午|晚上|早上|凌晨|中午|傍晚|晚|早)\s*"
_AM_PM = r"(?P<ap>[ap]\.?m\b\.?)"
_CLOCK = r"(?<![\d:.])(?P<h>\d{1,2}):(?P<min>\d{2})(?::\d{2})?(?![\d:])"
_PAST = rf"(?:整|钟|(?P<part>半|一刻|三刻)|(?P<min>{_SMALL})分)"

_TIMES: tuple[tuple[str, Reader], ...] = (
    (rf"(?<![A-Za-z0-9_.])(?P<v>{_DIALLED})(?![A-Za-z0-9_])", readers.identifier),
    (r"(?<!\d)(?P<h>\d{1,2})\s*分\s*(?P<min>\d{2})\s*秒", readers.time),  # 4 分 51 秒 is 4:51
    (rf"{_CLOCK}\s*{_AM_PM}", readers.time),
    (rf"(?:{_HALF_DAY})?{_CLOCK}", readers.time),
    (rf"{_HALF_DAY}(?P<h>{_SMALL})\s*[点时]{_PAST}?", readers.time),
    (rf"(?P<h>{_SMALL})\s*[点时]{_PAST}", readers.time),
    (r"(?<![\d.])(?P<h>\d{1,2})\s*(?:点(?!\d)|时(?![候间期代]))", readers.time),
    (rf"(?<![\d.:])(?P<h>\d{{1,2}})\s*(?:{_AM_PM}|o'?clock)", readers.time),
)

_ZH_N = r"(?P<n>\d+(?:\.\d+)*(?:\s*\([a-z0-9]{1,4}\))?|[零〇一二两三四五六七八九十百千]+)"
_EN_N = r"(?P<n>\d+(?:\.\d+)*(?:\s?\([a-z0-9]{1,4}\))?)(?![\d%])"
_CITED = r"(?P<u>\b(?:article|section|clause|chapter|paragraph|page|step|sec\.|art\.)|§)(?:s\b|§)?\s*"
_CENTURY = r"(?:\s+(?P<century>century|centuries))?"

_PLACES: tuple[tuple[str, Reader], ...] = (
    (rf"第\s*{_ZH_N}\s*(?P<u>[条款项章节编页步])?", readers.clause),
    (_CITED + _EN_N, readers.clause),
    (r"\bQ(?P<o>[1-4])\b", readers.ordinal),
    (r"(?P<o>\d+|[一二三四五六七八九十]+)(?P<century>世纪)", readers.ordinal),
    (rf"(?<!\w)(?P<o>\d+(?:st|nd|rd|th)|(?:{_any(readers.ORDINALS)}))\b{_CENTURY}", readers.ordinal),
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
    (rf"(?P<of>{numerals.HAN}|百|千|\d+)\s*分\s*之\s*{_V}", readers.fraction),
    (
        rf"\b(?P<over>an?|{_any(numerals.SMALL)})[\s-]+(?P<part>{_any(readers.PARTS_EN)})s?\b(?![\s-]+(?:of\s+)?(?:the\s+)?(?:century|time|place|party|quarter|person|world))",
        readers.part,
    ),
    (rf"{_V}\s*(?:{_PERCENT})", readers.percent(Fraction(1))),
    (rf"{_V}\s*‰", readers.percent(Fraction(1, 10))),
    (rf"{_V}成(?![员为立功本长果就熟人效交分都])", readers.percent(Fraction(10))),
    (rf"{_BEFORE}{_V}(?:(?P<scale>m|bn|k)\b)?(?:\s*(?:元|yuan))?", readers.money),
    (rf"{_V}{_ABOUT}{_AFTER}", readers.money),
    (rf"(?<!{_LATIN})(?P<v>[A-Za-z]+[-_.]?\d{_LATIN}*(?:[-_.]{_LATIN}*\d{_LATIN}*)*)", readers.identifier),
    (rf"(?<![几数]){_V}{_AGAIN}{_ABOUT}个?(?P<half>半)?\s*{_ZH_UNIT}(?P<tail>半)?", readers.measure),
    (rf"(?P<half>半)个?{_ZH_UNIT}", readers.measure),
    (
        rf"{_V}{_AGAIN}(?P<half>\s+and\s+an?\s+half)?[\s-]*{_KIND_OF}{_EN_UNIT}(?P<tail>\s+and\s+a\s+half)?",
        readers.measure,
    ),
    (rf"\b(?:a\s+)?(?P<half>half)[\s-]+(?:an?\s+)?(?P<u>{_EN_LONG})(?![A-Za-z])", readers.measure),
    (rf"\b(?:an?|per|each|every)\s+(?P<u>{_SPANS})(?![A-Za-z])", readers.each),
    (rf"{_V}{_AGAIN}{_ABOUT}[{COUNTERS}]", readers.count),
    (rf"(?<![A-Za-z0-9_.,])(?P<v>\d+[A-Za-z]{_LATIN}*)", readers.identifier),
    (rf"(?P<v>{numerals.ARABIC}|{numerals.ENGLISH}|{_BARE_HAN})", readers.count),
)

# Most sentences hold no number at all: one look instead of forty.
_POSSIBLE = re.compile(
    rf"[\d零〇○一二两三四五六七八九十半壹贰叁肆伍陆柒捌玖拾]|\b(?:half|an?|per|each|every|{_any(readers.ORDINALS)})\b"
    rf"|{numerals.ENGLISH}|{_MONTH}",
    re.IGNORECASE,
)
_RULES: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reader)
    for pattern, reader in (*_DATES, *_TIMES, *_PLACES, *_AMOUNTS)
)
