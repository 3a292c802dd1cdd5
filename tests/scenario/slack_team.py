"""A team in Slack: the real application and listener against the stand-in, over either transport."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import text

from bot.app import App, Parts, open_app
from bot.settings import Ingest, Operations, Review, Search, Settings, Slack, Workspace
from bot.slack import door
from bot.slack.listen import Listener
from bot.slack.send import SlackHouse
from store.conversations import TERMINAL, QuestionRow
from store.database import transaction
from store.reviews import ReviewRow
from store.schema import metadata
from tests.embedder import HashEmbedder
from tests.emulators.slack.client import StandIn
from tests.emulators.slack.limits import check_message, links, pings
from tests.emulators.slack.scopes import Manifest
from tests.knowledge import publish
from tests.scenario.desk import HANDBOOK, Handbook
from tests.scenario.doors import connected_out, listening, nothing_here
from tests.scenario.driver import idle

CONTRACT = "合同第 3.2 条规定多少日内付款？"
LEAVE = "How many days of annual leave do I get?"
BOT = "<@U0BOT>"
OUTSIDERS = ("U0EXT",)


@dataclass
class Team:
    """What a scenario has at hand: the people (`slack`), and our side to look at (`app`)."""

    slack: StandIn
    app: App
    listener: Listener
    house: SlackHouse
    queues: Sequence[str] = ()  # that somebody works on

    async def question(self, text: str) -> QuestionRow:
        """The newest question with that text, as soon as it is stored."""

        async def look() -> QuestionRow | None:
            for conversation in await self.app.store.conversations.list("slack"):
                for row in reversed(await self.app.store.conversations.questions(conversation.id)):
                    if text in row.text:
                        return row
            return None

        found: QuestionRow = await self.slack.until(look)
        return found

    async def ended(self, text: str) -> QuestionRow:
        async def over() -> QuestionRow | None:
            row = await self.question(text)
            return row if row.state in TERMINAL else None

        row: QuestionRow = await self.slack.until(over, 20)
        return row

    async def asked(self, text: str = LEAVE, user: str = "U0ADA", channel: str = "C0GEN", **more: Any) -> str:
        """Mention the bot; the ts of the question, once it was answered in the thread."""
        mention = text if channel.startswith("D") else f"{BOT} {text}"
        if channel.startswith("D"):
            await self.slack.do("open_messages", user=user)
        ts = await self.slack.say(user, channel, mention, **more)
        row = await self.ended(text)

        async def sent() -> bool:
            rows = await self.app.store.deliveries.for_question(row.id)
            return any(r.kind in ("answer", "declined") and r.state in ("sent", "unknown") for r in rows)

        await self.slack.until(sent, 20)
        return ts

    async def held(self, text: str = CONTRACT, user: str = "U0ADA") -> tuple[str, dict[str, Any]]:
        """Ask what a rule holds: the question's ts and its card as a reviewer sees it."""
        ts = await self.slack.say(user, "C0GEN", f"{BOT} {text}")
        return ts, await self.card(text)

    async def card(self, text: str = CONTRACT) -> dict[str, Any]:
        return await self.slack.until_seen("U0REV", "C0REVIEW", text)

    async def review(self) -> ReviewRow:
        return (await self.app.store.reviews.list())[-1]

    async def quiet(self) -> None:
        """Wait until nothing is on its way in either direction, and no job is due."""
        await self.slack.do("settle")
        await self.listener.later.finish()
        await idle(self.app, self.queues)
        await self.slack.do("settle")

    async def answers(self, channel: str, thread: str, user: str = "U0ADA") -> list[dict[str, Any]]:
        """The bot's messages in a thread, ephemerals left out."""
        shown = await self.slack.see(user, channel)
        return [m for m in shown if m["by"] == "U0BOT" and m["thread"] == thread and not m["ephemeral"]]

    # --- what must always hold

    async def check_invariants(self) -> None:
        """Of the whole scenario, from the stand-in's log and the database alone."""
        world = await self.slack.world()
        self._check_messages(world)
        await self._check_reviews(world)
        await self._check_answers(world)
        # What is on its way this moment (our own messages come back to us as events) has no outcome yet.
        failed = [
            d
            for d in world["deliveries"]
            if d["kind"] == "event" and not d["acked"] and "outcome" in (d["attempts"] or [{}])[-1]
        ]
        assert failed == []
        outside = [
            call for call in world["calls"] if (call.get("response") or {}).get("error") in OUTSIDE_LIMITS
        ]
        assert outside == []

    def _check_messages(self, world: dict[str, Any]) -> None:
        for channel in world["channels"].values():
            for message in channel["messages"]:
                if message["user"] != "U0BOT":
                    continue
                check_message(message["text"], message["blocks"])
                assert pings(message["blocks"], message["text"]) == []
                found = links(message["blocks"], message["text"])
                # To threads of ours, and to the run; nothing that a model or a document could have made.
                threads = "https://signoff.slack.com/archives/"
                assert all(RUN.fullmatch(link) or link.startswith(threads) for link in found)
                assert not message.get("unfurl")
        for message in world["ephemerals"]:
            assert message["to"] not in OUTSIDERS

    async def _check_reviews(self, world: dict[str, Any]) -> None:
        """Nothing of a waiting draft is outside the review channel; a decided card has no button that decides."""
        for review in await self.app.store.reviews.list():
            draft = str(review.draft["text"]).split("[1]")[0].strip()[:40]
            shown = [
                str(m["blocks"])
                for channel in world["channels"].values()
                if channel["id"] != "C0REVIEW"
                for m in channel["messages"]
                if m["user"] == "U0BOT"
            ]
            if review.state in ("pending", "rejected", "withdrawn"):
                assert not any(draft in text for text in shown)
            for message in world["channels"]["C0REVIEW"]["messages"]:
                buttons = str(message["blocks"])
                if review.state != "pending" and f"'{review.id}:{review.version_hash}'" in buttons:
                    assert "review:approve" not in buttons

    async def _check_answers(self, world: dict[str, Any]) -> None:
        """One answer for each question: one delivery row, one message of that purpose."""
        purposes: list[str] = []
        for channel in world["channels"].values():
            for message in channel["messages"]:
                payload = (message.get("metadata") or {}).get("event_payload") or {}
                if payload:
                    purposes.append(f"{payload['purpose']}#{payload['part']}")
        assert sorted(purposes) == sorted(set(purposes))


