"""Retrieval quality on the public sets, through the code that serves questions: real Postgres, ready vectors.

    python -m bench.retrieval run [SET…]    R@5, nDCG@10 and latency, by de-duplication; bench/results/retrieval.json
    python -m bench.retrieval fit           the coefficients of confidence, into store/calibration.json

One configuration for all sets; its hash stands beside the results. Sets that are not there are skipped, and said.
"""

import argparse
import asyncio
import json
import math
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from bench import calibration
from bench.corpus import PublicSet, ReadyEmbedder, Row, available, load, store
from bench.provenance import digest, provenance
from bench.question_set import ROOT
from bench.scores import percentiles
from store import ranking
from store.database import Database, migrate
from store.embedded import EmbeddedPostgres
from store.embedding import Embedder, NoEmbedder
from store.search import Searcher, SearchSettings

RESULT = ROOT / "bench/results/retrieval.json"
CALIBRATION = ROOT / "store/calibration.json"
MODES = ("off", "cap:4", "cap:3", "cap:2", "document")


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement: who searches a set's corpus, with the questions of which language, against which qrels."""

    name: str
    set: str
    readers: tuple[str, ...] = ("everyone",)
    questions: str | None = None
    qrels: str = "qrels.tsv"


TASKS = (
    Task("zh_cmrc_chunk", "zh_cmrc_chunk"),
    Task("xquad en", "xquad_bilingual", ("lang:en",), "en"),
    Task("xquad zh", "xquad_bilingual", ("lang:zh",), "zh"),
    Task("xquad zh→en", "xquad_bilingual", ("lang:en",), "zh", "qrels_cross.tsv"),
    Task("xquad en→zh", "xquad_bilingual", ("lang:zh",), "en", "qrels_cross.tsv"),
    Task("en_scifact", "en_scifact"),
    Task("en_multihop", "en_multihop"),
    Task("en_mtrag", "en_mtrag"),
    Task("zh_t2_mini", "zh_t2_mini"),
)


def document_of(name: str, entry: Mapping[str, Any]) -> str:
    """The document a corpus row was cut from: cmrc's passages, mtrag's pages; elsewhere a row is a document."""
    if name == "zh_cmrc_chunk":
        return str(entry["doc"])
    if name == "en_mtrag":
        return str(entry["id"]).rsplit("-", 2)[0]
    return str(entry["id"])


def read(name: str, qrels: str = "qrels.tsv") -> PublicSet:
    return load(name, document=lambda entry: document_of(name, entry), qrels=qrels)


# --- scores ------------------------------------------------------------------------------------------------------


