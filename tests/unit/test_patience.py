"""When somebody is reminded, and what is promised: from the queue's hours and past reviews, and nothing else."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from bot.hours import Hours
from bot.patience import Waiting
from bot.replies import usual
from bot.settings import Queue, Review
from bot.words import Words
from rag_graph.policy import Rules

OFFICE = {"mon-fri": ("09:00-18:00",)}
REVIEW = Review(
    rules=(
        {"name": "contracts", "collections": ["contracts"], "action": "hold", "queue": "legal"},
        {"name": "prices", "topics": ["price"], "action": "hold", "queue": "legal"},
        {"name": "hr", "collections": ["hr"], "action": "hold"},
    ),
    queues={
        "legal": Queue(zone="Asia/Shanghai", hours=OFFICE, remind_minutes=60, timeout_minutes=0),
    },
)
WAITING = Waiting(REVIEW, Rules.parse(list(REVIEW.rules)))
FRIDAY = datetime.fromisoformat("2026-11-27T17:30+08:00")


def test_steps_are_due_in_the_queues_own_time() -> None:
    """Half an hour is left on Friday, the other half comes on Monday; a zero takes a step out."""
    assert WAITING.due("contracts", "reminded", FRIDAY) == datetime.fromisoformat("2026-11-30T09:30+08:00")
    assert WAITING.due("contracts", "timed_out", FRIDAY) is None
    assert WAITING.due("hr", "reminded", FRIDAY) == FRIDAY + timedelta(hours=1)
    assert set(WAITING.later("contracts", FRIDAY)) == {"reminded", "escalated"}
    assert WAITING.later("hr", FRIDAY)["timed_out"] == 8 * 3_600


def test_rules_of_one_queue_tell_about_each_other() -> None:
    """What a review takes is a fact about the people of its queue."""
    assert WAITING.rules_of("prices") == ["contracts", "prices"]
    assert WAITING.rules_of("hr") == ["hr"]
    assert WAITING.rules_of("gone") == ["hr"]


def past(*minutes: int) -> list[tuple[datetime, datetime]]:
    """Reviews that opened on Friday at 17:30 and took so many working minutes."""
    hours = WAITING.hours("contracts")
    return [(FRIDAY, hours.after(FRIDAY, timedelta(minutes=m)) or FRIDAY) for m in minutes]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param((10, 20, 30, 40), None, id="four are too few"),
        pytest.param(
            (10, 20, 30, 40, 300), (30, "2026-11-27T18:00+08:00"), id="the middle one, not the mean"
        ),
        pytest.param((90, 90, 90, 90, 90), (90, "2026-11-30T10:00+08:00"), id="a weekend is no working time"),
    ],
)
def test_what_is_promised(minutes: tuple[int, ...], expected: tuple[int, str] | None) -> None:
    """The median of past reviews in working time, from five on."""
    told = WAITING.expected("contracts", past(*minutes), FRIDAY)
    if expected is None:
        assert told is None
    else:
        assert told == (timedelta(minutes=expected[0]), datetime.fromisoformat(expected[1]))


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "Usually a review takes about 90 working minutes; expect it by Monday 10:00 (Asia/Shanghai)."),
        ("zh", "审核通常需要约 90 个工作分钟，预计 周一 10:00（Asia/Shanghai）前有结果。"),
    ],
)
def test_how_it_is_said(language: str, sentence: str) -> None:
    """In the asker's language, with the day and the zone that the time is in."""
    told = (timedelta(minutes=90), datetime.fromisoformat("2026-11-30T02:00+00:00"))
    assert usual(Words(), language, told, WAITING.hours("contracts")) == sentence


def test_without_hours_minutes_are_minutes() -> None:
    """A queue that is always there promises no working minutes."""
    told = (timedelta(minutes=30), FRIDAY)
    assert "about 30 min;" in usual(Words(), "en", told, Hours.parse())


@pytest.mark.parametrize(
    "wrong", [{"zone": "Shanghai"}, {"hours": {"workdays": ("09:00-18:00",)}}, {"holidays": ("tomorrow",)}]
)
def test_a_queue_that_cannot_be_read_is_refused(wrong: dict[str, Any]) -> None:
    """At the start, with what is wrong, like every other setting."""
    with pytest.raises(ValidationError, match=r"zone|hours|holidays"):
        Queue(**wrong)
