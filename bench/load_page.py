"""What `bench.load` measured, as a picture, a section of docs/benchmarks.md, and a report in HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.provenance import ROOT, when_and_where
from bench.tables import table, write_section
from bot.report.page import Page, Section, Table, picture, rendered
from rag_graph.evaluation.drawing import Axis, bars, lines

__all__ = ["report", "write"]

RESULTS = ROOT / "bench" / "results"
P50, P99 = 0.250, 1.000  # seconds of overhead that are asked for
Runs = Mapping[str, Mapping[str, Any]]
KNEES = ("holds", "breaks")
PERCENTILES = ("p50", "p95", "p99")


def write(found: Runs) -> str:
    """Draw the picture and the report, and put the section into the page, which is returned."""
    draw(found)
    (RESULTS / "load.html").write_text(report(found), encoding="utf-8")
    return write_section(ROOT / "docs" / "benchmarks.md", "load", page(found))


def draw(found: Runs) -> None:
    """The overhead at each rate that was tried, for each number of processes."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3.8))
    for name, one in found.items():
        tried = [step for step in one["measured"].get("tried", ()) if step.get("overhead_seconds")]
        if tried:
            rates = [step["asked_a_second"] for step in tried]
            late = {p: [step["overhead_seconds"][p] for step in tried] for p in ("p99", "p50")}
            line = axis.plot(rates, late["p99"], "o-", label=f"{name}, p99")
            axis.plot(rates, late["p50"], "o:", color=line[0].get_color(), label=f"{name}, p50")
    axis.set(xlabel="questions a second", ylabel="seconds from message to answer", yscale="log")
    axis.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "load.png", dpi=110)
    pyplot.close(figure)


# --- the section of docs/benchmarks.md ----------------------------------------------------------------------------


def page(found: Runs) -> str:
    machine = next(iter(found.values()))["provenance"]["machine"]
    parts = [
        "## Load\n\n"
        f"`python -m bench.load`, {machine['cores']} cores for everything (Postgres, "
        "stand-ins and load included). Open loop over 20 conversations in Slack threads; from the message to the call "
        "that posts its whole answer, by the stand-in's clock. The same as a report: `bench/results/load.html`.",
        *_kinds(found),
        "### Overhead, with a model that answers at once",
    ]
    if "steady" in found:
        parts.append(_steady(found["steady"]))
    return "\n\n".join([*parts, *_highest(found)])


def _kinds(found: Runs) -> list[str]:
    parts = []
    if "kinds-1" in found:
        one, measured = found["kinds-1"], found["kinds-1"]["measured"]
        names = list(measured["kinds"])
        rows = [[label, *cells] for label, cells in _figures(measured["kinds"])]
        parts.append(
            f"### By kind\n\nFifty questions of each kind on the sample handbook, each once, {measured['rate']:g} a "
            f"second, one process, local embedding model ({_measured(one)}; load average before {one['load_before']}; "
            f"violated invariants: {_faults(one)}). The model is {measured['model']}."
        )
        parts.append(table(["", *names], rows))
    knees = {name: one for name, one in found.items() if name.startswith("knee-")}
    if knees:
        limit = next(iter(knees.values()))["measured"]["limit_seconds"]
        parts.append(
            f"### Where P95 breaks\n\nThe three kinds mixed, no question twice in the same words, half more each time "
            f"until P95 is beyond {limit:g} s; then once half way back."
        )
        head = ["processes", "holds, a second", "breaks at", "rate: P50 / P95 / P99 s", "violated invariants",
                "load before", "measured"]  # fmt: skip
        parts.append(table(head, [_knee_row(name, one) for name, one in knees.items()]))
    return parts


def _knee_row(name: str, one: Mapping[str, Any]) -> list[str]:
    measured = one["measured"]
    rates = " · ".join(
        f"{step['rate']:g}: " + " / ".join(f"{step['ms'][p] / 1e3:.2f}" for p in PERCENTILES)
        for step in measured["tried"]
    )
    told = [f"{measured[key]:g}" if measured[key] is not None else "–" for key in KNEES]
    return [name.partition("-")[2], *told, rates, _faults(one), str(one["load_before"]), _measured(one)]


