"""The Feishu house: sends replies, brings sent ones up to date, shows progress."""

import hashlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import structlog

from bot.acquaintance import names
from bot.feishu import stream
from bot.feishu.calls import CREATE, PATCH, REACTIONS, REPLY, USER, Calls, Refused
from bot.feishu.cards import review_card
from bot.feishu.markdown import Json
from bot.feishu.people import People
from bot.feishu.progress import Posted, Streams
from bot.feishu.render import card, cards, paragraphs, said
from bot.messages import NotTaken, Platform, Progress, Reply, ResultUnknown
from bot.settings import Feishu
from bot.telling import Setting, people, place_of, question_of
from bot.words import Words
from store import Store

log = structlog.get_logger(__name__)

# open.feishu.cn/document/server-docs/im-v1/message/create: the same uuid posts once within an hour.
UUID_SECONDS = 55 * 60
# A card that Feishu does not show: 230099 (too many tables, 11310, and whatever else is wrong with it), 230025 (30 KB).
UNSHOWABLE = frozenset({230099, 230025, 230001, 300301})
# The message that was to be answered is gone, or is none: its topic's first message is answered in its place.
GONE = frozenset({230011, 231003, 230019, 99992354, 230110})
NO_THREADS = frozenset({230071, 230072})
NO_PLACE = frozenset({230002, 230006, 232009, 232011, 230013, 230035})
TEXT_BYTES = 100_000  # of a text message's 150 KB
POST_BYTES = 24_000
REACTION_PAGES = 20  # of fifty reactions each