# What a handbook is made of stays from test to test, as long as nobody changed it.
KNOWLEDGE = frozenset(
    {"spaces", "collections", "documents", "versions", "uploads", "chunks", "embeddings", "lexemes", "corpus"}
)
QUEUE = ("procrastinate_jobs", "checkpoints", "checkpoint_blobs", "checkpoint_writes")


async def emptied(team: Team) -> None:
    """Bring a team that others used before back to its beginning."""
    await team.quiet()
    await forget(team.app)
    team.house.people.known.forget()
    for kept in (team.house._links, team.house._updated, team.house._latest):
        kept.clear()
    await team.house.streams.close()
    await team.slack.do("empty")


async def forget(app: App) -> None:
    """Empty whatever is no knowledge, and bring the handbook back."""
    names = [name for name in metadata.tables if name not in KNOWLEDGE]
    async with transaction(app.store.database.engine) as connection:
        # Row by row: after a test there are some tens, and a TRUNCATE writes every table and index anew.
        await connection.execute(text("SET LOCAL session_replication_role = replica"))
        for name in (*names, *QUEUE):
            await connection.execute(text(f'DELETE FROM "{name}"'))
    await _handbook_again(app)


async def _handbook_again(app: App) -> None:
    """The documents as they were published, whatever was removed, added or closed since."""
    there = {(row.collection, row.source): row for row in await app.admin.list()}
    left = dict(there)
    for key, row in there.items():
        if key not in HANDBOOK or (row.version or 1) > 1:
            await app.admin.remove(row.id)
            del left[key]
        elif row.audience != ("everyone",):
            await app.admin.set_audience(row.id, None)
    for (collection, source), texts in HANDBOOK.items():
        if (collection, source) not in left:
            await publish(app.store, app.admin.embedder, collection, source, texts)


