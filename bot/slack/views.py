"""The modals: loading, passage, draft, edit, reject, pass on, reason, upload. Pure; shapes:
docs.slack.dev/surfaces/modals.
"""

from collections.abc import Sequence
from typing import Any

from bot import telling
from bot.messages import REASONS, Reply
from bot.slack.cards import decisions, handle
from bot.slack.render import actions, context, passages, plain, said
from bot.slack.richtext import Json, pages, units
from bot.telling import OPINIONS, Setting, source_line, support
from store.passages import Passage

TITLE = 24
INPUT = 3_000  # characters of a plain_text_input
PART = 2_800  # what is put into one, so that there is room to write
VIEW_BLOCKS = 100
VIEW_ROOM = 40_000
OPTIONS = 100  # of a static_select


def modal(title: str, blocks: Sequence[Json], **more: Any) -> Json:
    return {"type": "modal", "title": plain(title, TITLE), "blocks": list(blocks)[:VIEW_BLOCKS], **more}


def loading(setting: Setting, language: str) -> Json:
    """What opens at once; a trigger lives three seconds, a database may need longer."""
    words = setting.words
    return modal(words(language, "chat.notice"), said(words(language, "chat.loading")))


def sentence(setting: Setting, language: str, text: str) -> Json:
    """A modal that only says something."""
    return modal(setting.words(language, "chat.notice"), said(text), close=_label(setting, language, "close"))


def passage(found: Sequence[Passage], focus: int, setting: Setting, language: str) -> Json:
    """The quoted passage within its section; `focus` is its id."""
    words = setting.words
    cited = next(p for p in found if p.id == focus)
    line = source_line(
        {
            "number": cited.ordinal + 1, "title": cited.title, "heading_path": cited.heading_path,
            "page": cited.page, "updated_at": cited.updated_at.isoformat(),
        },
        language,
        setting,
    )  # fmt: skip
    blocks = [*context(line.split("] ", 1)[-1]), {"type": "divider"}]
    blocks += _text(cited.text)
    around = [p for p in found if p.id != focus]
    if around:
        blocks += [{"type": "divider"}, *context("…")]
        blocks += [block for p in around for block in _text(p.text)]
    return modal(words(language, "chat.passage_title"), blocks, close=_label(setting, language, "close"))


def draft(reply: Reply, setting: Setting) -> Json:
    """A whole draft for one reviewer alone, with its passages and the buttons that decide on it."""
    words, language, meta = setting.words, reply.language, reply.meta
    question, about = telling.asked(reply, setting)
    blocks = context(words(language, "chat.card.question")) + said(question) + context(*about)
    blocks += context(words(language, "chat.card.draft")) + _text(reply.text)
    blocks += context(*support(meta.get("sentences", ()), setting, language))
    blocks += context(*(source_line(citation, language, setting) for citation in reply.citations))
    blocks += actions(passages(reply.citations[:20], f"r{meta['review_id']}"))
    blocks += actions(decisions(meta, language, setting, private=True))
    title, _ = telling.title(reply, setting)
    close = _label(setting, language, "close")
    return modal(title, blocks, close=close, private_metadata=handle(meta))


def edit(text: str, owner: str, setting: Setting, language: str) -> Json:
    """The whole draft to change; in several fields where one cannot hold it."""
    parts = split(text)
    words = setting.words
    blocks = [
        _input(
            f"text{number}",
            words(language, "chat.edit.label", part=number + 1, parts=len(parts)),
            {"type": "plain_text_input", "multiline": True, "max_length": INPUT, "initial_value": part},
            optional=number > 0,
        )
        for number, part in enumerate(parts)
    ]
    return _form(words(language, "chat.edit.title"), blocks, "review:edit", owner, setting, language)


def split(text: str) -> list[str]:
    """`text` in pieces that fit a field each. Joined by line ends it is `text`, but for a line that no field holds:
    that one gets a line end where it was cut, which Markdown does not show."""
    parts: list[str] = []
    for line in text.split("\n"):
        for at in range(0, max(1, len(line)), PART):
            piece = line[at : at + PART]
            if parts and not at and len(parts[-1]) + 1 + len(piece) <= PART:
                parts[-1] += "\n" + piece
            else:
                parts.append(piece)
    return [part or " " for part in parts]


