"""Our converters against docling's accepted Markdown (shared/data/parse_docs): words and table cells found, by format.

    python -m bench.parse_docs [--failures]

Words are runs of letters and digits (a Chinese character is a word), cells the non-empty cells of the accepted
Markdown's tables; each counts as often as it stands there. A format's figure is the mean over its files, and beside it
the share over all of them, which long files decide. Marks of Markdown, link targets and docling's own
`<!-- image -->` are no words. Files with a reason instead of a result count 0.
"""

import argparse
import json
import re
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.corpus import DATA
from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from store.errors import IngestError
from store.ingest.chunking import cleaned
from store.ingest.formats import Limits, detect

SET = DATA / "parse_docs"
RESULT = ROOT / "bench/results/parse_docs.json"
TARGETS = {"pdf": (0.90, 0.70)}
OTHERS = (0.95, 0.90)

_MARKS = re.compile(r"<!--.*?-->|(?<=\])\([^)\s]*\)|^\s*\|[\s:|-]+\|\s*$|\\(?=\W)", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


def words(markdown: str) -> Counter[str]:
    text = unicodedata.normalize("NFKC", _MARKS.sub(" ", markdown)).lower()
    return Counter(_WORD.findall(text))


def cells(markdown: str) -> Counter[str]:
    """Non-empty table cells, by their words alone."""
    found: Counter[str] = Counter()
    for line in markdown.split("\n"):
        row = line.strip()
        if row.startswith("|") and row.endswith("|") and len(row) > 1 and not re.fullmatch(r"[\s:|-]+", row):
            for cell in re.split(r"(?<!\\)\|", row[1:-1]):
                if text := "".join(sorted(words(cell).elements())):
                    found[text] += 1
    return found


def share(wanted: Counter[str], found: Counter[str]) -> tuple[int, int]:
    """(found, wanted)."""
    return sum((wanted & found).values()), sum(wanted.values())


def convert(path: Path) -> tuple[str, str]:
    """(Markdown, reason): one of them is empty."""
    data = path.read_bytes()
    try:
        kind = detect(data, path.name, Limits())
        converted = kind.read(data, path.name, Limits(), lambda _step, _done, _of: None)
        return cleaned(converted).markdown, ""
    except IngestError as error:
        return "", str(error)


def measured() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows by format, and by file."""
    files = []
    for row in map(json.loads, (SET / "manifest.jsonl").read_text(encoding="utf-8").splitlines()):
        began = time.perf_counter()
        markdown, reason = convert(SET / row["file"])
        entry = {"file": row["file"], "format": row["format"], "reason": reason,
                 "seconds": round(time.perf_counter() - began, 3)}  # fmt: skip
        if row["ground_truth"]:
            accepted = (SET / row["ground_truth"]).read_text(encoding="utf-8")
            entry |= {
                "words": share(words(accepted), words(markdown)),
                "cells": share(cells(accepted), cells(markdown)),
            }
        files.append(entry)
    by_format: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in files:
        by_format[entry["format"]].append(entry)
    return [_row(name, entries) for name, entries in sorted(by_format.items())], files


def _row(name: str, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"format": name, "files": len(entries)}
    row["refused"] = {entry["file"]: entry["reason"] for entry in entries if entry["reason"]}
    for what, target in zip(("words", "cells"), TARGETS.get(name, OTHERS), strict=True):
        pairs = [entry[what] for entry in entries if what in entry and entry[what][1]]
        row[what] = round(mean(found / wanted for found, wanted in pairs), 4) if pairs else None
        row[f"{what}_of_all"] = (
            round(sum(f for f, _ in pairs) / sum(w for _, w in pairs), 4) if pairs else None
        )
        row[f"{what}_target"] = target
    return row


def page(written: Mapping[str, Any]) -> str:
    def figure(row: Mapping[str, Any], what: str) -> list[str]:
        found = row[what]
        return ["–" if found is None else f"{found:.3f}", f"{row[f'{what}_target']:.2f}"]

    shown = [
        [
            row["format"],
            str(row["files"]),
            *figure(row, "words"),
            *figure(row, "cells"),
            str(len(row["refused"])),
        ]
        for row in written["formats"]
    ]
    return (
        "## Reading documents\n\n"
        f"`{written['command']}`, configuration `{written['config_hash']}`: words and table cells of docling's "
        "accepted Markdown that ours has, the mean over the files of a format. Every file ended in a result or a "
        "reason.\n\n" + table(["format", "files", "words", "asked", "cells", "asked", "refused"], shown)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--failures", action="store_true", help="print the files below their target; write nothing"
    )
    arguments = parser.parse_args()
    if not SET.exists():
        sys.exit(f"{SET} is not there: the public sets lie beside the project.")
    rows, files = measured()
    for row in rows:
        print(f"{row['format']:5} {row['files']:3} files  words {row['words']} (all {row['words_of_all']})  "
              f"cells {row['cells']} (all {row['cells_of_all']})  refused {len(row['refused'])}")  # fmt: skip
    if arguments.failures:
        for entry in files:
            parts = [f"{what} {entry[what]}" for what in ("words", "cells")
                     if what in entry and entry[what][0] < 0.97 * entry[what][1]]  # fmt: skip
            if parts or entry["reason"]:
                print(f"{entry['file']}: {', '.join(parts)} {entry['reason']}")
        return
    facts = provenance("python -m bench.parse_docs", {"set": "parse_docs", "limits": str(Limits())})
    written = {**facts, "formats": rows, "files": files}
    RESULT.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    write_section(ROOT / "docs" / "benchmarks.md", "parse-docs", page(written))


if __name__ == "__main__":
    main()
