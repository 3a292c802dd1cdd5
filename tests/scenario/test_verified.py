"""What a person signed serves the same question again, until something it rests on changes."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.settings import Review
from store.conversations import QuestionRow
from store.reviews import ReviewRow
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.scenario.desk import REVIEW, Desk, desk

CONTRACT = "合同第 3.2 条规定多少日内付款？"
REPHRASED = "请问合同第三点二条规定多少天内付款？".replace("第三点二条", "第 3.2 条").replace("天", "日")
CHANGED = ["第 3.2 条 甲方应在验收合格后 30 日内付款。", "第 7.1 条 乙方的赔偿责任以合同总价为上限。"]


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path) as opened:
        yield opened


async def signed(team: Desk, verb: str = "approve", **fields: str) -> QuestionRow:
    """The contract question, asked by lin and signed by rita."""
    review = await team.held(CONTRACT)
    await team.decide(review, verb, **fields)
    return await team.ended(review.question_id)


async def second_look(team: Desk, question_id: str) -> ReviewRow:
    async def there() -> bool:
        return len(await team.app.store.reviews.for_question(question_id)) > 1

    await team.wait(there, "the verified answer to come back for review")
    return (await team.app.store.reviews.for_question(question_id))[-1]


async def republish(team: Desk, texts: list[str]) -> None:
    await publish(team.app.store, HashEmbedder(), "contracts", "合同条款.md", texts)


async def test_what_was_signed_is_given_at_once(team: Desk) -> None:
    """The same question, politely put by somebody else, gets the signed text without a review, marked with who and
    when."""
    first = await signed(team)
    again = await team.answered(REPHRASED, "t2", "cli:may")
    assert first.answer is not None
    assert again.answer is not None
    assert again.answer["text"] == first.answer["text"]
    assert again.answer["citations"][0]["title"] == "合同条款"
    meta = again.answer["meta"]
    assert (meta["signed"], meta["signed_by"], meta["rule"]) == ("verified", "cli:rita", "verified")
    assert meta["signed_at"][:4].isdigit()
    assert await team.app.store.reviews.for_question(again.id) == []
    (known,) = await team.app.store.verified.list()
    assert await team.app.store.verified.counts() == {known.id: 1}


async def test_an_edited_answer_serves_as_it_was_edited(team: Desk) -> None:
    """What the reviewer wrote is what the next asker reads."""
    await signed(team, "edit", text="验收合格后四十五日内付款 [1]。")
    again = await team.answered(CONTRACT, "t2", "cli:may")
    assert again.answer is not None
    assert again.answer["text"] == "验收合格后四十五日内付款 [1]。"


@pytest.mark.parametrize(
    "near_miss",
    [
        "合同第 7.1 条规定多少日内付款？",
        "合同第 3.2 条规定多少个工作日内付款？",
        "合同第 3.2 条不规定多少日内付款？",
    ],
)
async def test_a_near_miss_waits_for_a_person(team: Desk, near_miss: str) -> None:
    """Another clause, another unit, a denial: never the signed answer."""
    await signed(team)
    asked = await team.ask(near_miss, "t2", "cli:may")

    async def settled() -> bool:
        row = await team.app.store.conversations.question(asked)
        return row.state in ("held", "answered", "declined")

    await team.wait(settled, "the question")
    row = await team.app.store.conversations.question(asked)
    assert row.state == "held" or (row.answer or {})["meta"].get("signed") != "verified"


async def test_a_rejected_draft_is_not_kept(team: Desk) -> None:
    """Only what a person signed serves again."""
    review = await team.held(CONTRACT)
    await team.decide(review, "reject", reason="other")
    await team.ended(review.question_id)
    assert await team.app.store.verified.list() == []


async def test_it_never_crosses_audiences(team: Desk) -> None:
    """Somebody who may not read the source is not given the answer: the statement itself leaves it out."""
    await signed(team)
    documents = await team.app.store.documents.list("contracts")
    await team.app.store.documents.set_audience(documents[0].id, ("cli:lin",))
    again = await team.ask(CONTRACT, "t2", "cli:may")
    row = await team.ended(again)
    assert row.state == "declined"
    assert (await team.answered(CONTRACT, "t3", "cli:lin")).answer is not None
    await team.app.store.documents.set_audience(documents[0].id, None)
    served = await team.answered(CONTRACT, "t4", "cli:may")
    assert served.answer is not None
    assert served.answer["meta"]["signed"] == "verified"


async def test_what_nobody_may_read_any_more_is_retired(team: Desk) -> None:
    """Signed for lin alone, then its source is zoe's alone and changes: no reviewer could open it, so that none is
    asked."""
    documents = await team.app.store.documents.list("contracts")
    await team.app.store.documents.set_audience(documents[0].id, ("cli:lin",))
    first = await signed(team)
    await team.app.store.documents.set_audience(documents[0].id, ("cli:zoe",))
    await republish(team, CHANGED)

    async def retired() -> bool:
        known = await team.app.store.verified.of_question(first.id)
        return known is not None and known.state == "retired"

    await team.wait(retired, "the answer to be retired")
    assert len(await team.app.store.reviews.for_question(first.id)) == 1


async def test_a_changed_source_takes_it_out_of_service_at_once(team: Desk) -> None:
    """With the new version visible the answer is out of service, and back before the reviewers with what changed."""
    first = await signed(team)
    await republish(team, CHANGED)
    (known,) = await team.app.store.verified.list()
    assert (known.state, known.reason) == ("review", "changed")
    review = await second_look(team, first.id)
    assert review.state == "pending"
    (change,) = review.draft["changes"]
    assert change["diff"] == [
        ["gone", "第 3.2 条 甲方应在验收合格后 45 日内付款。"],
        ["new", "第 3.2 条 甲方应在验收合格后 30 日内付款。"],
    ]
    held = await team.held(CONTRACT, "t2", "cli:may")
    assert "30" in held.draft["text"]


async def test_a_version_that_leaves_the_passage_alone_changes_nothing(team: Desk) -> None:
    """The new version has the cited chunk word for word: the answer stays in service, and cites the new version."""
    await signed(team)
    await republish(team, ["第 3.2 条 甲方应在验收合格后 45 日内付款。", "第 7.1 条 改了。"])
    again = await team.answered(CONTRACT, "t2", "cli:may")
    assert again.answer is not None
    assert again.answer["meta"]["signed"] == "verified"
    assert again.answer["citations"][0]["version"] == 2


async def test_signed_again_it_serves_again_and_those_it_was_given_to_hear(team: Desk) -> None:
    """Edited at the second look, it is back in service on the new passage; delivered answers are corrected in place,
    marked, and their askers told."""
    first = await signed(team)
    other = await team.answered(CONTRACT, "t2", "cli:may")
    await republish(team, CHANGED)
    review = await second_look(team, first.id)
    assert (await team.decide(review, "edit", text="验收合格后 30 日内付款 [1]。")).key == "done"

    async def back() -> bool:
        (known,) = await team.app.store.verified.list()
        return known.state == "active"

    await team.wait(back, "the answer to be back in service")
    served = await team.answered(CONTRACT, "t3", "cli:zoe")
    assert served.answer is not None
    assert "30 日" in served.answer["text"]

    async def corrected() -> bool:
        row = await team.app.store.conversations.question(other.id)
        return (row.answer or {})["meta"].get("correction", {}).get("kind") == "replaced" and row.remembered

    await team.wait(corrected, "the delivered answer to be corrected")
    messages = await team.messages(other.id)
    assert [kind for kind, _ in messages] == ["answer", "notice", "notice"]
    assert "审核人已于" in messages[0][1]
    assert "30 日" in messages[0][1]
    assert "更正" in messages[2][1]


async def test_a_correction_shows_nothing_that_is_closed_by_now(team: Desk) -> None:
    """The source becomes lin's alone, then changes: what may was given is taken down unnamed, lin's is marked.
    Signed again, lin reads the new text where the old one stood, and may still nothing."""
    first = await signed(team)
    other = await team.answered(CONTRACT, "t2", "cli:may")
    documents = await team.app.store.documents.list("contracts")
    await team.app.store.documents.set_audience(documents[0].id, ("cli:lin",))
    await republish(team, CHANGED)
    review = await second_look(team, first.id)

    async def kind_of(question_id: str, kind: str) -> bool:
        row = await team.app.store.conversations.question(question_id)
        return bool((row.answer or {})["meta"].get("correction", {}).get("kind") == kind and row.remembered)

    await team.wait(lambda: kind_of(first.id, "changed"), "lin's answer to be marked")
    await team.wait(lambda: kind_of(other.id, "closed"), "may's answer to be taken down")
    await team.decide(review, "edit", text="验收合格后 30 日内付款 [1]。")
    await team.wait(lambda: kind_of(first.id, "replaced"), "lin's answer to be corrected")
    assert await kind_of(other.id, "closed")
    told = str(await team.messages(other.id))
    assert "合同条款" not in told
    assert "30 日" not in told
    assert "45 日" not in told
    assert "30 日" in str(await team.messages(first.id))


async def test_approved_again_it_stands(team: Desk) -> None:
    """Approved at the second look, the old words serve again with the new passage as their source."""
    first = await signed(team)
    await republish(team, ["第 3.2 条 甲方应在验收合格后 45 日内一次付款。", *CHANGED[1:]])
    review = await second_look(team, first.id)
    await team.decide(review, "approve", "cli:raj")

    async def back() -> bool:
        (known,) = await team.app.store.verified.list()
        return known.state == "active" and known.signed_by == "cli:raj"

    await team.wait(back, "the answer to be back in service")
    served = await team.answered(CONTRACT, "t3", "cli:zoe")
    assert served.answer is not None
    assert served.answer["meta"]["signed_by"] == "cli:raj"


async def test_rejected_at_the_second_look_it_is_taken_back(team: Desk) -> None:
    """A late rejection retires the answer; what was sent is withdrawn where it stands, and the asker is told."""
    first = await signed(team)
    await republish(team, CHANGED)
    review = await second_look(team, first.id)
    await team.decide(review, "reject", reason="out_of_date")

    async def taken() -> bool:
        row = await team.app.store.conversations.question(first.id)
        return bool((row.answer or {})["meta"].get("correction", {}).get("kind") == "withdrawn")

    await team.wait(taken, "the answer to be taken back")
    row = await team.app.store.conversations.question(first.id)
    assert row.answer is not None
    assert "45" not in row.answer["text"]
    assert row.answer["citations"] == []
    known = await team.app.store.verified.of_question(first.id)
    assert known is not None
    assert known.state == "retired"


async def test_a_removed_document_takes_its_answers_along(team: Desk) -> None:
    """Without its document an answer rests on nothing: out of service at once, and what was sent is marked."""
    first = await signed(team)
    (document,) = await team.app.store.documents.list("contracts")
    await team.app.admin.remove(document.id)
    (known,) = await team.app.store.verified.list()
    assert known.state == "review"

    async def marked() -> bool:
        row = await team.app.store.conversations.question(first.id)
        return bool((row.answer or {})["meta"].get("correction", {}).get("kind") == "gone")

    await team.wait(marked, "the answer to be marked")
    review = await second_look(team, first.id)
    assert review.draft["changes"][0]["gone"] is True
    assert review.draft["citations"] == []


async def test_what_is_too_old_goes_back_to_a_reviewer(database_url: str, tmp_path: Path) -> None:
    """After `verified_days` an answer serves nobody until somebody has looked at it again."""
    from sqlalchemy import text

    from store.database import transaction

    chosen = REVIEW.model_copy(update={"verified_days": 30.0})
    async with desk(database_url, tmp_path, review=chosen) as team:
        first = await signed(team)
        async with transaction(team.app.store.database.engine) as connection:
            await connection.execute(text("UPDATE verified SET signed_at = now() - interval '31 days'"))
        held = await team.held(CONTRACT, "t2", "cli:may")
        assert held.state == "pending"
        await team.app.verifying.tend()
        (known,) = await team.app.store.verified.list()
        assert (known.state, known.reason) == ("review", "old")
        assert (await second_look(team, first.id)).draft["changes"] == []


async def test_switched_off_nothing_serves_twice(database_url: str, tmp_path: Path) -> None:
    """`[review] verified = false`: every question is looked at anew, and nothing is kept."""
    chosen = Review(**{**REVIEW.model_dump(), "verified": False})
    async with desk(database_url, tmp_path, review=chosen) as team:
        await signed(team)
        assert await team.app.store.verified.list() == []
        assert (await team.held(CONTRACT, "t2", "cli:may")).state == "pending"


async def test_a_rule_for_two_people_asks_for_them_whoever_signed_before(
    database_url: str, tmp_path: Path
) -> None:
    """What one person signed for lin is held for may, whose questions need two."""
    careful = {"name": "not alone", "askers": ["cli:may"], "action": "two_reviewers"}
    review = Review(reviewers=REVIEW.reviewers, rules=(careful, *REVIEW.rules))
    async with desk(database_url, tmp_path, review=review) as team:
        await signed(team)
        held = await team.held(CONTRACT, "t2", "cli:may")
        assert held.disposition == "two_reviewers"


async def test_a_rule_that_refuses_refuses_the_signed_answer_too(database_url: str, tmp_path: Path) -> None:
    """A signature does not open a topic to somebody whom a rule refuses."""
    refusing = {"name": "not may", "askers": ["cli:may"], "action": "refuse"}
    chosen = Review(**{**REVIEW.model_dump(), "rules": (refusing, *REVIEW.rules)})
    async with desk(database_url, tmp_path, review=chosen) as team:
        await signed(team)
        assert (await team.answered(CONTRACT, "t2", "cli:may")).state == "declined"


async def test_the_card_shows_the_nearest_signed_answer(team: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that comes near but is another one is held with the signed answer beside it, and how they differ."""
    from bot.cards import card, current

    # As if the tests' embedder had been calibrated: what shares words is likely the same.
    fitted = {HashEmbedder().model: {"same": {"intercept": -2.0, "weight": 4.0}}}
    monkeypatch.setattr("store.likeness._shipped", lambda: fitted)
    await signed(team)
    await team.app.verifying.embed()
    review = await team.held("合同第 7.1 条规定的赔偿责任上限是多少？", "t2", "cli:may")
    nearest = review.draft["nearest"]
    assert nearest is not None
    shown = card(
        await current(team.app.store, review),
        await team.app.store.conversations.question(review.question_id),
        "cli:x",
        "zh",
    )
    assert shown.meta["nearest"]["question"] == CONTRACT


