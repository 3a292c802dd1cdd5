"""What the console shows of runs: from rows to frozen values. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.telling import OPINIONS
from bot.traces import Bar, bars, money, spent, withheld
from bot.web.views import PRIVATE, Reader
from rag_graph.rules import DEFAULT
from store.conversations import FeedbackRow, QuestionRow
from store.deliveries import DeliveryRow
from store.reviews import ReviewEvent
from store.runs import ListedRun, RunRow
from store.tracing import Traced

CHIPS = {"answered": "approved", "held": "held", "failed": "failed"}
PARTS = ("system", "history", "documents", "tools", "question", "offered")
EXTRACT = 600  # characters of a passage below its row


@dataclass(frozen=True, slots=True)
class ListItem:
    """`text` is "" where its words are not this reader's (`hidden` says why), or forgotten."""

    id: int
    question_id: str
    reference: str
    text: str
    hidden: str
    at: datetime
    outcome: str
    chip: str
    place: str
    asker: str
    rule: str
    variant: str
    degraded: tuple[str, ...]
    error: str
    seconds: str
    tokens: int
    cost: str
    helpful: int
    unhelpful: int


@dataclass(frozen=True, slots=True)
class PassageView:
    """A passage that was retrieved, or cited without (`place` 0). `gone`: its version is kept no more."""

    place: int
    title: str
    href: str
    path: str
    page: int | None
    version: int
    outdated: bool
    gone: bool
    vector: str
    keyword: str
    score: str
    reranked: str
    read: bool
    cited: bool
    extract: str


@dataclass(frozen=True, slots=True)
class Said:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class CallView:
    """One call of a model. `parts` are (name, tokens); `messages` as far as the setting keeps them."""

    role: str
    model: str
    parts: tuple[tuple[str, int], ...]
    total: int
    counted: int
    completion: int
    trimmed: tuple[str, ...]
    messages: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class ToolView:
    name: str
    arguments: str
    text: str
    trouble: str
    error: str
    milliseconds: int
    passages: tuple[int, ...]
    offered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """One run of a question."""

    id: int
    at: datetime
    outcome: str
    chip: str
    searched: tuple[str, ...]
    confidence: str
    rule: str
    variant: str
    degraded: tuple[str, ...]
    error: str
    tokens: tuple[tuple[str, int], ...]
    cost: str
    again: bool  # it searched nothing: what an earlier one found
    bars: tuple[Bar, ...]
    passages: tuple[PassageView, ...]
    calls: tuple[CallView, ...]
    tools: tuple[ToolView, ...]


@dataclass(frozen=True, slots=True)
class Happening:
    """A line of what happened, `bad` where it went wrong."""

    at: datetime
    text: str
    detail: str = ""
    bad: bool = False


def place_name(platform: str, channel: str, private: bool, reader: Reader) -> str:
    if private or channel.startswith(PRIVATE):
        return reader.t("review.private")
    return f"#{channel}" if platform == "web" else f"{platform} #{channel}"


def item(row: ListedRun, reader: Reader, currency: str) -> ListItem:
    """A run as the list shows it."""
    hidden = withheld(row.state, row.private, row.asker, (reader.person.principal,))
    whole = row.timings.get("answer", row.timings.get("resume"))
    return ListItem(
        id=row.id,
        question_id=row.question_id,
        reference=row.question_id[:8],
        text="" if hidden else row.text,
        hidden=hidden,
        at=row.created_at,
        outcome=row.outcome,
        chip=CHIPS.get(row.outcome, ""),
        place=place_name(row.platform, row.channel, row.private, reader),
        asker=reader.name(row.asker),
        rule="" if row.rule == DEFAULT else row.rule,
        variant=row.variant,
        degraded=row.degraded,
        error=row.error,
        seconds="" if whole is None else f"{whole / 1_000:.2f} s",
        tokens=spent(row.tokens),
        cost=money(row.cost, currency),
        helpful=row.helpful,
        unhelpful=row.unhelpful,
    )


def stretch(row: RunRow, known: Mapping[int, Traced], titles: Mapping[int, str], reader: Reader, *,
            currency: str, shown: bool) -> Stretch:  # fmt: skip
    """One run as the page shows it. Where its words are not `shown`, nothing that somebody asked, or that a model wrote
    about it, is in here; documents' own words are, which the console shows anyway."""
    return Stretch(
        id=row.id,
        at=row.created_at,
        outcome=row.outcome,
        chip=CHIPS.get(row.outcome, ""),
        searched=row.searched if shown else (),
        confidence="" if row.confidence is None or not row.retrieved else f"{row.confidence:.2f}",
        rule=row.rule,
        variant=row.variant,
        degraded=tuple(row.degraded),
        error=row.error,
        tokens=tuple((name, int(count)) for name, count in row.tokens.items() if count),
        cost=money(row.cost, currency),
        again="retrieve" not in row.timings and "resume" in row.timings,
        bars=bars(row.timings),
        passages=tuple(_passages(row, known, titles, reader)),
        calls=tuple(_call(call, shown) for call in row.calls),
        tools=tuple(_tool(tool, shown) for tool in row.tools),
    )