class FeishuHouse:
    """Implements `bot.messages.Platform` and `Directory`. Make it with `open_house`."""

    name = "feishu"

    def __init__(
        self, settings: Feishu, store: Store, words: Words, review_chats: Sequence[str] = ()
    ) -> None:
        """`review_chats` are ids of Feishu chats: only who is in one of them decides in Feishu."""
        self.settings = settings
        self.review_chats = tuple(review_chats)
        self.calls = Calls(settings)
        self.people = People(self.calls, settings)
        self.words = words
        # All houses: somebody who asked in Slack has a name on a card in Feishu.
        self.neighbours: Mapping[str, Platform] = {self.name: self}
        self.console = ""  # where it is reached; what the messages to its people lead to
        self.streams = Streams(self.calls, words, store.deliveries, self.post)
        self._flat: set[str] = set()  # groups without topics

    async def close(self) -> None:
        await self.streams.close()
        await self.calls.close()

    # --- Platform

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        """Post `reply` where its question stands; the same purpose posts once.

        Raises `OSError` for what may pass, `NotTaken` for what will not, `ResultUnknown` when an earlier attempt may
        have arrived longer ago than Feishu remembers.
        """
        if reply.kind == "card" and await self.people.shared(str(address["channel"])):
            raise NotTaken("external_chat")  # a draft is for nobody outside (invariant 3)
        if address.get("again") and time.time() - float(address.get("since") or 0) > UUID_SECONDS:
            raise ResultUnknown(purpose)
        begun = await self.streams.finished(purpose)
        shown = await self._rendered(purpose, address, reply)
        try:
            return str(await self._post_all(purpose, address, shown, begun))
        except Refused as error:
            if error.code not in UNSHOWABLE:
                raise
            log.error("delivery.unshowable", purpose=purpose, code=error.code, detail=error.detail[:120])
        return str(await self._plainly(purpose, address, reply))

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        """Show `reply` in place of what is there."""
        posted = Posted.parse(message_id)
        if posted.card == "plain":
            return  # words without a card stay what they are
        shown = await self._rendered(posted.purpose, address, reply)
        for number, (part, content) in enumerate(zip(posted.parts, shown, strict=False)):
            if posted.card and not number:
                question = posted.purpose.split(":")[1]
                entity = await self.streams.entity(question)
                if entity is not None:
                    await self.streams.kept(entity, question).replace(content)
            else:
                body = {"content": json.dumps(content, ensure_ascii=False)}
                await self.calls(PATCH, {"message_id": part}, body=body, pace=f"message:{part}")

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Show a step or a finished sentence. Never waits for Feishu, and loses what Feishu does not take."""
        await self.streams.tell(address, progress)

    # --- Directory

    async def email(self, principal: str) -> str | None:
        """The organisation's own address of a person; None without contact:user.email:readonly."""
        user = principal.removeprefix("feishu:")
        found = (await self.calls(USER, {"user_id": user}, query={"user_id_type": "open_id"}))["user"]
        return str(found.get("enterprise_email") or found.get("email") or "") or None

    # --- Reactions

    async def reacted(self, message_id: str) -> list[str]:
        """Implements `bot.messages.Reactions`."""
        found: set[str] = set()
        for part in Posted.parse(message_id).parts:
            try:
                found |= await self._reacted(part)
            except Refused as error:
                log.info("reactions.none", code=error.code)  # recalled, or without im:message.reactions:read
        return [f"feishu:{user}" for user in sorted(found)]

    async def _reacted(self, message: str) -> set[str]:
        found: set[str] = set()
        page = ""
        for _ in range(REACTION_PAGES):
            query = {"user_id_type": "open_id", "page_size": 50, "page_token": page}
            answer = await self.calls(REACTIONS, {"message_id": message}, query=query)
            operators = [item.get("operator") or {} for item in answer.get("items") or ()]
            found |= {str(o["operator_id"]) for o in operators if o.get("operator_type") == "user"}
            page = str(answer.get("page_token") or "")
            if not answer.get("has_more") or not page:
                break
        return found

    # --- posting

    async def _post_all(
        self, purpose: str, address: Mapping[str, Any], shown: list[Json], begun: stream.Cards | None
    ) -> Posted:
        parts: list[str] = []
        entity = ""
        for number, content in enumerate(shown):
            if not number and begun is not None and await self._filled(begun, content):
                parts.append(begun.entity.message_id)
                entity = begun.entity.card_id
                continue
            parts.append(await self.post(f"{purpose}#{number}", address, "interactive", content))
        return Posted(tuple(parts), entity, purpose)

    async def _filled(self, begun: stream.Cards, content: Json) -> bool:
        """Put the answer into the card that streaming began; False when that card takes nothing any more."""
        try:
            await begun.replace(content)
        except Refused as error:
            log.warning("stream.lost", code=error.code)
            if error.code in UNSHOWABLE:
                raise
            return False
        return True

    async def post(self, identity: str, address: Mapping[str, Any], kind: str, content: Json) -> str:
        """One message, as near to its question as it can be, never as a topic of its own. Returns its id."""
        body = {
            "msg_type": kind,
            "content": json.dumps(content, ensure_ascii=False),
            # Computed from what is sent, not from the attempt (QwenPaw#2421, hermes-agent#46361).
            "uuid": hashlib.sha256(f"{identity}#{kind}".encode()).hexdigest()[:40],
        }
        channel, user = str(address.get("channel") or ""), str(address.get("user") or "")
        try:
            if address.get("message"):
                return await self._replied(address, body)
            if channel:
                return await self._created("chat_id", channel, body)
        except Refused as error:
            if error.code not in GONE | NO_PLACE or not user:
                raise
            # The question or the chat is gone, or we were put out of it: the person is told all the same. A new
            # message in its group would be a topic that nobody began (hermes-agent#16620).
            log.warning("delivery.moved", code=error.code)
            body["uuid"] = hashlib.sha256(f"{identity}#{kind}#direct".encode()).hexdigest()[:40]
        return await self._created("open_id", user, body)

    async def _created(self, kind: str, receiver: str, body: Json) -> str:
        answer = await self.calls(
            CREATE,
            query={"receive_id_type": kind},
            body={"receive_id": receiver, **body},
            pace=f"chat:{receiver}",
        )
        return str(answer["message_id"])

    async def _replied(self, address: Mapping[str, Any], body: Json) -> str:
        """Answer the message; where it is gone, the first one of its topic."""
        targets = list(
            dict.fromkeys([str(address["message"]), str(address.get("root") or address["message"])])
        )
        for target in targets:
            try:
                return await self._reply_to(target, address, body)
            except Refused as error:
                if error.code not in GONE or target == targets[-1]:
                    raise
        raise Refused(230011)

    async def _reply_to(self, message: str, address: Mapping[str, Any], body: Json) -> str:
        chat = str(address.get("channel") or "")
        threaded = bool(address.get("thread")) and chat not in self._flat
        try:
            answer = await self.calls(
                REPLY,
                {"message_id": message},
                body={**body, "reply_in_thread": threaded},
                pace=f"chat:{chat}",
            )
        except Refused as error:
            if error.code not in NO_THREADS or not threaded:
                raise
            self._flat.add(chat)
            return await self._reply_to(message, address, body)
        return str(answer["message_id"])

    async def _plainly(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> Posted:
        """The words alone, for what no card shows: as a post, as text, as a file; and saying so."""
        lines = paragraphs(reply, self.words(reply.language, "feishu.plain"))
        whole = "\n".join(lines)
        if len(whole.encode()) <= POST_BYTES:
            language = "zh_cn" if reply.language == "zh" else "en_us"
            post = {
                language: {"title": "", "content": [[{"tag": "text", "text": line or " "}] for line in lines]}
            }
            try:
                return Posted((await self.post(f"{purpose}#plain", address, "post", post),), "plain", purpose)
            except Refused as error:
                if error.code not in UNSHOWABLE:
                    raise
        if len(whole.encode()) <= TEXT_BYTES:
            try:
                # Text knows one tag, <at …>: broken up, it stays letters.
                text = {"text": whole.replace("<", "<\u2060")}
                return Posted((await self.post(f"{purpose}#plain", address, "text", text),), "plain", purpose)
            except Refused as error:
                if error.code not in UNSHOWABLE:
                    raise
        key = await self.calls.upload("answer.md", whole.encode())
        note = await self.post(
            f"{purpose}#note", address, "text", {"text": self.words(reply.language, "feishu.as_file")}
        )
        part = await self.post(f"{purpose}#plain", address, "file", {"file_key": key})
        return Posted((note, part), "plain", purpose)

    async def whisper(self, user: str, text: str, identity: str) -> None:
        """A sentence that only `user` sees, in their direct messages. Lossy: not everybody can be written to."""
        await self.show(user, card(said(text), text), identity)

    async def show(self, user: str, content: Json, identity: str) -> bool:
        """Put a card before one person alone; False when it does not reach them."""
        try:
            await self.post(identity, {"user": user}, "interactive", content)
        except (NotTaken, OSError) as error:
            log.info("whisper.lost", error=str(error))
            return False
        return True

    # --- rendering

    async def _rendered(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> list[Json]:
        shown = people(reply)
        if reply.kind == "card":
            return [review_card(reply, await self.setting(shown | {place_of(reply)}))]
        setting = await self.setting(
            shown,
            question=question_of(purpose),
            private=bool(address.get("private")),
            share_to=str(address.get("asked_in") or ""),
        )
        return cards(reply, setting)

    async def setting(
        self, people: set[str] | None = None, *, question: str = "", private: bool = False, share_to: str = ""
    ) -> Setting:
        """What rendering needs: the words, the time, and the names of those people and places."""
        called = await names(self.neighbours.values(), people or ())
        return Setting(self.words, datetime.now(UTC), question, private, share_to, called, self.console)

    # --- Membership, and what names and buttons need

    async def inside(self, principal: str, channels: Sequence[str]) -> bool:
        """Implements `bot.messages.Membership`."""
        return await self.people.inside(principal.removeprefix("feishu:"), channels)

    async def called(self, identity: str) -> str:
        return await self.people.called(identity)

    async def shared(self, channel: str) -> bool:
        return await self.people.shared(channel)


@asynccontextmanager
async def open_house(
    settings: Feishu, store: Store, words: Words, places: Sequence[str] = ()
) -> AsyncIterator[FeishuHouse]:
    """`places` are the review channels of all platforms, as principals."""
    own = [place.removeprefix("feishu:") for place in places if place.startswith("feishu:")]
    house = FeishuHouse(settings, store, words, own)
    try:
        yield house
    finally:
        await house.close()
