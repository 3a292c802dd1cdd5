"""A twentieth of the property run over audiences; the whole of it is part of `make bench-chaos`."""

from pathlib import Path

import pytest

from tests.emulators.slack.client import StandIn
from tests.load.whispers import whispered


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_nobody_is_shown_what_they_may_not_read(database_url: str, tmp_path: Path) -> None:
    """Thirty-two questions of random people in random places over random documents, whose audiences change while drafts
    wait, and as many direct reads of the store: nothing shown holds a mark of a document that its
    readers may not read."""
    with StandIn() as slack:
        report = await whispered(slack, database_url, tmp_path, questions=32, batch=16, seed=2)
    assert report.faults == []
    checks = report.measured["checks"]
    assert min(checks[kind] for kind in ("message", "prompt", "passage", "form", "search", "titles")) > 0
