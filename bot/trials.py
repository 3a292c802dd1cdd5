"""Which variant answers a conversation, as far as this process knows: the row of the canary and a hash. The row is read
again when a change is heard, and every two seconds besides: a notification may be lost."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from rag_graph.canary import chosen, takes_part
from rag_graph.contracts import Question
from store.canaries import TOPIC, Canaries, CanaryRow
from store.changes import LISTENING, Change
from store.recent import Recent
from store.runs import Runs

__all__ = ["ITSELF", "SETTINGS", "Trials", "place_of"]

SETTINGS: Final = ""  # the variant's name of a run that was made by the settings themselves
ITSELF: Final = "signoff"  # who took a step, where nobody did
FRESH_SECONDS: Final = 2.0
REMEMBERED: Final = 500  # questions


class Trials:
    """`digests`: of every variant in this process's settings, by name (`bot.variants.digest`)."""

    def __init__(self, canaries: Canaries, runs: Runs, digests: Mapping[str, str]) -> None:
        self._canaries = canaries
        self._runs = runs
        self._digests = digests
        self._row: CanaryRow | None = None
        self._read_at = float("-inf")
        self._stale = True
        self._reading = asyncio.Lock()
        # By question, so that its turn is remembered without asking what its run says (1.3 ms of processor).
        self._drew: Recent[str, str] = Recent(REMEMBERED)
        # Told when a variant is in force that this process cannot answer with.
        self.on_unknown: Callable[[], None] = lambda: None

    def knows(self, row: CanaryRow) -> bool:
        """Whether this process's settings have that variant, as it was when it was started."""
        return self._digests.get(row.variant) == row.digest

    def heard(self, change: Change) -> None:
        """A change in the database: of a canary, or anything may have changed while nobody listened."""
        if change.topic in (TOPIC, LISTENING):
            self._stale = True

    async def current(self) -> CanaryRow | None:
        """The canary in force, at most two seconds old; None where none is, or the settings have no variants."""
        if not self._digests:
            return None
        if not self._fresh():
            async with self._reading:
                if not self._fresh():  # nobody else just read it
                    self._stale = False  # what is heard meanwhile makes it stale again
                    self._row = await self._canaries.latest()
                    self._read_at = time.monotonic()
        return self._row if self._row is not None and self._row.in_force else None

    async def of(self, question: Question) -> str:
        """The variant that answers this question's conversation from now on."""
        row = await self.current()
        variant = SETTINGS
        if row is not None and _drawn(row, question):
            if self.knows(row):
                variant = row.variant
            elif row.state == "running":  # one that was promoted is gone once its values are the settings'
                self.on_unknown()
        return self._drew.put(question.id, variant)

    async def drafted_by(self, question_id: str) -> str:
        """The variant that drafted a question's answer, while the settings have it."""
        if not self._digests:
            return SETTINGS
        kept = self._drew.get(question_id)
        if kept is not None:
            return kept
        run = await self._runs.latest(question_id)
        return run.variant if run is not None and run.variant in self._digests else SETTINGS

    def _fresh(self) -> bool:
        return not self._stale and time.monotonic() - self._read_at <= FRESH_SECONDS


def place_of(question: Question) -> str:
    """The principal of the channel that a question was asked in."""
    return f"{question.conversation_id.split(':', 1)[0]}:{question.channel}"


def _drawn(row: CanaryRow, question: Question) -> bool:
    return takes_part(row.channels, place_of(question)) and chosen(
        row.id, question.conversation_id, row.percent
    )
