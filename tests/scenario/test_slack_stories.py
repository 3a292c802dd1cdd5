"""What people do in Slack, over both transports, with what must always hold checked after each story."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from store.database import transaction
from store.errors import IngestError
from store.ingest.fetch import Fetched
from store.schema import reviews
from tests.emulators.slack.scopes import Manifest
from tests.scenario.slack_team import BOT, CONTRACT, LEAVE, Team

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.asyncio(loop_scope="module")


# --- employees


async def test_a_mention_is_answered_once_in_its_thread(team: Team) -> None:
    """app_mention and message arrive both; one answer comes, with its sources and its buttons."""
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    assert "15 days of annual leave" in answer["text"]
    assert "[1] leave" in answer["text"]
    assert {"passage:1", "feedback", "person"} <= set(answer["actions"])
    statuses = (await team.slack.world())["statuses"]
    assert all(status["thread_ts"] == ts for status in statuses)


async def test_others_are_left_alone_until_they_mention_the_bot(team: Team) -> None:
    """Somebody else's words in the thread, or words to somebody else, are not for the bot; a mention is."""
    ts = await team.asked()
    await team.slack.say("U0LIN", "C0GEN", "I think it is more", thread=ts)
    await team.slack.say("U0ADA", "C0GEN", "<@U0LIN> do you?", thread=ts)
    await team.quiet()
    assert len(await team.answers("C0GEN", ts)) == 1
    await team.slack.say("U0LIN", "C0GEN", f"{BOT} What does ERR_0042 mean?", thread=ts)
    await team.ended("ERR_0042")
    await team.slack.until_seen("U0LIN", "C0GEN", "certificate", thread=ts)
    assert len(await team.answers("C0GEN", ts)) == 2


async def test_a_direct_message_is_answered_directly(team: Team) -> None:
    """In direct messages no mention is needed, and what follows has the context of what was before."""
    await team.slack.do("open_messages", user="U0ADA")
    await team.asked("年假可以休多少天？", channel="D0ADA")
    await team.slack.say("U0ADA", "D0ADA", "它的有效期到什么时候？")
    row = await team.ended("它的有效期")
    assert row.answer is not None
    assert "3 月 31 日" in row.answer["text"]
    assert (await team.slack.world())["prompts"] != []


async def test_ask_is_private(team: Team) -> None:
    """/ask is answered where only its author sees it; nothing is left in the channel."""
    await team.slack.command("U0ADA", "C0GEN", "/ask", LEAVE)
    seen = await team.slack.until_seen("U0ADA", "C0GEN", "15 days of annual leave")
    assert seen["ephemeral"]
    assert not any("15 days" in m["text"] for m in await team.slack.see("U0LIN", "C0GEN"))


async def test_a_private_answer_can_be_shared(team: Team) -> None:
    """The asker shares an answer whose documents everybody in the channel may read; the question goes with it."""
    await team.slack.command("U0ADA", "C0GEN", "/ask", LEAVE)
    seen = await team.slack.until_seen("U0ADA", "C0GEN", "15 days of annual leave")
    await team.slack.click("U0ADA", "C0GEN", seen["ts"], "share")
    shared = await team.slack.until_seen("U0LIN", "C0GEN", "15 days of annual leave")
    assert LEAVE in shared["text"]
    assert "ada" in shared["text"]


async def test_what_the_channel_may_not_read_stays_private(team: Team) -> None:
    """Sharing checks every cited document again: one that is for the asker alone keeps the answer private."""
    await team.slack.command("U0ADA", "C0GEN", "/ask", LEAVE)
    seen = await team.slack.until_seen("U0ADA", "C0GEN", "15 days of annual leave")
    for document in await team.app.admin.list("hr"):
        await team.app.admin.set_audience(document.id, ("slack:U0ADA",))
    await team.slack.click("U0ADA", "C0GEN", seen["ts"], "share")
    await team.slack.until_seen("U0ADA", "C0GEN", "stays private")
    assert not any("15 days" in m["text"] for m in await team.slack.see("U0LIN", "C0GEN"))


