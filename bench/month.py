"""A month of reviews in virtual time: how much reviewers have to do, and how long askers wait.

    python -m bench.month

3,000 questions about 40 topics (bench/month_questions.py), 5 reviewers with working hours in three zones. Every topic
is held by a rule. The rules, the ramp, the hours and the match of a question with a signed answer are the product's own
functions; drafting and reading are played: a reviewer takes a while, edits a tenth, rejects a few.

No vectors are made. "By the rule" every signed answer of the topic in the question's own language is proposed, as if
the vectors always put it in front: nothing but the rule then keeps a wrong one out. Across languages nothing is served.
"By wording" is what an installation without an embedding model serves.
"""

import argparse
import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from statistics import median
from typing import Any

from bench.month_questions import TOPICS, Fact, facts, phrased
from bench.provenance import ROOT, provenance
from bench.tables import write_section
from bot.hours import Hours
from rag_graph.contracts import Draft, Question
from rag_graph.likeness import differs, wording
from rag_graph.policy import Hold, Rules, Sample, decide
from rag_graph.ramp import OFF, Ramp, loosened, standing, topics
from rag_graph.reuse import alone
from store.text import language

RESULTS = ROOT / "bench/results"
START = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday; the clocks of Berlin go forward on the 29th
DAYS = 30
RATES = (0.2, 0.4, 0.6)
EDITED, REJECTED = 0.10, 0.03
HELD = Rules.parse(
    [
        {"name": f"t{number}", "collections": [f"t{number}"], "action": "hold", "ramp": True}
        for number in range(len(TOPICS))
    ]
)
REVIEWERS = (
    ("Asia/Shanghai", {"mon-fri": ["09:00-12:00", "13:30-18:00"]}),
    ("Asia/Shanghai", {"mon-fri": ["09:00-12:00", "13:30-18:00"]}),
    ("Asia/Shanghai", {"mon-sat": ["13:00-21:00"]}),
    ("Europe/Berlin", {"mon-fri": ["08:30-17:00"]}),
    ("America/New_York", {"mon-thu": ["09:00-17:00"]}),
)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of the month. `how` it repeats an earlier one: frame, words, language; "first" where it does not."""

    number: int
    at: datetime
    fact: Fact
    how: str
    text: str


@dataclass(frozen=True, slots=True)
class Variant:
    """What is switched on. `match`: "" (no verified answers), wording or rule."""

    name: str
    ramp: Ramp = OFF
    match: str = ""


VARIANTS = (
    Variant("everything held"),
    Variant("verified answers, by wording", match="wording"),
    Variant("verified answers, by the rule", match="rule"),
    Variant("ramp", Ramp(8, 10)),
    Variant("ramp and verified, by wording", Ramp(8, 10), "wording"),
    Variant("ramp and verified, by the rule", Ramp(8, 10), "rule"),
    Variant("ramp after 5, verified by the rule", Ramp(5, 10), "rule"),
    Variant("ramp after 20, verified by the rule", Ramp(20, 10), "rule"),
)
HEADLINE = ("everything held", "ramp", "verified answers, by the rule", "ramp and verified, by the rule")


@dataclass
class Month:
    """What was counted."""

    reviews: int = 0
    before: int = 0  # reviews that somebody waited for
    samples: int = 0  # looked at after sending
    served: int = 0  # by a verified answer
    wrong: int = 0  # served though it was another question
    falls: int = 0  # topics put back by a rejection of something sent
    late: int = 0  # answers found wrong only after they were sent
    waits: list[float] = field(default_factory=list)  # minutes, of those who waited
    served_by: Counter[str] = field(default_factory=Counter)
    repeats_by: Counter[str] = field(default_factory=Counter)


def questions(rate: float, seed: int, total: int) -> list[Asked]:
    """The month's questions in order. `rate` of them, in [0, 1], repeat an earlier one in another phrasing."""
    chance = random.Random(f"{seed}:{rate}")
    unasked = [sorted(each, key=lambda _: chance.random()) for each in facts()]
    asked: list[tuple[Fact, str]] = []
    found: list[Asked] = []
    for number, at in enumerate(sorted(_moment(chance) for _ in range(total))):
        if asked and chance.random() < rate:
            fact, language = chance.choice(asked)
            how, text = phrased(fact, chance, language)
        else:
            fact = unasked[chance.randrange(len(unasked))].pop()
            how, text = phrased(fact, chance)
            asked.append((fact, "zh" if any("一" <= letter <= "鿿" for letter in text) else "en"))
        found.append(Asked(number, at, fact, how, text))
    return found


def _moment(chance: random.Random) -> datetime:
    """Four of five in the office hours of Shanghai, the others at any time."""
    while True:
        at = START + timedelta(minutes=chance.random() * DAYS * 24 * 60)
        local = at + timedelta(hours=8)
        if chance.random() < 0.2 or (local.weekday() < 5 and 9 <= local.hour < 18):
            return at


