"""What the numbers of a report say, as the quality page shows them: a line for each, and pictures over time. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bot.web.charts import Chart, Series, number, svg
from bot.web.views import Reader
from store.quality import Figures, Report, Span

__all__ = ["Figure", "Tile", "charts", "tiles"]

GREEN, BLUE, AMBER, RED, GREY = 1, 2, 3, 4, 5  # the tones of site.css
HOUR, MINUTE = 3_600.0, 60.0


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the whole span. `hint` is what it is made of."""

    label: str
    value: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, its picture ("" where nothing happened) and its rows: a date and a number for each series. `note` says
    what is counted."""

    chart: Chart
    picture: Markup
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""


def share(part: float, whole: float) -> float | None:
    """Percent; None of nothing."""
    return 100 * part / whole if whole else None


def unknown(at: Figures) -> float | None:
    """The don't-know rate: of the questions that got an answer or were told that there is none."""
    return share(at.declined, at.answered + at.declined)


def first_hit(at: Figures) -> float | None:
    return share(at.hits, at.told)


def tokens(at: Figures) -> float | None:
    return (at.prompt + at.completion) / at.questions if at.questions else None


# --- the whole span ----------------------------------------------------------------------------------------------


def tiles(at: Figures, reader: Reader, currency: str = "") -> list[Tile]:
    """Every number of the page, in the order of a question's way. `currency` is what runs are priced in."""
    t = reader.t
    made = [
        Tile(
            t("quality.questions"), number(at.questions), t("quality.verified_of", count=number(at.verified))
        ),
        _rate(t("quality.unknown"), at.declined, at.answered + at.declined, reader),
        Tile(t("quality.failed"), number(at.failed)),
        _rate(t("quality.first_hit"), at.hits, at.told, reader),
        _rate(t("quality.approved"), at.approved, at.approved + at.edited + at.rejected, reader),
        Tile(
            t("quality.decision"),
            duration(at.decision_seconds, reader),
            t("quality.expired", count=at.expired),
        ),
        _rate(t("quality.liked"), at.liked, at.liked + at.disliked, reader),
        Tile(t("quality.latency"), duration(at.p50, reader), _tail(at, reader)),
        Tile(t("quality.tokens"), _counted(tokens(at)), _parts(at, reader)),
    ]
    if at.cost is not None and at.questions:
        made.append(Tile(t("quality.cost"), f"{number(at.cost / at.questions, 4)} {currency}".strip()))
    return made


def _rate(label: str, part: int, whole: int, reader: Reader) -> Tile:
    found = share(part, whole)
    value = "–" if found is None else f"{number(found, 1)} %"
    return Tile(label, value, reader.t("quality.of", part=number(part), whole=number(whole)))


def duration(seconds: float | None, reader: Reader) -> str:
    """In the unit that people say."""
    if seconds is None:
        return "–"
    short = 2 if seconds < 10 else 0
    for name, unit, digits in (("seconds", 1.0, short), ("minutes", MINUTE, 0), ("hours", HOUR, 1)):
        if name == "hours" or seconds < 90 * unit:
            return reader.t(f"quality.{name}", count=number(seconds / unit, digits))
    return ""


def _tail(at: Figures, reader: Reader) -> str:
    return f"P95 {duration(at.p95, reader)} · P99 {duration(at.p99, reader)}"


def _parts(at: Figures, reader: Reader) -> str:
    if not at.questions:
        return ""
    prompt, completion = (_counted(spent / at.questions) for spent in (at.prompt, at.completion))
    return reader.t("quality.token_parts", prompt=prompt, completion=completion)


def _counted(value: float | None) -> str:
    return "–" if value is None else number(value)


# --- over time ---------------------------------------------------------------------------------------------------


def charts(report: Report, span: Span, reader: Reader) -> list[Figure]:
    """The pictures, each drawn."""
    return [_figure(report, span, reader, one) for one in _specified(report, reader)]


Value = Callable[[Figures], float | None]


@dataclass(frozen=True, slots=True)
class _Wanted:
    key: str  # of the words: quality.chart.<key>
    series: tuple[tuple[str, int, Value], ...]  # (name, tone, value)
    stacked: bool = False
    unit: str = ""
    digits: int = 0
    most: float | None = None
    note: str = ""


