"""The workspace over HTTP: what it lets through, what it shows to whom, and what it says when it does not."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy

from bot.messages import Reply
from bot.settings import Variant
from bot.web.guard import POLICY
from rag_graph.chat import Called
from rag_graph.contracts import Citation, Draft, Sentence
from store.database import transaction
from store.deliveries import NewDelivery
from store.documents import NewChunk, NewDocument
from store.inbox import NewQuestion
from store.passages import Passage
from store.reviews import NewReview, ReviewRow
from store.verified import NewVerified
from tests.embedder import HashEmbedder
from tests.workspace import Served, settings_for, workspace

SECRET = "Party A pays seventy-seven per cent on signature"
THREAD = "a" * 32
BLOCK = re.compile(r'name="seen" value="([^"]+)"')
TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
async def served(database_url: str, home: Path) -> AsyncIterator[Served]:
    """The workspace with personas, and nobody working: states stay as a test makes them."""
    async with workspace(database_url, settings_for(home), working=False) as site:
        yield site


@pytest.fixture
async def browser(served: Served) -> AsyncIterator["Browser"]:
    async with httpx.AsyncClient(base_url=served.address, timeout=20) as client:
        yield Browser(client)


class Browser:
    """A client with a cookie jar that fills in forms."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.token = ""

    async def get(self, path: str, **more: Any) -> httpx.Response:
        answer = await self.client.get(path, **more)
        found = TOKEN.search(answer.text)
        self.token = found.group(1) if found else self.token
        return answer

    async def post(self, path: str, *, htmx: bool = True, **fields: Any) -> httpx.Response:
        if not self.token:
            await self.get("/login" if "login" in path else "/")
        headers = {"X-Form-Token": self.token, **({"HX-Request": "true"} if htmx else {})}
        return await self.client.post(path, data=fields, headers=headers)


async def document(
    served: Served, text: str, *, audience: tuple[str, ...] = ("everyone",), name: str = "terms.md"
) -> Passage:
    """A visible document of one chunk, written past ingestion."""
    documents = served.app.store.documents
    version = await documents.add(NewDocument("contracts", name, text.encode(), "web:admin", audience))
    chunk = NewChunk(0, ("Article 3",), 2, text)
    vectors = await HashEmbedder().passages([text])
    await documents.publish(
        version.id, [chunk], vectors, markdown=text, pages=2, title="Terms", language="en"
    )
    stored = (await documents.chunks(version.id))[0]
    found = await served.app.store.search.passages([stored.id], audience)
    return found[0]


async def question(served: Served, text: str, *, channel: str = "general", asker: str = "web:lin") -> str:
    """A stored question, as `accept` leaves it."""
    private = channel.startswith("@")
    key = f"{channel}-{text}"
    question_id = uuid.uuid5(uuid.NAMESPACE_URL, key).hex
    await served.app.store.inbox.accept(
        NewQuestion(
            platform="web",
            dedupe_key=key,
            conversation_id=f"web:{channel}:{THREAD}",
            channel=channel,
            thread=THREAD,
            private=private,
            asker=asker,
            text=text,
            sent_at=datetime.now(UTC),
            question_id=question_id,
            language="en",
        )
    )
    return question_id


def cited(passage: Passage) -> Citation:
    return Citation(
        1,
        passage.id,
        passage.document_id,
        passage.version,
        passage.title,
        passage.heading_path,
        passage.page,
        passage.source,
        passage.updated_at.isoformat(),
        passage.content_hash,
    )


async def held(served: Served, question_id: str, passage: Passage, text: str = SECRET) -> ReviewRow:
    """A draft of `text` in review, resting on `passage`."""
    draft = Draft(
        f"{text} [1].",
        "model",
        (cited(passage),),
        (Sentence(f"{text} [1].", (1,), "supported"), Sentence("Nobody knows.", (), "unsupported")),
        0.5,
        audience=tuple(passage.audience),
        collections=("contracts",),
    )
    return await served.app.store.reviews.open(
        NewReview(
            question_id,
            "interrupt",
            1,
            draft.version_hash,
            "contracts",
            {**draft.to_json(), "rewritten_question": "payment terms"},
            draft.audience,
        )
    )


async def answered(served: Served, question_id: str, passage: Passage, *, channel: str = "general") -> None:
    """An answer that cites `passage`, delivered."""
    citation = cited(passage)
    reply = Reply(
        "answer",
        "It says so [1].",
        "en",
        ({**{name: getattr(citation, name) for name in citation.__slots__}},),
        {"kind": "model", "rewritten_question": "terms", "confidence": 0.5, "calibrated": False},
    )
    await served.app.store.conversations.set_state(question_id, "answered", answer=reply.to_json())
    deliveries = served.app.store.deliveries
    row = await deliveries.put(
        NewDelivery(
            f"answer:{question_id}",
            "web",
            "answer",
            reply.to_json(),
            conversation_id=f"web:{channel}:{THREAD}",
            question_id=question_id,
        )
    )
    await deliveries.sent(row.id, row.purpose)