def _figures(kinds: Mapping[str, Mapping[str, Any]], *, narrow: bool = False) -> list[tuple[str, list[str]]]:
    """A line for each figure, a cell for each kind; `narrow`: one for each percentile, so that a phone shows it."""
    members = list(kinds.values())
    rows = [("questions", [str(one["questions"]) for one in members])]
    groups = [(p,) for p in PERCENTILES] if narrow else [PERCENTILES]
    for key, label in (("end_to_end_ms", "end to end"), ("search_ms", "retrieval"), ("model_ms", "model")):
        for group in groups:
            cells = [" / ".join(f"{one[key][p]:.0f}" for p in group) for one in members]
            rows.append((f"{label}, ms {' / '.join(group).upper()}", cells))
    rows.append(("calls of the model", [f"{one['model_calls']:.2f}" for one in members]))
    for key, label in (("prompt_tokens", "prompt tokens"), ("completion_tokens", "completion tokens")):
        rows.append((label, [f"{one[key]:,.0f}" for one in members]))
    for key, label in (
        ("right_document_retrieved", "every right document retrieved"),
        ("answer_right", "answer right, by containment"),
        ("right_tool", "right tool called"),
    ):
        rows.append((label, ["–" if one[key] is None else f"{one[key]:.3f}" for one in members]))
    for key in ("declined", "errors"):
        rows.append((key, [str(one[key]) for one in members]))
    without = [", ".join(f"{part} {n}" for part, n in one["without"].items()) or "–" for one in members]
    return [*rows, ("answered without", without)]


def _steady(one: Mapping[str, Any]) -> str:
    measured, spread = one["measured"], one["measured"]["overhead_seconds"]
    met = "met" if spread["p50"] <= P50 and spread["p99"] <= P99 else "**not met**"
    steps = ", ".join(f"{step} {ms}" for step, ms in list(measured["steps_ms"].items())[:10])
    return (
        f"Three questions a second, one process ({_measured(one)}): p50 {spread['p50'] * 1_000:.0f} ms, p99 "
        f"{spread['p99'] * 1_000:.0f} ms, max {spread['max'] * 1_000:.0f} ms (asked for: {P50 * 1_000:.0f} and "
        f"{P99 * 1_000:.0f} ms, {met}; load average before {one['load_before']}); violated invariants: "
        f"{_faults(one)}. Where the time goes, median ms: {steps}. Processor seconds in {measured['questions']} "
        f"questions: {measured['processor_seconds']}."
    )


def _highest(found: Runs) -> list[str]:
    runs = {name: one for name, one in found.items() if "sustained" in one["measured"]}
    if not runs:
        return []
    head = ["processes", "sustained questions a second", "rate: p50 / p99 s", "violated invariants", "load before",
            "measured"]  # fmt: skip
    rows = [
        [
            name.partition("-")[2],
            f"{one['measured']['sustained']:.1f}",
            " · ".join(
                f"{step['rate']}: {spread.get('p50', 0):.2f} / {spread.get('p99', 0):.2f}"
                for step in one["measured"]["tried"]
                for spread in [step["overhead_seconds"]]
            ),
            _faults(one),
            f"{one['load_before']}",
            _measured(one),
        ]
        for name, one in runs.items()
    ]
    spent = [
        f"* {name.partition('-')[2]}: " + ", ".join(f"{kind} {ms:.0f}" for kind, ms in _each(one).items())
        for name, one in runs.items()
    ]
    return [
        table(head, rows),
        "Where the processors' time goes at the highest sustained rate, milliseconds for each question:\n\n"
        + "\n".join(spent),
        "![Overhead by rate](../bench/results/load.png)",
    ]


