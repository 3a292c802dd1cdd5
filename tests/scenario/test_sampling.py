"""What was sent and is looked at afterwards, and the trust ramp that leads there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.app import Parts
from bot.settings import Climb, Review
from store.reviews import ReviewRow
from tests.embedder import HashEmbedder
from tests.scenario.desk import Desk, desk

RULE = {"name": "hr", "collections": ["hr"]}
PEOPLE = ("cli:rita", "cli:raj")
LEAVE = "年假可以休多少天？"
RAMP = Review(
    reviewers=PEOPLE,
    rules=({**RULE, "action": "hold", "ramp": True},),
    ramp=Climb(after=2, percent=100),
    verified=False,
)


@pytest.fixture
async def sampled(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    review = Review(reviewers=PEOPLE, rules=({**RULE, "action": "sample", "percent": 100},))
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder()), review=review) as team:
        yield team


@pytest.fixture
async def climbing(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path, Parts(embedder=HashEmbedder()), review=RAMP) as team:
        yield team


async def resumed(team: Desk, review: ReviewRow) -> None:
    async def done() -> bool:
        return (await team.app.store.reviews.get(review.id)).resumed

    await team.wait(done, f"review {review.id} to be dealt with")


async def test_a_sample_is_sent_and_then_reviewed(sampled: Desk) -> None:
    """The asker has it at once; the review is there, says so, and an approval changes nothing of it."""
    row = await sampled.answered(LEAVE)
    assert row.state == "answered"
    review = await sampled.review_of(row.id, 1)
    assert (review.disposition, review.state, review.reason, review.sent) == ("sample", "pending", "hr", True)
    assert review.draft["collections"] == ["hr"]
    before = await sampled.messages(row.id)
    assert (await sampled.decide(review, "approve")).key == "done"
    await resumed(sampled, review)
    assert await sampled.messages(row.id) == before
    assert (await sampled.app.store.conversations.question(row.id)).state == "answered"


async def test_what_is_found_wrong_afterwards_is_taken_back(sampled: Desk) -> None:
    """A late rejection changes the message where it stands, and tells the asker."""
    row = await sampled.answered(LEAVE)
    review = await sampled.review_of(row.id, 1)
    assert (await sampled.decide(review, "reject", reason="out_of_date")).key == "done"
    await resumed(sampled, review)
    after = await sampled.app.store.conversations.question(row.id)
    assert after.answer is not None
    assert after.answer["meta"]["correction"]["kind"] == "withdrawn"
    assert "15 天" not in after.answer["text"]
    assert any(kind == "notice" for kind, _ in await sampled.messages(row.id))


async def test_what_is_edited_afterwards_is_replaced(sampled: Desk) -> None:
    """The edited text stands in the message, signed by its editor."""
    row = await sampled.answered(LEAVE)
    review = await sampled.review_of(row.id, 1)
    assert (await sampled.decide(review, "edit", text="入职满一年后每年 15 天 [1]。")).key == "done"
    await resumed(sampled, review)
    after = await sampled.app.store.conversations.question(row.id)
    assert after.answer is not None
    assert "入职满一年后每年 15 天 [1]。" in after.answer["text"]
    assert (after.answer["meta"]["signed"], after.answer["meta"]["signed_by"]) == ("edited", "cli:rita")


async def test_a_question_taken_back_is_not_looked_at(sampled: Desk) -> None:
    """Deleted after its answer, its review is withdrawn with it."""
    row = await sampled.answered(LEAVE)
    review = await sampled.review_of(row.id, 1)
    await sampled.app.store.inbox.withdraw(row.id)
    assert (await sampled.app.store.reviews.get(review.id)).state == "withdrawn"
    assert (await sampled.decide(review, "approve")).key == "gone"


async def test_a_topic_climbs_and_one_rejection_brings_it_back(climbing: Desk) -> None:
    """Two approvals in a row: the third goes out at once and is looked at afterwards; rejected, the fourth is held."""
    for thread in ("a", "b"):
        review = await climbing.held(LEAVE, thread)
        await climbing.decide(review, "approve")
        await resumed(climbing, review)
    (topic,) = await climbing.app.trust.topics()
    assert (topic.name, topic.standing.sampled) == ("hr/hr", True)
    row = await climbing.answered(LEAVE, "c")
    execution = await climbing.app.store.runs.latest(row.id)
    assert execution is not None
    assert execution.rule == "hr"
    review = await climbing.review_of(row.id, 1)
    assert review.sent
    await climbing.decide(review, "reject", reason="wrong_document")
    await resumed(climbing, review)
    assert not (await climbing.held(LEAVE, "d")).sent


async def test_a_topic_is_put_back_by_hand(climbing: Desk) -> None:
    """An administrator has everything of it held again; an unknown topic is said to be unknown."""
    for thread in ("a", "b"):
        review = await climbing.held(LEAVE, thread)
        await climbing.decide(review, "approve")
        await resumed(climbing, review)
    assert not await climbing.app.trust.put_back("hr/it", "cli:admin")
    assert await climbing.app.trust.put_back("hr/hr", "cli:admin")
    (topic,) = await climbing.app.trust.topics()
    assert (topic.standing.sampled, topic.standing.streak, topic.by) == (False, 0, "cli:admin")
    assert not (await climbing.held(LEAVE, "c")).sent
