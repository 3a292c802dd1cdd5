"""Trying a variant on some conversations: who gets it, when more may, and when it goes back. Pure.

Each guardrail makes yes or no of a question: was this a bad one? After every question the counts are judged by a
sequential test (Wald 1945). While the variant is no worse than it may be, a question is bad with a chance of at most
`usual`; the alternative has odds that are `odds` times as high. The likelihood ratio of the two is

    odds ** bad / (1 + (odds - 1) * usual) ** of

and by Ville's inequality (1939) it ever reaches 1/alpha with a chance of at most alpha, however often one looks and
however long it runs. Written with odds it falls as `usual` grows, so that an upper bound of what is usual is all that
has to be known of the settings' own questions; `upper` gives one that holds at all times together with a chance of
1 - delta (a mixture over all rates in the place of the alternative: Robbins 1970).

A variant that is as good as the settings trips with a chance of at most the sum of all alpha and delta: 2 %, for ever.
bench/canary.py computes exactly what the parameters do.
"""

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = [
    "FAILING",
    "GUARDRAILS",
    "NOTHING",
    "REWRITTEN",
    "SLOW",
    "Count",
    "Guardrail",
    "Plan",
    "Standing",
    "changed",
    "chosen",
    "standing",
    "takes_part",
    "tripped",
    "trips",
    "upper",
    "usual",
]

# Parts of `runs.degraded` that say that a model failed: the draft is quotations, or something was done by rule.
FAILING: Final = ("model", "rewrite", "tools", "rerank")
REWRITTEN: Final = 0.2  # of an answer's words changed by its editor: more is a bad draft, less is polish
SLOW: Final = 0.95  # the quantile of the settings' own answering times above which an answer is slow


@dataclass(frozen=True, slots=True)
class Guardrail:
    """`floor` is the rate that nobody minds, whatever the settings' own. The settings' own rate, with its uncertainty,
    takes its place where it is higher; with `absolute` only once it is shown to be higher, so that a
    variant of a healthy installation is held to the floor itself.

    `alpha`: the chance that it trips for nothing while `usual` is right; `delta`: that `usual` is not.
    """

    name: str
    floor: float
    odds: float
    alpha: float
    delta: float = 0.0
    absolute: bool = False


# Errors have most of the 2 %: they are rare and hurt most. Computed exactly (bench/canary.py), a variant that fails one
# in ten is back within 100 questions with a chance of 95.2, 96.1, 96.4, 96.3, 96.2 and 96.0 % for odds of 4 to 9, one
# in five within 60 with 99.6 to 99.8 %; a healthy one trips within 2,000 with .64 to .49 %.
GUARDRAILS: Final = (
    Guardrail("error", 0.01, 7.0, 0.01, absolute=True),
    Guardrail("unknown", 0.05, 2.5, 0.0012, 0.0008),
    Guardrail("rejected", 0.05, 2.5, 0.0012, 0.0008),
    Guardrail("edited", 0.05, 2.5, 0.0012, 0.0008),
    Guardrail("disliked", 0.05, 2.5, 0.0012, 0.0008),
    Guardrail("slow", 1 - SLOW, 2.5, 0.0012, 0.0008),
)
# The chance at which a healthy installation is ever called worse than an absolute floor. From 1 to 10 % it changes
# nothing of the above; where the settings fail in 2 %, an equal variant trips within 600 questions in 5.6 to 4.4 %.
SHOWN: Final = 0.05


@dataclass(frozen=True, slots=True)
class Count:
    """`bad` of `of` questions."""

    bad: int = 0
    of: int = 0

    @property
    def rate(self) -> float:
        """0 where there is nothing."""
        return self.bad / self.of if self.of else 0.0


NOTHING: Final = Count()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a guardrail stands: the variant's questions (`ours`), the settings' own (`theirs`), what is `usual`, how
    `near` it is to tripping (1 trips), and the number of bad ones at which so many questions would have tripped."""

    guardrail: str
    ours: Count
    theirs: Count
    usual: float
    near: float
    limit: int


# --- who gets it ------------------------------------------------------------------------------------------------


def takes_part(channels: Collection[str], place: str) -> bool:
    """Whether conversations in `place`, a channel's principal, are tried on: all, where no channels are named."""
    return not channels or place in channels


