"""What the review desk shows: from rows to frozen values. Pure."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from bot import telling
from bot.by_hand import given_up
from bot.messages import REASONS
from bot.web.render import Cite, excerpt, markdown
from bot.web.views import PRIVATE, Reader, Source, source
from rag_graph.contracts import Passage
from store.conversations import ConversationRow, QuestionRow
from store.reviews import ReviewEvent, ReviewRow

TITLE = 90
# A change is shown word by word; Chinese has no spaces, so there it is shown sign by sign.
WORDS = re.compile(r"[A-Za-z0-9_.,%-]+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """A review with the question it is about."""

    review: ReviewRow
    question: QuestionRow
    conversation: ConversationRow


@dataclass(frozen=True, slots=True)
class QueueItem:
    id: int
    title: str
    asker: str
    place: str
    opened_at: datetime
    state: str
    claimed_by: str
    decided_by: str
    decided_at: datetime | None
    mark: str = ""  # how long it has waited, as a step: reminded, timed_out, chose_person …


@dataclass(frozen=True, slots=True)
class SentenceView:
    """One sentence of the draft, and the passages it rests on."""

    position: int
    html: Markup
    support: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A stretch of an edited text: kept (same), taken out (gone) or put in (new)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class DecidedView:
    by: str
    at: datetime
    reason: str
    hint: str
    question: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class EventView:
    at: datetime
    actor: str
    action: str


@dataclass(frozen=True, slots=True)
class NearestView:
    """The signed-off answer that comes nearest, and how the draft differs from it."""

    question: str
    by: str
    day: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class ChangedView:
    """A source of a verified answer that is not what it was when that was signed."""

    title: str
    gone: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class CardView:
    id: int
    question_id: str
    state: str
    round: int
    version_hash: str
    question: str
    asker: str
    place: str
    rewritten: str
    opened_at: datetime
    reason: str
    kind: str
    confidence: float
    calibrated: bool
    claimed_by: str
    claimed_by_me: bool
    claimed_at: datetime | None
    readable: bool
    audience: str
    text: str
    html: Markup
    sentences: tuple[SentenceView, ...]
    nearest: NearestView | None
    sources_changed: tuple[ChangedView, ...]
    decided: DecidedView | None
    events: tuple[EventView, ...]
    given_up: bool  # no draft was good enough, and a person may answer from here
    together: str  # that two people have to approve it, and who has; that it was sent already
    others: tuple[tuple[str, str], ...]  # to whom it can be passed on: principal, name


def queue_item(asked: Asked, reader: Reader, mark: str = "") -> QueueItem:
    review = asked.review
    return QueueItem(
        id=review.id,
        title=excerpt(asked.question.text, TITLE),
        asker=reader.name(asked.question.asker),
        place=place_name(asked.conversation, reader),
        opened_at=review.opened_at,
        state=review.state,
        claimed_by=reader.name(review.claimed_by) if review.claimed_by else "",
        decided_by=reader.name(review.decided_by) if review.decided_by else "",
        decided_at=review.decided_at,
        mark=reader.t(f"review.event.{mark}") if mark else "",
    )


def spelled(seconds: float, reader: Reader) -> str:
    """A time from opening to decision, for people."""
    minutes = max(1, round(seconds / 60))
    key, count = ("minutes", minutes) if minutes < 100 else ("hours", round(minutes / 60))
    return reader.words(f"patience.{key}", count=count)


def place_name(conversation: ConversationRow, reader: Reader) -> str:
    """Where a question was asked, for people: #hr, slack #C0123, or "in private"."""
    if conversation.private or conversation.channel.startswith(PRIVATE):
        return reader.t("review.private")
    platform = "" if conversation.platform == "web" else f"{conversation.platform} "
    return f"{platform}#{conversation.channel}"


def may_read_draft(review: ReviewRow, principals: Collection[str], passages: Mapping[int, Passage]) -> bool:
    """Whether a reviewer may read a draft: its audience has them, or they may open every passage it cites."""
    if set(review.audience) & set(principals):
        return True
    cited = [citation["passage_id"] for citation in review.draft.get("citations", ())]
    return bool(cited) and all(passage_id in passages for passage_id in cited)