# What only a message or call beyond Slack's rules is answered with.
OUTSIDE_LIMITS = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text", "invalid_arguments",
     "missing_scope", "unknown_method", "invalid_chunks", "missing_recipient_user_id", "cannot_reply_to_message"}
)  # fmt: skip


CONSOLE = "https://signoff.corp.example"
RUN = re.compile(rf"<{CONSOLE}/console/runs/([0-9a-f]{{8}})[0-9a-f]{{24}}\|(?:run|运行记录) \1>")
RULES: tuple[dict[str, Any], ...] = ({"name": "contracts", "collections": ["contracts"], "action": "hold"},)


def settings_for(
    slack: StandIn,
    folder: Path,
    *,
    socket: bool,
    rules: tuple[dict[str, Any], ...] = RULES,
    max_megabytes: int = 50,
    language: str = "en",
    **more: Any,
) -> Settings:
    """`more` is Slack's own."""
    environment = slack.environment
    return Settings(
        home=folder,
        config=folder / "signoff.toml",
        workspace=Workspace(contact="the people desk"),
        search=Search(retry_below=0.3, abstain_below=0.3),
        ingest=Ingest(max_megabytes=max_megabytes),
        operations=Operations(address=CONSOLE),
        review=Review(
            reviewers=("slack:U0REV", "slack:U0REV2"),
            admins=("slack:S0KB",),
            channels=("slack:C0REVIEW",),
            rules=rules,
            language=language,
        ),
        slack=Slack(
            bot_token=SecretStr(environment["SLACK_BOT_TOKEN"]),
            app_token=SecretStr(environment["SLACK_APP_TOKEN"]) if socket else None,
            signing_secret=SecretStr(environment["SLACK_SIGNING_SECRET"]),
            api_url=environment["SLACK_API_URL"],
            **more,
        ),
    )


def read_manifest(name: str) -> dict[str, Any]:
    return Manifest.read(Path(__file__).parents[2] / "manifests" / name).content


@asynccontextmanager
async def slack_team(
    slack: StandIn,
    database_url: str,
    folder: Path,
    *,
    transport: str = "socket",
    manifest: str | dict[str, Any] = "slack.yaml",
    parts: Parts | None = None,
    queues: Sequence[str] = ("answers",),
    fresh: bool = True,
    handbook: Handbook = HANDBOOK,
    **more: Any,
) -> AsyncIterator[Team]:
    """The application at work, its handbook published, connected over `transport` (socket or http). `fresh` empties
    the stand-in first; without it this is a restart."""
    if fresh:
        content = manifest if isinstance(manifest, dict) else read_manifest(manifest)
        await slack.do("reset", manifest=content)
    embedder = HashEmbedder()
    settings = settings_for(slack, folder, socket=transport == "socket", **more)
    async with open_app(settings, database_url, parts or Parts(embedder=embedder)) as app:
        for (collection, source), texts in handbook.items():
            if fresh:
                await publish(app.store, embedder, collection, source, texts)
        async with connected(slack, app) as team:
            team.queues = queues
            works = [asyncio.create_task(app.store.queue.run_worker(list(queues)))] if queues else []
            try:
                yield team
            finally:
                for work in works:
                    work.cancel()
                await asyncio.gather(*works, return_exceptions=True)


@asynccontextmanager
async def connected(slack: StandIn, app: App) -> AsyncIterator[Team]:
    """A listener for `app`, over the transport that its settings name."""
    listener = door.listener_of(app)
    house = app.platforms["slack"]
    assert listener is not None
    assert isinstance(house, SlackHouse)
    serving = _socket(slack, listener) if listener.uses_socket else _http(slack, listener)
    async with serving:
        yield Team(slack, app, listener, house)


@asynccontextmanager
async def _socket(slack: StandIn, listener: Listener) -> AsyncIterator[None]:
    async def connections() -> int:
        return int((await slack.world())["connections"])

    async with connected_out(listener.run_socket(), connections, slack.until):
        yield


@asynccontextmanager
async def _http(slack: StandIn, listener: Listener) -> AsyncIterator[None]:
    await listener.start()
    async with listening(door.beside(nothing_here, listener), listener.later) as address:
        await slack.do("listen", url=f"{address}/slack/events")
        yield
