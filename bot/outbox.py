"""What its job left unsent: tried again from its row, for a day, and then told to those who run Signoff."""

from bot.deliver import Deliverer, NotDelivered
from store import Store
from store.deliveries import DeliveryRow

# Sent by the use case of their question, which knows whether they still should be.
OF_QUESTIONS = ("answer:", "held:", "card:")
# In a minute, at most: a platform that is away costs seconds for each.
AT_ONCE = 50


class Outbox:
    def __init__(self, store: Store, deliverer: Deliverer) -> None:
        self._store = store
        self._deliverer = deliverer

    async def tend(self) -> None:
        """Every minute: queue what is due, under the lock of whatever else may be sending it."""
        await self._deliverer.give_up()
        due = await self._store.deliveries.due(AT_ONCE)
        questions = {row.question_id for row in due if row.question_id and _of_question(row)}
        for question_id in sorted(questions):
            row = await self._store.conversations.question(question_id)
            reviewed = await self._store.reviews.for_question(question_id)
            lock = f"question:{question_id}" if reviewed else row.conversation_id
            await self._store.queue.defer("redeliver", {"question_id": question_id}, lock=lock)
        for delivery in due:
            if not _of_question(delivery):
                await self._store.queue.defer(
                    "resend", {"delivery_id": delivery.id}, lock=f"delivery:{delivery.id}"
                )

    async def resend(self, delivery_id: int) -> None:
        """Job `resend`: what belongs to no step of a question."""
        row = await self._store.deliveries.get(delivery_id)
        if row.kind == "draft" and not await self._waits(row):
            await self._store.deliveries.refused(row.id, "decided")
            return
        try:
            await self._deliverer.resend(row)
        except NotDelivered:
            await self._deliverer.alert(await self._store.deliveries.get(delivery_id), "failed")

    async def _waits(self, row: DeliveryRow) -> bool:
        """A draft shown early is shown only while nobody has decided: not after its rejection."""
        review = await self._store.reviews.find(row.review_id or 0)
        return review is not None and review.state == "pending"


def _of_question(row: DeliveryRow) -> bool:
    return row.purpose.startswith(OF_QUESTIONS)
