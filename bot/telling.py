"""What is said of an answer and of a review, line by line, and which buttons stand below: pure, the same on every chat
platform. A house puts the lines and buttons into its own shapes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from bot import differences
from bot.messages import AGAIN, CHOICES, REASONS, Reply
from bot.words import Words
from store.text import sentences

if TYPE_CHECKING:
    from bot.review import Acted

MARKS = re.compile(r"[*_`~#>|]+|\[(\d{1,3})\]")
MOMENT = "\0"  # stands in a sentence for a moment that the platform shows in its reader's own time
DEGRADED = frozenset({"embedding", "model"})
DOUBTS = 5  # sentences that are named because hardly anything, or nothing, supports them
QUESTION_LETTERS = 1_500  # of a question on a card
NEAREST_LETTERS = 600
SENTENCE_LETTERS = 300
AGES = (("years", 525_600), ("months", 43_800), ("days", 1_440), ("hours", 60), ("minutes", 1))
# The principals in a reply's meta whose names are shown.
PEOPLE = ("signed_by", "asker", "claimed_by", "decided_by", "by")
# What was wrong, as a reader says it.
OPINIONS = ("wrong", "incomplete", "outdated", "off")
# How a person stands for an answer (`meta["signed"]`): the sentence in `answer` of the words files.
SIGNED = {"approved": "signed", "edited": "edited", "verified": "verified"}


@dataclass(frozen=True, slots=True)
class Setting:
    """What rendering needs to know besides the reply. `names` are people's and places' display names by principal."""

    words: Words
    now: datetime
    question_id: str = ""
    private: bool = False
    share_to: str = ""  # the channel that a private answer may be shared to
    names: Mapping[str, str] = field(default_factory=dict)
    console: str = ""  # where the console is reached; "": no message leads there

    def name(self, principal: str) -> str:
        return self.names.get(principal) or principal.partition(":")[2] or principal


@dataclass(frozen=True, slots=True)
class Link:
    """The one kind of link that a message of ours carries besides those to threads of its platform."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence; with `moment` (ISO 8601) it holds `MOMENT` where that belongs."""

    text: str
    moment: str = ""


# Kinds of replies that lead to the run that made them, and what the id in such a link looks like.
TRACED = ("answer", "declined", "failed", "card")
IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")


def run_link(reply: Reply, setting: Setting) -> Link | None:
    """From a message to its question's run, for those who run Signoff; None where nobody said where that is. Made of
    the settings' address and our own id alone (invariant 8)."""
    question = setting.question_id or str(reply.meta.get("question_id") or "")
    if not setting.console or reply.kind not in TRACED or not IDENTITY.fullmatch(question):
        return None
    text = setting.words(reply.language, "chat.run", reference=question[:8])
    return Link(text, f"{setting.console}/console/runs/{question}")


# --- sentences


def bare_of(sentence: str) -> str:
    """A sentence without its Markdown and citation marks, in one line."""
    return " ".join(MARKS.sub("", sentence).split())


def first_sentence(text: str, longest: int) -> str:
    """The first sentence that has words, without its marks: what a notification shows."""
    for sentence in sentences(text) or [text]:
        bare = bare_of(sentence)
        if bare:
            return bare if len(bare) <= longest else bare[: longest - 1] + "…"
    return "…"