EMPLOYEE = (
    "/",
    "/c/general",
    "/me",
    f"/c/general/t/{THREAD}",
    f"/c/general/t/{THREAD}/changes",
    "/home/changes",
)


# --- what passes ------------------------------------------------------------------------------------------------


async def test_every_answer_carries_the_policy(browser: Browser) -> None:
    """Pages, files, redirects and errors all forbid inline scripts, foreign sources and frames."""
    for path in ("/", "/healthz", "/static/site.css", "/nothing", "/review", "/~admin/console"):
        headers = (await browser.get(path)).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


async def test_pages_hold_no_inline_script_or_style(served: Served, browser: Browser) -> None:
    """What the policy forbids is not there in the first place."""
    passage = await document(served, "Clause 3.2")
    asked = await question(served, "What does it say?")
    review = await held(served, asked, passage)
    for path in (
        *EMPLOYEE,
        f"/~reviewer/review/{review.id}",
        "/~admin/console/documents",
        "/~admin/console/search?q=x",
        "/~admin/console/runs",
        f"/~admin/console/runs/{asked}",
        f"/~admin/c/general/t/{THREAD}",
    ):
        page = (await browser.get(path)).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", page)


async def test_a_foreign_name_for_this_machine_is_refused(served: Served, browser: Browser) -> None:
    """DNS rebinding: without a token only loopback names are answered."""
    answer = await browser.client.get("/", headers={"Host": "evil.example:8787"})
    assert answer.status_code == 403
    assert "Lin" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
async def test_a_form_from_another_site_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    """Even with the right token nothing is accepted from elsewhere."""
    await browser.get("/")
    answer = await browser.client.post(
        "/c/general/ask",
        data={"form_token": browser.token, "nonce": "b" * 32, "text": "hello"},
        headers=headers,
    )
    assert answer.status_code == 403


async def test_a_form_without_this_sessions_token_is_refused(served: Served, browser: Browser) -> None:
    """No token, a made-up one, and another session's are all refused with a sentence."""
    await browser.get("/")
    async with httpx.AsyncClient(base_url=served.address) as other:
        foreign = TOKEN.search((await other.get("/")).text)
    assert foreign is not None
    for token in ("", "0" * 64, foreign.group(1)):
        answer = await browser.client.post(
            "/c/general/ask", data={"form_token": token, "nonce": "b" * 32, "text": "hello"}
        )
        assert answer.status_code == 403
        assert "Reload the page" in answer.text
    assert await served.app.store.conversations.list("web") == []


async def test_a_request_that_is_too_large_is_refused(browser: Browser) -> None:
    """A form of a megabyte is no question."""
    answer = await browser.post("/c/general/ask", nonce="b" * 32, text="x" * 1_000_000)
    assert answer.status_code == 413


# --- who gets in ------------------------------------------------------------------------------------------------


async def test_without_personas_and_token_nobody_gets_in(database_url: str, home: Path) -> None:
    """A workspace that was given no token opens to nobody, and says what to do."""
    async with (
        workspace(database_url, settings_for(home), personas=False, working=False) as site,
        httpx.AsyncClient(base_url=site.address, follow_redirects=True) as client,
    ):
        for path in ("/", "/review", "/~admin/console/documents", "/console/documents"):
            answer = await client.get(path)
            assert answer.status_code in (200, 404)
            assert "Documents" not in answer.text
        assert "SIGNOFF_CONSOLE_TOKEN" in (await client.get("/")).text


async def test_the_token_opens_the_door_once_shown(database_url: str, home: Path) -> None:
    """A wrong token gets a sentence, the right one a strict cookie; personas do not exist there."""
    settings = settings_for(home, token="correct horse battery staple")
    async with (
        workspace(database_url, settings, personas=False, working=False) as site,
        httpx.AsyncClient(base_url=site.address) as client,
    ):
        browser = Browser(client)
        await browser.get("/login")
        wrong = await browser.post("/login", htmx=False, token="guess")
        assert wrong.status_code == 403
        assert "not the token" in wrong.text
        assert (await client.get("/")).headers["location"] == "/login"
        right = await browser.post("/login", htmx=False, token="correct horse battery staple")
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/console/documents")).status_code == 200
        assert (await client.get("/~reviewer/review")).status_code == 404
        assert (await client.get("/review")).status_code == 403


async def test_a_forged_cookie_is_nobody(database_url: str, home: Path) -> None:
    """A cookie that this server did not sign opens nothing."""
    settings = settings_for(home, token="correct horse battery staple")
    async with (
        workspace(database_url, settings, personas=False, working=False) as site,
        httpx.AsyncClient(base_url=site.address) as client,
    ):
        for value in ("eyJuYW1lIjogImFkbWluIn0.00", "x", "a.b.c", ""):
            answer = await client.get("/console/documents", headers={"Cookie": f"signoff={value}"})
            assert answer.headers["location"] == "/login"


async def test_an_employee_enters_no_other_room(served: Served, browser: Browser) -> None:
    """Lin's own address leads neither to the desk nor to the console, whatever the method."""
    for path in ("/review", "/console/documents", "/console/search?q=x", "/review/none/events"):
        assert (await browser.get(path)).status_code == 403
    assert (await browser.post("/console/documents/1/remove")).status_code == 403
    assert (await browser.post("/review/1", verb="approve")).status_code == 403


