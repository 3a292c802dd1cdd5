"""From a `Reply` to the Slack messages that show it. Pure: no network, no clock of its own.

The shapes: docs.slack.dev/reference/block-kit. Only what this module and its neighbours `cards` and `views` write is
ever sent; words of a model or a document appear in rich text and plain_text only, or neutralised.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.messages import AGAIN, CHOICES, Reply
from bot.signing import signed_line
from bot.slack.richtext import BLOCKS, BUDGET, CONTROL, LEFT_BOLD, Json, pages, size, units
from bot.words import Words
from store.text import sentences

JOINER = "\u2060"  # word joiner: invisible, and no address or mention any more
HAIR = "\u200a"  # a space that CommonMark counts as one and nobody sees
BROADCAST = re.compile(r"@(?=channel\b|here\b|everyone\b)", re.I)
ADDRESS = re.compile(r"(?<=\w):(?=//)|(?<=mailto):|(?<=\bwww)\.|(?<=\])(?=\()", re.I)
NOTIFICATION = 300  # characters; a phone shows fewer
BUTTON, CONTEXT, HEADER, OPTION = 75, 2_000, 150, 75  # docs.slack.dev/reference/block-kit
CONTEXT_ELEMENTS, ACTIONS = 10, 25
MOMENT = "\0"
MARKS = re.compile(r"[*_`~#>|]+|\[(\d{1,3})\]")


@dataclass(frozen=True, slots=True)
class Message:
    """One Slack message: `text` for notifications and screen readers, `blocks` for everybody else."""

    text: str
    blocks: tuple[Json, ...]

    def arguments(self) -> Json:
        """What chat.postMessage and chat.update take."""
        return {"text": self.text, "blocks": list(self.blocks)}


@dataclass(frozen=True, slots=True)
class Setting:
    """What rendering needs to know besides the reply. `names` are people's display names by principal."""

    words: Words
    now: datetime
    question_id: str = ""
    private: bool = False
    share_to: str = ""  # the channel that a private answer may be shared to
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, principal: str) -> str:
        return self.names.get(principal) or principal.partition(":")[2] or principal


# --- small parts


def neutral(text: str) -> str:
    """`text` for a place that Slack parses: no mention, ping or link is left, and nothing is lost."""
    escaped = html.escape(CONTROL.sub("", text), quote=False)
    return ADDRESS.sub(lambda match: f"{match.group()}{JOINER}", BROADCAST.sub(f"@{JOINER}", escaped))


def markdown(text: str) -> str:
    """`text` for the markdown block and for streams: neutral, and bold beside Chinese made bold."""
    return LEFT_BOLD.sub(lambda match: f"{match.group()}{HAIR}", neutral(text))


def plain(text: str, longest: int) -> Json:
    """A plain_text object; what does not fit ends in an ellipsis."""
    line = CONTROL.sub("", text).strip() or "–"
    shown = line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
    return {"type": "plain_text", "text": shown, "emoji": False}


def context(*lines: str) -> list[Json]:
    """Small print, as many blocks as the lines need; long lines are cut into several."""
    pieces = [line[at : at + CONTEXT] for line in lines if line for at in range(0, len(line), CONTEXT)]
    groups = [pieces[at : at + CONTEXT_ELEMENTS] for at in range(0, len(pieces), CONTEXT_ELEMENTS)]
    return [{"type": "context", "elements": [plain(piece, CONTEXT) for piece in group]} for group in groups]


def button(label: str, action: str, value: str, style: str = "") -> Json:
    made: Json = {"type": "button", "action_id": action, "value": value, "text": plain(label, BUTTON)}
    return made | ({"style": style} if style else {})


def actions(buttons: Sequence[Json]) -> list[Json]:
    return [
        {"type": "actions", "elements": list(buttons[at : at + ACTIONS])}
        for at in range(0, len(buttons), ACTIONS)
    ]


def said(text: str) -> list[Json]:
    """A sentence of ours or somebody's own words, unparsed."""
    leaf = {"type": "text", "text": CONTROL.sub("", text) or " "}
    return [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [leaf]}]}]


