"""What people do on every chat platform, over each of its transports: one story, told once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sqlalchemy import text

from store.database import transaction
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


async def test_an_approval_sends_the_answer_and_ends_the_card(here: Scene) -> None:
    """The card holds what a decision needs; one click, and the answer says who signed it, the card has no button that
    decides, and the reviewer is told."""
    message, card = await here.held()
    for shown in ("ada", "general", CONTRACT, "45 日内付款", "contracts"):
        assert shown in card.text
    (notice,) = await here.answers("general", message)
    assert "45" not in notice.text
    await here.driver.click("rena", "review", card.id, "approve")
    answer = await here.until_seen("ada", "general", "45 日内", thread=message)
    assert "rena 已签发" in answer.text
    done = await here.until_seen("rolf", "review", "approved by rena")
    assert not done.buttons & {"approve", "edit", "reject", "claim"}
    await here.until_seen("rena", "review", "Recorded")


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


async def test_what_was_signed_serves_until_its_source_changes(here: Scene) -> None:
    """Signed once, it answers the next asker at once, marked. When its source changes, what was sent is marked where it
    stands, both askers are told, and it comes back to the reviewers with what changed; approved, it serves again."""
    message, card = await here.held()
    await here.driver.click("rena", "review", card.id, "approve")
    await here.until_seen("ada", "general", "45 日内", thread=message)
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


async def test_only_administrators_manage(here: Scene) -> None:
    """A colleague is refused with a sentence; an administrator gets the list."""
    await here.driver.command("ada", "direct", "/kb list")
    await here.until_seen("ada", "direct", "Only administrators")
    await here.driver.command("adam", "direct", "/kb list")
    await here.until_seen("adam", "direct", "leave")


async def test_what_is_asked_directly_is_answered_directly(here: Scene) -> None:
    """In direct messages nobody has to be mentioned."""
    await here.asked(LEAVE, where="direct")
    await here.until_seen("ada", "direct", "15 days of annual leave")


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
        await connection.execute(text("UPDATE reviews SET disposition = 'two_reviewers'"))
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
        await connection.execute(text("UPDATE reviews SET opened_at = opened_at - interval '1 day'"))
    await here.app.patience.step(review_id, "timed_out")
