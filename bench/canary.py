"""When a canary goes back: computed exactly, and checked by simulated runs through the same decision function.

    python -m bench.canary

Exactly: the counts of bad questions after n are a Markov chain; what has tripped is taken out of it after every
question. Of the settings' own questions the chain holds the count as well (`joint`), so that what is not known of them
has its full effect. Simulated: six guardrails at once, questions one by one, steps of 5, 20 and 100 % of the
conversations, `rag_graph.canary.tripped` after each question.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from rag_graph.canary import GUARDRAILS, NOTHING, SHOWN, Count, Guardrail, tripped, trips

RESULTS = ROOT / "bench/results"
RUNS = 2_000
SEED = 20261201
HORIZON = 2_000  # of the variant's questions, in the simulated runs of a healthy one
LOOKS = (100, 500, 2_000, 10_000)
# Of the settings' own questions that come with one of the variant's, and until which of those: 5, 20, 100 %.
STEPS = ((500, 19), (1_000, 4), (HORIZON, 0))
# Usual rates of bad questions; how often a question is reviewed or voted on at all.
USUAL = {"error": 0.01, "unknown": 0.15, "rejected": 0.08, "edited": 0.12, "disliked": 0.25, "slow": 0.05}
REVIEWED, VOTED = 0.3, 0.2
ERROR, UNKNOWN = GUARDRAILS[0], GUARDRAILS[1]
REJECTED = GUARDRAILS[2]


# --- exactly ----------------------------------------------------------------------------------------------------


def chance(rail: Guardrail, rate: float, questions: int) -> list[float]:
    """The chance to have tripped after 1 … `questions` questions that are bad at `rate`, where the settings' own are
    not above the floor."""
    alive, gone, found = [1.0], 0.0, []
    for asked in range(1, questions + 1):
        after = [0.0] * (len(alive) + 1)
        for bad, weight in enumerate(alive):
            after[bad] += weight * (1 - rate)
            after[bad + 1] += weight * rate
        for bad, weight in enumerate(after):
            if weight and trips(rail, Count(bad, asked), NOTHING if rail.absolute else Count(0, 10**9)):
                gone += weight
                after[bad] = 0.0
        while len(after) > 1 and after[-1] < 1e-300:
            after.pop()
        alive = after
        found.append(gone)
    return found


def joint(rail: Guardrail, rates: tuple[float, float], questions: int, per: int) -> list[float]:
    """The same with `per` of the settings' own questions before each of the variant's; `rates` are the variant's and
    theirs. What lies ten standard deviations out is left away."""
    ours, theirs = rates
    spread = math.sqrt(questions * per * theirs) + 3
    width = int(questions * per * theirs + 10 * spread)
    height = int(questions * ours + 10 * math.sqrt(questions * ours) + 12)
    alive = np.zeros((height + 1, width + 1))
    alive[0, 0], gone, found = 1.0, 0.0, []
    weights = [math.comb(per, n) * theirs**n * (1 - theirs) ** (per - n) for n in range(per + 1)]
    for asked in range(1, questions + 1):
        after = np.zeros_like(alive)
        for more, weight in enumerate(weights):
            after[:, more:] += weight * alive[:, : width + 1 - more]
        alive = after * (1 - ours)
        alive[1:] += ours * after[:-1]
        for bad in range(min(asked, height) + 1):
            if not alive[bad].any() or not trips(rail, Count(bad, asked), Count(0, asked * per)):
                continue
            up_to = _last(rail, Count(bad, asked), asked * per, width)
            gone += float(alive[bad, : up_to + 1].sum())
            alive[bad, : up_to + 1] = 0.0
        found.append(gone)
    return found


def _last(rail: Guardrail, ours: Count, of: int, most: int) -> int:
    """The highest count of bad ones among the settings' own at which `ours` trips: the fewer they have, the sooner."""
    low, high = 0, min(most, of)
    while low < high:
        middle = (low + high + 1) // 2
        if trips(rail, ours, Count(middle, of)):
            low = middle
        else:
            high = middle - 1
    return low


def soonest(chances: Sequence[float], wanted: float) -> int | None:
    """The first number of questions by which the chance is `wanted`."""
    return next((asked for asked, found in enumerate(chances, 1) if found >= wanted), None)


# --- simulated --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """Cumulative counts after each question, by guardrail: (bad, of)."""

    bad: Mapping[str, Sequence[int]]
    of: Mapping[str, Sequence[int]]


