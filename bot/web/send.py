"""From the database's notifications to every open page.

One listener a process, fanned out. A notification never carries content that a page shows as final: it says that
something changed and the page asks again, so that a lost one, a reconnect and a restarted server all end in what
the rows say. The exception is what is happening right now (steps, finished sentences), which is lossy by contract.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from starlette.responses import StreamingResponse

from store.changes import LISTENING, Change, Changes

PING_SECONDS = 15.0
REMEMBERED = 512  # answers in the making
FIRST_STEP = "lookup_verified"
REDRAFTING = ("retrieve", "draft")


@dataclass(frozen=True, slots=True)
class Live:
    """What is known of an answer in the making."""

    question_id: str
    step: str = ""
    searched: str = ""
    sentences: tuple[str, ...] = ()  # verbatim: joined they are the text so far, white space included

    def then(self, step: str, text: str) -> "Live":
        if step == "sentence":
            return replace(self, sentences=(*self.sentences, text))
        if step == FIRST_STEP:  # a new attempt
            return Live(self.question_id, step)
        kept = () if step in REDRAFTING else self.sentences
        return replace(self, step=step, searched=text or self.searched, sentences=kept)


@dataclass(eq=False)
class Subscription:
    """An open page: the topics it is about (exact, or a prefix that ends in ":").

    Nothing queues up for a page that reads slowly: "ask again" twice is once, and of each answer in the making
    only the latest state counts.
    """

    topics: tuple[str, ...]
    changed: bool = False
    over: bool = False  # the server closes: the stream ends, and the browser tries again by itself
    live: dict[str, Live] = field(default_factory=dict)
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, topic: str) -> bool:
        return any(topic == own or (own.endswith(":") and topic.startswith(own)) for own in self.topics)

    def offer(self, live: Live | None) -> None:
        if live is None:
            self.changed = True
        else:
            self.live[live.question_id] = live
        self.woken.set()

    async def take(self, patience: float) -> tuple[tuple[Live, ...], bool]:
        """What came since the last time: answers in the making, and whether to ask again. Nothing of either
        when `patience` seconds passed first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):  # wait_for loses a cancellation that meets the news
                await self.woken.wait()
        taken = tuple(self.live.values()), self.changed
        self.live, self.changed = {}, False
        self.woken.clear()
        return taken


class Broadcast:
    """Listens while the site is open (`run`) and hands every change to the pages it concerns."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._pages: set[Subscription] = set()
        self._live: OrderedDict[str, Live] = OrderedDict()

    async def run(self) -> None:
        """Until cancelled. `Changes.listen` reconnects by itself."""
        async for change in self._changes.listen():
            self.take(change)

    def take(self, change: Change) -> None:
        live = self._note(change)
        for page in self._pages:
            if change.topic == LISTENING or page.wants(change.topic):
                page.offer(live)

    def live(self, question_id: str) -> Live:
        """How far the answer to a question has come, as far as this process has heard."""
        return self._live.get(question_id, Live(question_id))

    def close(self) -> None:
        """End every open stream: a server that stops waits for them otherwise. The browsers come back by
        themselves."""
        for page in self._pages:
            page.over = True
            page.woken.set()

    @contextlib.contextmanager
    def subscribe(self, topics: Sequence[str]) -> Iterator[Subscription]:
        page = Subscription(tuple(topics))
        self._pages.add(page)
        try:
            yield page
        finally:
            self._pages.discard(page)

    def _note(self, change: Change) -> Live | None:
        question_id, step = change.payload.get("question"), change.payload.get("step")
        if not (change.topic.startswith("conversation:") and question_id and step):
            return None
        live = self.live(question_id).then(step, str(change.payload.get("text", "")))
        self._live[question_id] = live
        self._live.move_to_end(question_id)
        while len(self._live) > REMEMBERED:
            self._live.popitem(last=False)
        return live


def message(event: str, data: str = "") -> str:
    """One server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines()) or "data:\n"
    return f"event: {event}\n{lines}\n"


def stream(messages: AsyncIterator[str]) -> StreamingResponse:
    """The answer that stays open. Buffering proxies are asked not to."""
    return StreamingResponse(
        messages,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
