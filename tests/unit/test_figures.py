"""The quality page's numbers, as people read them."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from bot.web.charts import number
from bot.web.figures import charts, duration, tiles
from bot.web.people import Person
from bot.web.quality import chosen
from bot.web.views import Reader
from bot.words import Words
from store.quality import Figures, Report, Span

WORDS = Words()
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = Figures(
    questions=10, answered=6, declined=2, clarified=2, failed=1, verified=2, told=4, hits=3, p50=0.8, p95=95.0,
    p99=5_400.0, prompt=20_000, completion=1_000, cost=0.05, approved=3, edited=1, rejected=1, expired=1,
    decision_seconds=5_460.0, liked=3, disliked=1,
)  # fmt: skip


def reader(language: str = "en") -> Reader:
    person = Person("admin", "web:admin", False, True)
    return Reader(person, language, "", lambda key, /, **values: WORDS(language, key, **values))


def report(*days: Figures) -> Report:
    buckets = tuple(
        replace(one, begins=date(2026, 11, 1) + timedelta(days=at)) for at, one in enumerate(days)
    )
    return Report(days[0], buckets, (), ())


def test_the_whole_is_said_in_numbers_that_can_be_checked() -> None:
    """Every rate says of how many; what nobody can know is a dash, not a zero."""
    said = {tile.label: (tile.value, tile.hint) for tile in tiles(DAY, reader(), "CNY")}
    assert said["Don't-know rate"] == ("25 %", "2 of 8")
    assert said["First-hit rate"] == ("75 %", "3 of 4")
    assert said["Approved unchanged"] == ("60 %", "3 of 5")
    assert said["Found helpful"] == ("75 %", "3 of 4")
    assert said["Half answered within"] == ("0.8 s", "P95 2 min · P99 1.5 h")
    assert said["Tokens a question"] == ("2,100", "prompt 2,000 · answer 100")
    assert said["Cost a question"] == ("0.005 CNY", "")
    nothing = {tile.label: tile.value for tile in tiles(Figures(), reader())}
    assert nothing["First-hit rate"] == nothing["Tokens a question"] == "–"
    assert "Cost a question" not in nothing


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_picture_has_its_numbers_beside_it(language: str) -> None:
    """A row for each day, newest first, with a number for each series; an empty day is not drawn as a zero rate."""
    span = Span(NOW, days=7)
    found = {figure.chart.id: figure for figure in charts(report(DAY, Figures()), span, reader(language))}
    assert len(found) == 9
    for figure in found.values():
        assert [date for date, _ in figure.rows] == ["2026-11-02", "2026-11-01"]
        assert all(len(values) == len(figure.chart.series) for _, values in figure.rows)
    assert found["chart-outcomes"].rows[1][1] == ("4", "2", "2", "2", "1")
    assert found["chart-unknown"].rows == (("2026-11-02", ("–",)), ("2026-11-01", ("25%",)))
    assert found["chart-decision"].rows[1][1][0].startswith("1.5 ")
    assert found["chart-tokens"].rows[1][1] == ("2,000", "100")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.04, "0.04 s"), (89, "89 s"), (90, "2 min"), (5_399, "90 min"), (7_200, "2 h")],
)
def test_durations_are_in_the_unit_that_people_say(seconds: float | None, text: str) -> None:
    """Seconds, minutes or hours."""
    assert duration(seconds, reader()) == text


def test_an_address_asks_for_what_it_can() -> None:
    """What it names wrongly is as without it; the settings themselves are a variant that can be chosen."""
    assert chosen({}, "UTC", NOW) == Span(NOW, 30, "day", "UTC")
    assert chosen({"days": "90"}, "UTC", NOW).step == "week"
    assert chosen({"days": "8", "by": "hour"}, "UTC", NOW) == Span(NOW, 30, "day", "UTC")
    assert chosen({"variant": "", "collection": "hr"}, "UTC", NOW).variant == ""
    assert chosen({"variant": "*"}, "UTC", NOW).variant is None
    assert number(len(list(Span(NOW, 90, "week", "Asia/Shanghai").buckets()))) == "14"
