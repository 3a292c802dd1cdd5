"""Two variants on the same questions: what became better and worse, and whether that is more than chance. Pure.

Of questions that both have right or both have wrong nothing is learnt; McNemar's exact test asks how often a coin would
part the others like this (McNemar 1947; exact binomial, two-sided). The interval is of the difference between the two
shares: the questions drawn again with replacement, 2.5 to 97.5 % of 10,000 draws (Efron's percentile bootstrap).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np

__all__ = ["Change", "Paired", "changes", "mcnemar", "paired", "verdict"]

DRAWS: Final = 10_000
SURE: Final = 0.05
# Of fewer questions that changed, even all in one direction would come about by chance in one of twenty cases.
FEWEST: Final = 6

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """A question whose `measure` differs: `id`, `line` and `text` are the second variant's."""

    id: str
    line: int
    kind: str
    text: str
    became: Literal["better", "worse"]
    before: str  # what was wrong with it before, "" for nothing
    after: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Paired:
    """One measure over `n` questions that both variants have. `difference` and the interval are shares, after - before;
    `p` is McNemar's."""

    measure: str
    n: int
    before: float
    after: float
    better: int
    worse: int
    difference: float
    low: float
    high: float
    p: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def mcnemar(better: int, worse: int) -> float:
    """The probability that a fair coin parts `better` + `worse` questions at least so unevenly."""
    changed = better + worse
    tail = sum(math.comb(changed, k) for k in range(min(better, worse) + 1)) / 2**changed
    return float(min(1.0, 2 * tail))


def paired(measure: str, before: Rows, after: Rows, kind: str = "", seed: int = 1) -> Paired | None:
    """The rows' `measure` (true, false or absent) compared by question; None where they have none in common. `kind`
    is said beside the measure."""
    earlier = {row["id"]: row.get(measure) for row in before}
    pairs = [
        (bool(earlier[row["id"]]), bool(row[measure]))
        for row in after
        if row.get(measure) is not None and earlier.get(row["id"]) is not None
    ]
    if not pairs:
        return None
    gains = np.array([int(now) - int(then) for then, now in pairs])
    drawn = np.random.default_rng(seed).choice(gains, (DRAWS, len(gains))).mean(axis=1)
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return Paired(
        f"{measure}, {kind}" if kind else measure,
        len(pairs),
        round(sum(then for then, _ in pairs) / len(pairs), 4),
        round(sum(now for _, now in pairs) / len(pairs), 4),
        better,
        worse,
        round(float(gains.mean()), 4),
        round(float(np.quantile(drawn, 0.025)), 4),
        round(float(np.quantile(drawn, 0.975)), 4),
        round(mcnemar(better, worse), 4),
    )


def verdict(pair: Paired) -> str:
    """What may be said of it, in a sentence."""
    changed = pair.better + pair.worse
    told = f"{pair.better} better, {pair.worse} worse of {pair.n}"
    if not changed:
        return f"{told}: the same."
    interval = (
        f"{100 * pair.difference:+.1f} points, 95 % interval {100 * pair.low:+.1f} to {100 * pair.high:+.1f}"
    )
    if changed < FEWEST:
        return f"{told} ({interval}): too few changed to tell. Ask more questions before you choose."
    if pair.p >= SURE:
        return f"{told} ({interval}, p = {pair.p:.2f}): no more than chance would do."
    way = "better" if pair.difference > 0 else "worse"
    return f"{told} ({interval}, p = {pair.p:.3f}): {way}, and that is more than chance."


def changes(before: Rows, after: Rows, measure: str = "right") -> list[Change]:
    """Questions that became better or worse, worse first, in the file's order."""
    earlier = {row["id"]: row for row in before}
    found = []
    for row in after:
        then = earlier.get(row["id"])
        if then is None or then.get(measure) is None or row.get(measure) is None:
            continue
        if bool(then[measure]) != bool(row[measure]):
            became: Literal["better", "worse"] = "better" if row[measure] else "worse"
            found.append(
                Change(
                    row["id"], row["line"], row["kind"], row["text"], became,
                    str(then.get("fault", "")), str(row.get("fault", "")),
                )
            )  # fmt: skip
    return sorted(found, key=lambda change: (change.became == "better", change.line))
