"""The review card, drawn from its reply (see bot/cards.py). One message, redrawn from the row for ever. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.differences import lines
from bot.messages import REASONS, Reply
from bot.slack.render import (
    HEADER,
    MOMENT,
    Message,
    Setting,
    actions,
    bare_of,
    button,
    context,
    dated,
    neutral,
    passages,
    plain,
    said,
    source_line,
)
from bot.slack.richtext import BLOCKS, BUDGET, Json, pages, size, units

# What a card shows of its draft before it says that there is more; the rest of the room is for the buttons.
DRAFT_ROOM = 6_000
QUESTION_LETTERS = 1_500
DOUBTS = 5
NEAREST_LETTERS = 600


def card(reply: Reply, setting: Setting, permalink: str = "") -> Message:
    """`permalink` leads to the asker's thread; empty where there is none to show."""
    words, language, meta = setting.words, reply.language, reply.meta
    title = words(language, "slack.card.title", reference=meta["review_id"])
    blocks: list[Json] = [{"type": "header", "text": plain(f"{title} · {_state(reply, setting)}", HEADER)}]
    blocks += context(*_facts(reply, setting)) + _waiting(reply, setting)
    if meta["visible"]:
        blocks += _shown(reply, setting)
    else:
        blocks += said(words(language, "slack.card.hidden"))
    blocks += _outcome(reply, setting)
    buttons = _buttons(reply, setting)
    if permalink:
        link = button(words(language, "slack.card.permalink"), "permalink", "-")
        buttons.append({**link, "url": permalink})
    blocks += actions(buttons)
    return Message(neutral(f"{title}: {_state(reply, setting)}"), tuple(blocks))


def together(meta: Mapping[str, Any], setting: Setting, language: str) -> list[str]:
    """That two people have to approve it, and who has; that it was sent already."""
    if meta.get("sent"):
        return [setting.words(language, "slack.card.sent")]
    if meta.get("needed", 1) < 2:
        return []
    if meta["approved_by"] and meta["state"] == "pending":
        who = ", ".join(setting.name(name) for name in meta["approved_by"])
        return [setting.words(language, "slack.card.one_of_two", who=who)]
    return [setting.words(language, "slack.card.two")]


def _state(reply: Reply, setting: Setting) -> str:
    return setting.words(reply.language, f"review.state.{reply.meta['state']}")


def _facts(reply: Reply, setting: Setting) -> list[str]:
    words, language, meta = setting.words, reply.language, reply.meta
    where = meta["conversation_id"].split(":")[1]
    place = words(language, "slack.card.direct") if where.startswith("@") else setting.name(f"slack:{where}")
    facts = [
        words(language, "slack.card.asked_by", who=setting.name(meta["asker"]), where=place),
        words(language, "slack.card.rule", rule=meta["reason"]),
    ]
    facts += together(meta, setting, language)
    if meta["round"] > 1:
        facts.append(words(language, "slack.card.round", round=meta["round"]))
    if meta.get("confidence") is not None:
        sure = words(language, "slack.card.confidence", value=f"{meta['confidence']:.2f}")
        facts.append(sure if meta["calibrated"] else f"{sure} · {words(language, 'slack.card.uncalibrated')}")
    return facts


def _waiting(reply: Reply, setting: Setting) -> list[Json]:
    """Who holds it, since when."""
    words, language, meta = setting.words, reply.language, reply.meta
    if meta["state"] != "pending":
        return []
    if meta.get("claimed_by") and meta.get("claimed_at"):
        who = setting.name(meta["claimed_by"])
        return dated(words(language, "slack.since", who=who, age=MOMENT), meta["claimed_at"])
    return dated(words(language, "slack.waiting_for", age=MOMENT), meta["opened_at"])


