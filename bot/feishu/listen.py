"""What Feishu tells us: a payload is stored, acknowledged, and only then looked at, by a job.

One door for both transports. The job asks who somebody is, what kind of chat this is, and turns what was said into a
question, a command or a correction; it may run twice, and changes nothing the second time.
"""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.feishu import events, webhook
from bot.feishu.calls import NoToken, Refused
from bot.feishu.clicks import Clicks
from bot.feishu.commands import Commands
from bot.feishu.connection import ANSWER_SECONDS, Runner, Takers, Timing
from bot.feishu.events import Heard, heard
from bot.feishu.send import FeishuHouse
from bot.messages import MALFORMED, CannotStart, Change, Incoming
from store.conversations import TERMINAL, QuestionRow
from store.errors import DatabaseUnavailable, NotFound, StoreError
from store.queue import Retry
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

JOB = "feishu_event"
ASIDE = "aside:"  # switch of a conversation in which people talk to each other
TRYING = Retry(attempts=5, initial_seconds=0.5, longest_seconds=10.0)
TELL_SECONDS = 60.0
BEGIN_AGAIN = 5.0
TOPICS_MOST = 5_000


class Listener:
    """Binds the house to an `App`; run it with `run_connection`, or mount `endpoint`."""

    def __init__(self, app: "App", house: FeishuHouse, timing: Timing | None = None) -> None:
        self._app, self._house = app, house
        self._words, self._settings = app.words, house.settings
        self._timing = timing
        self._tasks: set[asyncio.Task[Any]] = set()
        self._bot = ""
        self._topics: dict[str, str] = {}  # thread id → the message that began it
        self._door = app.store.arrivals.door()
        self.runner: Runner | None = None
        self.clicks = Clicks(app, house, self.later)
        self.commands = Commands(app, house, self.later)
        app.store.queue.task(JOB, self.process, retry=TRYING, exhausted=self._given_up)

    # --- transports

    @property
    def uses_webhook(self) -> bool:
        return self._settings.uses_webhook

    async def start(self) -> None:
        """Ask Feishu whether the credentials work, before anything depends on it.

        Raises `CannotStart`, or `OSError` when Feishu does not answer.
        """
        try:
            self._bot = (await self._house.people.identity()).open_id
        except Refused as error:
            raise CannotStart(
                f"Feishu refuses this app ({error.code}). Enable its bot, grant the permissions of "
                "manifests/feishu.yaml and publish a version; `signoff doctor` names what is missing."
            ) from None
        except (NoToken, KeyError) as error:
            raise CannotStart(
                f"{self._settings.domain} does not accept FEISHU_APP_ID and FEISHU_APP_SECRET ({error}). Check both on "
                "the app's credentials page, and FEISHU_DOMAIN (feishu or lark)."
            ) from None

    async def _begin(self) -> None:
        """`start`, again and again while Feishu does not answer: the other platforms go on meanwhile."""
        while True:
            try:
                await self.start()
            except OSError as error:
                log.warning("feishu.unreachable", error=type(error).__name__)
                self._app.health["feishu"] = lambda: f"{self._settings.domain} cannot be reached"
                await asyncio.sleep(BEGIN_AGAIN)
            else:
                self._app.health.pop("feishu", None)
                return

    async def run_webhook(self) -> None:
        """What the HTTP door needs beside it, until cancelled."""
        await self._begin()
        try:
            await asyncio.Event().wait()
        finally:
            await self.finish()

    async def run_connection(self) -> None:
        """Stay connected until cancelled."""
        await self._begin()
        takers = Takers(event=self._take_in_thread, click=self.clicks.take, busy=self.clicks.busy)
        self.runner = Runner(self._settings, takers, self._timing)
        self._app.health["feishu"] = self.runner.unwell
        self.runner.start()
        said, told = "-", 0.0
        watch = (self._timing or Timing()).grace / 9
        try:
            while True:
                await asyncio.sleep(watch)
                problem = self.runner.unwell()
                if problem:
                    log.error("feishu.deaf", why=problem)
                if problem != said or time.monotonic() - told > TELL_SECONDS:
                    said, told = problem, time.monotonic()
                    await self._tell_doctor(problem)
        finally:
            await self.runner.stop()
            self._door.close()
            self._app.health.pop("feishu", None)
            await self.finish()

    async def _tell_doctor(self, problem: str) -> None:
        """`signoff doctor` is another process."""
        try:
            await self._app.store.kept.put("feishu:", "connection", "state", {"problem": problem})
        except StoreError as error:
            log.warning("feishu.untold", error=type(error).__name__)

    def _take_in_thread(self, body: Mapping[str, Any]) -> None:
        """In the connection's thread: stored when it returns. Raises when it could not be."""
        if events.concerns_us(body, self._bot):
            self._door.accept("feishu", events.key_of(body), body, task=JOB, lock=events.lock_of(body))

    async def endpoint(self, request: Request) -> Response:
        """POST /feishu/events and /feishu/card: encrypted, signed, fresh."""
        key, token = self._settings.encrypt_key, self._settings.verification_token
        if key is None:
            return Response(status_code=404)
        body = await request.body()
        secret = token.get_secret_value() if token else ""
        try:
            found = webhook.opened(body, request.headers, key.get_secret_value(), secret, time.time())
        except webhook.Forged as error:
            log.warning("feishu.forged", what=str(error))
            return Response(status_code=401)
        try:
            return await self._taken(found)
        except MALFORMED as error:
            log.error("feishu.malformed", error=type(error).__name__)
            return Response(status_code=400)

    async def _taken(self, found: dict[str, Any]) -> Response:
        if found.get("type") == "url_verification":
            return JSONResponse({"challenge": found.get("challenge")})
        if events.type_of(found) == events.CLICK:
            return JSONResponse(await self._clicked(found))
        try:
            if not self._bot:
                return Response(status_code=503)  # Feishu sends it again
            if events.concerns_us(found, self._bot):
                await self._app.store.arrivals.accept(
                    "feishu", events.key_of(found), found, task=JOB, lock=events.lock_of(found)
                )
        except DatabaseUnavailable as error:
            log.error("feishu.not_taken", error=type(error).__name__)
            return Response(status_code=503)
        return JSONResponse({})

    async def _clicked(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        working = asyncio.ensure_future(self.clicks.take(body))
        try:
            return await asyncio.wait_for(asyncio.shield(working), ANSWER_SECONDS)
        except TimeoutError:
            return self.clicks.busy()

    async def finish(self) -> None:
        """Let what was begun after an acknowledgement end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something that nobody waits for. Its failure is logged, never raised."""
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- the job

    async def process(self, arrival_id: int) -> None:
        """Look at a stored payload. Repeating it changes nothing."""
        body = await self._app.store.arrivals.take(arrival_id)
        if body is None:
            return
        if events.type_of(body) == events.RECALLED:
            await self._on_recalled(body)
        else:
            said = heard(body, await self._house.people.identity())
            if said is not None:
                await self._on_speech(said)
        await self._app.store.arrivals.done(arrival_id)

    async def _given_up(self, arrival_id: int) -> None:
        log.error("feishu.given_up", arrival=arrival_id)
        await self._app.store.arrivals.done(arrival_id)

    async def _on_speech(self, said: Heard) -> None:
        refusal = await self._house.people.refusal(said.tenant)
        if refusal == "unknown":
            raise ConnectionError("who is that?")  # the job tries again
        if refusal:
            log.info("message.refused", reason=refusal, chat=said.chat)
            return  # nothing goes to other organisations or bots
        said = await self._rooted(said)
        if not await self._is_for_us(said):
            return
        if not said.direct and await self._house.people.shared(said.chat):
            log.info("message.refused", reason="shared", chat=said.chat)
            self._whisper(said, "slack.shared_channel")
            return
        await self._hear(said)

    async def _rooted(self, said: Heard) -> Heard:
        """The message with the first one of its topic: replies may come with a thread id and no root id, or with a
        root id and no thread id (hermes-agent#16018)."""
        if len(self._topics) > TOPICS_MOST:
            self._topics.clear()
        if said.thread and said.root:
            self._topics[said.thread] = said.root
        elif said.thread and not said.root:
            root = self._topics.get(said.thread) or await self._began(said)
            if root and root != said.message:
                return replace(said, root=root)
            self._topics[said.thread] = said.message
        return said

    async def _began(self, said: Heard) -> str:
        """The message that this topic began with, as an earlier question of it says."""
        channel = f"@{said.user}" if said.direct else said.chat
        for conversation in await self._app.store.conversations.list("feishu", channel, limit=50):
            for row in await self._questions(conversation.id):
                if row.address.get("thread_id") == said.thread:
                    return str(row.address.get("root") or "")
        return ""

    async def _is_for_us(self, said: Heard) -> bool:
        """A mention, a direct message, or a follow-up that this chat wants answered.

        Once somebody in a topic speaks to somebody else, the topic is left to them until the bot is mentioned again.
        """
        aside = f"{ASIDE}{said.conversation_id}"
        if said.direct:
            return True
        if said.mentioned:
            if said.root:
                await self._app.store.switches.off(aside)
            return True
        follow = self._settings.follow_in.get(said.chat, self._settings.follow)
        asked = await self._questions(said.conversation_id) if said.root else []
        if not asked:
            return bool(said.root) and await self.commands.corrects(said)
        if follow == "mentions":
            return False
        stranger = follow == "asker" and all(row.asker != f"feishu:{said.user}" for row in asked)
        if said.to_other or stranger:
            by = f"feishu:{said.user}"
            await self._app.by_hand.heard(said.conversation_id, by, said.text, said.key)
            await self._app.store.switches.on(aside, by)
            return False
        return await self._app.store.switches.any_on((aside,)) is None

    async def _hear(self, said: Heard) -> None:
        if said.files:
            await self.commands.keep_files(said)
            return
        command = said.command
        if command is not None and command[0] != "ask":
            await self.commands.run(said, *command)
            return
        if await self.commands.corrected(said):
            return
        if said.is_stop and await self._stopped(said):
            return
        text = command[1] if command is not None else said.text
        if text:
            await self._app.asking.accept(await self._incoming(said, text, privately=command is not None))
        elif command is not None:
            self._whisper(said, "slack.ask_usage")
        elif said.direct and said.kind not in ("text", "post"):
            self._whisper(said, "feishu.only_text")

    async def _incoming(self, said: Heard, text: str, *, privately: bool) -> Incoming:
        """`privately`: asked with /ask, so that the answer goes to its asker alone."""
        direct = said.direct or privately
        user = f"feishu:{said.user}"
        language = language_of(text)
        address: dict[str, Any] = {
            "channel": said.chat,
            "message": said.message,
            "root": said.first,
            "thread": await self._threaded(said),
            "thread_id": said.thread,
            "user": said.user,
            "asked": said.message,
            "private": direct,
            "language": language,
        }
        if privately and not said.direct:
            address = {key: address[key] for key in ("user", "asked", "private", "language")}
            address["asked_in"] = said.chat
        return Incoming(
            platform="feishu",
            dedupe_key=said.key,
            conversation_id=await self.commands.session(said.user) if direct else said.conversation_id,
            channel=f"@{said.user}" if direct else said.chat,
            thread="" if direct else said.first,
            private=direct,
            asker=user,
            text=text,
            sent_at=said.sent_at,
            address=address,
        )

    async def _threaded(self, said: Heard) -> bool:
        """Whether the answer belongs into a topic: in groups always, in direct messages where one was begun."""
        return bool(said.thread) if said.direct else True

    async def _stopped(self, said: Heard) -> bool:
        """ "stop" by somebody whose question is still open takes that question back."""
        conversation = await self.commands.session(said.user) if said.direct else said.conversation_id
        rows = [r for r in await self._questions(conversation) if r.asker == f"feishu:{said.user}"]
        running = [row for row in rows if row.state not in TERMINAL]
        if not running:
            return False
        await self._app.asking.change(Change("feishu", said.key, running[-1].id, f"feishu:{said.user}", None))
        self._whisper(said, "slack.withdrawn")
        return True

    async def _on_recalled(self, body: Mapping[str, Any]) -> None:
        """The question's message was recalled, by its author or an administrator of the chat."""
        event = body.get("event") or {}
        row = await self._asked(str(event.get("chat_id") or ""), str(event.get("message_id") or ""))
        if row is not None:
            await self._app.asking.change(Change("feishu", f"{row.id}:recalled", row.id, row.asker, None))

    async def _asked(self, chat: str, message: str) -> QuestionRow | None:
        if not message:
            return None
        question = await self._app.store.arrivals.question_of("feishu", f"{self._settings.app_id}:{message}")
        if question is None:
            return None
        try:
            return await self._app.store.conversations.question(question)
        except NotFound:
            return None

    async def _questions(self, conversation_id: str) -> list[QuestionRow]:
        try:
            return await self._app.store.conversations.questions(conversation_id)
        except NotFound:
            return []

    def _whisper(self, said: Heard, key: str) -> None:
        text = self._words(language_of(said.text), key)
        self.later(self._house.whisper(said.user, text, f"whisper:{said.message}:{key}"))


async def _logged(work: Awaitable[Any]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - nobody waits for it: its failure must reach the log, whatever it is
        log.error("feishu.afterwards", error=type(error).__name__, at=_where(error))


def _where(error: BaseException) -> str:
    """The file and line that raised it. Not the traceback: its values are people's text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
