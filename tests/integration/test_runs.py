"""Runs as those who operate Signoff see them: listed, judged, and with nobody's private words."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from bot.app import App
from bot.cli import runs as commands
from bot.cli import session
from bot.verdict import Case, Hint, find
from store import Store, open_store
from store.database import transaction
from store.inbox import NewQuestion
from store.runs import NewRun, Wanted
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.workspace import Served, settings_for, workspace

LEAVE = "How many days of annual leave do employees have?"
SECRET = "am I about to be let go"
FAULT = re.compile(r'class="fault">([^<]+)<')


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    """A workspace with three documents, of which one is for few, and nobody working."""
    async with workspace(database_url, settings_for(tmp_path), working=False) as site:
        store, embedder = site.app.store, HashEmbedder()
        await publish(
            store, embedder, "hr", "leave.md", ["Employees have 15 days of annual leave.", "Sick notes."]
        )
        await publish(store, embedder, "it", "vpn.md", ["Renew the VPN certificate in the portal."])
        await publish(
            store, embedder, "board", "pay.md", ["The board is paid in shares."], audience=("web:board",)
        )
        yield site


async def asked(
    store: Store, question_id: str, words: str = LEAVE, *, private: bool = False, **run: Any
) -> None:
    """A question of Lin's, with a run."""
    channel = "@lin" if private else "general"
    await store.inbox.accept(
        NewQuestion(
            platform="web", dedupe_key=question_id, conversation_id=f"web:{channel}:t-{question_id}", channel=channel,
            thread=f"t-{question_id}", private=private, asker="web:lin", text=words, sent_at=datetime.now(UTC),
            question_id=question_id, language="en",
        )
    )  # fmt: skip
    await store.runs.record(NewRun(question_id, **{"outcome": "answered", **run}))


async def passages(app: App, source: str) -> list[int]:
    """The ids of a document's passages, in order."""
    (row,) = [row for row in await app.admin.list() if row.source == source]
    assert row.version_id is not None
    return [chunk.id for chunk in await app.store.documents.chunks(row.version_id)]


async def judged(app: App, question_id: str, name: str = "", words: str = "") -> str:
    """The kind of the verdict, with the title that it is about."""
    question = await app.store.conversations.question(question_id)
    run = await app.store.runs.latest(question_id)
    assert run is not None
    case = Case(question, await app.store.conversations.get(question.conversation_id), run)
    ruling = await find(app, case, Hint(name, words), "en")
    assert ruling is not None
    return f"{ruling.first.kind} {ruling.first.match.title if ruling.first.match else ''}".strip()


# --- verdicts


async def test_the_verdict_is_right_for_each_fault(served: Served) -> None:
    """Planted one by one; what should have answered is named by its title, its file, or words of its passage."""
    app = served.app
    leave, (vpn,) = await passages(app, "leave.md"), await passages(app, "vpn.md")
    read: dict[str, Any] = {"retrieved": (vpn, leave[0]), "cited": (vpn,), "timings": {"retrieve": 9.0}}
    scores = [
        {"id": vpn, "document": 2, "score": 0.2, "read": True},
        {"id": leave[0], "document": 1, "score": 0.1},
    ]
    await asked(app.store, "a", scores=scores, **read)
    await asked(app.store, "b", scores=[{**score, "read": True} for score in scores], **read)
    await asked(app.store, "c", outcome="declined", confidence=-0.1, **{**read, "cited": ()})
    await asked(app.store, "d", outcome="clarified")
    await asked(app.store, "e", retrieved=(vpn,), cited=(vpn,))
    for name, state in (("scan.pdf", "failed"), ("new.md", "pending")):
        version = await app.admin.upload(name, b"x", collection="hr", by="web:admin")
        if state == "failed":
            await app.store.documents.fail(version.id, "scanned")
    found = {
        "cited": await judged(app, "a", "vpn"),
        "unread": await judged(app, "a", words="15 days  of *annual* LEAVE"),
        "unused": await judged(app, "b", "leave.md", "annual leave"),
        "doubted": await judged(app, "c", "leave"),
        "not_searched": await judged(app, "d", "leave"),
        "not_retrieved": await judged(app, "e", "leave"),
        "not_in_it": await judged(app, "a", "leave", "paternity"),
        "not_readable": await judged(app, "a", "pay"),
        "failed": await judged(app, "a", "scan"),
        "unfinished": await judged(app, "a", "new.md"),
        "not_indexed": await judged(app, "a", "gym.pdf"),
    }
    await publish(app.store, HashEmbedder(), "hr", "gym.md", ["The gym is paid for."])
    found["later"] = await judged(app, "a", "gym")
    assert {kind: told.split()[0] for kind, told in found.items()} == {kind: kind for kind in found}
    assert found["unread"] == "unread leave"
    assert await judged(app, "a", words="paid in shares") == "not_readable pay"
    assert await judged(app, "a", words="words that stand nowhere") == "not_indexed"