async def test_probes_need_no_cookie(browser: Browser) -> None:
    """The process is alive, and the database is ready."""
    assert (await browser.get("/healthz")).json() == {"status": "alive"}
    ready = (await browser.get("/readyz")).json()
    assert ready["status"] == "ready"
    assert {name: check["state"] for name, check in ready["checks"].items()} == {
        "database": "ok", "migrations": "ok", "model": "ok", "embedder": "ok", "queue": "degraded"
    }  # fmt: skip
    assert "no worker is alive" in ready["checks"]["queue"]["why"]


async def test_what_cannot_serve_says_why(served: Served, browser: Browser) -> None:
    """A deaf platform and a schema of another version take the process out of service, each named; a model that failed
    does not."""
    served.app.telemetry.metrics.called(Called("draft", 1.0, failed="HTTP 500"))
    served.app.platforms["slack"] = served.app.platforms["web"]  # type: ignore[index]  # as if it were set up
    served.app.health["slack"] = lambda: "nothing reaches this process from Slack"
    answer = await browser.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["slack"] == {
        "state": "down",
        "why": "nothing reaches this process from Slack",
    }
    served.app.health["slack"] = lambda: ""
    assert (await browser.get("/readyz")).status_code == 200
    async with transaction(served.app.store.database.engine) as connection:
        await connection.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = '0001'"))
    answer = await browser.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["migrations"]["state"]) == (503, "down")


async def test_the_numbers_are_for_those_who_have_the_token(database_url: str, home: Path) -> None:
    """Prometheus sends the console token as a bearer; without one, or with another, nothing is told."""
    async with (
        workspace(
            database_url, settings_for(home, token="a long token"), personas=False, working=False
        ) as site,
        httpx.AsyncClient(base_url=site.address) as client,
    ):
        refused = await client.get("/metrics")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="signoff"')
        wrong = {"Authorization": "Bearer a long guess"}
        assert (await client.get("/metrics", headers=wrong)).status_code == 401
        answer = await client.get("/metrics", headers={"Authorization": "Bearer a long token"})
        assert answer.status_code == 200
        assert "signoff_database_up 1.0" in answer.text


async def test_the_settings_have_a_page(served: Served, browser: Browser) -> None:
    """For administrators: every table, the rules as sentences, and of secrets whether they are set."""
    assert (await browser.get("/console/settings")).status_code == 403
    page = (await browser.get("/~admin/console/settings")).text
    for said in ("[search]", "held for a reviewer", "the collection is contracts", "not set"):
        assert said in page


# --- asking -----------------------------------------------------------------------------------------------------


async def test_a_question_becomes_a_thread(served: Served, browser: Browser) -> None:
    """The form leads to the thread, which shows the question; the question is stored with its job."""
    answer = await browser.post("/ask", htmx=False, nonce=THREAD, channel="hr", text="How many days?")
    assert answer.headers["location"] == f"/c/hr/t/{THREAD}"
    page = (await browser.get(answer.headers["location"])).text
    assert "How many days?" in page
    assert 'aria-current="step"' in page


async def test_the_same_form_twice_is_one_question(served: Served, browser: Browser) -> None:
    """A double click asks once."""
    for _ in range(2):
        await browser.post("/c/general/ask", htmx=False, nonce=THREAD, text="How many days?")
    stored = await served.app.store.conversations.questions(f"web:general:{THREAD}")
    assert [row.text for row in stored] == ["How many days?"]


async def test_a_question_too_long_is_refused_whole(served: Served, browser: Browser) -> None:
    """Nothing is cut: the sentence says what to do, and nothing is stored."""
    answer = await browser.post("/c/general/ask", nonce=THREAD, text="x" * 4_001)
    assert answer.status_code == 400
    assert "too long" in answer.text
    assert await served.app.store.conversations.list("web") == []


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7*7 }}"])
async def test_a_hostile_question_is_shown_as_text(served: Served, browser: Browser, text: str) -> None:
    """What somebody types is text on every page that shows it."""
    asked = await question(served, text)
    passage = await document(served, text, name=text)
    review = await held(served, asked, passage, text)
    for path in (*EMPLOYEE, f"/~reviewer/review/{review.id}", "/~admin/console/documents"):
        page = (await browser.get(path)).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert ">49<" not in page


async def test_a_private_thread_is_its_askers_alone(served: Served, browser: Browser) -> None:
    """Neither the address, nor the question's id, nor a list leads anybody else into it."""
    asked = await question(served, "Am I on probation?", channel="@lin")
    assert "Am I on probation?" in (await browser.get(f"/me/t/{THREAD}")).text
    for base in ("/~reviewer", "/~admin"):
        for path in (
            f"/me/t/{THREAD}",
            f"/c/@lin/t/{THREAD}",
            f"/me/t/{THREAD}/events",
            f"/q/{asked}/source/1",
        ):
            answer = await browser.get(base + path)
            assert answer.status_code == 404
        assert "probation" not in (await browser.get(base + "/")).text
    refused = await browser.post(f"/~reviewer/q/{asked}/delete")
    assert refused.status_code == 404