async def test_a_held_private_question_is_delivered_directly(team: Team) -> None:
    """What /ask held is signed off later and comes as a direct message."""
    await team.slack.command("U0ADA", "C0GEN", "/ask", CONTRACT)
    card = await team.card()
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
    answer = await team.slack.until_seen("U0ADA", "D0ADA", "45")
    assert "签发" in answer["text"]


async def test_a_passage_opens(team: Team) -> None:
    """The button of a citation shows the quoted passage, its document and its section."""
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    await team.slack.click("U0LIN", "C0GEN", answer["ts"], "passage:1")
    modal = await team.slack.until(lambda: _modal_with(team, "U0LIN", "15 days of annual leave"))
    assert "leave" in modal["text"]


async def _modal_with(team: Team, user: str, text: str) -> dict[str, Any] | None:
    modal = await team.slack.modal(user)
    return modal if modal and text in modal["text"] else None


async def test_feedback_is_kept_with_its_reason(team: Team) -> None:
    """Thumbs down opens a form; the last word of a person counts."""
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    await team.slack.click("U0ADA", "C0GEN", answer["ts"], "feedback", pick="negative")
    await team.slack.submit("U0ADA", reason="outdated", words="It is 20 days now")
    row = await team.question(LEAVE)
    (kept,) = await team.app.store.conversations.feedback_by(row.conversation_id, "slack:U0ADA")
    assert (kept.helpful, kept.reason) == (False, "outdated: It is 20 days now")


async def test_a_question_can_be_handed_to_a_person(team: Team) -> None:
    """ "Ask a person" brings the question to the review channel and tells the asker so."""
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    await team.slack.click("U0ADA", "C0GEN", answer["ts"], "person")
    passed = await team.slack.until_seen("U0REV", "C0REVIEW", LEAVE)
    assert "ada" in passed["text"]
    await team.slack.until_seen("U0ADA", "C0GEN", "passed it on")


async def test_a_waiting_question_can_be_withdrawn(team: Team) -> None:
    """The held notice has a button for its asker; the card is then over, and nobody answers."""
    ts, card = await team.held()
    notice = await team.slack.until_seen("U0ADA", "C0GEN", "审核", thread=ts)
    await team.slack.click("U0ADA", "C0GEN", notice["ts"], "stop")
    assert (await team.ended(CONTRACT)).state == "withdrawn"

    async def over() -> bool:
        return "review:approve" not in (await team.card())["actions"]

    await team.slack.until(over)
    assert card["ts"] == (await team.card())["ts"]


async def test_an_edited_question_is_asked_anew(team: Team) -> None:
    """While a draft waits, another wording supersedes it; after the answer the asker is offered to ask again, and
    nobody else can."""
    ts, _ = await team.held()
    await team.slack.do("edit", user="U0ADA", channel="C0GEN", ts=ts, text=f"{BOT} {LEAVE}")
    assert (await team.ended(LEAVE)).state == "answered"
    assert (await team.question(CONTRACT)).state == "superseded"
    await team.slack.do("edit", user="U0ADA", channel="C0GEN", ts=ts, text=f"{BOT} What does ERR_0042 mean?")
    offer = await team.slack.until_seen("U0ADA", "C0GEN", "was edited", thread=ts)
    await team.slack.click("U0LIN", "C0GEN", offer["ts"], "again")
    await team.slack.until_seen("U0LIN", "C0GEN", "Only the person who asked")
    await team.slack.click("U0ADA", "C0GEN", offer["ts"], "again")
    await team.slack.until_seen("U0ADA", "C0GEN", "certificate", thread=ts)
    await team.slack.click("U0ADA", "C0GEN", offer["ts"], "again")
    await team.slack.until_seen("U0ADA", "C0GEN", "asked again already")


async def test_a_forwarded_message_is_context(team: Team) -> None:
    """What was forwarded with the question is part of it."""
    quoted = [{"is_share": True, "text": "What does ERR_0042 mean?", "author_id": "U0LIN"}]
    await team.slack.say("U0ADA", "C0GEN", f"{BOT} Can you explain this?", attachments=quoted)
    row = await team.ended("Can you explain this?")
    assert "> What does ERR_0042 mean?" in row.text
    assert row.answer is not None
    assert "certificate" in row.answer["text"]


