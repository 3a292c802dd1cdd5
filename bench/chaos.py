"""The whole of the chaos runs: `make bench-chaos`. Results go to bench/results/chaos.json, chaos.png (how long each
recovery took) and docs/benchmarks.md. `--only killed,burst` runs some of them and keeps the others' last results, each
with its own date and commit; `--logs FOLDER` keeps what the processes wrote.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from bench.provenance import ROOT, provenance, when_and_where
from bench.tables import table, write_section
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.emulators.feishu.client import StandIn as Feishu
from tests.emulators.slack.client import StandIn
from tests.fuzz.doors import knock_on_doors
from tests.fuzz.parsers import fuzz_parsers
from tests.load import chaos
from tests.load.fleet import Program, keeping_logs
from tests.load.judge import Report
from tests.load.upgrade import upgraded
from tests.load.whispers import whispered

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
    "upgraded": (
        "from the schema before: migrated under load, 2 processes replaced, drafts and a document waiting",
        lambda ground, _: upgraded(ground, another(ground.database)),
    ),
    "whispered": (
        "random audiences, documents, channels, people and questions, audiences changing while drafts wait",
        lambda ground, _: whispered(ground.slack, ground.database, ground.folder),
    ),
    "doors": ("garbled, forged, old and replayed requests at every address", lambda ground, _: doors(ground)),
    "parsers": ("garbled documents of every format, and settings files", lambda *_: parsers()),
}


def another(database: str) -> str:
    """The URL of an empty database beside `database`."""
    url = make_url(database)
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute("CREATE DATABASE another")
    return url.set(database="another").render_as_string(hide_password=False)


async def doors(ground: chaos.Ground, requests: int = 8_000) -> Report:
    began = time.monotonic()
    with Feishu() as feishu:
        told = await knock_on_doors(
            ground.slack, feishu, ground.database, ground.folder, ground.starter, requests=requests
        )
    measured = {
        "slowest_seconds": round(told.slowest, 2),
        "grown_megabytes": told.grown_megabytes,
        "statuses": {door: dict(sorted(met.items())) for door, met in told.statuses.items()},
    }
    seconds = round(time.monotonic() - began, 1)
    return Report("doors", deliveries=told.requests, seconds=seconds, measured=measured, faults=told.faults)


async def parsers(cases: int = 12_000) -> Report:
    began = time.monotonic()
    found = fuzz_parsers(cases)  # in this thread: its clock is a signal
    measured = {
        "cases": dict(found.cases),
        "refused": dict(found.refused),
        "slowest_seconds": found.slowest,
    }
    seconds = round(time.monotonic() - began, 1)
    return Report(
        "parsers", deliveries=found.cases.total(), seconds=seconds, measured=measured, faults=found.faults
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--logs", type=Path)
    chosen = parser.parse_args()
    names = [name for name in SCENARIOS if name in chosen.only.split(",")]
    found: dict[str, Any] = json.loads(RESULTS.read_text())["scenarios"] if RESULTS.exists() else {}
    for name in names:
        found[name] = run(name, chosen.logs)
        print(name, json.dumps(found[name], indent=1), flush=True)
        written = {"scenarios": {known: found[known] for known in SCENARIOS if known in found}}
        RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    draw(found)
    print(write_section(ROOT / "docs" / "benchmarks.md", "chaos", page(found)))
    sys.exit(any(found[name]["faults"] for name in names))


def run(name: str, logs: Path | None) -> dict[str, Any]:
    """One scenario with a server, a stand-in and processes of its own."""
    began, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, StandIn() as slack:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            asyncio.run(migrate(url))
            with keeping_logs(Path(folder) / "signoff", logs and logs / name) as home:
                ground = chaos.Ground(url, slack, home, Program())
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
        "provenance": provenance(f"python -m bench.chaos --only {name}", {"scenario": name}),
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


def page(found: Mapping[str, Any]) -> str:
    rows = [
        [
            what,
            str(one["questions"]),
            str(one["reviews"]),
            str(one["deliveries"]),
            _faults(one["faults"]),
            f"{one['seconds']:.0f}",
            f"{one['load_before']}",
            when_and_where(one["provenance"]),
        ]
        for name, (what, _) in SCENARIOS.items()
        if (one := found.get(name))
    ]
    head = [
        "scenario",
        "questions",
        "reviews",
        "payloads",
        "violated invariants",
        "s",
        "load before",
        "measured",
    ]
    machine = next(iter(found.values()))["provenance"]["machine"]
    return (
        "## Chaos\n\n"
        f"`python -m bench.chaos`, {machine['cores']} cores for everything, each scenario run "
        "by itself (`--only`) at its own commit. Real `signoff serve` processes, Slack's SDK over the stand-in's "
        "socket or signed HTTP, a model server beside them; the invariants are read from what the stand-in shows and "
        "what Postgres holds. With the inbox's unique key removed the same judge finds doubles (`tests/load`).\n\n"
        + table(head, rows)
        + "\n\n"
        + "\n".join(_sentences(found))
        + "\n\n![Recovery times](../bench/results/chaos.png)"
    )


def _faults(faults: Sequence[str]) -> str:
    """What was found, each kind once: numbers and ids left out, with how often."""
    kinds = Counter(re.sub(r"\b[0-9a-f]{8,}\b|\d+(\.\d+)?", "…", fault.split(":")[0]) for fault in faults)
    return "; ".join(f"{count} × {kind}" for kind, count in kinds.items()) or "none"


def _sentences(found: Mapping[str, Any]) -> list[str]:
    """The numbers of each scenario in words."""
    return [f"* {say(found[name], found[name]['measured'])}" for name, say in SAYING.items() if name in found]


def _killed(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    serving, jobs = measured["serving_seconds"], measured["jobs_seconds"]
    return (
        f"After a kill the process serves again after {serving['p50']} s (p50, at most {serving['max']}), and the jobs "
        f"that ran have ended after {jobs['p50']} s (p50, at most {jobs['max']}). One more question in every "
        f"conversation afterwards: all answered after {measured['probe_seconds']} s."
    )


def _restarted(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    again = ", ".join(f"{took}" for took in measured["working_again_seconds"])
    return f"A question asked when Postgres is back has its answer after {again} s."


def _limited(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    return f"Of {measured['calls']} calls {measured['met']} (lost: done, never answered)."


def _unsteady(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    words = measured["first_word_seconds"]
    return (
        f"With the failing model the first word about a question came after {words['p50']} s (p50), {words['p99']} s "
        f"(p99), {words['max']} s (max) of {chaos.BUDGET:g}; runs in which a part went on without the model: "
        f"{measured['without_model']}; the model's calls: {measured['model_calls']}."
    )


def _burst(one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    ack = measured["ack_seconds"]
    return (
        f"The burst was acknowledged within {ack.get('p50')} s (p50), {ack.get('p99')} s (p99), {ack.get('max')} s "
        f"(max); first attempts: {measured['first_attempts']}. Processor seconds while it lasted: "
        f"{measured['processor_seconds_asking']}."
    )


def _upgraded(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    return (
        f"Upgraded under load: {measured['runs_of_the_old_version']} questions had been answered or held by the old "
        f"version, {measured['paused_reviews']} drafts of it waited and {measured['queued_documents']} document; the "
        f"migration took {measured['migrate_seconds']} s, its processes ended within {measured['drain_seconds']} s."
    )


def _whispered(one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    checks = measured["checks"]
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in checks.items())
    return f"Who may read what: {one['questions']} questions, {sum(checks.values()):,} things looked at ({kinds})."


def _doors(one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    return (
        f"At the doors {one['deliveries']:,} requests: the slowest took {measured['slowest_seconds']} s, the process "
        f"grew by {measured['grown_megabytes']} MB; statuses {measured['statuses']}."
    )


def _parsers(_one: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    return (
        f"Parsers: {measured['cases']} cases, of which refused {measured['refused']}; slowest in s "
        f"{measured['slowest_seconds']}."
    )


SAYING: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]] = {
    "killed": _killed,
    "restarted": _restarted,
    "limited": _limited,
    "unsteady": _unsteady,
    "burst": _burst,
    "upgraded": _upgraded,
    "whispered": _whispered,
    "doors": _doors,
    "parsers": _parsers,
}


if __name__ == "__main__":
    main()
