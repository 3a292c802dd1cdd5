"""Everything that goes out, as a row before it is sent. The row's purpose says what it is, once and for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single
from store.errors import NotFound
from store.schema import deliveries

__all__ = ["Deliveries", "DeliveryRow", "NewDelivery"]

ERROR_CHARACTERS = 500
# What its sender left: not the job's any more, which tries five times in a minute. The pause doubles with every
# attempt, so that a platform that is away for an hour is asked ten times a day and not a thousand.
DUE = """
CASE WHEN state = 'failed'
     THEN created_at + make_interval(secs => 60.0 * 2 ^ greatest(least(attempts, 14) - 4, 0))
     ELSE created_at + interval '10 minutes' END < now()
"""
GIVEN_UP = "created_at < now() - interval '1 day'"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One message to send. `purpose` names it for ever: answer:<question>, held:<question>:<round>, card:<review>."""

    purpose: str
    platform: str
    kind: str
    content: Mapping[str, Any]
    address: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None
    question_id: str | None = None
    review_id: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """`state`: pending, sending (a sender has it), sent, unknown (sent or not, nobody knows), failed (not sent yet),
    refused (never to be sent: the platform does not take it, or a day has passed)."""

    id: int
    purpose: str
    conversation_id: str | None
    question_id: str | None
    review_id: int | None
    platform: str
    kind: str
    address: Mapping[str, Any]
    content: Mapping[str, Any]
    state: str
    message_id: str | None
    attempts: int
    error: str
    created_at: datetime
    sent_at: datetime | None


