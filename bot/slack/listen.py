"""What Slack tells us: each payload is translated, stored, and only then acknowledged.

One set of listeners for both transports. `process_before_response` makes Bolt acknowledge after the listener has
returned; when it raises (the database is down) nothing is acknowledged and Slack sends the payload again.
"""

import logging
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from starlette.requests import Request
from starlette.responses import Response

from bot.acquaintance import Unknown
from bot.afterwards import Afterwards, where
from bot.buttons import Buttons
from bot.following import is_for_us, is_stop
from bot.messages import MALFORMED, CannotStart, Change, Incoming, NotTaken
from bot.slack.bolt import (
    acknowledged,
    authorized_as,
    code_of,
    failed,
    ignored,
    rate_limited,
)
from bot.slack.clicks import Clicks
from bot.slack.commands import Commands
from bot.slack.doctor import review_channels
from bot.slack.events import ADD, Heard, heard
from bot.slack.render import first_sentence
from bot.slack.send import SlackHouse
from bot.slack.signature import signed
from bot.slack.socket import Connection
from store.conversations import QuestionRow
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

READY_WITHOUT = 30.0  # seconds without a connection that a regular refresh may take
TITLE = 80  # characters of an agent thread's title
SILENT = frozenset({"bot", "stranger"})  # refused without a word: nothing goes to other organisations or bots
WORDS = {
    "guest": "guests",
    "unknown": "unknown_person",
    "shared": "shared_channel",
    "unreadable": "unreadable",
}


