"""Charts: what is drawn is what was counted, readable and harmless."""

import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.web.charts import BOTTOM, HEIGHT, INTERVALS, TOP, WIDTH, Chart, Series, number, svg, ticks

SPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '</svg><script>alert(1)</script>" onload="x'


def chart(kind: str = "line", *values: tuple[float | None, ...], **more: object) -> Chart:
    series = tuple(Series(f"series {at}", one, at + 1) for at, one in enumerate(values))
    labels = tuple(f"11-{day:02}" for day in range(1, len(values[0]) + 1))
    given_: dict[str, object] = {"title": "A title", "description": "What it shows.", **more}
    return Chart("it", kind, labels=labels, series=series, **given_)  # type: ignore[arg-type]


def drawn(one: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(
        str(svg(one)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    )


@given(st.floats(min_value=1e-4, max_value=1e9), st.booleans())
def test_the_grid_holds_what_is_drawn(most: float, whole: bool) -> None:
    """From zero to at least the largest value, evenly, in few lines; whole numbers where counts are shown."""
    lines = ticks(most, whole=whole)
    assert lines[0] == 0
    assert lines[-1] >= most * (1 - 1e-6)
    assert 2 <= len(lines) <= INTERVALS + 2
    assert all(abs((b - a) - lines[1]) < lines[1] * 1e-6 for a, b in itertools.pairwise(lines))
    assert not whole or all(line == int(line) for line in lines)


def test_a_picture_is_told_to_those_who_do_not_see_it() -> None:
    """It is an image with a title and a description, and each part says its number."""
    root = drawn(chart("stacked", (1, 2), (3, 0)))
    assert root.get("role") == "img"
    ids = (root.get("aria-labelledby") or "").split()
    named = {one.get("id"): one.text for one in root if one.get("id")}
    assert [named[one] for one in ids] == ["A title", "What it shows."]
    told = [one.text for rect in root.iter(f"{SPACE}rect") for one in rect]
    assert told == ["11-01 · series 0: 1", "11-01 · series 1: 3", "11-02 · series 0: 2"]


def test_bars_stand_on_each_other() -> None:
    """The heights of a column add up to its sum, from the ground, in the scale of the grid."""
    root = drawn(chart("stacked", (10, 5), (30, 0)))
    rects = [
        {key: float(rect.get(key) or 0) for key in ("x", "y", "height")} for rect in root.iter(f"{SPACE}rect")
    ]
    first = [rect for rect in rects if rect["x"] == rects[0]["x"]]
    ground, whole = HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM
    assert first[0]["y"] + first[0]["height"] == pytest.approx(ground, abs=0.2)
    assert first[1]["y"] + first[1]["height"] == pytest.approx(first[0]["y"], abs=0.2)
    assert sum(rect["height"] for rect in first) == pytest.approx(whole * 40 / 40, abs=0.2)


def test_what_is_not_known_is_a_gap() -> None:
    """A line is not drawn across days without a number, and a number between two such days is a dot."""
    root = drawn(chart("line", (1.0, 2.0, None, 3.0, None, 4.0, 5.0)))
    stretches = [(one.get("points") or "").split() for one in root.iter(f"{SPACE}polyline")]
    assert [len(points) for points in stretches] == [2, 2]
    assert len(list(root.iter(f"{SPACE}circle"))) == 5
    many = drawn(chart("line", (*(1.0,) * 40, None, 2.0, None, *(1.0,) * 40)))
    assert len(list(many.iter(f"{SPACE}circle"))) == 1


@pytest.mark.parametrize("kind", ["line", "stacked"])
def test_other_peoples_words_stay_words(kind: str) -> None:
    """Names and labels are escaped; nothing in a picture needs a style or a script."""
    one = chart(kind, (1.0, 2.0), title=HOSTILE, description=HOSTILE, unit=HOSTILE)
    hostile = replace(one, labels=(HOSTILE, HOSTILE), series=(Series(HOSTILE, (1.0, 2.0), 1),))
    text = svg(hostile)
    root = drawn(hostile)
    assert {element.tag.removeprefix(SPACE) for element in root.iter()} <= {
        "svg", "title", "desc", "line", "text", "rect", "polyline", "circle"
    }  # fmt: skip
    assert not any(name.startswith("on") or name == "style" for one in root.iter() for name in one.attrib)
    assert "<script" not in text


def test_nothing_is_drawn_of_nothing() -> None:
    """A page says a sentence then; an empty frame would look like a fault."""
    assert svg(chart("line", (None, None))) == ""
    assert svg(chart("stacked", (0, 0), (0, 0))) == ""
    assert chart("line", (0.0, None)).empty is False  # a rate of nothing is a number


def test_numbers_are_short() -> None:
    """Separators, no more decimals than asked for, no zeros at the end."""
    assert [number(1234567), number(0.5, 2), number(2.0, 2), number(0.00417, 4)] == [
        "1,234,567",
        "0.5",
        "2",
        "0.0042",
    ]


def test_a_quarter_of_days_fits() -> None:
    """Ninety columns are inside the picture, and at most five dates stand below it."""
    root = drawn(chart("stacked", tuple(range(1, 91))))
    rights = [float(one.get("x") or 0) + float(one.get("width") or 0) for one in root.iter(f"{SPACE}rect")]
    assert max(rights) <= WIDTH
    dates = [one for one in root.iter(f"{SPACE}text") if (one.text or "").startswith("11-")]
    assert len(dates) == 5
