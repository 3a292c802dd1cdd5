"""Questions and reviews for tests of the store, complete unless a test says otherwise."""

from datetime import UTC, datetime
from typing import Any

from store import Store
from store.inbox import NewQuestion
from store.reviews import NewReview, ReviewRow
from store.runs import NewRun

CONVERSATION = "web:general:1"


def question(number: int = 1, **changes: Any) -> NewQuestion:
    """Question `number` of one conversation."""
    values: dict[str, Any] = {
        "platform": "web",
        "dedupe_key": f"key-{number}",
        "conversation_id": CONVERSATION,
        "channel": "general",
        "thread": "1",
        "private": False,
        "asker": "web:ada",
        "text": f"question {number}",
        "sent_at": datetime.now(UTC),
        "question_id": f"q{number}",
        "language": "en",
        "address": {"thread": "1"},
    }
    return NewQuestion(**{**values, **changes})


def review(number: int = 1, **changes: Any) -> NewReview:
    """A draft that answers question `number`, held by a rule."""
    values: dict[str, Any] = {
        "question_id": f"q{number}",
        "interrupt_id": f"interrupt-{number}",
        "round": 1,
        "version_hash": "hash-1",
        "reason": "contracts",
        "draft": {"text": "Thirty days [1]."},
        "audience": ("everyone",),
    }
    return NewReview(**{**values, **changes})


async def held(store: Store, number: int = 1, **changes: Any) -> ReviewRow:
    """A question whose draft waits for a person."""
    await store.inbox.accept(question(number))
    return await store.reviews.open(review(number, **changes))


async def asked(store: Store, number: int, variant: str = "wide", **changes: Any) -> None:
    """A question in a Slack thread of its own and its first run, answered in 100 ms unless a test says otherwise."""
    channel = changes.pop("channel", "general")
    conversation = f"slack:{channel}:{number}"
    await store.inbox.accept(
        question(number, platform="slack", conversation_id=conversation, channel=channel, thread=str(number))
    )
    values: dict[str, Any] = {"outcome": "answered", "timings": {"answer": 100.0}, **changes}
    await store.runs.record(NewRun(f"q{number}", variant=variant, **values))