class Listener:
    """Binds the listeners to an `App`; run it with `run_socket`, or mount `endpoint` at /slack/events."""

    def __init__(self, app: "App", house: SlackHouse) -> None:
        self._app, self._house = app, house
        self._words = app.words
        self._settings = house.settings
        self.later = Afterwards("slack")
        self._buttons = Buttons(app, house)
        self.clicks = Clicks(app, house, self._buttons, self.later)
        self.commands = Commands(app, house, self.later)
        self.bolt = self._bolt()
        self.connection: Connection | None = None

    @property
    def uses_socket(self) -> bool:
        return self._settings.app_token is not None

    # --- transports

    async def start(self) -> None:
        """Ask Slack whether our tokens work, and what is wrong with the review channels, before anything depends on
        it. Raises `CannotStart`."""
        try:
            await self._house.people.identity()
        except SlackApiError as error:
            raise CannotStart(
                f"Slack refuses SLACK_BOT_TOKEN ({code_of(error)}): copy it anew from the app's page."
            ) from None
        for finding in await review_channels(self._app, self._house):
            if not finding.ok:
                log.error(
                    "slack.review_channel", name=finding.name, detail=finding.detail, remedy=finding.remedy
                )
        if self._settings.app_token is None:
            return
        try:
            await self._house.calls.client.apps_connections_open(
                app_token=self._settings.app_token.get_secret_value()
            )
        except SlackApiError as error:
            raise CannotStart(
                f"Slack refuses SLACK_APP_TOKEN ({code_of(error)}): it needs the scope connections:write."
            ) from None

    async def run_socket(self) -> None:
        """Stay connected over Socket Mode until cancelled; what has gone deaf is connected anew."""
        await self.start()
        if self._settings.app_token is None:
            raise CannotStart("SLACK_APP_TOKEN is missing: Socket Mode needs it.")
        token = self._settings.app_token.get_secret_value()
        took = partial(self._app.telemetry.metrics.acknowledged, "slack")
        self.connection = Connection(self.bolt, token, self._settings.api_url, self._awake, took)
        try:
            await self.connection.run()
        finally:
            await self.later.finish()

    def deaf(self) -> bool:
        """Whether nothing that happens in Slack has reached this process for longer than a refresh takes."""
        if not self.uses_socket:
            return False
        return self.connection is None or self.connection.deaf(READY_WITHOUT)

    async def _awake(self) -> None:
        """The regular call: it keeps the connection awake, and what clicks depend on fresh."""
        try:
            await self._house.calls(self._house.calls.client.auth_test)
        except (NotTaken, OSError) as error:
            log.warning("slack.unreachable", error=str(error))
        await self._house.people.refresh(self._house.review_channels)

    async def endpoint(self, request: Request) -> Response:
        """Signed HTTP: POST /slack/events takes events, clicks and commands."""
        secret = self._settings.signing_secret.get_secret_value() if self._settings.signing_secret else ""
        if not signed(await request.body(), request.headers, secret, time.time()):
            log.warning("slack.forged")
            return Response(status_code=401)
        try:
            response: Response = await AsyncSlackRequestHandler(self.bolt).handle(request)
        except MALFORMED as error:
            log.error("slack.malformed", error=type(error).__name__, at=where(error))
            return Response(status_code=400)
        return response

    # --- binding

    def _bolt(self) -> AsyncApp:
        secret = self._settings.signing_secret
        quiet = logging.getLogger("slack_bolt")
        quiet.setLevel(logging.ERROR)  # at INFO a wrong signature logs the whole body: people's text
        bolt = AsyncApp(
            logger=quiet,
            name="signoff",
            client=AsyncWebClient(base_url=self._settings.api_url),
            authorize=authorized_as(self._house),
            signing_secret=secret.get_secret_value() if secret else "",
            process_before_response=True,
            attaching_conversation_kwargs_enabled=False,
            attaching_function_token_enabled=False,
        )
        bolt.use(rate_limited)
        bolt.event("app_mention")(self._on_speech)
        bolt.event("message")(self._on_speech)
        for name in ("app_home_opened", "assistant_thread_started"):
            bolt.event(name)(self._on_opened)
        for name in ("tokens_revoked", "app_uninstalled"):
            bolt.event(name)(self._on_lost)
        self.clicks.bind(bolt)
        self.commands.bind(bolt)
        # Last: whatever nobody asked for is acknowledged all the same, or Slack repeats it, and at 95 % failures
        # turns our subscriptions off.
        everything = re.compile(".*", re.DOTALL)
        bolt.event(everything)(ignored)
        for register in (bolt.action, bolt.view, bolt.view_closed, bolt.shortcut, bolt.command, bolt.options):
            register(everything)(acknowledged)
        bolt.error(failed)
        return bolt

    # --- events

    async def _on_speech(self, body: dict[str, Any]) -> None:
        event = body["event"]
        if event.get("subtype") == "message_changed":
            await self._on_edit(body)
        elif event.get("subtype") == "message_deleted":
            await self._on_deletion(event.get("channel", ""), event.get("previous_message") or {}, body)
        else:
            said = heard(body, await self._house.people.identity())
            if said is not None and await self._is_for_us(said):
                await self._hear(said)

    async def _aside(self, said: Heard) -> None:
        await self._app.by_hand.heard(said.conversation_id, said.author, said.text, said.key)

    async def _is_for_us(self, said: Heard) -> bool:
        follow = self._settings.follow_in.get(said.channel, self._settings.follow)
        return await is_for_us(
            said.spoken, follow, self._app.store.switches, self._buttons.questions, partial(self._aside, said)
        )

    async def _hear(self, said: Heard) -> None:
        refusal = await self._refusal(said)
        if refusal:
            log.info("message.refused", reason=refusal, channel=said.channel)
            if refusal not in SILENT:
                self._whisper(said, self._words(language_of(said.text), f"chat.{WORDS[refusal]}"))
            return
        if is_stop(said.text):
            stopped = await self._buttons.stop_in_words(said.conversation_id, said.author, said.key)
            if stopped is not None:
                self._whisper(said, stopped.text)
                return
        wants_upload = ADD.match(said.text)
        if said.files and said.direct and wants_upload:
            await self.commands.add_from_message(said, wants_upload["collection"])
            return
        if not said.text:
            return
        question = await self._app.asking.accept(self._incoming(said))
        if question is not None and said.direct and said.thread:
            self.later(self._title(said))

    async def _title(self, said: Heard) -> None:
        """An agent's thread is found again by what was asked in it first."""
        if len(await self._buttons.questions(said.conversation_id)) > 1:
            return
        if await self._house.people.can("assistant:write"):
            await self._house.calls(
                self._house.calls.client.assistant_threads_setTitle,
                channel_id=said.channel,
                thread_ts=said.thread,
                title=first_sentence(said.text)[:TITLE],
            )

    async def _refusal(self, said: Heard) -> str:
        refusal = await self._house.people.refusal(said.user, said.teams)
        if refusal or said.direct:
            return refusal
        if said.channel in self._settings.shared_channels:
            return ""
        try:
            place = await self._house.people.channel(said.channel)
        except Unknown:
            return "unreadable"
        return "shared" if said.shared or place.shared else ""

    def _incoming(self, said: Heard) -> Incoming:
        thread = said.thread or ("" if said.direct else said.ts)
        address = {
            "team": said.team,
            "channel": said.channel,
            "thread": thread or None,
            "user": said.user,
            "asked": said.ts,
            "private": said.direct,
            "language": language_of(said.text),
        }
        return Incoming(
            platform="slack",
            dedupe_key=said.key,
            conversation_id=said.conversation_id,
            channel=f"@{said.user}" if said.direct else said.channel,
            thread=thread,
            private=said.direct,
            asker=said.author,
            text=said.text,
            sent_at=said.sent_at,
            address=address,
        )

    async def _on_edit(self, body: dict[str, Any]) -> None:
        """Link previews, reply counts and our own updates arrive as edits too: only another text is one."""
        event = body["event"]
        message, before = event.get("message") or {}, event.get("previous_message") or {}
        if message.get("subtype") == "tombstone":
            await self._on_deletion(event["channel"], before or message, body)
            return
        if message.get("text") == before.get("text") or not message.get("user") or message.get("bot_id"):
            return
        changed = {
            **body,
            "event": {**message, "channel": event["channel"], "channel_type": event.get("channel_type")},
        }
        said = heard(changed, await self._house.people.identity())
        row = await self._asked(said) if said else None
        if said is None or row is None or row.asker != said.author:
            return
        moment = (message.get("edited") or {}).get("ts") or event["ts"]
        await self._app.asking.change(Change("slack", f"{said.key}:{moment}", row.id, row.asker, said.text))

    async def _on_deletion(self, channel: str, message: dict[str, Any], body: dict[str, Any]) -> None:
        gone = {**body, "event": {**message, "subtype": None, "hidden": False, "channel": channel}}
        said = heard(gone, await self._house.people.identity())
        row = await self._asked(said) if said else None
        if said is not None and row is not None:
            await self._app.asking.change(Change("slack", f"{said.key}:deleted", row.id, said.author, None))

    async def _asked(self, said: Heard) -> QuestionRow | None:
        rows = await self._buttons.questions(said.conversation_id)
        return next((row for row in reversed(rows) if row.address.get("asked") == said.ts), None)

    async def _on_opened(self, event: dict[str, Any]) -> None:
        """Suggest how to begin: in an agent's tab without a thread, in an older assistant's thread with it."""
        thread = event.get("assistant_thread") or {}
        user = event.get("user") or thread.get("user_id") or ""
        if event.get("tab", "messages") != "messages" or not await self._house.people.can("assistant:write"):
            return
        if await self._house.people.refusal(user):
            return
        self.later(self._suggest(event.get("channel") or thread["channel_id"], thread.get("thread_ts")))

    async def _suggest(self, channel: str, thread: str | None) -> None:
        words, language = self._words, self._app.settings.review.language
        prompts = [
            {"title": words(language, f"chat.{key}"), "message": words(language, f"chat.{key}_message")}
            for key in ("prompt_documents", "prompt_ask")
        ]
        client = self._house.calls.client
        await self._house.calls(
            client.assistant_threads_setSuggestedPrompts,
            channel_id=channel,
            thread_ts=thread,
            prompts=prompts,
        )

    async def _on_lost(self, event: dict[str, Any]) -> None:
        log.error("slack.lost", what=event.get("type"))

    # --- words

    def _whisper(self, said: Heard, text: str) -> None:
        self.later(self._house.whisper(said.channel, said.user, text, said.thread or None))