def _each(one: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds of processor time by kind of process for one question, at the highest sustained rate."""
    measured = one["measured"]
    at = next((step for step in measured["tried"] if step["rate"] == measured["sustained"]), None)
    if at is None:
        return {}
    return {kind: 1e3 * seconds / at["questions"] for kind, seconds in at["processor_seconds"].items()}


def _measured(one: Mapping[str, Any]) -> str:
    return when_and_where(one["provenance"])


def _circumstances(one: Mapping[str, Any]) -> str:
    about = one["provenance"]
    return (
        f"{_measured(one)}, configuration {about['config_hash']}, "
        f"{about['machine']['cores']} cores for everything, load average before {one['load_before']}"
    )


def _faults(one: Mapping[str, Any]) -> str:
    return "; ".join(one["faults"]) or "none"


# --- the report -----------------------------------------------------------------------------------------------------


def report(found: Runs) -> str:
    """One HTML file of everything that was measured."""
    facts = [
        ("Command", "python -m bench.load"),
        *((name, _circumstances(one)) for name, one in found.items()),
    ]
    knees = {
        name.partition("-")[2]: one["measured"] for name, one in found.items() if name.startswith("knee-")
    }
    held = [f"{n} process{'es' if n != '1' else ''} {of['holds'] or 0:g}" for n, of in knees.items()]
    lead = "Signoff under load: what each kind of question costs, and how many a second it bears."
    if held:
        lead = f"Questions a second with P95 within its limit: {', '.join(held)}."
    sections = [*_kinds_section(found), *_knee_sections(found), *_overhead_section(found)]
    return rendered(Page("Load report", lead, facts, sections))


def _kinds_section(found: Runs) -> list[Section]:
    if "kinds-1" not in found:
        return []
    one, measured = found["kinds-1"], found["kinds-1"]["measured"]
    kinds = measured["kinds"]
    texts = [
        f"Fifty questions of each kind on the sample handbook, each once, {measured['rate']:g} a second, one serving "
        "process with the local embedding model, through the Slack stand-in.",
        f"The model is {measured['model']}. So an answer is right where search and context brought what was needed.",
        f"Violated invariants: {_faults(one)}.",
    ]
    spread = [
        (name, [(p.upper(), of["end_to_end_ms"][p]) for p in PERCENTILES]) for name, of in kinds.items()
    ]
    parts = {"end to end": "end_to_end_ms", "model": "model_ms", "retrieval": "search_ms"}
    halves = [(name, [(part, of[key]["p50"]) for part, key in parts.items()]) for name, of in kinds.items()]
    return [
        Section(
            "By kind",
            texts,
            tables=[Table(["", *kinds], [[label, *cells] for label, cells in _figures(kinds, narrow=True)])],
            pictures=[
                picture(bars("From message to answer, milliseconds", spread)),
                picture(bars("Where the median goes, milliseconds", halves)),
            ],
        )
    ]


def _knee_sections(found: Runs) -> list[Section]:
    knees = {
        name.partition("-")[2]: one["measured"] for name, one in found.items() if name.startswith("knee-")
    }
    if not knees:
        return []
    limit = next(iter(knees.values()))["limit_seconds"]
    series = {f"{n} process{'es' if n != '1' else ''}": _points(of["tried"]) for n, of in knees.items()}
    drawn = lines(
        "P95 from message to answer, seconds, by rate",
        series,
        Axis("questions a second"),
        Axis("", log=True),
        limit=(f"limit, {limit:g} s", limit),
    )
    body = [
        [n, *(f"{of[key]:g}" if of[key] is not None else "–" for key in KNEES)] for n, of in knees.items()
    ]
    first = Section(
        "Where P95 breaks",
        [
            "The three kinds mixed, no question twice in the same words. The rate is raised by half until P95 is "
            f"beyond {limit:g} s; one more rate half way back says where between."
        ],
        tables=[Table(["serving processes", "holds, questions a second", "breaks at"], body)],
        pictures=[picture(drawn)],
    )
    return [first, *(_rates(n, of["tried"], found[f"knee-{n}"]) for n, of in knees.items())]


def _points(tried: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [(step["rate"], step["ms"]["p95"] / 1e3) for step in tried if step["answered"]]


def _rates(processes: str, tried: Sequence[Mapping[str, Any]], one: Mapping[str, Any]) -> Section:
    """Each rate that was tried, with the kinds apart."""
    names = [name for name in tried[0]["kinds"] if name != "all"]
    head = ["a second", "answered", "P50 s", "P95 s", "P99 s", *(f"{name} P95" for name in names), "right",
            "CPU ms", "of Postgres"]  # fmt: skip
    rows = [
        [
            f"{step['rate']:g}",
            f"{step['answered']}/{step['questions']}",
            *(f"{step['ms'][p] / 1e3:.2f}" for p in PERCENTILES),
            *(_late(step, name) for name in names),
            f"{step['kinds']['all']['answer_right']:.3f}",
            *(f"{1e3 * step['processor_seconds'][kind] / step['questions']:.0f}" for kind in ("signoff", "postgres")),
        ]
        for step in tried
    ]  # fmt: skip
    title = f"{processes} serving process{'es' if processes != '1' else ''}"
    return Section(title, [f"Violated invariants: {_faults(one)}."], tables=[Table(head, rows)], level=3)


def _late(step: Mapping[str, Any], kind: str) -> str:
    return f"{step['kinds'][kind]['end_to_end_ms']['p95'] / 1e3:.2f}" if kind in step["kinds"] else "–"


def _overhead_section(found: Runs) -> list[Section]:
    texts = [_steady(found["steady"])] if "steady" in found else []
    runs = {name: one["measured"] for name, one in found.items() if "sustained" in one["measured"]}
    if not texts and not runs:
        return []
    series = {
        f"{name.partition('-')[2]}, p99": [
            (step["rate"], step["overhead_seconds"]["p99"])
            for step in of["tried"]
            if step["overhead_seconds"]
        ]
        for name, of in runs.items()
    }
    pictures = [
        picture(lines("P99 of the overhead, seconds, by rate", series, Axis("questions a second"), Axis("", log=True)))
    ] if series else []  # fmt: skip
    body = [[name.partition("-")[2], f"{of['sustained']:.1f}"] for name, of in runs.items()]
    tables = [Table(["serving processes", "sustained, questions a second (p99 ≤ 3 s)"], body)] if body else []
    return [Section("Overhead, with a model that answers at once", texts, tables=tables, pictures=pictures)]
