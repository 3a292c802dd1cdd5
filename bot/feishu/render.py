"""From a `Reply` to the cards that show it. Pure: no network, no clock of its own.

Card JSON 2.0 (open.feishu.cn/document/feishu-cards/card-json-v2-structure). Words of a model or a document appear in
plain_text, in a table's text cells, or escaped by `markdown`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.feishu.markdown import BUDGET, COMPONENTS, Json, bare, counted, pages, size, units
from bot.messages import AGAIN, CHOICES, Reply
from bot.signing import signed_line
from bot.words import Words
from store.text import sentences

SUMMARY = 120  # letters of a notification
LABEL, LINE = 60, 1_500
MARKS = re.compile(r"[*_`~#>|]+|\[(\d{1,3})\]")
DEGRADED = frozenset({"embedding", "model"})
MOST_SOURCES = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """What rendering needs to know besides the reply. `names` are people's display names by principal."""

    words: Words
    now: datetime
    question_id: str = ""
    private: bool = False
    share_to: str = ""  # the chat that a private answer may be shared to
    names: Mapping[str, str] = field(default_factory=dict)

    def name(self, principal: str) -> str:
        return self.names.get(principal) or principal.partition(":")[2] or principal


# --- small parts


def plain(text: str, longest: int = LINE) -> Json:
    """A plain_text object; what does not fit ends in an ellipsis."""
    line = bare(text).strip() or "–"
    return {
        "tag": "plain_text",
        "content": line if len(line) <= longest else line[: longest - 1].rstrip() + "…",
    }


def said(text: str) -> list[Json]:
    """A sentence of ours or somebody's own words, unparsed."""
    pieces = [text[at : at + LINE] for at in range(0, len(text), LINE)] or [" "]
    return [{"tag": "div", "text": plain(piece, LINE + 200)} for piece in pieces]


def small(*lines: str) -> list[Json]:
    """Small print, one element for each line."""
    return [
        {"tag": "div", "text": {**plain(line, LINE), "text_size": "notation", "text_color": "grey"}}
        for line in lines
        if line
    ]


def button(label: str, do: str, kind: str = "default", **value: Any) -> Json:
    """A button whose callback says what to `do`, and on what. A string in place of the object would come back as
    something that the SDK cannot read (larksuite/oapi-sdk-python#112)."""
    behavior = {"type": "callback", "value": {"do": do, **value}}
    return {"tag": "button", "type": kind, "text": plain(label, LABEL), "behaviors": [behavior]}


def row(buttons: Sequence[Json]) -> list[Json]:
    """Buttons side by side, as many to a line as fit."""
    if not buttons:
        return []
    columns = [{"tag": "column", "width": "auto", "elements": [one]} for one in buttons]
    return [{"tag": "column_set", "flex_mode": "flow", "horizontal_spacing": "8px", "columns": columns}]


def panel(title: str, elements: Sequence[Json]) -> list[Json]:
    """A part that opens at a touch."""
    if not elements:
        return []
    header = {"title": plain(title, LABEL)}
    return [{"tag": "collapsible_panel", "expanded": False, "header": header, "elements": list(elements)}]


def card(elements: Sequence[Json], summary: str = "", title: str = "", template: str = "default") -> Json:
    """A whole card. Updates are for everybody who sees it (`update_multi`)."""
    config: Json = {"update_multi": True}
    if summary:
        config["summary"] = {"content": summary[:SUMMARY]}
    made: Json = {"schema": "2.0", "config": config, "body": {"elements": list(elements)}}
    if title:
        made["header"] = {"title": plain(title, 150), "template": template}
    return made


def bare_of(sentence: str) -> str:
    """A sentence without its Markdown and citation marks, in one line."""
    return " ".join(MARKS.sub("", sentence).split())


def first_sentence(text: str) -> str:
    """The notification: the first sentence without its marks."""
    for sentence in sentences(text) or [text]:
        line = bare(bare_of(sentence))
        if line:
            return line if len(line) <= SUMMARY else line[: SUMMARY - 1] + "…"
    return "…"


