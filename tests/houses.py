"""A chat platform that remembers what it was given, and fails as it is told to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.messages import Progress, Reply


@dataclass
class House:
    """Implements `bot.messages.Platform` and `Directory`. `failing` is raised by every send and update while set."""

    name: str
    emails: dict[str, str] = field(default_factory=dict)
    failing: Exception | None = None
    posted: dict[str, Reply] = field(default_factory=dict)  # message id → what it says now
    places: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # message id → address
    attempts: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        self.attempts.append(purpose)
        if self.failing:
            raise self.failing
        message_id = f"{self.name}-{len(self.posted) + 1}"
        self.posted[message_id] = reply
        self.places[message_id] = address
        return message_id

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        self.updates.append(message_id)
        if self.failing:
            raise self.failing
        self.posted[message_id] = reply

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        self.steps.append(progress.step)

    async def email(self, principal: str) -> str | None:
        return self.emails.get(principal)

    def shown(self, kind: str) -> list[Reply]:
        return [reply for reply in self.posted.values() if reply.kind == kind]
