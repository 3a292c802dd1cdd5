"""A review has one outcome, bound to the draft that was decided on."""

import asyncio
import random
from typing import Any

import pytest

from store import NotFound, Store
from store.reviews import Reviews
from tests.integration.test_inbox import BrokenQueue, jobs
from tests.questions import held, question, review

APPROVE = {"action": "approve", "by": "web:bob"}


async def test_a_held_draft_waits_with_its_question(store: Store) -> None:
    """The review is pending, the question held, and opening it again is the same row."""
    opened = await held(store)
    assert (opened.state, opened.reason, opened.audience) == ("pending", "contracts", ("everyone",))
    assert opened.draft == {"text": "Thirty days [1]."}
    assert (await store.conversations.question("q1")).state == "held"
    assert await store.reviews.open(review(version_hash="another")) == opened
    assert await store.reviews.list("pending") == [opened]
    assert [event.action for event in await store.reviews.events(opened.id)] == ["opened"]


async def test_a_draft_of_a_question_taken_back_is_shown_to_nobody(store: Store) -> None:
    """The message was deleted while its answer was drafted."""
    await store.inbox.accept(question())
    await store.inbox.withdraw("q1")
    assert (await store.reviews.open(review())).state == "withdrawn"
    assert await store.reviews.list("pending") == []
    assert (await store.conversations.question("q1")).state == "withdrawn"
    with pytest.raises(NotFound):
        await store.reviews.open(review(2))


async def test_a_decision_is_stored_with_its_job(store: Store) -> None:
    """Outcome, decider, audit and the job that resumes the question, at once."""
    opened = await held(store)
    decided = await store.reviews.decide(opened.id, "hash-1", "approved", "web:bob", APPROVE)
    assert decided.outcome == "done"
    assert decided.review is not None
    assert (decided.review.state, decided.review.decided_by) == ("approved", "web:bob")
    assert (await jobs(store))[-2:] == [
        ("resume", "question:q1", {"review_id": opened.id}),
        ("redraw", f"card:{opened.id}", {"review_id": opened.id}),
    ]
    last = (await store.reviews.events(opened.id))[-1]
    assert (last.actor, last.action, last.version_hash, last.detail) == (
        "web:bob",
        "approved",
        "hash-1",
        APPROVE,
    )


async def test_a_crash_before_the_commit_leaves_the_review_pending(store: Store) -> None:
    """No decision without its job: the click was not answered, and can be made again."""
    opened = await held(store)
    broken = Reviews(store.database.engine, BrokenQueue(store.queue.app))
    with pytest.raises(RuntimeError):
        await broken.decide(opened.id, "hash-1", "approved", "web:bob", APPROVE)
    assert await store.reviews.get(opened.id) == opened
    assert len(await jobs(store)) == 1
    assert len(await store.reviews.events(opened.id)) == 1


async def test_of_fifty_clicks_at_once_one_decides(store: Store) -> None:
    """The others are late, and each is told who decided, and what."""
    opened = await held(store)
    chance = random.Random(7)

    async def click(number: int) -> Any:
        state = chance.choice(["approved", "rejected", "edited"])
        return state, await store.reviews.decide(
            opened.id, "hash-1", state, f"web:p{number}", {"action": state, "by": f"web:p{number}"}
        )

    clicks = await asyncio.gather(*(click(number) for number in range(50)))
    done = [(state, decided.review) for state, decided in clicks if decided.outcome == "done"]
    assert len(done) == 1
    state, winner = done[0]
    assert winner is not None
    assert winner.state == state
    for _, decided in clicks:
        assert decided.outcome in ("done", "late")
        assert decided.review == winner
    assert [name for name, _, _ in await jobs(store)] == ["answer", "resume", "redraw"]
    assert len(await store.reviews.events(opened.id)) == 2


async def test_a_click_on_an_earlier_draft_is_stale(store: Store) -> None:
    """The hash names the draft that the clicker saw; another draft is not decided by it."""
    opened = await held(store)
    decided = await store.reviews.decide(opened.id, "hash-0", "approved", "web:bob", APPROVE)
    assert (decided.outcome, decided.review) == ("stale", opened)
    assert len(await jobs(store)) == 1


