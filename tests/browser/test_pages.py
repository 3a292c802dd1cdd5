"""Every page, in both languages and schemes and at three widths: reachable for everybody, aligned, nothing cut."""

from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.browser.conftest import SHOTS, Opener
from tests.workspace import Served, settings_for, workspace

WIDTHS = (1280, 768, 390)
SIGHTS = (("light", "en-GB"), ("dark", "zh-CN"))
GRAVE = ("serious", "critical")


@pytest.fixture
async def pages(served: Served, opened: Opener) -> dict[str, str]:
    """The addresses of every page, with something on each."""
    lin = await opened(served.address)
    await lin.locator(".suggestion.follow").click()
    await expect(lin.locator(".prose a.cite")).not_to_have_count(0)
    await expect(lin.locator(".turn").nth(1).locator(".prose a.cite").first).to_be_visible()
    thread = lin.url
    await lin.get_by_label("Ask a follow-up").fill("What does clause 3.2 of the service agreement say?")
    await lin.keyboard.press("Enter")
    await expect(lin.locator(".held-title")).to_be_visible()
    passage = await lin.locator("a.cite").first.get_attribute("href")
    document = (await served.app.admin.list())[0].id
    await served.app.trying.start("wide", "web:admin", percent=1)
    base = served.address
    return {
        "home": base,
        "channel": f"{base}/c/general",
        "me": f"{base}/me",
        "thread": thread,
        "passage": f"{base}{passage}",
        "review": f"{base}/~reviewer/review",
        "documents": f"{base}/~admin/console/documents",
        "document": f"{base}/~admin/console/documents/{document}",
        "search": f"{base}/~admin/console/search?q=annual+leave",
        "canary": f"{base}/~admin/console/canary",
        "missing": f"{base}/nothing",
    }


async def _grave(page: Page) -> list[str]:
    found = await Axe().run(page)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found.response["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]


async def test_axe_finds_nothing_serious(opened: Opener, pages: dict[str, str]) -> None:
    """No serious or critical violation on any page, light or dark, in either language."""
    grave: dict[str, list[str]] = {}
    for scheme, locale in SIGHTS:
        page = await opened("about:blank", scheme=scheme, locale=locale)
        for name, address in pages.items():
            await page.goto(address)
            if name == "thread":
                await page.locator("a.cite").first.click()
                await expect(page.locator("#panel .focus")).to_be_visible()
            if name == "review":
                await page.keyboard.press("r")
            if found := await _grave(page):
                grave[f"{name} {scheme}"] = found
    assert grave == {}


async def test_no_page_is_wider_than_its_window(opened: Opener, pages: dict[str, str]) -> None:
    """At every width nothing sticks out sideways; the pictures are kept for people to look at."""
    SHOTS.mkdir(exist_ok=True)
    wide: list[str] = []
    for scheme, locale in SIGHTS:
        page = await opened("about:blank", scheme=scheme, locale=locale)
        for name, address in pages.items():
            await page.goto(address)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 844 if width < 500 else 900})
                scrolled = await page.evaluate("document.documentElement.scrollWidth")
                if scrolled > width:
                    wide.append(f"{name} {width} {scheme}: {scrolled}")
                await page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}-{locale[:2]}.png")
    assert wide == []


async def test_signing_in(database_url: str, tmp_path: Path, opened: Opener) -> None:
    """Beyond one's own machine: the token is asked for, a wrong one gets a sentence, the right one opens."""
    async with workspace(
        database_url, settings_for(tmp_path, token="a long token"), personas=False, working=False
    ) as site:
        page = await opened(site.address)
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await _grave(page) == []
        await page.get_by_label("Token").fill("guess")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("not the token")
        await page.get_by_label("Token").fill("a long token")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Documents")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
