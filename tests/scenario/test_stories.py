"""What people do on every chat platform, over each of its transports: one story, told once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

import pytest
import pytest_asyncio
from sqlalchemy import update

from store.database import transaction
from store.errors import IngestError
from store.ingest.fetch import Fetched
from store.schema import reviews
from tests.emulators.feishu.client import StandIn as FeishuStandIn
from tests.emulators.slack.client import StandIn as SlackStandIn
from tests.knowledge import publish
from tests.scenario.driver import CONTRACT, LEAVE, Driver, Scene
from tests.scenario.slack_driver import SlackDriver
from tests.scenario.slack_team import emptied, slack_team

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLATFORMS = ("slack-socket", "slack-http", "feishu-connection", "feishu-webhook")
QUEUES = ("answers", "ingest")


@dataclass
class Theatre:
    """One bot for all stories of this module, on one platform; `clear` takes away what the last one left."""

    driver: Driver
    clear: Callable[[], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PLATFORMS)
async def theatre(
    request: pytest.FixtureRequest,
    spare: SlackStandIn,
    spare_feishu: FeishuStandIn,
    cloning: Callable[[], AbstractContextManager[str]],
    tmp_path_factory: pytest.TempPathFactory,
    quick: None,
) -> AsyncIterator[Theatre]:
    platform, transport = request.param.split("-")
    folder = tmp_path_factory.mktemp(platform)
    async with AsyncExitStack() as stack:
        url = stack.enter_context(cloning())
        if platform == "slack":
            team = await stack.enter_async_context(
                slack_team(spare, url, folder, transport=transport, queues=QUEUES)
            )
            yield Theatre(SlackDriver(team), lambda: emptied(team))
        else:
            from tests.scenario import feishu_team as feishu  # its SDK is loaded (5 s) when it is needed

            other = await stack.enter_async_context(
                feishu.feishu_team(spare_feishu, url, folder, transport=transport, queues=QUEUES)
            )
            yield Theatre(feishu.FeishuDriver(other), lambda: feishu.emptied(other))


@pytest_asyncio.fixture(loop_scope="module")
async def here(theatre: Theatre) -> AsyncIterator[Scene]:
    """A scene with nothing asked yet; what must always hold is checked when the story ends."""
    await theatre.clear()
    opened = Scene(theatre.driver)
    yield opened
    await opened.quiet()
    await theatre.driver.check()


# --- employees


async def test_a_mention_is_answered_once_below_it(here: Scene) -> None:
    """One answer below the question, with its sources and its buttons, however often its event came."""
    message = await here.asked()
    (answer,) = await here.answers("general", message)
    assert "15 days of annual leave" in answer.text
    assert "[1] leave" in answer.text
    assert {"passage:1", "helpful", "unhelpful", "person"} <= answer.buttons


async def test_the_askers_follow_up_needs_no_mention(here: Scene) -> None:
    """In a thread of ours the asker goes on without a mention, and the thread is the context."""
    message = await here.asked("年假可以休多少天？")
    await here.driver.say("ada", "general", "它的有效期到什么时候？", mention=False, thread=message)
    row = await here.ended("它的有效期")
    assert row.answer is not None
    assert "3 月 31 日" in row.answer["text"]


async def test_a_passage_opens_for_whoever_clicks(here: Scene) -> None:
    """The button of a citation shows the quoted passage to its reader; the thread stays as it is."""
    message = await here.asked()
    (answer,) = await here.answers("general", message)
    await here.driver.click("lin", "general", answer.id, "passage:1")
    form = await here.until_form("lin", "15 days of annual leave")
    assert "leave" in form.text
    assert len(await here.answers("general", message)) == 1


async def test_what_is_asked_directly_is_answered_directly(here: Scene) -> None:
    """In direct messages nobody has to be mentioned."""
    await here.asked(LEAVE, where="direct")
    await here.until_seen("ada", "direct", "15 days of annual leave")


async def test_others_are_left_alone_until_they_mention_the_bot(here: Scene) -> None:
    """Somebody else's words in the thread are not for the bot; a mention is."""
    message = await here.asked()
    await here.driver.say("lin", "general", "I think it is more", mention=False, thread=message)
    await here.quiet()
    assert len(await here.answers("general", message)) == 1
    await here.driver.say("lin", "general", "What does ERR_0042 mean?", thread=message)
    await here.until_seen("lin", "general", "certificate", thread=message)


