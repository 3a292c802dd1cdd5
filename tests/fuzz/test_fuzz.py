"""A twentieth of the fuzz runs; the whole of them is part of `make bench-chaos`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.slack.signature import signed
from tests.emulators.feishu.client import StandIn as Feishu
from tests.emulators.slack.client import StandIn as Slack
from tests.fuzz.doors import knock_on_doors, slack_signature
from tests.fuzz.parsers import fuzz_parsers
from tests.load.fleet import Nursery


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_door_breaks_hangs_or_lets_in_what_is_forged(
    nursery: Nursery, database_url: str, tmp_path: Path
) -> None:
    """Four hundred requests as nobody sends them, at the workspace's, Slack's and Feishu's addresses of a real process:
    none is answered with 500 or later than 20 s, forged and unsigned ones are refused, and a mention that arrives three
    times is one question."""
    with Slack() as slack, Feishu() as feishu:
        told = await knock_on_doors(slack, feishu, database_url, tmp_path, nursery, requests=400)
    assert told.faults == []
    assert told.requests == 400
    assert set(told.statuses) == {"slack", "feishu", "workspace", "forged"}


@pytest.mark.slow
def test_no_parser_fails_otherwise_than_by_its_own_error() -> None:
    """Six hundred documents of every format and settings files, garbled: each is read or refused, within seconds and
    memory."""
    found = fuzz_parsers(600)
    assert found.faults == []
    assert len(found.cases) == 9
    assert all(found.refused[name] < found.cases[name] for name in ("markdown", "text", "csv", "html"))


@pytest.mark.parametrize(
    ("change", "genuine"),
    [
        ({}, True),
        ({"x-slack-request-timestamp": "soon"}, False),
        ({"x-slack-request-timestamp": "-1"}, False),
        ({"x-slack-request-timestamp": "９" * 10}, False),
        ({"x-slack-request-timestamp": "9" * 400}, False),
        ({"x-slack-signature": ""}, False),
        ({"x-slack-signature": "v0=é"}, False),
    ],
)
def test_only_what_slack_signed_just_now_is_genuine(change: dict[str, str], genuine: bool) -> None:
    """A timestamp that is no number, or a signature of other characters, is refused like any forgery, not an error."""
    body, now = b'{"type": "event_callback"}', 1_700_000_000.0
    headers = {name.lower(): value for name, value in slack_signature("secret", body, now).items()}
    assert signed(body, {**headers, **change}, "secret", now) is genuine
    assert not signed(body, headers, "secret", now + 301)
    assert not signed(body, headers, "", now)
