"""Working time, case by case."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.hours import Hours, HoursInvalid, median

OFFICE = Hours.parse("Asia/Shanghai", {"mon-fri": ["09:00-12:00", "13:00-18:00"]}, ["2026-10-01/2026-10-07"])
NIGHT = Hours.parse("Europe/Berlin", {"fri-sat": ["22:00-06:00"]})
BERLIN = Hours.parse("Europe/Berlin", {"mon-sun": ["00:00-24:00"]})
TWICE = Hours.parse("UTC", {"mon": ["09:00-12:00", "11:00-13:00"]})
ALWAYS = Hours.parse()


def at(text: str) -> datetime:
    """ "2026-11-30T09:00+08:00"."""
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("hours", "start", "end", "minutes"),
    [
        pytest.param(ALWAYS, "2026-11-28T03:00Z", "2026-11-28T05:30Z", 150, id="without hours, always"),
        pytest.param(OFFICE, "2026-11-30T09:30+08:00", "2026-11-30T10:00+08:00", 30, id="within a stretch"),
        pytest.param(OFFICE, "2026-11-30T11:30+08:00", "2026-11-30T13:30+08:00", 60, id="over lunch"),
        pytest.param(OFFICE, "2026-11-30T17:00+08:00", "2026-12-01T10:00+08:00", 120, id="over night"),
        pytest.param(OFFICE, "2026-11-27T17:00+08:00", "2026-11-30T10:00+08:00", 120, id="over a weekend"),
        pytest.param(OFFICE, "2026-11-28T10:00+08:00", "2026-11-29T20:00+08:00", 0, id="within a weekend"),
        pytest.param(OFFICE, "2026-09-30T17:00+08:00", "2026-10-08T10:00+08:00", 120, id="over holidays"),
        pytest.param(OFFICE, "2026-11-30T01:00Z", "2026-11-30T02:00Z", 60, id="another zone's clock"),
        pytest.param(OFFICE, "2026-11-30T10:00+08:00", "2026-11-30T09:00+08:00", 0, id="backwards"),
        pytest.param(NIGHT, "2026-11-27T23:00+01:00", "2026-11-28T03:00+01:00", 240, id="over midnight"),
        pytest.param(
            NIGHT, "2026-11-29T05:00+01:00", "2026-11-29T23:00+01:00", 60, id="Saturday's night ends"
        ),
        pytest.param(
            NIGHT, "2026-03-28T22:00+01:00", "2026-03-29T12:00+02:00", 420, id="an hour is left out"
        ),
        pytest.param(
            NIGHT, "2026-10-24T22:00+02:00", "2026-10-25T12:00+01:00", 540, id="an hour comes twice"
        ),
        pytest.param(
            BERLIN, "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00", 23 * 60, id="a day of 23 hours"
        ),
        pytest.param(
            BERLIN, "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00", 25 * 60, id="a day of 25 hours"
        ),
        pytest.param(TWICE, "2026-11-30T08:00Z", "2026-11-30T20:00Z", 240, id="what overlaps counts once"),
    ],
)
def test_working_time_between_two_moments(hours: Hours, start: str, end: str, minutes: float) -> None:
    """Only what lies within the stretches counts, in real minutes."""
    assert hours.working(at(start), at(end)) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("hours", "start", "minutes", "end"),
    [
        pytest.param(ALWAYS, "2026-11-28T03:00Z", 90, "2026-11-28T04:30Z", id="without hours"),
        pytest.param(OFFICE, "2026-11-30T09:30+08:00", 60, "2026-11-30T10:30+08:00", id="the same morning"),
        pytest.param(OFFICE, "2026-11-30T11:30+08:00", 30, "2026-11-30T12:00+08:00", id="to the last minute"),
        pytest.param(OFFICE, "2026-11-27T17:30+08:00", 60, "2026-11-30T09:30+08:00", id="on Monday"),
        pytest.param(OFFICE, "2026-09-30T17:30+08:00", 60, "2026-10-08T09:30+08:00", id="after the holidays"),
        pytest.param(
            OFFICE, "2026-11-28T12:00+08:00", 480, "2026-11-30T18:00+08:00", id="a whole day's work"
        ),
        pytest.param(NIGHT, "2026-03-28T23:00+01:00", 180, "2026-03-29T03:00+02:00", id="clock put forward"),
        pytest.param(NIGHT, "2026-11-29T06:30+01:00", 60, "2026-12-04T23:00+01:00", id="next Friday's night"),
    ],
)
def test_when_an_amount_is_over(hours: Hours, start: str, minutes: float, end: str) -> None:
    """Counted from the first working minute on."""
    assert hours.after(at(start), timedelta(minutes=minutes)) == at(end)


@pytest.mark.parametrize(
    ("moment", "open_then"),
    [
        ("2026-11-30T09:00+08:00", True),
        ("2026-11-30T12:00+08:00", False),
        ("2026-11-30T17:59+08:00", True),
        ("2026-11-28T10:00+08:00", False),
        ("2026-10-01T10:00+08:00", False),
        ("2026-11-30T10:00Z", False),
    ],
)
def test_whether_somebody_is_there(moment: str, open_then: bool) -> None:
    """The first minute of a stretch is in it, the last moment is not."""
    assert OFFICE.open(at(moment)) is open_then


def test_a_queue_that_never_opens_never_gets_there() -> None:
    """A year of holidays: there is no such moment, and nothing is promised."""
    closed = Hours.parse("UTC", {"mon": ["09:00-10:00"]}, ["2026-01-01/2028-12-31"])
    assert closed.after(at("2026-11-30T08:00Z"), timedelta(minutes=1)) is None
    assert closed.working(at("2026-11-30T08:00Z"), at("2027-01-30T08:00Z")) == timedelta()


@pytest.mark.parametrize(
    ("given_hours", "says"),
    [
        ({"zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"hours": {"workdays": ["09:00-18:00"]}}, "'workdays' names no days"),
        ({"hours": {"mon": ["9-18"]}}, "'9-18' is no stretch"),
        ({"hours": {"mon": ["09:00-25:00"]}}, "is no stretch"),
        ({"holidays": ["1 October"]}, "'1 October' is no date"),
    ],
)
def test_what_cannot_be_read_is_said(given_hours: dict[str, Any], says: str) -> None:
    """The part, and what it should look like."""
    with pytest.raises(HoursInvalid, match=says):
        Hours.parse(**given_hours)


@given(
    st.sampled_from([OFFICE, NIGHT, BERLIN, TWICE]),
    st.integers(0, 525_600).map(lambda minute: at("2026-01-01T00:00Z") + timedelta(minutes=minute)),
    st.integers(1, 5_000),
)
def test_the_two_ways_agree(hours: Hours, start: datetime, minutes: int) -> None:
    """Working time up to the moment at which an amount is over is that amount."""
    amount = timedelta(minutes=minutes)
    over = hours.after(start, amount)
    assert over is not None
    assert hours.working(start, over) == amount


def test_the_middle_one_and_only_with_enough_to_go_by() -> None:
    """Four reviews promise nothing; five do."""
    amounts = [timedelta(minutes=n) for n in (5, 9, 1, 30)]
    assert median(amounts, 5) is None
    assert median([*amounts, timedelta(minutes=7)], 5) == timedelta(minutes=7)
    assert median(amounts, 1) == timedelta(minutes=7)
