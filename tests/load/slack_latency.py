"""How soon a reviewer's click is acknowledged while the same process answers questions: `make bench-slack-latency`.

Not part of the suite: the hundred milliseconds are not met yet (half of the clicks within 69 ms, p95 362 ms over
HTTP and 543 ms over the socket, on two cores), and a wall clock on shared processors judges the neighbours.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.emulators.slack.client import StandIn
from tests.scenario.slack_team import BOT, CONTRACT, Team, slack_team

QUESTIONS, CLICKS, CHANNELS = 50, 61, 10
BUDGET = 0.100  # seconds, for the 95th of a hundred clicks
UNANSWERED = 3.0  # after these Slack shows a warning
# Where others already keep the processors busy, a wall clock measures them and not us.
BUSY = 1.0  # load average for each processor


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


async def cards(team: Team) -> list[str]:
    """The ts of each card that waits."""
    shown = await team.slack.see("U0REV", "C0REVIEW")
    return [message["ts"] for message in shown if "review:approve" in message["actions"]]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("transport", ["socket", "http"])
async def test_a_decision_is_acknowledged_within_a_tenth_of_a_second(
    stand_in: StandIn,
    database_url: str,
    tmp_path: Path,
    transport: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Fifty questions run through the real graph in this process; each click is committed, then acknowledged, and 95
    of a hundred within 100 ms, measured by the stand-in."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > BUSY:
        pytest.skip(f"load average {load:.1f} for each processor before the test began")
    async with slack_team(stand_in, database_url, tmp_path, transport=transport) as team:
        for number in range(CHANNELS):
            await team.slack.do("user", id=f"U0L{number}")
            await team.slack.do("channel", id=f"C0L{number}", add=["U0BOT", f"U0L{number}"])
        for number in range(CLICKS):
            await team.slack.say(
                f"U0L{number % CHANNELS}", f"C0L{number % CHANNELS}", f"{BOT} {CONTRACT} ({number})"
            )

        async def all_wait() -> list[str] | None:
            waiting = await cards(team)
            return waiting if len(waiting) == CLICKS else None

        waiting = await team.slack.until(all_wait, 90)
        await team.slack.click(
            "U0REV", "C0REVIEW", waiting.pop(0), "review:approve"
        )  # Slack says once who this is
        asked = [
            team.slack.say(
                f"U0L{number % CHANNELS}",
                f"C0L{number % CHANNELS}",
                f"{BOT} 年假可以休多少天？ #{number}",
                wait=False,
            )
            for number in range(QUESTIONS)
        ]
        await asyncio.gather(*asked)
        before = {row.id for row in await team.app.store.reviews.list("pending")}
        taken = []
        for ts in waiting:
            clicked = await team.slack.click("U0REV", "C0REVIEW", ts, "review:approve")
            taken.append(clicked["acked_after"] or UNANSWERED)
        rows = await team.app.store.reviews.list("pending")
        running = [
            row
            for conversation in await team.app.store.conversations.list("slack")
            for row in await team.app.store.conversations.questions(conversation.id)
            if row.state in ("received", "answering")
        ]
        taken.sort()
        p95 = taken[int(len(taken) * 0.95)]
        record_property("p50_ms", round(taken[len(taken) // 2] * 1_000, 1))
        record_property("p95_ms", round(p95 * 1_000, 1))
        record_property("running", len(running))
        assert [row.id for row in rows if row.id in before] == []
        assert running != []  # the questions were still being answered
        assert p95 <= BUDGET, f"p95 {p95 * 1_000:.0f} ms, half within {taken[len(taken) // 2] * 1_000:.0f} ms"
