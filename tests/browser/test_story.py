"""The whole job in a browser: ask, follow up, wait for a person, decide, add a document."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from bot.words import Words
from tests.browser.conftest import Opener
from tests.workspace import Served

LOCALES = {"en": "en-GB", "zh": "zh-CN"}
LEAVE = {
    "en": ("How many days of annual leave do I get?", "31 March"),
    "zh": ("年假可以休多少天？", "3 月 31 日"),
}
FOLLOW = {"en": "How long are they valid?", "zh": "它的有效期到什么时候？"}
EDITED = {"en": "Sixty days, says the contract [1].", "zh": "合同规定为六十天 [1]。"}


class Words1:
    """The words of one language, as the page should say them."""

    def __init__(self, language: str) -> None:
        self._words = Words()
        self._language = language

    def __call__(self, key: str, **values: object) -> str:
        return self._words(self._language, f"web.{key}", **values)


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_the_whole_story(served: Served, opened: Opener, tmp_path: Path, language: str) -> None:
    """From a stranger's first click to a signed-off answer and a new document, in either language."""
    t = Words1(language)
    lin = await opened(served.address, locale=LOCALES[language])
    await _ask_and_open_the_passage(lin, t, language)
    await _follow_up(lin, t, language)
    await _rate(lin, t)
    reviewer = await opened(f"{served.address}/~reviewer/review", locale=LOCALES[language])
    await expect(reviewer.get_by_text(t("review.none_hint"))).to_be_visible()
    await _held(lin, t)
    sentences = (await served.app.store.reviews.list())[0].draft["sentences"]
    longest = max((str(sentence["text"]) for sentence in sentences), key=len)
    draft = re.sub(r"[>*]", "", longest.split("[")[0]).strip()
    assert len(draft) > 10
    assert draft not in await lin.content()
    await expect(reviewer.locator(".draft")).to_contain_text(draft)
    await _decide(reviewer, lin, t, language)
    admin = await opened(f"{served.address}/~admin/console/documents", locale=LOCALES[language])
    await _add_documents(admin, t, tmp_path)


async def _ask_and_open_the_passage(lin: Page, t: Words1, language: str) -> None:
    await lin.locator(".suggestion.answer").click()
    answer = lin.locator(".turn .reply .prose").first
    await expect(lin.locator(".turn .said .text").first).to_have_text(LEAVE[language][0])
    await expect(answer.locator("a.cite").first).to_be_visible()
    await answer.locator("a.cite").first.click()
    await expect(lin.locator("#panel .focus")).to_be_visible()
    await expect(lin.locator("#panel")).to_contain_text(t("source.version", version=1))
    await lin.keyboard.press("Escape")
    await expect(lin.locator("#panel .focus")).to_have_count(0)
    # Focus returns to the mark that opened it.
    assert await lin.evaluate("document.activeElement.className") == "cite"


async def _follow_up(lin: Page, t: Words1, language: str) -> None:
    await lin.get_by_label(t("ask.follow")).fill(FOLLOW[language])
    await lin.keyboard.press("Enter")
    second = lin.locator(".turn").nth(1)
    await expect(second.locator(".prose a.cite").first).to_be_visible()
    await expect(lin.get_by_label(t("ask.follow"))).to_have_value("")
    await second.locator("details.found summary").click()
    rewritten = await second.locator(".rewritten").inner_text()
    assert rewritten != FOLLOW[language]


async def _rate(lin: Page, t: Words1) -> None:
    first = lin.locator(".turn").first
    await first.get_by_role("button", name=t("feedback.no"), exact=True).click()
    await first.get_by_label(t("feedback.why")).fill("out of date")
    await first.get_by_role("button", name=t("feedback.send"), exact=True).click()
    await expect(lin.locator("#notice")).to_contain_text(t("feedback.kept"))
    await expect(first.locator('.thumb[value="no"]')).to_have_attribute("aria-pressed", "true")


async def _held(lin: Page, t: Words1) -> None:
    await lin.get_by_label(t("ask.follow")).fill(t("home.suggest.held"))
    await lin.keyboard.press("Enter")
    third = lin.locator(".turn").nth(2)
    await expect(third).to_contain_text(t("held.title"))
    await expect(third).to_contain_text(t("held.unclaimed"))


async def _decide(reviewer: Page, lin: Page, t: Words1, language: str) -> None:
    """The card comes by itself; keys take it and open the editor; the asker sees who has it, then the answer."""
    card = reviewer.locator("article.card")
    await expect(card.locator(".question")).to_have_text(t("home.suggest.held"))
    await expect(card.locator(".quote blockquote").first).to_be_visible()
    await reviewer.keyboard.press("c")
    await expect(reviewer.get_by_role("button", name=t("review.release"))).to_be_visible()
    third = lin.locator(".turn").nth(2)
    await expect(third).to_contain_text(t("held.claimed", who=t("person.reviewer")))
    await reviewer.keyboard.press("e")
    await reviewer.get_by_label(t("review.edit_label")).fill(EDITED[language])
    await reviewer.get_by_role("button", name=t("review.edit_send"), exact=True).click()
    await expect(card.locator(".diff ins").first).to_be_visible()
    await expect(third.locator(".seal")).to_contain_text(t("answer.edited", who=t("person.reviewer")))
    await expect(third.locator(".prose")).to_contain_text(EDITED[language].split("[")[0].strip())


async def _add_documents(admin: Page, t: Words1, folder: Path) -> None:
    """Several at once: what can be read appears, what cannot says why."""
    (folder / "gym.md").write_text(
        "# Gym\n\nThe company pays 300 yuan a month for a gym.\n", encoding="utf-8"
    )
    (folder / "empty.md").write_text("", encoding="utf-8")
    await admin.locator("#files").set_input_files([folder / "gym.md", folder / "empty.md"])
    await admin.get_by_label(t("documents.collection")).fill("benefits")
    await admin.get_by_role("button", name=t("documents.upload"), exact=True).click()
    shelf = admin.locator(".shelf", has=admin.get_by_role("heading", name="benefits"))
    row = shelf.locator("tr", has_text="gym.md")
    await expect(row.locator(".chip")).to_have_text(t("documents.states.live"), timeout=60_000)
    await expect(shelf.locator("tr", has_text="empty.md").locator(".why-failed")).to_be_visible(
        timeout=60_000
    )
    await row.get_by_role("link").click()
    await expect(admin.locator(".chunks")).to_contain_text("300 yuan a month")
    await admin.get_by_role("link", name=t("nav.search"), exact=True).click()
    await admin.get_by_label(t("search.query")).fill("gym yuan")
    await admin.get_by_role("button", name=t("search.send"), exact=True).click()
    await expect(admin.locator(".hits li").first).to_contain_text("300 yuan")