@pytest.mark.parametrize("user", ["U0GUEST", "U0ULTRA"])
async def test_guests_are_told_that_they_are_not_answered(team: Team, user: str) -> None:
    """A guest gets one sentence in private, and nothing is stored or retrieved."""
    await team.slack.say(user, "C0GEN", f"{BOT} {LEAVE}")
    await team.slack.until_seen(user, "C0GEN", "members of this workspace")
    assert await team.app.store.conversations.list("slack") == []


# --- reviewers


async def test_a_card_shows_what_a_decision_needs(team: Team) -> None:
    """Asker, channel, question, draft, passages, rule and the link to the thread; the asker sees none of it."""
    ts, card = await team.held()
    for shown in ("ada", "#general", CONTRACT, "45 日内付款", "contracts", "合同条款"):
        assert shown in card["text"]
    assert {"review:approve", "review:edit", "review:reject", "review:claim", "permalink"} <= set(
        card["actions"]
    )
    (notice,) = await team.answers("C0GEN", ts)
    assert "45" not in notice["text"]


async def test_an_edit_is_what_the_asker_reads(team: Team) -> None:
    """The form holds the whole draft; what is sent is the reviewer's text, without pings or links."""
    ts, card = await team.held()
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:edit")
    modal = await team.slack.until(lambda: _modal_with(team, "U0REV", "45"))
    assert modal["inputs"] == ["text0"]
    await team.slack.submit("U0REV", text0="验收合格后 45 日内 [1]。<!channel> https://evil.example")
    assert await _modal_with(team, "U0REV", "Recorded")
    answer = await team.slack.until_seen("U0ADA", "C0GEN", "验收合格后 45 日内", thread=ts)
    assert "rena 修改后签发" in answer["text"]


async def test_a_claimed_review_says_whose_it_is(team: Team) -> None:
    """Claim and release are seen by everybody on the card; the asker reads who has it, and since when."""
    ts, card = await team.held()
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:claim")
    claimed = await team.slack.until_seen("U0REV2", "C0REVIEW", "rena took it")
    await team.slack.until_seen("U0ADA", "C0GEN", "rena 正在处理（", thread=ts)
    await team.slack.click("U0REV", "C0REVIEW", claimed["ts"], "review:release")
    await team.slack.until_seen("U0REV2", "C0REVIEW", "nobody has taken it")


async def test_a_late_reviewer_learns_who_was_faster(team: Team) -> None:
    """A click on a card as it was before the decision changes nothing and is answered in private; so is a form that was
    open meanwhile."""
    ts, card = await team.held()
    await team.slack.click("U0REV2", "C0REVIEW", card["ts"], "review:edit")
    await team.slack.until(lambda: _modal_with(team, "U0REV2", "45"))
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
    await team.slack.until_seen("U0REV", "C0REVIEW", "approved by rena")
    await team.slack.click("U0REV2", "C0REVIEW", card["ts"], "review:approve", late=True)
    await team.slack.until_seen("U0REV2", "C0REVIEW", "rena was faster: approved")
    await team.slack.submit("U0REV2", text0="Something else [1].")
    await team.slack.until(lambda: _modal_with(team, "U0REV2", "rena was faster"))
    await team.slack.click("U0REV2", "C0REVIEW", card["ts"], "review:reject", late=True)
    await team.slack.until(lambda: _modal_with(team, "U0REV2", "rena was faster"))
    shown = [m["text"] for m in await team.answers("C0GEN", ts)]
    assert not any("Something else" in text for text in shown)


