"""What a thread shows: from rows to frozen values. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from bot.messages import AGAIN, CHOICES, Reply
from bot.principals import readers
from bot.telling import SIGNED
from bot.web.people import PLATFORM, Person
from bot.web.render import Cite, around, markdown
from bot.web.send import Live
from rag_graph.contracts import Passage
from store.conversations import ConversationRow, FeedbackRow, QuestionRow
from store.deliveries import DeliveryRow
from store.reviews import ReviewRow

PRIVATE = "@"  # the channel of a private space is @<name>
# The ten nodes as three things that a person waits for.
STEPS = ("searching", "reading", "checking")
STEP_OF = {"draft": 1, "publish": 2, "review": 2, "decline": 2}
WORKING = ("received", "answering")
GONE = ("withdrawn", "superseded")


@dataclass(frozen=True, slots=True)
class Reader:
    """For whom a page is drawn: who, in which language, and under which address."""

    person: Person
    language: str
    base: str  # "" or "/~reviewer"
    words: Callable[..., str]  # words(key, **values) in the reader's language

    def t(self, key: str, /, **values: object) -> str:
        return self.words(f"web.{key}", **values)

    def name(self, principal: str) -> str:
        """A principal as people say it: "web:lin" is Lin, "slack:U0123" stays what it is."""
        platform, _, name = principal.partition(":")
        if platform != PLATFORM:
            return principal
        return self.t(f"person.{name}") if name in ("lin", "reviewer", "admin") else name


@dataclass(frozen=True, slots=True)
class Place:
    """A channel, or somebody's private space."""

    channel: str  # as stored: general, @lin
    private: bool

    @property
    def href(self) -> str:
        return "/me" if self.private else f"/c/{self.channel}"

    @property
    def prefix(self) -> str:
        """What the ids of its conversations begin with."""
        return f"{PLATFORM}:{self.channel}:"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a citation leads. `href` is empty where the page shows the passage itself."""

    number: int
    title: str
    headings: tuple[str, ...]
    version: int
    page: int | None
    updated: datetime | None
    file: str
    href: str = ""
    html: Markup | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    how: str  # signed | edited | verified
    by: str
    day: str = ""  # ISO 8601, of a verified answer


@dataclass(frozen=True, slots=True)
class Answer:
    kind: str
    language: str
    html: Markup
    sources: tuple[Source, ...]
    notes: tuple[str, ...]
    searched: str
    confidence: float | None
    calibrated: bool
    rule: str
    signed: Signed | None


@dataclass(frozen=True, slots=True)
class Held:
    """Who has the draft, and since when. Nothing of the draft itself (invariant 3)."""

    review_id: int
    since: datetime
    claimed_by: str
    claimed_at: datetime | None
    decided: bool
    round: int
    expected: datetime | None = None  # when it is usually decided; None with too few to go by
    draft: Markup | None = None  # shown to the asker alone, where a rule allows it
    choices: tuple[str, ...] = ()  # what the asker may choose after a time-out


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    state: str  # done | now | next


@dataclass(frozen=True, slots=True)
class Progress:
    steps: tuple[Step, ...]
    searched: str
    html: Markup


@dataclass(frozen=True, slots=True)
class Notice:
    html: Markup
    at: datetime


@dataclass(frozen=True, slots=True)
class Can:
    """What this reader may do with this question now."""

    stop: bool = False
    edit: bool = False
    delete: bool = False
    again: bool = False
    feedback: bool = False
    person: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    asker: str
    text: str
    asked_at: datetime
    state: str
    working: bool
    news: str  # what a screen reader is told when it came to this: answered | held | failed
    gone: str
    live: Progress
    held: Held | None
    answer: Answer | None
    notices: tuple[Notice, ...]
    feedback: FeedbackRow | None
    can: Can


@dataclass(frozen=True, slots=True)
class Facts:
    """The rows that one question's turn is drawn from."""

    question: QuestionRow
    deliveries: Sequence[DeliveryRow]
    reviews: Sequence[ReviewRow]
    live: Live
    feedback: FeedbackRow | None
    contact: str


