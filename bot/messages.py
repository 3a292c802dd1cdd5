"""The shapes that cross a platform's boundary. Leaf vocabulary: every house translates to and from these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message somebody sent. `dedupe_key` is the platform's identity of the thing itself."""

    platform: str
    dedupe_key: str
    conversation_id: str  # platform:channel:thread
    channel: str
    thread: str
    private: bool  # only the asker reads this conversation
    asker: str  # principal, e.g. web:ada
    text: str
    sent_at: datetime
    address: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """An edit (new text) or deletion (None) of an earlier question, named by that question's id.

    `ask`: the new wording is to be answered also where the old one was already (the workspace's form says so). On a
    chat platform an edit after the answer only offers it, with the action `AGAIN`.
    """

    platform: str
    dedupe_key: str
    question_id: str
    actor: str
    text: str | None
    ask: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """A click on a review: what, on which draft, by whom. `to` is the principal that "reassign" gives it to."""

    platform: str
    review_id: int
    version_hash: str
    actor: str
    verb: Literal["claim", "release", "reassign", "approve", "edit", "reject"]
    text: str = ""
    reason: str = ""
    hint: str = ""
    question: str = ""
    to: str = ""


# Why a draft is rejected (`Action.reason`, words in `review.reasons`). Fixed, so that they can be counted, and become
# labels.
REASONS = ("wrong_document", "out_of_date", "incomplete", "should_not_answer", "other")

# What a reader may do with a reply: `meta["actions"]` lists it, `meta["question_id"]` says with which question. A house
# draws a button for each that it knows and hands the click to `Asking.again(question id, clicker's principal)`; it is
# the asker's alone, and `again` answers with what became of it.
AGAIN = "again"
# The same for what a time-out offers: `Patience.choose(question id, clicker's principal, choice)`. Wait on; see the
# unverified draft alone; have a person answer.
WAIT, PEEK, PERSON = "wait", "peek", "person"
CHOICES = (WAIT, PEEK, PERSON)


@dataclass(frozen=True, slots=True)
class Reply:
    """One outgoing message, platform-neutral; it becomes a delivery row before anything is sent.

    `kind`: answer, declined, clarify, held, expired, failed, refused, notice, card. `text` is Markdown whose [1]
    marks refer to `citations` (the JSON of `rag_graph.contracts.Citation`).
    """

    kind: str
    text: str
    language: str
    citations: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "text": self.text,
            "language": self.language,
            "citations": [dict(citation) for citation in self.citations],
            "meta": dict(self.meta),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reply":
        return cls(data["kind"], data["text"], data["language"], tuple(data["citations"]), data["meta"])


@dataclass(frozen=True, slots=True)
class Progress:
    """What is happening now, for the asker's eyes only while they wait. Lossy: nothing depends on it."""

    question_id: str
    conversation_id: str
    step: str  # a node name, "sentence", or "stopped": taken back, nothing more comes
    text: str = ""  # the rewritten question, or one finished sentence


# What code raises over a payload that is not what its platform documents: it is answered as a bad request, which
# the platform repeats like any failure, and never as a fault of the server.
MALFORMED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)


class ResultUnknown(Exception):
    """Nobody can tell whether the platform took a message, and it cannot be looked up: it is not repeated."""


class CannotStart(Exception):
    """A platform refuses what it was given at the start; the message says what, and what to do."""


class NotTaken(Exception):
    """The platform refuses this message for good; the message is its error code. Sending it again is no use."""


class Platform(Protocol):
    """What every house can do. `OSError` and `TimeoutError` are retried by the delivery, not by the house; a house
    may also raise `ResultUnknown` and `NotTaken`."""

    name: str

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        """Post `reply` and return the platform's message id. `purpose` is the idempotency key; `address["again"]` is
        true where an earlier attempt may have arrived."""
        ...

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        """Replace a message that `send` returned."""
        ...

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None: ...


class Membership(Protocol):
    """A house whose channels have members implements this as well: who has left the review channels decides no more."""

    async def inside(self, principal: str, channels: Sequence[str]) -> bool:
        """Whether somebody is in one of these channels, by the platform's ids; False where it does not say."""
        ...


@runtime_checkable
class Reactions(Protocol):
    """A house whose readers may put an emoji on a message implements this as well: they are told when what they reacted
    to is corrected."""

    async def reacted(self, message_id: str) -> Sequence[str]:
        """The principals of those who have, the bot left out; empty where the scope is missing. Raises `OSError` for
        what may pass."""
        ...


class Directory(Protocol):
    """A house that can vouch for people's e-mail addresses implements this as well: people are then linked across
    platforms by themselves (`store.people`)."""

    async def email(self, principal: str) -> str | None:
        """The verified address in the platform's profile; None where there is none, or the scope is missing."""
        ...
