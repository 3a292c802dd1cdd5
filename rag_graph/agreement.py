"""Do two quantities say the same? A claim is held against what its evidence states. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from rag_graph import numerals
from rag_graph.numbers import Quantity, quantities

__all__ = ["agrees", "missing", "stated"]

_LOOSE = re.compile(
    r"(?P<han>[二两三四五六七八九十])|\b(?P<roman>II|III|IV|VI|VII|VIII|IX|XI|XII|XIII)\b|\b(?P<one>one|once|single)\b"
)
_ROMAN = {"II": 2, "III": 3, "IV": 4, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "XI": 11, "XII": 12, "XIII": 13}


def stated(text: str) -> list[Quantity]:
    """What `text` says when it is evidence: its quantities, and numbers no claim is held to (两车道, World War II).

    A numeral of one character is part of a word more often than not, so a claim need not prove it; a passage that
    has it does say so.
    """
    found = quantities(text)
    for match in _LOOSE.finditer(unicodedata.normalize("NFKC", text)):
        value = _ROMAN.get(match["roman"] or "") or (1 if match["one"] else numerals.read(match["han"]))
        if value:
            found.append(
                Quantity(
                    "number", Fraction(value), "", Fraction(value), match.group(), match.start(), soft=True
                )
            )
    return found


def agrees(claim: Quantity, evidence: Quantity) -> bool:
    """Does `evidence` say what `claim` says? A claim may be less exact than its evidence, never more."""
    if claim.kind == "date" or evidence.kind == "date":
        return _same_date(claim, evidence)
    if claim.kind == "time" and evidence.kind == "time":
        return _same_time(claim, evidence)
    if claim.unit == evidence.unit == "decade":
        return _same_decade(claim, evidence)
    if claim.kind == evidence.kind:
        return claim.value == evidence.value and (claim.unit == evidence.unit or claim.kind == "ordinal")
    loose = {"number", "ordinal"}
    if claim.kind in loose or evidence.kind in loose:
        if "clause" in (claim.kind, evidence.kind):
            return _digits(claim) == _digits(evidence)
        return claim.amount is not None and claim.amount == evidence.amount
    return False


def missing(claims: Sequence[Quantity], evidence: Sequence[Quantity]) -> list[Quantity]:
    """The claims that no evidence states. A date may be put together: 3月1日 in one place, its year in another."""
    years = {q.value[0] for q in evidence if isinstance(q.value, tuple)}
    years |= {
        int(q.amount) for q in evidence if q.kind == "number" and q.amount and q.amount.denominator == 1
    }
    return [
        claim
        for claim in claims
        if not claim.soft
        and not any(agrees(claim, known) for known in evidence)
        and not (
            _year_elsewhere(claim, years) and any(agrees(_without_year(claim), known) for known in evidence)
        )
    ]


def _year_elsewhere(claim: Quantity, years: set[int | None]) -> bool:
    return isinstance(claim.value, tuple) and claim.value[1] is not None and claim.value[0] in years


def _without_year(claim: Quantity) -> Quantity:
    assert isinstance(claim.value, tuple)
    return replace(claim, value=(None, *claim.value[1:]))


def _same_date(claim: Quantity, evidence: Quantity) -> bool:
    left, right = claim.value, evidence.value
    if isinstance(left, tuple) and isinstance(right, tuple):
        others = [right]
        if evidence.unit == "either" or claim.unit == "either":
            others.append((right[0], right[2], right[1]))
        return any(
            all(mine is None or mine == theirs for mine, theirs in zip(left, other, strict=True))
            for other in others
        )
    date, other = (left, evidence) if isinstance(left, tuple) else (right, claim)
    assert isinstance(date, tuple)
    if date[1] is None:
        return other.kind in ("number", "ordinal") and other.amount == date[0]
    # 每月15日, the 15th: a day of the month that the evidence names in full.
    day = other.kind == "ordinal" or other.text.endswith(("日", "号"))
    return other is claim and day and other.amount == date[2]


def _same_time(claim: Quantity, evidence: Quantity) -> bool:
    left, right = claim.value, evidence.value
    assert isinstance(left, Fraction)
    assert isinstance(right, Fraction)
    half_day = 720 if "either" in (claim.unit, evidence.unit) else 1440
    return left % half_day == right % half_day


def _same_decade(claim: Quantity, evidence: Quantity) -> bool:
    left, right = claim.amount or Fraction(0), evidence.amount or Fraction(0)
    return left == right if min(left, right) >= 100 else left % 100 == right % 100


def _digits(quantity: Quantity) -> str:
    if isinstance(quantity.value, str):
        return quantity.value
    return "" if quantity.amount is None else re.sub(r"[^\d.]", "", quantity.text) or str(quantity.amount)