def dated(sentence: str, moment: str | datetime) -> list[Json]:
    """A sentence of ours with the moment where `MOMENT` stands in it, which Slack shows in each reader's own time: a
    message stays, and "just now" does not."""
    then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    date: Json = {
        "type": "date",
        "timestamp": int(then.timestamp()),
        "format": "{date_short_pretty} {time}",
        "fallback": f"{then:%Y-%m-%d %H:%M} UTC",
    }
    before, _, after = sentence.partition(MOMENT)
    leaves: list[Json] = [{"type": "text", "text": before}, date, {"type": "text", "text": after}]
    shown = [leaf for leaf in leaves if leaf.get("text", " ")]
    return [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": shown}]}]


def bare_of(sentence: str) -> str:
    """A sentence without its Markdown and citation marks, in one line."""
    return " ".join(MARKS.sub("", sentence).split())


def first_sentence(text: str) -> str:
    """The notification: the first sentence without its marks."""
    for sentence in sentences(text) or [text]:
        bare = bare_of(sentence)
        if bare:
            return neutral(bare if len(bare) <= NOTIFICATION else bare[: NOTIFICATION - 1] + "…")
    return "…"


def age(words: Words, language: str, moment: str | datetime, now: datetime) -> str:
    """How long ago, in words. Moments are ISO 8601 or datetime, with a time zone."""
    then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    minutes = max(0, int((now - then).total_seconds() // 60))
    for key, size_ in (
        ("years", 525_600),
        ("months", 43_800),
        ("days", 1_440),
        ("hours", 60),
        ("minutes", 1),
    ):
        if minutes >= size_:
            return words(language, f"slack.age.{key}", count=minutes // size_)
    return words(language, "slack.age.now")


def source_line(citation: Mapping[str, Any], language: str, setting: Setting) -> str:
    """One line of the sources: number, document, section, page, age."""
    words = setting.words
    place = [words(language, "slack.source", number=citation["number"], title=citation["title"])]
    # A document's first heading is mostly its title: said once is enough.
    headings = list(citation["heading_path"])
    place += headings[1:] if headings[:1] == [citation["title"]] else headings
    line = " › ".join(place)
    if citation.get("page"):
        line += f" · {words(language, 'answer.page', page=citation['page'])}"
    if citation.get("updated_at"):
        line += f" · {words(language, 'slack.updated', age=age(words, language, citation['updated_at'], setting.now))}"
    return line


def passages(citations: Sequence[Mapping[str, Any]], owner: str) -> list[Json]:
    """A button for each passage. `owner` is what the click is looked up by: a question or a review."""
    return [
        button(
            f"[{cited['number']}] {cited['title']}",
            f"passage:{cited['number']}",
            f"{owner}:{cited['passage_id']}",
        )
        for cited in citations
    ]


def feedback(words: Words, language: str, question_id: str) -> Json:
    def choice(key: str, value: str) -> Json:
        return {"text": plain(words(language, f"slack.{key}"), BUTTON), "value": f"{value}:{question_id}"}

    chosen = {"positive_button": choice("helpful", "up"), "negative_button": choice("unhelpful", "down")}
    return {
        "type": "context_actions",
        "elements": [{"type": "feedback_buttons", "action_id": "feedback", **chosen}],
    }


# --- whole messages


def messages(reply: Reply, setting: Setting) -> list[Message]:
    """The message that shows `reply`, and its continuations where it is longer than one."""
    if reply.kind in ("answer", "declined", "clarify", "failed", "expired"):
        return _answer(reply, setting)
    if reply.kind == "held":
        return [_held(reply, setting)]
    return _paged(body(reply.text), actions(_again(reply, setting)), reply, setting)


def _again(reply: Reply, setting: Setting) -> list[Json]:
    """Asking once more, or what a time-out offers, where the reply has it."""
    offered, words = reply.meta.get("actions", ()), setting.words
    found = [(AGAIN, words(reply.language, "slack.again"))] if AGAIN in offered else []
    found += [(f"choice:{c}", words(reply.language, f"patience.{c}")) for c in CHOICES if c in offered]
    return [button(label, action, str(reply.meta["question_id"])) for action, label in found]


def body(text: str) -> list[list[Json]]:
    """The words of an answer as pages of blocks: rich text, or the markdown block where only that fits one page."""
    found = units(text)
    made = pages(found)
    flat = markdown(text)
    tables = any(unit["type"] == "table" for unit in found)
    if len(made) > 1 and not tables and size([{"type": "markdown", "text": flat}]) <= BUDGET:
        return [[{"type": "markdown", "text": flat}]]
    return made or [said(" ")]


def _answer(reply: Reply, setting: Setting) -> list[Message]:
    words, language, meta = setting.words, reply.language, reply.meta
    notes = []
    if line := signed_line(words, language, meta, setting.name(str(meta.get("signed_by", "")))):
        notes.append(line)
    if meta.get("rewritten_question"):
        notes.append(words(language, "answer.rewritten", question=meta["rewritten_question"]))
    notes += [
        words(language, f"answer.degraded_{name}") for name in meta.get("degraded", ()) if name in DEGRADED
    ]
    foot = context(*(source_line(citation, language, setting) for citation in reply.citations), *notes)
    if setting.question_id:
        foot += actions([*passages(reply.citations, setting.question_id), *_offers(reply, setting)])
        if reply.kind == "answer":
            foot.append(feedback(words, language, setting.question_id))
    made = body(reply.text)
    if meta.get("kind") == "extractive":
        made = _led(context(words(language, "answer.quoted")), made)
    return _paged(made, foot, reply, setting)


DEGRADED = frozenset({"embedding", "model"})


def _offers(reply: Reply, setting: Setting) -> list[Json]:
    words, language, owner = setting.words, reply.language, setting.question_id
    offers = []
    if reply.kind in ("answer", "declined", "failed"):
        offers.append(button(words(language, "slack.ask_person"), "person", owner))
    if reply.kind == "answer" and setting.private and setting.share_to:
        offers.append(button(words(language, "slack.share"), "share", f"{owner}:{setting.share_to}"))
    return offers


def _led(head: list[Json], made: list[list[Json]]) -> list[list[Json]]:
    if size([*head, *made[0]]) <= BUDGET and len(head) + len(made[0]) <= BLOCKS:
        return [[*head, *made[0]], *made[1:]]
    return [head, *made]


def _paged(made: list[list[Json]], foot: list[Json], reply: Reply, setting: Setting) -> list[Message]:
    """Pages with the foot under the last one; every page after the first says that it continues."""
    text = first_sentence(reply.text)
    room = BUDGET - len(text)
    if foot and (size([*made[-1], *foot]) > room or len(made[-1]) + len(foot) > BLOCKS):
        made = [*made, *_feet(foot, room)]
    elif foot:
        made = [*made[:-1], [*made[-1], *foot]]
    made = [page for whole in made for page in _within(whole, room - 200)]
    shown = []
    for part, page in enumerate(made, 1):
        note = (
            setting.words(reply.language, "slack.continued", part=part, parts=len(made)) if part > 1 else ""
        )
        shown.append(Message(note or text, tuple([*context(note), *page])))
    return shown


def _feet(foot: list[Json], room: int) -> list[list[Json]]:
    made: list[list[Json]] = [[]]
    for block in foot:
        if size([*made[-1], block]) > room or len(made[-1]) == BLOCKS - 1:
            made.append([])
        made[-1].append(block)
    return made


def _within(page: list[Json], room: int) -> list[list[Json]]:
    """A page as it is, or its blocks in two where the notification text has used up the room."""
    return [page] if size(page) <= room and len(page) < BLOCKS else _feet_of(page, room)


def _feet_of(page: list[Json], room: int) -> list[list[Json]]:
    loose: list[Json] = []
    for block in page:
        inner = block["elements"] if block["type"] == "rich_text" else []
        loose += inner or [block]
    return pages(loose, room, BLOCKS - 1)


def _held(reply: Reply, setting: Setting) -> Message:
    """What the asker reads while a person decides, and who that is."""
    words, language, meta = setting.words, reply.language, reply.meta
    blocks = said(reply.text)
    if meta.get("claimed_by"):
        who = setting.name(str(meta["claimed_by"]))
        blocks += dated(words(language, "slack.since", who=who, age=MOMENT), str(meta["claimed_at"]))
    elif meta.get("opened_at") and not meta.get("closed"):
        blocks += dated(words(language, "slack.waiting_for", age=MOMENT), str(meta["opened_at"]))
    if setting.question_id and not meta.get("closed"):
        blocks += actions([button(words(language, "slack.withdraw"), "stop", setting.question_id)])
    return Message(first_sentence(reply.text), tuple(blocks))
