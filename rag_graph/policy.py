"""What the review rules decide: which drafts a person signs off before anybody reads them. Pure.

All conditions of a rule must hold; within one, any of its values. The first rule that matches decides, and
without a match the default does.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rag_graph.contracts import Draft, Question
from rag_graph.numbers import quantities
from rag_graph.rules import Action, Rule, Rules, RulesInvalid
from store.text import normalise
from store.words import tokens

__all__ = [
    "Hold",
    "Private",
    "Refuse",
    "Rule",
    "Rules",
    "RulesInvalid",
    "Sample",
    "Send",
    "Two",
    "Verdict",
    "decide",
    "precheck",
]


@dataclass(frozen=True, slots=True)
class _Decided:
    """`rule` is the deciding rule's name ("" for the default), `reason` the conditions that held, for people."""

    disposition: ClassVar[Action]
    rule: str = ""
    reason: str = ""


class Send(_Decided):
    """The draft goes out."""

    disposition = "send"


class Sample(_Decided):
    """The draft goes out, and a reviewer looks at it afterwards."""

    disposition = "sample"


class Hold(_Decided):
    """The draft waits for a person; nobody else sees it."""

    disposition: ClassVar[Action] = "hold"


class Two(Hold):
    """The draft waits until two different people have approved it."""

    disposition = "two_reviewers"


class Private(_Decided):
    """The asker alone sees the draft, marked unverified, while it waits for a person."""

    disposition = "private"


class Refuse(_Decided):
    """The question is not answered at all."""

    disposition = "refuse"


Verdict = Send | Sample | Hold | Private | Refuse
_VERDICTS: Mapping[Action, type[Send | Sample | Hold | Private | Refuse]] = {
    "send": Send,
    "sample": Sample,
    "hold": Hold,
    "private": Private,
    "two_reviewers": Two,
    "refuse": Refuse,
}


# --- deciding ---------------------------------------------------------------------------------------------------


def decide(question: Question, draft: Draft, rules: Rules, searched: str = "") -> Verdict:
    """What happens to `draft`. `searched` is the rewritten question, in which a follow-up's topic is named.

    Only answers are signed off: that the documents do not say, a question back and small talk go out as they are.
    """
    if draft.kind in ("declined", "clarify", "smalltalk"):
        return Send(reason=draft.kind)
    for rule in rules.rules:
        reasons = [check(rule, question, draft, searched) for check in _BEFORE + _AFTER]
        if None not in reasons:
            reason = "; ".join(reason for reason in reasons if reason)
            if rule.action == "sample" and not _sampled(question.id, rule):
                return Send(rule.name, f"{reason}; not sampled".lstrip("; "))
            return _VERDICTS[rule.action](rule.name, reason)
    return _VERDICTS[rules.default]()


def precheck(question: Question, rules: Rules, searched: str | None = None) -> bool:
    """True only when no rule could keep any draft for this question from being read at once.

    What is known before drafting: channel, asker, and the topic where `searched`, the question as it was searched,
    is given (a follow-up's own words do not name its topic). Every other condition may hold for some draft.
    """
    for rule in rules.rules:
        checks = (
            _BEFORE if searched is not None else tuple(check for check in _BEFORE if check is not _topics)
        )
        if any(check(rule, question, None, searched or "") is None for check in checks):
            continue
        if rule.action not in ("send", "sample"):
            return False
        open_conditions = _draft_conditions(rule) or (searched is None and bool(rule.topics))
        if not open_conditions:
            return True
    return rules.default == "send"


def _draft_conditions(rule: Rule) -> bool:
    judged = (rule.confidence_below, rule.unsupported, rule.numbers)
    return bool(rule.collections or rule.labels) or any(condition is not None for condition in judged)


def _sampled(question_id: str, rule: Rule) -> bool:
    """The same question is always in or out of a rule's sample, whoever asks and however often it is run."""
    digest = hashlib.sha256(f"{rule.name}\0{question_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < rule.percent / 100 * 2**64


# Each check: None where the rule has the condition and it does not hold, "" where the rule has no such condition,
# and otherwise what held.
Check = Callable[[Rule, Question, Draft | None, str], str | None]


def _found(name: str, wanted: Sequence[str], present: Sequence[str]) -> str | None:
    if not wanted:
        return ""
    both = [value for value in wanted if value in present]
    return f"{name}: {', '.join(both)}" if both else None


def _channels(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    names = (
        (question.channel, question.channel.lstrip("#"), f"#{question.channel}") if question.channel else ()
    )
    return _found("channel", rule.channels, names)


def _askers(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    return _found("asker", rule.askers, (question.asker, *question.principals))


def _topics(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    if not rule.topics:
        return ""
    text = normalise(f"{question.text}\n{searched}")
    words = set(tokens(text))
    hits = [topic for topic in rule.topics if _named(normalise(topic), text, words)]
    return f"topic: {', '.join(hits)}" if hits else None


_HAN = re.compile("[\u3400-\u9fff]")


def _named(topic: str, text: str, words: set[str]) -> bool:
    """Chinese words stand anywhere; English ones are compared by stem, so that "contract" finds "contracts"."""
    return topic in text if _HAN.search(topic) else set(tokens(topic)) <= words


def _collections(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    return _found("collection", rule.collections, draft.collections if draft else ())


def _labels(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    return _found("label", rule.labels, draft.labels if draft else ())


def _confidence(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    if rule.confidence_below is None:
        return ""
    low = draft is not None and draft.confidence < rule.confidence_below
    return f"confidence: {draft.confidence:.2f} < {rule.confidence_below:g}" if draft and low else None


def _unsupported(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    if rule.unsupported is None:
        return ""
    count = sum(sentence.support == "unsupported" for sentence in draft.sentences) if draft else 0
    return f"unsupported sentences: {count}" if bool(count) is rule.unsupported else None


_MARK = re.compile(r"\[\d+\]")
_COUNTED = ("number", "percent", "money", "duration", "measure", "date", "time")


def _numbers(rule: Rule, question: Question, draft: Draft | None, searched: str) -> str | None:
    if rule.numbers is None:
        return ""
    said = quantities(_MARK.sub(" ", draft.text)) if draft else []
    found = [quantity.text for quantity in said if quantity.kind in _COUNTED and not quantity.soft]
    return f"numbers: {', '.join(found[:3]) or 'none'}" if bool(found) is rule.numbers else None


_BEFORE: tuple[Check, ...] = (_channels, _askers, _topics)
_AFTER: tuple[Check, ...] = (_collections, _labels, _confidence, _unsupported, _numbers)
