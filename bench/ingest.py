"""How fast documents become chunks, how fast chunks enter a live index, and what a long PDF needs of memory.

    python -m bench.ingest [--index 100000] [--pages 1000] [--home DIR]

Converting, splitting and tokenising run one after the other, counted by the model's own tokenizer; embedding is not
part of it (the local model makes one to eight passages a second). Writing is `Documents.publish` with ready vectors,
into the index of a corpus as `bench.scale` builds it (DIR: the one that it kept there), in documents of 500 chunks.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas
from sqlalchemy import text

from bench import scale_corpus
from bench.corpus import DATA
from bench.provenance import ROOT, provenance
from bench.retrieval import created, server
from bench.scale import build
from bench.tables import table, write_section
from store import chunks
from store.database import Database, transaction
from store.dictionary import Dictionary
from store.documents import Documents, NewChunk, NewDocument
from store.embedding import LocalEmbedder
from store.ingest import reading
from store.ingest.chunking import IngestSettings, converted, cut
from store.ingest.formats import BY_NAME, Limits
from tests import office

RESULT = ROOT / "bench/results/ingest.json"
TARGETS = {"chunks_per_second": 1_000, "written_per_second": 250, "pdf_megabytes": 500}
AFTER = "SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT max(id) FROM {name}))"
SIZE = 500  # chunks of a document that is written
WRITTEN = 10  # documents
STEPS = ("convert", "split", "tokenise")


def silent(_step: str, _done: int, _of: int) -> None:
    pass


# --- converting, splitting, tokenising -----------------------------------------------------------------------


def reports() -> list[tuple[str, str]]:
    """(title, Markdown) of Chinese company reports."""
    lines = (DATA / "zh_netoperator/corpus.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["title"], row["text"]) for row in map(json.loads, lines)]


def files() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Files of each format, the same reports and rows in each."""
    found = reports()
    yield "markdown", [(f"{n}.md", text.encode()) for n, (_, text) in enumerate(found)]
    yield "text", [(f"{n}.txt", text.replace("#", "").encode()) for n, (_, text) in enumerate(found)]
    pages = ("".join(f"<p>{line}</p>" for line in text.split("\n\n")) for _, text in found)
    yield (
        "html",
        [(f"{n}.html", f"<html><body>{page}</body></html>".encode()) for n, page in enumerate(pages)],
    )
    bodies = ("".join(office.p(_plain(line)) for line in text.split("\n") if line) for _, text in found[:60])
    yield "docx", [(f"{n}.docx", office.docx(body)) for n, body in enumerate(bodies)]
    rows = [["city", "class", "limit", "per", "remark"]]
    rows += [
        [f"city {n}", "AB"[n % 2], str(n % 900), "night", f"as agreed in {2000 + n % 26}"]
        for n in range(20_000)
    ]
    yield "csv", [("rates.csv", "\n".join(",".join(row) for row in rows).encode())]
    yield "xlsx", [("rates.xlsx", office.workbook({"Rates": rows}))]
    deck = office.deck()
    for title, body in found[:60]:
        office.slide(deck, _plain(title), *map(_plain, body.split("\n")[:12]), notes=_plain(body[:400]))
    yield "pptx", [("deck.pptx", office.saved(deck))]
    pdfs = sorted((DATA / "parse_docs/files").glob("*.pdf"))
    yield "pdf", [(path.name, path.read_bytes()) for path in pdfs]


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).replace("&", "").replace("<", "").replace(">", "")


