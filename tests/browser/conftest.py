"""Headless Chromium against the real workspace. Without Chromium these tests are skipped, and say so."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from bot.settings import Variant
from tests.workspace import Served, fill, settings_for, workspace

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
SHOTS = Path(__file__).parent / "shots"
# What a browser says by itself about a server that a test has killed, or a page that is not there.
EXPECTED = ("Failed to load resource", "net::ERR_", "Response Status Error", "[object Event]", "htmx:")

Opener = Callable[..., Awaitable[Page]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here drives the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session", autouse=True)
def chromium() -> str:
    found = shutil.which("chromium") or (CHROMIUM if Path(CHROMIUM).exists() else None)
    if found is None:
        pytest.skip(
            "no chromium on this machine: install it (apt-get install chromium) to run the browser tests"
        )
    return found


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield launched
        await launched.close()


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    """The workspace with a part of the handbook in it, answering and ingesting."""
    settings = settings_for(tmp_path).model_copy(update={"variants": {"wide": Variant(search={"kept": 4})}})
    async with workspace(database_url, settings) as site:
        await fill(site.app)
        yield site


@pytest.fixture
async def opened(browser: Browser) -> AsyncIterator[Opener]:
    """Opens a page as one person in one language; fails the test when a page complained about anything."""
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in EXPECTED):
            complaints.append(message.text)

    async def opener(
        address: str, *, locale: str = "en-GB", width: int = 1280, scheme: str = "light"
    ) -> Page:
        context = await browser.new_context(
            locale=locale,
            viewport={"width": width, "height": 844 if width < 500 else 900},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        page = await context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(address)
        return page

    yield opener
    for context in browser.contexts:
        await context.close()
    assert complaints == []
