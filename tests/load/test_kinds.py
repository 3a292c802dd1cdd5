"""A short look at the load by kind; the fifty of each and the rates are `make bench-load`'s, on a quiet machine."""

from pathlib import Path
from typing import Any

import pytest

from tests.emulators.slack.client import StandIn
from tests.load.cases import Case, cases, dressed, singles
from tests.load.chaos import Ground
from tests.load.fleet import Nursery
from tests.load.kinds import few, kinds, knee, rise

SOURCES = ("hr/leave.zh.md", "hr/leave.en.md", "finance/expenses.zh.md", "finance/expenses.en.md")


def test_there_are_fifty_of_each_kind_and_no_two_alike() -> None:
    """Half of them Chinese; asked in twenty rounds, no question has the words of another."""
    made = cases()
    assert [sum(case.kind == kind for case in made) for kind in ("single", "multi-hop", "tool")] == [
        50,
        50,
        50,
    ]
    words = [dressed(case, round_) for round_ in range(20) for case in made]
    assert len(set(words)) == len(words)


def test_the_rate_that_breaks_is_the_first_whose_p95_is_beyond_the_limit() -> None:
    """A later one that happens to hold again does not count; answers that never came break it too."""

    def step(rate: float, p95: float, answered: int = 10) -> dict[str, object]:
        return {"rate": rate, "ms": {"p95": p95}, "questions": 10, "answered": answered}

    assert knee([step(1, 900), step(2, 3100), step(3, 900)], 3.0) == {"holds": 1, "breaks": 2}
    assert knee([step(1, 900), step(2, 900, 9)], 3.0) == {"holds": 1, "breaks": 2}
    assert knee([step(1, 900)], 3.0) == {"holds": 1, "breaks": None}


@pytest.mark.parametrize(
    ("bears", "tried", "found"),
    [
        (5.0, [2.0, 3.0, 3.75, 4.5], (3.75, 4.5)),
        (1.2, [0.5, 0.75, 1.0, 2.0], (0.75, 1.0)),
        (99.0, [2.0, 3.0, 4.5, 6.75], (6.75, None)),
    ],
)
async def test_the_rate_is_raised_until_it_breaks_or_lowered_until_it_holds(
    bears: float, tried: list[float], found: tuple[float, float | None]
) -> None:
    """Then one more half way between the last two; where nothing breaks up to the most that is tried, it is said so."""

    async def at(rate: float) -> dict[str, Any]:
        return {"rate": rate, "questions": 1, "answered": 1, "ms": {"p95": 4_000 * rate / bears}}

    told = await rise(at, 2.0, 8.0, 3.0)
    assert [step["rate"] for step in told] == tried
    assert (knee(told, 3.0)["holds"], knee(told, 3.0)["breaks"]) == found


def some() -> list[Case]:
    """Three of each kind, of what the few documents answer."""
    known = [one for one in singles() if one.documents[0][0] in ("leave", "expenses")]
    made = cases(known, each=12)
    return [
        case for kind in ("single", "multi-hop", "tool") for case in [c for c in made if c.kind == kind][:3]
    ]


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_each_kind_is_asked_through_the_door_and_judged(database_url: str, tmp_path: Path) -> None:
    """Nine questions through Slack's stand-in: every one answered, its parts timed, its document found, its tool
    called, its facts stated; then two more in other words, at one more rate; and no invariant broken."""
    with StandIn() as slack, Nursery() as nursery:
        ground = Ground(database_url, slack, tmp_path, nursery)
        report = await kinds(
            ground, chosen=some(), rate=6.0, first=4.0, most=5.0, seconds=0.5, limit=60.0, filling=few(SOURCES),
            local=False, channels=3, warm=False,
        )  # fmt: skip
    assert report.faults == []
    told = report.measured["kinds"]
    assert set(told) == {"all", "single", "multi-hop", "tool"}
    assert (told["all"]["questions"], told["all"]["answered"], told["all"]["errors"]) == (9, 9, 0)
    assert told["tool"]["right_tool"] == told["multi-hop"]["right_tool"] == 1.0
    assert told["all"]["right_document_retrieved"] >= 0.8
    assert told["all"]["answer_right"] >= 0.8
    for kind in ("single", "multi-hop", "tool"):
        one = told[kind]
        assert 0 < one["search_ms"]["p50"] < one["end_to_end_ms"]["p50"]
        assert 200 < one["model_ms"]["p50"] < one["end_to_end_ms"]["p50"]
    assert told["multi-hop"]["model_calls"] > told["single"]["model_calls"]
    assert told["all"]["prompt_tokens"] > 100
    (step,) = report.measured["tried"]
    assert (step["rate"], step["questions"], step["answered"]) == (4.0, 2, 2)
    assert (report.measured["holds"], report.measured["breaks"]) == (4.0, None)
