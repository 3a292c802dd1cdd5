"""Makes the pictures of the documentation: `python -m tests.browser.pictures` (needs chromium).

A real workspace over an embedded database, a part of the sample handbook, the local embedding model, and the answers
that it gives without a language model; nothing is drawn by hand.
"""

import asyncio
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright, expect

from bot.app import Parts
from rag_graph.models import ExtractiveWriter
from store.database import migrate
from store.embedded import EmbeddedPostgres
from store.embedding import LocalEmbedder
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.workspace import Served, fill, settings_for, workspace

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SHELVES = (
    "hr/leave.en.md",
    "hr/working-hours.en.md",
    "contracts/service-agreement.en.md",
    "finance/expenses.en.md",
    "it/error-codes.en.md",
)
WIDTH = 1280


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        server = EmbeddedPostgres(Path(folder) / "home", durable=False)
        url = server.start()
        try:
            await migrate(url)
            parts = Parts(embedder=LocalEmbedder(), writer=ExtractiveWriter())
            async with (
                workspace(url, settings_for(Path(folder)), parts=parts) as served,
                async_playwright() as playwright,
            ):
                await fill(served.app, SHELVES)
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
                await _take(served, browser)
                await browser.close()
        finally:
            server.stop()


async def _take(served: Served, browser: Browser) -> None:
    lin = await _page(browser, served.address, 1230)
    await lin.locator(".suggestion.answer").click()
    await expect(lin.locator(".prose a.cite").first).to_be_visible()
    await _follow(lin, "What does clause 3.2 of the service agreement say about payment?")
    await expect(lin.locator(".held-title")).to_be_visible()
    reviewer = await _page(browser, f"{served.address}/~reviewer/review", 860)
    await reviewer.keyboard.press("c")
    await expect(lin.locator(".held-note")).to_contain_text("Reviewer took it")
    await lin.locator("a.cite").first.click()
    await expect(lin.locator("#panel .focus")).to_be_visible()
    await lin.evaluate("scrollTo(0, 0)")
    await _picture(lin, "thread.png")
    await reviewer.mouse.move(0, 0)
    await reviewer.evaluate("document.activeElement.blur()")
    await _picture(reviewer, "review.png")


async def _page(browser: Browser, address: str, height: int) -> Page:
    context = await browser.new_context(
        viewport={"width": WIDTH, "height": height}, locale="en-GB", color_scheme="light"
    )
    page = await context.new_page()
    await page.goto(address)
    return page


async def _follow(page: Page, text: str) -> None:
    await page.get_by_label("Ask a follow-up").fill(text)
    await page.keyboard.press("Enter")


async def _picture(page: Page, name: str) -> None:
    """Without the sentence that a click leaves for a few seconds."""
    await page.evaluate("document.querySelector('#notice').replaceChildren()")
    await page.screenshot(path=PICTURES / name)


if __name__ == "__main__":
    asyncio.run(main())