@cache
def _wording(text: str) -> str:
    return wording(text)


@cache
def _alone(text: str) -> bool:
    return alone(text)


class _Shelf:
    """Signed answers: (fact, the question they were signed for), by topic and by wording."""

    def __init__(self, match: str) -> None:
        self._match = match
        self._of_topic: dict[int, list[tuple[Fact, str]]] = defaultdict(list)
        self._by_wording: dict[str, Fact] = {}

    def keep(self, asked: Asked) -> None:
        if self._match and _alone(asked.text):
            self._of_topic[asked.fact.topic].append((asked.fact, asked.text))
            self._by_wording.setdefault(_wording(asked.text), asked.fact)

    def find(self, asked: Asked) -> Fact | None:
        if not self._match or not _alone(asked.text):
            return None
        same = self._by_wording.get(_wording(asked.text))
        if same is not None or self._match == "wording":
            return same
        spoken = language(asked.text)
        proposed = [known for known in self._of_topic[asked.fact.topic] if language(known[1]) == spoken]
        return next((fact for fact, text in proposed if not differs(asked.text, text)), None)


class _Desk:
    """Reviewers take what waits in order; each is at one at a time, in their own hours."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._hours = [Hours.parse(zone, hours) for zone, hours in REVIEWERS]
        self._free = [START] * len(REVIEWERS)

    def take(self, at: datetime) -> datetime:
        """When a review that opens now is decided."""
        spent = MINUTE * min(
            30.0, self._chance.lognormvariate(0.9, 0.6)
        )  # a median of two and a half minutes
        done = [
            hours.after(max(at, free), spent) for hours, free in zip(self._hours, self._free, strict=True)
        ]
        first = min((end, place) for place, end in enumerate(done) if end is not None)
        self._free[first[1]] = first[0]
        return first[0]


def run(month: list[Asked], variant: Variant, seed: int) -> Month:
    """Play the month."""
    told, desk, shelf = Month(), _Desk(random.Random(f"{seed}:desk")), _Shelf(variant.match)
    decided: dict[str, list[str]] = defaultdict(list)
    events: list[tuple[datetime, int, str, Asked, datetime]] = []
    order = count()
    for asked in month:
        heapq.heappush(events, (asked.at, next(order), "asked", asked, asked.at))
    while events:
        now, _, what, asked, since = heapq.heappop(events)
        topic = topics(f"t{asked.fact.topic}", [f"t{asked.fact.topic}"])[0]
        if what != "asked":
            _decide(told, shelf, decided[topic], asked, (what, seed, variant.ramp))
            if what == "held" and _outcome(asked, seed, 1) == "rejected":  # with a hint: a second draft
                heapq.heappush(events, (_review(told, desk, now), next(order), "again", asked, since))
            elif what != "sample":
                told.waits.append((now - since) / MINUTE)
            continue
        if _served(told, shelf, asked):
            continue
        handling = _verdict(asked, decided[topic], variant.ramp)
        if handling == "sent":
            told.late += _outcome(asked, seed, 1) == "rejected"
            continue
        done = _review(told, desk, now, sample=handling == "sample")
        heapq.heappush(events, (done, next(order), handling, asked, now))
    return told


def _served(told: Month, shelf: _Shelf, asked: Asked) -> bool:
    """Whether a signed answer was given at once."""
    if asked.how != "first":
        told.repeats_by[asked.how] += 1
    known = shelf.find(asked)
    if known is None:
        return False
    told.served += 1
    told.wrong += known.id != asked.fact.id
    told.served_by[asked.how] += 1
    return True


def _verdict(asked: Asked, decided: list[str], ramp: Ramp) -> str:
    name = f"t{asked.fact.topic}"
    question = Question(f"q{asked.number}", "web:all:1", asked.text, "zh", "web:lin", ("everyone",))
    draft = Draft("…", "model", confidence=0.9, collections=(name,))
    verdict = loosened(decide(question, draft, HELD), question, draft, HELD, [standing(decided, ramp)], ramp)
    if isinstance(verdict, Hold):
        return "held"
    return "sample" if isinstance(verdict, Sample) else "sent"


def _review(told: Month, desk: _Desk, now: datetime, *, sample: bool = False) -> datetime:
    told.reviews += 1
    told.samples += sample
    told.before += not sample
    return desk.take(now)


def _decide(told: Month, shelf: _Shelf, decided: list[str], asked: Asked, how: tuple[str, int, Ramp]) -> None:
    what, seed, ramp = how
    outcome = _outcome(asked, seed, 2 if what == "again" else 1)
    was = standing(decided, ramp).sampled
    decided.append(outcome)
    told.falls += was and not standing(decided, ramp).sampled
    told.late += what == "sample" and outcome == "rejected"
    if outcome != "rejected":
        shelf.keep(asked)


def _outcome(asked: Asked, seed: int, round: int) -> str:
    """What a reviewer says to the draft of this question: the same in every variant."""
    drawn = random.Random(f"{seed}:{asked.number}:{round}").random()
    if drawn < EDITED:
        return "edited"
    return "rejected" if drawn < EDITED + REJECTED and round == 1 else "approved"


def measured(seed: int, total: int) -> Iterator[dict[str, Any]]:
    for rate in RATES:
        month = questions(rate, seed, total)
        for variant in VARIANTS:
            told = run(month, variant, seed)
            waits = sorted(told.waits)
            yield {
                "repeat_rate": rate,
                "variant": variant.name,
                "ramp": asdict(variant.ramp),
                "questions": total,
                "reviews_per_100": round(100 * told.reviews / total, 1),
                "waited_for_per_100": round(100 * told.before / total, 1),
                "samples_per_100": round(100 * told.samples / total, 1),
                "served_by_verified_per_100": round(100 * told.served / total, 1),
                "repeats": dict(told.repeats_by),
                "repeats_served": {how: told.served_by[how] for how in told.repeats_by},
                "wrong_reuse": told.wrong,
                "topics_put_back": told.falls,
                "sent_and_later_or_never_found_wrong": told.late,
                "median_wait_minutes_of_held": round(median(waits), 1) if waits else None,
                "p90_wait_minutes_of_held": round(waits[int(len(waits) * 0.9)], 1) if waits else None,
                "median_wait_minutes_of_all": round(median([*waits, *[0.0] * (total - len(waits))]), 1),
            }


def draw(rows: Sequence[Mapping[str, Any]]) -> None:
    import matplotlib as mpl  # only where results are drawn

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for name in HEADLINE:
        mine = [row for row in rows if row["variant"] == name]
        rates = [100 * row["repeat_rate"] for row in mine]
        left.plot(rates, [row["reviews_per_100"] for row in mine], marker="o", label=name)
        right.plot(rates, [row["median_wait_minutes_of_held"] for row in mine], marker="o", label=name)
    left.axhline(30, linestyle=":", color="grey")
    left.set(
        xlabel="repeats, % of questions", ylabel="reviews per 100 questions", ylim=(0, None), xticks=rates
    )
    right.set(
        xlabel="repeats, % of questions",
        ylabel="median wait of held questions, min",
        ylim=(0, None),
        xticks=rates,
    )
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "month.png", dpi=110)


def page(report: Mapping[str, Any]) -> str:
    facts_of = report["provenance"]
    rows = [
        f"| {100 * row['repeat_rate']:.0f} % | {row['variant']} | {row['reviews_per_100']} | {row['samples_per_100']} "
        f"| {row['served_by_verified_per_100']} | {row['wrong_reuse']} | {row['median_wait_minutes_of_held']} "
        f"| {row['median_wait_minutes_of_all']} | {row['sent_and_later_or_never_found_wrong']} |"
        for row in report["results"]
    ]
    return "\n".join(
        [
            "## A month of reviews, simulated",
            "",
            f"`{facts_of['command']}`, {facts_of['date'][:10]}, {facts_of['machine']['processor']}, commit "
            f"{facts_of['commit'][:7]}, configuration `{facts_of['config_hash']}`. 3,000 questions about 40 topics in "
            "virtual time, 5 reviewers with working hours in three zones; a tenth of the drafts is edited, 3 % are "
            "rejected. Rules, ramp, hours and the match with signed answers are the product's; drafting and reading "
            "are played. Vectors are not made: “by the rule” every signed answer of the topic in the "
            "question's language is proposed, “by wording” is what there is without a model; across languages nothing "
            "is served. Of repeats 5 in 7 are asked in another polite frame, 1 in 7 in "
            "other words and 1 in 7 in the other language. The last column counts answers that a reviewer would have "
            "rejected and that were sent first: the price of the ramp.",
            "",
            "| repeats | variant | reviews per 100 | of these after sending | signed answers served per 100 "
            "| wrong reuse | median wait of the held, min | of all, min | wrong ones sent |",
            "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
            *rows,
            "",
            "![reviews per 100 questions and the median wait](../bench/results/month.png)",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--questions", type=int, default=3_000)
    chosen = parser.parse_args()
    config = {
        "seed": chosen.seed, "questions": chosen.questions, "rates": RATES, "edited": EDITED, "rejected": REJECTED,
        "reviewers": REVIEWERS, "variants": [asdict(variant) for variant in VARIANTS], "days": DAYS,
    }  # fmt: skip
    results = list(measured(chosen.seed, chosen.questions))
    report = {"provenance": provenance("python -m bench.month", config), "results": results}
    (RESULTS / "month.json").write_text(
        json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    draw(results)
    print(write_section(ROOT / "docs" / "benchmarks.md", "month", page(report)))
    for row in results:
        print(
            row["repeat_rate"],
            row["variant"],
            row["reviews_per_100"],
            row["wrong_reuse"],
            row["repeats_served"],
        )


if __name__ == "__main__":
    main()
