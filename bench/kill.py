"""The whole kill run: `make bench-kill`. Results go to bench/results/kill.json and docs/benchmarks.md.

What is asked of it: 30 questions, 15 of them held for review, and at least three kills inside each of: the inbox's
transaction, each node, between a pause and its review row, between a decision and its resume, at the delivery, and
between the delivery and the memory.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.load.kill import POINTS, Report, execute


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            asyncio.run(migrate(url))
            report = execute(url, questions=chosen.questions, kills=chosen.kills, seed=chosen.seed)
        finally:
            server.stop()
    command = (
        f"python -m bench.kill --questions {chosen.questions} --kills {chosen.kills} --seed {chosen.seed}"
    )
    written = {**provenance(command, vars(chosen)), "report": asdict(report)}
    (ROOT / "bench" / "results" / "kill.json").write_text(json.dumps(written, indent=1) + "\n")
    print(write_section(ROOT / "docs" / "benchmarks.md", "kill", page(report, written)))
    sys.exit(bool(report.faults))


def page(report: Report, written: Mapping[str, object]) -> str:
    places = {
        "inside the inbox's transaction": ["inbox"],
        **{
            f"inside node `{node}`": [point for point in POINTS if point.rsplit(".", 1)[0] == node]
            for node in dict.fromkeys(p.rsplit(".", 1)[0] for p in POINTS if "." in p and "delivery" not in p)
        },
        "between a pause and its review": ["pause"],
        "between a decision and its resume": ["decision", "resumed"],
        "at the delivery": ["delivery.before", "delivery.after"],
        "between the delivery and the memory": ["remember"],
    }
    rows = [[place, str(sum(report.kills.get(p, 0) for p in points))] for place, points in places.items()]
    found = "; ".join(report.faults) or "none"
    return (
        "## Killed anywhere\n\n"
        f"`{written['command']}`, configuration `{written['config_hash']}`: {report.questions} questions, "
        f"{report.reviews} reviews, every event delivered two or three times, two reviewers clicking on every "
        f"review, {sum(report.kills.values())} times SIGKILL in {report.seconds} s. Ends: "
        f"{', '.join(f'{count} {state}' for state, count in sorted(report.outcomes.items()))}. "
        f"Violated invariants: **{found}**.\n\n" + table(["where it was killed", "times"], rows)
    )


if __name__ == "__main__":
    main()