async def test_a_new_version_changes_no_old_verdict(served: Served) -> None:
    """The passage that a run found has another id since the document was uploaded again, twice; it was there and found
    all the same, and one that only the new version has came later."""
    app, embedder = served.app, HashEmbedder()
    first, second = await passages(app, "leave.md")
    scores = [{"id": first, "document": 1, "score": 0.2, "read": True}]
    await asked(app.store, "a", retrieved=(first,), scores=scores, timings={"retrieve": 1.0})
    for more in ("Part-timers have half.", "Interns have none."):
        await publish(
            app.store, embedder, "hr", "leave.md", ["Employees have 15 days of annual leave.", more]
        )
        assert await judged(app, "a", words="15 days of annual leave") == "unused leave"
    assert await passages(app, "leave.md") != [first, second]
    assert await judged(app, "a", words="Interns have none") == "later leave"
    assert await judged(app, "a", words="Sick notes") == "not_indexed"


async def test_without_a_hint_what_comes_nearest_is_looked_at(served: Served) -> None:
    """The nearest passage, whoever may read it; nothing near enough is not indexed; what was cited counts as right."""
    app = served.app
    leave, _ = await passages(app, "leave.md")
    await asked(app.store, "a", outcome="declined", timings={"retrieve": 1.0})
    await asked(app.store, "b", "The board is paid in shares?", outcome="declined", timings={"retrieve": 1.0})
    await asked(
        app.store,
        "c",
        retrieved=(leave,),
        cited=(leave,),
        scores=[{"id": leave, "document": 1, "score": 0.1}],
    )
    assert await judged(app, "a") == "not_retrieved leave"
    assert await judged(app, "b") == "not_readable pay"
    assert await judged(app, "c") == "cited leave"
    async with transaction(app.store.database.engine) as connection:
        await connection.execute(text("DELETE FROM documents"))
    assert await judged(app, "a") == "not_indexed"
    assert await judged(app, "c") == "cited –"


# --- lists


async def test_runs_are_filtered_and_paged_by_key(served: Served) -> None:
    """Each filter by itself; the next page begins below the last id, whatever came in meanwhile."""
    app, runs = served.app, served.app.store.runs
    leave, _ = await passages(app, "leave.md")
    (vpn,) = await passages(app, "vpn.md")
    await asked(app.store, "a1", retrieved=(vpn, leave), cited=(leave,), rule="contracts", variant="small")
    await asked(app.store, "b2", outcome="declined", retrieved=(vpn, leave), degraded=("embedding",))
    await asked(app.store, "c3", outcome="failed", error="TypeError", private=True)
    await app.store.conversations.feedback("a1", "web:ada", False, "wrong")

    async def found(**wanted: Any) -> list[str]:
        return [row.question_id for row in await runs.page(Wanted(**wanted), 50)]

    now = datetime.now(UTC)
    assert await found() == ["c3", "b2", "a1"]
    assert await found(outcome="failed") == ["c3"]
    assert await found(platform="web", channel="general") == ["b2", "a1"]
    assert await found(platform="slack") == []
    assert await found(collection="hr") == [
        "a1"
    ]  # what it cites; the next one cites nothing and found the other first
    assert await found(collection="it") == ["b2"]
    assert (
        await found(variant="small") == await found(rule="contracts") == await found(disliked=True) == ["a1"]
    )
    assert await found(variant=".") == ["c3", "b2"]
    assert await found(degraded=True) == ["b2"]
    assert await found(text="b") == ["b2"]
    assert await found(text="%") == []
    assert await found(
        since=now - timedelta(hours=1), until=now + timedelta(hours=1), outcome="answered"
    ) == ["a1"]
    assert await found(until=now - timedelta(hours=1)) == []
    (newest,) = await runs.page(Wanted(), 1)
    assert await found(text=f"#{newest.id}") == ["c3"]
    await asked(app.store, "d4")
    assert await found(before=newest.id) == ["b2", "a1"]
    assert await runs.names() == (["small"], ["contracts"])
    # What an estimate is corrected by: not the calls whose count holds the tools as well.
    calls = [("draft", 120), ("assess", 900)]
    told = [{"role": role, "model": "m", "estimated": 100, "counted": counted} for role, counted in calls]
    await runs.record(NewRun("d4", "answered", prompts=[*told, {"role": "search", "messages": []}]))
    assert await runs.counted() == {"m": 1.2}