def _specified(report: Report, reader: Reader) -> Iterator[_Wanted]:
    t = reader.t
    yield _Wanted(
        "outcomes",
        (
            (t("quality.anew"), GREEN, lambda at: max(0, at.answered - at.verified)),
            (t("quality.again"), BLUE, lambda at: at.verified),
            (t("quality.declined"), AMBER, lambda at: at.declined),
            (t("quality.clarified"), GREY, lambda at: at.clarified),
            (t("quality.broken"), RED, lambda at: at.failed),
        ),
        stacked=True,
    )
    yield _Wanted("unknown", ((t("quality.unknown"), AMBER, unknown),), unit="%", digits=1)
    yield _Wanted(
        "first_hit", ((t("quality.first_hit"), GREEN, first_hit),), unit="%", digits=1, most=100,
        note=t("quality.first_hit_means"),
    )  # fmt: skip
    yield _Wanted(
        "reviews",
        (
            (reader.words("review.state.approved"), GREEN, lambda at: at.approved),
            (reader.words("review.state.edited"), BLUE, lambda at: at.edited),
            (reader.words("review.state.rejected"), RED, lambda at: at.rejected),
            (reader.words("review.state.expired"), GREY, lambda at: at.expired),
        ),
        stacked=True,
    )
    yield _decisions(report, reader)
    yield _Wanted(
        "feedback",
        (
            (t("quality.helpful"), GREEN, lambda at: at.liked),
            (t("quality.unhelpful"), RED, lambda at: at.disliked),
        ),
        stacked=True,
    )
    yield _Wanted(
        "latency",
        (
            ("P50", GREEN, lambda at: at.p50),
            ("P95", AMBER, lambda at: at.p95),
            ("P99", RED, lambda at: at.p99),
        ),
        unit=t("quality.unit_seconds"),
        digits=2,
        note=t("quality.latency_means"),
    )
    yield _Wanted(
        "tokens",
        (
            (t("quality.prompt"), GREEN, lambda at: _each(at, at.prompt)),
            (t("quality.completion"), BLUE, lambda at: _each(at, at.completion)),
        ),
        stacked=True,
    )
    if report.whole.cost is not None:
        yield _Wanted("cost", ((t("quality.cost"), BLUE, lambda at: _each(at, at.cost)),), digits=4)


def _decisions(report: Report, reader: Reader) -> _Wanted:
    """In hours where the longest median is one."""
    longest = max((at.decision_seconds or 0 for at in report.buckets), default=0)
    unit, name = (HOUR, "hours") if longest >= 90 * MINUTE else (MINUTE, "minutes")
    value: Value = lambda at: None if at.decision_seconds is None else at.decision_seconds / unit  # noqa: E731
    return _Wanted(
        "decision",
        ((reader.t("quality.decision"), BLUE, value),),
        unit=reader.t(f"quality.unit_{name}"),
        digits=1,
    )


def _each(at: Figures, spent: float | None) -> float | None:
    return None if spent is None or not at.questions else spent / at.questions


def _figure(report: Report, span: Span, reader: Reader, wanted: _Wanted) -> Figure:
    series = tuple(
        Series(name, tuple(value(at) for at in report.buckets), tone) for name, tone, value in wanted.series
    )
    dates = [at.begins.isoformat() if at.begins else "" for at in report.buckets]
    chart = Chart(
        id=f"chart-{wanted.key}",
        kind="stacked" if wanted.stacked else "line",
        title=reader.t(f"quality.chart.{wanted.key}"),
        description=reader.t(f"quality.described_{span.step}", first=dates[0], last=dates[-1]),
        labels=tuple(date[5:] for date in dates),
        series=series,
        unit=wanted.unit,
        digits=wanted.digits,
        most=wanted.most,
    )
    return Figure(chart, svg(chart), _rows(chart, dates), wanted.note)


def _rows(chart: Chart, dates: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Newest first: what people look for in a table."""
    rows = [
        (date, tuple(chart.shown(one.values[place]) for one in chart.series))
        for place, date in enumerate(dates)
    ]
    return tuple(reversed(rows))
