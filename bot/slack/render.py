"""From a `Reply` to the Slack messages that show it. Pure: no network, no clock of its own.

The shapes: docs.slack.dev/reference/block-kit. Only what this module and its neighbours `cards` and `views` write is
ever sent; words of a model or a document appear in rich text and plain_text only, or neutralised.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot import telling
from bot.messages import AGAIN, CHOICES, Reply
from bot.slack.richtext import BLOCKS, BUDGET, CONTROL, LEFT_BOLD, Json, pages, size, units
from bot.telling import MOMENT, Line, Setting, source_line
from bot.words import Words

JOINER = "\u2060"  # word joiner: invisible, and no address or mention any more
HAIR = "\u200a"  # a space that CommonMark counts as one and nobody sees
BROADCAST = re.compile(r"@(?=channel\b|here\b|everyone\b)", re.I)
ADDRESS = re.compile(r"(?<=\w):(?=//)|(?<=mailto):|(?<=\bwww)\.|(?<=\])(?=\()", re.I)
NOTIFICATION = 300  # characters; a phone shows fewer
BUTTON, CONTEXT, HEADER, OPTION = 75, 2_000, 150, 75  # docs.slack.dev/reference/block-kit
CONTEXT_ELEMENTS, ACTIONS = 10, 25


@dataclass(frozen=True, slots=True)
class Message:
    """One Slack message: `text` for notifications and screen readers, `blocks` for everybody else."""

    text: str
    blocks: tuple[Json, ...]

    def arguments(self) -> Json:
        """What chat.postMessage and chat.update take."""
        return {"text": self.text, "blocks": list(self.blocks)}


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


def run_note(reply: Reply, setting: Setting) -> list[Json]:
    """The way to the run, as small print; nothing else of ours is written in Slack's own marks."""
    link = telling.run_link(reply, setting)
    if link is None:
        return []
    text = {"type": "mrkdwn", "text": f"<{link.href}|{neutral(link.text)}>", "verbatim": True}
    return [{"type": "context", "elements": [text]}]


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


def lines(found: Sequence[Line]) -> list[Json]:
    """Sentences of ours, each moment as Slack shows it in its reader's own time: a message stays, and "just now" does
    not. What has no moment is small print."""
    return [block for line in found for block in (_dated(line) if line.moment else context(line.text))]


def _dated(line: Line) -> list[Json]:
    then = datetime.fromisoformat(line.moment)
    date: Json = {
        "type": "date",
        "timestamp": int(then.timestamp()),
        "format": "{date_short_pretty} {time}",
        "fallback": f"{then:%Y-%m-%d %H:%M} UTC",
    }
    before, _, after = line.text.partition(MOMENT)
    leaves: list[Json] = [{"type": "text", "text": before}, date, {"type": "text", "text": after}]
    shown = [leaf for leaf in leaves if leaf.get("text", " ")]
    return [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": shown}]}]


def first_sentence(text: str) -> str:
    """The notification: the first sentence without its marks."""
    return neutral(telling.first_sentence(text, NOTIFICATION))


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
        return {"text": plain(words(language, f"chat.{key}"), BUTTON), "value": f"{value}:{question_id}"}

    chosen = {"positive_button": choice("helpful", "up"), "negative_button": choice("unhelpful", "down")}
    return {
        "type": "context_actions",
        "elements": [{"type": "feedback_buttons", "action_id": "feedback", **chosen}],
    }


# --- whole messages


def messages(reply: Reply, setting: Setting, link: str = "") -> list[Message]:
    """The message that shows `reply`, and its continuations where it is longer than one. `link` is the address of the
    thread that a notice is about."""
    if reply.kind in ("answer", "declined", "clarify", "failed", "expired"):
        return _answer(reply, setting)
    if reply.kind == "held":
        return [_held(reply, setting)]
    buttons = _buttons(telling.offers(reply, setting), reply, setting)
    if link:
        buttons.append(permalink(link, reply.language, setting))
    return _paged(body(reply.text), actions(buttons), reply, setting)


def permalink(link: str, language: str, setting: Setting) -> Json:
    """A button that opens a thread of ours."""
    return {**button(setting.words(language, "chat.card.permalink"), "permalink", "-"), "url": link}


def _buttons(offers: Sequence[str], reply: Reply, setting: Setting) -> list[Json]:
    """Those that are no feedback: Slack has an element of its own for that."""
    words, language, question = setting.words, reply.language, setting.question_id
    about = str(reply.meta.get("question_id", ""))
    made = {
        AGAIN: ("chat.again", about),
        "person": ("chat.ask_person", question),
        "share": ("chat.share", f"{question}:{setting.share_to}"),
        **{f"choice:{choice}": (f"patience.{choice}", about) for choice in CHOICES},
    }
    return [button(words(language, made[name][0]), name, made[name][1]) for name in offers if name in made]


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
    words, language = setting.words, reply.language
    cited = (source_line(citation, language, setting) for citation in reply.citations)
    foot = context(*cited, *telling.notes(reply, setting))
    offers = telling.offers(reply, setting)
    if setting.question_id:
        foot += actions([*passages(reply.citations, setting.question_id), *_buttons(offers, reply, setting)])
    if "helpful" in offers:
        foot.append(feedback(words, language, setting.question_id))
    foot += run_note(reply, setting)
    made = body(reply.text)
    if reply.meta.get("kind") == "extractive":
        made = _led(context(words(language, "answer.quoted")), made)
    return _paged(made, foot, reply, setting)


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
        note = setting.words(reply.language, "chat.continued", part=part, parts=len(made)) if part > 1 else ""
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
    blocks = said(reply.text) + lines(telling.waiting(reply, setting))
    if setting.question_id and not reply.meta.get("closed"):
        withdraw = setting.words(reply.language, "chat.withdraw")
        blocks += actions([button(withdraw, "stop", setting.question_id)])
    return Message(first_sentence(reply.text), tuple(blocks))
