"""The whole of the chaos runs: `make bench-chaos`. Results go to bench/results/chaos.json, chaos.png (how long each
recovery took) and docs/benchmarks.md. `--only killed,burst` runs some of them and keeps the others' last results.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.emulators.slack.client import StandIn
from tests.load import chaos
from tests.load.fleet import Program
from tests.load.judge import Report

RESULTS = ROOT / "bench" / "results" / "chaos.json"
Scenario = Callable[[chaos.Ground, EmbeddedPostgres], Coroutine[Any, Any, Report]]

SCENARIOS: dict[str, tuple[str, Scenario]] = {
    "killed": (
        "3 processes, 200 questions in 40 conversations, every event 2 to 4 times, 20 × SIGKILL, "
        "4 conflicting clicks on each review",
        lambda ground, _: chaos.killed(ground),
    ),
    "restarted": ("Postgres stopped 5 times, twice of them killed", chaos.restarted),
    "limited": (
        "30 % of Slack's calls refused with 429, 5 % carried out and never answered",
        lambda ground, _: chaos.limited(ground),
    ),
    "unsteady": (
        "30 % of the model's calls end in 429, 500, a cut stream or 60 s of silence",
        lambda ground, _: chaos.unsteady(ground),
    ),
    "burst": ("1,000 events in 10 s, 2 processes, no model", lambda ground, _: chaos.burst(ground)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    chosen = parser.parse_args()
    names = [name for name in SCENARIOS if name in chosen.only.split(",")]
    found: dict[str, Any] = json.loads(RESULTS.read_text())["scenarios"] if RESULTS.exists() else {}
    for name in names:
        found[name] = run(name)
        print(name, json.dumps(found[name], indent=1), flush=True)
    command = "python -m bench.chaos" + ("" if len(names) == len(SCENARIOS) else f" --only {','.join(names)}")
    written = {**provenance(command, {"only": names}), "scenarios": found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    draw(found)
    print(write_section(ROOT / "docs" / "benchmarks.md", "chaos", page(found, written)))
    sys.exit(any(one["faults"] for one in found.values()))


def run(name: str) -> dict[str, Any]:
    """One scenario with a server, a stand-in and processes of its own."""
    began, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, StandIn() as slack:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            asyncio.run(migrate(url))
            ground = chaos.Ground(url, slack, Path(folder) / "signoff", Program())
            report = asyncio.run(SCENARIOS[name][1](ground, server))
            with psycopg.connect(make_url(url).render_as_string(hide_password=False)) as connection:
                version = connection.info.server_version
        finally:
            server.stop()
    return {
        **asdict(report),
        "postgres": version,
        "load_before": round(load, 2),
        "wall_seconds": round(time.monotonic() - began, 1),
    }


def draw(found: Mapping[str, Any]) -> None:
    """Recovery times: after a kill until its process serves and until its jobs have ended, after the database is back
    until a question has its answer."""
    from matplotlib import pyplot

    recoveries = found.get("killed", {}).get("measured", {}).get("recoveries", [])
    again = found.get("restarted", {}).get("measured", {}).get("working_again_seconds", [])
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.8), width_ratios=(3, 1), sharey=True)
    numbers = range(1, len(recoveries) + 1)
    left.bar([n - 0.2 for n in numbers], [r["serving"] for r in recoveries], 0.4, label="serves again")
    left.bar([n + 0.2 for n in numbers], [r["jobs"] for r in recoveries], 0.4, label="its jobs have ended")
    left.set(xlabel="kill -9", ylabel="seconds", title="After a kill of one of three processes")
    left.legend()
    right.bar(range(1, len(again) + 1), again, 0.5, color="tab:green")
    right.set(xlabel="restart of Postgres", title="Until a question is answered")
    figure.tight_layout()
    figure.savefig(RESULTS.with_suffix(".png"), dpi=110)


def page(found: Mapping[str, Any], written: Mapping[str, Any]) -> str:
    rows = [
        [
            SCENARIOS[name][0],
            str(one["questions"]),
            str(one["reviews"]),
            str(one["deliveries"]),
            "; ".join(one["faults"]) or "none",
            f"{one['seconds']:.0f}",
        ]
        for name, one in found.items()
    ]
    head = ["scenario", "questions", "reviews", "payloads", "violated invariants", "s"]
    return (
        "## Chaos\n\n"
        f"`{written['command']}`, {written['date'][:10]}, {written['machine']['processor']}, "
        f"{written['machine']['cores']} cores, commit {written['commit'][:7]}, configuration "
        f"`{written['config_hash']}`. Real `signoff serve` processes, Slack's SDK over the stand-in's socket or "
        "signed HTTP, a model server beside them; the invariants are read from what the stand-in shows and what "
        "Postgres holds. With the inbox's unique key removed the same judge finds doubles (`tests/load`).\n\n"
        + table(head, rows)
        + "\n\n"
        + "\n".join(_sentences(found))
        + "\n\n![Recovery times](../bench/results/chaos.png)"
    )


def _sentences(found: Mapping[str, Any]) -> list[str]:
    """The numbers of each scenario in words."""
    told = []
    measured = {name: one["measured"] for name, one in found.items()}
    if "killed" in measured:
        serving, jobs = measured["killed"]["serving_seconds"], measured["killed"]["jobs_seconds"]
        told.append(
            f"* After a kill the process serves again after {serving['p50']} s (p50, at most {serving['max']}), and "
            f"the jobs that ran have ended after {jobs['p50']} s (p50, at most {jobs['max']}). One more question in "
            f"every conversation afterwards: all answered after {measured['killed']['probe_seconds']} s."
        )
    if "restarted" in measured:
        again = ", ".join(f"{took}" for took in measured["restarted"]["working_again_seconds"])
        told.append(f"* A question asked when Postgres is back has its answer after {again} s.")
    if "limited" in measured:
        met = measured["limited"]["met"]
        told.append(f"* Of {measured['limited']['calls']} calls {met} (lost: done, never answered).")
    if "unsteady" in measured:
        words = measured["unsteady"]["first_word_seconds"]
        told.append(
            f"* With the failing model the first word about a question came after {words['p50']} s (p50), "
            f"{words['p99']} s (p99); the model's calls: {measured['unsteady']['model_calls']}."
        )
    if "burst" in measured:
        ack = measured["burst"]["ack_seconds"]
        told.append(
            f"* The burst was acknowledged within {ack['p50']} s (p50), {ack['p99']} s (p99), {ack['max']} s (max); "
            f"first attempts: {measured['burst']['first_attempts']}. Load average before: "
            f"{found['burst']['load_before']}."
        )
    return told


if __name__ == "__main__":
    main()
