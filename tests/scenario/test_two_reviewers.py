"""A rule that asks for two people: two persons, not two accounts, on the very same draft."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.settings import Review
from tests.scenario.test_two_platforms import CLAUSE, Two, two

REVIEW = Review(
    reviewers=("east:rita", "east:vera", "west:raj", "west:rita", "west:sam", "west:lin"),
    channels=("west:desk",),
    rules=({"name": "contracts", "collections": ["contracts"], "action": "two_reviewers"},),
)


@pytest.fixture
async def both(database_url: str, tmp_path: Path) -> AsyncIterator[Two]:
    async with two(database_url, tmp_path, review=REVIEW) as opened:
        for name in ("raj", "rita", "sam"):
            await opened.team.app.store.people.link(f"west:{name}", f"east:{name}", by="cli:admin")
        yield opened


async def test_two_different_people_let_it_go(both: Two) -> None:
    """After the first approval nothing is sent and the card says who is missing; after the second it is."""
    question_id = await both.ask(CLAUSE)
    review = await both.team.review_of(question_id, 1)
    assert await both.click(review, "west:raj", "claim") == "claimed"
    assert await both.click(review, "west:raj") == "first"
    waiting = await both.team.app.store.reviews.get(review.id)
    assert (waiting.state, waiting.approved_by, waiting.claimed_by) == ("pending", ("west:raj",), None)
    assert (await both.row(question_id)).state == "held"

    async def said() -> bool:
        cards = both.west.shown("card")
        return bool(cards) and cards[0].meta["approved_by"] == ["west:raj"]

    await both.team.wait(said, "the card to say who has approved")
    assert await both.click(review, "west:sam") == "done"
    row = await both.team.ended(question_id)
    assert row.state == "answered"
    assert row.answer is not None
    assert row.answer["meta"]["signed_by"] == "west:sam"
    events = [(event.actor, event.action) for event in await both.team.app.store.reviews.events(review.id)]
    assert ("west:raj", "approved_first") in events
    assert ("west:sam", "approved") in events


async def test_one_person_on_two_platforms_is_one(both: Two) -> None:
    """Neither twice from one account, nor from another one that is linked, nor by an edit of their own."""
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "west:rita") == "first"
    assert await both.click(review, "west:rita") == "twice"
    assert await both.click(review, "east:rita") == "twice"
    assert await both.click(review, "east:rita", "edit", text="45 日 [1]。") == "revised"
    revised = await both.team.app.store.reviews.get(review.id)
    assert await both.click(revised, "west:rita") == "twice"
    assert revised.state == "pending"


async def test_two_platforms_are_no_hindrance(both: Two) -> None:
    """The first one's account on the second one's platform is known and is another: they are two."""
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "west:raj") == "first"
    assert await both.click(review, "east:vera") == "done"


async def test_the_asker_never_counts(both: Two) -> None:
    """Not as the second one either, from any account."""
    await both.team.app.store.people.link("west:lin", "east:lin", by="cli:admin")
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "west:raj") == "first"
    assert await both.click(review, "west:lin") == "own"


async def test_an_edit_makes_another_draft_that_both_approve(both: Two) -> None:
    """The first approval was for other words, and no longer counts; what is sent is the edited text, with its diff."""
    question_id = await both.ask(CLAUSE)
    review = await both.team.review_of(question_id, 1)
    assert await both.click(review, "west:raj") == "first"
    assert await both.click(review, "west:sam", "edit", text="验收合格后 45 日内付款 [1]。") == "revised"
    revised = await both.team.app.store.reviews.get(review.id)
    assert (revised.approved_by, revised.draft["original"]) == (("west:sam",), review.draft["text"])
    assert [piece["support"] for piece in revised.draft["sentences"]] == ["supported"]
    assert await both.click(review, "west:raj") == "stale"
    assert await both.click(revised, "west:raj") == "done"
    row = await both.team.ended(question_id)
    assert row.answer is not None
    assert row.answer["text"] == "验收合格后 45 日内付款 [1]。"
    assert row.answer["meta"]["signed"] == "edited"


async def test_one_rejection_is_enough(both: Two) -> None:
    """Two are needed to send, not to stop."""
    question_id = await both.ask(CLAUSE)
    review = await both.team.review_of(question_id, 1)
    assert await both.click(review, "west:raj") == "first"
    assert await both.click(review, "west:sam", "reject", reason="out_of_date") == "done"
    assert (await both.team.ended(question_id)).state == "declined"


async def test_of_two_clicks_at_once_one_is_the_first(both: Two) -> None:
    """Whoever is a moment later completes it; a third is late."""
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    keys = await asyncio.gather(*(both.click(review, f"west:{who}") for who in ("raj", "sam", "rita")))
    assert sorted(keys) == ["done", "first", "late"]


async def test_a_second_draft_needs_two_again(both: Two) -> None:
    """Sent back with a hint, what comes next is held for two people as well, with no approval yet."""
    question_id = await both.ask(CLAUSE)
    review = await both.team.review_of(question_id, 1)
    assert await both.click(review, "west:raj") == "first"
    back = await both.click(review, "west:sam", "reject", reason="incomplete", hint="赔偿责任 上限")
    assert back == "done"
    second = await both.team.review_of(question_id, 2)
    assert (second.needed, second.approved_by, second.round) == (2, (), 2)
