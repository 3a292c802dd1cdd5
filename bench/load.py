"""Load: `make bench-load`. Results go to bench/results/load.json, load.png, load.html and docs/benchmarks.md.

An open loop of three questions a second over 20 conversations with an instant model, then the highest rate that is
sustained by 1, 2 and 4 serving processes; fifty questions of each kind, and the rate at which the 95th of a hundred
answers comes too late. `--only steady,knee-2` runs some of it and keeps the others' last results, each with its own
date and commit; `--logs FOLDER` keeps what the processes wrote; `--pages` draws anew what was measured.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import platformdirs

from bench import load_page
from bench.provenance import ROOT, provenance
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.emulators.slack.client import StandIn
from tests.load.chaos import Ground
from tests.load.fleet import Program, keeping_logs
from tests.load.judge import Report
from tests.load.kinds import handbook, kinds
from tests.load.pace import highest, steady

RESULTS = ROOT / "bench" / "results" / "load.json"
VECTORS = Path(platformdirs.user_cache_dir("signoff-bench", appauthor=False)) / "handbook-vectors.npz"
Run = Callable[[Ground], Coroutine[Any, Any, Report]]
by_kind = partial(kinds, filling=handbook(VECTORS))
# A further kind of load is one line here: its name, and what runs it. The number is that of serving processes.
RUNS: dict[str, Run] = {
    "steady": steady,
    "highest-1": partial(highest, processes=1),
    "highest-2": partial(highest, processes=2),
    "highest-4": partial(highest, processes=4),
    "kinds-1": partial(by_kind, processes=1, rising=False),
    "knee-1": partial(by_kind, processes=1, once=False),
    "knee-2": partial(by_kind, processes=2, once=False),
    "knee-4": partial(by_kind, processes=4, once=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--pages", action="store_true")
    chosen = parser.parse_args()
    names = [] if chosen.pages else [name for name in RUNS if name in chosen.only.split(",")]
    found: dict[str, Any] = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else {}
    for name in names:
        found[name] = run(name, chosen.logs)
        print(name, json.dumps(found[name], indent=1), flush=True)
        written = {"runs": {known: found[known] for known in RUNS if known in found}}
        RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    print(load_page.write({name: found[name] for name in RUNS if name in found}))
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


if __name__ == "__main__":
    main()