async def test_what_others_wrote_is_context(here: Scene) -> None:
    """A message that is quoted with the question is what "this" means."""
    quoting = "What does ERR_0042 mean?"
    await here.driver.say("ada", "general", "Can you explain this?", quoting=quoting)
    row = await here.ended("Can you explain this?")
    assert f"> {quoting}" in row.text
    assert row.answer is not None
    assert "certificate" in row.answer["text"]


async def test_ask_is_private_until_it_is_shared(here: Scene) -> None:
    """/ask is answered where only its author sees it; its asker may share it with the question."""
    await here.driver.command("ada", "general", f"/ask {LEAVE}")
    answer = await here.until_seen("ada", here.driver.answers_ask_in, "15 days of annual leave")
    assert not any("15 days" in m.text for m in await here.driver.see("lin", "general"))
    await here.driver.click("ada", here.driver.answers_ask_in, answer.id, "share")
    shared = await here.until_seen("lin", "general", "15 days of annual leave")
    assert LEAVE in shared.text
    assert "ada" in shared.text


async def test_what_others_may_not_read_is_not_shared(here: Scene) -> None:
    """Sharing checks every cited document again: one that is for the asker alone keeps the answer private."""
    await here.driver.command("ada", "general", f"/ask {LEAVE}")
    answer = await here.until_seen("ada", here.driver.answers_ask_in, "15 days of annual leave")
    for document in await here.app.admin.list("hr"):
        await here.app.admin.set_audience(document.id, (here.driver.principal("ada"),))
    await here.driver.click("ada", here.driver.answers_ask_in, answer.id, "share")
    await here.until_seen("ada", here.driver.answers_ask_in, "stays private")
    assert not any("15 days" in m.text for m in await here.driver.see("lin", "general"))


async def test_a_private_question_that_was_held_is_answered_directly(here: Scene) -> None:
    """What /ask held is signed off later and comes as a direct message."""
    await here.driver.command("ada", "general", f"/ask {CONTRACT}")
    card = await here.card()
    await here.driver.click("rena", "review", card.id, "approve")
    answer = await here.until_seen("ada", "direct", "45 日内")
    assert "rena 已签发" in answer.text


async def test_not_helpful_asks_for_the_reason(here: Scene) -> None:
    """A form asks what was wrong, in the question's language; the last word of a person counts."""
    message = await here.asked("年假可以休多少天？")
    (answer,) = await here.answers("general", message)
    await here.driver.click("ada", "general", answer.id, "unhelpful")
    await here.until_form("ada", "具体说说")
    await here.driver.submit("ada", reason="outdated", words="现在是 20 天")
    row = await here.question("年假可以休多少天？")
    person = here.driver.principal("ada")
    (kept,) = await here.app.store.conversations.feedback_by(row.conversation_id, person)
    assert (kept.helpful, kept.reason) == (False, "outdated: 现在是 20 天")


async def test_a_person_can_be_asked(here: Scene) -> None:
    """The question comes to the reviewers with who wants it, in their language; the asker is told so in theirs."""
    message = await here.asked("年假可以休多少天？")
    (answer,) = await here.answers("general", message)
    await here.driver.click("ada", "general", answer.id, "person")
    wanted = await here.until_seen("rena", "review", "would like a person")
    assert "ada" in wanted.text
    assert "年假可以休多少天？" in wanted.text
    await here.until_seen("ada", "general", "已转给审核频道")


