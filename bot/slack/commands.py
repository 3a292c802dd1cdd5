"""`/kb` and `/ask`. One table drives what `/kb` does, its help and the usage hint of the manifest."""

import re
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.async_app import AsyncApp

from bot.commands import Command, Table
from bot.messages import Incoming, NotTaken
from bot.principals import unreadable
from bot.slack import views
from bot.slack.events import Heard, decode, direct_conversation
from bot.slack.render import neutral, said
from bot.slack.send import SlackHouse
from bot.slack.uploads import SlackUploads
from bot.uploads import names_page
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

Body = dict[str, Any]
LETTERS = 8_000  # of what a command says in one message
LINK = re.compile(r"<(https?://[^|>]+)(?:\|[^>]*)?>")
MENTION = re.compile(r"<(?:[@#]|!subteam\^)(?P<id>[A-Z0-9]+)(?:\|[^>]*)?>")


class Commands:
    def __init__(
        self, app: "App", house: SlackHouse, later: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._app, self._house, self._later = app, house, later
        self._words, self._language = app.words, app.settings.review.language
        self.uploads = SlackUploads(app, house)
        self.table = Table(app, "slack").commands

    def bind(self, bolt: AsyncApp) -> None:
        bolt.command("/kb")(self._kb)
        bolt.command("/ask")(self._ask)
        bolt.view("kb:add")(self._added)

    def _say(self, key: str, **values: object) -> str:
        return self._words(self._language, f"chat.{key}", **values)

    # --- /ask

    async def _ask(self, ack: Any, body: Body) -> None:
        """A private question: answered where only its author sees it, or by direct message when a person decides."""
        text = decode(str(body.get("text") or ""))
        user, channel = body["user_id"], body["channel_id"]
        language = language_of(text) if text else self._language
        refusal = await self._house.people.refusal(user, (body["team_id"],))
        if refusal:
            key = "guests" if refusal != "unknown" else "unknown_person"
            await ack(self._words(language, f"chat.{key}"))
            return
        if not text:
            await ack(self._words(language, "chat.ask_usage"))
            return
        await self._app.asking.accept(
            Incoming(
                platform="slack",
                dedupe_key=f"command:{body['trigger_id']}",
                conversation_id=direct_conversation(user),
                channel=f"@{user}",
                thread="",
                private=True,
                asker=f"slack:{user}",
                text=text,
                sent_at=datetime.now(UTC),
                address={
                    "team": body["team_id"],
                    "channel": channel,
                    "user": user,
                    "private": True,
                    "language": language,
                    "response_url": body["response_url"],
                    "asked_at": time.time(),
                    "asked_in": "" if channel.startswith("D") else channel,
                },
            )
        )
        await ack(self._words(language, "chat.ask_started"))

    # --- /kb

    async def _kb(self, ack: Any, body: Body) -> None:
        name, *words = principals(str(body.get("text") or "help"), body["channel_id"]).split() or ["help"]
        command, person = self.table.get(name.lower()), f"slack:{body['user_id']}"
        if name.lower() == "add" and not names_page(words):
            await self._open_form(ack, body)
            return
        if command is None:
            text = f"{self._say('kb.unknown')}\n{await self.table['help'].run(person, [])}"
            await ack(**_shown(text))
        elif command.admin and not await self._is_admin(body["user_id"], body["team_id"]):
            await ack(self._say("kb.forbidden"))
        elif name.lower() == "add":
            await ack(**_shown(await self.uploads.add_page(person, words)))
        elif command.slow:
            await ack(self._say("loading"))
            self._later(self._answer_later(body, command, words))
        else:
            await ack(**_shown(await command.run(person, words)))

    async def _answer_later(self, body: Body, command: Command, words: list[str]) -> None:
        text = await command.run(f"slack:{body['user_id']}", words)
        await self._house.calls.respond(body["response_url"], {"response_type": "ephemeral", **_shown(text)})

    async def _is_admin(self, user: str, team: str) -> bool:
        people = self._house.people
        return not await people.refusal(user, (team,)) and await people.among(
            user, self._app.settings.review.admins
        )

    async def _open_form(self, ack: Any, body: Body) -> None:
        """The loading view first: the trigger lives three seconds, and who may add is asked afterwards."""
        setting, client = await self._house.setting(), self._house.calls.client
        try:
            answer = await self._house.calls(
                client.views_open, trigger_id=body["trigger_id"], view=views.loading(setting, self._language)
            )
        except (NotTaken, OSError) as error:
            log.warning("view.lost", error=str(error))
            await ack(self._say("failed"))
            return
        await ack()
        if await self._is_admin(body["user_id"], body["team_id"]):
            names = [row.name for row in await self._app.store.documents.collections()]
            view = views.add(names, setting, self._language)
        else:
            view = views.sentence(setting, self._language, self._say("kb.forbidden"))
        shown = answer["view"]
        await self._house.calls(client.views_update, view_id=shown["id"], hash=shown.get("hash"), view=view)

    async def _added(self, ack: Any, body: Body) -> None:
        user = body["user"]
        if not await self._is_admin(user["id"], user.get("team_id") or ""):
            await ack(response_action="errors", errors={"file": self._say("kb.forbidden")})
            return
        values = {key: next(iter(entry.values())) for key, entry in body["view"]["state"]["values"].items()}
        files, url = values["file"].get("files") or [], values["url"].get("value")
        if bool(files) == bool(url):
            problem = self._say("kb.add_both" if files else "kb.add_nothing")
            await ack(response_action="errors", errors={"file": problem})
            return
        audience = principals(str(values["audience"].get("value") or ""), "").split()
        collection = str(values["collection"].get("value") or "general").strip()
        wrong = unreadable(audience)
        if wrong:
            problem = self._say("kb.no_principal", names=" ".join(wrong))
            await ack(response_action="errors", errors={"audience": problem})
            return
        person = f"slack:{user['id']}"
        if url:
            await self.uploads.defer_page(str(url), person, collection, audience)
            await ack()
            return
        file = {"key": files[0]["id"], "name": ""}
        await self.uploads.defer(file, person, collection, audience)
        await ack()

    async def add_from_message(self, message: Heard, collection: str) -> None:
        """A file in a direct message, with "kb add" in words: commands carry no files."""
        if not await self._is_admin(message.user, message.team):
            self._later(self._house.whisper(message.channel, message.user, self._say("kb.forbidden")))
            return
        for file in message.files:
            wanted = {"key": str(file["id"]), "name": ""}
            await self.uploads.defer(wanted, f"slack:{message.user}", collection or "general", [])


def principals(text: str, channel: str) -> str:
    """The words of a command with Slack's mentions as principals: a person, a channel, a user group, "here"."""
    found = MENTION.sub(lambda match: f" slack:{match['id']} ", LINK.sub(r" \1 ", text))
    words = [f"slack:{channel}" if word == "here" else word for word in found.split()]
    return decode(" ".join(words))


def _shown(text: str) -> dict[str, Any]:
    """What only the one who typed reads; more than one message holds is cut, and says so."""
    cut = text if len(text) <= LETTERS else text[:LETTERS].rsplit("\n", 1)[0] + "\n…"
    return {"text": neutral(cut.split("\n")[0]), "blocks": said(cut)}