def side(chance_of: np.random.Generator, rates: Mapping[str, float], per: Sequence[int]) -> Side:
    """`per` questions of a side come with each of the variant's."""
    asked = np.asarray(per)
    reviewed, voted = chance_of.binomial(asked, REVIEWED), chance_of.binomial(asked, VOTED)
    rejected = chance_of.binomial(reviewed, rates["rejected"])
    of = {
        "error": asked, "unknown": asked, "slow": asked, "rejected": reviewed, "edited": reviewed - rejected,
        "disliked": voted,
    }  # fmt: skip
    bad = {name: rejected if name == "rejected" else chance_of.binomial(of[name], rates[name]) for name in of}
    return Side(
        {name: np.cumsum(values).tolist() for name, values in bad.items()},
        {name: np.cumsum(values).tolist() for name, values in of.items()},
    )


def run(chance_of: np.random.Generator, rates: Mapping[str, float], questions: int) -> tuple[int, str] | None:
    """After how many of its questions a variant with these rates trips, and by which guardrail; None where it does not
    in so many."""
    per = [next(count for until, count in STEPS if asked < until) for asked in range(questions)]
    ours, theirs = side(chance_of, rates, [1] * questions), side(chance_of, USUAL, per)
    for asked in range(questions):
        found = tripped(_counts(ours, asked), _counts(theirs, asked))
        if found is not None:
            return asked + 1, found.guardrail
    return None


def _counts(counted: Side, asked: int) -> dict[str, Count]:
    return {name: Count(counted.bad[name][asked], counted.of[name][asked]) for name in counted.bad}


def simulated(rates: Mapping[str, float], questions: int, runs: int, seed: int) -> dict[str, Any]:
    """How many of `runs` variants with these rates tripped, when, and by what."""
    ends = [run(np.random.default_rng([seed, number]), rates, questions) for number in range(runs)]
    when = sorted(end[0] for end in ends if end is not None)
    by = [end[1] for end in ends if end is not None]
    return {
        "runs": runs,
        "questions": questions,
        "tripped": len(when),
        "share": round(len(when) / runs, 4),
        "median": when[len(when) // 2] if when else None,
        "by": {name: by.count(name) for name in dict.fromkeys(by)},
    }


# --- the report -------------------------------------------------------------------------------------------------


def exactly() -> dict[str, Any]:
    """All that is computed."""
    healthy = chance(ERROR, 0.01, max(LOOKS))
    comparisons = [
        _compared(rail, usual, rate)
        for rail, usual, rate in (
            (UNKNOWN, 0.15, 0.30),
            (UNKNOWN, 0.15, 0.45),
            (REJECTED, 0.08, 0.25),
            (REJECTED, 0.08, 0.40),
        )
    ]
    return {
        "failing": {
            "20 % within 60": round(chance(ERROR, 0.20, 60)[-1], 5),
            "10 % within 100": round(chance(ERROR, 0.10, 100)[-1], 5),
            "20 % within 60, settings at 1 %": round(joint(ERROR, (0.20, 0.01), 60, 19)[-1], 5),
            "10 % within 100, settings at 1 %": round(joint(ERROR, (0.10, 0.01), 100, 19)[-1], 5),
            "5 % within 300": round(chance(ERROR, 0.05, 300)[-1], 5),
        },
        "healthy, errors at 1 %": {str(asked): round(healthy[asked - 1], 5) for asked in LOOKS},
        "as bad as the settings": {
            f"{100 * rate:g} %": round(joint(ERROR, (rate, rate), 1_000, 19)[-1], 5)
            for rate in (0.012, 0.015, 0.02, 0.03, 0.05)
        },
        "for ever, all guardrails": round(sum(rail.alpha + rail.delta for rail in GUARDRAILS), 5),
        "compared": comparisons,
        "curves": {
            f"{100 * rate:g} %": [round(value, 5) for value in chance(ERROR, rate, 120)]
            for rate in (0.01, 0.05, 0.10, 0.20)
        },
        "limits": _limits(),
    }


def _compared(rail: Guardrail, usual: float, rate: float) -> dict[str, Any]:
    chances = joint(rail, (rate, usual), 250, 19)
    return {
        "guardrail": rail.name,
        "settings": usual,
        "variant": rate,
        "half": soonest(chances, 0.5),
        "nearly all": soonest(chances, 0.95),
    }


def _limits() -> list[tuple[int, int]]:
    """(failures, the number of questions up to which so many trip)."""
    found = []
    for bad in range(2, 9):
        asked = [n for n in range(bad, 400) if trips(ERROR, Count(bad, n), NOTHING)]
        if asked:
            found.append((bad, asked[-1]))
    return found


def scenarios() -> Iterator[tuple[str, Mapping[str, float], int]]:
    yield "fails 20 %", {**USUAL, "error": 0.20}, 60
    yield "fails 10 %", {**USUAL, "error": 0.10}, 100
    yield "healthy", USUAL, HORIZON
    yield "twice as often without an answer", {**USUAL, "unknown": 0.30}, 250
    yield "rejected three times as often", {**USUAL, "rejected": 0.25}, 600


def draw(report: Mapping[str, Any]) -> None:
    import matplotlib as mpl  # only where results are drawn

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for name, values in report["exact"]["curves"].items():
        left.plot(range(1, len(values) + 1), values, label=f"fails {name}")
    left.plot([60, 100], [0.95, 0.95], "k^", markersize=5, label="wanted")
    left.set(xlabel="questions of the variant", ylabel="chance to be back", ylim=(0, 1.02))
    left.legend(fontsize=8)
    limits = report["exact"]["limits"]
    asked = list(range(1, limits[-1][1]))
    right.step(
        asked,
        [next(bad for bad, most in limits if n <= most) for n in asked],
        where="post",
        label="goes back",
    )
    for rate in (0.01, 0.10, 0.20):
        right.plot(
            asked, [rate * n for n in asked], linestyle=":", label=f"{100 * rate:g} % of the questions"
        )
    right.set(xlabel="questions of the variant", ylabel="failures", ylim=(0, 9))
    right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "canary.png", dpi=110)


