"""The trust ramp: a topic whose drafts a person keeps approving unchanged is held no longer. Pure.

    [review.ramp]
    after = 20        # approvals in a row without an edit; 0: off
    percent = 10      # from then on: sent at once, and so many of a hundred looked at afterwards

A topic is a rule with `ramp = true` and a collection that its drafts rest on. At first everything of it is held.
After `after` approvals in a row a sample is reviewed after sending; one rejection, then or later, and everything is
held again and counting begins anew.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_graph.contracts import Draft, Question
from rag_graph.policy import Hold, Rules, Sample, Send, Verdict

__all__ = ["OFF", "Ramp", "Standing", "loosened", "standing", "topics"]


@dataclass(frozen=True, slots=True)
class Ramp:
    """`percent` in (0, 100]."""

    after: int = 0
    percent: float = 10.0


OFF = Ramp()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a topic stands. `streak` counts approvals in a row without an edit, `left` those until a sample is enough
    (0 once it is); `falls` how often a rejection put everything back."""

    sampled: bool
    streak: int
    left: int
    falls: int = 0


def topics(rule: str, collections: Iterable[str]) -> tuple[str, ...]:
    """The topics of a draft that `rule` held: one for each collection it rests on."""
    return tuple(f"{rule}/{name}" for name in sorted(set(collections))) or (f"{rule}/",)


def standing(outcomes: Iterable[str], ramp: Ramp) -> Standing:
    """From what reviewers decided on the topic – approved, edited, rejected – oldest first.

    An edit begins the count anew while everything is held. Of what was sent already an edit changes nothing here (the
    message is corrected): only a rejection climbs back.
    """
    sampled, streak, falls = False, 0, 0
    for outcome in outcomes:
        if outcome == "rejected":
            falls += sampled
            sampled, streak = False, 0
        elif outcome == "approved":
            streak += 1
        elif not sampled:
            streak = 0
        sampled = sampled or 0 < ramp.after <= streak
    return Standing(sampled, streak, 0 if sampled else max(0, ramp.after - streak), falls)


def loosened(
    verdict: Verdict,
    question: Question,
    draft: Draft,
    rules: Rules,
    standings: Sequence[Standing],
    ramp: Ramp,
) -> Verdict:
    """`verdict`, or, where every topic of the draft has climbed the ramp, a sample of it.

    A rule that asks for two people, hides a draft or refuses is never loosened.
    """
    rule = rules.named(verdict.rule)
    if type(verdict) is not Hold or rule is None or not rule.ramp or not ramp.after or not standings:
        return verdict
    if not all(standing.sampled for standing in standings):
        return verdict
    reason = f"{verdict.reason}; ramp: {min(standing.streak for standing in standings)} approved in a row"
    if chosen(question.id, verdict.rule, ramp.percent):
        return Sample(verdict.rule, reason)
    return Send(verdict.rule, f"{reason}; not sampled")


def chosen(question_id: str, rule: str, percent: float) -> bool:
    """The same question is always in or out of the sample."""
    digest = hashlib.sha256(f"ramp\0{rule}\0{question_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < percent / 100 * 2**64
