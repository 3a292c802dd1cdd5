"""How runs are asked for, and what they spent, the same in the console and in a terminal. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from bot.settings import Settings
from store.runs import Wanted

__all__ = ["FLAGS", "NAMED", "OUTCOMES", "Bar", "bars", "money", "spent", "wanted", "withheld", "zone_of"]

OUTCOMES = ("answered", "declined", "held", "clarified", "failed")
NAMED = ("outcome", "platform", "channel", "collection", "variant", "rule", "text")
FLAGS = ("disliked", "degraded")
TAKEN_BACK = ("withdrawn", "superseded")
# The way through the graph, and what searching is made of.
STEPS = (
    "lookup_verified", "route", "clarify", "rewrite", "retrieve", "tools", "draft", "review", "publish", "decline",
)  # fmt: skip
SEARCHING = ("embed", "sql", "rank", "rerank")
SCALE = 1_000  # units that a bar's whole width has


def wanted(given: Mapping[str, str], zone: tzinfo, before: int = 0) -> Wanted:
    """What a form or a command asks for. `day` is a date (ISO 8601) in `zone`; one that is none is not asked for."""
    since = until = None
    try:
        day = date.fromisoformat(given.get("day", ""))
        since = datetime(day.year, day.month, day.day, tzinfo=zone)
        until = since + timedelta(days=1)
    except (ValueError, OverflowError):
        pass
    asked: dict[str, Any] = {name: given.get(name, "") for name in NAMED}
    asked |= {name: bool(given.get(name)) for name in FLAGS}
    return Wanted(**asked, since=since, until=until, before=before)


def zone_of(settings: Settings) -> tzinfo:
    """The reviewers' own: a day of theirs is meant."""
    queue = settings.review.queues.get("default")
    return ZoneInfo(queue.zone) if queue else UTC


def withheld(state: str, private: bool, asker: str, mine: Collection[str]) -> str:
    """Why somebody of those principals may not read a question's words: "private" where it was asked for its asker
    alone, "gone" where it was taken back; "" where they may."""
    if asker in mine:
        return ""
    return "gone" if state in TAKEN_BACK else "private" if private else ""


# --- what it spent


@dataclass(frozen=True, slots=True)
class Bar:
    """A step's share of the time: `start` and `width` in thousandths of the whole. `within`: it lies within the one
    before it."""

    name: str
    milliseconds: str
    start: int
    width: int
    within: bool = False


def bars(timings: Mapping[str, float]) -> tuple[Bar, ...]:
    """The steps one after the other, as the graph goes through them; one that came twice is one bar."""
    found: list[tuple[str, float, float, bool]] = []  # name, start, milliseconds, within
    at = 0.0
    for name in ("wait", *STEPS):
        took = timings.get(name, 0.0)
        if took <= 0:
            continue
        found.append((name, at, took, False))
        if name == "retrieve":
            found += _inside(timings, at)
        at += took
    whole = timings.get("wait", 0.0) + timings.get("answer", timings.get("resume", 0.0))
    if whole - at > 1.0:  # history, checkpoints, what is between the nodes
        found.append(("other", at, whole - at, False))
    most = max(at, whole) or 1.0
    return tuple(
        Bar(name, _spelled(took), round(start / most * SCALE), max(round(took / most * SCALE), 2), within)
        for name, start, took, within in found
    )


def _inside(timings: Mapping[str, float], at: float) -> list[tuple[str, float, float, bool]]:
    found = []
    for name in SEARCHING:
        took = timings.get(name, 0.0)
        if took > 0:
            found.append((name, at, took, True))
            at += took
    return found


def _spelled(milliseconds: float) -> str:
    return f"{milliseconds / 1_000:.1f} s" if milliseconds >= 10_000 else f"{milliseconds:.0f} ms"


def money(cost: float | None, currency: str) -> str:
    """ "0.0031 CNY"; "" where it is not known."""
    if cost is None:
        return ""
    return f"{cost:.4f} {currency}".strip() if cost else f"0 {currency}".strip()


def spent(tokens: Mapping[str, int]) -> int:
    """Tokens of prompts and answers, as counted, else as estimated."""
    return int(tokens.get("prompt", tokens.get("estimated", 0)) + tokens.get("completion", 0))