def quoted(text: str) -> str:
    """`text` as a Markdown quotation."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def age(words: Words, language: str, moment: str | datetime, now: datetime) -> str:
    """How long ago, in words. Moments are ISO 8601 or datetime, with a time zone."""
    then = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    minutes = max(0, int((now - then).total_seconds() // 60))
    for key, length in AGES:
        if minutes >= length:
            return words(language, f"chat.age.{key}", count=minutes // length)
    return words(language, "chat.age.now")


def source_line(citation: Mapping[str, Any], language: str, setting: Setting) -> str:
    """One line of the sources: number, document, section, page, age."""
    words = setting.words
    place = [words(language, "chat.source", number=citation["number"], title=citation["title"])]
    # A document's first heading is mostly its title: said once is enough.
    headings = list(citation["heading_path"])
    place += headings[1:] if headings[:1] == [citation["title"]] else headings
    line = " › ".join(place)
    if citation.get("page"):
        line += f" · {words(language, 'answer.page', page=citation['page'])}"
    if citation.get("updated_at"):
        since = age(words, language, citation["updated_at"], setting.now)
        line += f" · {words(language, 'chat.updated', age=since)}"
    return line


# --- an answer


def people(reply: Reply) -> set[str]:
    """The principals whose names this reply shows."""
    nearest = (reply.meta.get("nearest") or {}).get("signed_by")
    named = (*(reply.meta.get(key) for key in PEOPLE), *reply.meta.get("approved_by", ()), nearest)
    return {str(who) for who in named if who}


def question_of(purpose: str) -> str:
    """The question whose buttons a delivery of this purpose carries, "" for none."""
    kind, _, rest = purpose.partition(":")
    return rest.split(":")[0] if kind in ("answer", "held", "share") else ""


def notes(reply: Reply, setting: Setting) -> list[str]:
    """Who signed an answer off, what was searched, and what it had to do without."""
    words, language, meta = setting.words, reply.language, reply.meta
    found = []
    if line := signed_line(words, language, meta, setting.name(str(meta.get("signed_by", "")))):
        found.append(line)
    if meta.get("rewritten_question"):
        found.append(words(language, "answer.rewritten", question=meta["rewritten_question"]))
    missing = [name for name in meta.get("degraded", ()) if name in DEGRADED]
    return found + [words(language, f"answer.degraded_{name}") for name in missing]


def signed_line(words: Words, language: str, meta: Mapping[str, Any], who: str) -> str:
    """Who stands for an answer, "" where nobody does. `meta` is the reply's, `who` the name of `meta["signed_by"]` as
    it is shown in that house."""
    key = SIGNED.get(str(meta.get("signed", "")))
    return words(language, f"answer.{key}", who=who, day=str(meta.get("signed_at", ""))[:10]) if key else ""


def offers(reply: Reply, setting: Setting) -> list[str]:
    """The buttons below a message besides its passages: helpful, unhelpful, person, share, again, and
    `choice:<one of CHOICES>` of a time-out."""
    offered = reply.meta.get("actions", ())
    found = [AGAIN] if AGAIN in offered else []
    found += [f"choice:{choice}" for choice in CHOICES if choice in offered]
    if not setting.question_id:
        return found
    if reply.kind == "answer":
        found += ["helpful", "unhelpful"]
    if reply.kind in ("answer", "declined", "failed"):
        found.append("person")
    if reply.kind == "answer" and setting.private and setting.share_to:
        found.append("share")
    return found


def waiting(reply: Reply, setting: Setting) -> list[Line]:
    """Who has a draft that waits, and since when; of one that nobody took, since when it waits."""
    words, language, meta = setting.words, reply.language, reply.meta
    if meta.get("closed") or meta.get("state", "pending") != "pending":
        return []
    if meta.get("claimed_by") and meta.get("claimed_at"):
        who = setting.name(str(meta["claimed_by"]))
        return [Line(words(language, "chat.since", who=who, at=MOMENT), str(meta["claimed_at"]))]
    if not meta.get("opened_at"):
        return []
    return [Line(words(language, "chat.waiting_since", at=MOMENT), str(meta["opened_at"]))]


# --- a review


def title(reply: Reply, setting: Setting) -> tuple[str, str]:
    """(what the card is called, how its review stands)."""
    words, language, meta = setting.words, reply.language, reply.meta
    return (
        words(language, "chat.card.title", reference=meta["review_id"]),
        words(language, f"review.state.{meta['state']}"),
    )


def place_of(reply: Reply) -> str:
    """The principal of the channel that a review's question stands in, "" for a direct message."""
    platform, channel, *_ = f"{reply.meta['conversation_id']}:".split(":")
    return "" if channel.startswith(("@", "D")) else f"{platform}:{channel}"


def facts(reply: Reply, setting: Setting) -> list[str]:
    """Who asks where, why it was held, how sure the draft is."""
    words, language, meta = setting.words, reply.language, reply.meta
    place = place_of(reply)
    where = setting.name(place) if place else words(language, "chat.card.direct")
    found = [
        words(language, "chat.card.asked_by", who=setting.name(meta["asker"]), where=where),
        words(language, "chat.card.rule", rule=meta["reason"]),
    ]
    if line := together(partial(words, language), meta, setting.name):
        found.append(line)
    if meta["round"] > 1:
        found.append(words(language, "chat.card.round", round=meta["round"]))
    if meta.get("confidence") is not None:
        sure = words(language, "chat.card.confidence", value=f"{meta['confidence']:.2f}")
        found.append(sure if meta["calibrated"] else f"{sure} · {words(language, 'chat.card.uncalibrated')}")
    return found


def together(say: Callable[..., str], meta: Mapping[str, Any], name: Callable[[str], str]) -> str:
    """That two people have to approve a draft, and who has; that it was sent already; "" of any other. `say` gives the
    sentence of a key in the reader's language; `meta` has sent, needed, approved_by and state of the review; `name`
    says what a principal is called."""
    if meta.get("sent"):
        return say("chat.card.sent")
    if meta.get("needed", 1) < 2:
        return ""
    if meta["approved_by"] and meta["state"] == "pending":
        return say("chat.card.one_of_two", who=", ".join(map(name, meta["approved_by"])))
    return say("chat.card.two")


