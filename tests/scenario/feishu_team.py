"""A team in Feishu: the real application and listener against the stand-in, over either transport."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.app import App, Parts, open_app
from bot.feishu import door
from bot.feishu.connection import Timing
from bot.feishu.listen import Listener
from bot.feishu.send import FeishuHouse
from bot.settings import Feishu, Operations, Review, Search, Settings, Workspace
from tests.embedder import HashEmbedder
from tests.emulators.feishu.client import StandIn
from tests.emulators.feishu.limits import links, pings
from tests.emulators.feishu.permissions import Manifest
from tests.knowledge import publish
from tests.scenario.desk import HANDBOOK, Handbook
from tests.scenario.doors import connected_out, listening, nothing_here
from tests.scenario.driver import Driver, Form, Opening, Seen
from tests.scenario.slack_team import forget

ROOT = Path(__file__).parents[2]
PLACES = {"general": "oc_general", "hr": "oc_hr", "review": "oc_review"}
OURS, REVIEW = "ou_bot", "oc_review"
# Compressed: what takes the product forty seconds takes a test two.
QUICK = Timing(ping=0.3, silent=0.6, connect=2.0, longest_pause=0.5, refused_pause=0.3, grace=1.0, tick=0.05)
# What only a message or call beyond Feishu's rules is answered with.
OUTSIDE_LIMITS = frozenset(
    {230001, 230025, 230027, 230099, 300301, 300302, 300313, 99991002, 99991672, 99992402}
)


@dataclass
class Team:
    """What a scenario has at hand: the people (`feishu`), and our side to look at."""

    feishu: StandIn
    app: App
    listener: Listener
    house: FeishuHouse
    app_id: str
    excused: frozenset[int] = frozenset()  # codes that this story provokes

    # --- what must always hold

    async def check_invariants(self) -> None:
        """Of the whole scenario, from the stand-in's log and the database alone."""
        world = await self.feishu.world()
        await self._check_messages(world)
        await self._check_reviews(world)
        failed = [
            d
            for d in world["deliveries"]
            if d["kind"] == "event" and not d["acked"] and "outcome" in (d["attempts"] or [{}])[-1]
        ]
        assert failed == []
        outside = [
            call
            for call in world["calls"]
            if call.get("code") in OUTSIDE_LIMITS - self.excused and not call.get("fault")
        ]
        assert outside == []

    async def _check_messages(self, world: dict[str, Any]) -> None:
        ours = [message for message in world["messages"] if message["sender"] == OURS]
        for message in ours:
            content = message["shown"]
            if message["msg_type"] == "interactive":
                answer = await self.feishu.do("check", msg_type="interactive", content=content)
                assert answer["code"] == 0, answer
                assert pings(content) == []
                # To the run alone, as a link and as the beginning of its address.
                led = [found for found in links(content) if found != "https://s"]
                assert all(RUN.fullmatch(found) for found in led)
                assert len(led) <= 1
            elif message["msg_type"] == "text":
                assert "<at" not in content["text"]
            if message["chat_id"] == "oc_topic" and not message["root_id"]:
                raise AssertionError("a topic that nobody began")
            assert message["chat_id"] != "oc_partner"
        # Every message has a uuid of its own: each purpose is sent once.
        identities = [message["uuid"] for message in ours]
        assert all(identities)
        assert len(identities) == len(set(identities))

    async def _check_reviews(self, world: dict[str, Any]) -> None:
        """Nothing of a waiting draft is outside the review chat and reviewers' own messages; a decided card in the
        chat has no button that decides."""
        reviewers = {REVIEW, "oc_p2p_rena", "oc_p2p_rolf"}
        for review in await self.app.store.reviews.list():
            draft = str(review.draft["text"]).split("[1]")[0].strip()[:40]
            outside = [
                str(m["shown"])
                for m in world["messages"]
                if m["sender"] == OURS and m["chat_id"] not in reviewers
            ]
            if review.state in ("pending", "rejected", "withdrawn"):
                assert not any(draft in text for text in outside)
            for message in world["messages"]:
                shown = str(message["shown"])
                handle = f"'review': {review.id}, 'version': '{review.version_hash}'"
                if message["chat_id"] == REVIEW and review.state != "pending" and handle in shown:
                    assert "'do': 'approve'" not in shown


CONSOLE = "https://signoff.corp.example"
RUN = re.compile(rf"\[(?:run|运行记录) ([0-9a-f]{{8}})\]\({CONSOLE}/console/runs/\1[0-9a-f]{{24}}\)")