def _shown(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    question = meta["question"]
    shown = question if len(question) <= QUESTION_LETTERS else question[: QUESTION_LETTERS - 1] + "…"
    head = context(words(language, "slack.card.question")) + said(shown)
    if meta.get("rewritten_question"):
        head += context(
            words(language, "slack.card.rewritten", question=meta["rewritten_question"][:QUESTION_LETTERS])
        )
    if meta.get("nearest"):
        head += _nearest(meta["nearest"], setting, language)
    for change in meta.get("changes", ()):
        head += _changed(change, setting, language)
    foot = context(*support(meta.get("sentences", ()), setting, language))
    foot += context(*(source_line(citation, language, setting) for citation in reply.citations[:10]))
    foot += actions(passages(reply.citations[:20], f"r{meta['review_id']}"))
    room = min(DRAFT_ROOM, BUDGET - 2_000 - size(head) - size(foot))
    first, *more = pages(units(reply.text), max(room, 1_000), BLOCKS - 20) or [said(" ")]
    if more:
        whole = button(words(language, "slack.whole"), "review:open", handle(meta))
        foot = [*context(words(language, "slack.only_beginning")), *actions([whole]), *foot]
    return [*head, *context(words(language, "slack.card.draft")), *first, *foot]


def _nearest(known: Mapping[str, Any], setting: Setting, language: str) -> list[Json]:
    """The signed-off answer that comes nearest to the question, to compare the draft with."""
    who = setting.name(str(known.get("signed_by", "")))
    title = setting.words(language, "slack.card.nearest", who=who, question=bare_of(known["question"])[:300])
    apart = lines(known.get("diff", []), NEAREST_LETTERS)
    differs = setting.words(language, "slack.card.differs" if apart else "slack.card.alike")
    return context(
        title, bare_of(known["answer"])[:NEAREST_LETTERS], differs, *([bare_of(apart)] if apart else [])
    )


def _changed(change: Mapping[str, Any], setting: Setting, language: str) -> list[Json]:
    """What a source of a verified answer says now, against what it said when that was signed."""
    key = "slack.card.source_gone" if change["gone"] else "slack.card.source_changed"
    title = setting.words(language, key, title=bare_of(change["title"])[:300])
    return context(title, bare_of(lines(change["diff"], NEAREST_LETTERS)))


def support(found: Sequence[Mapping[str, Any]], setting: Setting, language: str) -> list[str]:
    """How many sentences rest on their passages, and those that hardly do or do not."""
    judged = [s for s in found if s["support"] in ("supported", "weak", "unsupported")]
    if not judged:
        return []
    counted = sum(s["support"] == "supported" for s in judged)
    return [
        setting.words(language, "slack.card.support", supported=counted, count=len(judged)),
        *(
            setting.words(language, f"slack.card.{s['support']}", sentence=bare_of(s["text"])[:300])
            for s in [s for s in judged if s["support"] != "supported"][:DOUBTS]
        ),
    ]


def _outcome(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    if meta["state"] == "pending":
        return []
    state, at = _state(reply, setting), meta.get("decided_at")
    if at and meta.get("decided_by"):
        who = setting.name(meta["decided_by"])
        head = dated(words(language, "slack.card.decided", state=state, who=who, at=MOMENT), at)
    elif at:
        head = dated(words(language, "slack.card.decided_by_time", state=state, at=MOMENT), at)
    else:
        head = context(state)
    decision = dict(meta.get("decision", {}))
    if decision.get("reason") in REASONS:
        decision["reason"] = words(language, f"review.reasons.{decision['reason']}")
    lines = [
        words(language, f"slack.card.{name}", **{key: decision[key]})
        for key, name in (("reason", "reason"), ("hint", "hint"), ("question", "better"))
        if decision.get(key)
    ]
    return [*head, *context(*lines)]


def _buttons(reply: Reply, setting: Setting) -> list[Json]:
    """None when decided: a card that is over has no live button."""
    words, language, meta = setting.words, reply.language, reply.meta
    if meta["state"] != "pending":
        return []
    value = handle(meta)

    def one(name: str, style: str = "") -> Json:
        return button(words(language, f"slack.card.{name}"), f"review:{name}", value, style)

    claim = one("release" if meta.get("claimed_by") else "claim")
    if not meta["visible"]:
        return [{**one("open_privately"), "action_id": "review:open"}, claim]
    return [one("approve", "primary"), one("edit"), one("reject", "danger"), claim]


def handle(meta: Mapping[str, Any]) -> str:
    """What a review's buttons carry: its id and the draft they were drawn for, never the draft itself."""
    return f"{meta['review_id']}:{meta['version_hash']}"
