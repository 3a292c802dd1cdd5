"""What people do on a chat platform, in words that every platform has; the same stories run on each of them.

A platform brings a `Driver` (`slack_driver.py`, `feishu_team.py`) and its transports in `test_stories.py`.

People: ada and lin ask, rena and rolf review, adam administers, gus is a guest, eve is of another organisation.
Places: general (all of them but rolf and eve), hr (private: ada, lin), review (private: rena, rolf), direct (the
person's own messages with the bot).
Buttons: approve, edit, reject, claim, release, pass_on, open, passage:1, helpful, unhelpful, person, stop, share,
again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import text as sql

from bot.app import App
from store.conversations import TERMINAL, QuestionRow
from store.database import transaction
from store.reviews import ReviewRow

CONTRACT = "合同第 3.2 条规定多少日内付款？"  # a rule holds what rests on contracts
LEAVE = "How many days of annual leave do I get?"


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as one person sees it. `thread` is the id of the message that it answers, "" for none."""

    id: str
    thread: str
    ours: bool  # the bot wrote it
    text: str
    private: bool  # nobody else sees it
    buttons: frozenset[str]


@dataclass(frozen=True, slots=True)
class Form:
    """What stands open in front of a person: a modal, or a form within a card. `fields` by name: text (or text0,
    text1 …), reason, hint, question, words, file, url, collection, audience."""

    text: str
    fields: tuple[str, ...]
    buttons: frozenset[str]


class Driver(Protocol):
    """The primitives. Each step builds the payload that the platform would send and waits until it was taken; a step
    that a person could not do (no such button, not in the place) raises AssertionError."""

    platform: str  # the prefix of its principals
    answers_ask_in: str  # where the answer to /ask in general is seen
    holds: int  # letters of a draft that one field of a form holds
    tells_edits: bool  # whether the platform tells bots of edited messages

    @property
    def app(self) -> App: ...

    def principal(self, who: str) -> str:
        """slack:U0ADA, feishu:ou_…"""
        ...

    def place(self, where: str) -> str:
        """The principal of a channel: slack:C0GEN, feishu:oc_general."""
        ...

    async def say(
        self,
        who: str,
        where: str,
        text: str,
        *,
        mention: bool = True,
        thread: str = "",
        files: Sequence[str] = (),
        quoting: str = "",
    ) -> str:
        """Write a message and return its id. `mention` addresses the bot; in direct messages nobody does."""
        ...

    async def edit(self, who: str, where: str, message: str, text: str) -> None: ...

    async def delete(self, who: str, where: str, message: str) -> None: ...

    async def react(self, who: str, where: str, message: str) -> None:
        """Put a thumb on a message."""
        ...

    async def command(self, who: str, where: str, text: str) -> None:
        """ "/kb list", "/ask …": typed as this platform types commands."""
        ...

    async def upload(self, who: str, name: str, data: bytes) -> str:
        """Put a file where a message or a form can take it; returns its id."""
        ...

    async def see(self, who: str, where: str) -> list[Seen]:
        """What this person sees there, oldest first."""
        ...

    async def click(self, who: str, where: str, message: str, button: str) -> None: ...

    async def click_late(self, who: str, where: str, message: str, button: str) -> None:
        """Click on a review card as it was when the person looked: its button is gone meanwhile."""
        ...

    async def form(self, who: str) -> Form | None: ...

    async def click_form(self, who: str, button: str) -> None: ...

    async def submit(self, who: str, **values: Any) -> Mapping[str, str]:
        """Send the form in front of `who`; returns the errors that it came back with, by field."""
        ...

    async def settle(self) -> None:
        """Wait until the platform has nothing on its way to us."""
        ...

    async def check(self) -> None:
        """The invariants, from the platform's log and the database."""
        ...


Opening = Callable[[str, Path], AbstractAsyncContextManager[Driver]]  # (database url, folder)