async def test_only_the_asker_changes_a_question(served: Served, browser: Browser) -> None:
    """In a channel others may read and rate, but not edit, stop or delete."""
    asked = await question(served, "How many days?")
    for verb in ("edit", "stop", "delete", "person", "again"):
        answer = await browser.post(f"/~reviewer/q/{asked}/{verb}", text="other")
        assert answer.status_code == 403
    assert (await served.app.store.conversations.question(asked)).state == "received"


async def test_a_deleted_question_is_gone_from_others_pages(served: Served, browser: Browser) -> None:
    """Its text disappears for readers; its asker still sees what they may ask again."""
    asked = await question(served, "How many days?")
    await browser.post(f"/q/{asked}/delete")
    path = f"/c/general/t/{THREAD}"
    others = re.sub(r"<title>.*?</title>|<h1.*?</h1>", "", (await browser.get("/~reviewer" + path)).text)
    assert "How many days?" not in others
    assert f"/q/{asked}/again" in (await browser.get(path)).text


async def test_an_edit_is_a_new_question(served: Served, browser: Browser) -> None:
    """The old wording is over, the new one is asked in the same thread; twice the same edit is one."""
    asked = await question(served, "How many days?")
    for _ in range(2):
        await browser.post(f"/q/{asked}/edit", text="How many days of leave?")
    stored = await served.app.store.conversations.questions(f"web:general:{THREAD}")
    assert [(row.text, row.state) for row in stored] == [
        ("How many days?", "superseded"),
        ("How many days of leave?", "received"),
    ]


async def test_feedback_is_kept_with_its_reason(served: Served, browser: Browser) -> None:
    """A thumb and the words that follow it are stored, and shown as pressed."""
    asked = await question(served, "How many days?")
    await answered(served, asked, await document(served, "Ten days."))
    await browser.post(f"/q/{asked}/feedback", helpful="no")
    await browser.post(f"/q/{asked}/feedback", helpful="no", reason="out of date")
    kept = await served.app.store.conversations.feedback_by(f"web:general:{THREAD}", "web:lin")
    assert [(row.helpful, row.reason) for row in kept] == [(False, "out of date")]
    page = (await browser.get(f"/c/general/t/{THREAD}")).text
    assert 'value="no" class="thumb" aria-pressed="true"' in page
    assert "out of date" in page


async def test_asking_a_person_leaves_one_notice_in_the_thread(served: Served, browser: Browser) -> None:
    """The notice names whom the settings name, and repeating the click adds none."""
    asked = await question(served, "How many days?")
    await answered(served, asked, await document(served, "Ten days."))
    for _ in range(2):
        await browser.post(f"/q/{asked}/person")
    page = (await browser.get(f"/c/general/t/{THREAD}")).text
    assert page.count("people@henglu.example") == 1


async def test_after_a_time_out_the_asker_alone_may_choose(served: Served, browser: Browser) -> None:
    """The page offers it to the asker, not to a colleague; a choice is recorded once and takes the buttons away."""
    asked = await question(served, "How many days?")
    review = await held(served, asked, await document(served, "Ten days."))
    meta = {"question_id": asked, "review_id": review.id, "actions": ["wait", "person"]}
    deliveries = served.app.store.deliveries
    row = await deliveries.put(
        NewDelivery(
            f"timed_out:{review.id}",
            "web",
            "notice",
            Reply("notice", "Nobody has checked it.", "en", meta=meta).to_json(),
            conversation_id=f"web:general:{THREAD}",
            question_id=asked,
            review_id=review.id,
        )
    )
    await deliveries.sent(row.id, row.purpose)
    page = f"/c/general/t/{THREAD}"
    assert 'name="choice" value="wait"' in (await browser.get(page)).text
    assert 'name="choice"' not in (await browser.get(f"/~reviewer{page}")).text
    assert (await browser.post(f"/q/{asked}/choose", choice="everything")).status_code == 400
    assert (await browser.post(f"/~reviewer/q/{asked}/choose", choice="wait")).status_code == 403
    said = await browser.post(f"/q/{asked}/choose", choice="wait")
    assert "You will be told as soon as somebody has decided." in said.text
    assert 'name="choice"' not in (await browser.get(page)).text
    events = [event.action for event in await served.app.store.reviews.events(review.id)]
    assert events.count("chose_wait") == 1


async def test_a_draft_that_is_shown_early_is_for_the_asker(served: Served, browser: Browser) -> None:
    """Marked unverified on the asker's page, and on nobody else's (invariant 3)."""
    asked = await question(served, "How many days?")
    review = await held(served, asked, await document(served, "Ten days."))
    row = await served.app.store.conversations.question(asked)
    assert await served.app.patience.peek(row, review)
    page = f"/c/general/t/{THREAD}"
    mine = (await browser.get(page)).text
    assert "nobody has signed it off" in mine
    assert "seventy-seven per cent" in mine
    assert "seventy-seven per cent" not in (await browser.get(f"/~admin{page}")).text


