"""The workspace shows what was refused, what waits and to whom a review was passed on."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from bot.settings import Limits
from tests.integration.test_web import THREAD, Browser, document, held, question
from tests.workspace import Served, settings_for, workspace


@pytest.fixture
async def served(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    """The workspace with an allowance of one question; somebody works where a test asks for it."""
    settings = settings_for(tmp_path).model_copy(update={"limits": Limits(person_questions=1)})
    async with workspace(database_url, settings, working=getattr(request, "param", False)) as site:
        yield site


@pytest.fixture
async def browser(served: Served) -> AsyncIterator[Browser]:
    async with httpx.AsyncClient(base_url=served.address, timeout=20) as client:
        yield Browser(client)


async def _shows(browser: Browser, path: str, text: str) -> str:
    for _ in range(200):
        page = (await browser.get(path)).text
        if text in page:
            return page
    raise AssertionError(f"{path} never showed {text!r}")


@pytest.mark.parametrize("served", [True], indirect=True)
async def test_what_is_refused_says_why_and_can_be_asked_again(served: Served, browser: Browser) -> None:
    """The second question of an allowance of one stays in its thread with the sentence and a button; asked again
    while the allowance is used up, it is refused again, and nothing is lost."""
    path = f"/c/general/t/{THREAD}"
    for number in (1, 2):
        await browser.post(
            "/ask", channel="general", text=f"Question {number}", nonce=THREAD if number == 1 else "b" * 32
        )
    other = f"/c/general/t/{'b' * 32}"
    page = await _shows(browser, other, "You have asked a great deal")
    (row,) = await served.app.store.conversations.questions(f"web:general:{'b' * 32}")
    assert row.state == "refused"
    assert f"/q/{row.id}/again" in page
    assert f"/q/{row.id}/feedback" not in page
    assert "You have asked" not in (await browser.get(path)).text
    await browser.post(f"/q/{row.id}/again")
    rows = await served.app.store.conversations.questions(f"web:general:{'b' * 32}")
    assert [(one.text, one.state) for one in rows] == [
        ("Question 2", "superseded"),
        ("Question 2", "refused"),
    ]


async def test_the_list_marks_what_waits(served: Served, browser: Browser) -> None:
    """A thread whose answer waits for a person says so, and no longer once it is decided."""
    asked = await question(served, "How many days?")
    review = await held(served, asked, await document(served, "Ten days."))
    mark = "waits for a person"
    assert mark in (await browser.get("/c/general")).text
    assert mark in (await browser.get("/")).text
    await browser.post(
        f"/~reviewer/review/{review.id}", verb="reject", reason="other", version_hash=review.version_hash
    )
    row = await served.app.store.reviews.get(review.id)
    assert row.state == "rejected"
    await served.app.asking.fail(row.question_id, "x")
    assert mark not in (await browser.get("/c/general")).text


async def test_a_review_is_passed_on_from_the_desk(served: Served, browser: Browser) -> None:
    """To another reviewer of the list; the clicker reads whose it is now, and the history keeps it."""
    asked = await question(served, "How many days?")
    review = await held(served, asked, await document(served, "Ten days."))
    desk = f"/~reviewer/review/{review.id}"
    assert 'value="cli:reviewer"' in (await browser.get(desk)).text
    hash = review.version_hash
    answer = await browser.post(desk, verb="reassign", to="web:lin", version_hash=hash)
    assert "may not decide this review" in answer.text
    answer = await browser.post(desk, verb="reassign", to="cli:reviewer", version_hash=hash)
    assert "cli:reviewer" in answer.text
    page = (await browser.get(desk)).text
    assert "passed it on" in page
    assert 'value="cli:reviewer"' not in page
