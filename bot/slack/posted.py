"""The message id of a delivery in Slack: where its parts are, and what they are for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Posted:
    """`parts` are the ts of its messages, in order; none for what only its reader saw."""

    channel: str
    parts: tuple[str, ...]
    purpose: str

    def __str__(self) -> str:
        return "|".join((self.channel, ",".join(self.parts), self.purpose))

    @classmethod
    def parse(cls, text: str) -> "Posted":
        channel, parts, purpose = text.split("|", 2)
        return cls(channel, tuple(part for part in parts.split(",") if part), purpose)
