"""Platforms whose messages are the delivery rows themselves: the workspace (`web`) and the terminal (`cli`).

Their readers look at the database, so that sending is only telling; repeating a send changes nothing, since the
purpose is the row's unique key and the message id.
"""

from collections.abc import Mapping
from typing import Any

from bot.messages import Progress, Reply
from store.changes import Changes

# Postgres refuses a notification of 8,000 bytes or more; 2,000 characters are at most 6,000 in Chinese.
LONGEST_STEP = 2_000


class Rows:
    """`name` is the platform's, web or cli."""

    def __init__(self, name: str, changes: Changes) -> None:
        self.name = name
        self._changes = changes

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        """The row is the message, its purpose the message id."""
        return purpose

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        """The row was rewritten already."""

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        await self._changes.notify(
            f"conversation:{progress.conversation_id}",
            {"question": progress.question_id, "step": progress.step, "text": progress.text[:LONGEST_STEP]},
        )
