"""Pictures of measurements as SVG: lines and bars, small enough to be read on a phone. Pure.

Colours are attributes, so that a file on its own looks right anywhere, and classes (`ground`, `grid`, `ink`, `s0` …),
so that a page's style sheet may set others, for a dark screen say.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Axis", "bars", "lines"]

# Of a width that a phone shows without making letters much smaller.
_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 440, 46, 14, 34, 190
_LEGEND = 17
FEW = 6  # values that are written below an axis as they are
_COLOURS = ("#0b6e99", "#b3400a", "#3f7d20", "#7b4ab0", "#8a6d00", "#5b6770")
_MARKS = ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-4,-4h8v8h-8z", "M0,-5l5,9h-10z", "M0,-5l5,5l-5,5l-5,-5z")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """`ticks` are values that are written; `log` spaces powers of ten evenly. `unit` stands behind each tick."""

    label: str
    ticks: Sequence[float] = ()
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = (math.log(max(one, 1e-9)) for one in (low, high, value))
        share = (value - low) / ((high - low) or 1.0)
        return round(self.start + share * (self.end - self.start), 1)


def lines(
    title: str,
    series: Mapping[str, Points],
    x: Axis,
    y: Axis,
    *,
    limit: tuple[str, float] | None = None,
    knees: Mapping[str, float] | None = None,
) -> str:
    """A line for each of `series`; `limit` is a named value across, `knees` rings a line's point at that x.

    Without ticks an axis has those of its values' range. Lines differ by mark as well as by colour.
    """
    xs = sorted({at for points in series.values() for at, _ in points}) or [0.0]
    ys = [value for points in series.values() for _, value in points] + ([limit[1]] if limit else [])
    across = x.ticks or (xs if len(xs) <= FEW else _steps(max(xs)))
    up = y.ticks or (_powers(ys) if y.log else _steps(max(ys, default=1.0)))
    height = _TOP + _PLOT + 44 + _LEGEND * (len(series) + bool(knees))
    right, down = _WIDTH - _RIGHT, _TOP + _PLOT
    to_x = _Scale(min(*across, *xs), max(*across, *xs), _LEFT + 8, right - 8, x.log)
    to_y = _Scale(min(up), max(*up, *ys) if ys else max(up), down, _TOP, y.log)
    out = [_opened(title, height)]
    for value in up:
        at = to_y.at(value)
        out.append(_across(at, "grid"))
        out.append(_text(_LEFT - 6, at + 4, f"{_number(value)}{y.unit}", "end"))
    out += [_text(to_x.at(value), down + 16, f"{_number(value)}{x.unit}", "middle") for value in across]
    out.append(_text((_LEFT + right) / 2, down + 34, x.label, "middle"))
    if limit:
        at = to_y.at(limit[1])
        out.append(_across(at, "limit"))
        out.append(_text(right, at - 5, limit[0], "end", "limit"))
    for number, (name, points) in enumerate(series.items()):
        placed = [(to_x.at(at), to_y.at(value)) for at, value in sorted(points)]
        knee = (knees or {}).get(name)
        ringed = [(to_x.at(at), to_y.at(value)) for at, value in points if at == knee]
        out += _drawn(number, placed, ringed)
        out += _legend(number, name, down + 50 + _LEGEND * number)
    if knees:
        at = down + 54 + _LEGEND * len(series)
        out.append(_text(_LEFT, at, "ringed: the knee, beyond which more costs more than it brings"))
    return "\n".join([*out, "</svg>"]) + "\n"


def bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], unit: str = "") -> str:
    """A group for each of `rows`, a name and its values, each a bar with its name and number beside it."""
    most = max((value for _, values in rows for _, value in values), default=0.0) or 1.0
    tall, gap, start = 17, 14, 150
    out: list[str] = []
    at = _TOP + 2
    for name, values in rows:
        out.append(_text(4, at + 13, name, weight="600"))
        for number, (label, value) in enumerate(values):
            width = round((_WIDTH - start - 84) * value / most, 1)
            out.append(_text(start - 8, at + 13, label, "end"))
            size = f'x="{start}" y="{at + 2}" width="{max(width, 1)}" height="{tall - 5}"'
            out.append(f'<rect class="s{number} bar" {size} rx="2" fill="{_colour(number)}"/>')
            out.append(_text(start + max(width, 1) + 6, at + 13, f"{_number(value)}{unit}"))
            at += tall
        at += gap
    return "\n".join([_opened(title, at), *out, "</svg>"]) + "\n"


# --- parts ------------------------------------------------------------------------------------------------------------


def _opened(title: str, height: float) -> str:
    name = escape(title, quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}" '
        f'font-family="sans-serif" font-size="12"><title>{name}</title>'
        f'<rect class="ground" width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
        f"{_text(4, 16, title, weight='600')}"
    )


_INK: Mapping[str, str] = {"ink": "#222222", "grid": "#d9d9d9", "limit": "#b00020"}


def _text(
    x: float, y: float, text: str, anchor: str = "start", kind: str = "ink", weight: str = "400"
) -> str:
    where = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where} fill="{_INK[kind]}" font-weight="{weight}">{escape(text)}</text>'


def _across(y: float, kind: str) -> str:
    """A line over the whole plot, dashed where it is a limit."""
    dashes = ' stroke-dasharray="5 4"' if kind == "limit" else ""
    where = f'x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}"'
    return f'<line class="{kind}" {where} stroke="{_INK[kind]}"{dashes}/>'


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _drawn(number: int, placed: Points, ringed: Points) -> list[str]:
    colour = _colour(number)
    path = " ".join(f"{x},{y}" for x, y in placed)
    out = [
        f'<polyline class="s{number} stroke" points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    ]
    out += [_mark(number, x, y) for x, y in placed]
    out += [
        f'<circle class="s{number} stroke" cx="{x}" cy="{y}" r="8" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for x, y in ringed
    ]
    return out


def _mark(number: int, x: float, y: float) -> str:
    shape = f'd="{_MARKS[number % len(_MARKS)]}" transform="translate({x} {y})"'
    return f'<path class="s{number}" {shape} fill="{_colour(number)}"/>'


def _legend(number: int, name: str, y: float) -> list[str]:
    return [_mark(number, _LEFT + 4, y), _text(_LEFT + 16, y + 4, name)]


def _number(value: float) -> str:
    """Three figures, thousands in groups."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _steps(most: float) -> list[float]:
    """From 0 in four or five round steps beyond `most`."""
    if most <= 0:
        return [0.0, 1.0]
    raw = most / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    return [round(step * n, 10) for n in range(math.ceil(most / step) + 1)]


def _powers(values: Sequence[float]) -> list[float]:
    """1, 3, 10, 30 … around `values`."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    found = [factor * 10.0**power for power in range(low, max(high, low + 1)) for factor in (1, 3)]
    return [value for value in found if value * 3.4 > min(positive)] + [10.0 ** max(high, low + 1)]