def page(report: Mapping[str, Any]) -> str:
    facts, exact = report["provenance"], report["exact"]
    rows = [
        [
            name,
            str(found["questions"]),
            f"{found['tripped']} of {found['runs']}",
            f"{100 * found['share']:.2f} %",
        ]
        for name, found in report["simulated"].items()
    ]
    compared = [
        [row["guardrail"], f"{100 * row['settings']:g} %", f"{100 * row['variant']:g} %", str(row["half"]),
         str(row["nearly all"] or "more than 250")]
        for row in exact["compared"]
    ]  # fmt: skip
    failing = [[name, f"{100 * value:.2f} %"] for name, value in exact["failing"].items()]
    healthy = ", ".join(
        f"{100 * value:.2f} % by {int(asked):,}" for asked, value in exact["healthy, errors at 1 %"].items()
    )
    worst = ", ".join(
        f"{100 * value:.2f} % at {name}" for name, value in exact["as bad as the settings"].items()
    )
    limits = ", ".join(f"{bad} in {asked}" for bad, asked in exact["limits"])
    return "\n\n".join(
        [
            "## When a canary goes back",
            f"`{facts['command']}`, {facts['date'][:10]}, commit {facts['commit'][:7]}, configuration "
            f"`{facts['config_hash']}`. A variant goes back by errors at {limits} questions or fewer.",
            "Computed exactly (the counts after n questions are a Markov chain), chance to be back:",
            table(["errors", "chance"], failing),
            f"A healthy variant (1 % errors) trips by them in {healthy} of its questions; all six guardrails together "
            f"in at most {100 * exact['for ever, all guardrails']:g} %, for ever. One that fails exactly as often as "
            f"settings that are ill themselves trips within 1,000 questions in {worst} of errors.",
            "The other guardrails compare with the settings' own questions at the same time (19 to one of the "
            "variant's) with their uncertainty; judged questions (of rejections, decided reviews) until half and until "
            "95 % of such variants are back:",
            table(["guardrail", "settings", "variant", "half", "95 %"], compared),
            f"Simulated, {RUNS:,} runs each with all six guardrails, steps of 5, 20 and 100 % and reviews of "
            f"{100 * REVIEWED:g} % and votes on {100 * VOTED:g} % of the questions:",
            table(["variant", "questions", "back", "share"], rows),
            "![When a canary goes back](../bench/results/canary.png)",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args()
    began = time.perf_counter()
    report: dict[str, Any] = {
        "provenance": provenance(
            "python -m bench.canary",
            {
                "guardrails": [asdict(rail) for rail in GUARDRAILS],
                "shown": SHOWN,
                "usual": USUAL,
                "reviewed": REVIEWED,
                "voted": VOTED,
                "steps": STEPS,
                "runs": chosen.runs,
                "seed": SEED,
            },
        ),
        "exact": exactly(),
        "simulated": {},
    }
    print(json.dumps({key: value for key, value in report["exact"].items() if key != "curves"}, indent=1))
    for name, rates, questions in scenarios():
        report["simulated"][name] = simulated(rates, questions, chosen.runs, SEED)
        print(name, report["simulated"][name], flush=True)
    report["seconds"] = round(time.perf_counter() - began, 1)
    (RESULTS / "canary.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(report)
    print(write_section(ROOT / "docs/benchmarks.md", "canary", page(report)))


if __name__ == "__main__":
    main()
