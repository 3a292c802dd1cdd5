"""Numerals as people write them, read as exact fractions. Pure.

1,200 · 3 万 · 十五 · 二〇二四 · 两百万 · twenty-one · a dozen
"""

import re
from fractions import Fraction

__all__ = ["ARABIC", "ENGLISH", "HAN", "SMALL", "read"]

_DIGITS = {
    character: value
    for value, characters in enumerate(
        ("零〇○", "一壹", "二两贰", "三叁", "四肆", "五伍", "六陆", "七柒", "八捌", "九玖")
    )
    for character in characters
}
_PLACES = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}


def _values(words: str, values: range) -> dict[str, int]:
    return dict(zip(words.split(), values, strict=True))


_UNITS = _values("zero one two three four five six seven eight nine ten", range(11))
_TEENS = _values("eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen", range(11, 20))
_TENS = _values("twenty thirty forty fifty sixty seventy eighty ninety", range(20, 100, 10))
_SCALES = {
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "mn": 10**6,
    "bn": 10**9,
}
SMALL = {**_UNITS, **_TEENS, **_TENS, "a": 1, "an": 1}

_WORD = "|".join(
    sorted({*_UNITS, *_TEENS, *_TENS, "hundred", "dozen", *list(_SCALES)[:4]}, key=len, reverse=True)
)
_HAN_DIGIT = "".join(_DIGITS)
_HAN_PLACE = "".join({**_PLACES, **_MYRIADS})

ARABIC = (
    r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
    r"(?:\s?(?:[百千]?万亿|[百千十]?[万亿萬億]|[百千])|\s?(?:thousand|million|billion|trillion|mn|bn)\b|[kK](?![A-Za-z]))?"
)
# A numeral that starts with a bare scale is a word (万一, 千万别, 百分), so a digit or 十 comes first.
HAN = rf"[{_HAN_DIGIT}十拾][{_HAN_DIGIT}{_HAN_PLACE}]*(?:点[{_HAN_DIGIT}]+)?[万亿萬億]*"
ENGLISH = rf"\b(?:an?[\s-]+(?=hundred|thousand|million|billion|dozen))?(?:{_WORD})(?:[\s-]+(?:and\s+)?(?:{_WORD}))*\b"

_ARABIC = re.compile(r"([\d,]+(?:\.\d+)?)\s*(.*)", re.DOTALL)


def read(text: str) -> Fraction | None:
    """The value of one numeral in any of the three writings; None for anything else.

    A Han numeral of digits alone is read as written out (二〇二四 is 2024); 万 and 亿 multiply what stands before.
    """
    text = text.strip()
    if text[:1].isdigit() and text[0].isascii():
        return _arabic(text)
    if text[:1].isascii():
        return _english(text)
    return _han(text)


def _arabic(text: str) -> Fraction | None:
    match = _ARABIC.fullmatch(text)
    if match is None:
        return None
    value = Fraction(match[1].replace(",", ""))
    scale = match[2].lower()
    if scale in _SCALES:
        return value * _SCALES[scale]
    if scale == "k":
        return value * 1000
    for character in scale:
        factor = {**_PLACES, **_MYRIADS}.get(character)
        if factor is None:
            return None
        value *= factor
    return value


def _english(text: str) -> Fraction | None:
    total = group = 0
    for word in re.split(r"[\s-]+", text.lower()):
        if word in SMALL:
            group += SMALL[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        elif word == "dozen":
            group = max(group, 1) * 12
        elif word in _SCALES:
            total += max(group, 1) * _SCALES[word]
            group = 0
        elif word != "and":
            return None
    return Fraction(total + group)


def _han(text: str) -> Fraction | None:
    whole, _, decimals = text.partition("点")
    tail = decimals.lstrip(_HAN_DIGIT)
    decimals = decimals[: len(decimals) - len(tail)]
    value = _han_whole(whole)
    if value is None:
        return None
    number = Fraction(value)
    if decimals:
        number += Fraction(int("".join(str(_DIGITS[d]) for d in decimals)), 10 ** len(decimals))
    for character in tail:
        number *= _MYRIADS.get(character, 1)
    return number


def _han_whole(text: str) -> int | None:
    if not text or any(c not in _DIGITS and c not in _PLACES and c not in _MYRIADS for c in text):
        return None
    if len(text) > 1 and all(character in _DIGITS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text))
    total = section = digit = 0
    place = 1
    for character in text:
        if character in _DIGITS:
            digit, place = _DIGITS[character], 1 if _DIGITS[character] == 0 else place
        elif character in _PLACES:
            place = _PLACES[character]
            section, digit = section + (digit or 1) * place, 0
        else:
            place = _MYRIADS[character]
            total, section, digit = _raise(total, section + digit, place), 0, 0
    return total + section + digit * _colloquial(text, digit, place)


def _raise(total: int, section: int, place: int) -> int:
    """亿 after 万 raises everything so far (一万亿); 万 after 亿 raises the section alone (一亿零三万)."""
    return (total + section) * place if total and total < place else total + max(section, 1) * place


def _colloquial(text: str, digit: int, place: int) -> int:
    """三万五 is 35,000 and 两百五 is 250: a last digit right after a place counts tenths of it."""
    if digit and place >= 100 and len(text) > 1 and text[-2] not in _DIGITS and text[-1] in _DIGITS:
        return place // 10
    return 1