def asked(reply: Reply, setting: Setting) -> tuple[str, list[str]]:
    """(the question as a card shows it, lines about it: what was searched for instead, the nearest signed-off answer
    and how the draft differs from it, what sources of a signed-off answer say now)."""
    words, language, meta = setting.words, reply.language, reply.meta
    question = str(meta["question"])
    shown = question if len(question) <= QUESTION_LETTERS else question[: QUESTION_LETTERS - 1] + "…"
    lines = []
    if meta.get("rewritten_question"):
        searched = meta["rewritten_question"][:QUESTION_LETTERS]
        lines.append(words(language, "chat.card.rewritten", question=searched))
    if meta.get("nearest"):
        known = meta["nearest"]
        who, about = setting.name(str(known.get("signed_by", ""))), bare_of(known["question"])
        lines.append(words(language, "chat.card.nearest", who=who, question=about[:SENTENCE_LETTERS]))
        lines.append(bare_of(known["answer"])[:NEAREST_LETTERS])
        apart = bare_of(differences.lines(known.get("diff", []), NEAREST_LETTERS))
        lines += (
            [words(language, "chat.card.differs"), apart] if apart else [words(language, "chat.card.alike")]
        )
    for change in meta.get("changes", ()):
        key = "chat.card.source_gone" if change["gone"] else "chat.card.source_changed"
        lines.append(words(language, key, title=bare_of(change["title"])[:SENTENCE_LETTERS]))
        lines.append(bare_of(differences.lines(change["diff"], NEAREST_LETTERS)))
    return shown, lines


def support(found: Sequence[Mapping[str, Any]], setting: Setting, language: str) -> list[str]:
    """How many sentences rest on their passages, and those that hardly do or do not."""
    judged = [s for s in found if s["support"] in ("supported", "weak", "unsupported")]
    if not judged:
        return []
    counted = sum(s["support"] == "supported" for s in judged)
    doubted = [s for s in judged if s["support"] != "supported"][:DOUBTS]
    return [
        setting.words(language, "chat.card.support", supported=counted, count=len(judged)),
        *(
            setting.words(
                language, f"chat.card.{s['support']}", sentence=bare_of(s["text"])[:SENTENCE_LETTERS]
            )
            for s in doubted
        ),
    ]


def outcome(reply: Reply, setting: Setting) -> list[Line]:
    """What was decided, by whom, when, and why."""
    words, language, meta = setting.words, reply.language, reply.meta
    if meta["state"] == "pending":
        return []
    _, state = title(reply, setting)
    at = str(meta.get("decided_at") or "")
    if at and meta.get("decided_by"):
        who = setting.name(meta["decided_by"])
        head = Line(words(language, "chat.card.decided", state=state, who=who, at=MOMENT), at)
    elif at:
        head = Line(words(language, "chat.card.decided_by_time", state=state, at=MOMENT), at)
    else:
        head = Line(state)
    decision = meta.get("decision", {})
    return [
        head,
        *(
            Line(words(language, f"chat.card.{name}", **{key: said}))
            for key, name in (("reason", "reason"), ("hint", "hint"), ("question", "better"))
            if (said := _said(decision, key, setting, language))
        ),
    ]


def _said(decision: Mapping[str, Any], key: str, setting: Setting, language: str) -> str:
    said = str(decision.get(key) or "")
    return reason(setting.words, language, said) if key == "reason" else said


def reason(words: Words, language: str, said: str) -> str:
    """Why a reviewer rejected a draft: one of `REASONS`, or in words of their own."""
    return words(language, f"review.reasons.{said}") if said in REASONS else said


def opinion(words: Words, language: str, said: str) -> str:
    """What a reader found wrong: one of `OPINIONS`, perhaps with words of their own behind it."""
    kind, mark, more = said.partition(": ")
    return f"{words(language, f'chat.feedback_{kind}')}{mark}{more}" if kind in OPINIONS else said


def decisions(meta: Mapping[str, Any], *, private: bool = False) -> list[str]:
    """The buttons of a review's card; none when it is over, or when another card took its place. `private`: it lies
    before one reviewer alone, who opened it."""
    if meta["state"] != "pending" or meta.get("moved"):
        return []
    holding = ["release" if meta.get("claimed_by") else "claim", "pass_on"]
    if not meta["visible"] and not private:
        return ["open", *holding]
    deciding = ["approve", "edit", "reject"]
    return deciding if private else [*deciding, *holding]


def told(words: Words, language: str, acted: "Acted", setting: Setting, to: str = "") -> str:
    """What whoever clicked on a review reads, also who comes late or may not. `to`: whom they wanted to give it."""
    review, key = acted.review, acted.key
    state = words(language, f"review.state.{review.state}") if review else ""
    by = (review.decided_by or review.claimed_by or "") if review else ""
    by = to if key == "no_reviewer" else by
    if key == "late" and review is not None and review.state == "pending":
        key = "late_claim" if by else "late_release"
    return words(language, f"review.{key}", state=state, who=setting.name(by) if by else "Signoff")
