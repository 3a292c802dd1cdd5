"""The console's quality page over a quarter of runs: `make bench-quality`. Results go to bench/results/quality.json and
docs/benchmarks.md.

A scratch database is filled with questions of ninety days, their runs, reviews, opinions and answers that were given
again; the report behind the page is then asked for as people would. `plant` fills the pages of the browser tests too.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from store.database import transaction
from store.embedded import EmbeddedPostgres
from store.quality import Quality, Span
from store.scratch import scratch
from tests.load import processor

RESULTS = ROOT / "bench" / "results" / "quality.json"
RUNS, DAYS, ROUNDS = 120_000, 90, 7
DOCUMENTS, PASSAGES = 500, 20  # passages of each document
# What is asked of the page: (what it is called, how it is chosen)
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("90 days by week", {"days": 90, "step": "week"}),
    ("90 days by day", {"days": 90, "step": "day"}),
    ("90 days, one collection", {"days": 90, "step": "week", "collection": "contracts"}),
    ("90 days, one variant", {"days": 90, "step": "week", "variant": "shorter"}),
    ("30 days by day", {"days": 30, "step": "day"}),
    ("7 days by day", {"days": 7, "step": "day"}),
)

SHARE = re.compile(r"(?<![.\w])share\(")
# `share(i, k)` is a number in [0, 1) that question i has for decision k, whoever asks again.
PLANTED = (
    """
    CREATE FUNCTION pg_temp.share(i bigint, k bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS
    'SELECT (hashint8extended(i, k) & 65535) / 65536.0'
    """,
    "INSERT INTO collections (name) VALUES ('hr'), ('contracts'), ('it') ON CONFLICT DO NOTHING",
    """
    INSERT INTO documents (collection, source, title, language, audience)
    SELECT (ARRAY['hr', 'contracts', 'it'])[1 + mod(d, 3)], 'planted-' || d, 'Document ' || d, 'en', '{everyone}'
      FROM generate_series(1, :documents) AS d
    """,
    """
    INSERT INTO versions (document_id, number, state, content_hash, chunk_count)
    SELECT id, 1, 'live', source, :passages FROM documents WHERE source LIKE 'planted-%'
    """,
    """
    UPDATE documents SET current_version_id = versions.id
      FROM versions WHERE versions.document_id = documents.id AND documents.source LIKE 'planted-%'
    """,
    """
    INSERT INTO chunks (version_id, ordinal, text, content_hash, tokens, length)
    SELECT versions.id, at, 'A passage.', content_hash || at, '', 2
      FROM versions CROSS JOIN generate_series(0, :passages - 1) AS at WHERE content_hash LIKE 'planted-%'
    """,
    """
    CREATE TEMPORARY TABLE passages ON COMMIT DROP AS
    SELECT row_number() OVER (ORDER BY chunks.id) - 1 AS place, chunks.id
      FROM chunks JOIN versions ON versions.id = chunks.version_id WHERE versions.content_hash LIKE 'planted-%'
    """,
    "CREATE UNIQUE INDEX ON passages (place)",
    """
    INSERT INTO conversations (id, platform, channel, title)
    SELECT 'web:hr:planted-' || at, 'web', 'hr', 'Planted' FROM generate_series(0, 99) AS at
    """,
    # Two days of the week are quiet; over the weeks the documents get better and answers quicker.
    """
    CREATE TEMPORARY TABLE planted ON COMMIT DROP AS
    SELECT i, 'planted-' || i AS id, asked_at, age,
           CASE WHEN share(i, 1) < 0.015 THEN 'failed'
                WHEN share(i, 1) < 0.06 + 0.12 * age THEN 'declined'
                WHEN share(i, 1) < 0.10 + 0.12 * age THEN 'clarified' ELSE 'answered' END AS outcome,
           share(i, 2) < 0.14 AS reviewed, share(i, 3) < 0.08 AS again,
           CASE WHEN share(i, 4) < 0.1 THEN 'shorter' ELSE '' END AS variant,
           0.35 + 6 * (0.4 + age) * power(share(i, 5), 6) AS seconds
      FROM (SELECT i, now() - make_interval(secs => :seconds * (:runs - i) / :runs) AS asked_at,
                   CAST(:runs - i AS float8) / :runs AS age
              FROM generate_series(1, :runs) AS i) AS moments
     WHERE extract(isodow FROM asked_at) < 6 OR share(i, 6) < 0.2
    """,
    """
    INSERT INTO questions (id, conversation_id, asker, text, language, state, remembered, asked_at, finished_at, answer)
    SELECT id, 'web:hr:planted-' || mod(i, 100), 'web:lin',
           (ARRAY['Who pays for a second monitor?', '出差住宿标准是多少？', 'When does the canteen close?',
                  'How long is parental leave?', '合同丢失后怎么补办？'])[1 + mod(i, 5)],
           'en', CASE outcome WHEN 'clarified' THEN 'answered' ELSE outcome END, true, asked_at,
           asked_at + make_interval(secs => seconds), '{"meta": {}, "text": ""}'
      FROM planted
    """,
    """
    INSERT INTO runs (question_id, outcome, retrieved, cited, tokens, timings, prompts, variant, cost, created_at)
    SELECT planted.id, part.outcome, found.ids,
           CASE WHEN part.outcome NOT IN ('answered', 'held') THEN '{}'
                WHEN share(i, 7) < 0.7 + 0.2 * (1 - age) THEN found.ids[1:1] ELSE found.ids[3:4] END,
           CASE WHEN part.second THEN '{}'
                ELSE jsonb_build_object('prompt', 1500 + CAST(1200 * share(i, 8) AS int),
                                        'completion', 120 + CAST(200 * share(i, 9) AS int), 'estimated', 1800) END,
           CASE WHEN part.second THEN jsonb_build_object('resume', 60.5, 'publish', 3.2)
                ELSE jsonb_build_object('wait', 60 * share(i, 10), 'answer', 1000 * seconds, 'route', 0.4,
                                        'rewrite', 0.3, 'retrieve', 25.1, 'draft', 900 * seconds, 'publish', 3.0,
                                        'embed', 12.3, 'sql', 9.8, 'rank', 1.2) END,
           CASE WHEN part.second THEN '[]'
                ELSE jsonb_build_array(jsonb_build_object('role', 'draft', 'model', 'planted', 'estimated', 1800,
                  'counted', 1900, 'messages', jsonb_build_array(repeat(md5(planted.id), 60)))) END,
           variant, CASE WHEN part.second THEN NULL ELSE 0.002 + 0.003 * share(i, 11) END,
           asked_at + make_interval(secs => seconds + CASE WHEN part.second THEN 3600 * share(i, 12) ELSE 0 END)
      FROM planted
     CROSS JOIN LATERAL (SELECT array_agg(passages.id ORDER BY at) AS ids
                           FROM generate_series(0, 9) AS at
                           JOIN passages ON passages.place =
                             mod(CAST(share(i, 13) * 1000 AS bigint) * 17 + at * 31, :passages * :documents)) AS found
     CROSS JOIN LATERAL (SELECT CASE WHEN reviewed AND planted.outcome = 'answered' THEN 'held'
                                     ELSE planted.outcome END AS outcome, false AS second
                          UNION ALL
                         SELECT 'answered', true WHERE reviewed AND planted.outcome = 'answered') AS part
     WHERE planted.outcome <> 'failed'
    """,
    """
    INSERT INTO reviews (question_id, interrupt_id, state, version_hash, reason, draft, audience, decided_by, resumed,
                         opened_at, decided_at)
    SELECT id, 'planted', (ARRAY['approved', 'approved', 'approved', 'approved', 'edited', 'edited', 'rejected',
           'expired'])[1 + CAST(floor(8 * share(i, 14)) AS int)],
           '', 'contracts', '{}', '{everyone}', 'web:reviewer', true,
           asked_at, asked_at + make_interval(secs => 120 + 9000 * share(i, 12))
      FROM planted WHERE reviewed AND outcome = 'answered'
    """,
    """
    INSERT INTO feedback (question_id, person, helpful, given_at)
    SELECT id, 'web:lin', share(i, 15) < 0.75 + 0.15 * (1 - age), asked_at + interval '5 minutes'
      FROM planted WHERE outcome = 'answered' AND share(i, 16) < 0.12
    """,
    """
    INSERT INTO verified (question, language, wording, answer, signed_for, audience, signed_by, how)
    SELECT 'Planted?', 'en', 'planted', '{"text": "Yes.", "citations": []}', '{everyone}', '{everyone}', 'web:reviewer',
           'approved'
    """,
    """
    INSERT INTO verified_uses (question_id, verified_id, used_at)
    SELECT planted.id, (SELECT max(verified.id) FROM verified WHERE wording = 'planted'), asked_at
      FROM planted WHERE again AND outcome = 'answered'
    """,
)


async def plant(engine: AsyncEngine, runs: int, days: int, documents: int = DOCUMENTS) -> None:
    """Questions of the last `days` days, of which about three in four are asked on working days; they come to about
    `runs` runs. Nothing of it was ever answered."""
    parameters = {"runs": runs, "seconds": 86_400.0 * days, "documents": documents, "passages": PASSAGES}
    async with transaction(engine) as connection:
        for statement in PLANTED:
            await connection.execute(text(SHARE.sub("pg_temp.share(", statement)), parameters)
    async with transaction(engine) as connection:
        for name in (
            "runs",
            "questions",
            "reviews",
            "feedback",
            "verified_uses",
            "chunks",
            "documents",
            "versions",
        ):
            await connection.execute(text(f"ANALYZE {name}"))


async def measure(runs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            async with scratch(url) as database:
                await plant(database.engine, runs, DAYS)
                async with transaction(database.engine) as connection:
                    stored = await connection.scalar(text("SELECT count(*) FROM runs"))
                quality = Quality(database.engine)
                found = [await _timed(quality, url, name, chosen) for name, chosen in ASKED]
        finally:
            server.stop()
    return {"runs": stored, "found": found}


async def _timed(quality: Quality, url: str, name: str, chosen: dict[str, Any]) -> dict[str, Any]:
    spent: list[float] = []
    before = processor.of_postgres(url)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        report = await quality.report(Span(datetime.now(UTC), zone="Asia/Shanghai", **chosen))
        spent.append(1_000 * (time.perf_counter() - began))
    worked = processor.of_postgres(url) - before
    return {
        "asked": name,
        "questions": report.whole.questions,
        "first_ms": round(spent[0]),
        "median_ms": round(statistics.median(spent)),
        "longest_ms": round(max(spent)),
        "processor_ms": round(1_000 * worked / ROUNDS),
    }


def page(written: dict[str, Any]) -> str:
    head = ["asked", "questions", "first, ms", "median, ms", "longest, ms", "of Postgres's processor, ms"]
    rows = [
        [
            one["asked"],
            f"{one['questions']:,}",
            *(str(one[key]) for key in ("first_ms", "median_ms", "longest_ms", "processor_ms")),
        ]
        for one in written["found"]
    ]
    machine = written["machine"]
    return (
        "## The quality page\n\n"
        f"`{written['command']}`, {written['date'][:10]}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{written['commit'][:7]}, load average before {written['load_before']:.1f}: the report behind the page over "
        f"{written['runs']:,} runs of {DAYS} days and {DOCUMENTS * PASSAGES:,} passages, {ROUNDS} times each.\n\n"
        + table(head, rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    load = os.getloadavg()[0]
    found = asyncio.run(measure(runs))
    about = provenance(f"python -m bench.quality --runs {runs}", {"runs": runs, "days": DAYS})
    written = {**about, "load_before": load, **found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(write_section(ROOT / "docs" / "benchmarks.md", "quality", page(written)))


if __name__ == "__main__":
    main()
