"""Five thousand random documents through the card renderer: `make bench-feishu-render`. Results go to
bench/results/feishu-render.json and docs/benchmarks.md.

The property and the generator are the suite's (tests/unit/test_feishu_render.py, a twentieth of it): every card is
valid to the stand-in's reading of card JSON 2.0 and under 30 KB, no letter is lost, nothing pings and nothing links.
"""

import json
import sys
import time
from typing import Any

from hypothesis import HealthCheck, given, settings

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from bot.feishu.markdown import BUDGET, COMPONENTS, TABLES
from tests.unit.test_feishu_render import EITHER, check


def measured(count: int) -> dict[str, Any]:
    """Raises what a document breaks."""
    lengths: list[int] = []

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(EITHER)
    def run(text: str) -> None:
        lengths.append(len(text))
        check(text)

    began = time.perf_counter()
    run()
    seconds = round(time.perf_counter() - began, 1)
    return {"documents": len(lengths), "longest": max(lengths), "failures": 0, "seconds": seconds}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    print(written(count, measured(count)))


def written(count: int, found: dict[str, Any]) -> str:
    """Store a result with what it was measured with; the section of docs/benchmarks.md that shows it."""
    config = {"documents": count, "budget": BUDGET, "components": COMPONENTS, "tables": TABLES}
    made = {**provenance(f"python -m bench.feishu_render {count}", config), "found": found}
    (ROOT / "bench" / "results" / "feishu-render.json").write_text(json.dumps(made, indent=1) + "\n")
    return str(write_section(ROOT / "docs" / "benchmarks.md", "feishu-render", page(made)))


def page(made: dict[str, Any]) -> str:
    found = made["found"]
    rows = [[str(found[key]) for key in ("documents", "longest", "failures", "seconds")]]
    return (
        "## Any document in Feishu\n\n"
        f"`{made['command']}`, configuration `{made['config_hash']}`: random Markdown with what Feishu's clients "
        "parse (mentions, tags, emoji codes, formulas) as answers, as growing cards and as review cards. Each card "
        "has to pass the stand-in's reading of card JSON 2.0 and its 30 KB, to lose no letter, to ping nobody and to "
        "link nowhere.\n\n" + table(["documents", "letters, most", "failures", "seconds"], rows)
    )


if __name__ == "__main__":
    main()
