"""The tenant: people, chats, messages, cards, files, tokens, and a clock that can be wound forward."""

import random
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

TENANT, OTHER_TENANT = "t0sign", "t0other"
BOT = "ou_bot"
TOKEN_SECONDS = 7_200  # https://open.feishu.cn/document/server-docs/authentication-management: two hours
STREAM_SECONDS = 600.0  # https://open.feishu.cn/document/cardkit-v1/streaming-updates-openapi-overview
CARD_SECONDS = 14 * 86_400.0  # cards can be updated for 14 days
IDEMPOTENT_SECONDS = 3_600.0  # the uuid of a message counts for one hour


class Clock:
    """Real time plus what a test has wound forward. `now` is epoch seconds."""

    def __init__(self) -> None:
        self.wound = 0.0

    def now(self) -> float:
        return time.time() + self.wound

    def wind(self, seconds: float) -> None:
        self.wound += seconds


@dataclass
class User:
    open_id: str
    name: str
    tenant_key: str = TENANT
    email: str = ""
    app: bool = False

    def ids(self) -> Json:
        bare = self.open_id.removeprefix("ou_")
        return {"open_id": self.open_id, "union_id": f"on_{bare}", "user_id": bare}


@dataclass
class Chat:
    """`mode`: group, topic or p2p. `threads`: whether messages of a group may be answered in topics."""

    chat_id: str
    name: str
    mode: str = "group"
    members: set[str] = field(default_factory=set)
    external: bool = False
    threads: bool = True
    public: bool = False


@dataclass
class Message:
    message_id: str
    chat_id: str
    sender: str
    msg_type: str
    content: Json
    at: float
    root_id: str = ""
    parent_id: str = ""
    thread_id: str = ""
    mentions: list[Json] = field(default_factory=list)
    recalled: bool = False
    updated_at: float = 0.0
    card_id: str = ""  # the card entity that this message shows
    reactions: list[Json] = field(default_factory=list)
    uuid: str = ""


@dataclass
class Card:
    """A card entity: sent once, changed under a strictly growing sequence."""

    card_id: str
    content: Json
    at: float
    sequence: int = 0
    streaming_since: float | None = None
    sent: bool = False
    uuids: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)


class World:
    """Everything that exists. One instance is one tenant with one app."""

    def __init__(self, app_id: str = "cli_signoff", seed: int = 1) -> None:
        self.clock = Clock()
        self.random = random.Random(seed)
        self.app_id, self.app_secret = app_id, f"secret-{app_id}"
        self.users: dict[str, User] = {}
        self.chats: dict[str, Chat] = {}
        self.messages: dict[str, Message] = {}
        self.cards: dict[str, Card] = {}
        self.files: dict[str, Json] = {}
        self.contents: dict[str, bytes] = {}
        self.tokens: dict[str, float] = {}  # token → when it ends
        self.card_tokens: dict[str, Json] = {}  # of the delayed update
        self.toasts: list[Json] = []
        self.calls: list[Json] = []
        self.unavailable: set[str] = set()  # people outside the app's availability
        self._populate()

    def empty(self) -> None:
        """As in the beginning, but for the app and its tokens."""
        held = (
            self.users,
            self.chats,
            self.messages,
            self.cards,
            self.files,
            self.contents,
            self.card_tokens,
        )
        for some in held:
            some.clear()
        for list_of in (self.toasts, self.calls):
            list_of.clear()
        self.unavailable.clear()
        self.clock.wound = 0.0
        self._populate()

    def _populate(self) -> None:
        for user in (
            User(BOT, "signoff", app=True),
            User("ou_ada", "ada", email="ada@sign.example"),
            User("ou_lin", "lin", email="lin@sign.example"),
            User("ou_rena", "rena", email="rena@sign.example"),
            User("ou_rolf", "rolf", email="rolf@sign.example"),
            User("ou_adam", "adam", email="adam@sign.example"),
            User("ou_eve", "eve", tenant_key=OTHER_TENANT),
            User("ou_otherbot", "otherbot", app=True),
        ):
            self.users[user.open_id] = user
        here = {BOT, "ou_ada", "ou_lin", "ou_rena", "ou_adam", "ou_otherbot"}
        for chat in (
            Chat("oc_general", "general", members=set(here), public=True),
            Chat("oc_hr", "hr", members={BOT, "ou_ada", "ou_lin"}),
            Chat("oc_topic", "topics", mode="topic", members=set(here)),
            Chat("oc_flat", "flat", members=set(here), threads=False),
            Chat("oc_review", "reviews", members={BOT, "ou_rena", "ou_rolf"}),
            Chat("oc_partner", "with-partner", members=here | {"ou_eve"}, external=True),
            Chat("oc_nobot", "without-bot", members=here - {BOT}),
        ):
            self.chats[chat.chat_id] = chat

    # --- places and ids

    def p2p(self, user: str) -> Chat:
        """The direct messages of the bot with `user`, made when first needed."""
        identity = f"oc_p2p_{user.removeprefix('ou_')}"
        return self.chats.setdefault(identity, Chat(identity, "", mode="p2p", members={BOT, user}))

    def fresh(self, prefix: str) -> str:
        return f"{prefix}_{uuid.UUID(int=self.random.getrandbits(128)).hex}"

    def put(self, message: Message) -> Message:
        self.messages[message.message_id] = message
        return message

    def of_chat(self, chat_id: str) -> list[Message]:
        return sorted((m for m in self.messages.values() if m.chat_id == chat_id), key=lambda m: m.at)

    def root(self, message: Message) -> Message:
        return self.messages[message.root_id] if message.root_id else message

    def content(self, message: Message) -> Json:
        """What a message shows now: a card entity's as it was changed last."""
        return self.cards[message.card_id].content if message.card_id else message.content

    # --- tokens

    def token(self) -> str:
        made = f"t-{uuid.uuid4().hex}"
        self.tokens[made] = self.clock.now() + TOKEN_SECONDS
        return made

    def revoke(self) -> None:
        self.tokens.clear()

    # --- what a test looks at

    def all_messages(self) -> Iterable[Message]:
        return sorted(self.messages.values(), key=lambda m: m.at)

    def snapshot(self) -> Json:
        return {
            "now": self.clock.now(),
            "messages": [vars(m) | {"shown": self.content(m)} for m in self.all_messages()],
            "cards": [{**vars(card), "uuids": sorted(card.uuids)} for card in self.cards.values()],
            "toasts": self.toasts,
            "calls": self.calls,
            "files": self.files,
        }