def recall(found: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """The share of a query's relevant ids in the first `k`."""
    return len(set(found[:k]) & set(relevant)) / len(relevant)


def ndcg(found: Sequence[str], relevant: Mapping[str, float], k: int) -> float:
    """With linear gains."""
    gained = sum(relevant.get(one, 0.0) / math.log2(place + 1) for place, one in enumerate(found[:k], 1))
    ideal = sorted(relevant.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(place + 1) for place, grade in enumerate(ideal, 1))


# --- the database ------------------------------------------------------------------------------------------------


@contextmanager
def server() -> Iterator[str]:
    """An embedded Postgres for the length of the benchmark; its URL."""
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        postgres = EmbeddedPostgres(Path(folder) / "home")
        yield postgres.start()
        postgres.stop()


@asynccontextmanager
async def filled(
    url: str, name: str, rows: Sequence[Row], vectors: Mapping[str, Any]
) -> AsyncIterator[tuple[Database, dict[int, str]]]:
    """A database of its own with the set in it, and the rows' ids by chunk id."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
    own = make_url(url).set(database=name).render_as_string(hide_password=False)
    await migrate(own)
    database = Database(own)
    await database.open()
    yield database, await store(database.engine, rows, vectors)
    await database.close()


# --- measuring ---------------------------------------------------------------------------------------------------


async def measure(
    database: Database, ids: Mapping[int, str], public: PublicSet, task: Task, settings: SearchSettings
) -> dict[str, Any]:
    """One row of the result."""
    embedder: Embedder = ReadyEmbedder(public) if public.query_vectors else NoEmbedder()
    searcher = Searcher(database.engine, embedder, settings)
    scores: list[tuple[float, float]] = []
    milliseconds: list[float] = []
    for question in public.queries:
        if question["id"] not in public.relevant or task.questions not in (None, question.get("lang")):
            continue
        result = await searcher.search(question["text"], task.readers, top_k=10)
        found = [ids[passage.id] for passage in result.passages]
        relevant = public.relevant[question["id"]]
        scores.append((recall(found, relevant, 5), ndcg(found, relevant, 10)))
        milliseconds.append(result.timings["sql"] + result.timings["rank"])
    return {
        "set": task.name,
        "n": len(scores),
        "chunks": len(public.rows),
        "legs": "both" if public.query_vectors else "keywords",
        "deduplicate": settings.deduplicate,
        "metrics": {
            "recall@5": round(sum(r for r, _ in scores) / len(scores), 4),
            "ndcg@10": round(sum(g for _, g in scores) / len(scores), 4),
        },
        "ms_without_embedding": percentiles(milliseconds),
        "config_hash": config_hash(settings),
    }


def config(settings: SearchSettings) -> dict[str, Any]:
    constants = ("K1", "B", "FREQUENT", "NUMEROUS", "ROWS", "FOREIGN_COVERAGE")
    return asdict(settings) | {name.lower(): getattr(ranking, name) for name in constants}


def config_hash(settings: SearchSettings) -> str:
    return digest(config(settings))


async def run(names: Sequence[str], modes: Sequence[str]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    with server() as url:
        for place, name in enumerate(dict.fromkeys(task.set for task in TASKS)):
            tasks = [task for task in TASKS if task.set == name and (not names or name in names)]
            if not tasks:
                continue
            if not available(name):
                print(f"{name}: skipped, ../shared/data/{name} is not there")
                continue
            public = read(name)
            async with filled(url, f"set_{place}", public.rows, public.passage_vectors) as (database, ids):
                for task in tasks:
                    judged = read(name, task.qrels)
                    for mode in modes:
                        row = await measure(database, ids, judged, task, SearchSettings(deduplicate=mode))
                        results.append(row)
                        print(_line(row), flush=True)
    return results


def _line(row: Mapping[str, Any]) -> str:
    metrics, ms = row["metrics"], row["ms_without_embedding"]
    return (
        f"{row['set']:14} {row['deduplicate']:9} R@5 {metrics['recall@5']:.3f}  nDCG@10 {metrics['ndcg@10']:.3f}"
        f"  p50 {ms['p50']:.1f} ms  p95 {ms['p95']:.1f} ms"
    )


async def fit() -> None:
    """Fit on noanswer_bilingual (same language) and xquad_bilingual (across), and write the coefficients."""
    names = ("noanswer_bilingual", "xquad_bilingual")
    if missing := [name for name in names if not available(name)]:
        print(f"not fitted: {', '.join(missing)} not in ../shared/data")
        return
    evidence: dict[str, list[calibration.Sample]] = {}
    with server() as url:
        for name in names:
            public = read(name, "qrels.tsv" if name.startswith("no") else "qrels_cross.tsv")
            async with filled(url, name, public.rows, public.passage_vectors) as (database, ids):
                searcher = Searcher(database.engine, ReadyEmbedder(public))
                gather = calibration.same if name.startswith("no") else calibration.foreign
                evidence[name] = await gather(searcher, public, {row: chunk for chunk, row in ids.items()})
    shipped = calibration.fitted(evidence["noanswer_bilingual"], evidence["xquad_bilingual"])
    CALIBRATION.write_text(json.dumps(shipped, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(shipped, indent=2, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "fit"))
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--modes", default=",".join(MODES), help="de-duplications, by comma")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    if chosen.what == "fit":
        asyncio.run(fit())
        return
    results = asyncio.run(run(chosen.sets, chosen.modes.split(",")))
    command = "python -m bench.retrieval run" + "".join(f" {name}" for name in chosen.sets)
    about = provenance(command, config(SearchSettings()))
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(
        json.dumps(about | {"results": results}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
