"""Word's automatic numbers: "3.2", "第三条", "(a)" stand in no text, only in a numbering definition. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Level", "Numbering"]

LEVELS = 9
_HANZI = "零一二三四五六七八九"
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
          (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a list: how its number looks (`%1.%2`), which digits, where it starts."""

    format: str = "decimal"
    text: str = "%1."
    start: int = 1


@dataclass(slots=True)
class Numbering:
    """Counts as Word does: lists of one definition go on counting, a deeper level begins anew below each number.

    `lists` maps a list to its definition, `definitions` a definition to its levels, `restarts` (list, level) to
    where that list begins of its own.
    """

    lists: Mapping[str, str]
    definitions: Mapping[str, Mapping[int, Level]]
    restarts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _counts: dict[str, list[int | None]] = field(default_factory=dict)
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def label(self, number: str, depth: int) -> str | None:
        """The next label of list `number` at `depth` (from 0): "" for a bullet, None where there is no such list."""
        definition = self.lists.get(number)
        levels = self.definitions.get(definition or "")
        if definition is None or levels is None:
            return None
        depth = min(max(depth, 0), LEVELS - 1)
        level = levels.get(depth, Level())
        counts = self._counts.setdefault(definition, [None] * LEVELS)
        self._step(counts, number, depth, level)
        if level.format in ("bullet", "none"):
            return "" if level.format == "bullet" else None

        def digits(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            other = levels.get(at, Level())
            count = counts[at]
            return shown(other.start if count is None else count, other.format)

        return re.sub(r"%([1-9])", digits, level.text).strip()

    def _step(self, counts: list[int | None], number: str, depth: int, level: Level) -> None:
        restart = self.restarts.get((number, depth))
        before = counts[depth]
        if restart is not None and (number, depth) not in self._seen:
            counts[depth] = restart
        else:
            counts[depth] = level.start if before is None else before + 1
        self._seen.add((number, depth))
        counts[depth + 1 :] = [None] * (LEVELS - depth - 1)


def shown(value: int, form: str) -> str:
    """A number in Word's number format; plain digits for formats that are rare."""
    return _FORMS.get(form, str)(value)


def _roman(value: int) -> str:
    out = ""
    for step, letters in _ROMAN:
        out += letters * (value // step)
        value %= step
    return out


def _letters(value: int) -> str:
    return chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1) if value > 0 else ""


def _chinese(value: int) -> str:
    """1 to 9999 as 一 … 九千九百九十九."""
    if not 0 < value < 10_000:
        return str(value)
    out, zero = "", False
    for power, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, power)
        if digit:
            out += ("零" if zero and out else "") + _HANZI[digit] + unit
        zero = not digit
    return out.removeprefix("一") if out.startswith("一十") else out


def _circled(value: int) -> str:
    return chr(0x2460 + value - 1) if 1 <= value <= 20 else str(value)


_FORMS: Mapping[str, Callable[[int], str]] = {
    "decimalZero": lambda value: f"{value:02}",
    "upperRoman": lambda value: _roman(value).upper(),
    "lowerRoman": _roman,
    "upperLetter": lambda value: _letters(value).upper(),
    "lowerLetter": _letters,
    "chineseCounting": _chinese,
    "chineseCountingThousand": _chinese,
    "taiwaneseCounting": _chinese,
    "taiwaneseCountingThousand": _chinese,
    "japaneseCounting": _chinese,
    "ideographDigital": lambda value: "".join(_HANZI[int(digit)] for digit in str(value)),
    "decimalEnclosedCircle": _circled,
    "decimalEnclosedCircleChinese": _circled,
}
