"""Several tabs, a killed server, and the keyboard."""

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, Route, expect
from pydantic import SecretStr

from bot.app import Parts, open_app
from rag_graph.models import ModelSettings, ModelWriter
from tests.browser.conftest import Opener
from tests.embedder import HashEmbedder
from tests.emulators.openai import OpenAIServer, Say, Scripted
from tests.emulators.openai_script import parrot
from tests.workspace import Served, deterministic, fill, free_port, settings_for, workspace

CONTRACT = "What does clause 3.2 of the service agreement say?"
LEAVE = "How many days of annual leave do I get?"
ASK = "Ask a follow-up"


async def ask(page: Page, text: str) -> None:
    await page.get_by_label("Your question").fill(text)
    await page.keyboard.press("Enter")


async def waiting(served: Served, opened: Opener, text: str = CONTRACT) -> Page:
    """The asker's page, once its question waits for a person."""
    lin = await opened(f"{served.address}/c/general")
    await ask(lin, text)
    await expect(lin.locator(".held-title")).to_be_visible()
    return lin


async def test_a_decision_in_one_tab_redraws_the_other_at_once(served: Served, opened: Opener) -> None:
    """Two reviewers look at one draft; the second sees the first one's decision, and keeps what they had written."""
    lin = await waiting(served, opened)
    first = await opened(f"{served.address}/~reviewer/review")
    second = await opened(f"{served.address}/~reviewer/review")
    await second.keyboard.press("e")
    await second.locator("textarea[name=text]").fill("Half an answer of my own")
    await first.keyboard.press("a")
    await first.keyboard.press("Enter")
    await expect(first.locator("#notice")).to_contain_text("Recorded: approved.")
    await expect(second.locator(".outcome")).to_contain_text("approved")
    await expect(second.locator(".unsent")).to_contain_text("Half an answer of my own")
    await expect(lin.locator(".seal")).to_contain_text("Signed off by Reviewer")


async def test_a_click_in_a_tab_that_heard_nothing_is_told(served: Served, opened: Opener) -> None:
    """A page whose connection hangs decides too late, changes nothing, and is redrawn by its own click."""
    await waiting(served, opened)
    first = await opened(f"{served.address}/~reviewer/review")
    second = await opened("about:blank")

    async def drop(route: Route) -> None:
        await route.abort()

    await second.route(re.compile("/events$"), drop)
    await second.goto(f"{served.address}/~reviewer/review")
    await first.get_by_role("button", name="Approve").click()
    await expect(first.locator(".outcome")).to_contain_text("approved")
    await expect(second.get_by_role("button", name="Approve")).to_be_visible()
    await second.get_by_role("button", name="Approve").click()
    await expect(second.locator("#notice")).to_contain_text("Reviewer was faster: approved")
    await expect(second.locator(".outcome")).to_contain_text("approved")
    assert [row.state for row in await served.app.store.reviews.list()] == ["approved"]


async def test_a_second_tab_of_the_asker_follows(served: Served, opened: Opener) -> None:
    """A question asked in one tab appears in the other, with its answer."""
    one = await opened(f"{served.address}/c/general")
    await ask(one, LEAVE)
    await expect(one.locator(".prose a.cite").first).to_be_visible()
    other = await opened(one.url)
    await one.get_by_label(ASK).fill("How long are they valid?")
    await one.keyboard.press("Enter")
    await expect(other.locator(".turn")).to_have_count(2)
    await expect(other.locator(".turn").nth(1).locator(".prose a.cite").first).to_be_visible()


def slowly(body: Mapping[str, Any]) -> Scripted:
    """A model that takes its time over a draft; whatever else it is asked it answers like the parrot."""
    if not body.get("stream"):
        return parrot(body)
    return Say("You get ten days [1]. " + "They are yours. " * 4 + "That is all.", piece=22, pause=1.0)


async def test_an_answer_arrives_sentence_by_sentence(
    database_url: str, tmp_path: Path, opened: Opener
) -> None:
    """Where no rule can hold it, what is written already can be read, and stopping sends nothing."""
    with OpenAIServer(default=slowly) as model:
        writer = ModelWriter(ModelSettings(model.base_url, SecretStr(model.key), "emulated-1"))
        parts = Parts(embedder=HashEmbedder(), writer=writer)
        async with workspace(database_url, settings_for(tmp_path, rules=()), parts=parts) as site:
            await fill(site.app, ("hr/leave.en.md",))
            lin = await opened(f"{site.address}/c/general")
            await ask(lin, LEAVE)
            arriving = lin.locator(".prose.arriving")
            await expect(arriving).to_contain_text("You get ten days", timeout=20_000)
            assert "That is all." not in await arriving.inner_text()
            await expect(lin.locator(".prose a.cite")).to_have_count(1, timeout=20_000)
            await expect(arriving).to_have_count(0)
            await lin.get_by_label(ASK).fill("How many days of sick leave are there?")
            await lin.keyboard.press("Enter")
            await expect(lin.locator(".turn").nth(1).locator(".arriving")).to_be_visible(timeout=20_000)
            await lin.get_by_role("button", name="Stop").click()
            await expect(lin.locator(".turn").nth(1)).to_contain_text("nothing was sent")
            await asyncio.sleep(4)
            assert await lin.locator(".prose a.cite").count() == 1


