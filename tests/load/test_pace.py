"""A short look at the open loop; the rates and times are `make bench-load`'s, on a quiet machine."""

from pathlib import Path

import pytest

from tests.emulators.slack.client import StandIn
from tests.load.chaos import Ground
from tests.load.fleet import Nursery
from tests.load.pace import steady


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_the_open_loop_measures_every_question(database_url: str, tmp_path: Path) -> None:
    """Two questions a second for four seconds with an instant model: each is answered, its overhead measured from the
    platform's own clock, and the steps are told apart."""
    with StandIn() as slack, Nursery() as nursery:
        ground = Ground(database_url, slack, tmp_path, nursery)
        report = await steady(ground, rate=2.0, conversations=4, seconds=4.0)
    assert report.faults == []
    assert report.measured["answered"] == report.measured["questions"] == 8
    assert 0.0 < report.measured["overhead_seconds"]["p50"] <= report.measured["overhead_seconds"]["max"]
    assert {"retrieve", "draft", "publish"} <= set(report.measured["steps_ms"])