def reject(owner: str, setting: Setting, language: str) -> Json:
    words = setting.words
    reasons = [_option(words(language, f"review.reasons.{name}"), name) for name in REASONS]
    blocks = [
        _input(
            "reason", words(language, "chat.reject.reason"), {"type": "static_select", "options": reasons}
        ),
        _input(
            "hint",
            words(language, "chat.reject.hint"),
            {"type": "plain_text_input", "max_length": 500},
            optional=True,
        ),
        _input(
            "question",
            words(language, "chat.reject.better"),
            {"type": "plain_text_input", "max_length": 500},
            optional=True,
        ),
        *context(words(language, "chat.reject.final")),
    ]
    return _form(words(language, "chat.reject.title"), blocks, "review:reject", owner, setting, language)


def pass_on(reviewers: Sequence[str], owner: str, setting: Setting, language: str) -> Json:
    """To whom a review is given; `reviewers` are principals, at least one."""
    words = setting.words
    choices = [_option(setting.name(who), who) for who in reviewers[:OPTIONS]]
    select = {"type": "static_select", "options": choices}
    blocks = [_input("to", words(language, "chat.pass_on.to"), select)]
    return _form(words(language, "chat.pass_on.title"), blocks, "review:pass_on", owner, setting, language)


def feedback(question_id: str, setting: Setting, language: str) -> Json:
    words = setting.words
    reasons = [_option(words(language, f"chat.feedback_{name}"), name) for name in OPINIONS]
    blocks = [
        _input(
            "reason", words(language, "chat.feedback_reason"), {"type": "radio_buttons", "options": reasons}
        ),
        _input(
            "words",
            words(language, "chat.feedback_words"),
            {"type": "plain_text_input", "multiline": True, "max_length": 1_000},
            optional=True,
        ),
    ]
    return _form(words(language, "chat.feedback_title"), blocks, "feedback", question_id, setting, language)


def add(collections: Sequence[str], setting: Setting, language: str) -> Json:
    words = setting.words
    blocks = [
        _input(
            "file",
            words(language, "chat.kb.add_file"),
            {"type": "file_input", "max_files": 1},
            optional=True,
        ),
        _input("url", words(language, "chat.kb.add_url"), {"type": "url_text_input"}, optional=True),
        _input(
            "collection",
            words(language, "chat.kb.add_collection"),
            {
                "type": "plain_text_input",
                "max_length": 80,
                "initial_value": collections[0] if len(collections) == 1 else "general",
            },
        ),
        _input(
            "audience", words(language, "chat.kb.add_audience"), {"type": "plain_text_input"}, optional=True
        ),
    ]
    return _form(words(language, "chat.kb.add_title"), blocks, "kb:add", "", setting, language)


def _form(
    title: str, blocks: Sequence[Json], callback: str, private: str, setting: Setting, language: str
) -> Json:
    return modal(
        title,
        blocks,
        callback_id=callback,
        private_metadata=private,
        submit=_label(setting, language, "send"),
        close=_label(setting, language, "close"),
    )


def _input(block: str, label: str, element: Json, *, optional: bool = False) -> Json:
    made = {**element, "action_id": block}
    return {
        "type": "input",
        "block_id": block,
        "label": plain(label, 2_000),
        "element": made,
        "optional": optional,
    }


def _option(text: str, value: str) -> Json:
    return {"text": plain(text, 75), "value": value}


def _label(setting: Setting, language: str, key: str) -> Json:
    return plain(setting.words(language, f"chat.{key}"), TITLE)


def _text(markdown: str) -> list[Json]:
    """Markdown for a view: no tables there, so that rows become lines."""
    found = []
    for unit in units(markdown):
        found += [lines(unit)] if unit["type"] == "table" else [unit]
    return [block for page in pages(found, VIEW_ROOM, VIEW_BLOCKS) for block in page]


def lines(table: Json) -> Json:
    """A table as preformatted lines."""
    rows = [" | ".join(_cell(cell) for cell in row) for row in table["rows"]]
    return {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "\n".join(rows)}]}


def _cell(cell: Json) -> str:
    if cell["type"] == "raw_text":
        return str(cell["text"])
    return "".join(leaf["text"] for leaf in cell["elements"][0]["elements"])