async def test_edit_stop_and_delete(served: Served, opened: Opener) -> None:
    """An edited question is answered in its new wording; a deleted one leaves the page of others."""
    lin = await opened(f"{served.address}/c/general")
    await ask(lin, LEAVE)
    await expect(lin.locator(".prose a.cite").first).to_be_visible()
    other = await opened(f"{served.address}/~reviewer{lin.url.removeprefix(served.address)}")
    await lin.locator("summary", has_text="Edit").click()
    await lin.locator("textarea[id^=edit-text]").fill("How many days of sick leave on full pay?")
    await lin.get_by_role("button", name="Ask the new wording").click()
    await expect(other.locator(".turn").nth(1)).to_contain_text("sick leave on full pay")
    await expect(lin.locator(".turn").nth(1).locator(".prose a.cite").first).to_be_visible()
    lin.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    await lin.locator(".turn").nth(1).get_by_role("button", name="Delete").click()
    await expect(other.locator(".turn").nth(1).locator(".gone")).to_be_visible()
    await expect(other.get_by_text("sick leave on full pay")).to_have_count(0)


async def test_everything_can_be_done_with_the_keyboard(served: Served, opened: Opener) -> None:
    """Ask, open a passage and close it, sign off: no mouse, and the focus can be seen."""
    lin = await opened(f"{served.address}/c/general")
    await lin.keyboard.press("Tab")
    await expect(lin.locator(".skip")).to_be_focused()
    await lin.keyboard.press("Enter")
    await lin.keyboard.press("Tab")
    await expect(lin.get_by_label("Your question")).to_be_focused()
    await lin.keyboard.type(CONTRACT)
    await lin.keyboard.press("Enter")
    await expect(lin.locator(".held-title")).to_be_visible()
    reviewer = await opened(f"{served.address}/~reviewer/review")
    await reviewer.keyboard.press("?")
    await expect(reviewer.get_by_role("dialog")).to_be_visible()
    await reviewer.keyboard.press("Escape")
    await reviewer.keyboard.press("a")
    approve = reviewer.get_by_role("button", name="Approve")
    await expect(approve).to_be_focused()
    outline = await approve.evaluate("element => getComputedStyle(element).outlineWidth")
    assert outline == "3px"
    (review,) = await served.app.store.reviews.list()
    assert review.state == "pending"
    # Drawn anew under the fingers, because somebody else has taken it: the key stays where it was.
    await served.app.store.reviews.claim(review.id, "web:raj")
    await expect(reviewer.get_by_text(re.compile("raj", re.IGNORECASE)).first).to_be_visible()
    await expect(approve).to_be_focused()
    await reviewer.keyboard.press("Enter")
    await expect(lin.locator(".seal")).to_be_visible()
    await lin.locator("a.cite").first.focus()
    await lin.keyboard.press("Enter")
    await expect(lin.locator("#panel-title")).to_be_focused()


# --- a server that dies -----------------------------------------------------------------------------------------


class Process:
    """The workspace in a process of its own."""

    def __init__(self, url: str, home: Path) -> None:
        self._command = [sys.executable, "-m", "tests.workspace", url, str(home)]
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._running = await asyncio.create_subprocess_exec(*self._command, str(self.port))
        async with httpx.AsyncClient() as client:
            for _ in range(600):
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(f"{self.address}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.1)
        pytest.fail("the workspace did not start within a minute")

    async def kill(self) -> None:
        if self._running is not None and self._running.returncode is None:
            self._running.kill()
            await self._running.wait()


@pytest.fixture
async def process(database_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    async with open_app(settings_for(tmp_path), database_url, deterministic()) as app:
        await fill(app)
    started = Process(database_url, tmp_path)
    await started.start()
    yield started
    await started.kill()


async def test_a_killed_server_loses_nothing_on_the_screen(process: Process, opened: Opener) -> None:
    """SIGKILL under an open thread: it says so, keeps what is there and what is being typed, and catches up."""
    lin = await opened(f"{process.address}/c/general")
    await ask(lin, LEAVE)
    await expect(lin.locator(".prose a.cite").first).to_be_visible()
    await lin.get_by_label(ASK).fill("What does clause 3.2 of")
    await process.kill()
    await expect(lin.locator("#connection")).to_be_visible()
    await expect(lin.locator(".prose a.cite").first).to_be_visible()
    await lin.get_by_label(ASK).press_sequentially(" the service agreement say?")
    await lin.keyboard.press("Enter")
    await expect(lin.locator("#notice")).to_contain_text("What you wrote is still here")
    await expect(lin.get_by_label(ASK)).to_have_value(CONTRACT)
    await process.start()
    await expect(lin.locator("#connection")).to_be_hidden(timeout=30_000)
    await lin.get_by_label(ASK).press("Enter")
    await expect(lin.locator(".held-title")).to_be_visible(timeout=30_000)
    assert await lin.locator(".turn").count() == 2
