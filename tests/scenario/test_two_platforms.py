"""Asked on one platform, signed off on another; and what happens when a platform does not take a message."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bot.app import Parts, open_app
from bot.limits import Pace, Rate
from bot.messages import Action, Incoming, NotTaken, Platform, ResultUnknown
from bot.settings import Operations, Review, Settings
from store import Store
from store.conversations import QuestionRow
from store.database import transaction
from store.deliveries import NewDelivery
from store.reviews import ReviewRow
from tests.embedder import HashEmbedder
from tests.houses import House
from tests.scenario.desk import REVIEW as DESK_REVIEW
from tests.scenario.desk import Desk, desk

CLAUSE, LEAVE = "合同第 3.2 条规定多少日内付款？", "年假可以休多少天？"
REVIEW = Review(
    reviewers=("east:rita", "west:raj", "west:lin"),
    channels=("west:desk",),
    rules=({"name": "contracts", "collections": ["contracts"], "action": "hold"},),
)


@dataclass
class Two:
    """People ask on `east`; cards are posted on `west`."""

    team: Desk
    east: House
    west: House

    async def ask(self, words: str, asker: str = "east:lin", key: str = "") -> str:
        question_id = await self.team.app.asking.accept(
            Incoming(
                platform="east",
                dedupe_key=key or f"{words}:{asker}",
                conversation_id=f"east:hall:{asker}",
                channel="hall",
                thread=asker,
                private=False,
                asker=asker,
                text=words,
                sent_at=datetime.now(UTC),
                address={"channel": "hall", "thread": asker},
            )
        )
        assert question_id is not None
        return question_id

    async def click(self, review: ReviewRow, actor: str, verb: Any = "approve", **fields: str) -> str:
        action = Action(actor.split(":")[0], review.id, review.version_hash, actor, verb, **fields)
        return (await self.team.app.reviewing.act(action)).key

    async def row(self, question_id: str) -> QuestionRow:
        return await self.team.app.store.conversations.question(question_id)

    async def shown(self, house: House, kind: str, count: int = 1) -> None:
        async def there() -> bool:
            return len(house.shown(kind)) >= count

        await self.team.wait(there, f"{count} × {kind} on {house.name}")


@asynccontextmanager
async def two(url: str, folder: Path, **chosen: Any) -> AsyncIterator[Two]:
    east, west = House("east"), House("west")

    def houses(_: Store) -> Mapping[str, Platform]:
        return {"east": east, "west": west}

    parts = Parts(embedder=HashEmbedder(), platforms=houses)
    async with desk(url, folder, parts, **{"review": REVIEW, **chosen}) as team:
        yield Two(team, east, west)


@pytest.fixture
async def both(database_url: str, tmp_path: Path) -> AsyncIterator[Two]:
    async with two(database_url, tmp_path) as opened:
        yield opened


# --- across platforms


async def test_a_card_on_another_platform_is_decided_there(both: Two) -> None:
    """The card goes where the setting says; a linked reviewer's click there answers the thread here, and the card is
    drawn anew."""
    question_id = await both.ask(CLAUSE)
    review = await both.team.review_of(question_id, 1)
    await both.shown(both.west, "card")
    await both.shown(both.east, "held")
    assert both.east.shown("card") == []
    assert await both.click(review, "west:raj") == "unlinked"
    await both.team.app.store.people.link("west:raj", "east:raj", by="cli:admin")
    assert await both.click(review, "west:raj") == "done"
    row = await both.team.ended(question_id)
    assert row.state == "answered"
    await both.shown(both.east, "answer")

    async def redrawn() -> bool:
        return bool(both.west.shown("card")[0].meta["state"] == "approved")

    await both.team.wait(redrawn, "the card to be redrawn")


@pytest.mark.parametrize("linked_by", ["admin", "email"])
async def test_your_own_question_is_yours_on_every_platform(both: Two, linked_by: str) -> None:
    """Whoever asked here cannot decide there, once it is known that the two are one person; by an admin's word or by
    the same verified address."""
    if linked_by == "admin":
        await both.team.app.store.people.link("west:lin", "east:lin", by="cli:admin")
    else:
        both.east.emails["east:lin"] = "Lin@henglu.example"
        both.west.emails["west:lin"] = "lin@henglu.example "
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "west:lin") == "own"
    assert (await both.team.app.store.reviews.get(review.id)).state == "pending"


async def test_any_linked_identity_on_the_list_counts(both: Two) -> None:
    """The list names rita on the one platform; she decides from the other, and a stranger does not."""
    await both.team.app.store.people.link("east:rita", "west:rita", by="cli:admin")
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "west:mallory") == "forbidden"
    assert await both.click(review, "west:rita") == "done"


async def test_a_review_is_passed_on(both: Two) -> None:
    """To another reviewer, whoever holds it and with a line in the audit; never to the asker or to a stranger."""
    for name in ("raj", "lin"):
        await both.team.app.store.people.link(f"west:{name}", f"east:{name}", by="cli:admin")
    review = await both.team.review_of(await both.ask(CLAUSE), 1)
    assert await both.click(review, "east:rita", "claim") == "claimed"
    assert await both.click(review, "west:raj", "claim") == "late"
    for nobody in ("", "west:mallory", "west:lin"):
        assert await both.click(review, "east:rita", "reassign", to=nobody) == "no_reviewer"
    assert await both.click(review, "east:rita", "reassign", to="west:raj") == "reassigned"
    assert (await both.team.app.store.reviews.get(review.id)).claimed_by == "west:raj"
    last = (await both.team.app.store.reviews.events(review.id))[-1]
    assert (last.action, last.actor, last.detail) == ("reassigned", "east:rita", {"to": "west:raj"})
    assert await both.click(review, "west:raj") == "done"
    assert await both.click(review, "east:rita", "reassign", to="west:raj") == "late"


# --- what a platform does not take


async def test_what_a_thread_refuses_is_told_to_the_admins(database_url: str, tmp_path: Path) -> None:
    """The bot was put out of the channel: nobody there can be told, so those who run it are, once, with ids."""
    async with two(database_url, tmp_path, operations=Operations(alerts=("west:ops",))) as both:
        both.east.failing = NotTaken("not_in_channel")
        question_id = await both.ask(LEAVE)
        await both.shown(both.west, "notice")
        row = await both.team.ended(question_id)
        assert row.state == "answered"
        notice = both.west.shown("notice")[0].text
        assert question_id in notice
        assert "east:hall" in notice
        assert "not_in_channel" in notice
        assert LEAVE not in notice
        assert "15 天" not in notice
        assert both.east.attempts == [f"answer:{question_id}"]
        assert len(both.west.shown("notice")) == 1


async def test_a_result_that_nobody_knows_is_surfaced(both: Two) -> None:
    """Not sent twice, and not forgotten: the review channel reads that it should look, the doctor counts it."""
    both.east.failing = ResultUnknown("timeout")
    question_id = await both.ask(LEAVE)
    await both.shown(both.west, "notice")
    assert "twice" in both.west.shown("notice")[0].text
    assert both.east.attempts == [f"answer:{question_id}"]
    since = datetime(2020, 1, 1, tzinfo=UTC)
    assert await both.team.app.store.deliveries.troubles(since) == {"unknown": 1}


async def test_a_platform_that_comes_back_gets_what_it_missed(both: Two) -> None:
    """An answer that was given up while the platform was away is sent from its row when it is back, once; a card that
    was decided meanwhile is not posted any more."""
    app = both.team.app
    both.east.failing = both.west.failing = ConnectionError("away")
    answered = NewDelivery(
        purpose="answer:q", platform="east", kind="notice", address={"channel": "hall"},
        content={"kind": "notice", "text": "x", "language": "en", "citations": [], "meta": {}},
    )  # fmt: skip
    with pytest.raises(Exception, match="ConnectionError"):
        await app.deliverer.deliver(answered)
    question_id = await both.ask(LEAVE)

    async def failed() -> bool:
        rows = await app.store.deliveries.for_question(question_id)
        return any(row.state == "failed" for row in rows)

    await both.team.wait(failed, "the first failure")
    await app.asking.give_up(question_id)  # as after the job's last attempt
    both.east.failing = both.west.failing = None
    async with transaction(app.store.database.engine) as connection:
        await connection.execute(text("UPDATE deliveries SET created_at = now() - interval '2 hours'"))
    await app.outbox.tend()
    await both.shown(both.east, "answer")
    row = await both.team.ended(question_id)
    assert row.state == "answered"
    assert len(both.east.shown("answer")) == 1
    assert "15 天" in both.east.shown("answer")[0].text


async def test_an_unreachable_thread_does_not_keep_the_card(both: Two) -> None:
    """The asker cannot be told that it waits, the reviewers can; their decision still goes through."""
    both.east.failing = ConnectionError("away")
    question_id = await both.ask(CLAUSE)
    await both.shown(both.west, "card")
    await both.team.app.asking.give_up(question_id)
    assert (await both.row(question_id)).state == "held"


async def test_of_several_changes_the_latest_is_drawn(both: Two) -> None:
    """Claimed, released, claimed: a card whose place is busy shows the last state, and equal states are not drawn."""
    review = await both.team.review_of(await both.ask(CLAUSE, asker="west:ann"), 1)
    await both.shown(both.west, "card")
    cards = both.team.app.cards
    await both.team.app.store.reviews.claim(review.id, "west:raj")
    await asyncio.gather(*(cards.redraw(review.id) for _ in range(1)))
    before = len(both.west.updates)
    for _ in range(5):
        await cards.redraw(review.id)
    assert len(both.west.updates) == before
    assert both.west.shown("card")[0].meta["claimed_by"] == "west:raj"


# --- whoever else works at the same time


async def test_row_03_two_processes_leave_one_thread(database_url: str, tmp_path: Path) -> None:
    """langgraph#8796: two writers fork a thread. Two applications answer one conversation's questions, each job queued
    twice; every thread has one last checkpoint, in order. Row 3."""
    async with desk(database_url, tmp_path) as first, _another(database_url, tmp_path):
        asked = [await first.ask(LEAVE) for _ in range(5)]
        for question_id in asked:
            await first.app.store.queue.defer("answer", {"question_id": question_id}, lock="cli:cli:lin:t1")
            await first.app.store.queue.defer(
                "remember", {"question_id": question_id}, lock="memory:cli:cli:lin:t1"
            )
        for question_id in asked:
            await first.ended(question_id)
        turns, _ = await first.app.graphs.recall("cli:cli:lin:t1")
        assert [turn.question_id for turn in turns] == asked
        assert [len(await first.messages(question_id)) for question_id in asked] == [1] * 5
        async with transaction(first.app.store.database.engine) as connection:
            leaves = await connection.execute(
                text(
                    "SELECT thread_id, count(*) FROM checkpoints AS c WHERE NOT EXISTS (SELECT FROM checkpoints AS n"
                    " WHERE n.thread_id = c.thread_id AND n.parent_checkpoint_id = c.checkpoint_id) GROUP BY 1"
                )
            )
            assert {row[1] for row in leaves} == {1}


@asynccontextmanager
async def _another(url: str, folder: Path) -> AsyncIterator[None]:
    """A second process's worth of the application, working on the same queue."""
    settings = Settings(home=folder, config=folder / "signoff.toml", review=DESK_REVIEW)
    async with open_app(settings, url, Parts(embedder=HashEmbedder())) as app:
        working = asyncio.create_task(app.store.queue.run_worker(["answers"]))
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def test_row_15_killed_while_sending_there_is_one_row(both: Two) -> None:
    """langgraph#7417: work is dispatched at least once. Whoever sends again after a sender was killed uses its row, and
    tells the house that it may have arrived. Row 15."""
    message = NewDelivery(
        purpose="answer:q", platform="east", kind="notice", address={"channel": "hall"},
        content={"kind": "notice", "text": "x", "language": "en", "citations": [], "meta": {}},
    )  # fmt: skip
    both.east.failing = asyncio.CancelledError()  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await both.team.app.deliverer.deliver(message)
    both.east.failing = None
    row = await both.team.app.deliverer.deliver(message)
    assert (row.state, both.east.attempts) == ("sent", ["answer:q", "answer:q"])
    assert both.east.places[row.message_id or ""]["again"] is True
    assert await both.team.app.deliverer.deliver(message) == row


async def test_a_crowded_platform_keeps_no_place_from_an_answer(database_url: str, tmp_path: Path) -> None:
    """Cards that have to wait for their turn leave the queue to questions, and are drawn as they are when it comes."""
    pace = Pace({"west": {"update": (Rate(1, 4.0, "platform"),)}})
    async with two(database_url, tmp_path) as both:
        app = both.team.app
        app.deliverer._pace = pace
        for name in ("raj", "lin"):
            await app.store.people.link(f"west:{name}", f"east:{name}", by="cli:admin")
        reviews = [
            await both.team.review_of(await both.ask(CLAUSE, asker=f"east:a{n}"), 1) for n in range(10)
        ]
        await both.shown(both.west, "card", 10)
        for review in reviews:
            assert await both.click(review, "west:raj", "claim") == "claimed"
        assert (await both.team.ended(await both.ask(LEAVE))).state == "answered"
        claimed = [reply for reply in both.west.shown("card") if reply.meta["claimed_by"]]
        assert len(claimed) <= 5
        both.team.app.deliverer._pace = Pace({})

        async def drawn() -> bool:
            return all(reply.meta["claimed_by"] for reply in both.west.shown("card"))

        await both.team.wait(drawn, "all cards to be drawn")
