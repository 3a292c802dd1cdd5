"""What nobody could answer is asked again when a document comes, and its asker is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from bot.commands import Table
from tests.knowledge import publish
from tests.scenario.desk import Desk, desk

PENGUINS = "Where do the penguins sleep in winter?"


@pytest.fixture
async def team(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(database_url, tmp_path) as opened:
        yield opened


async def arrives(
    team: Desk, *texts: str, name: str = "penguins.md", audience: tuple[str, ...] = ("everyone",)
) -> int:
    """A document becomes visible; its version's id."""
    embedder = team.app.admin.embedder
    return (await publish(team.app.store, embedder, "zoo", name, texts, audience=audience)).id


async def test_a_document_has_its_questions_asked_again(team: Desk) -> None:
    """The asker reads why, and the answer; asked twice, it is asked again once; the gap is closed."""
    first = await team.answered(PENGUINS)
    assert first.state == "declined"
    assert [cluster.gaps[0].text for cluster in await team.app.gaps.clusters(private=True)] == [PENGUINS]
    version = await arrives(team, "The penguins sleep in the boiler room in winter.")
    assert await team.app.gaps.replay(version) == 1
    assert await team.app.gaps.replay(version) == 0
    again = (await team.app.store.conversations.questions(first.conversation_id))[-1]
    row = await team.ended(again.id)
    assert row.state == "answered"
    said = await team.messages(again.id)
    assert any(kind == "notice" and "penguins" in text for kind, text in said)
    assert any(kind == "answer" and "boiler room" in text for kind, text in said)
    assert (await team.app.store.conversations.question(first.id)).state == "superseded"
    assert await team.app.gaps.clusters(private=True) == []


async def test_a_document_that_says_nothing_of_it_asks_nothing(team: Desk) -> None:
    """What it does not answer stays open."""
    await team.answered(PENGUINS)
    version = await arrives(team, "Parking permits are issued at the gate.", name="parking.md")
    assert await team.app.gaps.replay(version) == 0


async def test_who_may_not_read_it_is_not_told(team: Desk) -> None:
    """Searched as the asker, not as the one who uploaded it."""
    await team.answered(PENGUINS)
    version = await arrives(team, "The penguins sleep in the boiler room in winter.", audience=("web:boss",))
    assert await team.app.gaps.replay(version) == 0


async def test_a_gap_has_an_owner(team: Desk) -> None:
    """By command, in the list, and taken away again; private questions are counted and have no key."""
    await team.answered(PENGUINS)
    table = Table(team.app, "slack").commands["gaps"].run
    assert "1 asked in private" in (await table("cli:admin", []))
    assert "There is no gap" in await table("cli:admin", ["own", "nothing", "web:lin"])
    async with team.app.store.database.engine.begin() as connection:
        await connection.execute(text("UPDATE conversations SET private = false"))
    (cluster,) = await team.app.gaps.clusters()
    assert "web:lin sees to it" in await table("cli:admin", ["own", cluster.key, "web:lin"])
    assert f"web:lin sees to it · {cluster.key}" in await table("cli:admin", [])
    assert "sees to it" not in await table("cli:admin", ["own", cluster.key])
    assert "gaps own KEY" in await table("cli:admin", ["own", cluster.key, "nobody in particular"])
