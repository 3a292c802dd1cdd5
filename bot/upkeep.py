"""Use case: what has outlived its retention is deleted, every hour and on `signoff prune`."""

from datetime import UTC, datetime, timedelta

from bot.cards import Cards
from bot.graphs import thread_id
from bot.review import Reviewing
from bot.settings import Settings
from store import Store


class Upkeep:
    def __init__(self, store: Store, reviewing: Reviewing, cards: Cards, settings: Settings) -> None:
        self._store = store
        self._reviewing = reviewing
        self._cards = cards
        self._settings = settings

    async def prune(self) -> int:
        """Delete what its retention has passed; returns the number of question threads cleared.
        Pending reviews survive whatever their age."""
        now = datetime.now(UTC)
        kept = self._settings.retention
        await self._reviewing.expire(self._settings.review.hard_limit_hours)
        await self._store.switches.sweep("aside:", now - timedelta(days=kept.checkpoints_days))
        await self._store.inbox.sweep(now - timedelta(hours=kept.inbox_hours))
        for review_id in await self._cards.ageing(now):
            await self._store.queue.defer("renew", {"review_id": review_id}, lock=f"card:{review_id}")
        await self._store.arrivals.sweep(now - timedelta(hours=kept.inbox_hours))
        for kind in ("file", "edit"):
            await self._store.kept.sweep(kind, now - timedelta(hours=kept.inbox_hours))
        await self._store.queue.sweep(int(kept.inbox_hours))
        await self._store.erasure.old_words(now - timedelta(days=kept.runs_days))
        finished = await self._store.conversations.finished_before(
            now - timedelta(days=kept.checkpoints_days)
        )
        threads = [thread_id(row.conversation_id, row.id) for row in finished]
        await self._store.database.delete_checkpoints(threads)
        return len(threads)