async def test_a_click_on_nothing_is_answered_too(store: Store) -> None:
    """An unknown review is gone, not an error."""
    decided = await store.reviews.decide(404, "hash-1", "approved", "web:bob", APPROVE)
    assert (decided.outcome, decided.review) == ("gone", None)
    assert await store.reviews.find(404) is None
    with pytest.raises(NotFound):
        await store.reviews.get(404)


async def test_no_outcome_is_made_up(store: Store) -> None:
    """Unknown outcomes and empty decisions, which LangGraph takes for no answer, are refused."""
    opened = await held(store)
    with pytest.raises(ValueError, match="no outcome"):
        await store.reviews.decide(opened.id, "hash-1", "pending", "web:bob", APPROVE)
    with pytest.raises(ValueError, match="empty resume"):
        await store.reviews.decide(opened.id, "hash-1", "approved", "web:bob", {})


async def test_claiming_shows_who_has_it_and_hinders_nobody(store: Store) -> None:
    """One claimer at a time, who may give it back; another may still decide."""
    opened = await held(store)
    claims = await asyncio.gather(*(store.reviews.claim(opened.id, f"web:p{n}") for n in range(10)))
    assert sum(claims) == 1
    claimer = (await store.reviews.get(opened.id)).claimed_by
    assert claimer is not None
    assert await store.reviews.claim(opened.id, claimer)
    assert not await store.reviews.release(opened.id, "web:somebody")
    assert await store.reviews.release(opened.id, claimer)
    assert (await store.reviews.get(opened.id)).claimed_by is None
    assert await store.reviews.claim(opened.id, "web:carol")
    decided = await store.reviews.decide(opened.id, "hash-1", "approved", "web:bob", APPROVE)
    assert decided.outcome == "done"
    assert not await store.reviews.claim(opened.id, "web:carol")


async def test_rounds_of_a_question_are_reviews_of_their_own(store: Store) -> None:
    """A rejected draft's successor is a new row; two held questions are decided in either order."""
    first = await held(store)
    await store.reviews.decide(first.id, "hash-1", "rejected", "web:bob", {"action": "reject"})
    second = await store.reviews.open(review(interrupt_id="again", round=2, version_hash="hash-2"))
    assert [row.id for row in await store.reviews.for_question("q1")] == [first.id, second.id]
    other = await held(store, 2)
    for waiting in (other, second):
        decided = await store.reviews.decide(waiting.id, waiting.version_hash, "approved", "web:bob", APPROVE)
        assert decided.outcome == "done"


async def test_the_overdue_are_found_and_time_out_in_a_state_of_their_own(store: Store) -> None:
    """Expiry is decided by nobody and is no denial."""
    opened = await held(store)
    assert await store.reviews.overdue(1.0) == []
    assert [row.id for row in await store.reviews.overdue(0.0)] == [opened.id]
    decided = await store.reviews.decide(opened.id, "hash-1", "expired", "", {"action": "expire"})
    assert decided.review is not None
    assert (decided.review.state, decided.review.decided_by) == ("expired", "")
    assert await store.reviews.overdue(0.0) == []


async def test_resumed_is_remembered(store: Store) -> None:
    """So that a job that runs twice hands the decision over once."""
    opened = await held(store)
    assert not opened.resumed
    await store.reviews.mark_resumed(opened.id)
    assert (await store.reviews.get(opened.id)).resumed


async def test_withdrawing_by_itself_closes_what_is_pending(store: Store) -> None:
    """A decided round stays decided."""
    first = await held(store)
    await store.reviews.decide(first.id, "hash-1", "rejected", "web:bob", {"action": "reject"})
    second = await store.reviews.open(review(interrupt_id="again", round=2))
    assert await store.reviews.withdraw("q1", by="web:ada") == 1
    assert [row.state for row in await store.reviews.for_question("q1")] == ["rejected", "withdrawn"]
    assert (await store.reviews.events(second.id))[-1].actor == "web:ada"


async def test_a_change_and_the_order_to_redraw_its_cards_are_one(store: Store) -> None:
    """Killed right after a claim or a release, the cards are still drawn anew: the job is in the same transaction."""
    opened = await held(store)
    assert await store.reviews.claim(opened.id, "web:lin")
    assert await store.reviews.release(opened.id, "web:lin")
    redraws = [job for job in await jobs(store) if job[0] == "redraw"]
    assert redraws == [("redraw", f"card:{opened.id}", {"review_id": opened.id})] * 2
