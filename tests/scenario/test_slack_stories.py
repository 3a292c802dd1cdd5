"""What people do in Slack and nowhere else in this way, over both transports, with what must always hold checked after
each story. What every platform has is told in test_stories.py."""

from pathlib import Path
from typing import Any

import pytest

from store.errors import IngestError
from store.ingest.fetch import Fetched
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


async def _modal_with(team: Team, user: str, text: str) -> dict[str, Any] | None:
    modal = await team.slack.modal(user)
    return modal if modal and text in modal["text"] else None


async def test_a_group_message_is_answered(team: Team) -> None:
    """In a group direct message the bot answers a mention and its asker's follow-up, as in a channel."""
    ts = await team.asked("年假可以休多少天？", channel="G0TRIO")
    (answer,) = await team.answers("G0TRIO", ts)
    assert "15 天年假" in answer["text"]
    await team.slack.say("U0ADA", "G0TRIO", "它的有效期到什么时候？", thread=ts)
    row = await team.ended("它的有效期")
    assert row.answer is not None
    assert "3 月 31 日" in row.answer["text"]


async def test_who_is_asked_in_person_finds_the_thread(team: Team) -> None:
    """ "Ask a person" brings the question to the review channel with the way to its thread."""
    ts = await team.asked()
    (answer,) = await team.answers("C0GEN", ts)
    await team.slack.click("U0ADA", "C0GEN", answer["ts"], "person")
    passed = await team.slack.until_seen("U0REV", "C0REVIEW", LEAVE)
    assert "permalink" in passed["actions"]
    await team.slack.until_seen("U0ADA", "C0GEN", "passed it on")


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
    assert "45 日" not in notice["text"]


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


async def test_pausing_everywhere_reaches_commands(team: Team) -> None:
    """Paused everywhere, /ask is told so as well; afterwards it is answered."""
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause")
    await team.slack.command("U0ADA", "C0GEN", "/ask", "Is ERR_0042 an error?")
    await team.slack.until_seen("U0ADA", "C0GEN", "Answering is paused")
    await team.slack.command("U0ADM", "C0GEN", "/kb", "pause off")
    await team.asked("Which error is ERR_0042?", channel="D0ADA")


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
