"""Every page, in both languages and schemes and at three widths: reachable for everybody, aligned, nothing cut."""

from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from bench.quality import plant
from store.runs import Wanted
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
    run = (await served.app.store.runs.page(Wanted(outcome="answered"), 1))[0].question_id
    await plant(served.app.store.database.engine, 300, 30, documents=6)
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
        "runs": f"{base}/~admin/console/runs?outcome=answered",
        "run": f"{base}/~admin/console/runs/{run}?name=leave",
        "uncited": f"{base}/~admin/console/runs/uncited?days=1",
        "verified": f"{base}/~admin/console/verified",
        "quality": f"{base}/~admin/console/quality",
        "settings": f"{base}/~admin/console/settings",
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


async def test_the_quality_page_by_keyboard(opened: Opener, pages: dict[str, str]) -> None:
    """From the top of the page: the time is chosen, the page shown, a chart's numbers opened and scrolled, all without
    a mouse; the settings are one link away."""
    page = await opened(pages["quality"])
    await page.locator("select[name=days]").focus()
    await page.keyboard.press("ArrowUp")
    for _ in range(4):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("select[name=days]")).to_have_value("7")
    numbers = page.locator(".chart details").first
    await numbers.locator("summary").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(numbers.locator(".numbers")).to_be_focused()
    await expect(numbers.locator("tbody tr")).to_have_count(7)
    await page.get_by_role("link", name="Settings").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()


CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
MARK = f"""() => {{
  const found = [...document.querySelectorAll("{CONTROLS}")].filter(one => one.checkVisibility() && !one.disabled);
  found.forEach((one, at) => one.dataset.at = at);
  return found.length;
}}"""
CONSOLE = ("review", "documents", "document", "search", "verified", "quality", "settings")


async def test_every_control_of_the_console_is_reached_by_keyboard(
    opened: Opener, pages: dict[str, str]
) -> None:
    """On a phone's width, from the top of each page, Tab comes by everything that can be clicked."""
    page = await opened("about:blank", width=390)
    missed: dict[str, list[int]] = {}
    for name in CONSOLE:
        await page.goto(pages[name])
        count = await page.evaluate(MARK)
        reached = set()
        for _ in range(count + 1):
            await page.keyboard.press("Tab")
            reached.add(await page.evaluate("document.activeElement.dataset.at"))
        if left := sorted(set(range(count)) - {int(at) for at in reached if at is not None}):
            missed[name] = left
    assert missed == {}
