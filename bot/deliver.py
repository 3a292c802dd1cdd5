"""Sending: a row first, then the platform, then the confirmation. Repeating any of it is harmless."""

from collections.abc import Mapping

import structlog
import tenacity
from store.changes import Changes
from store.deliveries import Deliveries, DeliveryRow, NewDelivery

from bot.messages import Platform, Reply

log = structlog.get_logger(__name__)

ATTEMPTS = 4


class NotDelivered(Exception):
    """The platform did not take the message after several attempts; its row says why."""


class Deliverer:
    """Sends replies through the houses. The queue's locks make sure that one purpose has one sender at a time."""

    def __init__(self, deliveries: Deliveries, changes: Changes, platforms: Mapping[str, Platform]) -> None:
        self._deliveries = deliveries
        self._changes = changes
        self._platforms = platforms

    def platform(self, name: str) -> Platform:
        return self._platforms[name]

    async def deliver(self, new: NewDelivery) -> DeliveryRow:
        """Send `new` unless its purpose was already sent. Raises `NotDelivered` when the platform refuses."""
        row = await self._deliveries.put(new)
        if row.state == "sent":
            return row
        await self._deliveries.claim(row.id)
        platform = self._platforms[row.platform]
        try:
            async for attempt in tenacity.AsyncRetrying(
                stop=tenacity.stop_after_attempt(ATTEMPTS),
                wait=tenacity.wait_exponential_jitter(initial=0.2, max=5),
                retry=tenacity.retry_if_exception_type((OSError, TimeoutError)),
                reraise=True,
            ):
                with attempt:
                    message_id = await platform.send(row.purpose, row.address, Reply.from_json(row.content))
        except (OSError, TimeoutError) as error:
            await self._deliveries.failed(row.id, type(error).__name__)
            raise NotDelivered(f"delivery {row.id} to {row.platform}: {type(error).__name__}") from error
        sent = await self._deliveries.sent(row.id, message_id)
        if new.conversation_id is not None:
            await self._changes.notify(f"conversation:{new.conversation_id}", {"delivery": sent.id})
        return sent

    async def redraw(self, row: DeliveryRow, reply: Reply) -> None:
        """Replace a sent message; the row keeps the new content."""
        changed = await self._deliveries.rewrite(row.id, reply.to_json())
        if changed.message_id is not None:
            await self._platforms[row.platform].update(changed.message_id, row.address, reply)