def _passages(
    row: RunRow, known: Mapping[int, Traced], titles: Mapping[int, str], reader: Reader
) -> list[PassageView]:
    scores = {int(score["id"]): score for score in row.scores}
    places = {passage: place for place, passage in enumerate(row.retrieved, 1)}
    cited = frozenset(row.cited)
    found = []
    for passage in dict.fromkeys([*row.retrieved, *row.cited]):
        score, traced = scores.get(passage, {}), known.get(passage)
        document = traced.document_id if traced else int(score.get("document", 0))
        title = traced.title if traced else titles.get(document, "")
        headings = traced.heading_path if traced else ()
        found.append(
            PassageView(
                place=places.get(passage, 0),
                title=title or f"#{passage}",
                href=f"{reader.base}/console/documents/{document}" if title else "",
                path=" › ".join(headings[1:] if headings[:1] == (title,) else headings),
                page=traced.page if traced else None,
                version=traced.version if traced else 0,
                outdated=traced is not None and not traced.current,
                gone=traced is None,
                vector=str(score.get("vector", "–")),
                keyword=str(score.get("keyword", "–")),
                score=f"{score['score']:.4f}" if "score" in score else "–",
                reranked=f"{score['reranked']:.3f}" if "reranked" in score else "",
                read=bool(score.get("read")),
                cited=passage in cited,
                extract=_cut(traced.text) if traced else "",
            )
        )
    return found


def _cut(text: str) -> str:
    return text if len(text) <= EXTRACT else text[: EXTRACT - 1].rstrip() + "…"


def _call(call: Mapping[str, Any], shown: bool) -> CallView:
    parts = call.get("parts", {})
    messages = call.get("messages", ()) if shown else ()
    return CallView(
        role=str(call["role"]),
        model=str(call.get("model", "")),
        parts=tuple((name, int(parts[name])) for name in PARTS if parts.get(name)),
        total=int(parts.get("total") or call.get("estimated", 0)),
        counted=int(call.get("counted", 0)),
        completion=int(call.get("completion", 0)),
        trimmed=tuple(call.get("trimmed", ())),
        messages=tuple(Said(str(m["role"]), str(m["content"])) for m in messages if isinstance(m, Mapping)),
    )


def _tool(tool: Mapping[str, Any], shown: bool) -> ToolView:
    arguments = tool.get("arguments", "")
    if isinstance(arguments, Mapping):
        arguments = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return ToolView(
        name=str(tool.get("name", "")),
        arguments=str(arguments) if shown else "",
        text=_cut(str(tool.get("text", ""))) if shown else "",
        trouble=str(tool.get("trouble", "")),
        error=str(tool.get("error", "")),
        milliseconds=int(tool.get("ms", 0)),
        passages=tuple(tool.get("passages", ())),
        offered=tuple(tool.get("offered", ())),
    )


# --- what happened


@dataclass(frozen=True, slots=True)
class Trail:
    """The rows that tell what became of a question."""

    question: QuestionRow
    runs: Sequence[RunRow]
    reviews: Sequence[ReviewEvent]
    deliveries: Sequence[DeliveryRow]
    opinions: Sequence[FeedbackRow]


def happenings(trail: Trail, reader: Reader, *, shown: bool) -> list[Happening]:
    """Everything that became of a question, in order."""
    question = trail.question
    found = [Happening(question.asked_at, reader.t("run.asked", who=reader.name(question.asker)))]
    found += [
        Happening(
            row.created_at,
            reader.t("run.ran", number=row.id, outcome=reader.t(f"runs.outcomes.{row.outcome}")),
            row.error,
            bad=row.outcome == "failed",
        )
        for row in trail.runs
    ]
    found += [_reviewed(event, reader) for event in trail.reviews]
    found += [_delivered(row, reader) for row in trail.deliveries]
    found += [
        Happening(
            row.given_at,
            _liked(row, reader),
            _opinion(row, reader) if shown else "",
            bad=not row.helpful,
        )
        for row in trail.opinions
    ]
    return sorted(found, key=lambda happening: happening.at)


def _liked(row: FeedbackRow, reader: Reader) -> str:
    who = reader.name(row.person)
    return reader.t("run.liked", who=who) if row.helpful else reader.t("run.disliked", who=who)


def _opinion(row: FeedbackRow, reader: Reader) -> str:
    kind, mark, more = row.reason.partition(": ")
    return f"{reader.words(f'chat.feedback_{kind}')}{mark}{more}" if kind in OPINIONS else row.reason


def _named(named: Callable[[], str], name: str) -> str:
    """A name in the reader's words; as it is where there are none for it."""
    try:
        return named()
    except KeyError:
        return name


def _reviewed(event: ReviewEvent, reader: Reader) -> Happening:
    action = _named(lambda: reader.t(f"review.event.{event.action}"), event.action)
    who = reader.name(event.actor) if event.actor else "Signoff"
    return Happening(event.at, f"{reader.t('review.number', number=event.review_id)} · {who}: {action}")


def _delivered(row: DeliveryRow, reader: Reader) -> Happening:
    bad = row.state in ("failed", "refused", "unknown")
    said = reader.t(
        "run.sent",
        kind=_named(lambda: reader.t(f"run.kinds.{row.kind}"), row.kind),
        platform=row.platform,
        state=_named(lambda: reader.t(f"run.delivery.{row.state}"), row.state),
    )
    detail = row.error if bad else ""
    return Happening(row.sent_at or row.created_at, said, detail, bad)
