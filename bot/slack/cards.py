"""The review card, drawn from its reply (see bot/cards.py). One message, redrawn from the row for ever. Pure."""

from collections.abc import Mapping
from typing import Any

from bot import telling
from bot.messages import Reply
from bot.slack.render import (
    HEADER,
    Message,
    actions,
    button,
    context,
    lines,
    neutral,
    passages,
    permalink,
    plain,
    run_note,
    said,
)
from bot.slack.richtext import BLOCKS, BUDGET, Json, pages, size, units
from bot.telling import Setting, source_line, support

# What a card shows of its draft before it says that there is more; the rest of the room is for the buttons.
DRAFT_ROOM = 6_000
STYLES = {"approve": "primary", "reject": "danger"}


def card(reply: Reply, setting: Setting, link: str = "") -> Message:
    """`link` is the address of the thread that the question stands in."""
    title, state = telling.title(reply, setting)
    blocks: list[Json] = [{"type": "header", "text": plain(f"{title} · {state}", HEADER)}]
    blocks += context(*telling.facts(reply, setting)) + lines(telling.waiting(reply, setting))
    if reply.meta["visible"]:
        blocks += _shown(reply, setting)
    else:
        blocks += said(setting.words(reply.language, "chat.card.hidden"))
    blocks += lines(telling.outcome(reply, setting))
    buttons = decisions(reply.meta, reply.language, setting)
    if link:
        buttons.append(permalink(link, reply.language, setting))
    blocks += actions(buttons) + run_note(reply, setting)
    return Message(neutral(f"{title}: {state}"), tuple(blocks))


def _shown(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    question, about = telling.asked(reply, setting)
    head = context(words(language, "chat.card.question")) + said(question) + context(*about)
    foot = context(*support(meta.get("sentences", ()), setting, language))
    foot += context(*(source_line(citation, language, setting) for citation in reply.citations[:10]))
    foot += actions(passages(reply.citations[:20], f"r{meta['review_id']}"))
    room = min(DRAFT_ROOM, BUDGET - 2_000 - size(head) - size(foot))
    first, *more = pages(units(reply.text), max(room, 1_000), BLOCKS - 20) or [said(" ")]
    if more:
        whole = button(words(language, "chat.whole"), "review:open", handle(meta))
        foot = [*context(words(language, "chat.only_beginning")), *actions([whole]), *foot]
    return [*head, *context(words(language, "chat.card.draft")), *first, *foot]


def decisions(
    meta: Mapping[str, Any], language: str, setting: Setting, *, private: bool = False
) -> list[Json]:
    """The buttons of a review; `private`: in front of one reviewer alone."""
    return [
        button(
            setting.words(language, f"chat.card.{name}"), f"review:{name}", handle(meta), STYLES.get(name, "")
        )
        for name in telling.decisions(meta, private=private)
    ]


def handle(meta: Mapping[str, Any]) -> str:
    """What a review's buttons carry: its id and the draft they were drawn for, never the draft itself."""
    return f"{meta['review_id']}:{meta['version_hash']}"
