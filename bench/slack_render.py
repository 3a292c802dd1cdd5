"""Five thousand random documents through the Slack renderer: `make bench-slack-render`. Results go to
bench/results/slack-render.json and docs/benchmarks.md.

The properties and the generator are the suite's (tests/unit/test_slack_render.py, a twentieth of it): every message is
valid to Slack's own validators and to the stand-in, no letter is lost, nothing pings and nothing links.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from bot.slack.richtext import BLOCKS, BUDGET
from tests.unit.test_slack_render import DOCUMENT, check, check_card


def measured(count: int, prove: Callable[[str], None]) -> dict[str, Any]:
    """`prove` on `count` documents; raises what it raises."""
    lengths: list[int] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(DOCUMENT)
    def run(text: str) -> None:
        lengths.append(len(text))
        prove(text)

    began = time.perf_counter()
    run()
    lengths.sort()
    return {
        "documents": len(lengths),
        "median_letters": lengths[len(lengths) // 2],
        "longest_letters": lengths[-1],
        "failures": 0,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--cards", type=int, default=1_000)
    chosen = parser.parse_args()
    found = {
        "answers": measured(chosen.documents, check),
        "cards, modals and forms": measured(chosen.cards, check_card),
    }
    command = f"python -m bench.slack_render --documents {chosen.documents} --cards {chosen.cards}"
    written = {**provenance(command, {**vars(chosen), "budget": BUDGET, "blocks": BLOCKS}), "found": found}
    (ROOT / "bench" / "results" / "slack-render.json").write_text(json.dumps(written, indent=1) + "\n")
    print(write_section(ROOT / "docs" / "benchmarks.md", "slack-render", page(written)))


def page(written: dict[str, Any]) -> str:
    rows = [
        [name, *(str(of[key]) for key in ("documents", "median_letters", "longest_letters", "failures"))]
        for name, of in written["found"].items()
    ]
    return (
        "## Any document in Slack\n\n"
        f"`{written['command']}`, configuration `{written['config_hash']}`: random Markdown (Chinese beside every "
        "mark, tables, nested lists, code, links, pings) as answers and as review cards. Each message has to pass "
        "Slack's own validators and the stand-in's limits, to lose no letter, to ping nobody, and to link to "
        "nothing but the asker's thread.\n\n"
        + table(["rendered as", "documents", "letters, half", "letters, most", "failures"], rows)
    )


if __name__ == "__main__":
    main()
