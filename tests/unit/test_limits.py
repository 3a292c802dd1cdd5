"""What a message has to pass, and how fast messages go out."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bot.limits import Pace, Rate, door
from bot.messages import Incoming
from bot.settings import Limits

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def said(text: str = "leave?", *, private: bool = False, age: float = 0.0) -> Incoming:
    return Incoming(
        platform="slack",
        dedupe_key="k",
        conversation_id="slack:C1:1",
        channel="C1",
        thread="1",
        private=private,
        asker="slack:U1",
        text=text,
        sent_at=NOW - timedelta(minutes=age),
    )


@pytest.mark.parametrize(
    ("incoming", "refused"),
    [
        (said(), ""),
        (said("x" * 100), ""),
        (said("x" * 101), "long"),
        (said(age=9.9), ""),
        (said(age=10.1), "away"),
    ],
)
def test_a_message_has_its_own_faults(incoming: Incoming, refused: str) -> None:
    """Too long and too late are refused whatever else holds, and cost no allowance."""
    found = door(incoming, Limits(), 100, NOW)
    assert found.refused == refused
    assert (found.allowance is None) is bool(refused)


def test_a_private_question_counts_for_its_asker_alone() -> None:
    """In a channel both count; a zero lifts a limit."""
    public, private = (door(said(private=p), Limits(), 100, NOW).allowance for p in (False, True))
    assert public is not None
    assert private is not None
    assert set(public.most) == {"person:slack:U1", "channel:slack:C1"}
    assert set(private.most) == {"person:slack:U1"}
    lifted = door(said(), Limits(person_questions=0, waiting_questions=0), 100, NOW)
    assert lifted.waiting is None
    assert lifted.allowance is not None
    assert set(lifted.allowance.most) == {"channel:slack:C1"}


async def test_a_pace_is_kept_for_each_channel() -> None:
    """A burst passes at once, what is beyond it waits; another channel and another platform do not."""
    pace = Pace({"slack": {"send": (Rate(2, 60.0, "channel"),)}})
    for _ in range(2):
        await pace.turn("slack", "send", channel="C1")
    await pace.turn("slack", "send", channel="C2")
    for _ in range(20):
        await pace.turn("web", "send", channel="C1")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.turn("slack", "send", channel="C1"), 0.2)