def converting() -> list[dict[str, Any]]:
    """A row for each format: chunks a second in all, and the seconds of each step."""
    embedder = LocalEmbedder()
    settings = IngestSettings()
    embedder.count("warm")
    reading.read(BY_NAME["docx"], office.docx(office.p("warm")), "warm.docx", Limits(), silent)
    rows = []
    for name, given in files():
        made = 0
        seconds = dict.fromkeys(STEPS, 0.0)
        for file, data in given:
            times = [time.perf_counter()]
            document = converted(data, file, settings.limits, silent)
            times.append(time.perf_counter())
            _, new = cut(document, settings, None, embedder)
            times.append(time.perf_counter())
            made += len(chunks.rows(document.title, new, Dictionary()))
            times.append(time.perf_counter())
            for step, (before, after) in zip(STEPS, pairwise(times), strict=True):
                seconds[step] += after - before
        rows.append(
            {
                "format": name,
                "files": len(given),
                "megabytes": round(sum(len(data) for _, data in given) / 1e6, 2),
                "chunks": made,
                "seconds": {step: round(value, 2) for step, value in seconds.items()},
                "chunks_per_second": round(made / sum(seconds.values()), 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


# --- memory --------------------------------------------------------------------------------------------------------


def long_pdf(pages: int, folder: Path) -> Path:
    """Pages of running text with a heading, a table and a page number each."""
    path = folder / "long.pdf"
    canvas = Canvas(str(path), pagesize=A4)
    sentence = "The limit for a night in this city is agreed with the people desk before the journey begins. "
    for number in range(1, pages + 1):
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(72, 780, f"Chapter {number}")
        canvas.setFont("Helvetica", 10)
        for line in range(38):
            canvas.drawString(72, 750 - 13 * line, f"{number}.{line} {sentence}"[:92])
        for row in range(6):
            for column in range(4):
                canvas.rect(72 + 100 * column, 110 + 18 * row, 100, 18)
                canvas.drawString(76 + 100 * column, 115 + 18 * row, f"cell {number} {row} {column}")
        canvas.drawString(290, 40, str(number))
        canvas.showPage()
    canvas.save()
    return path


def memory(pages: int) -> dict[str, Any]:
    """The reading process's largest resident size over one long PDF (VmHWM: what rusage tells of a child counts its
    parent's size, too)."""
    with tempfile.TemporaryDirectory() as folder:
        data = long_pdf(pages, Path(folder)).read_bytes()
    began = time.perf_counter()
    read = reading.read(BY_NAME["pdf"], data, "long.pdf", Limits(), silent)
    seconds = time.perf_counter() - began
    (child,) = reading._idle
    status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
    largest = int(status.split("VmHWM:")[1].split()[0]) / 1024
    reading.stop()
    found = {
        "pages": read.pages,
        "megabytes_of_file": round(len(data) / 1e6, 1),
        "pdf_megabytes": round(largest, 1),
        "seconds": round(seconds, 1),
        "pages_per_second": round(pages / seconds, 1),
    }
    print(found, flush=True)
    return found


# --- writing -------------------------------------------------------------------------------------------------------


async def writing(url: str, index: int) -> dict[str, Any]:
    """Documents of 500 chunks with ready vectors into the index of the `index` chunks that are there."""
    database = Database(url)
    await database.open()
    try:
        pool = scale_corpus.sources()
        async with transaction(database.engine) as connection:
            for name in ("documents", "versions", "chunks"):  # the corpus came with ids of its own
                await connection.execute(text(AFTER.format(name=name)))
        documents = Documents(database.engine, LocalEmbedder())
        rates = []
        for number in range(WRITTEN):
            start = index + number * SIZE
            given = list(scale_corpus.chunks(start, start + SIZE, pool))
            version = await documents.add(NewDocument("bench", f"new {number}", str(number).encode()))
            new = [NewChunk(at, (), None, chunk.text) for at, chunk in enumerate(given)]
            began = time.perf_counter()
            await documents.publish(
                version.id,
                new,
                [chunk.vector.tolist() for chunk in given],
                markdown="\n\n".join(chunk.text for chunk in given),
                pages=None,
                title=f"New {number}",
                language=given[0].language,
            )
            rates.append(SIZE / (time.perf_counter() - began))
        began = time.perf_counter()
        await documents.refresh_statistics()
        return {
            "index": index,
            "written_per_second": round(len(rates) / sum(1 / rate for rate in rates), 1),
            "slowest_document": round(min(rates), 1),
            "refresh_statistics_seconds": round(time.perf_counter() - began, 2),
        }
    finally:
        await database.close()


async def on_a_copy(url: str, index: int) -> dict[str, Any]:
    """`writing` on a copy of the corpus, which is built where it is missing."""
    await build(url, [index])
    with created(url, "ingest", template=f"scale_{index}") as own:
        return await writing(own, index)


def page(written: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    shown = [
        [
            row["format"],
            str(row["files"]),
            str(row["chunks"]),
            *(f"{row['seconds'][step]:.2f}" for step in STEPS),
            f"{row['chunks_per_second']:.0f}",
        ]
        for row in rows
    ]
    memory_, writing_ = written["memory"], written["writing"]
    load = ", ".join(f"{value:.1f}" for value in written["load_average"])
    return (
        "## Documents into chunks\n\n"
        f"`{written['command']}`, configuration `{written['config_hash']}`, load average at the start {load}. "
        "Seconds of converting, splitting and tokenising, one after the other, without embedding; asked: 1,000 chunks "
        "a second.\n\n"
        + table(["format", "files", "chunks", *(f"{step} s" for step in STEPS), "chunks/s"], shown)
        + f"\n\nAll but PDF together: **{written['chunks_per_second']:.0f}** chunks/s. Written into a live index of "
        f"{writing_['index']:,}: **{writing_['written_per_second']:.0f}** chunks/s (asked: 250). A PDF of "
        f"{memory_['pages']:,} pages: **{memory_['pdf_megabytes']:.0f} MB** in the process that reads it (asked: 500), "
        f"{memory_['pages_per_second']} pages/s."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    load = os.getloadavg()
    remembered = memory(chosen.pages)
    rows = converting()
    reading.stop()
    with server(chosen.home) as url:
        written_ = asyncio.run(on_a_copy(url, chosen.index))
    print(written_, flush=True)
    quick = [row for row in rows if row["format"] != "pdf"]
    rate = sum(row["chunks"] for row in quick) / sum(sum(row["seconds"].values()) for row in quick)
    command = f"python -m bench.ingest --index {chosen.index} --pages {chosen.pages}"
    written = {
        **provenance(
            command,
            {
                "index": chosen.index,
                "pages": chosen.pages,
                "settings": str(IngestSettings()),
                "targets": TARGETS,
            },
        ),
        "load_average": load,
        "chunks_per_second": round(rate, 1),
        "formats": rows,
        "memory": remembered,
        "writing": written_,
    }
    RESULT.write_text(json.dumps(written, indent=1) + "\n")
    print(write_section(ROOT / "docs" / "benchmarks.md", "ingest", page(written, rows)))


if __name__ == "__main__":
    main()
