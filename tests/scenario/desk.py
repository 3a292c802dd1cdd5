"""The application with its queue running, and the verbs of the people who use it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.app import App, Parts, open_app
from bot.messages import Action, Incoming
from bot.review import Acted
from bot.settings import Review, Settings, Workspace
from rag_graph.graph import NODES
from store.conversations import TERMINAL, QuestionRow
from store.reviews import ReviewRow
from tests.embedder import HashEmbedder
from tests.knowledge import publish

Handbook = Mapping[tuple[str, str], Sequence[str]]  # (collection, source) → its passages

HANDBOOK: Handbook = {
    ("hr", "年假制度.md"): [
        "员工入职满一年后，每年享有 15 天年假。",
        "未休的年假有效期到次年 3 月 31 日，逾期作废。",
    ],
    ("hr", "leave.md"): [
        "Employees receive 15 days of annual leave each year.",
        "Unused annual leave is valid until 31 March of the following year.",
    ],
    ("contracts", "合同条款.md"): [
        "第 3.2 条 甲方应在验收合格后 45 日内付款。",
        "第 7.1 条 乙方的赔偿责任以合同总价为上限。",
    ],
    ("it", "vpn.md"): ["Error ERR_0042 means that the VPN certificate has expired; renew it in the portal."],
}

REVIEW = Review(
    reviewers=("cli:rita", "cli:raj", "cli:lin"),
    rules=({"name": "contracts", "collections": ["contracts"], "action": "hold"},),
)


@dataclass
class Desk:
    """One team at work. `wait` gives up after twenty seconds with what it waited for."""

    app: App

    async def ask(
        self,
        text: str,
        thread: str = "t1",
        asker: str = "cli:lin",
        key: str = "",
        age: timedelta = timedelta(),
    ) -> str:
        question_id = await self.app.asking.accept(
            Incoming(
                platform="cli",
                dedupe_key=key or uuid.uuid4().hex,
                conversation_id=f"cli:{asker}:{thread}",
                channel=asker,
                thread=thread,
                private=True,
                asker=asker,
                text=text,
                sent_at=datetime.now(UTC) - age,
            )
        )
        assert question_id is not None
        return question_id

    async def answered(self, text: str, thread: str = "t1", asker: str = "cli:lin") -> QuestionRow:
        """Ask and wait for the end."""
        return await self.ended(await self.ask(text, thread, asker))

    async def ended(self, question_id: str) -> QuestionRow:
        async def over() -> bool:
            row = await self.app.store.conversations.question(question_id)
            return row.state in TERMINAL and (row.remembered or row.state in ("withdrawn", "superseded"))

        await self.wait(over, f"{question_id} to end")
        return await self.app.store.conversations.question(question_id)

    async def held(self, text: str, thread: str = "t1", asker: str = "cli:lin") -> ReviewRow:
        """Ask something that a rule holds; the review that waits."""
        return await self.review_of(await self.ask(text, thread, asker), 1)

    async def review_of(self, question_id: str, round: int) -> ReviewRow:
        async def there() -> bool:
            return any(r.round == round for r in await self.app.store.reviews.for_question(question_id))

        await self.wait(there, f"round {round} of {question_id}")
        return (await self.app.store.reviews.for_question(question_id))[-1]

    async def decide(self, review: ReviewRow, verb: Any, actor: str = "cli:rita", **fields: str) -> Acted:
        action = Action("cli", review.id, review.version_hash, actor, verb, **fields)
        return await self.app.reviewing.act(action)

    async def wait(self, until: Callable[[], Awaitable[bool]], what: str) -> None:
        for _ in range(400):
            if await until():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"waited in vain for {what}")

    async def messages(self, question_id: str) -> list[tuple[str, str]]:
        """(kind, text) of what was sent for a question, in order."""
        rows = await self.app.store.deliveries.for_question(question_id)
        return [(row.kind, row.content["text"]) for row in rows if row.state == "sent"]


class Gate:
    """A draft node that waits until it is opened, and remembers how its runs ended."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.ends: list[str] = []

    async def __call__(self, state: Any, runtime: Any) -> Any:
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.ends.append("cut")
            raise
        self.ends.append("done")
        node: Any = NODES["draft"]
        return await node(state, runtime=runtime)


@asynccontextmanager
async def desk(
    database_url: str, folder: Path, parts: Parts | None = None, /, **chosen: Any
) -> AsyncIterator[Desk]:
    """The real application over its own database, the handbook above published, one worker running; `chosen` are
    settings."""
    parts = parts or Parts(embedder=HashEmbedder())
    async with reopened(database_url, folder, parts, **chosen) as team:
        for (collection, source), texts in HANDBOOK.items():
            await publish(team.app.store, HashEmbedder(), collection, source, texts)
        async with working(team):
            yield team


@asynccontextmanager
async def reopened(
    database_url: str, folder: Path, parts: Parts | None = None, /, **chosen: Any
) -> AsyncIterator[Desk]:
    """The application over a database as it is, nobody working."""
    settings = Settings(
        home=folder,
        config=folder / "signoff.toml",
        **{"workspace": Workspace(contact="the people desk"), "review": REVIEW, **chosen},
    )
    async with open_app(settings, database_url, parts or Parts(embedder=HashEmbedder())) as app:
        yield Desk(app)


@asynccontextmanager
async def working(team: Desk) -> AsyncIterator[None]:
    """One worker for the length of the block."""
    worker = asyncio.create_task(team.app.store.queue.run_worker(["answers"]))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