async def test_a_waiting_question_can_be_withdrawn(here: Scene) -> None:
    """The notice that a draft waits has a button for its asker, and for nobody else; the card is then over."""
    message, card = await here.held()
    (notice,) = await here.answers("general", message)
    await here.driver.click("lin", "general", notice.id, "stop")
    await here.until_seen("lin", "general", "没有可以停止的")
    await here.driver.click("ada", "general", notice.id, "stop")
    assert (await here.ended(CONTRACT)).state == "withdrawn"

    async def over() -> bool:
        return not (await here.card()).buttons & {"approve", "edit", "reject", "claim", "pass_on"}

    await here.until(over)
    assert (await here.card()).id == card.id


async def test_an_edited_question_is_asked_anew(here: Scene) -> None:
    """While a draft waits, another wording supersedes it; after the answer the asker is offered to ask again, and
    nobody else can."""
    if not here.driver.tells_edits:
        pytest.skip("this platform tells bots of no edits (docs/install-feishu.md)")
    message, _ = await here.held()
    await here.driver.edit("ada", "general", message, LEAVE)
    assert (await here.ended(LEAVE)).state == "answered"
    assert (await here.question(CONTRACT)).state == "superseded"
    await here.driver.edit("ada", "general", message, "What does ERR_0042 mean?")
    offer = await here.until_seen("ada", "general", "was edited", thread=message)
    await here.driver.click("lin", "general", offer.id, "again")
    await here.until_seen("lin", "general", "Only the person who asked")
    await here.driver.click("ada", "general", offer.id, "again")
    await here.until_seen("ada", "general", "certificate", thread=message)
    await here.driver.click("ada", "general", offer.id, "again")
    await here.until_seen("ada", "general", "asked again already")


async def test_what_was_signed_serves_until_its_source_changes(here: Scene) -> None:
    """Signed once, it answers the next asker at once, marked. When its source changes, what was sent is marked where it
    stands, both askers and whoever put an emoji on it are told, and it comes back to the reviewers with what changed;
    approved, it serves again."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "approve")
    signed = await here.until_seen("ada", "general", "45 日内", thread=message)
    await here.driver.react("lin", "general", signed.id)
    asked = await here.asked(f"请问{CONTRACT}", "lin")
    served = await here.until_seen("lin", "general", "已核实的回答", thread=asked)
    assert "45 日内" in served.text
    assert len(await here.app.store.reviews.list()) == 1
    await here.driver.command("adam", "direct", "/kb verified")
    await here.until_seen("adam", "direct", "used 1 times")

    changed = ["第 3.2 条 甲方应在验收合格后 30 日内付款。", "第 7.1 条 乙方的赔偿责任以合同总价为上限。"]
    await publish(here.app.store, here.app.admin.embedder, "contracts", "合同条款.md", changed)
    for thread in (message, asked):
        await here.until_seen("lin", "general", "来源《合同条款》已于", thread=thread)
        await here.until_seen("lin", "general", "内容已经变了", thread=thread)
    told = await here.until_seen("lin", "direct", "内容已经变了")
    assert CONTRACT in told.text
    second = await here.until_seen("rena", "review", "is to be looked at again")
    assert "− 第 3.2 条 甲方应在验收合格后 45 日内付款。" in second.text
    assert "+ 第 3.2 条 甲方应在验收合格后 30 日内付款。" in second.text
    await here.driver.click("rena", "review", second.id, "approve")
    await here.until_seen("lin", "general", "回答仍然有效", thread=asked)
    (known,) = await here.app.store.verified.list()
    assert known.state == "active"


async def test_stop_in_words_takes_a_question_back(here: Scene) -> None:
    """ "Stop" in the thread of a question that is still open withdraws it."""
    message, _ = await here.held()
    await here.driver.say("ada", "general", "停", mention=False, thread=message)
    assert (await here.ended(CONTRACT)).state == "withdrawn"


async def test_a_deleted_question_is_forgotten(here: Scene) -> None:
    """Deleting the message withdraws the question and its draft."""
    message, _ = await here.held()
    await here.driver.delete("ada", "general", message)
    assert (await here.ended(CONTRACT)).state == "withdrawn"


# --- reviewers


async def test_an_approval_sends_the_answer_and_ends_the_card(here: Scene) -> None:
    """The card holds what a decision needs; one click, and the answer says who signed it, the card has no button that
    decides, and the reviewer is told."""
    message, card = await here.held()
    for shown in ("ada", "general", CONTRACT, "45 日内付款", "contracts"):
        assert shown in card.text
    (notice,) = await here.answers("general", message)
    assert "45 日" not in notice.text
    await here.driver.click("rena", "review", card.id, "approve")
    answer = await here.until_seen("ada", "general", "45 日内", thread=message)
    assert "rena 已签发" in answer.text
    done = await here.until_seen("rolf", "review", "approved by rena")
    assert not done.buttons & {"approve", "edit", "reject", "claim"}
    await here.until_seen("rena", "review", "Recorded")


async def test_an_edit_is_what_the_asker_reads(here: Scene) -> None:
    """The form holds the whole draft and comes to the reviewer alone; what is sent is their text, without pings or
    links."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "edit")
    form = await here.until_form("rena", "45")
    assert form.fields == ("text0",)
    pings = "<!channel> <at id=all></at> https://evil.example"
    await here.driver.submit("rena", text0=f"验收合格后 45 日内 [1]。{pings}")
    await here.until_form("rena", "Recorded")
    answer = await here.until_seen("ada", "general", "验收合格后 45 日内", thread=message)
    assert "rena 修改后签发" in answer.text


