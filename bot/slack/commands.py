"""`/kb` and `/ask`. One table drives what `/kb` does, its help and the usage hint of the manifest."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.async_app import AsyncApp

from bot.doctor import examine
from bot.messages import Incoming, NotTaken
from bot.slack import views
from bot.slack.events import Heard, decode, direct_conversation
from bot.slack.render import age, neutral, said
from bot.slack.send import SlackHouse
from bot.slack.uploads import Uploads
from store.conversations import QuestionRow
from store.errors import NotFound
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

Body = dict[str, Any]
RECENT = 50  # conversations that gaps and stats look at
LIST_LETTERS = 8_000
SNIPPET = 160


@dataclass(frozen=True, slots=True)
class Command:
    """`run(user, words)` returns what the person reads. A slow one is answered after its acknowledgement."""

    run: Callable[[str, list[str]], Awaitable[str]]
    admin: bool = True
    slow: bool = False


class Commands:
    def __init__(
        self, app: "App", house: SlackHouse, later: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._app, self._house, self._later = app, house, later
        self._words, self._language = app.words, app.settings.review.language
        self.uploads = Uploads(app, house)
        self.table: Mapping[str, Command] = {
            "help": Command(self._help, admin=False),
            "add": Command(self._how_to_add),  # opens a form instead
            "list": Command(self._list),
            "show": Command(self._show),
            "remove": Command(self._remove),
            "search": Command(self._search, slow=True),
            "status": Command(self._status, slow=True),
            "reviews": Command(self._reviews),
            "gaps": Command(self._gaps, slow=True),
            "stats": Command(self._stats, slow=True),
            "collections": Command(self._collections),
            "audience": Command(self._audience),
            "pause": Command(self._pause),
        }

    def bind(self, bolt: AsyncApp) -> None:
        bolt.command("/kb")(self._kb)
        bolt.command("/ask")(self._ask)
        bolt.view("kb:add")(self._added)

    def _say(self, key: str, **values: object) -> str:
        return self._words(self._language, f"slack.{key}", **values)

    # --- /ask

    async def _ask(self, ack: Any, body: Body) -> None:
        """A private question: answered where only its author sees it, or by direct message when a person decides."""
        text = decode(str(body.get("text") or ""))
        user, channel = body["user_id"], body["channel_id"]
        refusal = await self._house.people.refusal(user, (body["team_id"],))
        if refusal:
            await ack(self._say("guests" if refusal != "unknown" else "unknown_person"))
            return
        language = language_of(text) if text else self._language
        if not text:
            await ack(self._words(language, "slack.ask_usage"))
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
        await ack(self._words(language, "slack.ask_started"))

    # --- /kb

    async def _kb(self, ack: Any, body: Body) -> None:
        name, *words = str(body.get("text") or "help").split() or ["help"]
        command, user = self.table.get(name.lower()), body["user_id"]
        if name.lower() == "add":
            await self._open_form(ack, body)
            return
        if command is None:
            await ack(neutral(self._say("kb.unknown") + "\n" + await self._help(user, [])))
        elif command.admin and not await self._is_admin(user, body["team_id"]):
            await ack(self._say("kb.forbidden"))
        elif command.slow:
            await ack(self._say("loading"))
            self._later(self._answer_later(body, command, words))
        else:
            text = await command.run(user, [decode(word) for word in words])
            await ack(text=neutral(text.split("\n")[0]), blocks=said(text[:LIST_LETTERS]))

    async def _answer_later(self, body: Body, command: Command, words: list[str]) -> None:
        text = await command.run(body["user_id"], [decode(word) for word in words])
        shown = {"text": neutral(text.split("\n")[0]), "blocks": said(text[:LIST_LETTERS])}
        await self._house.calls.respond(body["response_url"], {"response_type": "ephemeral", **shown})

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
        if url:
            await ack(response_action="errors", errors={"url": self._say("kb.no_urls")})
            return
        audience = str(values["audience"].get("value") or "").split()
        collection = str(values["collection"].get("value") or "general").strip()
        await self.uploads.defer(files[0]["id"], user["id"], collection, audience)
        await ack()

    async def add_from_message(self, message: Heard, collection: str) -> None:
        """A file in a direct message, with "kb add" in words: commands carry no files."""
        if not await self._is_admin(message.user, message.team):
            self._later(self._house.whisper(message.channel, message.user, self._say("kb.forbidden")))
            return
        for file in message.files:
            await self.uploads.defer(str(file["id"]), message.user, collection or "general")

    # --- what the table runs

    async def _help(self, user: str, words: list[str]) -> str:
        return "\n".join(
            [self._say("kb.help"), *(f"/kb {name} – {self._say(f'kb.help_{name}')}" for name in self.table)]
        )

    async def _how_to_add(self, user: str, words: list[str]) -> str:
        return self._say("kb.add_how")

    async def _list(self, user: str, words: list[str]) -> str:
        rows = await self._app.admin.list(words[0] if words else None)
        lines = [
            self._say(
                "kb.document_line", id=row.id, title=row.title, collection=row.collection, state=row.state
            )
            for row in rows
        ]
        return "\n".join(lines) or self._say("kb.empty")

    async def _show(self, user: str, words: list[str]) -> str:
        row = await self._document(words)
        if isinstance(row, str):
            return row
        shown = await self._app.store.documents.show(row)
        head = self._say(
            "kb.document_line", id=shown.id, title=shown.title, collection=shown.collection, state=shown.state
        )
        lines = [head, " ".join(shown.audience)]
        if shown.version_id is not None:
            chunks = await self._app.store.documents.chunks(shown.version_id)
            lines += [chunk.text for chunk in chunks[:3]]
        return "\n".join(lines)

    async def _document(self, words: list[str]) -> int | str:
        """The number of a document that exists, or the sentence that says what is wrong."""
        if not words or not words[0].isdigit() or len(words[0]) > 15:
            return self._say("kb.not_a_number")
        try:
            return (await self._app.store.documents.show(int(words[0]))).id
        except NotFound:
            return self._say("kb.not_found", id=words[0])

    async def _remove(self, user: str, words: list[str]) -> str:
        row = await self._document(words)
        if isinstance(row, str):
            return row
        title = (await self._app.store.documents.show(row)).title
        await self._app.admin.remove(row)
        return self._say("kb.removed", title=title)

    async def _search(self, user: str, words: list[str]) -> str:
        found = await self._app.store.search.search(" ".join(words), ("everyone", f"slack:{user}"), top_k=5)
        lines = [f"{p.title} › {' › '.join(p.heading_path)}: {p.text[:SNIPPET]}" for p in found.passages]
        return "\n\n".join(lines) or self._say("kb.empty")

    async def _status(self, user: str, words: list[str]) -> str:
        return "\n".join(
            self._say(
                "kb.status_line",
                mark="✓" if f.ok else "✗",
                name=f.name,
                detail=f"{f.detail} {f.remedy}".strip(),
            )
            for f in await examine(self._app)
        )

    async def _reviews(self, user: str, words: list[str]) -> str:
        rows, now = await self._app.store.reviews.list("pending"), datetime.now(UTC)
        lines = [
            self._say(
                "kb.reviews_line",
                reference=row.id,
                reason=row.reason,
                age=age(self._words, self._language, row.opened_at, now),
            )
            for row in rows
        ]
        return "\n".join(lines) or self._say("kb.empty")

    async def _recent(self) -> list[QuestionRow]:
        found: list[QuestionRow] = []
        for conversation in await self._app.store.conversations.list("slack", limit=RECENT):
            found += await self._app.store.conversations.questions(conversation.id)
        return found

    async def _gaps(self, user: str, words: list[str]) -> str:
        """Questions in channels that the documents did not answer; what people ask privately stays private."""
        lines = [
            f"{row.text[:SNIPPET]}"
            for row in await self._recent()
            if row.state == "declined" and not row.address.get("private")
        ]
        return "\n".join(lines) or self._say("kb.empty")

    async def _stats(self, user: str, words: list[str]) -> str:
        counted = Counter(row.state for row in await self._recent())
        return "\n".join(f"{state}: {count}" for state, count in counted.most_common()) or self._say(
            "kb.empty"
        )

    async def _collections(self, user: str, words: list[str]) -> str:
        counted = Counter(row.collection for row in await self._app.admin.list())
        rows = await self._app.store.documents.collections()
        lines = [self._say("kb.collection_line", name=row.name, count=counted[row.name]) for row in rows]
        return "\n".join(lines) or self._say("kb.empty")

    async def _audience(self, user: str, words: list[str]) -> str:
        row = await self._document(words)
        if isinstance(row, str):
            return row
        if len(words) > 1:
            await self._app.admin.set_audience(row, tuple(words[1:]))
        shown = await self._app.store.documents.show(row)
        return self._say("kb.audience_set", title=shown.title, audience=" ".join(shown.audience))

    async def _pause(self, user: str, words: list[str]) -> str:
        return self._say("kb.not_here")
