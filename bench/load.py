"""Load: `make bench-load`. Results go to bench/results/load.json, load.png and docs/benchmarks.md.

An open loop of three questions a second over 20 conversations with an instant model, then the highest rate that is
sustained by 1, 2 and 4 serving processes. `--only steady,highest-2` runs some of it and keeps the others' last results,
each with its own date and commit; `--logs FOLDER` keeps what the processes wrote.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.emulators.slack.client import StandIn
from tests.load.chaos import Ground
from tests.load.fleet import Program, keeping_logs
from tests.load.judge import Report
from tests.load.pace import highest, steady

RESULTS = ROOT / "bench" / "results" / "load.json"
P50, P99 = 0.250, 1.000  # seconds of overhead that are asked for
Run = Callable[[Ground], Coroutine[Any, Any, Report]]
# A further kind of load is one line here: its name, and what runs it.
RUNS: dict[str, Run] = {
    "steady": steady,
    "highest-1": lambda ground: highest(ground, processes=1),
    "highest-2": lambda ground: highest(ground, processes=2),
    "highest-4": lambda ground: highest(ground, processes=4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--logs", type=Path)
    chosen = parser.parse_args()
    names = [name for name in RUNS if name in chosen.only.split(",")]
    found: dict[str, Any] = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else {}
    for name in names:
        found[name] = run(name, chosen.logs)
        print(name, json.dumps(found[name], indent=1), flush=True)
        written = {"runs": {known: found[known] for known in RUNS if known in found}}
        RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    draw(found)
    print(write_section(ROOT / "docs" / "benchmarks.md", "load", page(found)))
    sys.exit(any(found[name]["faults"] for name in names))


def run(name: str, logs: Path | None) -> dict[str, Any]:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, StandIn() as slack:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            asyncio.run(migrate(url))
            with keeping_logs(Path(folder) / "signoff", logs and logs / name) as home:
                report = asyncio.run(RUNS[name](Ground(url, slack, home, Program())))
        finally:
            server.stop()
    return {
        **asdict(report),
        "load_before": round(load, 2),
        "provenance": provenance(f"python -m bench.load --only {name}", {"run": name}),
    }


def draw(found: Mapping[str, Any]) -> None:
    """The overhead at each rate that was tried, for each number of processes."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3.8))
    for name, one in found.items():
        tried = [step for step in one["measured"].get("tried", ()) if step["overhead_seconds"]]
        if tried:
            rates = [step["asked_a_second"] for step in tried]
            line = axis.plot(
                rates, [step["overhead_seconds"]["p99"] for step in tried], "o-", label=f"{name}, p99"
            )
            axis.plot(
                rates, [step["overhead_seconds"]["p50"] for step in tried], "o:", color=line[0].get_color(),
                label=f"{name}, p50",
            )  # fmt: skip
    axis.set(xlabel="questions a second", ylabel="seconds from message to answer", yscale="log")
    axis.legend()
    figure.tight_layout()
    figure.savefig(RESULTS.with_suffix(".png"), dpi=110)


def page(found: Mapping[str, Any]) -> str:
    machine = next(iter(found.values()))["provenance"]["machine"]
    parts = [
        "## Load\n\n"
        f"`python -m bench.load`, {machine['processor']}, {machine['cores']} cores for everything (Postgres, "
        "stand-ins and load included). Open loop over 20 conversations in Slack threads, a model that answers at once; "
        "from the message to the call that posts its whole answer, by the stand-in's clock."
    ]
    if "steady" in found:
        one, spread = found["steady"], found["steady"]["measured"]["overhead_seconds"]
        met = "met" if spread["p50"] <= P50 and spread["p99"] <= P99 else "**not met**"
        parts.append(
            f"Three questions a second, one process ({_measured(one)}): p50 {spread['p50'] * 1_000:.0f} ms, p99 "
            f"{spread['p99'] * 1_000:.0f} ms, max {spread['max'] * 1_000:.0f} ms (asked for: {P50 * 1_000:.0f} and "
            f"{P99 * 1_000:.0f} ms, {met}; load average before {one['load_before']}); violated invariants: "
            f"{'; '.join(one['faults']) or 'none'}. Where the time goes, median ms: "
            + ", ".join(f"{step} {ms}" for step, ms in list(one["measured"]["steps_ms"].items())[:10])
            + f". Processor seconds in {one['measured']['questions']} questions: "
            + f"{one['measured']['processor_seconds']}."
        )
    rows = [
        [
            name.partition("-")[2],
            f"{one['measured']['sustained']:.1f}",
            " · ".join(
                f"{step['rate']}: {spread.get('p50', 0):.2f} / {spread.get('p99', 0):.2f}"
                for step in one["measured"]["tried"]
                for spread in [step["overhead_seconds"]]
            ),
            "; ".join(one["faults"]) or "none",
            f"{one['load_before']}",
            _measured(one),
        ]
        for name, one in found.items()
        if "sustained" in one["measured"]
    ]
    if rows:
        head = [
            "processes",
            "sustained questions a second",
            "rate: p50 / p99 s",
            "violated invariants",
            "load before",
            "measured",
        ]
        spent = [
            f"* {name.partition('-')[2]}: " + ", ".join(f"{kind} {ms:.0f}" for kind, ms in _each(one).items())
            for name, one in found.items()
            if "sustained" in one["measured"]
        ]
        parts += [
            table(head, rows),
            "Where the processors' time goes at the highest sustained rate, milliseconds for each question:\n\n"
            + "\n".join(spent),
            "![Overhead by rate](../bench/results/load.png)",
        ]
    return "\n\n".join(parts)


def _each(one: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds of processor time by kind of process for one question, at the highest sustained rate."""
    measured = one["measured"]
    at = next((step for step in measured["tried"] if step["rate"] == measured["sustained"]), None)
    if at is None:
        return {}
    return {kind: 1e3 * seconds / at["questions"] for kind, seconds in at["processor_seconds"].items()}


def _measured(one: Mapping[str, Any]) -> str:
    return f"{one['provenance']['date'][:10]}, {one['provenance']['commit'][:7]}"


if __name__ == "__main__":
    main()