async def test_a_document_that_no_answer_cites_is_listed(served: Served) -> None:
    """Found often first; one cited in a draft that nobody was sent counts as not cited, one cited once is never listed
    again, whatever becomes of its passages."""
    app = served.app
    leave, sick = await passages(app, "leave.md")
    (vpn,) = await passages(app, "vpn.md")
    found = [{"id": leave, "document": 1}, {"id": sick, "document": 1}, {"id": vpn, "document": 2}]
    held: dict[str, Any] = {"retrieved": (vpn,), "scores": found[2:]}
    await asked(app.store, "a", outcome="held", cited=(vpn,), timings={"answer": 1.0}, **held)
    await app.store.runs.record(NewRun("a", "declined", timings={"resume": 1.0}, **held))
    await asked(app.store, "b", retrieved=(leave, sick, vpn), cited=(leave,), scores=found)
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert [(row.title, row.retrieved) for row in await app.store.tracing.uncited(later)] == [
        ("vpn", 2),
        ("pay", 0),
    ]
    assert await app.store.tracing.uncited(datetime.now(UTC) - timedelta(days=1)) == []
    for more in ("One.", "Two."):
        await publish(app.store, HashEmbedder(), "hr", "leave.md", [more])
    assert leave not in await app.store.tracing.passages([leave, sick])
    assert "leave" not in [row.title for row in await app.store.tracing.uncited(later)]