def settings_for(
    feishu: Mapping[str, str], base: str, folder: Path, *, webhook: bool, **more: Any
) -> Settings:
    review = {
        "reviewers": ("feishu:ou_rena", "feishu:ou_rolf"),
        "admins": ("feishu:ou_adam",),
        "channels": ("feishu:oc_review",),
        "rules": ({"name": "contracts", "collections": ["contracts"], "action": "hold"},),
        **more.pop("review", {}),
    }
    return Settings(
        home=folder,
        config=folder / "signoff.toml",
        workspace=Workspace(contact="the people desk"),
        search=Search(retry_below=0.3, abstain_below=0.3),
        operations=Operations(address=CONSOLE),
        review=Review(**review),
        feishu=Feishu(
            app_id=feishu["app_id"],
            app_secret=SecretStr(feishu["app_secret"]),
            domain=base,
            encrypt_key=SecretStr(feishu["encrypt_key"]) if webhook else None,
            verification_token=SecretStr(feishu["verification_token"]) if webhook else None,
            **more,
        ),
    )


@asynccontextmanager
async def feishu_team(
    feishu: StandIn,
    database_url: str,
    folder: Path,
    *,
    transport: str = "connection",
    without: Sequence[str] = (),
    callbacks: Sequence[str] | None = None,
    parts: Parts | None = None,
    queues: Sequence[str] = ("answers",),
    resume: Team | None = None,
    timing: Timing = QUICK,
    handbook: Handbook = HANDBOOK,
    language: str = "en",
    **more: Any,
) -> AsyncIterator[Team]:
    """The application at work, its handbook published, connected over `transport` (connection or webhook).

    `without` leaves permissions out of the manifest, `callbacks` names those that are subscribed to; `resume` restarts
    what `Team` was, in the same tenant."""
    content = Manifest.read(ROOT / "manifests" / "feishu.yaml").content
    permissions = content["permissions"]
    permissions["needed"] = [p for p in permissions["needed"] if p not in without]
    permissions["better"] = {p: why for p, why in permissions["better"].items() if p not in without}
    if callbacks is not None:
        content["callbacks"]["subscribed"] = list(callbacks)
    if resume is None:
        given = await feishu.reset(content)
    else:
        used = resume.house.settings
        given = {
            "app_id": used.app_id,
            "app_secret": used.app_secret.get_secret_value(),
            "encrypt_key": "stand-in-encrypt-key",
            "verification_token": "stand-in-verification-token",
        }
    embedder = HashEmbedder()
    more["review"] = {"language": language, **more.get("review", {})}
    settings = settings_for(given, feishu.base, folder, webhook=transport == "webhook", **more)
    async with open_app(settings, database_url, parts or Parts(embedder=embedder)) as app:
        if resume is None:
            for (collection, source), texts in handbook.items():
                await publish(app.store, embedder, collection, source, texts)
        async with connected(feishu, app, timing) as team:
            works = [asyncio.create_task(app.store.queue.run_worker(list(queues)))] if queues else []
            try:
                yield team
            finally:
                for work in works:
                    work.cancel()
                await asyncio.gather(*works, return_exceptions=True)


@asynccontextmanager
async def connected(feishu: StandIn, app: App, timing: Timing = QUICK) -> AsyncIterator[Team]:
    """A listener for `app`, over the transport that its settings name."""
    listener = door.listener_of(app, timing)
    house = app.platforms["feishu"]
    assert listener is not None
    assert isinstance(house, FeishuHouse)
    serving = _webhook(feishu, listener) if listener.uses_webhook else _connection(feishu, listener)
    async with serving:
        yield Team(feishu, app, listener, house, house.settings.app_id)


@asynccontextmanager
async def _connection(feishu: StandIn, listener: Listener) -> AsyncIterator[None]:
    async def connections() -> int:
        return int((await feishu.world())["connections"])

    async with connected_out(listener.run_connection(), connections, feishu.until):
        yield


@asynccontextmanager
async def _webhook(feishu: StandIn, listener: Listener) -> AsyncIterator[None]:
    await listener.start()
    async with listening(door.beside(nothing_here, listener), listener.later) as address:
        await feishu.do("listen", url=f"{address}/feishu")
        yield


async def emptied(team: Team) -> None:
    """Bring a team that others used before back to its beginning."""
    await team.feishu.do("settle")
    await asyncio.sleep(0.1)
    await forget(team.app)
    team.excused = frozenset()
    team.house.people.known.forget()
    for kept in (team.house._flat, team.listener._topics):
        kept.clear()
    await team.house.streams.close()
    team.listener.clicks._noted = False
    await team.feishu.do("empty")