def age(words: Words, language: str, moment: str | datetime, now: datetime) -> str:
    """How long ago, in words. Moments are ISO 8601 or datetime, with a time zone."""
    then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    minutes = max(0, int((now - then).total_seconds() // 60))
    for key, length in (
        ("years", 525_600),
        ("months", 43_800),
        ("days", 1_440),
        ("hours", 60),
        ("minutes", 1),
    ):
        if minutes >= length:
            return words(language, f"slack.age.{key}", count=minutes // length)
    return words(language, "slack.age.now")


def source_line(citation: Mapping[str, Any], language: str, setting: Setting) -> str:
    """One line of the sources: number, document, section, page, age."""
    words = setting.words
    place = [words(language, "slack.source", number=citation["number"], title=citation["title"])]
    headings = list(citation["heading_path"])
    place += headings[1:] if headings[:1] == [citation["title"]] else headings
    line = " › ".join(place)
    if citation.get("page"):
        line += f" · {words(language, 'answer.page', page=citation['page'])}"
    if citation.get("updated_at"):
        since = age(words, language, citation["updated_at"], setting.now)
        line += f" · {words(language, 'slack.updated', age=since)}"
    return line


def sources(
    citations: Sequence[Mapping[str, Any]], language: str, setting: Setting, **owner: Any
) -> list[Json]:
    """The collapsible list of what was quoted, each with the button that opens its passage."""
    shown = citations[:MOST_SOURCES]
    lines = small(*(source_line(citation, language, setting) for citation in shown))
    buttons = [
        button(f"[{c['number']}] {c['title']}", f"passage:{c['number']}", passage=c["passage_id"], **owner)
        for c in shown
    ]
    title = setting.words(language, "feishu.sources", count=len(citations))
    return panel(title, [*lines, *row(buttons)])


# --- whole messages


def cards(reply: Reply, setting: Setting) -> list[Json]:
    """The card that shows `reply`, and its continuations where it is longer than one."""
    if reply.kind == "held":
        return [_held(reply, setting)]
    if reply.kind in ("answer", "declined", "clarify", "failed", "expired"):
        return _paged(_body(reply, setting), _foot(reply, setting), reply, setting)
    return _paged(pages(units(reply.text)) or [said(" ")], row(_again(reply, setting)), reply, setting)


def _again(reply: Reply, setting: Setting) -> list[Json]:
    """The asker may have it asked once more (it came too late, or the limit was met), or choose after a time-out."""
    offered, words = reply.meta.get("actions", ()), setting.words
    found = [(AGAIN, words(reply.language, "slack.again"))] if AGAIN in offered else []
    found += [(f"choice:{c}", words(reply.language, f"patience.{c}")) for c in CHOICES if c in offered]
    return [button(label, do, question=str(reply.meta["question_id"])) for do, label in found]


def _body(reply: Reply, setting: Setting) -> list[list[Json]]:
    made = pages(units(reply.text)) or [said(" ")]
    if reply.meta.get("kind") == "extractive":
        made = [[*small(setting.words(reply.language, "answer.quoted")), *made[0]], *made[1:]]
    return made


def _foot(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    notes = []
    if line := signed_line(words, language, meta, setting.name(str(meta.get("signed_by", "")))):
        notes.append(line)
    if meta.get("rewritten_question"):
        notes.append(words(language, "answer.rewritten", question=meta["rewritten_question"]))
    notes += [
        words(language, f"answer.degraded_{name}") for name in meta.get("degraded", ()) if name in DEGRADED
    ]
    foot = small(*notes)
    if setting.question_id:
        foot = [*sources(reply.citations, language, setting, question=setting.question_id), *foot]
        foot += row(_offers(reply, setting))
    else:
        foot = small(*(source_line(citation, language, setting) for citation in reply.citations)) + foot
    return foot


def _offers(reply: Reply, setting: Setting) -> list[Json]:
    words, language, question = setting.words, reply.language, setting.question_id
    offers = []
    if reply.kind == "answer":
        offers.append(button(words(language, "slack.helpful"), "helpful", question=question))
        offers.append(button(words(language, "slack.unhelpful"), "unhelpful", question=question))
    if reply.kind in ("answer", "declined", "failed"):
        offers.append(button(words(language, "slack.ask_person"), "person", question=question))
    if reply.kind == "answer" and setting.private and setting.share_to:
        offers.append(button(words(language, "slack.share"), "share", question=question, to=setting.share_to))
    return offers


def _paged(made: list[list[Json]], foot: list[Json], reply: Reply, setting: Setting) -> list[Json]:
    """The foot under the last page, on a card of its own where there is no room."""
    if foot and _fits([*made[-1], *foot]):
        made = [*made[:-1], [*made[-1], *foot]]
    elif foot:
        made = [*made, *_heaps(foot)]
    summary = first_sentence(reply.text)
    shown = []
    for part, page in enumerate(made, 1):
        note = (
            setting.words(reply.language, "slack.continued", part=part, parts=len(made)) if part > 1 else ""
        )
        shown.append(card([*small(note), *page], note or summary))
    return shown


def _fits(elements: list[Json]) -> bool:
    return size(elements) <= BUDGET and counted(elements) <= COMPONENTS


def _heaps(elements: Sequence[Json]) -> list[list[Json]]:
    made: list[list[Json]] = [[]]
    for one in elements:
        if made[-1] and not _fits([*made[-1], one]):
            made.append([])
        made[-1].append(one)
    return made


def _held(reply: Reply, setting: Setting) -> Json:
    """What the asker reads while a person decides, and who that is."""
    words, language, meta = setting.words, reply.language, reply.meta
    elements = said(reply.text)
    if meta.get("claimed_by"):
        since = age(words, language, str(meta["claimed_at"]), setting.now)
        elements += small(
            words(language, "slack.since", who=setting.name(str(meta["claimed_by"])), age=since)
        )
    if setting.question_id and not meta.get("closed"):
        elements += row([button(words(language, "slack.withdraw"), "stop", question=setting.question_id)])
    return card(elements, first_sentence(reply.text))


def stream_card(words: Words, language: str, steps: Sequence[str], text: str, question_id: str) -> Json:
    """What grows while an answer is written. `text` is card Markdown; `body` is the element that the stream fills."""
    elements = small(*(words(language, f"step.{step}") for step in steps))
    elements.append({"tag": "markdown", "element_id": "body", "content": text or " "})
    elements += row([button(words(language, "feishu.stop"), "stop", question=question_id)])
    made = card(elements, words(language, "feishu.writing"))
    made["config"]["streaming_mode"] = True
    return made


# --- when no card will do


def paragraphs(reply: Reply, note: str) -> list[str]:
    """The words alone, headed by the reason, for a post, a text or a file."""
    lines = [note, *bare(reply.text).split("\n")]
    lines += [f"[{citation['number']}] {bare(citation['title'])}" for citation in reply.citations]
    return lines