async def test_a_click_on_a_draft_that_has_changed_is_told_so(team: Team) -> None:
    """Every decision names the draft it was made on: where the review has another one by now, nothing changes."""
    _, card = await team.held()
    review = await team.review()
    async with transaction(team.app.store.database.engine) as connection:
        await connection.execute(
            update(reviews).values(version_hash="another").where(reviews.c.id == review.id)
        )
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:approve")
    await team.slack.until_seen("U0REV", "C0REVIEW", "The draft has changed")
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:edit")
    await team.slack.until(lambda: _modal_with(team, "U0REV", "The draft has changed"))
    assert (await team.review()).state == "pending"


async def test_who_leaves_the_review_channel_decides_no_more(team: Team) -> None:
    """A reviewer on the list who is not in the review channel is refused, with a sentence, and sees no draft."""
    await team.held()
    await team.slack.do("channel", id="C0REVIEW", take=["U0REV2"])
    await team.house.people.refresh(["C0REVIEW"])
    review = await team.review()
    handle = f"{review.id}:{review.version_hash}"
    body = {"user": {"id": "U0REV2", "team_id": "T0SIGN"}}
    for verb in ("approve", "claim"):
        assert (await team.listener.clicks._act(body, handle, verb)).key == "forbidden"
    seen = await team.app.reviewing.look(review.id, review.version_hash, "slack:U0REV2")
    assert seen.key == "forbidden"
    assert (await team.review()).state == "pending"


async def test_a_long_draft_is_edited_in_several_fields(team: Team) -> None:
    """What one field cannot hold stands in several; what is sent is all of them, in order."""
    _, card = await team.held()
    review = await team.review()
    text = "\n".join(f"{number}. {review.draft['text']}" for number in range(200))
    async with transaction(team.app.store.database.engine) as connection:
        await connection.execute(
            update(reviews).values(draft={**review.draft, "text": text}).where(reviews.c.id == review.id)
        )
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:edit")
    modal = await team.slack.until(lambda: _modal_with(team, "U0REV", "45"))
    fields = modal["inputs"]
    assert len(fields) >= 3
    await team.slack.submit("U0REV", **{name: f"part {number} [1]." for number, name in enumerate(fields)})
    answer = await team.slack.until_seen("U0ADA", "C0GEN", "part 0")
    assert f"part {len(fields) - 1}" in answer["text"]


async def test_a_draft_from_closed_documents_is_opened_privately(team: Team) -> None:
    """Where the review channel may not read the sources, the card shows metadata; a reviewer opens it alone."""
    for document in await team.app.admin.list("contracts"):
        await team.app.admin.set_audience(document.id, ("slack:C0GEN",))
    await team.slack.say("U0ADA", "C0GEN", f"{BOT} {CONTRACT}")
    card = await team.slack.until_seen("U0REV", "C0REVIEW", "Open it privately")
    assert "45" not in card["text"]
    assert CONTRACT not in card["text"]
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:open")
    modal = await team.slack.until(lambda: _modal_with(team, "U0REV", "45"))
    assert "Approve" in modal["buttons"]
    await team.slack.do("click_modal", user="U0REV", button="review:approve")
    assert (await team.ended(CONTRACT)).state == "answered"


# --- admins


async def test_help_lists_exactly_the_commands_of_the_table(team: Team) -> None:
    """The table, the help and the manifests' usage hints name the same commands."""
    await team.slack.command("U0ADA", "C0GEN", "/kb", "help")
    shown = await team.slack.until_seen("U0ADA", "C0GEN", "/kb help")
    names = list(team.listener.commands.table)
    assert [line.split()[1] for line in shown["text"].splitlines() if line.startswith("/kb ")] == names
    for name in ("slack.yaml", "slack-minimal.yaml"):
        hint = Manifest.read(ROOT / "manifests" / name).commands["/kb"]["usage_hint"]
        assert hint.split(" | ") == names


async def test_only_administrators_manage(team: Team) -> None:
    """A colleague is refused with a sentence; an administrator, by user group, gets the list."""
    await team.slack.command("U0ADA", "C0GEN", "/kb", "list")
    await team.slack.until_seen("U0ADA", "C0GEN", "Only administrators")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "list")
    await team.slack.until_seen("U0ADM", "C0GEN", "leave")