async def test_a_reviewer_who_opens_a_card_is_noted(served: Served, browser: Browser) -> None:
    """Who saw the draft, once; and the queue says what the median is once something was decided."""
    asked = await question(served, "How many days?")
    review = await held(served, asked, await document(served, "Ten days."))
    for _ in range(2):
        page = (await browser.get(f"/~reviewer/review/{review.id}")).text
    assert "median" not in page
    events = await served.app.store.reviews.events(review.id)
    assert [(event.actor, event.action) for event in events[1:]] == [("web:reviewer", "saw")]
    await served.app.store.reviews.decide(
        review.id, review.version_hash, "approved", "web:reviewer", {"action": "approve"}
    )
    assert "median of the last 7 days" in (await browser.get("/~reviewer/review")).text


async def test_gaps_have_a_page_and_an_owner(served: Served, browser: Browser) -> None:
    """For administrators: by week, with a form that names who sees to it; private questions are not on it."""
    for text, channel in (("Where do penguins sleep?", "general"), ("What does Bob earn?", "@lin")):
        asked = await question(served, text, channel=channel)
        await served.app.store.conversations.set_state(asked, "declined", answer={"meta": {}})
    assert (await browser.get("/console/quality")).status_code == 403
    page = (await browser.get("/~admin/console/quality")).text
    assert "Where do penguins sleep?" in page
    assert "Bob" not in page
    (cluster,) = await served.app.gaps.clusters()
    address = f"/~admin/console/quality/gaps/{cluster.key}"
    assert (await browser.post(address, htmx=False, owner="somebody")).status_code == 400
    assert (await browser.post(address, htmx=False, owner="web:lin")).status_code == 303
    assert 'value="web:lin"' in (await browser.get("/~admin/console/quality")).text
    assert (await browser.post("/~admin/console/quality/ramp", htmx=False, topic="hr/hr")).status_code == 404


async def test_a_variant_is_tried_from_the_console(database_url: str, home: Path) -> None:
    """For administrators: started, moved on before its time, rolled back; what is refused says why."""
    settings = settings_for(home).model_copy(update={"variants": {"wide": Variant(search={"kept": 5})}})
    async with (
        workspace(database_url, settings, working=False) as site,
        httpx.AsyncClient(base_url=site.address, timeout=20) as client,
    ):
        browser, address = Browser(client), "/~admin/console/canary"
        assert (await browser.get("/console/canary")).status_code == 403
        assert "No variant is being tried." in (await browser.get(address)).text
        started = await browser.post(address, htmx=False, verb="start", variant="wide", percent="20")
        assert started.status_code == 303
        page = (await browser.get(address)).text
        assert "Variant wide answers 20 % of all conversations" in page
        assert "rejected by reviewers" in page
        early = await browser.post(address, htmx=False, verb="promote")
        assert (early.status_code, "Too early" in early.text) == (409, True)
        assert (await browser.post(address, htmx=False, verb="promote", force="on")).status_code == 303
        assert "[search]" in (await browser.get(address)).text
        assert (await browser.post(address, htmx=False, verb="rollback", reason="enough")).status_code == 303
        assert "rolled back by web:admin (enough)" in (await browser.get(address)).text


async def test_an_admin_comes_from_an_answer_to_its_run(served: Served, browser: Browser) -> None:
    """The link stands below the answer, for admins alone and without any setting; one that was never run has a page."""
    passage = await document(served, SECRET)
    asked = await question(served, "How much is due on signature?")
    await answered(served, asked, passage)
    link = f'href="/~admin/console/runs/{asked}"'
    assert link in (await browser.get(f"/~admin/c/general/t/{THREAD}")).text
    assert "console/runs" not in (await browser.get(f"/c/general/t/{THREAD}")).text
    assert (await browser.get(f"/~admin/console/runs/{asked}")).status_code == 200


async def test_verified_answers_have_pages(served: Served, browser: Browser) -> None:
    """For administrators: the list, one with its sources, and a button that takes it out of service and back what was
    sent from it."""
    passage = await document(served, SECRET)
    asked = await question(served, "How much is due on signature?")
    await answered(served, asked, passage)
    kept = await served.app.store.verified.keep(
        NewVerified(
            asked,
            "How much is due on signature?",
            "en",
            "w",
            Draft(f"{SECRET} [1].", "model", (cited(passage),)).to_json(),
            {(passage.document_id, passage.content_hash)},
            ("everyone",),
            "web:reviewer",
            "approved",
        )
    )
    assert (await browser.get("/console/verified")).status_code == 403
    page = (await browser.get("/~admin/console/verified")).text
    assert "How much is due on signature?" in page
    assert SECRET in (await browser.get(f"/~admin/console/verified/{kept}")).text
    done = await browser.post(f"/~admin/console/verified/{kept}/retire", htmx=False, wrong="yes")
    assert done.status_code == 303
    assert "How much" not in (await browser.get("/~admin/console/verified")).text
    assert "How much" in (await browser.get("/~admin/console/verified?state=retired")).text
    row = await served.app.store.conversations.question(asked)
    assert row.answer is not None
    assert row.answer["meta"]["correction"]["kind"] == "withdrawn"
    assert (await browser.get("/~admin/console/verified/999")).status_code == 404


