"""A twentieth of the kill run; the whole of it is `make bench-kill`."""

import pytest

from tests.load.kill import POINTS, execute


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_doubled_when_the_process_dies_anywhere(database_url: str) -> None:
    """Ten questions and their reviews, a kill at every point: each question is answered once, each review decided
    once, nothing held is shown."""
    report = execute(database_url, questions=10, kills=1, seed=7)
    assert report.faults == []
    assert set(report.kills) == set(POINTS)
