"""The Slack house: sends replies, brings sent ones up to date, shows progress."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from bot.acquaintance import Unknown, names
from bot.messages import NotTaken, Platform, Progress, Reply, ResultUnknown
from bot.settings import Slack
from bot.slack.calls import Calls
from bot.slack.cards import card
from bot.slack.people import People
from bot.slack.posted import Posted
from bot.slack.progress import Streams
from bot.slack.render import Message, context, messages, neutral
from bot.slack.richtext import BLOCKS
from bot.telling import Setting, people, place_of, question_of
from bot.words import Words
from store import Store

log = structlog.get_logger(__name__)

EVENT = "signoff_delivery"  # of the metadata that a message is found by
UPDATE_GAP = 1.2  # seconds between two updates of one message; chat.update is tier 3
LOOK_BACK = 200  # messages of a thread or channel that are looked through
PLAIN = 3_900  # characters of a message without blocks; docs: keep below 4,000
RESPONSE_SECONDS = 25 * 60  # of a response_url's 30 minutes
TOO_MUCH = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
NO_PLACE = frozenset(
    {"not_in_channel", "channel_not_found", "is_archived", "thread_not_found", "restricted_action"}
)


class SlackHouse:
    """Implements `bot.messages.Platform`. Make it with `open_house`."""

    name = "slack"

    def __init__(
        self, settings: Slack, store: Store, words: Words, review_channels: Sequence[str] = ()
    ) -> None:
        """`review_channels` are ids of Slack channels: only who is in one of them decides in Slack."""
        self.settings = settings
        self.review_channels = tuple(review_channels)
        self.calls = Calls(settings)
        self.people = People(self.calls.client, settings)
        self.words = words
        # All houses: somebody who asked in Feishu has a name on a card in Slack.
        self.neighbours: Mapping[str, Platform] = {self.name: self}
        self.console = ""  # where it is reached; what the messages to its people lead to
        self.streams = Streams(self.calls, words, store.deliveries)
        self._links: dict[str, str] = {}
        self._updated: dict[str, float] = {}
        self._latest: dict[str, int] = {}

    async def close(self) -> None:
        await self.streams.close()
        await self.calls.close()

    # --- Platform

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        """Post `reply` in its thread. After an unknown result the thread is searched before anything is posted again.

        Raises `OSError` for what may pass, `NotTaken` for what will not, `ResultUnknown` where it cannot be looked up.
        """
        if purpose.startswith(
            "stream:"
        ):  # killed before its ts was stored: the answer is a message of its own
            return str(Posted(str(address["channel"]), (), purpose))
        if reply.kind == "card" and await self.people.shared(str(address["channel"])):
            raise NotTaken("shared_channel")  # a draft is for nobody outside (invariant 3)
        begun = await self.streams.finished(purpose)
        if address.get("response_url"):
            if await self._respond(purpose, address, reply):
                return str(Posted(str(address["channel"]), (), purpose))
            # Asked in private: what cannot be whispered any more goes to its author alone, never to the channel.
            address = {
                name: address[name] for name in ("user", "again", "asked_in", "private") if name in address
            }
        try:
            return await self._deliver(purpose, address, reply, begun)
        except NotTaken as error:
            if str(error) not in NO_PLACE or not address.get("user") or not address.get("channel"):
                raise
            # The channel or thread is gone, or we were put out of it: the person is told all the same.
            log.warning("delivery.moved", purpose=purpose, error=str(error))
            return await self._deliver(purpose, {"user": address["user"]}, reply, [])

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        """Show `reply` in place of what is there. Updates that follow closely are one: the latest wins."""
        posted = Posted.parse(message_id)
        if not posted.parts:
            return  # an ephemeral answer cannot be changed
        turn = self._latest[message_id] = self._latest.get(message_id, 0) + 1
        wait = self._updated.get(message_id, 0.0) + UPDATE_GAP - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        if self._latest.get(message_id) != turn:
            return
        self._updated[message_id] = time.monotonic()
        shown = await self._rendered(posted.purpose, address, reply)
        room = len(posted.parts)
        if len(shown) > room:  # no message can be put between what others wrote below: say that there is more
            more = context(self.words(reply.language, "chat.only_beginning"))
            shown[room - 1] = replace(shown[room - 1], blocks=(*shown[room - 1].blocks[: BLOCKS - 1], *more))
        for ts, message in zip(posted.parts, shown, strict=False):
            await self.calls(
                self.calls.client.chat_update, channel=posted.channel, ts=ts, **message.arguments()
            )
        await self.streams.remove(posted.channel, list(posted.parts[len(shown) :]))
        if self._latest.get(message_id) == turn:
            del self._latest[message_id]

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Show a step or a finished sentence. Never waits for Slack, and loses what Slack does not take."""
        await self.streams.tell(address, progress)

    async def email(self, principal: str) -> str | None:
        """Implements `bot.messages.Directory`: the address in the profile of a member of this workspace."""
        if not await self.people.can("users:read.email"):
            return None
        user = principal.removeprefix("slack:")
        try:
            person = await self.people.profile(user)
        except Unknown as error:
            raise ConnectionError(str(error)) from error
        return None if await self.people.refusal(user) else person.email or None

    async def reacted(self, message_id: str) -> list[str]:
        """Implements `bot.messages.Reactions`."""
        if not await self.people.can("reactions:read"):
            return []
        posted, found = Posted.parse(message_id), set[str]()
        us = (await self.people.identity()).user_id
        for ts in posted.parts:
            try:
                answer = await self.calls(
                    self.calls.client.reactions_get, channel=posted.channel, timestamp=ts, full=True
                )
            except NotTaken as error:
                log.info("reactions.none", error=str(error))  # deleted, or the channel is
                continue
            for reaction in answer["message"].get("reactions") or ():
                found |= set(reaction.get("users") or ())
        return [f"slack:{user}" for user in sorted(found - {us})]

    # --- steps

    async def _deliver(self, purpose: str, address: Mapping[str, Any], reply: Reply, begun: list[str]) -> str:
        found: dict[int, str] = dict(enumerate(begun))
        if not address.get("channel"):
            address = {**address, "channel": await self._direct(str(address["user"]))}
        if address.get("again"):
            found |= await self._find(purpose, address)
        try:
            return await self._post_all(
                purpose, address, await self._rendered(purpose, address, reply), found
            )
        except NotTaken as error:
            if str(error) not in TOO_MUCH:
                raise
            log.error("delivery.unshowable", purpose=purpose, error=str(error))
            return await self._post_all(purpose, address, _bare(reply), found)

    async def _post_all(
        self, purpose: str, address: Mapping[str, Any], shown: list[Message], found: Mapping[int, str]
    ) -> str:
        channel, thread = str(address["channel"]), address.get("thread")
        parts: list[str] = []
        for part, message in enumerate(shown):
            known = found.get(part)
            if known:
                await self._filled(channel, known, message, purpose, part)
                parts.append(known)
            else:
                answer = await self.calls.post(
                    channel=channel,
                    thread_ts=thread,
                    metadata=_metadata(purpose, part),
                    **message.arguments(),
                )
                channel = str(answer["channel"])
                parts.append(str(answer["ts"]))
            thread = thread or parts[0]  # what does not fit one message continues below it
        await self.streams.remove(channel, [found[part] for part in found if part >= len(shown)])
        return str(Posted(channel, tuple(parts), purpose))

    async def _filled(self, channel: str, ts: str, message: Message, purpose: str, part: int) -> None:
        client, metadata = self.calls.client, _metadata(purpose, part)
        try:
            await self.calls(
                client.chat_update, channel=channel, ts=ts, metadata=metadata, **message.arguments()
            )
        except NotTaken as error:
            if str(error) != "streaming_state_conflict":
                raise
            # A stream whose end got lost on the way: ended again, and filled.
            await self.calls(client.chat_stopStream, channel=channel, ts=ts)
            await self.calls(
                client.chat_update, channel=channel, ts=ts, metadata=metadata, **message.arguments()
            )

    async def _direct(self, user: str) -> str:
        """The channel of the direct messages with `user`; without im:write their own id, which can be written to."""
        if not await self.people.can("im:write"):
            return user
        answer = await self.calls(self.calls.client.conversations_open, users=user)
        return str(answer["channel"]["id"])

    async def _respond(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> bool:
        """Answer a command where only its author sees it; False when it has to be a direct message instead: it was
        signed off later, it is longer than one message, or the address has expired."""
        if time.time() - float(address.get("asked_at", 0)) > RESPONSE_SECONDS or reply.meta.get("signed"):
            return False
        shown = await self._rendered(purpose, address, reply)
        if len(shown) > 1:
            return False
        if address.get("again"):
            raise ResultUnknown(purpose)  # nobody can look up what one person saw
        body = {"response_type": "ephemeral", "replace_original": False, **shown[0].arguments()}
        return await self.calls.respond(str(address["response_url"]), body)

    async def _find(self, purpose: str, address: Mapping[str, Any]) -> dict[int, str]:
        """The parts of this purpose that Slack has already."""
        channel, thread = str(address["channel"]), address.get("thread")
        if channel.startswith(("U", "W")):
            raise ResultUnknown(purpose)  # a person's id can be written to, but not looked through
        client = self.calls.client
        try:
            if thread:
                answer = await self.calls(
                    client.conversations_replies,
                    channel=channel, ts=thread, limit=LOOK_BACK, oldest=address.get("asked"), include_all_metadata=True,
                )  # fmt: skip
            else:
                answer = await self.calls(
                    client.conversations_history,
                    channel=channel, limit=LOOK_BACK, oldest=address.get("asked"), include_all_metadata=True,
                )  # fmt: skip
        except NotTaken as error:
            if str(error) == "thread_not_found":
                return {}
            raise ResultUnknown(f"{purpose}: {error}") from error
        found = {}
        for message in answer["messages"]:
            metadata = message.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            if metadata.get("event_type") == EVENT and payload.get("purpose") == purpose:
                found[int(payload["part"])] = str(message["ts"])
        return found

    async def _rendered(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> list[Message]:
        shown = people(reply)
        conversation = str(reply.meta.get("conversation_id") or "")
        link = await self._link(conversation) if conversation else ""
        if reply.kind == "card":
            return [card(reply, await self.setting(shown | {place_of(reply)}), link)]
        setting = await self.setting(
            shown,
            question=question_of(purpose),
            private=bool(address.get("private")),
            share_to=str(address.get("asked_in") or ""),
        )
        return messages(reply, setting, link)

    async def setting(
        self, people: set[str] | None = None, *, question: str = "", private: bool = False, share_to: str = ""
    ) -> Setting:
        """What rendering needs: the words, the time, and the names of those people and places."""
        called = await names(self.neighbours.values(), people or ())
        return Setting(self.words, datetime.now(UTC), question, private, share_to, called, self.console)

    async def _link(self, conversation_id: str) -> str:
        """The address of a Slack thread; "" for other platforms and direct messages."""
        platform, channel, thread = [*conversation_id.split(":", 2), "", ""][:3]
        if platform != "slack" or channel.startswith(("@", "D")):
            return ""
        if conversation_id not in self._links:
            try:
                answer = await self.calls(
                    self.calls.client.chat_getPermalink, channel=channel, message_ts=thread
                )
                self._links[conversation_id] = str(answer["permalink"])
            except (NotTaken, OSError) as error:
                log.info("permalink.none", conversation=conversation_id, error=str(error))
                return ""
        return self._links[conversation_id]

    async def whisper(self, channel: str, user: str, text: str, thread: str | None = None) -> None:
        """A sentence that only `user` sees. Lossy: whoever has left the channel is not told."""
        try:
            await self.calls(
                self.calls.client.chat_postEphemeral,
                channel=channel,
                user=user,
                text=neutral(text),
                thread_ts=thread,
            )
        except (NotTaken, OSError) as error:
            log.info("whisper.lost", error=str(error))

    # --- Membership, and what names and buttons need

    async def inside(self, principal: str, channels: Sequence[str]) -> bool:
        """Implements `bot.messages.Membership`; guests, strangers and programs are nowhere, whatever list they stand
        on."""
        user = principal.removeprefix("slack:")
        return not await self.people.refusal(user) and await self.people.inside(user, channels)

    async def called(self, identity: str) -> str:
        return await self.people.called(identity)

    async def shared(self, channel: str) -> bool:
        return await self.people.shared(channel)


def _metadata(purpose: str, part: int) -> dict[str, Any]:
    return {"event_type": EVENT, "event_payload": {"purpose": purpose, "part": part}}


def _bare(reply: Reply) -> list[Message]:
    """The words alone, for blocks that Slack will not show."""
    text = neutral(reply.text)
    return [Message(text[at : at + PLAIN], ()) for at in range(0, max(1, len(text)), PLAIN)]


@asynccontextmanager
async def open_house(
    settings: Slack, store: Store, words: Words, places: Sequence[str] = ()
) -> AsyncIterator[SlackHouse]:
    """`places` are the review channels of all platforms, as principals."""
    own = [place.removeprefix("slack:") for place in places if place.startswith("slack:")]
    house = SlackHouse(settings, store, words, own)
    try:
        yield house
    finally:
        await house.close()
