"""The people of a load run: they ask in threads, and reviewers click against each other on every card.

Everything goes through the stand-in Slack: a message is written there, a button is clicked where it is shown.
"""

import asyncio
import random
import re
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.emulators.slack.client import Impossible, StandIn

BOT = "<@U0BOT>"
REVIEW_CHANNEL = "C0REVIEW"
REVIEWERS = tuple(f"U0R{number}" for number in range(8))
ASKERS = tuple(f"U0Q{number}" for number in range(8))
THREADS = 4  # conversations in each channel

CORPUS = {
    ("hr", "leave.md"): [
        "Employees receive 15 days of annual leave each year.",
        "Unused annual leave expires on 31 March of the following year.",
    ],
    ("finance", "expenses.md"): [
        "An expense report must be filed within 30 days of the trip.",
        "Hotels in Berlin are paid up to 140 euros a night.",
    ],
    ("contracts", "terms.md"): [
        "Clause 3.2: invoices are paid within 45 days of acceptance.",
        "Clause 7.1: liability is capped at the contract value.",
    ],
}
QUESTIONS = {
    "leave": "How many days of annual leave do employees receive?",
    "expenses": "Within how many days must an expense report be filed?",
    "held": "Within how many days are invoices paid under clause 3.2?",
    "absent": "Is there a swimming pool on the roof of the building?",
}
LATER_ROUND = re.compile(r"\bdraft [2-9]\b")
EDITED = "Invoices are paid within 45 days of acceptance, says {by} [1]."


@dataclass(frozen=True)
class Asked:
    """A question as its asker wrote it; `ts` is what Slack calls the message."""

    number: int
    kind: str
    user: str
    channel: str
    ts: str
    thread: str
    at: float  # epoch seconds


@dataclass
class Crowd:
    """`asked` and `clicks` fill up while the run goes on."""

    slack: StandIn
    seed: int
    threads: int = THREADS
    asked: list[Asked] = field(default_factory=list)
    clicks: int = 0
    decided: set[str] = field(default_factory=set)  # ts of the cards that were fought over
    _screens: dict[str, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    async def arrive(self, conversations: int) -> None:
        """Make the channels and the people."""
        for user in (*REVIEWERS, *ASKERS):
            await self.slack.do("user", id=user)
        await self.slack.do("channel", id=REVIEW_CHANNEL, add=[*REVIEWERS, "U0BOT"])
        for number in range(-(-conversations // self.threads)):
            await self.slack.do("channel", id=f"C0L{number}", add=["U0BOT", *ASKERS])

    # --- asking

    def kinds(self, count: int, held: int) -> list[str]:
        """`count` kinds of question in random order, `held` of them for review."""
        others = [kind for kind in QUESTIONS if kind != "held"]
        kinds = ["held"] * held + [others[number % len(others)] for number in range(count - held)]
        self.random.shuffle(kinds)
        return kinds

    async def ask_all(self, kinds: Sequence[str], conversations: int, seconds: float) -> None:
        """One question after the other, evenly over `seconds`, whatever becomes of the earlier ones (open loop)."""
        began = time.monotonic()
        roots: dict[int, str] = {}
        for number, kind in enumerate(kinds):
            await asyncio.sleep(max(0.0, began + number * seconds / len(kinds) - time.monotonic()))
            conversation = number % conversations
            roots[conversation] = (await self.ask(number, kind, conversation, roots.get(conversation))).thread

    async def ask(
        self, number: int, kind: str, conversation: int, thread: str | None = None, text: str = ""
    ) -> Asked:
        """A mention that opens a thread, or a follow-up in it; `text` instead of the kind's own question."""
        user, channel = ASKERS[conversation % len(ASKERS)], f"C0L{conversation // self.threads}"
        text = f"{BOT} {text or f'{QUESTIONS[kind]} (number {number})'}"
        at = time.time()
        ts = await self.slack.say(user, channel, text, thread=thread, wait=False)
        made = Asked(number, kind, user, channel, ts, thread or ts, at)
        self.asked.append(made)
        return made

    # --- deciding

    async def decide(self) -> None:
        """Until cancelled: every card that waits gets four clicks at once, no two of one mind."""
        fights: set[asyncio.Task[None]] = set()
        try:
            while True:
                for card in await self._waiting():
                    if card["ts"] not in self.decided:
                        self.decided.add(card["ts"])
                        again = LATER_ROUND.search(card["text"]) is not None
                        fights.add(asyncio.create_task(self._fight(card["ts"], again)))
                await asyncio.sleep(0.5)
        finally:
            for fight in fights:
                fight.cancel()
            await asyncio.gather(*fights, return_exceptions=True)

    async def _waiting(self) -> list[dict[str, Any]]:
        shown = await self.slack.see(REVIEWERS[0], REVIEW_CHANNEL)
        return [message for message in shown if "review:approve" in message["actions"]]

    async def _fight(self, card: str, again: bool) -> None:
        """Two approve, one edits, one rejects, all at once: the forms are open before anybody acts. A second round is
        not rejected, so that it ends."""
        first, second, editor, last = self.random.sample(REVIEWERS, 4)
        forms: list[tuple[str, str, dict[str, str]]] = [
            (editor, "review:edit", {"text0": EDITED.format(by=editor)})
        ]
        if not again:
            forms.append(
                (last, "review:reject", {"reason": "incomplete", "hint": "liability contract value"})
            )
        async with AsyncExitStack() as screens:
            for user in sorted(form[0] for form in forms):  # one form is open on a screen
                await screens.enter_async_context(self._screens.setdefault(user, asyncio.Lock()))
            await asyncio.gather(*(self._open(user, card, button) for user, button, _ in forms))
            acts = [self._submit(user, values) for user, _, values in forms]
            acts += [self._click(user, card, "review:approve") for user in (first, second)]
            acts += [self._click(last, card, "review:approve")] if again else []
            self.random.shuffle(acts)
            await asyncio.gather(*acts)
        # A click that met a dying process shows the reviewer a warning; whoever still sees the button clicks again.
        while True:
            await asyncio.sleep(3.0)
            if card not in {message["ts"] for message in await self._waiting()}:
                return
            await self._click(self.random.choice(REVIEWERS), card, "review:approve")

    async def _open(self, user: str, card: str, button: str) -> None:
        """Click for a form and wait until it can be sent; it may never come."""
        if not await self._click(user, card, button):
            return
        for _ in range(50):
            form = await self.slack.modal(user)
            if form is None or form["submit"]:
                return
            await asyncio.sleep(0.1)

    async def _submit(self, user: str, values: dict[str, str]) -> bool:
        """False where there is no form to send: it never came, or says that somebody was faster."""
        self.clicks += 1
        try:
            return bool((await self.slack.submit(user, **values))["acked"])
        except Impossible:
            return False

    async def _click(self, user: str, card: str, button: str) -> bool:
        """False where the button is gone already, or where nobody acknowledged."""
        self.clicks += button == "review:approve"
        try:
            clicked = await self.slack.click(user, REVIEW_CHANNEL, card, button)
        except Impossible:
            return False
        return bool(clicked["acked"])