@dataclass
class Scene:
    """What a story has at hand: the people (`driver`), and our side to look at (`app`)."""

    driver: Driver

    @property
    def app(self) -> App:
        return self.driver.app

    async def until(self, look: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
        """What `look` returns as soon as it is truthy. Raises AssertionError after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.03)
        raise AssertionError(f"nothing after {seconds} s: {look}")

    async def until_seen(self, who: str, where: str, text: str, *, thread: str = "") -> Seen:
        """The first message of the bot that contains `text`, as `who` sees it there."""

        async def look() -> Seen | None:
            for message in await self.driver.see(who, where):
                inside = not thread or message.thread == thread
                if message.ours and text in message.text and inside:
                    return message
            return None

        try:
            found: Seen = await self.until(look)
        except AssertionError:
            shown = [m.text for m in await self.driver.see(who, where) if m.ours]
            raise AssertionError(f"{who} never sees {text!r} in {where}; there is {shown}") from None
        return found

    async def until_form(self, who: str, text: str) -> Form:
        """The form in front of `who` once it contains `text`."""

        async def look() -> Form | None:
            form = await self.driver.form(who)
            return form if form and text in form.text else None

        found: Form = await self.until(look)
        return found

    async def question(self, text: str) -> QuestionRow:
        """The newest question with that text, as soon as it is stored."""

        async def look() -> QuestionRow | None:
            for conversation in await self.app.store.conversations.list(self.driver.platform):
                for row in reversed(await self.app.store.conversations.questions(conversation.id)):
                    if text in row.text:
                        return row
            return None

        found: QuestionRow = await self.until(look)
        return found

    async def ended(self, text: str) -> QuestionRow:
        async def over() -> QuestionRow | None:
            row = await self.question(text)
            return row if row.state in TERMINAL else None

        row: QuestionRow = await self.until(over)
        return row

    async def asked(
        self, text: str = LEAVE, who: str = "ada", where: str = "general", *, thread: str = ""
    ) -> str:
        """Ask; the id of the question's message, once its answer was sent."""
        message = await self.driver.say(who, where, text, thread=thread)
        row = await self.ended(text)

        async def sent() -> bool:
            rows = await self.app.store.deliveries.for_question(row.id)
            return any(r.kind in ("answer", "declined") and r.state in ("sent", "unknown") for r in rows)

        await self.until(sent)
        return message

    async def held(self, text: str = CONTRACT, who: str = "ada") -> tuple[str, Seen]:
        """Ask what a rule holds: the question's message and its card as a reviewer sees it."""
        message = await self.driver.say(who, "general", text)
        return message, await self.card(text)

    async def card(self, text: str = CONTRACT) -> Seen:
        return await self.until_seen("rena", "review", text)

    async def review(self) -> ReviewRow:
        return (await self.app.store.reviews.list())[-1]

    async def answers(self, where: str, thread: str, who: str = "ada") -> list[Seen]:
        """The bot's messages below a message, those for one person left out."""
        shown = await self.driver.see(who, where)
        return [m for m in shown if m.ours and m.thread == thread and not m.private]

    async def quiet(self) -> None:
        """Wait until nothing is on its way in either direction, and no job is due."""
        await self.driver.settle()
        await idle(self.app, ("answers", "ingest"))
        await self.driver.settle()


async def idle(app: App, queues: Sequence[str], seconds: float = 10.0) -> None:
    """Wait until no job of these queues is due, running, or to be tried again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        async with transaction(app.store.database.engine) as connection:
            due = await connection.scalar(sql(DUE), {"queues": list(queues)})
        if not due:
            return
        await asyncio.sleep(0.02)


DUE = """
SELECT count(*) FROM procrastinate_jobs
 WHERE queue_name = ANY(:queues)
   AND (status = 'doing'
        OR status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now() OR attempts > 0))
"""


@asynccontextmanager
async def scene(opening: Opening, database_url: str, folder: Path) -> AsyncIterator[Scene]:
    """A platform at work, and what must always hold checked when the story ends."""
    async with opening(database_url, folder) as driver:
        opened = Scene(driver)
        yield opened
        await opened.quiet()
        await driver.check()