async def test_pausing_holds_and_is_seen(team: Team) -> None:
    """Paused here or everywhere, a question is told so and can be asked again; status names who did it."""
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause here")
    await team.slack.until_seen("U0ADM", "C0GEN", "paused: slack:C0GEN")
    ts = await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
    told = await team.slack.until_seen("U0ADA", "C0GEN", "Answering is paused", thread=ts)
    await team.asked("What does ERR_0042 mean?", channel="D0ADA")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "status")
    await team.slack.until_seen("U0ADM", "C0GEN", "slack:C0GEN, by slack:U0ADM")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause here off")
    await team.slack.until_seen("U0ADM", "C0GEN", "goes on: slack:C0GEN")
    await team.slack.click("U0ADA", "C0GEN", told["ts"], "again")
    await team.slack.until_seen("U0ADA", "C0GEN", "15 days", thread=ts)
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause")
    await team.slack.command("U0ADA", "C0GEN", "/ask", "Is ERR_0042 an error?")
    await team.slack.until_seen("U0ADA", "C0GEN", "Answering is paused")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause off")
    await team.asked("Which error is ERR_0042?", channel="D0ADA")


async def test_gaps_and_numbers_are_what_happened(team: Team) -> None:
    """Gaps are what was not known, rejected or not helpful; what was asked in private is counted and not shown."""
    _, card = await team.held()
    await team.slack.click("U0REV", "C0REVIEW", card["ts"], "review:reject")
    await team.slack.until(lambda: _modal_with(team, "U0REV", "Hint"))
    await team.slack.submit("U0REV", reason="sources")
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    await team.slack.click("U0ADA", "C0GEN", answer["ts"], "feedback", pick="negative")
    await team.asked("Where do penguins sleep in winter?")
    await team.asked("What is my neighbour's salary?", channel="D0ADA")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "gaps")
    gaps = await team.slack.until_seen("U0ADM", "C0GEN", "Week of")
    assert "penguins" in gaps["text"]
    for shown in (
        "2 without an answer, 1 rejected, 1 not helpful",
        "not helpful: How many",
        f"rejected: {CONTRACT}",
    ):
        assert shown in gaps["text"]
    assert "salary" not in gaps["text"]
    assert "1 asked in private" in gaps["text"]
    await team.slack.command("U0ADM", "C0GEN", "/kb", "stats")
    stats = await team.slack.until_seen("U0ADM", "C0GEN", "asked: 4 (0)")
    for shown in ("rejected: 1 (0)", "not helpful: 1 (0)", "people who asked: 1 (0)"):
        assert shown in stats["text"]


async def test_who_may_read_is_changed_by_mentioning_them(team: Team) -> None:
    """Channels, people and groups are named as Slack names them, a collection by its name; what is nobody is
    refused."""
    (document,) = [row for row in await team.app.admin.list("hr") if row.title == "leave"]
    for text, said in (
        (f"audience {document.id} <#C0HR|hr> <@U0LIN> <!subteam^S0KB>", "slack:C0HR slack:S0KB slack:U0LIN"),
        (f"audience {document.id} inherit", "leave is now for: everyone"),
        (f"audience {document.id} nobody", "Not somebody who could read: nobody"),
        ("audience it here", "it is now for: slack:C0GEN"),
        ("audience it everyone", "it is now for: everyone"),
        ("audience", "Name a document"),
        ("collections", "hr: 2 documents, 4 passages, 0 failed · everyone"),
    ):
        await team.slack.command("U0ADM", "C0GEN", "/kb", text)
        await team.slack.until_seen("U0ADM", "C0GEN", said)


async def test_the_other_commands_answer(team: Team) -> None:
    """show, search, collections, audience, reviews, gaps, stats and status each say something of use."""
    await team.held()
    (document,) = [row for row in await team.app.admin.list("hr") if row.title == "leave"]
    for text, said in (
        (f"show {document.id}", "15 days"),
        ("show 99999", "no document"),
        ("show x", "number"),
        ("search annual leave", "15 days"),
        ("collections", "contracts"),
        (f"audience {document.id} slack:C0HR", "slack:C0HR"),
        ("reviews", "contracts"),
        ("gaps", "There is nothing"),
        ("stats", "waiting for a person"),
        ("status", "database"),
        ("nonsense", "no such command"),
        (f"remove {document.id}", "Removed"),
    ):
        await team.slack.command("U0ADM", "C0GEN", "/kb", text)
        await team.slack.until_seen("U0ADM", "C0GEN", said)