async def changed_draft(here: Scene, **more: object) -> None:
    """The newest review with another draft, as if it had been written so."""
    review = await here.review()
    async with transaction(here.app.store.database.engine) as connection:
        await connection.execute(
            update(reviews).where(reviews.c.id == review.id).values(draft={**review.draft, **more})
        )


async def test_a_long_draft_is_edited_in_several_fields(here: Scene) -> None:
    """What one field cannot hold stands in several; what is sent is all of them, in order."""
    message, card = await here.held()
    draft = str((await here.review()).draft["text"])
    lines = [f"{number}. {draft}" for number in range(here.driver.holds * 3 // (2 * len(draft)))]
    await changed_draft(here, text="\n".join(lines))
    await here.driver.click("rena", "review", card.id, "edit")
    fields = (await here.until_form("rena", "45")).fields
    assert len(fields) >= 2
    await here.driver.submit("rena", **{name: f"part {number} [1]." for number, name in enumerate(fields)})
    answer = await here.until_seen("ada", "general", "part 0", thread=message)
    assert f"part {len(fields) - 1}" in answer.text


async def test_a_hint_brings_another_draft(here: Scene) -> None:
    """Rejected with a hint, a second card comes; the first one is over."""
    _, card = await here.held()
    await here.driver.click("rena", "review", card.id, "reject")
    await here.until_form("rena", "Hint")
    await here.driver.submit("rena", reason="incomplete", hint="赔偿责任 上限")
    second = await here.until_seen("rena", "review", "round 2")
    assert "上限" in second.text
    await here.driver.click("rena", "review", second.id, "approve")
    assert (await here.ended(CONTRACT)).state == "answered"


async def test_a_rejection_for_good_is_told(here: Scene) -> None:
    """Without a hint or a better question nothing is searched again; the card says why, the asker reads no draft."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "reject")
    await here.until_form("rena", "Hint")
    await here.driver.submit("rena", reason="wrong_document")
    assert (await here.ended(CONTRACT)).state == "declined"
    done = await here.until_seen("rolf", "review", "rejected by rena")
    assert "Reason: Wrong document" in done.text
    assert not any("45 日内" in m.text for m in await here.answers("general", message))


async def test_a_claimed_review_says_whose_it_is(here: Scene) -> None:
    """Claim and release are seen by everybody on the card; the asker reads who has it, and since when."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "claim")
    await here.until_seen("rolf", "review", "rena took it")
    await here.until_seen("ada", "general", "rena 正在处理（", thread=message)
    await here.driver.click("rena", "review", card.id, "release")
    await here.until_seen("rolf", "review", "nobody has taken it")


async def test_a_review_is_passed_on(here: Scene) -> None:
    """To another reviewer on the list, whoever has it; the card and the asker's notice say whose it is."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "claim")
    await here.driver.click("rena", "review", card.id, "pass_on")
    await here.until_form("rena", "To whom")
    await here.driver.submit("rena", to=here.driver.principal("rolf"))
    await here.until_form("rena", "The review is rolf's now")
    await here.until_seen("rena", "review", "rolf took it")
    await here.until_seen("ada", "general", "rolf 正在处理（", thread=message)
    await here.driver.click("rolf", "review", card.id, "approve")
    assert (await here.ended(CONTRACT)).state == "answered"


async def test_a_late_reviewer_learns_who_was_faster(here: Scene) -> None:
    """A form that was open meanwhile, and a click on the card as it was, change nothing and are answered in private."""
    message, card = await here.held()
    await here.driver.click("rolf", "review", card.id, "edit")
    await here.until_form("rolf", "45")
    await here.driver.click("rena", "review", card.id, "approve")
    await here.until_seen("rena", "review", "approved by rena")
    await here.driver.submit("rolf", text0="Something else [1].")
    await here.until_form("rolf", "rena was faster: approved")
    await here.driver.click_late("rolf", "review", card.id, "approve")
    await here.until_seen("rolf", "review", "rena was faster: approved")
    assert not any("Something else" in m.text for m in await here.answers("general", message))


async def test_a_click_on_a_draft_that_has_changed_is_told_so(here: Scene) -> None:
    """Every decision names the draft it was made on: where the review has another one by now, nothing changes."""
    _, card = await here.held()
    review = await here.review()
    async with transaction(here.app.store.database.engine) as connection:
        await connection.execute(
            update(reviews).values(version_hash="another").where(reviews.c.id == review.id)
        )
    await here.driver.click("rena", "review", card.id, "approve")
    await here.until_seen("rena", "review", "The draft has changed")
    assert (await here.review()).state == "pending"


async def test_nobody_decides_on_their_own_question(here: Scene) -> None:
    """A reviewer's own question waits for somebody else."""
    _, card = await here.held(who="rena")
    await here.driver.click("rena", "review", card.id, "approve")
    await here.until_seen("rena", "review", "You asked this question yourself")
    assert (await here.review()).state == "pending"


async def test_a_draft_from_closed_documents_is_opened_privately(here: Scene) -> None:
    """Where the review channel may not read the sources, the card shows metadata; a reviewer opens it alone."""
    for document in await here.app.admin.list("contracts"):
        await here.app.admin.set_audience(document.id, (here.driver.place("general"),))
    await here.driver.say("ada", "general", CONTRACT)
    card = await here.until_seen("rena", "review", "Open it privately")
    assert "45 日" not in card.text
    assert CONTRACT not in card.text
    await here.driver.click("rena", "review", card.id, "open")
    form = await here.until_form("rena", "45")
    assert {"approve", "edit", "reject"} <= form.buttons
    await here.driver.click_form("rena", "approve")
    assert (await here.ended(CONTRACT)).state == "answered"


async def test_the_nearest_signed_answer_stands_beside_the_draft(here: Scene) -> None:
    """Where one is known, the card shows its question, its words and who signed it."""
    _, first = await here.held()
    await here.driver.click("rolf", "review", first.id, "approve")
    (signed,) = await here.until(here.app.store.verified.list)
    _, card = await here.held("合同第 7.1 条规定的赔偿责任上限是多少？")
    known = {
        "id": signed.id,
        "question": "付款期限是多少天？",
        "answer": "验收后 30 日内付款 [1]。",
        "signed_by": here.driver.principal("rolf"),
        "signed_at": "2026-11-02T08:00:00+00:00",
        "sure": 0.4,
        "diff": [],
    }
    await changed_draft(here, nearest=known)
    await here.driver.click("rena", "review", card.id, "claim")
    shown = await here.until_seen("rena", "review", "验收后 30 日内付款")
    assert "Nearest signed-off answer (by rolf): 付款期限是多少天？" in shown.text


# --- admins


async def test_only_administrators_manage(here: Scene) -> None:
    """A colleague is refused with a sentence; an administrator gets the list."""
    await here.driver.command("ada", "direct", "/kb list")
    await here.until_seen("ada", "direct", "Only administrators")
    await here.driver.command("adam", "direct", "/kb list")
    await here.until_seen("adam", "direct", "leave")


async def test_help_lists_exactly_the_commands_of_the_table(here: Scene) -> None:
    """One table: what /kb does and what its help says."""
    await here.driver.command("ada", "direct", "/kb help")
    shown = await here.until_seen("ada", "direct", "/kb help")
    listed = [line.split()[1] for line in shown.text.splitlines() if line.startswith("/kb ")]
    assert listed == [
        "help", "add", "list", "show", "remove", "search", "status", "reviews", "gaps", "stats", "collections",
        "audience", "verified", "ramp", "pause", "canary",
    ]  # fmt: skip


async def test_the_commands_answer(here: Scene) -> None:
    """Each says something of use."""
    await here.held()
    (document,) = [row for row in await here.app.admin.list("hr") if row.title == "leave"]
    for text, said in (
        (f"show {document.id}", "15 days"),
        ("show 99999", "no document"),
        ("show x", "number"),
        ("search annual leave", "15 days"),
        ("collections", "hr: 2 documents, 4 passages, 0 failed"),
        (f"audience {document.id} {here.driver.place('hr')}", here.driver.place("hr")),
        (f"audience {document.id} nobody", "Not somebody who could read: nobody"),
        ("reviews", "contracts"),
        ("gaps", "There is nothing"),
        ("stats", "waiting for a person"),
        ("status", "database"),
        ("nonsense", "no such command"),
        (f"remove {document.id}", "Removed"),
    ):
        await here.driver.command("adam", "direct", f"/kb {text}")
        await here.until_seen("adam", "direct", said)


async def test_pausing_holds_and_is_seen(here: Scene) -> None:
    """Paused here, a question is told so and can be asked again; status names who did it."""
    general = here.driver.place("general")
    await here.driver.command("adam", "general", "/kb pause here")
    await here.until_seen("adam", "general", f"paused: {general}")
    message = await here.driver.say("ada", "general", LEAVE)
    told = await here.until_seen("ada", "general", "Answering is paused", thread=message)
    await here.driver.command("adam", "general", "/kb status")
    await here.until_seen("adam", "general", f"{general}, by {here.driver.principal('adam')}")
    await here.driver.command("adam", "general", "/kb pause here off")
    await here.until_seen("adam", "general", f"goes on: {general}")
    await here.driver.click("ada", "general", told.id, "again")
    await here.until_seen("ada", "general", "15 days", thread=message)


async def test_gaps_and_numbers_are_what_happened(here: Scene) -> None:
    """Gaps are what was not known, rejected or not helpful; what was asked in private is counted and not shown."""
    _, card = await here.held()
    await here.driver.click("rena", "review", card.id, "reject")
    await here.until_form("rena", "Hint")
    await here.driver.submit("rena", reason="out_of_date")
    await here.ended(CONTRACT)
    message = await here.asked()
    (answer,) = await here.answers("general", message)
    await here.driver.click("ada", "general", answer.id, "unhelpful")
    await here.asked("Where do penguins sleep in winter?")
    await here.asked("What is my neighbour's salary?", where="direct")
    await here.driver.command("adam", "direct", "/kb gaps")
    gaps = await here.until_seen("adam", "direct", "Week of")
    for shown in (
        "2 without an answer, 1 rejected, 1 not helpful",
        "penguins",
        "not helpful: How many",
        f"rejected: {CONTRACT} – Out of date",
        "1 asked in private",
    ):
        assert shown in gaps.text
    assert "salary" not in gaps.text
    await here.driver.command("adam", "direct", "/kb stats")
    stats = await here.until_seen("adam", "direct", "asked: 4 (0)")
    for shown in ("rejected: 1 (0)", "not helpful: 1 (0)", "people who asked: 1 (0)"):
        assert shown in stats.text


PARKING = b"# Parking\n\nBicycles stand behind the house.\n"


async def test_a_file_is_added_and_recognised(here: Scene) -> None:
    """A file with "/kb add" is read, and a direct message says so with its beginning; the same bytes are not read
    again."""
    for said in ("is searchable", "already, byte for byte"):
        file = await here.driver.upload("adam", "parking.md", PARKING)
        await here.driver.say("adam", "direct", "/kb add house", files=[file])
        told = await here.until_seen("adam", "direct", said)
        assert said != "is searchable" or "Bicycles stand behind the house" in told.text
    (document,) = await here.app.admin.list("house")
    assert document.source == "parking.md"


class Web:
    """The web in one page."""

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        if "nowhere" in url:
            raise IngestError("unreachable", "404")
        return Fetched(url, b"<html><h1>Canteen</h1><p>Soup is served on Mondays.</p></html>", "text/html")


async def test_a_page_is_added_by_its_address(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress and its beginning come by direct message, and what cannot be reached is said."""
    monkeypatch.setattr(here.app.admin, "_fetcher", Web())
    await here.driver.command("adam", "direct", "/kb add https://intra.example/canteen house")
    told = await here.until_seen("adam", "direct", "is searchable")
    assert "Soup is served on Mondays" in told.text
    await here.driver.command("adam", "direct", "/kb add https://intra.example/nowhere house")
    await here.until_seen("adam", "direct", "404")


async def test_after_the_time_out_the_asker_chooses(here: Scene) -> None:
    """The thread says so and offers what may be chosen; only the asker's click counts, the review goes on, and the
    review channel is asked for a person."""
    message, _ = await here.held()
    review = await here.review()
    await waited(here, review.id)
    told = await here.until_seen("ada", "general", "没有人按时审核", thread=message)
    assert {"choice:wait", "choice:person"} <= told.buttons
    assert "choice:peek" not in told.buttons
    await here.driver.click("lin", "general", told.id, "choice:person")
    await here.quiet()
    assert "chose_person" not in [event.action for event in await here.app.store.reviews.events(review.id)]
    await here.driver.click("ada", "general", told.id, "choice:person")
    await here.until_seen("rena", "review", "would like a person to answer")

    async def over() -> bool:
        shown = await here.driver.see("ada", "general")
        return not any("choice:person" in seen.buttons for seen in shown)

    await here.until(over)
    assert (await here.review()).state == "pending"


async def test_two_people_let_it_go(here: Scene) -> None:
    """The card says that two have to approve, and who has; the first approval sends nothing, the second does."""
    message, _ = await here.held()
    review = await here.review()
    async with transaction(here.app.store.database.engine) as connection:
        await connection.execute(update(reviews).values(disposition="two_reviewers"))
    await here.app.store.queue.defer("redraw", {"review_id": review.id}, lock=f"card:{review.id}")
    card = await here.until_seen("rena", "review", "Two people have to approve this.")
    await here.driver.click("rena", "review", card.id, "approve")
    await here.until_seen("rena", "review", "one more is needed")
    card = await here.until_seen("rolf", "review", "rena has approved this")
    assert not any("45 日内" in seen.text for seen in await here.answers("general", message))
    await here.driver.click("rolf", "review", card.id, "approve")
    await here.until_seen("ada", "general", "45 日内", thread=message)


async def waited(here: Scene, review_id: int) -> None:
    """A day goes by, and the job whose time has come runs."""
    async with transaction(here.app.store.database.engine) as connection:
        await connection.execute(update(reviews).values(opened_at=reviews.c.opened_at - timedelta(days=1)))
    await here.app.patience.step(review_id, "timed_out")