def test_a_terminal_tells_the_same(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list with its filters, one run with its places and its verdict by the beginning of its id, and what is
    wrong said in a sentence."""

    async def fill() -> None:
        async with open_store(database_url, HashEmbedder()) as store:
            await publish(
                store, HashEmbedder(), "hr", "leave.md", ["Employees have 15 days of annual leave."]
            )
            score = {"id": 1, "document": 1, "score": 0.5, "vector": 4, "keyword": 2, "read": True}
            await asked(store, "abcdef01", retrieved=(1,), scores=[score], timings={"retrieve": 20.0})
            await asked(store, "99", SECRET, private=True, outcome="failed", error="TypeError")

    asyncio.run(fill())
    (tmp_path / "signoff.toml").write_text("local_embedding = false\n", encoding="utf-8")
    monkeypatch.setenv("SIGNOFF_DATABASE_URL", database_url)
    monkeypatch.setattr(session, "configure_logging", lambda *_, **__: None)

    def told(*arguments: str) -> str:
        done = CliRunner().invoke(commands.cli, [*arguments, "--home", str(tmp_path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    rows = json.loads(told("list", "--json"))
    assert [(row["question_id"], row["text"]) for row in rows] == [("99", ""), ("abcdef01", LEAVE)]
    assert [row["error"] for row in json.loads(told("list", "--outcome", "failed", "--json"))] == [
        "TypeError"
    ]
    shown = told("show", "abc", "--document", "leave")
    assert re.search(r"retrieved +1\. 1 leave › leave +\(meaning 4, words 2\) read\n", shown)
    assert "Retrieved but not cited: A passage of leave was found at place 1 of 1" in shown
    assert "retrieve 20 ms" in shown
    assert json.loads(told("show", "abc", "--words", "gym", "--json"))[0]["verdict"]["kind"] == "not_indexed"
    assert json.loads(told("uncited", "--days", "0", "--json"))[0]["title"] == "leave"
    for arguments in (["list", "--day", "tomorrow"], ["show", "nothing"]):
        with pytest.raises(session.CommandFailed):
            told(*arguments)


# --- pages


async def test_the_page_tells_a_run_and_keeps_private_words(served: Served) -> None:
    """An open question with all that was done for it; of one asked in private everything but what anybody said."""
    app = served.app
    leave, _ = await passages(app, "leave.md")
    told: dict[str, Any] = {
        "retrieved": (leave,),
        "cited": (leave,),
        "rewritten_question": SECRET,
        "confidence": 0.42,
        "timings": {"retrieve": 30.0, "draft": 60.0, "answer": 100.0},
        "tokens": {"prompt": 812, "completion": 40},
        "cost": 0.0123,
        "scores": [{"id": leave, "document": 1, "score": 0.1234, "vector": 3, "keyword": 1, "read": True}],
        "tools": [{"name": "calendar", "arguments": {"of": SECRET}, "text": SECRET, "trouble": "needless", "error": "",
                   "passages": [], "ms": 5}],
        "prompts": [{"role": "draft", "model": "m", "estimated": 800, "counted": 812, "completion": 40, "trimmed": [],
                     "parts": {"system": 300, "documents": 450, "total": 760},
                     "messages": [{"role": "user", "content": SECRET}]}],
    }  # fmt: skip
    await asked(app.store, "open", SECRET, **told)
    await asked(app.store, "shut", SECRET, private=True, **told)
    await app.store.conversations.feedback("shut", "web:lin", False, f"wrong: {SECRET}")
    async with httpx.AsyncClient(base_url=f"{served.address}/~admin") as client:
        page = (await client.get("/console/runs/open")).text
        shut = (await client.get("/console/runs/shut")).text
        listed = (await client.get("/console/runs")).text
        uncited = (await client.get("/console/runs/uncited?days=1")).text
        missing = [
            (await client.get(f"/console/runs/{name}")).status_code for name in ("nobody", "%00", "a" * 99)
        ]
        odd = [
            (await client.get("/console/runs", params=params)).status_code
            for params in (
                {"day": "x"},
                {"day": "0001-01-01"},
                {"day": "9999-12-31"},
                {"before": "9" * 30},
                {"text": "\0"},
                {"variant": "."},
                {"before": "-1"},
            )
        ]
    async with httpx.AsyncClient(base_url=served.address) as lin:
        assert (await lin.get("/console/runs/open")).status_code == 403
    assert page.count(SECRET) >= 4
    for shown in (page, shut):
        assert FAULT.findall(shown) == ["Cited"]
        for fact in ("0.42", "812", "0.0123", "0.1234", "Instructions", "300", "called for nothing", "60 ms"):
            assert fact in shown, fact
    assert SECRET not in shut
    assert listed.count(SECRET) == 1
    assert "asked in private" in listed
    assert "There is none" in uncited
    assert missing == [404, 404, 404]
    assert odd == [200] * 7


async def test_a_link_from_a_message_leads_through_the_sign_in(database_url: str, tmp_path: Path) -> None:
    """Whoever is not signed in comes back to the run afterwards, and nowhere else; from another site, where no strict
    cookie comes along, the page is asked for once more before anybody is sent to sign in."""
    async with (
        workspace(database_url, settings_for(tmp_path, token="t"), personas=False, working=False) as site,
        httpx.AsyncClient(base_url=site.address) as client,
    ):
        await asked(site.app.store, "q1")
        address = "/console/runs/q1?name=leave"
        crossing = {"Sec-Fetch-Site": "cross-site"}
        again = await client.get(address, headers=crossing)
        assert again.status_code == 200
        assert f'http-equiv="refresh" content="0; url={address}"' in again.text
        assert LEAVE not in again.text
        assert "set-cookie" not in again.headers  # it would sign out whoever is signed in
        sent = await client.get(address)
        assert sent.headers["location"] == "/login?next=%2Fconsole%2Fruns%2Fq1%3Fname%3Dleave"
        for back, lands in (
            (address, address),
            ("//evil.example/", "/console/documents"),
            ("", "/console/documents"),
        ):
            client.cookies.clear()
            login = await client.get("/login", params={"next": back})
            (token,) = set(re.findall(r'name="form_token" value="([0-9a-f]+)"', login.text))
            done = await client.post("/login", data={"token": "t", "form_token": token, "next": back})
            assert done.headers["location"] == lands
        assert LEAVE in (await client.get(address, headers=crossing)).text
