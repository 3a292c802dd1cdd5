"""The decision side on the public sets: `signoff eval`'s own runners, and their results kept.

    python -m bench.decision [NAME…]      bench/results/decision-NAME.json for each

NAME is one of RUNS below; without any, all of them. Sets that are not there are skipped, and said. Vectors that no
set brings along are made once and kept in the user's cache folder.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from bench import decision_page
from bench.corpus import DATA, available
from bench.provenance import ROOT, provenance
from bot.cli.evaluation import TABLE, Bench
from bot.settings import Settings
from rag_graph.evaluation import Result
from rag_graph.evaluation.vectors import KeptEmbedder
from store.embedding import LocalEmbedder, NoEmbedder

RESULTS = ROOT / "bench/results"
VECTORS = Path(platformdirs.user_cache_dir("signoff", appauthor=False)) / "evaluation-vectors.npz"

RUNS: Mapping[str, Sequence[str]] = {
    "grounding": ("zh_cmrc2018", "xquad_bilingual"),
    "tools": ("tool_metatool", "tool_bfcl"),
    "context": ("zh_cmrc2018", "xquad_bilingual", "en_multihop"),
    "multihop": ("en_multihop",),
    "abstain": ("noanswer_bilingual",),
    "rewrite": ("zh_kdconv_travel", "en_mtrag", "en_rewrite"),
}


async def run(name: str, sets: Sequence[str]) -> tuple[list[Result], dict[str, Any]]:
    """The results of one evaluation and the configuration behind them."""
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        home = Path(folder) / "home"
        settings = Settings(home=home, config=home / "signoff.toml")
        ready, keywords = KeptEmbedder(LocalEmbedder(), VECTORS), KeptEmbedder(NoEmbedder(), VECTORS)
        results: list[Result] = []
        for one in sets:
            if not available(one):
                print(f"{one}: skipped, ../shared/data/{one} is not there")
                continue
            # zh_cmrc2018's 1,104 long passages have no ready vectors, and keywords find .988 of them in the top five.
            bench = Bench(settings, keywords if one == "zh_cmrc2018" and name == "context" else ready)
            for result in await TABLE[name](bench, DATA / one):
                results.append(result)
                figures = "  ".join(f"{key} {value:.4f}" for key, value in result.metrics.items())
                print(f"{result.set:40} n={result.n:<5} {figures}", flush=True)
        await ready.save()
        return results, Bench(settings, ready).config()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*RUNS, []])
    names = parser.parse_args().names or list(RUNS)
    for name in names:
        started, cpu = time.perf_counter(), time.process_time()
        results, config = asyncio.run(run(name, RUNS[name]))
        about = provenance(f"python -m bench.decision {name}", config)
        spent = {
            "seconds": round(time.perf_counter() - started, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "load_average": round(os.getloadavg()[0], 2),
        }
        rows = [result.to_json() for result in results]
        out = RESULTS / f"decision-{name}.json"
        out.write_text(
            json.dumps(about | spent | {"results": rows}, indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
    decision_page.write()


if __name__ == "__main__":
    main()
