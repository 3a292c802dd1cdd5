"""The review card, drawn from its reply (see bot/cards.py). One message, redrawn from the row for ever. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.differences import lines
from bot.feishu.markdown import BUDGET, COMPONENTS, Json, counted, pages, size, units
from bot.feishu.render import Setting, age, bare_of, button, card, plain, row, said, small, sources
from bot.messages import REASONS, Reply

# What a card shows of its draft before it says that there is more; the rest of the room is for the buttons.
DRAFT_ROOM = 14_000  # bytes
QUESTION_LETTERS = 1_500
DOUBTS = 5
NEAREST_LETTERS = 600
FIELD = 1_000  # letters of an input: open.feishu.cn/document/feishu-cards/…/interactive-components/input
COLOURS = {
    "pending": "orange", "approved": "green", "edited": "green", "rejected": "red", "expired": "grey",
    "withdrawn": "grey",
}  # fmt: skip
FEEDBACK = ("wrong", "incomplete", "outdated", "off")


def review_card(reply: Reply, setting: Setting, *, private: bool = False) -> Json:
    """`private`: it goes to one reviewer alone, who opened it."""
    words, language, meta = setting.words, reply.language, reply.meta
    title = words(language, "slack.card.title", reference=meta["review_id"])
    elements = small(*_facts(reply, setting))
    if meta["visible"]:
        elements += _shown(reply, setting)
    else:
        elements += said(words(language, "slack.card.hidden"))
    elements += small(*_outcome(reply, setting))
    elements += row(_buttons(reply, setting, private=private))
    if meta["state"] == "pending" and meta["visible"]:
        elements += small(words(language, "feishu.card.reply_to_edit"))
    state = _state(reply, setting)
    return card(elements, f"{title}: {state}", f"{title} · {state}", COLOURS.get(meta["state"], "default"))


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
    platform, where, *_ = meta["conversation_id"].split(":")
    direct = where.startswith("@")
    place = words(language, "slack.card.direct") if direct else setting.name(f"{platform}:{where}")
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
    if meta["state"] == "pending":
        if meta.get("claimed_by"):
            facts.append(words(language, "slack.card.claimed", who=setting.name(meta["claimed_by"])))
        else:
            waiting = age(words, language, meta["opened_at"], setting.now)
            facts.append(words(language, "slack.waiting_for", age=waiting))
    return facts


def _shown(reply: Reply, setting: Setting) -> list[Json]:
    words, language, meta = setting.words, reply.language, reply.meta
    question = meta["question"]
    shown = question if len(question) <= QUESTION_LETTERS else question[: QUESTION_LETTERS - 1] + "…"
    head = small(words(language, "slack.card.question")) + said(shown)
    if meta.get("rewritten_question"):
        head += small(
            words(language, "slack.card.rewritten", question=meta["rewritten_question"][:QUESTION_LETTERS])
        )
    if meta.get("nearest"):
        head += _nearest(meta["nearest"], setting, language)
    for change in meta.get("changes", ()):
        head += _changed(change, setting, language)
    foot = small(*support(meta.get("sentences", ()), setting, language))
    foot += sources(reply.citations, language, setting, review=meta["review_id"])
    room = min(DRAFT_ROOM, BUDGET - 4_000 - size(head) - size(foot))
    first, *more = pages(units(reply.text), max(room, 2_000)) or [said(" ")]
    if more:
        whole = button(words(language, "slack.whole"), "open", **handle(meta))
        foot = [*small(words(language, "slack.only_beginning")), *row([whole]), *foot]
    elements = [*head, {"tag": "hr"}, *small(words(language, "slack.card.draft")), *first, *foot]
    if size(elements) > BUDGET or counted(elements) > COMPONENTS - 20:
        elements = [*head, {"tag": "hr"}, *small(words(language, "slack.card.draft")), *first]
    return elements


def _nearest(known: Mapping[str, Any], setting: Setting, language: str) -> list[Json]:
    """The signed-off answer that comes nearest to the question, to compare the draft with."""
    who = setting.name(str(known.get("signed_by", "")))
    title = setting.words(language, "slack.card.nearest", who=who, question=bare_of(known["question"])[:300])
    apart = lines(known.get("diff", []), NEAREST_LETTERS)
    differs = setting.words(language, "slack.card.differs" if apart else "slack.card.alike")
    return small(
        title, bare_of(known["answer"])[:NEAREST_LETTERS], differs, *([bare_of(apart)] if apart else [])
    )


def _changed(change: Mapping[str, Any], setting: Setting, language: str) -> list[Json]:
    """What a source of a verified answer says now, against what it said when that was signed."""
    key = "slack.card.source_gone" if change["gone"] else "slack.card.source_changed"
    title = setting.words(language, key, title=bare_of(change["title"])[:300])
    return small(title, bare_of(lines(change["diff"], NEAREST_LETTERS)))


def support(found: Sequence[Mapping[str, Any]], setting: Setting, language: str) -> list[str]:
    """How many sentences rest on their passages, and those that hardly do or do not."""
    judged = [s for s in found if s["support"] in ("supported", "weak", "unsupported")]
    if not judged:
        return []
    counted = sum(s["support"] == "supported" for s in judged)
    doubted = [s for s in judged if s["support"] != "supported"][:DOUBTS]
    return [
        setting.words(language, "slack.card.support", supported=counted, count=len(judged)),
        *(
            setting.words(language, f"slack.card.{s['support']}", sentence=bare_of(s["text"])[:300])
            for s in doubted
        ),
    ]


def _outcome(reply: Reply, setting: Setting) -> list[str]:
    words, language, meta = setting.words, reply.language, reply.meta
    if meta.get("moved"):
        return [words(language, "feishu.card.moved")]
    if meta["state"] == "pending":
        return []
    state = _state(reply, setting)
    when = str(meta.get("decided_at") or "")[:16].replace("T", " ")
    if meta.get("decided_by"):
        lines = [
            words(language, "slack.card.decided", state=state, who=setting.name(meta["decided_by"]), at=when)
        ]
    else:
        lines = [words(language, "slack.card.decided_by_time", state=state, at=when)] if when else [state]
    decision = dict(meta.get("decision", {}))
    if decision.get("reason") in REASONS:
        decision["reason"] = words(language, f"review.reasons.{decision['reason']}")
    for key, name in (("reason", "reason"), ("hint", "hint"), ("question", "better")):
        if decision.get(key):
            lines.append(words(language, f"slack.card.{name}", **{key: decision[key]}))
    return lines


def _buttons(reply: Reply, setting: Setting, *, private: bool) -> list[Json]:
    """None when decided, or when another card took its place: a card that is over has no live button."""
    words, language, meta = setting.words, reply.language, reply.meta
    if meta["state"] != "pending" or meta.get("moved"):
        return []

    def one(name: str, kind: str = "default", do: str = "") -> Json:
        return button(words(language, f"slack.card.{name}"), do or name, kind, **handle(meta))

    claim = one("release" if meta.get("claimed_by") else "claim")
    if not meta["visible"] and not private:
        return [one("open_privately", do="open"), claim]
    decide = [one("approve", "primary"), one("edit"), one("reject", "danger")]
    return decide if private else [*decide, claim]


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
            "label": plain(words(language, "slack.edit.label", part=number + 1, parts=len(parts))),
            "label_position": "top",
            "width": "fill",
        }
        for number, part in enumerate(parts)
    ]
    title = words(language, "slack.edit.title")
    hint = small(words(language, "feishu.card.reply_to_edit"))
    return card([*hint, _form("edit", elements, owner, setting, language)], title, title)


def too_long_to_edit(setting: Setting, language: str) -> Json:
    """A draft longer than inputs should hold: it is corrected by a reply to its card."""
    words = setting.words
    title = words(language, "slack.edit.title")
    return card(said(words(language, "feishu.card.too_long")), title, title)


def reject_form(owner: Mapping[str, Any], setting: Setting, language: str) -> Json:
    words = setting.words
    elements = [
        _choice("reason", [(words(language, f"review.reasons.{name}"), name) for name in REASONS]),
        _field("hint", words(language, "slack.reject.hint")),
        _field("question", words(language, "slack.reject.better")),
        *small(words(language, "slack.reject.final")),
    ]
    title = words(language, "slack.reject.title")
    return card([_form("reject", elements, owner, setting, language)], title, title)


def feedback_form(question_id: str, setting: Setting, language: str) -> Json:
    words = setting.words
    elements = [
        _choice("reason", [(words(language, f"slack.feedback_{name}"), name) for name in FEEDBACK]),
        _field("words", words(language, "slack.feedback_words")),
    ]
    title = words(language, "slack.feedback_title")
    return card([_form("feedback", elements, {"question": question_id}, setting, language)], title, title)


def _form(
    name: str, elements: Sequence[Json], owner: Mapping[str, Any], setting: Setting, language: str
) -> Json:
    send = button(setting.words(language, "slack.send"), f"{name}:send", "primary", **owner)
    submit = {**send, "name": "send", "form_action_type": "submit"}
    return {"tag": "form", "name": name, "elements": [*elements, submit]}


def _choice(name: str, options: Sequence[tuple[str, str]]) -> Json:
    return {
        "tag": "select_static",
        "name": name,
        "required": True,
        "initial_option": options[0][1],
        "options": [{"text": plain(label, LABEL_LETTERS), "value": value} for label, value in options],
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


LABEL_LETTERS = 75