async def test_a_file_is_added_through_the_form(team: Team) -> None:
    """/kb add opens a form; the file is read, and a direct message says so with its beginning."""
    file = await team.slack.upload("U0ADM", "parking.md", b"# Parking\n\nBicycles stand behind the house.\n")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "add")
    await team.slack.until(lambda: _modal_with(team, "U0ADM", "Collection"))
    assert (await team.slack.submit("U0ADM"))["response"]["errors"]["file"].startswith("Choose a file")
    await team.slack.submit("U0ADM", file=[file], collection="house")
    told = await team.slack.until_seen("U0ADM", "D0ADM", "is searchable", seconds=40)
    assert "Bicycles stand behind the house" in told["text"]
    assert (await team.app.admin.list("house"))[0].source == "parking.md"


async def test_a_file_in_a_direct_message_is_added(team: Team) -> None:
    """Commands carry no files: "kb add" in words beside a file does the same."""
    file = await team.slack.upload("U0ADM", "parking.md", b"# Parking\n\nBicycles stand behind the house.\n")
    await team.slack.do("open_messages", user="U0ADM")
    await team.slack.say("U0ADM", "D0ADM", "kb add house", files=[file])
    await team.slack.until_seen("U0ADM", "D0ADM", "is searchable", seconds=40)


class Web:
    """The web in one page; remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched:
        self.asked.append(url)
        if "nowhere" in url:
            raise IngestError("unreachable", "404")
        return Fetched(url, b"<html><h1>Canteen</h1><p>Soup is served on Mondays.</p></html>", "text/html")


async def test_a_page_is_added_by_its_address(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the form or behind the command; its progress and its beginning come by direct message, and what cannot be
    reached is said."""
    web = Web()
    monkeypatch.setattr(team.app.admin, "_fetcher", web)
    await team.slack.command("U0ADM", "C0GEN", "/kb", "add")
    await team.slack.until(lambda: _modal_with(team, "U0ADM", "Collection"))
    refused = await team.slack.submit("U0ADM", url="https://intra.example/canteen", audience="somebody")
    assert refused["response"]["errors"] == {
        "audience": team.app.words("en", "chat.kb.no_principal", names="somebody")
    }
    await team.slack.submit(
        "U0ADM", url="https://intra.example/canteen", collection="house", audience="<#C0GEN|general>"
    )
    told = await team.slack.until_seen("U0ADM", "D0ADM", "is searchable", seconds=40)
    assert "Soup is served on Mondays" in told["text"]
    (document,) = await team.app.admin.list("house")
    assert (document.source, document.audience) == ("https://intra.example/canteen", ("slack:C0GEN",))
    await team.slack.command("U0ADM", "C0GEN", "/kb", "add https://intra.example/nowhere house")
    await team.slack.until_seen("U0ADM", "D0ADM", "https://intra.example/nowhere")
    await team.slack.until_seen("U0ADM", "D0ADM", "404")
    assert web.asked == ["https://intra.example/canteen", "https://intra.example/nowhere"]


async def test_the_same_bytes_again_are_recognised(team: Team) -> None:
    """A file that is there already is not read again, and is said to be there."""
    for said in ("is searchable", "already, byte for byte"):
        file = await team.slack.upload("U0ADM", "parking.md", b"# Parking\n\nBehind the house.\n")
        await team.slack.do("open_messages", user="U0ADM")
        await team.slack.say("U0ADM", "D0ADM", "kb add house", files=[file])
        await team.slack.until_seen("U0ADM", "D0ADM", said, seconds=40)
    assert len(await team.app.admin.list("house")) == 1
