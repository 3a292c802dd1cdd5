"""A review's card where its platform takes it and forgets to say so."""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.app import App, Parts, open_app
from bot.messages import Action, Incoming, Progress, Reply
from bot.settings import Review, Settings, Workspace
from tests.embedder import HashEmbedder
from tests.knowledge import publish


class Forgetful:
    """A platform that shows the first card, is quiet about it, and remembers what it was sent."""

    name = "chat"

    def __init__(self) -> None:
        self.app: App | None = None
        self.cards: list[str] = []  # states, in the order they were shown

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        if purpose.startswith("card:"):
            first = not self.cards
            self.cards.append(reply.meta["state"])
            if first:
                await self._somebody_approves()
                raise ConnectionError("the reply was lost")
        return purpose

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        if message_id.startswith("card:"):
            self.cards.append(reply.meta["state"])

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Steps are not what this platform is asked about."""

    async def _somebody_approves(self) -> None:
        assert self.app is not None
        review = (await self.app.store.reviews.list())[-1]
        acted = await self.app.reviewing.act(
            Action("chat", review.id, review.version_hash, "chat:rita", "approve")
        )
        assert acted.key == "done"
        await asyncio.sleep(1.0)  # in which the redrawing that this ordered finds no card that has arrived


async def test_a_card_that_is_decided_before_it_is_known_to_have_arrived_is_drawn_anew(
    database_url: str, tmp_path: Path
) -> None:
    """The first reply is lost after the card is visible, and a reviewer decides on it meanwhile: in the end it shows
    the decision and has no button left."""
    chat, embedder = Forgetful(), HashEmbedder()
    settings = Settings(
        home=tmp_path,
        config=tmp_path / "signoff.toml",
        workspace=Workspace(contact="the desk"),
        review=Review(
            reviewers=("chat:rita",),
            channels=("chat:reviews",),
            rules=({"name": "contracts", "collections": ["contracts"], "action": "hold"},),
        ),
    )
    parts = Parts(embedder=embedder, platforms=lambda _store: {"chat": chat})
    async with open_app(settings, database_url, parts) as app:
        chat.app = app
        await publish(app.store, embedder, "contracts", "terms.md", ["Invoices are paid within 45 days."])
        working = asyncio.create_task(app.store.queue.run_worker(["answers"]))
        await app.asking.accept(
            Incoming(
                platform="chat",
                dedupe_key=uuid.uuid4().hex,
                conversation_id="chat:general:t1",
                channel="general",
                thread="t1",
                private=False,
                asker="chat:ada",
                text="Within how many days are invoices paid?",
                sent_at=datetime.now(UTC),
            )
        )
        try:
            async with asyncio.timeout(30):
                while chat.cards[-1:] != ["approved"]:
                    await asyncio.sleep(0.05)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    assert chat.cards[0] == "pending"
