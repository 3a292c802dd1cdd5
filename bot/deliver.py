"""Sending: a row first, then the platform, then the confirmation. Repeating any of it is harmless."""

from collections.abc import Mapping

import structlog
import tenacity

from bot.messages import NotTaken, Platform, Reply, ResultUnknown
from store.changes import Changes
from store.deliveries import Deliveries, DeliveryRow, NewDelivery

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
        again = not await self._deliveries.claim(row.id)
        try:
            message_id = await self._send(row, again)
        except (OSError, TimeoutError, NotTaken) as error:
            await self._deliveries.failed(row.id, f"{type(error).__name__} {error}".strip())
            raise NotDelivered(f"delivery {row.id} to {row.platform}: {type(error).__name__}") from error
        except ResultUnknown as error:
            log.error("delivery.unknown", delivery=row.id, platform=row.platform)
            return await self._deliveries.unknown(row.id, str(error))
        sent = await self._deliveries.sent(row.id, message_id)
        if new.conversation_id is not None:
            await self._changes.notify(f"conversation:{new.conversation_id}", {"delivery": sent.id})
        return sent

    async def _send(self, row: DeliveryRow, again: bool) -> str:
        attempts = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential_jitter(multiplier=0.2, max=5),
            retry=tenacity.retry_if_exception_type((OSError, TimeoutError)),
            reraise=True,
        )
        message_id = ""
        async for attempt in attempts:
            with attempt:
                address = {**row.address, "again": again or attempt.retry_state.attempt_number > 1}
                reply = Reply.from_json(row.content)
                message_id = await self._platforms[row.platform].send(row.purpose, address, reply)
        return message_id

    async def redraw(self, row: DeliveryRow, reply: Reply) -> None:
        """Replace a sent message; the row keeps the new content."""
        changed = await self._deliveries.rewrite(row.id, reply.to_json())
        if changed.message_id is not None:
            await self._platforms[row.platform].update(changed.message_id, row.address, reply)
