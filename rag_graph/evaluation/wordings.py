"""The same number, measure or date written otherwise, in Chinese and English. Pure."""

import re
from collections.abc import Callable
from decimal import Decimal

__all__ = ["MONTH_NAMES", "date_forms", "number_forms", "unit_forms"]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTH_NAMES = "|".join(MONTHS)

_DIGITS = "零一二三四五六七八九"
_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip


def _han(number: int) -> str:
    """1 to 9,999 in Chinese numerals: 15 is 十五, 203 is 二百零三."""
    said = ""
    for place, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, number = divmod(number, place)
        if digit:
            said += _DIGITS[digit] + name
        elif said and number and not said.endswith("零"):
            said += "零"
    return said[1:] if said.startswith("一十") else said


def _replaced(text: str, pattern: str, form: Callable[[re.Match[str]], str]) -> list[str]:
    """`text` with one match at a time in another form; "" from `form` leaves that match out."""
    made = []
    for match in re.finditer(pattern, text):
        new = form(match)
        if new:
            made.append(text[: match.start()] + new + text[match.end() :])
    return made


def number_forms(text: str) -> list[str]:
    """Digits as words, words as digits, 万 as zeros, percent in its other forms."""
    return [
        *_replaced(text, r"(?<![\d.,年月A-Za-z-])\d{1,4}(?=[个名人位次份台项种件家天米层座倍])",
                   lambda m: _han(int(m.group()))),
        *_replaced(text, r"(?<![一二三四五六七八九十百千万第零〇第])[二三四五六七八九](?=[个名位次份台种件家座]\B)",
                   lambda m: str(_DIGITS.index(m.group()))),
        *_replaced(text, r"(?<![\d.,])(\d{1,4})万(?![\d亿分一])", lambda m: f"{int(m[1]) * 10_000:,}"),
        *_replaced(text, r"(?<![\d.,])(\d+(?:\.\d+)?)%(?=.*[\u4e00-\u9fff])", lambda m: f"百分之{m[1]}"),
        *_replaced(text, r"(?<![\d.,])(\d+(?:\.\d+)?)(?:%| percent\b)(?!.*[\u4e00-\u9fff])",
                   lambda m: f"{m[1]} per cent"),
        *_replaced(text, r"(?<![\d.,$£€-])([2-9]|1[0-2])(?= [a-z]{3,})", lambda m: _WORDS[int(m[1])]),
        *_replaced(text, r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?= [a-z]{3,}s\b)",
                   lambda m: str(_WORDS.index(m.group()))),
        *_replaced(text, r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d.])", lambda m: m.group().replace(",", "")),
        *_replaced(text, r"(?<![\d.,])(\d+(?:\.\d+)?) million\b", lambda m: f"{Decimal(m[1]) * 1_000_000:,.0f}"),
    ]  # fmt: skip


_UNITS = (
    ("公里|千米", 1_000, "米"), ("(?<![平立厘毫千])米(?!的?[粉饭])", 100, "厘米"), ("小时", 60, "分钟"),
    ("吨", 1_000, "公斤"),
    ("公斤|千克", 1_000, "克"), ("平方公里|平方千米", 100, "公顷"), ("个?(?:星期|周)(?!年|[一二三四五六日])", 7, "天"),
    ("kilometres|kilometers|km", 1_000, "metres"), ("metres|meters|m", 100, "cm"), ("hours", 60, "minutes"),
    ("weeks", 7, "days"), ("tonnes|metric tons", 1_000, "kg"), ("kilograms|kg", 1_000, "grams"),
    ("decades", 10, "years"),
)  # fmt: skip


def unit_forms(text: str) -> list[str]:
    """The same measure in a smaller unit: 3 km is 3,000 metres, 两小时 is 120 分钟."""
    made = []
    for unit, factor, smaller in _UNITS:
        edge = r"\b" if smaller.isascii() else ""
        # The end of a range stays: "3 to 5 km" is not 3 to 5,000 metres.
        before = r"(?<![\d.,–~至到$£€-])(?<!\d to )(?<!\d and )(?<!\d or )(?<![a-z] to )"
        pattern = rf"{before}(\d[\d,]*(?:\.\d+)?)\s?(?:{unit}){edge}"
        gap = " " if smaller.isascii() else ""

        def form(match: re.Match[str], factor: int = factor, after: str = gap + smaller) -> str:
            value = Decimal(match[1].replace(",", "")) * factor
            return f"{value.normalize():,f}{after}"

        made += _replaced(text, pattern, form)
    return made


def date_forms(text: str) -> list[str]:
    """The same date in another order or by numbers alone."""
    return [
        *_replaced(text, r"(?<!\d)(\d{4})年(\d{1,2})月(\d{1,2})日", lambda m: f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}"),
        *_replaced(text, r"(?<!\d)(\d{4})年(\d{1,2})月(\d{1,2})日", lambda m: f"{m[1]}/{m[2]}/{m[3]}"),
        *_replaced(text, r"(?<!\d)(\d{4})年(\d{1,2})月(?!\d)", lambda m: f"{m[1]}-{int(m[2]):02}"),
        *_replaced(text, rf"({MONTH_NAMES}) (\d{{1,2}}), (\d{{4}})", lambda m: f"{m[2]} {m[1]} {m[3]}"),
        *_replaced(text, rf"({MONTH_NAMES}) (\d{{1,2}}), (\d{{4}})",
                   lambda m: f"{m[3]}-{MONTHS.index(m[1]) + 1:02}-{int(m[2]):02}"),
        *_replaced(text, rf"(\d{{1,2}}) ({MONTH_NAMES}) (\d{{4}})", lambda m: f"{m[2]} {m[1]}, {m[3]}"),
        *_replaced(text, rf"({MONTH_NAMES}) (\d{{1,2}})(?!\d|,? \d{{4}})", lambda m: f"{m[2]} {m[1]}"),
    ]  # fmt: skip