class FeishuDriver:
    """Implements `Driver`."""

    platform = "feishu"
    answers_ask_in = "direct"
    holds = 1_000
    tells_edits = False

    def __init__(self, team: Team) -> None:
        self.team = team
        self._waiting: dict[
            str, str
        ] = {}  # who → the last message in their direct messages before they clicked

    @property
    def app(self) -> App:
        return self.team.app

    def principal(self, who: str) -> str:
        return f"feishu:ou_{who}"

    def place(self, where: str) -> str:
        return f"feishu:{PLACES[where]}"

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
        place = PLACES.get(where, where)
        sent = ""
        for file in files:  # files carry no words here: they come first
            sent = await self.team.feishu.say(f"ou_{who}", place, file=file, reply_to=thread)
        if quoting:
            thread = await self.team.feishu.say("ou_lin", place, quoting)
        if text:
            addressed = mention and where != "direct"
            sent = await self.team.feishu.say(f"ou_{who}", place, text, mention=addressed, reply_to=thread)
        return sent

    async def edit(self, who: str, where: str, message: str, text: str) -> None:
        raise NotImplementedError("Feishu tells bots of no edits")

    async def delete(self, who: str, where: str, message: str) -> None:
        await self.team.feishu.do("recall", user=f"ou_{who}", message=message)

    async def react(self, who: str, where: str, message: str) -> None:
        await self.team.feishu.do("react", user=f"ou_{who}", message=message, emoji="THUMBSUP")

    async def command(self, who: str, where: str, text: str) -> None:
        await self.say(who, where, text)

    async def upload(self, who: str, name: str, data: bytes) -> str:
        return await self.team.feishu.upload(f"ou_{who}", name, data)

    async def see(self, who: str, where: str) -> list[Seen]:
        place = PLACES.get(where, where)
        shown = [_seen(m, private=False) for m in await self.team.feishu.see(f"ou_{who}", place)]
        if where != "direct":
            # What a person alone is told about a group comes as a direct message or a toast.
            direct = await self.team.feishu.see(f"ou_{who}", "direct")
            shown += [_seen(m, private=True) for m in direct if m["by"] == OURS]
        toasts = await self.team.feishu.do("toasts", user=f"ou_{who}")
        shown += [
            Seen(f"toast{number}", "", True, toast["content"], True, frozenset())
            for number, toast in enumerate(toasts)
        ]
        return shown

    async def click(self, who: str, where: str, message: str, button: str) -> None:
        direct = await self.team.feishu.see(f"ou_{who}", "direct")
        self._waiting[who] = direct[-1]["id"] if direct else ""
        clicked = await self.team.feishu.click(f"ou_{who}", message, button)
        assert clicked["acked"], clicked
        assert clicked["after"] is None or clicked["after"] < 3.0

    async def click_late(self, who: str, where: str, message: str, button: str) -> None:
        review = (await self.app.store.reviews.list())[-1]
        value = {"do": button, "review": review.id, "version": review.version_hash}
        clicked = await self.team.feishu.do("press", user=f"ou_{who}", message=message, value=value)
        assert clicked["acked"]

    async def form(self, who: str) -> Form | None:
        """The newest card in a person's direct messages, if it came after their last click."""
        direct = [m for m in await self.team.feishu.see(f"ou_{who}", "direct") if m["by"] == OURS]
        if not direct or direct[-1]["id"] == self._waiting.get(who):
            return None
        newest = direct[-1]
        found = await self.team.feishu.do("form", user=f"ou_{who}", message=newest["id"])
        fields = tuple(found["fields"]) if found else ()
        return Form(newest["text"], fields, frozenset(newest["buttons"]))

    async def click_form(self, who: str, button: str) -> None:
        direct = [m for m in await self.team.feishu.see(f"ou_{who}", "direct") if m["by"] == OURS]
        await self.team.feishu.click(f"ou_{who}", direct[-1]["id"], button)

    async def submit(self, who: str, **values: Any) -> Mapping[str, str]:
        direct = [m for m in await self.team.feishu.see(f"ou_{who}", "direct") if m["by"] == OURS]
        sent = await self.team.feishu.do("submit", user=f"ou_{who}", message=direct[-1]["id"], values=values)
        assert sent["acked"]
        return {}

    async def settle(self) -> None:
        await self.team.feishu.do("settle")

    async def check(self) -> None:
        await self.team.check_invariants()


def _seen(message: Mapping[str, Any], *, private: bool) -> Seen:
    return Seen(
        id=message["id"],
        thread=message["root"],
        ours=message["by"] == OURS,
        text=message["text"],
        private=private,
        buttons=frozenset(message["buttons"]),
    )


def opening(feishu: StandIn, transport: str, **more: Any) -> Opening:
    """How a story opens Feishu over `transport`."""

    @asynccontextmanager
    async def opened(database_url: str, folder: Path) -> AsyncIterator[Driver]:
        queues = ("answers", "ingest")
        async with feishu_team(
            feishu, database_url, folder, transport=transport, queues=queues, **more
        ) as team:
            yield FeishuDriver(team)

    def open_it(database_url: str, folder: Path) -> AbstractAsyncContextManager[Driver]:
        return opened(database_url, folder)

    return open_it


def uuid_of(identity: str, kind: str = "interactive") -> str:
    return hashlib.sha256(f"{identity}#{kind}".encode()).hexdigest()[:40]
