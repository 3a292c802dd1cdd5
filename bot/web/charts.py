"""Charts as SVG, drawn by the server: numbers to a string, through one template that escapes. Pure.

A picture is 360 units wide, as a phone is, so that its letters are as large as the page's everywhere: a wide window
shows more pictures beside each other, not larger ones. Colours are classes; site.css has them for light and dark.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import jinja2
from markupsafe import Markup

__all__ = ["Chart", "Series", "number", "svg", "ticks"]

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 24
INTERVALS = 4  # at most, between the lines of the grid
MARKS = 5  # at most, dates below the picture
WIDEST_BAR = 28.0
DOTTED_UP_TO = 31  # points; more of them are a line
DASHES = ("", "6 3", "2 3")


@dataclass(frozen=True, slots=True)
class Series:
    """`values` has one for each label, None where there is nothing to say. `tone` is a colour of site.css, 1 to 5."""

    name: str
    values: tuple[float | None, ...]
    tone: int


@dataclass(frozen=True, slots=True)
class Chart:
    """`id` is unique on its page. `labels` are written below, `unit` behind each number, which has at most `digits`
    decimals. Of a `stacked` one the series add up; it shows counts, so its grid has whole numbers. `most` is the end of
    the scale where that is known."""

    id: str
    kind: Literal["line", "stacked"]
    title: str
    description: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    unit: str = ""
    digits: int = 0
    most: float | None = None

    @property
    def empty(self) -> bool:
        """Nothing happened: no number at all, or of a stacked one nothing but zeros."""
        values = [value for one in self.series for value in one.values if value is not None]
        return not values or (self.kind == "stacked" and not any(values))

    def shown(self, value: float | None) -> str:
        """A number as its table has it."""
        return "–" if value is None else number(value, self.digits) + self.unit


def number(value: float, digits: int = 0) -> str:
    """With separators, at most `digits` decimals and no zeros at the end."""
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(most: float, *, whole: bool = False) -> list[float]:
    """From 0 to at least `most`, evenly, at steps of 1, 2, 2.5 or 5 of a power of ten; whole numbers on request."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / INTERVALS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = float(max(1, math.ceil(step)))
    return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]


# --- what is drawn ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    tone: int
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    points: str
    tone: int
    dash: str


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    tone: int
    text: str


class _Plane:
    """Where values and labels lie in the picture."""

    def __init__(self, chart: Chart) -> None:
        self.lines = ticks(_most(chart), whole=chart.kind == "stacked")
        self._slot = (WIDTH - LEFT - RIGHT) / max(1, len(chart.labels))

    def x(self, place: int) -> float:
        return round(LEFT + self._slot * (place + 0.5), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.lines[-1], 1)

    @property
    def bar(self) -> float:
        return round(min(self._slot * 0.8, WIDEST_BAR), 1)


def svg(chart: Chart) -> Markup:
    """The picture, with its title and description for those who do not see it; "" where there is nothing to draw."""
    if chart.empty:
        return Markup()
    plane = _Plane(chart)
    dots = chart.kind == "line" and len(chart.labels) <= DOTTED_UP_TO
    drawn = _TEMPLATE.render(
        chart=chart,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        below=HEIGHT - 8,
        lines=[
            Line(plane.y(at), number(at, max(chart.digits, _decimals(plane.lines))) + chart.unit)
            for at in plane.lines
        ],
        marks=list(_marks(chart.labels, plane)),
        bars=list(_bars(chart, plane)) if chart.kind == "stacked" else [],
        paths=list(_paths(chart, plane)) if chart.kind == "line" else [],
        dots=list(_dots(chart, plane, every=dots)) if chart.kind == "line" else [],
    )
    return Markup(drawn)  # noqa: S704 - the template escapes


def _most(chart: Chart) -> float:
    if chart.most is not None:
        return chart.most
    columns = zip(*(one.values for one in chart.series), strict=True)
    if chart.kind == "stacked":
        return max((sum(value or 0 for value in column) for column in columns), default=0)
    return max((value for column in columns for value in column if value is not None), default=0)


def _decimals(lines: Sequence[float]) -> int:
    """As many as the grid's step needs."""
    step = lines[1]
    return 0 if step >= 1 and step == int(step) else min(3, max(1, 1 - math.floor(math.log10(step))))


def _marks(labels: Sequence[str], plane: _Plane) -> Iterator[Mark]:
    last = len(labels) - 1
    chosen = sorted({round(at * last / (MARKS - 1)) for at in range(MARKS)}) if last > 0 else [0]
    for place in chosen:
        anchor = "middle" if 0 < place < last or last == 0 else "start" if place == 0 else "end"
        yield Mark(plane.x(place), anchor, labels[place])


def _bars(chart: Chart, plane: _Plane) -> Iterator[Bar]:
    for place, label in enumerate(chart.labels):
        below = 0.0
        for one in chart.series:
            value = one.values[place] or 0
            if value:
                top = plane.y(below + value)
                height = round(plane.y(below) - top, 1)
                text = f"{label} · {one.name}: {chart.shown(value)}"
                yield Bar(round(plane.x(place) - plane.bar / 2, 1), top, plane.bar, height, one.tone, text)
            below += value


def _paths(chart: Chart, plane: _Plane) -> Iterator[Path]:
    """A line for each stretch without a gap: what is not known is not drawn as if it were in between."""
    for order, one in enumerate(chart.series):
        stretch: list[str] = []
        for place, value in enumerate((*one.values, None)):
            if value is not None:
                stretch.append(f"{plane.x(place)},{plane.y(value)}")
                continue
            if len(stretch) > 1:
                yield Path(" ".join(stretch), one.tone, DASHES[order % len(DASHES)])
            stretch = []


def _dots(chart: Chart, plane: _Plane, *, every: bool) -> Iterator[Dot]:
    """All points, or only those that stand alone and would not be seen otherwise."""
    for one in chart.series:
        for place, value in enumerate(one.values):
            if value is None:
                continue
            around = (*one.values[max(0, place - 1) : place], *one.values[place + 1 : place + 2])
            if every or all(other is None for other in around):
                text = f"{chart.labels[place]} · {one.name}: {chart.shown(value)}"
                yield Dot(plane.x(place), plane.y(value), one.tone, text)


_TEMPLATE = jinja2.Environment(
    loader=jinja2.FileSystemLoader(str(files("bot.web") / "templates")),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("chart.svg")