async def test_among_very_many_the_index_finds_the_same(team: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read more than are compared one by one goes by the index of vectors: what is near is found, with the
    same cosine, now and the next time; what they may not read is not."""
    await signed(team)
    await team.app.verifying.embed()
    verified = team.app.store.verified
    near = "合同第 7.1 条规定的赔偿责任上限是多少？"
    look = (near, "no such wording", ["everyone", "cli:lin"], datetime(2000, 1, 1, tzinfo=UTC))
    compared = await verified.near(*look)
    assert [row.question for row in compared] == [CONTRACT]
    monkeypatch.setattr("store.nearest.EXACT", 0)
    assert await verified.near(*look) == compared
    assert await verified.near(*look) == compared
    documents = await team.app.store.documents.list("contracts")
    await team.app.store.documents.set_audience(documents[0].id, ("cli:zoe",))
    assert await verified.near(*look) == []


async def test_kb_verified_lists_shows_and_retires(team: Desk) -> None:
    """One table for all houses: what is in service, one with its sources, and out of service with what was sent."""
    from bot.commands import Table

    first = await signed(team)
    table = Table(team.app, "slack").commands["verified"]
    (known,) = await team.app.store.verified.list()
    assert CONTRACT in await table.run("cli:admin", [])
    assert "45 日内付款" in await table.run("cli:admin", ["show", str(known.id)])
    assert "out of service" in await table.run("cli:admin", ["retire", str(known.id), "wrong"])
    assert "already" in await table.run("cli:admin", ["retire", str(known.id)])
    assert "no verified answer 99" in await table.run("cli:admin", ["show", "99"])
    assert "verified show ID" in await table.run("cli:admin", ["burn", "1"])
    row = await team.app.store.conversations.question(first.id)
    assert row.answer is not None
    assert row.answer["meta"]["correction"]["kind"] == "withdrawn"


async def test_forgetting_the_asker_forgets_the_question(team: Desk) -> None:
    """What was signed for somebody who is forgotten serves nobody any more."""
    await signed(team)
    await team.app.erasing.person("cli:lin")
    assert await team.app.store.verified.list() == []
