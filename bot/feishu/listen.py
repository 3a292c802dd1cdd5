"""What Feishu tells us: a payload is stored, acknowledged, and only then looked at, by a job.

One door for both transports. The job asks who somebody is, what kind of chat this is, and turns what was said into a
question, a command or a correction; it may run twice, and changes nothing the second time.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.afterwards import Afterwards
from bot.buttons import Buttons
from bot.feishu import events, webhook
from bot.feishu.calls import MESSAGE, NoToken, Refused
from bot.feishu.clicks import Clicks
from bot.feishu.commands import Commands
from bot.feishu.connection import ANSWER_SECONDS, Runner, Takers, Timing
from bot.feishu.events import Heard, heard
from bot.feishu.send import FeishuHouse
from bot.following import is_for_us, is_stop
from bot.messages import MALFORMED, CannotStart, Change, Incoming
from bot.telling import quoted
from store.conversations import QuestionRow
from store.errors import DatabaseUnavailable, StoreError
from store.queue import Retry
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

JOB = "feishu_event"
TRYING = Retry(attempts=5, initial_seconds=0.5, longest_seconds=10.0)
TELL_SECONDS = 60.0
BEGIN_AGAIN = 5.0
TOPICS_MOST = 5_000
REFRESH = 60.0  # seconds between two looks at who is in the review chats


class Listener:
    """Binds the house to an `App`; run it with `run_connection`, or mount `endpoint`."""

    def __init__(self, app: "App", house: FeishuHouse, timing: Timing | None = None) -> None:
        self._app, self._house = app, house
        self._words, self._settings = app.words, house.settings
        self._timing = timing
        self._bot = ""
        self._topics: dict[str, str] = {}  # thread id → the message that began it
        self._door = app.store.arrivals.door()
        self.runner: Runner | None = None
        self.later = Afterwards("feishu")
        self._buttons = Buttons(app, house)
        self.clicks = Clicks(app, house, self._buttons, self.later)
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
            await self._stay_acquainted()
        finally:
            await self.later.finish()

    async def run_connection(self) -> None:
        """Stay connected until cancelled."""
        await self._begin()
        takers = Takers(event=self._take_in_thread, click=self.clicks.take, busy=self.clicks.busy)
        self.runner = Runner(self._settings, takers, self._timing)
        self._app.health["feishu"] = self.runner.unwell
        self.runner.start()
        acquainted = asyncio.create_task(self._stay_acquainted(), name="feishu acquainted")
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
            acquainted.cancel()
            await self.runner.stop()
            self._door.close()
            self._app.health.pop("feishu", None)
            await self.later.finish()

    async def _stay_acquainted(self) -> None:
        """Keep what clicks depend on fresh: no click waits until Feishu says who is in the review chat."""
        while True:
            await self._house.people.refresh(self._house.review_chats)
            await asyncio.sleep(REFRESH)

    async def _tell_doctor(self, problem: str) -> None:
        """`signoff doctor` is another process."""
        try:
            await self._app.store.kept.put("feishu:", "connection", "state", {"problem": problem})
        except StoreError as error:
            log.warning("feishu.untold", error=type(error).__name__)

    def _take_in_thread(self, body: Mapping[str, Any]) -> None:
        """In the connection's thread: stored when it returns. Raises when it could not be."""
        if events.concerns_us(body, self._bot):
            began = time.perf_counter()
            self._door.accept("feishu", events.key_of(body), body, task=JOB, lock=events.lock_of(body))
            self._app.telemetry.metrics.acknowledged("feishu", time.perf_counter() - began)

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
            self._whisper(said, "chat.shared_channel")
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
            for row in await self._buttons.questions(conversation.id):
                if row.address.get("thread_id") == said.thread:
                    return str(row.address.get("root") or "")
        return ""

    async def _aside(self, said: Heard) -> None:
        await self._app.by_hand.heard(said.conversation_id, said.author, said.text, said.key)

    async def _is_for_us(self, said: Heard) -> bool:
        """Also what answers a review card."""
        follow = self._settings.follow_in.get(said.chat, self._settings.follow)
        if await is_for_us(
            said.spoken, follow, self._app.store.switches, self._buttons.questions, partial(self._aside, said)
        ):
            return True
        return bool(said.root) and await self.commands.corrects(said)

    async def _hear(self, said: Heard) -> None:
        command = said.command
        if said.files:
            await self.commands.keep_files(said)
        elif command is not None and command[0] != "ask":
            await self.commands.run(said, *command)
        elif not await self.commands.corrected(said) and not await self._stopped(said):
            await self._ask(said, said.text if command is None else command[1], privately=command is not None)

    async def _stopped(self, said: Heard) -> bool:
        if not is_stop(said.text):
            return False
        conversation = await self._conversation(said, private=said.direct)
        stopped = await self._buttons.stop_in_words(conversation, said.author, said.key)
        if stopped is not None:
            self._whisper(said, "chat.withdrawn", stopped.text)
        return stopped is not None

    async def _ask(self, said: Heard, text: str, *, privately: bool) -> None:
        """`privately`: asked with /ask, so that the answer goes to its asker alone."""
        if text:
            await self._app.asking.accept(await self._incoming(said, text, privately=privately))
        elif privately:
            self._whisper(said, "chat.ask_usage")
        elif said.direct and said.kind not in ("text", "post"):
            self._whisper(said, "feishu.only_text")

    async def _quoted(self, said: Heard) -> str:
        """What others wrote and this message answers: it is what "this" means. What was asked here, and what we
        answered, is remembered already."""
        if not said.parent or await self._asked(said.parent) is not None:
            return ""
        try:
            items = (await self._house.calls(MESSAGE, {"message_id": said.parent}))["items"]
        except (Refused, KeyError):
            return ""
        return "\n\n".join(
            quoted(text) for text in (events.words_in(item, self._bot) for item in items) if text
        )

    async def _incoming(self, said: Heard, text: str, *, privately: bool) -> Incoming:
        direct = said.direct or privately
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
            conversation_id=await self._conversation(said, private=direct),
            channel=f"@{said.user}" if direct else said.chat,
            thread="" if direct else said.first,
            private=direct,
            asker=said.author,
            text="\n\n".join(filter(None, (text, await self._quoted(said)))),
            sent_at=said.sent_at,
            address=address,
        )

    async def _conversation(self, said: Heard, *, private: bool) -> str:
        return await self.commands.session(said.user) if private else said.conversation_id

    async def _threaded(self, said: Heard) -> bool:
        """Whether the answer belongs into a topic: in groups always, in direct messages where one was begun."""
        return bool(said.thread) if said.direct else True

    async def _on_recalled(self, body: Mapping[str, Any]) -> None:
        """The question's message was recalled, by its author or an administrator of the chat."""
        event = body.get("event") or {}
        row = await self._asked(str(event.get("message_id") or ""))
        if row is not None:
            await self._app.asking.change(Change("feishu", f"{row.id}:recalled", row.id, row.asker, None))

    async def _asked(self, message: str) -> QuestionRow | None:
        if not message:
            return None
        question = await self._app.store.arrivals.question_of("feishu", f"{self._settings.app_id}:{message}")
        return await self._buttons.question(question) if question is not None else None

    def _whisper(self, said: Heard, key: str, text: str = "") -> None:
        """A sentence for its author alone, in the language of what was said."""
        text = text or self._words(language_of(said.text), key)
        self.later(self._house.whisper(said.user, text, f"whisper:{said.message}:{key}"))
