"""Five thousand random documents through the card renderer: `python -m bench.feishu_render [COUNT]`.

The property and the generator are the suite's (tests/unit/test_feishu_render.py, a twentieth of it): every card is
valid to the stand-in's reading of card JSON 2.0 and under 30 KB, no letter is lost, nothing pings and nothing links.
"""

import json
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from bot.feishu.markdown import BUDGET, COMPONENTS, TABLES
from tests.unit.test_feishu_render import EITHER, check

RESULT = Path(__file__).parent / "results" / "feishu-render.json"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    seen: list[int] = []

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(EITHER)
    def run(text: str) -> None:
        seen.append(len(text))
        check(text)

    began = time.perf_counter()
    run()
    result = {
        "command": f"python -m bench.feishu_render {count}",
        "documents": len(seen),
        "longest": max(seen),
        "failures": 0,
        "seconds": round(time.perf_counter() - began, 1),
        "budget": BUDGET,
        "components": COMPONENTS,
        "tables": TABLES,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
