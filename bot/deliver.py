"""Sending: a row first, then the platform, then the confirmation. Repeating any of it is harmless."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
import tenacity

from bot.limits import Pace
from bot.messages import NotTaken, Platform, Reply, ResultUnknown
from bot.telemetry import Telemetry
from bot.words import Words
from store.changes import Changes
from store.deliveries import Deliveries, DeliveryRow, NewDelivery

log = structlog.get_logger(__name__)

ATTEMPTS = 4
ALERT = "alert:"


class NotDelivered(Exception):
    """The platform did not take the message after several attempts; its row says why, and it is tried again."""


class Refused(NotDelivered):
    """The platform will never take the message. Those who run Signoff have been told."""


class Crowded(Exception):
    """The platform bears no update just now; try again in some seconds."""


@dataclass(frozen=True, slots=True)
class Alerts:
    """Where those who run Signoff are told what could be told to nobody else: principals of channels, in the
    language of those who read them."""

    places: Sequence[str] = ()
    language: str = "en"


class Deliverer:
    """Sends replies through the houses. The queue's locks make sure that one purpose has one sender at a time."""

    def __init__(
        self,
        deliveries: Deliveries,
        changes: Changes,
        platforms: Mapping[str, Platform],
        *,
        alerts: Alerts | None = None,
        pace: Pace | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._deliveries = deliveries
        self._changes = changes
        self._platforms = platforms
        self.alerts = alerts or Alerts()
        self._pace = pace or Pace()
        self._telemetry = telemetry or Telemetry()
        self._words = Words()

    def platform(self, name: str) -> Platform:
        return self._platforms[name]

    def knows(self, name: str) -> bool:
        """Whether that platform is set up."""
        return name in self._platforms

    async def deliver(self, new: NewDelivery) -> DeliveryRow:
        """Send `new` unless its purpose was already sent. Raises `NotDelivered` when the platform does not take it,
        `Refused` where it never will."""
        return await self._deliver(await self._deliveries.put(new), new.content)

    async def resend(self, row: DeliveryRow) -> DeliveryRow:
        """Try again what is stored. Raises as `deliver` does."""
        return await self._deliver(row, row.content)

    async def _deliver(self, row: DeliveryRow, content: Mapping[str, object]) -> DeliveryRow:
        if row.state == "sent":
            return row
        if row.state == "refused":
            raise Refused(f"delivery {row.id} to {row.platform}: {row.error}")
        again = not await self._deliveries.claim(row.id)
        if not again and row.content != content:
            # What was to be said has moved on since it could not be: a card that was decided meanwhile, say.
            row = await self._deliveries.rewrite(row.id, content)
        try:
            message_id = await self._send(row, again)
        except NotTaken as error:
            self._telemetry.delivered(row.platform, "refused")
            await self._refuse(row, str(error))
            raise Refused(f"delivery {row.id} to {row.platform}: {error}") from error
        except (OSError, TimeoutError) as error:
            self._telemetry.delivered(row.platform, "failed")
            await self._deliveries.failed(row.id, f"{type(error).__name__} {error}".strip())
            raise NotDelivered(f"delivery {row.id} to {row.platform}: {type(error).__name__}") from error
        except ResultUnknown as error:
            self._telemetry.delivered(row.platform, "unknown")
            unknown = await self._deliveries.unknown(row.id, str(error))
            await self.alert(unknown, "unknown")
            return unknown
        sent = await self._deliveries.sent(row.id, message_id)
        self._telemetry.delivered(row.platform, "sent")
        if row.conversation_id is not None:
            await self._changes.notify(f"conversation:{row.conversation_id}", {"delivery": sent.id})
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
                await self._pace.turn(row.platform, "send", channel=_place(row))
                again_now = again or attempt.retry_state.attempt_number > 1
                address = {**row.address, "again": again_now, "since": row.created_at.timestamp()}
                reply = Reply.from_json(row.content)
                message_id = await self._platforms[row.platform].send(row.purpose, address, reply)
        return message_id

    async def redraw(self, row: DeliveryRow, reply: Reply, *, wait: bool = True) -> None:
        """Show `reply` in place of a sent message, unless it says that already: of several changes that wait their
        turn the latest is drawn, once. What cannot be changed any more is told to those who run Signoff.

        Raises `OSError` or `TimeoutError` for what may pass, and without `wait` `Crowded`; nothing is stored then, and
        repeating it is harmless.
        """
        content = reply.to_json()
        if row.content == content:
            return
        if row.message_id is not None:
            place, message = _place(row), row.message_id
            if not wait and not self._pace.free(row.platform, "update", channel=place, message=message):
                raise Crowded
            await self._pace.turn(row.platform, "update", channel=place, message=message)
            try:
                await self._platforms[row.platform].update(row.message_id, row.address, reply)
            except NotTaken as error:
                log.error("delivery.not_redrawn", delivery=row.id, error=str(error))
                await self.alert(row, "redraw", str(error))
        await self._deliveries.rewrite(row.id, content)

    async def give_up(self) -> None:
        """Tell of what could not be sent for a whole day, and leave it."""
        for row in await self._deliveries.give_up():
            await self.alert(row, "refused")

    async def _refuse(self, row: DeliveryRow, error: str) -> None:
        await self.alert(await self._deliveries.refused(row.id, error), "refused")

    async def alert(self, row: DeliveryRow, what: str, error: str = "") -> None:
        """Tell those who run Signoff, once, with ids and without anybody's words. An alert that does not arrive itself
        is in the log and in `signoff doctor`."""
        log.error(f"delivery.{what}", delivery=row.id, question=row.question_id, platform=row.platform)
        if row.purpose.startswith(ALERT):
            return
        sentence = self._words(
            self.alerts.language,
            f"alert.{what}",
            place=f"{row.platform}:{_place(row)}",
            error=error or row.error,
            delivery=row.id,
            question=row.question_id or "–",
        )
        await self.warn(f"{what}:{row.id}", sentence)

    async def warn(self, key: str, sentence: str) -> None:
        """Tell those who run Signoff something, in their language, once for each `key`."""
        for place in self.alerts.places:
            platform, _, channel = place.partition(":")
            if platform not in self._platforms:
                continue
            try:
                await self.deliver(
                    NewDelivery(
                        purpose=f"{ALERT}{key}:{place}",
                        platform=platform,
                        kind="notice",
                        address={"channel": channel},
                        content=Reply("notice", sentence, self.alerts.language).to_json(),
                    )
                )
            except NotDelivered as failure:
                log.error("alert.lost", alert=key, error=str(failure))


def _place(row: DeliveryRow) -> str:
    """The channel that a message goes to; a person's id where it goes to them alone."""
    return str(row.address.get("channel") or row.address.get("user") or "")