def chosen(canary_id: int, conversation_id: str, percent: float) -> bool:
    """A conversation is always in or always out, and who is in at 5 % is in at 20 %. Each canary draws anew."""
    digest = hashlib.sha256(f"canary\0{canary_id}\0{conversation_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < percent / 100 * 2**64


# --- when more may ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` are percentages, ascending, the last one 100; each takes at least `days` and `questions` of the
    variant's.

    After 100 questions a variant that fails one in ten has gone back with a chance of 95 %: a step that was taken
    sooner would be taken by most bad variants.
    """

    steps: tuple[int, ...] = (5, 20, 100)
    days: float = 7.0
    questions: int = 100

    def after(self, percent: int) -> int | None:
        """The next percentage; None after the last."""
        return next((step for step in self.steps if step > percent), None)

    def lacking(self, days: float, questions: int) -> tuple[str, ...]:
        """What a step that has lasted so long still lacks: days, questions."""
        return tuple(
            name
            for name, lacks in (("days", days < self.days), ("questions", questions < self.questions))
            if lacks
        )


# --- when it goes back ------------------------------------------------------------------------------------------


def trips(rail: Guardrail, ours: Count, theirs: Count) -> bool:
    """Whether the variant's count is more than chance."""
    needed = -math.log(rail.alpha)
    # What is usual is never less than this: most questions need no more than a logarithm.
    least = rail.floor if rail.absolute else max(rail.floor, theirs.rate)
    if _evidence(rail, ours, least) < needed:
        return False
    return _evidence(rail, ours, usual(rail, theirs)) >= needed


def tripped(ours: Mapping[str, Count], theirs: Mapping[str, Count]) -> Standing | None:
    """The first guardrail that trips, by name; a name that is missing has no questions."""
    for rail in GUARDRAILS:
        mine, others = ours.get(rail.name, NOTHING), theirs.get(rail.name, NOTHING)
        if trips(rail, mine, others):
            return standing(rail, mine, others)
    return None


def standing(rail: Guardrail, ours: Count, theirs: Count) -> Standing:
    """For people to look at."""
    needed, expected = -math.log(rail.alpha), usual(rail, theirs)
    near = max(0.0, _evidence(rail, ours, expected) / needed)
    limit = math.ceil((needed + ours.of * _cost(rail, expected)) / math.log(rail.odds) - 1e-9)
    return Standing(rail.name, ours, theirs, expected, near, limit)


def usual(rail: Guardrail, theirs: Count) -> float:
    """The highest rate at which nobody minds: the floor, or an upper bound of the settings' own."""
    if rail.absolute:
        worse = theirs.rate > rail.floor and _mixture(theirs, rail.floor) >= -math.log(SHOWN)
        return max(rail.floor, upper(theirs, SHOWN)) if worse else rail.floor
    return max(rail.floor, upper(theirs, rail.delta))


@lru_cache(maxsize=8_192)
def upper(count: Count, delta: float) -> float:
    """A rate that the true one exceeds at no time with a chance of 1 - delta, whenever and how often one asks."""
    low, high = count.rate, 1.0
    if count.bad == count.of:
        return 1.0
    for _ in range(40):  # halves an interval of at most 1: to a millionth of a millionth
        middle = (low + high) / 2
        if _mixture(count, middle) < -math.log(delta):
            low = middle
        else:
            high = middle
    return high


def _evidence(rail: Guardrail, count: Count, expected: float) -> float:
    """The logarithm of the likelihood ratio."""
    return count.bad * math.log(rail.odds) - count.of * _cost(rail, expected)


def _cost(rail: Guardrail, expected: float) -> float:
    return math.log1p((rail.odds - 1) * expected)


def _mixture(count: Count, rate: float) -> float:
    """The logarithm of the likelihood of all rates, by Jeffreys' weights, against that of `rate` in (0, 1)."""
    bad, good = count.bad, count.of - count.bad
    weights = _beta(bad + 0.5, good + 0.5) - _beta(0.5, 0.5)
    if rate >= 1.0:
        return math.inf if good else weights
    return weights - bad * math.log(rate) - good * math.log1p(-rate)


def _beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


# --- what an editor changed -------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
LONGEST: Final = 600  # words; comparing two of that length takes some 50 ms


def changed(before: str, after: str) -> float:
    """The share of words that an edit changed, in [0, 1]: Levenshtein's distance by words (of Chinese, characters) over
    the longer text. Beyond 600 words the rest is not compared."""
    old, new = (_WORD.findall(text.casefold())[:LONGEST] for text in (before, after))
    longer = max(len(old), len(new))
    return _distance(old, new) / longer if longer else 0.0


def _distance(old: Sequence[str], new: Sequence[str]) -> int:
    row: Iterable[int] = range(len(new) + 1)
    for number, word in enumerate(old, 1):
        above = list(row)
        made = [number]
        for place, other in enumerate(new):
            made.append(min(above[place + 1] + 1, made[place] + 1, above[place] + (word != other)))
        row = made
    return list(row)[-1]