def card(
    asked: Asked,
    reader: Reader,
    *,
    passages: Mapping[int, Passage],
    readable: bool,
    events: Sequence[ReviewEvent],
    others: Sequence[str],
) -> CardView:
    """One review. `passages` are those cited that this reviewer may open, by id; where `readable` is false the
    draft's text is left out altogether (invariant 6). `others` are the principals who may decide it too."""
    review, draft = asked.review, asked.review.draft
    sources = {int(c["number"]): _opened(c, passages) for c in draft.get("citations", ())} if readable else {}
    cites = {number: Cite("", "") for number in sources}
    text = str(draft["text"]) if readable else ""
    return CardView(
        id=review.id,
        question_id=review.question_id,
        state=review.state,
        round=review.round,
        version_hash=review.version_hash,
        question=asked.question.text,
        asker=reader.name(asked.question.asker),
        place=place_name(asked.conversation, reader),
        rewritten=str(draft.get("rewritten_question", "")),
        opened_at=review.opened_at,
        reason=review.reason,
        kind=str(draft.get("kind", "model")),
        confidence=float(draft.get("confidence", 0.0)),
        calibrated=bool(draft.get("calibrated")),
        claimed_by=reader.name(review.claimed_by) if review.claimed_by else "",
        claimed_by_me=review.claimed_by == reader.person.principal,
        claimed_at=review.claimed_at,
        readable=readable,
        audience=", ".join(review.audience) or reader.t("review.nobody"),
        text=text,
        html=markdown(text, cites),
        sentences=_sentences(draft, sources, cites) if readable else (),
        nearest=_nearest(draft, reader) if readable else None,
        sources_changed=tuple(
            ChangedView(str(changed["title"]), bool(changed["gone"]), _pieces(changed["diff"]))
            for changed in (draft.get("changes") or () if readable else ())
        ),
        decided=_decided(review, text, reader, readable=readable),
        events=tuple(
            EventView(
                event.at, reader.name(event.actor) if event.actor else "Signoff", _action(event, reader)
            )
            for event in events
        ),
        given_up=given_up(asked.question) and readable and review.state == "rejected",
        together=telling.together(
            reader.words,
            {
                "sent": review.sent,
                "needed": review.needed,
                "approved_by": review.approved_by,
                "state": review.state,
            },
            reader.name,
        ),
        others=tuple((p, reader.name(p)) for p in others if p != review.claimed_by),
    )


def changes(before: str, after: str) -> tuple[Change, ...]:
    """What an edit did to a text, in reading order."""
    old, new = WORDS.findall(before), WORDS.findall(after)
    found: list[Change] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            found.append(Change("same", "".join(old[a:b])))
            continue
        found += [Change("gone", "".join(old[a:b]))] if a < b else []
        found += [Change("new", "".join(new[c:d]))] if c < d else []
    return tuple(found)


def _nearest(draft: Mapping[str, Any], reader: Reader) -> NearestView | None:
    known = draft.get("nearest")
    if not known:
        return None
    by, day = reader.name(str(known["signed_by"])), str(known.get("signed_at", ""))[:10]
    return NearestView(str(known["question"]), by, day, _pieces(known.get("diff", ())))


def _pieces(diff: Sequence[Sequence[str]]) -> tuple[Change, ...]:
    return tuple(Change(kind, f"{sentence} ") for kind, sentence in diff)


def _sentences(
    draft: Mapping[str, Any], sources: Mapping[int, Source], cites: Mapping[int, Cite]
) -> tuple[SentenceView, ...]:
    return tuple(
        SentenceView(
            position=position,
            html=markdown(str(sentence["text"]), cites),
            support=str(sentence["support"]),
            sources=tuple(sources[n] for n in sentence["citations"] if n in sources),
        )
        for position, sentence in enumerate(draft.get("sentences", ()), 1)
    )


def _opened(citation: Mapping[str, Any], passages: Mapping[int, Passage]) -> Source:
    passage = passages.get(citation["passage_id"])
    return source(citation, html=markdown(passage.text) if passage else None)


def _decided(review: ReviewRow, text: str, reader: Reader, *, readable: bool) -> DecidedView | None:
    if review.decision is None or review.decided_at is None:
        return None
    decision = review.decision
    reason = str(decision.get("reason", ""))
    edited = str(decision.get("text", ""))
    return DecidedView(
        by=reader.name(review.decided_by) if review.decided_by else "",
        at=review.decided_at,
        reason=reader.words(f"review.reasons.{reason}") if reason in REASONS else reason,
        hint=str(decision.get("hint", "")),
        question=str(decision.get("question", "")),
        changes=changes(str(review.draft.get("original", text)), edited)
        if review.state == "edited" and readable
        else (),
    )


def _action(event: ReviewEvent, reader: Reader) -> str:
    known = (
        "opened",
        "claimed",
        "released",
        "reassigned",
        "approved_first",
        "revised",
        "reminded",
        "escalated",
        "timed_out",
        "saw",
        "written",
        "chose_wait",
        "chose_peek",
        "chose_person",
        "approved",
        "edited",
        "rejected",
        "expired",
        "withdrawn",
    )
    return reader.t(f"review.event.{event.action}") if event.action in known else event.action
