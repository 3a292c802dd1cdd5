"""Commands as people type them here: "/kb …" and "/new" in direct messages or after a mention; and the corrections
that reviewers send by answering a card.

Feishu has no slash commands, and its file messages carry no words: files come first, and "/kb add" within half an hour.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog

from bot.commands import Table
from bot.feishu.calls import MESSAGE, Refused
from bot.feishu.events import Heard, direct_conversation, files, unpacked
from bot.feishu.markdown import pages, units
from bot.feishu.render import button, card, row, said
from bot.feishu.send import FeishuHouse
from bot.principals import unreadable
from bot.uploads import Uploads, names_page
from store.deliveries import DeliveryRow
from store.errors import NotFound

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

PENDING = timedelta(minutes=30)
LIST_LETTERS = 6_000
CORRECTION_BYTES = 20_000  # of a correction, as it is shown before it is sent


class Commands:
    def __init__(
        self, app: "App", house: FeishuHouse, later: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._app, self._house, self._later = app, house, later
        self._words, self._language = app.words, app.settings.review.language
        self.table = Table(app, "feishu")
        self.uploads = Uploads(app, "feishu", self._fetch)

    # --- sessions

    async def session(self, user: str) -> str:
        """The conversation that a person's direct messages belong to: since their last "/new"."""
        found = await self._app.store.kept.get(f"feishu:{user}", "session")
        return direct_conversation(user, str(found[-1].data["id"]) if found else "")

    async def _spoken(self, user: str) -> str:
        """The language of somebody's last question; a command has none."""
        try:
            asked = await self._app.store.conversations.questions(await self.session(user))
        except NotFound:
            asked = []
        return asked[-1].language if asked else self._language

    # --- commands

    async def run(self, heard: Heard, name: str, rest: str) -> None:
        """Carry out a command. What it says goes to its author alone."""
        if name == "new":
            language = await self._spoken(heard.user)
            data = {"id": heard.message}
            await self._app.store.kept.put(heard.author, "session", "current", data)
            await self._tell(heard, self._words(language, "feishu.new_session"))
            return
        command, *words = rest.split() or ["help"]
        words = [f"feishu:{heard.chat}" if word == "here" else word for word in words]
        known, person = self.table.commands.get(command.lower()), heard.author
        if known is None:
            unknown = self._words(self._language, "chat.kb.unknown")
            text = f"{unknown}\n{await self.table.commands['help'].run(person, [])}"
        elif known.admin and not await self._is_admin(heard.user):
            text = self._words(self._language, "chat.kb.forbidden")
        elif command.lower() == "add":
            text = await self._add(heard, words)
        else:
            text = await known.run(person, words)
        await self._tell(heard, text)

    async def _is_admin(self, user: str) -> bool:
        return await self._house.people.among(user, self._app.settings.review.admins)

    async def _tell(self, heard: Heard, text: str) -> None:
        """In direct messages below the command; from a group, by direct message."""
        if not text:
            return
        address: dict[str, Any] = {"user": heard.user}
        if heard.direct:
            address |= {"channel": heard.chat, "message": heard.message}
        shown = card(said(text[:LIST_LETTERS]), text.split("\n")[0])
        await self._house.post(f"command:{heard.message}", address, "interactive", shown)

    # --- files

    async def keep_files(self, heard: Heard) -> None:
        """Remember what was handed in; what becomes of it "/kb add" says."""
        if not await self._is_admin(heard.user):
            if heard.direct:
                await self._tell(heard, self._words(self._language, "chat.kb.forbidden"))
            return
        for file in heard.files:
            data = {**file, "message": heard.message}
            await self._app.store.kept.put(heard.author, "file", file["key"], data)
        names = ", ".join(file["name"] for file in heard.files)
        await self._tell(heard, self._words(self._language, "feishu.kb.kept", name=names))

    async def _add(self, heard: Heard, words: list[str]) -> str:
        """A page by its address; else the file that this answers, or all that were handed in within half an hour."""
        person = heard.author
        if names_page(words):
            return await self.uploads.add_page(person, words)
        found: list[Mapping[str, Any]] = await self._quoted(heard) if heard.parent else []
        if not found:
            found = [row.data for row in await self._app.store.kept.get(person, "file", PENDING)]
        if not found:
            return self._words(self._language, "feishu.kb.add_how")
        collection, audience = (words[0] if words else "general"), words[1:]
        wrong = unreadable(audience)
        if wrong:
            return self._words(self._language, "chat.kb.no_principal", names=" ".join(wrong))
        for file in found:
            await self.uploads.defer(file, person, collection, audience)
            await self._app.store.kept.drop(person, "file", str(file["key"]))
        return ""  # the upload itself tells how it goes on

    async def _quoted(self, heard: Heard) -> list[Mapping[str, Any]]:
        """The file in the message that this one answers."""
        try:
            (item,) = (await self._house.calls(MESSAGE, {"message_id": heard.parent}))["items"]
        except (Refused, ValueError, KeyError):
            return []
        body = str((item.get("body") or {}).get("content") or "{}")
        return [
            {**file, "message": heard.parent} for file in files(str(item.get("msg_type")), unpacked(body))
        ]

    async def _fetch(self, file: Mapping[str, Any]) -> tuple[str, bytes]:
        limit = self._app.settings.ingest.max_megabytes * 1_000_000
        try:
            return "", await self._house.calls.download(str(file["message"]), str(file["key"]), limit)
        except Refused as error:
            return "download_failed", str(error).encode()

    # --- corrections

    async def corrects(self, heard: Heard) -> bool:
        """Whether a message without a mention answers a review card."""
        return await self._card_of(heard) is not None

    async def _card_of(self, heard: Heard) -> DeliveryRow | None:
        for message in filter(None, dict.fromkeys((heard.parent, heard.root))):
            found = await self._app.store.deliveries.of_message("feishu", message)
            if found is not None and found.kind == "card":
                return found
        return None

    async def corrected(self, heard: Heard) -> bool:
        """A reviewer's answer to a card: shown once more, to be sent by a click. Not at once: "@Signoff why?" under a
        card must not become the answer."""
        found = await self._card_of(heard) if heard.parent else None
        if found is None or not heard.text:
            return False
        person = heard.author
        await self._app.store.kept.put(person, "edit", heard.message, {"text": heard.text})
        meta = found.content["meta"]
        owner = {"review": meta["review_id"], "version": meta["version_hash"], "edit": heard.message}
        send = button(
            self._words(self._language, "feishu.card.send_edit"), "edit:confirm", "primary", **owner
        )
        first, *more = pages(units(heard.text), CORRECTION_BYTES)
        note = self._words(self._language, "chat.only_beginning") if more else ""
        title = self._words(self._language, "feishu.card.confirm_edit", reference=meta["review_id"])
        shown = card([*first, *(said(note) if note else []), *row([send])], title, title)
        address = {
            "channel": heard.chat, "message": heard.message, "root": heard.first, "thread": True, "user": heard.user,
        }  # fmt: skip
        await self._house.post(f"correction:{heard.message}", address, "interactive", shown)
        return True