# --- what is shown to whom --------------------------------------------------------------------------------------


async def test_a_held_draft_reaches_no_employee_page(served: Served, browser: Browser) -> None:
    """Neither pages, fragments nor the stream show a word of it; who has it, and since when, they do."""
    passage = await document(served, f"{SECRET}, says clause 3.2.")
    asked = await question(served, "What does clause 3.2 say?")
    review = await held(served, asked, passage)
    await served.app.store.reviews.claim(review.id, "web:reviewer")
    for path in (*EMPLOYEE, f"/q/{asked}/source/1"):
        assert "seventy-seven" not in (await browser.get(path)).text
    page = (await browser.get(f"/c/general/t/{THREAD}")).text
    assert f"review {review.id}" in page
    assert "Reviewer took it" in page
    events = await listened(browser, f"/c/general/t/{THREAD}/events", served, review.id)
    assert events.count("event: changed") >= 2
    assert "seventy-seven" not in events


async def listened(browser: Browser, path: str, served: Served, review_id: int) -> str:
    """What a stream says until it was told of a change."""
    heard = ""
    async with asyncio.timeout(15), browser.client.stream("GET", path) as stream:
        async for text in stream.aiter_text():
            heard += text
            if heard.count("event: changed") == 1:
                await served.app.store.changes.notify("reviews", {"review": review_id, "state": "claimed"})
            if heard.count("event: changed") > 1:
                return heard
    return heard


async def test_a_passage_opens_for_whoever_may_read_it(served: Served, browser: Browser) -> None:
    """The exact text, with its document, version, heading and page."""
    passage = await document(served, "Ten days of leave.")
    asked = await question(served, "How many days?")
    await answered(served, asked, passage)
    page = (await browser.get(f"/q/{asked}/source/1", headers={"HX-Request": "true"})).text
    assert '<div class="focus"' in page
    for shown in ("Ten days of leave.", "Terms", "Article 3", "version 1", "page 2"):
        assert shown in page


async def test_a_passage_is_refused_where_the_right_was_taken_away(served: Served, browser: Browser) -> None:
    """The right is looked up when it is opened, not when it was cited."""
    passage = await document(served, "Ten days of leave.")
    asked = await question(served, "How many days?")
    await answered(served, asked, passage)
    await served.app.store.documents.set_audience(passage.document_id, ["web:#hr"])
    page = (await browser.get(f"/q/{asked}/source/1")).text
    assert "Ten days of leave." not in page
    assert "cannot be shown" in page


async def test_a_reviewer_reads_what_the_questions_channel_reads(served: Served, browser: Browser) -> None:
    """A source of the channel where it was asked is on the card, with its passage."""
    passage = await document(served, "Only for HR: ten days.", audience=("web:#hr",))
    review = await held(served, await question(served, "How many?", channel="hr"), passage)
    card = (await browser.get(f"/~reviewer/review/{review.id}")).text
    assert "Only for HR: ten days." in card
    assert "no support" in card
    assert "payment terms" in card
    assert "contracts" in card


async def test_a_reviewer_outside_the_audience_sees_metadata_only(served: Served, browser: Browser) -> None:
    """Neither draft nor passage, and no decision on what one may not read."""
    passage = await document(served, f"{SECRET}.", audience=("web:lin",))
    review = await held(served, await question(served, "My contract?", channel="@lin"), passage)
    path = f"/~reviewer/review/{review.id}"
    card = (await browser.get(path)).text
    assert "seventy-seven" not in card
    assert "web:lin only" in card
    answer = await browser.post(path, verb="approve", version_hash=review.version_hash)
    assert "cannot decide" in answer.text
    assert (await served.app.store.reviews.get(review.id)).state == "pending"


# --- deciding ---------------------------------------------------------------------------------------------------


async def test_a_late_click_reads_who_decided(served: Served, browser: Browser) -> None:
    """The second decision changes nothing and is told about the first."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?"), passage)
    path, draft = f"/~reviewer/review/{review.id}", review.version_hash
    assert "approved" in (await browser.post(path, verb="approve", version_hash=draft)).text
    late = await browser.post(path, verb="reject", reason="other", version_hash=draft)
    assert "Reviewer was faster: approved" in late.text
    assert (await served.app.store.reviews.get(review.id)).state == "approved"


async def test_a_click_on_an_older_draft_changes_nothing(served: Served, browser: Browser) -> None:
    """A decision is bound to the draft that was shown."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?"), passage)
    stale = await browser.post(f"/~reviewer/review/{review.id}", verb="approve", version_hash="0" * 64)
    assert "draft has changed" in stale.text
    assert (await served.app.store.reviews.get(review.id)).state == "pending"


