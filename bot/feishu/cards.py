"""The review card, drawn from its reply (see bot/cards.py). One message, redrawn from the row for ever. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot import telling
from bot.feishu.markdown import BUDGET, COMPONENTS, Json, counted, pages, size, units
from bot.feishu.render import button, card, lines, plain, row, run_note, said, small, sources
from bot.messages import REASONS, Reply
from bot.telling import OPINIONS, Setting, support

# What a card shows of its draft before it says that there is more; the rest of the room is for the buttons.
DRAFT_ROOM = 14_000  # bytes
FIELD = 1_000  # letters of an input: open.feishu.cn/document/feishu-cards/…/interactive-components/input
OPTION, OPTIONS = 75, 100  # letters of one, and how many a list shows
COLOURS = {
    "pending": "orange", "approved": "green", "edited": "green", "rejected": "red", "expired": "grey",
    "withdrawn": "grey",
}  # fmt: skip
KINDS = {"approve": "primary", "reject": "danger"}


def review_card(reply: Reply, setting: Setting, *, private: bool = False) -> Json:
    """`private`: it goes to one reviewer alone, who opened it."""
    words, language, meta = setting.words, reply.language, reply.meta
    title, state = telling.title(reply, setting)
    elements = small(*telling.facts(reply, setting)) + lines(telling.waiting(reply, setting))
    if meta["visible"]:
        elements += _shown(reply, setting)
    else:
        elements += said(words(language, "chat.card.hidden"))
    if meta.get("moved"):
        elements += small(words(language, "feishu.card.moved"))
    else:
        elements += lines(telling.outcome(reply, setting))
    buttons = [
        button(words(language, f"chat.card.{name}"), name, KINDS.get(name, "default"), **handle(meta))
        for name in telling.decisions(meta, private=private)
    ]
    elements += row(buttons)
    if meta["state"] == "pending" and meta["visible"]:
        elements += small(words(language, "feishu.card.reply_to_edit"))
    elements += run_note(reply, setting)
    return card(elements, f"{title}: {state}", f"{title} · {state}", COLOURS.get(meta["state"], "default"))


def _shown(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    question, about = telling.asked(reply, setting)
    head = small(words(language, "chat.card.question")) + said(question) + small(*about)
    foot = small(*support(meta.get("sentences", ()), setting, language))
    foot += sources(reply.citations, language, setting, review=meta["review_id"])
    room = min(DRAFT_ROOM, BUDGET - 4_000 - size(head) - size(foot))
    first, *more = pages(units(reply.text), max(room, 2_000)) or [said(" ")]
    if more:
        whole = button(words(language, "chat.whole"), "open", **handle(meta))
        foot = [*small(words(language, "chat.only_beginning")), *row([whole]), *foot]
    elements = [*head, {"tag": "hr"}, *small(words(language, "chat.card.draft")), *first, *foot]
    if size(elements) > BUDGET or counted(elements) > COMPONENTS - 20:
        elements = [*head, {"tag": "hr"}, *small(words(language, "chat.card.draft")), *first]
    return elements


def handle(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What a review's buttons carry: its id and the draft they were drawn for, never the draft itself."""
    return {"review": meta["review_id"], "version": meta["version_hash"]}


# --- forms, each for one person alone


def edit_form(text: str, owner: Mapping[str, Any], setting: Setting, language: str) -> Json:
    """The draft in as many inputs as it needs."""
    words = setting.words
    parts = [text[at : at + FIELD] for at in range(0, len(text), FIELD)] or [""]
    elements: list[Json] = [
        {
            "tag": "input",
            "name": f"text{number}",
            "input_type": "multiline_text",
            "rows": 8,
            "max_length": FIELD,
            "default_value": part,
            "label": plain(words(language, "chat.edit.label", part=number + 1, parts=len(parts))),
            "label_position": "top",
            "width": "fill",
        }
        for number, part in enumerate(parts)
    ]
    title = words(language, "chat.edit.title")
    hint = small(words(language, "feishu.card.reply_to_edit"))
    return card([*hint, _form("edit", elements, owner, setting, language)], title, title)


def notice(title: str, text: str) -> Json:
    """A card that only says something."""
    return card(said(text), title, title)


def reject_form(owner: Mapping[str, Any], setting: Setting, language: str) -> Json:
    words = setting.words
    elements = [
        _choice("reason", [(words(language, f"review.reasons.{name}"), name) for name in REASONS]),
        _field("hint", words(language, "chat.reject.hint")),
        _field("question", words(language, "chat.reject.better")),
        *small(words(language, "chat.reject.final")),
    ]
    title = words(language, "chat.reject.title")
    return card([_form("reject", elements, owner, setting, language)], title, title)


def pass_on_form(reviewers: Sequence[str], owner: Mapping[str, Any], setting: Setting, language: str) -> Json:
    """To whom a review is given; `reviewers` are principals, at least one."""
    choice = _choice("to", [(setting.name(who), who) for who in reviewers[:OPTIONS]])
    title = setting.words(language, "chat.pass_on.title")
    elements = [*small(setting.words(language, "chat.pass_on.to")), choice]
    return card([_form("pass_on", elements, owner, setting, language)], title, title)


def feedback_form(question_id: str, setting: Setting, language: str) -> Json:
    words = setting.words
    elements = [
        _choice("reason", [(words(language, f"chat.feedback_{name}"), name) for name in OPINIONS]),
        _field("words", words(language, "chat.feedback_words")),
    ]
    title = words(language, "chat.feedback_title")
    return card([_form("feedback", elements, {"question": question_id}, setting, language)], title, title)


def _form(
    name: str, elements: Sequence[Json], owner: Mapping[str, Any], setting: Setting, language: str
) -> Json:
    send = button(setting.words(language, "chat.send"), f"{name}:send", "primary", **owner)
    submit = {**send, "name": "send", "form_action_type": "submit"}
    return {"tag": "form", "name": name, "elements": [*elements, submit]}


def _choice(name: str, options: Sequence[tuple[str, str]]) -> Json:
    return {
        "tag": "select_static",
        "name": name,
        "required": True,
        "initial_option": options[0][1],
        "options": [{"text": plain(label, OPTION), "value": value} for label, value in options],
    }


def _field(name: str, label: str) -> Json:
    return {
        "tag": "input",
        "name": name,
        "max_length": FIELD,
        "label": plain(label),
        "label_position": "top",
        "width": "fill",
    }
