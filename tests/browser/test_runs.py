"""From the message in chat to the fault: its run link leads to the verdict, for three faults planted on purpose."""

import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from pydantic import SecretStr

from bot.app import Parts
from bot.settings import Operations, Search
from rag_graph.contracts import Material, OnSentence, Question, Turn, Written
from store.text import sentences
from tests.browser.conftest import Opener
from tests.embedder import HashEmbedder
from tests.emulators.slack.client import StandIn
from tests.emulators.slack.limits import links
from tests.knowledge import publish
from tests.pen import Pen
from tests.scenario.slack_team import Team, connected, read_manifest, settings_for
from tests.workspace import free_port, workspace

TOKEN = "a long token"
RUN_LINK = re.compile(r"<(http://[^|>]+/console/runs/([0-9a-f]{32}))\|run ([0-9a-f]{8})>")
GYM = "Who pays for the gym membership of employees?"
DOG = "May I bring my dog to the office?"
LEAVE = "How many days of annual leave do employees receive?"
# The answer says it in other words than the question; what shares the question's words is about something else.
HANDBOOK = {
    "pets.md": ["Companion animals are welcome on the premises each Friday."],
    "kitchen.md": [
        "You may bring lunch to the office kitchen.",
        "Bring your own cup to the office, not my cup.",
    ],
    "parking.md": [
        "May I bring my car to the office? Yes.",
        "Bring the dog-eared permit to the office garage.",
    ],
    "leave.md": ["Employees receive 15 days of annual leave each year."],
    "sick.md": ["Days of sick leave are not days of annual leave; employees receive pay on them."],
}


class Astray(Pen):
    """A model that is given the right passage first, and quotes another."""

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        number = len(material.passages)
        return Written(f"{sentences(material.passages[-1].text)[0]} [{number}]", "model")


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Team]:
    """Slack and the console of one application, whose messages lead there; three passages are found, two are read."""
    embedder, port = HashEmbedder(), free_port()
    with StandIn() as slack:
        await slack.do("reset", manifest=read_manifest("slack.yaml"))
        chosen = settings_for(slack, tmp_path, socket=True)
        settings = chosen.model_copy(
            update={
                "console_token": SecretStr(TOKEN),
                "operations": Operations(address=f"http://127.0.0.1:{port}"),
                "search": Search(candidates=3, kept=2, retry_below=0.0, abstain_below=0.0),
                "review": chosen.review.model_copy(update={"admins": ("web:admin",)}),
            }
        )
        parts = Parts(embedder=embedder, writer=Astray())
        async with workspace(database_url, settings, personas=False, port=port, parts=parts) as served:
            for source, texts in HANDBOOK.items():
                await publish(served.app.store, embedder, "hr", source, texts)
            async with connected(slack, served.app) as opened:
                yield opened


async def run_link(team: Team, question: str) -> str:
    """Where the one link in the bot's answer leads, as it stands in Slack."""
    ts = await team.asked(question)
    world = await team.slack.world()
    blocks = [
        block
        for message in world["channels"]["C0GEN"]["messages"]
        if message["user"] == "U0BOT" and message.get("thread_ts") == ts
        for block in message["blocks"]
    ]
    (link,) = links(blocks, "")
    found = RUN_LINK.fullmatch(link)
    assert found is not None
    assert found[2].startswith(found[3])
    return found[1]


async def follow(page: Page, link: str) -> None:
    """As from a message: from another site, where a strict cookie does not come along."""
    await page.goto(f'data:text/html,<a href="{link}">run</a>')
    await page.get_by_role("link", name="run").click()


async def judge(page: Page, name: str, words: str = "") -> None:
    """Say what should have answered."""
    await page.get_by_label("The document that should have answered").fill(name)
    await page.get_by_label("Words of the passage").fill(words)
    await page.get_by_role("button", name="Judge").click()


async def test_the_run_link_leads_to_the_right_verdict(team: Team, opened: Opener) -> None:
    """Not indexed; indexed but not retrieved; retrieved but not cited: whoever follows the link below the answer, signs
    in and says what should have answered reads which it was, and what mends it."""
    page = await opened("about:blank")
    await follow(page, await run_link(team, GYM))
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.get_by_label("Token").fill(TOKEN)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text(GYM)
    await judge(page, "gym.pdf")
    await expect(page.locator(".fault")).to_have_text("Not indexed")
    await expect(page.locator(".ruling")).to_contain_text("signoff ingest")

    await follow(page, await run_link(team, DOG))  # signed in: straight there
    await expect(page.get_by_role("heading", level=1)).to_contain_text(DOG)
    await judge(page, "", "companion animals are welcome")
    await expect(page.locator(".fault")).to_have_text("Not retrieved")
    await expect(page.locator(".ruling")).to_contain_text("pets is indexed and these readers may read it")
    await expect(page.locator(".table-place tbody tr")).to_have_count(3)
    assert "Companion animals" not in await page.locator(".stretch").inner_text()

    await follow(page, await run_link(team, LEAVE))
    await judge(page, "leave.md")
    await expect(page.locator(".fault")).to_have_text("Retrieved but not cited")
    await expect(page.locator(".ruling")).to_contain_text("drafting's fault")
    row = page.locator(".table-place tbody tr", has_text="leave").first
    await expect(row.get_by_text("read", exact=True)).to_be_visible()
    await expect(row.get_by_text("cited", exact=True)).to_have_count(0)

    await judge(page, "sick")
    await expect(page.locator(".fault")).to_have_text("Cited")