async def test_nobody_decides_on_their_own_question(served: Served, browser: Browser) -> None:
    """The reviewer who asked is told that somebody else has to."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?", asker="web:reviewer"), passage)
    path = f"/~reviewer/review/{review.id}"
    answer = await browser.post(path, verb="approve", version_hash=review.version_hash)
    assert "somebody else has to decide" in answer.text


async def test_an_edit_keeps_its_difference(served: Served, browser: Browser) -> None:
    """After an edit the card shows what was taken out and what was put in."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?"), passage, "Thirty days")
    path = f"/~reviewer/review/{review.id}"
    await browser.post(path, verb="edit", text="Sixty days [1].", version_hash=review.version_hash)
    card = (await browser.get(path)).text
    assert "<del>Thirty</del>" in card
    assert "<ins>Sixty</ins>" in card


async def test_a_rejection_carries_reason_hint_and_question(served: Served, browser: Browser) -> None:
    """What the reviewer wrote reaches the decision, an unknown reason does not."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?"), passage)
    await browser.post(
        f"/~reviewer/review/{review.id}",
        verb="reject",
        version_hash=review.version_hash,
        reason="out_of_date",
        hint="see 2026",
        question="What does clause 3.2 say in 2026?",
    )
    decision = (await served.app.store.reviews.get(review.id)).decision
    assert decision is not None
    assert (decision["reason"], decision["hint"]) == ("out_of_date", "see 2026")
    assert decision["question"] == "What does clause 3.2 say in 2026?"


async def test_the_desk_lists_what_was_decided_last(served: Served, browser: Browser) -> None:
    """Waiting ones first, oldest on top; below them the decided ones, the last decision on top."""
    passage = await document(served, "Clause 3.2")
    reviews = [
        await held(served, await question(served, text), passage) for text in ("One?", "Two?", "Three?")
    ]
    for review in (reviews[1], reviews[0]):
        path = f"/~reviewer/review/{review.id}"
        await browser.post(path, verb="approve", version_hash=review.version_hash)
    listed = re.findall(r'id="queue-(\d+)"', (await browser.get("/~reviewer/review")).text)
    assert listed == [str(reviews[number].id) for number in (2, 0, 1)]


async def test_a_decision_without_scripts_works_too(served: Served, browser: Browser) -> None:
    """A plain form post answers with the whole page and the sentence."""
    passage = await document(served, "Clause 3.2")
    review = await held(served, await question(served, "What?"), passage)
    answer = await browser.post(
        f"/~reviewer/review/{review.id}", htmx=False, verb="claim", version_hash=review.version_hash
    )
    assert "The review is yours." in answer.text
    assert "<html" in answer.text


# --- the console ------------------------------------------------------------------------------------------------


async def test_files_are_taken_one_by_one(served: Served, browser: Browser) -> None:
    """Many at once; each becomes a version that waits for the worker, under its own name."""
    await browser.get("/~admin/console/documents")
    answer = await browser.client.post(
        "/~admin/console/documents",
        data={"collection": "hr", "audience": "web:#hr, web:lin"},
        files=[("files", (name, b"# Leave\n\nTen days.")) for name in ("a.md", "../b.md", "c<d>.md")],
        headers={"X-Form-Token": browser.token, "HX-Request": "true"},
    )
    assert "3 files are being read" in answer.text
    rows = await served.app.admin.list()
    assert [(row.source, row.state, row.audience) for row in rows] == [
        (name, "pending", ("web:#hr", "web:lin")) for name in ("a.md", "b.md", "c<d>.md")
    ]


async def test_a_file_that_failed_says_why_and_what_to_do(served: Served, browser: Browser) -> None:
    """Reason and remedy, in the reader's language."""
    version = await served.app.store.documents.add(NewDocument("hr", "scan.pdf", b"x", "web:admin"))
    await served.app.store.documents.fail(version.id, "scanned")
    english = (await browser.get("/~admin/console/documents")).text
    assert "scanned pictures" in english
    assert "OCR" in english
    chinese = (await browser.get("/~admin/console/documents", headers={"Accept-Language": "zh-CN"})).text
    assert "文字识别" in chinese


async def test_a_document_shows_its_chunks_and_lets_itself_be_changed(
    served: Served, browser: Browser
) -> None:
    """Preview, audience and removal."""
    passage = await document(served, "Ten days of leave.")
    path = f"/~admin/console/documents/{passage.document_id}"
    assert "Ten days of leave." in (await browser.get(path)).text
    await browser.post(path + "/audience", audience="web:#hr，web:lin")
    assert (await served.app.store.documents.show(passage.document_id)).audience == ("web:#hr", "web:lin")
    removed = await browser.post(path + "/remove")
    assert removed.headers["hx-redirect"] == "/~admin/console/documents"
    assert await served.app.admin.list() == []


async def test_answering_is_paused_and_goes_on_in_the_console(served: Served, browser: Browser) -> None:
    """Everywhere or in one channel, with who did it and since when, as /kb pause does; what is no channel is not."""
    await browser.get("/~admin/console/documents")
    said = await browser.post("/~admin/console/pause", place="")
    assert "Answering is paused: everywhere." in said.text
    await browser.post("/~admin/console/pause", place="slack:C0123")
    shown = (await browser.get("/~admin/console/documents")).text
    assert shown.count('name="off" value="on"') == 2
    assert "slack:C0123" in shown
    refused = await browser.post("/~admin/console/pause", place="general")
    assert refused.status_code == 400
    for place in ("", "slack:C0123"):
        said = await browser.post("/~admin/console/pause", place=place, off="on")
        assert "Answering goes on" in said.text
    assert await served.app.store.switches.list("paused") == []