@dataclass(frozen=True, slots=True)
class ThreadLink:
    href: str
    title: str
    channel: str
    active_at: datetime
    waiting: bool  # an answer in it waits for a person


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a section: the cited passage (`focus`), or what stands around it."""

    html: Markup
    focus: bool


@dataclass(frozen=True, slots=True)
class PassageView:
    """`refused` names the sentence that says why there is nothing to read."""

    source: Source
    pieces: tuple[Piece, ...] = ()
    refused: str = ""


def place_of(conversation: ConversationRow) -> Place:
    return Place(conversation.channel, conversation.private)


def may_read(conversation: ConversationRow, person: Person, channels: Collection[str]) -> bool:
    """Whether a person of the workspace may open a conversation there."""
    if conversation.platform != PLATFORM:
        return False
    if conversation.private:
        return conversation.channel == PRIVATE + person.name
    return conversation.channel in channels


def principals(person: Person, conversation: ConversationRow) -> tuple[str, ...]:
    """As whom a person reads the sources of a conversation: everyone, themselves, and its channel – never as
    the asker of a private one."""
    if conversation.private:
        return ("everyone", person.principal)
    return (*readers(conversation, person.principal), person.principal)


def thread_link(conversation: ConversationRow, *, show_channel: bool, waiting: bool) -> ThreadLink:
    place = place_of(conversation)
    return ThreadLink(
        href=f"{place.href}/t/{conversation.thread}",
        title=conversation.title,
        channel="" if place.private or not show_channel else place.channel,
        active_at=conversation.active_at,
        waiting=waiting,
    )


def turn(facts: Facts, reader: Reader) -> Turn:
    """One question and all that came of it, as `reader` may see it."""
    question = facts.question
    mine = question.asker == reader.person.principal
    gone = question.state if question.state in GONE else ""
    reply = _reply(facts)
    answered = None if gone or reply is None else answer(reply, question.id, reader)
    # Between the state's change and the delivery the answer is on its way: the steps stay on the page.
    working = not gone and answered is None and question.state != "held"
    notices = tuple(
        Notice(markdown(row.content["text"]), row.created_at)
        for row in facts.deliveries
        if row.kind == "notice" and not gone
    )
    return Turn(
        id=question.id,
        asker=reader.name(question.asker),
        text=question.text if mine or not gone else "",
        asked_at=question.asked_at,
        state=question.state,
        working=working,
        news=_news(question.state, answered),
        gone=gone,
        live=progress(facts.live, reader),
        held=_held(facts, reader) if question.state == "held" else None,
        answer=answered,
        notices=notices,
        feedback=facts.feedback,
        can=Can(
            stop=mine and question.state in WORKING,
            edit=mine and not gone,
            delete=mine and not gone,
            again=mine and (gone == "withdrawn" or (not gone and _offers_again(facts, reply))),
            feedback=answered is not None and answered.kind not in ("clarify", "failed", "refused"),
            person=mine and not gone and not working and not notices and bool(facts.contact),
        ),
    )


def _reply(facts: Facts) -> Reply | None:
    """What the question was answered with. Of several refused at once only the first has a message of its own."""
    question = facts.question
    if question.state == "refused":
        return Reply.from_json(question.answer) if question.answer else None
    row = next((row for row in facts.deliveries if row.purpose == f"answer:{question.id}"), None)
    return Reply.from_json(row.content) if row else None


def _offers_again(facts: Facts, reply: Reply | None) -> bool:
    said = [row.content["meta"] for row in facts.deliveries]
    return any(AGAIN in meta.get("actions", ()) for meta in [*said, reply.meta if reply else {}])


def answer(reply: Reply, question_id: str, reader: Reader) -> Answer:
    """A reply as the thread shows it."""
    meta = reply.meta
    sources = tuple(
        source(citation, href=f"{reader.base}/q/{question_id}/source/{citation['number']}")
        for citation in reply.citations
    )
    cites = {
        s.number: Cite(s.href, reader.t("source.label", number=s.number, title=s.title)) for s in sources
    }
    confidence = meta.get("confidence")
    return Answer(
        kind=str(meta.get("kind", reply.kind)),
        language=reply.language,
        html=markdown(reply.text, cites),
        sources=sources,
        notes=degraded(meta.get("degraded", ()), reader),
        searched=str(meta.get("rewritten_question", "")),
        confidence=confidence if sources else None,
        calibrated=bool(meta.get("calibrated")),
        rule=str(meta.get("rule", "")),
        signed=_signed(meta, reader),
    )


def source(citation: Mapping[str, Any], *, href: str = "", html: Markup | None = None) -> Source:
    """A citation (the JSON of `rag_graph.contracts.Citation`) as the page shows it."""
    updated = citation.get("updated_at")
    return Source(
        number=int(citation["number"]),
        title=str(citation["title"]),
        headings=tuple(citation["heading_path"]),
        version=int(citation["version"]),
        page=citation["page"],
        updated=datetime.fromisoformat(updated) if updated else None,
        file=str(citation["source"]),
        href=href,
        html=html,
    )


def passage(citation: Mapping[str, Any], section: Sequence[Passage]) -> PassageView:
    """The cited passage highlighted in its section; `section` is empty where this reader may not open it or
    where its document has changed since."""
    about = source(citation)
    ids = [chunk.id for chunk in section]
    if citation["passage_id"] not in ids:
        return PassageView(about, refused="unavailable")
    focus = ids.index(citation["passage_id"])
    texts = around([chunk.text for chunk in section], focus)
    return PassageView(
        about,
        tuple(
            Piece(markdown(text), focus=position == focus)
            for position, text in enumerate(texts)
            if text.strip() or position == focus
        ),
    )


def progress(live: Live, reader: Reader) -> Progress:
    """How far an answer is: three steps, what is searched, and the sentences that have arrived."""
    now = STEP_OF.get(live.step, 0)
    text = "".join(live.sentences)
    numbers = {int(n): Cite("", "") for n in range(1, 100) if f"[{n}]" in text}
    return Progress(
        steps=tuple(
            Step(name, "done" if position < now else "now" if position == now else "next")
            for position, name in enumerate(STEPS)
        ),
        searched=live.searched,
        html=markdown(text, numbers),
    )


def _news(state: str, answered: Answer | None) -> str:
    if answered is None:
        return "held" if state == "held" else ""
    return "failed" if state in ("failed", "refused") else "answered"


def _held(facts: Facts, reader: Reader) -> Held | None:
    if not facts.reviews:
        return None
    last = facts.reviews[-1]
    mine = facts.question.asker == reader.person.principal
    said = {row.purpose: row.content for row in facts.deliveries if row.review_id == last.id}
    told = said.get(f"held:{facts.question.id}:{last.round}", {"meta": {}})["meta"].get("expected_at")
    draft = said.get(f"draft:{last.id}")
    offered = said.get(f"timed_out:{last.id}", {"meta": {}})["meta"].get("actions", ())
    return Held(
        expected=datetime.fromisoformat(told) if told else None,
        draft=markdown(draft["text"]) if draft and mine else None,
        choices=tuple(choice for choice in CHOICES if choice in offered) if mine else (),
        review_id=last.id,
        since=last.opened_at,
        claimed_by=reader.name(last.claimed_by) if last.claimed_by else "",
        claimed_at=last.claimed_at,
        decided=last.state != "pending",
        round=last.round,
    )


def _signed(meta: Mapping[str, Any], reader: Reader) -> Signed | None:
    how = SIGNED.get(str(meta.get("signed", "")))
    by, day = str(meta.get("signed_by", "")), str(meta.get("signed_at", ""))[:10]
    return Signed(how, reader.name(by), day) if how else None


def degraded(parts: Collection[str], reader: Reader) -> tuple[str, ...]:
    """A sentence for each part that did not answer and could be done without."""
    return tuple(reader.words(f"answer.degraded_{part}") for part in ("embedding", "model") if part in parts)
