"""A review that nobody decides: who hears of it, what the asker may choose, and that nothing is decided by waiting."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bot.messages import Reply
from bot.settings import Queue, Review
from store.reviews import ReviewRow
from tests.scenario.test_two_platforms import CLAUSE, Two, two

SOON = 0.4 / 60  # minutes
RULES: tuple[dict[str, Any], ...] = ({"name": "contracts", "collections": ["contracts"], "action": "hold"},)
PEOPLE: dict[str, Any] = {
    "reviewers": ("east:rita", "west:raj", "west:sam"),
    "channels": ("west:desk",),
}


def review(rules: tuple[dict[str, Any], ...] = RULES, **queue: Any) -> Review:
    steps = {"remind_minutes": 0, "second_minutes": 0, "timeout_minutes": 0}
    return Review(rules=rules, queues={"default": Queue(**{**steps, **queue})}, **PEOPLE)


@pytest.fixture
async def opening(database_url: str, tmp_path: Path) -> Callable[..., Any]:
    return lambda **queue: two(database_url, tmp_path, review=review(**queue))


async def told(both: Two, house: Any, words: str) -> Reply:
    found: list[Reply] = []

    async def there() -> bool:
        found[:] = [reply for reply in house.posted.values() if words in reply.text]
        return bool(found)

    await both.team.wait(there, f"{words!r} on {house.name}")
    return found[0]


async def marked(both: Two, review: ReviewRow, action: str) -> None:
    async def there() -> bool:
        return action in [event.action for event in await both.team.app.store.reviews.events(review.id)]

    await both.team.wait(there, f"{action} in the audit")


async def test_the_review_channel_is_reminded_once(opening: Callable[..., Any]) -> None:
    """Nobody has taken it: the channel reads its number and how long it has waited, nothing of its words; the job under
    a lock of its own may run twice."""
    async with opening(remind_minutes=SOON) as both:
        review = await both.team.review_of(await both.ask(CLAUSE), 1)
        said = await told(both, both.west, f"Review {review.id} has waited")
        assert "nobody has taken it" in said.text
        assert "3.2" not in said.text
        await marked(both, review, "reminded")
        await both.team.app.patience.step(review.id, "reminded")
        assert sum("has waited" in reply.text for reply in both.west.posted.values()) == 1
        assert (await both.team.app.store.reviews.get(review.id)).state == "pending"


async def test_a_second_reviewer_is_asked(opening: Callable[..., Any]) -> None:
    """The review channels, where the queue names nobody."""
    async with opening(second_minutes=SOON) as both:
        review = await both.team.review_of(await both.ask(CLAUSE), 1)
        await told(both, both.west, "second reviewer")
        await marked(both, review, "escalated")


async def test_after_the_time_out_the_asker_chooses(opening: Callable[..., Any]) -> None:
    """The thread offers to wait on or to ask a person, no draft where none is allowed; a time-out decides nothing, and
    the review channel is asked once."""
    async with opening(timeout_minutes=SOON) as both:
        question_id = await both.ask(CLAUSE)
        review = await both.team.review_of(question_id, 1)
        said = await told(both, both.east, "没有人按时审核")
        assert said.meta["actions"] == ["wait", "person"]
        patience = both.team.app.patience
        assert await patience.choose(question_id, "east:somebody", "wait") == "forbidden"
        assert await patience.choose(question_id, "east:lin", "peek") == "not_shown"
        assert await patience.choose(question_id, "east:lin", "person") == "chose_person"
        asked = await told(both, both.west, "would like a person to answer")
        assert CLAUSE in asked.text
        assert (await both.team.app.store.reviews.get(review.id)).state == "pending"
        assert not [reply for reply in both.east.shown("notice") if reply.meta.get("actions")]
        await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
        assert await both.click(review, "west:raj") == "done"
        assert (await both.team.ended(question_id)).state == "answered"
        assert await patience.choose(question_id, "east:lin", "wait") == "over"


async def test_the_draft_is_shown_to_the_asker_alone_where_allowed(opening: Callable[..., Any]) -> None:
    """Marked unverified; once it is decided its words are taken away again."""
    async with opening(timeout_minutes=SOON, private_draft=True) as both:
        question_id = await both.ask(CLAUSE)
        review = await both.team.review_of(question_id, 1)
        said = await told(both, both.east, "没有人按时审核")
        assert said.meta["actions"] == ["wait", "peek", "person"]
        assert not both.east.shown("draft")
        assert await both.team.app.patience.choose(question_id, "east:lin", "peek") == "chose_peek"
        (shown,) = both.east.shown("draft")
        assert "未经核实" in shown.text
        assert "45" in shown.text
        await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
        await both.click(review, "west:raj", "reject", reason="out_of_date")

        async def gone() -> bool:
            return all("45" not in reply.text for reply in both.east.shown("draft"))

        await both.team.wait(gone, "the draft's words to be taken away")


async def test_a_rule_may_show_the_draft_from_the_start(opening: Callable[..., Any]) -> None:
    """action = "private": the asker reads it, marked, while it waits; the review goes on."""
    async with opening(rules=({**RULES[0], "action": "private"},)) as both:
        question_id = await both.ask(CLAUSE)
        review = await both.team.review_of(question_id, 1)
        await both.shown(both.east, "draft")
        assert "未经核实" in both.east.shown("draft")[0].text
        assert (review.disposition, review.state) == ("private", "pending")


async def test_who_holds_it_and_until_when_is_said(opening: Callable[..., Any]) -> None:
    """With five decided reviews to go by the notice says what one usually takes; with four it says nothing."""
    async with opening() as both:
        await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
        for number in range(6):
            question_id = await both.ask(CLAUSE, asker=f"east:a{number}")
            review = await both.team.review_of(question_id, 1)
            await both.shown(both.east, "held", number + 1)
            held = both.east.shown("held")[-1]
            assert ("审核通常需要" in held.text) is (number == 5)
            assert bool(held.meta["expected_at"]) is (number == 5)
            assert await both.click(review, "west:raj", "reject", reason="other") == "done"
            await both.team.ended(question_id)


async def test_three_rejected_drafts_are_a_persons_work(opening: Callable[..., Any]) -> None:
    """After the third the asker reads that a person will answer, and the review channel is asked to, once."""
    async with opening() as both:
        await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
        question_id = await both.ask(CLAUSE)
        for round in (1, 2, 3):
            review = await both.team.review_of(question_id, round)
            hint = ("赔偿责任 上限", "验收 付款 期限", "乙方 合同总价")[round - 1]
            await both.click(review, "west:raj", "reject", reason="incomplete", hint=hint)
            rounds = len(await both.team.app.store.reviews.for_question(question_id))
            assert rounds <= 3
            if (await both.row(question_id)).state == "declined":
                break
        row = await both.team.ended(question_id)
        assert row.state == "declined"


async def test_what_a_person_answers_can_become_a_verified_answer(database_url: str, tmp_path: Path) -> None:
    """No draft was good enough; a reviewer's own words in the thread go before the reviewers, on the passages that
    support them, and approved they serve the next one who asks. Nobody else's words do, nor the same message twice."""
    async with two(database_url, tmp_path, review=review()) as both:
        app = both.team.app
        await app.store.people.link("west:raj", "east:raj", by="cli:admin")
        question_id = await both.ask(CLAUSE)
        first = await both.team.review_of(question_id, 1)
        row = await both.row(question_id)
        given = {
            "kind": "declined",
            "text": "…",
            "language": "zh",
            "citations": [],
            "meta": {"reason": "rounds"},
        }
        await both.click(first, "west:raj", "reject", reason="incomplete")
        await both.team.ended(question_id)
        async with app.store.database.engine.begin() as connection:
            await connection.execute(
                text("UPDATE questions SET answer = :answer WHERE id = :id"),
                {"answer": json.dumps(given), "id": question_id},
            )
        words = "甲方应在验收合格后 45 日内付款。"
        heard = app.by_hand.heard
        assert await heard(row.conversation_id, "east:somebody", words, "m0") is None
        assert await heard(row.conversation_id, "east:raj", "明天再看看吧。", "m1") is None
        opened = await heard(row.conversation_id, "east:raj", words, "m2")
        assert opened is not None
        assert (opened.sent, opened.reason, opened.draft["kind"]) == (True, "person", "person")
        assert (await heard(row.conversation_id, "east:raj", words, "m2")) == opened
        assert await both.click(opened, "west:raj") == "done"

        async def kept() -> bool:
            return bool(await app.store.verified.list())

        await both.team.wait(kept, "the answer to be kept")
        (known,) = await app.store.verified.list()
        assert words.rstrip("。") in str(known.answer["text"])
        assert await app.by_hand.answer(first.id, "east:raj", " ") == "empty"
        assert await app.by_hand.answer(first.id, "east:nobody", words) == "forbidden"
        assert await app.by_hand.answer(first.id, "east:raj", words) == "answered"
        assert any(words in reply.text for reply in both.east.shown("notice"))


async def test_a_draft_that_could_not_be_shown_is_not_shown_after_its_rejection(
    opening: Callable[..., Any],
) -> None:
    """The platform was away when the asker wanted it; meanwhile it was rejected."""
    async with opening(timeout_minutes=SOON, private_draft=True) as both:
        question_id = await both.ask(CLAUSE)
        review = await both.team.review_of(question_id, 1)
        await told(both, both.east, "没有人按时审核")
        await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
        both.east.failing = ConnectionError()
        assert await both.team.app.patience.choose(question_id, "east:lin", "peek") == "not_shown"
        both.east.failing = None
        await both.click(review, "west:raj", "reject", reason="out_of_date")
        await both.team.ended(question_id)
        rows = await both.team.app.store.deliveries.for_review(review.id)
        (draft,) = [row for row in rows if row.kind == "draft"]
        await both.team.app.outbox.resend(draft.id)
        assert not both.east.shown("draft")
        assert (await both.team.app.store.deliveries.get(draft.id)).state == "refused"