async def test_search_alone_shows_each_legs_rank_and_respects_the_reader(
    served: Served, browser: Browser
) -> None:
    """Retrieval is looked at as somebody: other people's documents stay out."""
    await document(served, "Ten days of annual leave.")
    await document(served, "Annual leave for the board.", audience=("web:#board",), name="board.md")
    page = (await browser.get("/~admin/console/search?q=annual+leave")).text
    assert "Ten days of annual leave." in page
    assert "board" not in page
    assert "Vector rank" in page
    both = (await browser.get("/~admin/console/search?q=annual+leave&as=everyone,web:%23board")).text
    assert "for the board" in both


# --- keeping up -------------------------------------------------------------------------------------------------


async def test_only_what_changed_is_sent_again(served: Served, browser: Browser) -> None:
    """Nothing where nothing changed; the one block where one did; a new block as such."""
    first = await question(served, "First?")
    path = f"/c/general/t/{THREAD}"
    have = BLOCK.findall((await browser.get(path)).text)
    assert (await browser.get(path + "/changes", params={"seen": have})).status_code == 204
    second = await question(served, "Second?")
    await served.app.store.conversations.set_state(first, "held")
    sent = (await browser.get(path + "/changes", params={"seen": have})).text
    assert f'id="q-{first}" hx-swap-oob="outerHTML"' in sent
    assert f'hx-swap-oob="beforeend:#blocks"><div class="block" id="q-{second}"' in sent


async def test_a_page_of_many_threads_hears_nothing_of_their_answers(
    served: Served, browser: Browser
) -> None:
    """The list is told that something changed; sentences are for the thread itself."""
    asked = await question(served, "Am I on probation?", channel="@lin")
    progress = {"question": asked, "step": "sentence", "text": "You are on probation."}
    heard = ""
    async with asyncio.timeout(15), browser.client.stream("GET", "/~reviewer/home/events") as stream:
        async for text in stream.aiter_text():
            heard += text
            if heard.count("event: changed") == 1:
                await served.app.store.changes.notify(f"conversation:web:@lin:{THREAD}", progress)
                await served.app.store.changes.notify(f"conversation:web:@lin:{THREAD}", {"delivery": 1})
            if heard.count("event: changed") > 1:
                break
    assert "probation" not in heard


async def test_steps_and_sentences_arrive_as_they_happen(served: Served, browser: Browser) -> None:
    """The thread's stream draws where the answer is, and what of it is there, safely."""
    asked = await question(served, "How many days?")
    topic = f"conversation:web:general:{THREAD}"
    heard = ""
    async with asyncio.timeout(15), browser.client.stream("GET", f"/c/general/t/{THREAD}/events") as stream:
        async for text in stream.aiter_text():
            heard += text
            if "event: step" not in heard:
                notify = served.app.store.changes.notify
                await notify(topic, {"question": asked, "step": "draft", "text": ""})
                await notify(topic, {"question": asked, "step": "sentence", "text": "Ten <b>days</b> [1]."})
            if "Ten" in heard:
                break
    assert f'id="live-{asked}" hx-swap-oob="innerHTML"' in heard
    assert "Ten &lt;b&gt;days&lt;/b&gt;" in heard
    assert "Ten &lt;b&gt;days" in (await browser.get(f"/c/general/t/{THREAD}")).text


# --- sentences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nothing", "/c/unknown", "/c/general/t/unknown", "/c/general/t/%00", "/q/none/source/1"]
)
async def test_what_is_not_there_is_said_in_both_languages(browser: Browser, path: str) -> None:
    """No traceback and no code: a sentence, and a way back."""
    english = await browser.get(path)
    assert english.status_code == 404
    assert "never existed" in english.text
    chinese = await browser.get(path, headers={"Accept-Language": "zh"})
    assert "从未存在" in chinese.text


async def test_the_language_is_the_browsers_until_one_is_chosen(browser: Browser) -> None:
    """Accept-Language first; the switch wins from then on, and leads nowhere else."""
    chinese = await browser.get("/", headers={"Accept-Language": "zh-CN"})
    assert 'lang="zh-Hans"' in chinese.text
    switched = await browser.post("/language", htmx=False, language="en", back="/c/general")
    assert switched.headers["location"] == "/c/general"
    assert '<html lang="en">' in (await browser.get("/", headers={"Accept-Language": "zh-CN"})).text
    for away in ("//evil.example", "/\\evil.example", "https://evil.example"):
        led = await browser.post("/language", htmx=False, language="en", back=away)
        assert led.headers["location"] == "/"


async def test_our_own_fault_shows_a_reference_and_no_traceback(
    served: Served, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that breaks tells the person what to pass on, and nothing of how it is built."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(type(served.app.store.conversations), "list", broken)
    answer = await browser.get("/")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    assert re.search(r"Reference [0-9a-f]{8}", answer.text)
    assert answer.headers["content-security-policy"] == POLICY
