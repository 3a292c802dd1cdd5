"""Working time: when reviewers are there, how much of it lies between two moments, and when an amount of it is over.

    zone = "Asia/Shanghai"
    hours = { mon-fri = ["09:00-12:00", "13:30-18:00"], sat = ["22:00-02:00"] }
    holidays = ["2026-10-01/2026-10-07", "2026-12-25"]

A stretch belongs to the day on which it begins: "22:00-02:00" on a Saturday runs into Sunday, and a holiday takes
away what begins on it. Stretches are read on the wall clock of the zone and measured in real time: a night in which
the clock is put forward is an hour shorter. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
STRETCH = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
MIDNIGHT = time(0)
# A queue that opens less than once in so many days is taken for one that never does.
HORIZON = timedelta(days=400)
DAY = timedelta(days=1)

Span = tuple[time, time]


class HoursInvalid(ValueError):
    """The working hours in signoff.toml cannot be read; the message says which part, and what it should look like."""


@dataclass(frozen=True, slots=True)
class Hours:
    """`spans` are the stretches that begin on each weekday, Monday first; without any it is always working time."""

    zone: ZoneInfo
    spans: tuple[tuple[Span, ...], ...] = ((),) * 7
    holidays: frozenset[date] = frozenset()

    @classmethod
    def parse(
        cls, zone: str = "UTC", hours: Mapping[str, Sequence[str]] | None = None, holidays: Sequence[str] = ()
    ) -> "Hours":
        """Raises `HoursInvalid`."""
        try:
            found = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise HoursInvalid(
                f"zone: there is no time zone {zone!r}; write one like Asia/Shanghai"
            ) from error
        spans: list[tuple[Span, ...]] = [()] * 7
        for days, stretches in (hours or {}).items():
            for day in _days(days):
                spans[day] = (*spans[day], *(_span(stretch) for stretch in stretches))
        return cls(found, tuple(spans), frozenset(day for text in holidays for day in _dates(text)))

    @property
    def always(self) -> bool:
        return not any(self.spans)

    def working(self, start: datetime, end: datetime) -> timedelta:
        """The working time from `start` to `end` (both aware); zero where `end` is not later."""
        if self.always:
            return max(end - start, timedelta())
        total, reached = timedelta(), start
        for opens, closes in self._stretches(start):
            if opens >= end:
                break
            begins = max(opens, reached)
            if closes > begins:  # stretches that overlap count once
                total += max(min(closes, end) - begins, timedelta())
                reached = max(reached, closes)
        return total

    def after(self, start: datetime, amount: timedelta) -> datetime | None:
        """The moment at which `amount` of working time since `start` is over; None where that never comes."""
        if self.always:
            return start + amount
        left, reached = amount, start
        for opens, closes in self._stretches(start):
            begins = max(opens, reached)
            if closes <= begins:
                continue
            if closes - begins >= left:
                return begins + left
            left -= closes - begins
            reached = closes
        return None

    def open(self, moment: datetime) -> bool:
        """Whether `moment` is working time."""
        return self.always or any(
            opens <= moment < closes for opens, closes in self._stretches(moment, 3 * DAY)
        )

    def _stretches(self, start: datetime, ahead: timedelta = HORIZON) -> Iterator[tuple[datetime, datetime]]:
        """Those that end after `start`, in order of their beginning, as moments in UTC."""
        day = start.astimezone(self.zone).date() - DAY  # one that began yesterday may still go on
        last = day + ahead
        while day <= last:
            if day not in self.holidays:
                for opens, closes in sorted(self.spans[day.weekday()]):
                    until = day if closes > opens else day + DAY
                    # Of a wall clock's hour that comes twice, the first opens and the second closes.
                    begins = datetime.combine(day, opens, self.zone).astimezone(UTC)
                    ends = datetime.combine(until, closes.replace(fold=1), self.zone).astimezone(UTC)
                    if ends > start and ends > begins:
                        yield begins, ends
            day += DAY


def median(amounts: Sequence[timedelta], least: int) -> timedelta | None:
    """The middle one; None where there are fewer than `least` to go by."""
    if len(amounts) < max(1, least):
        return None
    ordered = sorted(amounts)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _days(text: str) -> Iterator[int]:
    """ "mon", "mon-fri", "sat-mon", "mon,wed"."""
    for part in text.lower().split(","):
        first, _, last = (piece.strip() for piece in part.partition("-"))
        if first not in DAYS or (last and last not in DAYS):
            raise HoursInvalid(f"hours: {text!r} names no days; write mon, mon-fri or sat,sun")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        yield from (day % 7 for day in range(begin, end + 1 if end >= begin else end + 8))


def _span(text: str) -> Span:
    found = STRETCH.fullmatch(text.strip())
    numbers = [int(number) for number in found.groups()] if found else [99] * 4
    opens, closes = numbers[:2], numbers[2:]
    if closes == [24, 0]:
        closes = [0, 0]
    if opens[0] > 23 or closes[0] > 23 or opens[1] > 59 or closes[1] > 59:
        raise HoursInvalid(f"hours: {text!r} is no stretch of a day; write 09:00-18:00 or 22:00-06:00")
    return time(opens[0], opens[1]), time(closes[0], closes[1])


def _dates(text: str) -> Iterator[date]:
    """ "2026-10-01", "2026-10-01/2026-10-07"."""
    first, _, last = text.partition("/")
    try:
        day, end = date.fromisoformat(first.strip()), date.fromisoformat((last or first).strip())
    except ValueError as error:
        raise HoursInvalid(
            f"holidays: {text!r} is no date; write 2026-10-01 or 2026-10-01/2026-10-07"
        ) from error
    while day <= end:
        yield day
        day += DAY
