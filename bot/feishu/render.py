"""From a `Reply` to the cards that show it. Pure: no network, no clock of its own.

Card JSON 2.0 (open.feishu.cn/document/feishu-cards/card-json-v2-structure). Words of a model or a document appear in
plain_text, in a table's text cells, or escaped by `markdown`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bot import telling
from bot.feishu.markdown import BUDGET, COMPONENTS, Json, bare, counted, escaped, pages, size, units
from bot.messages import AGAIN, CHOICES, Reply
from bot.telling import MOMENT, Line, Setting, source_line
from bot.words import Words

SUMMARY = 120  # letters of a notification
LABEL, LINE = 60, 1_500
MOST_SOURCES = 20


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


def run_note(reply: Reply, setting: Setting) -> list[Json]:
    """The way to the run, as small print."""
    link = telling.run_link(reply, setting)
    if link is None:
        return []
    content = f"[{escaped(link.text)}]({link.href})"
    return [{"tag": "markdown", "text_size": "notation", "content": content}]


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


def lines(found: Sequence[Line]) -> list[Json]:
    """Small print; each moment as Feishu shows it in its reader's own time: a card stays, and "just now" does not."""
    return [element for line in found for element in (_dated(line) if line.moment else small(line.text))]


def _dated(line: Line) -> list[Json]:
    at = int(datetime.fromisoformat(line.moment).timestamp() * 1_000)
    shown = (
        f"<local_datetime millisecond='{at}' format_type='{part}'></local_datetime>"
        for part in ("date_num", "time")
    )
    before, _, after = line.text.partition(MOMENT)
    text = f"{escaped(before)}{' '.join(shown)}{escaped(after)}"
    return [{"tag": "markdown", "text_size": "notation", "content": text}]


def first_sentence(text: str) -> str:
    """The notification: the first sentence without its marks."""
    return bare(telling.first_sentence(text, SUMMARY)) or "…"


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
    return _paged(pages(units(reply.text)) or [said(" ")], row(_offers(reply, setting)), reply, setting)


def _body(reply: Reply, setting: Setting) -> list[list[Json]]:
    made = pages(units(reply.text)) or [said(" ")]
    if reply.meta.get("kind") == "extractive":
        made = [[*small(setting.words(reply.language, "answer.quoted")), *made[0]], *made[1:]]
    return made


def _foot(reply: Reply, setting: Setting) -> list[Json]:
    language, notes = reply.language, small(*telling.notes(reply, setting))
    if setting.question_id:
        cited = sources(reply.citations, language, setting, question=setting.question_id)
        return [*cited, *notes, *row(_offers(reply, setting)), *run_note(reply, setting)]
    return small(*(source_line(citation, language, setting) for citation in reply.citations)) + notes


def _offers(reply: Reply, setting: Setting) -> list[Json]:
    words, language, question = setting.words, reply.language, setting.question_id
    about = {"question": str(reply.meta.get("question_id", ""))}
    made = {
        AGAIN: ("chat.again", about),
        "helpful": ("chat.helpful", {"question": question}),
        "unhelpful": ("chat.unhelpful", {"question": question}),
        "person": ("chat.ask_person", {"question": question}),
        "share": ("chat.share", {"question": question, "to": setting.share_to}),
        **{f"choice:{choice}": (f"patience.{choice}", about) for choice in CHOICES},
    }
    return [
        button(words(language, made[name][0]), name, **made[name][1])
        for name in telling.offers(reply, setting)
    ]


def _paged(made: list[list[Json]], foot: list[Json], reply: Reply, setting: Setting) -> list[Json]:
    """The foot under the last page, on a card of its own where there is no room."""
    if foot and _fits([*made[-1], *foot]):
        made = [*made[:-1], [*made[-1], *foot]]
    elif foot:
        made = [*made, *_heaps(foot)]
    summary = first_sentence(reply.text)
    shown = []
    for part, page in enumerate(made, 1):
        note = setting.words(reply.language, "chat.continued", part=part, parts=len(made)) if part > 1 else ""
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
    elements = said(reply.text) + lines(telling.waiting(reply, setting))
    if setting.question_id and not reply.meta.get("closed"):
        withdraw = setting.words(reply.language, "chat.withdraw")
        elements += row([button(withdraw, "stop", question=setting.question_id)])
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