class Deliveries:
    """The outbox."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, new: NewDelivery) -> DeliveryRow:
        """Store a message to send. The same purpose again returns the row that is there, unchanged."""
        async with single(self._engine) as connection:
            stored = await connection.execute(
                insert(deliveries)
                .values(
                    purpose=new.purpose,
                    conversation_id=new.conversation_id,
                    question_id=new.question_id,
                    review_id=new.review_id,
                    platform=new.platform,
                    kind=new.kind,
                    address=dict(new.address),
                    content=dict(new.content),
                )
                .on_conflict_do_nothing(index_elements=["purpose"])
                .returning(deliveries)
            )
            row = stored.mappings().one_or_none()
            if row is None:
                found = await connection.execute(
                    select(deliveries).where(deliveries.c.purpose == new.purpose)
                )
                row = found.mappings().one()
            return DeliveryRow(**row)

    async def get(self, delivery_id: int) -> DeliveryRow:
        """Raises `NotFound`."""
        return _only(await self._list(select(deliveries).where(deliveries.c.id == delivery_id)), delivery_id)

    async def claim(self, delivery_id: int) -> bool:
        """Become the sender of a pending or failed message; False when somebody is or was.

        Of any number of claims at once one is true. A message left "sending" by a killed sender is not claimed
        again here: whether it may be repeated depends on the platform, so its house decides.
        """
        async with single(self._engine) as connection:
            claimed = await connection.scalar(
                update(deliveries)
                .where(deliveries.c.id == delivery_id, deliveries.c.state.in_(("pending", "failed")))
                .values(state="sending", attempts=deliveries.c.attempts + 1, error="")
                .returning(deliveries.c.id)
            )
        return claimed is not None

    async def sent(self, delivery_id: int, message_id: str) -> DeliveryRow:
        """The platform has it under `message_id`. Raises `NotFound`."""
        return await self._set(
            delivery_id, {"state": "sent", "message_id": message_id, "sent_at": func.now(), "error": ""}
        )

    async def failed(self, delivery_id: int, error: str) -> DeliveryRow:
        """The platform did not take it; `error` is a name, not the message's text. Raises `NotFound`."""
        return await self._set(delivery_id, {"state": "failed", "error": error[:ERROR_CHARACTERS]})

    async def refused(self, delivery_id: int, error: str) -> DeliveryRow:
        """The platform will never take it. Raises `NotFound`."""
        return await self._set(delivery_id, {"state": "refused", "error": error[:ERROR_CHARACTERS]})

    async def unknown(self, delivery_id: int, error: str = "") -> DeliveryRow:
        """Nobody can tell whether the platform took it; it is looked up, not repeated. Raises `NotFound`."""
        return await self._set(delivery_id, {"state": "unknown", "error": error[:ERROR_CHARACTERS]})

    async def rewrite(self, delivery_id: int, content: Mapping[str, Any]) -> DeliveryRow:
        """Replace what the message says: a card redrawn, an answer corrected. Raises `NotFound`."""
        return await self._set(delivery_id, {"content": dict(content)})

    async def for_conversation(self, conversation_id: str) -> list[DeliveryRow]:
        """In the order they were put."""
        return await self._list(select(deliveries).where(deliveries.c.conversation_id == conversation_id))

    async def for_question(self, question_id: str) -> list[DeliveryRow]:
        return await self._list(select(deliveries).where(deliveries.c.question_id == question_id))

    async def of_message(self, platform: str, part: str) -> DeliveryRow | None:
        """What was sent as a message whose id begins with `part`: a platform's first message id."""
        query = select(deliveries).where(
            deliveries.c.platform == platform, deliveries.c.message_id.startswith(part, autoescape=True)
        )
        found = await self._list(query)
        return found[-1] if found else None

    async def any_card(self, platform: str) -> bool:
        """Whether anything with buttons was ever sent there."""
        query = (
            select(deliveries.c.id)
            .where(
                deliveries.c.platform == platform,
                deliveries.c.kind.in_(("card", "answer")),
                deliveries.c.state == "sent",
            )
            .limit(1)
        )
        async with single(self._engine) as connection:
            return await connection.scalar(query) is not None

    async def for_review(self, review_id: int) -> list[DeliveryRow]:
        return await self._list(select(deliveries).where(deliveries.c.review_id == review_id))

    async def due(self, limit: int) -> list[DeliveryRow]:
        """What its sender could not send, or left half done, and whose time has come to be tried again."""
        unsent = deliveries.c.state.in_(("pending", "sending", "failed"))
        query = select(deliveries).where(unsent, text(DUE), text(f"NOT ({GIVEN_UP})")).limit(limit)
        return await self._list(query)

    async def give_up(self) -> list[DeliveryRow]:
        """Refuse what could not be sent for a day; returns those."""
        async with single(self._engine) as connection:
            changed = await connection.execute(
                update(deliveries)
                .where(deliveries.c.state.in_(("pending", "sending", "failed")), text(GIVEN_UP))
                .values(state="refused")
                .returning(deliveries)
            )
            return [DeliveryRow(**row) for row in changed.mappings()]

    async def troubles(self, since: datetime) -> dict[str, int]:
        """How many messages since then did not arrive, or nobody knows: by state."""
        query = (
            select(deliveries.c.state, func.count())
            .where(deliveries.c.created_at >= since, deliveries.c.state.in_(("failed", "unknown", "refused")))
            .group_by(deliveries.c.state)
        )
        async with single(self._engine) as connection:
            return {row[0]: row[1] for row in await connection.execute(query)}

    async def undelivered(self, since: datetime) -> list[DeliveryRow]:
        """Those messages, in the order they were put."""
        states = ("failed", "unknown", "refused")
        return await self._list(
            select(deliveries).where(deliveries.c.created_at >= since, deliveries.c.state.in_(states))
        )

    async def _set(self, delivery_id: int, values: Mapping[str, Any]) -> DeliveryRow:
        async with single(self._engine) as connection:
            changed = await connection.execute(
                update(deliveries)
                .where(deliveries.c.id == delivery_id)
                .values(**values)
                .returning(deliveries)
            )
            return _only([DeliveryRow(**row) for row in changed.mappings()], delivery_id)

    async def _list(self, query: Select[Any]) -> list[DeliveryRow]:
        async with single(self._engine) as connection:
            found = await connection.execute(query.order_by(deliveries.c.id))
            return [DeliveryRow(**row) for row in found.mappings()]


def _only(rows: list[DeliveryRow], delivery_id: int) -> DeliveryRow:
    if not rows:
        raise NotFound(f"There is no delivery {delivery_id}.")
    return rows[0]
