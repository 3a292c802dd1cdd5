"""Every parser given what nobody writes: documents of every format, and signoff.toml.

A parser answers or refuses with its own error (`IngestError`, `SettingsError`), within seconds and a bounded memory.
"""

import io
import random
import resource
import signal
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import FrameType

from bot.settings import SettingsError, load_settings
from store.errors import IngestError
from store.ingest import reading
from store.ingest.chunking import cleaned
from store.ingest.formats import FORMATS, Limits, detect
from tests import office
from tests.documents import BODY, HEADING, document, grid
from tests.fuzz import weird

SECONDS = 20.0  # for one case; the product's own limit is per document and much longer
MEGABYTES = 1_500  # of growth over a whole run
LIMITS = Limits(bytes=2_000_000, pages=50, seconds=SECONDS)
SUFFIX = {"markdown": "md", "text": "txt"}
MARKDOWN = ("# Leave", "## 年假", "- item", "1. first", "| a | b |", "|---|---|", "```", "> quote", "text", "[1](x)",
            "<!-- page 3 -->", "---", "第 3.2 条", "~~~", "***", "<table><tr><td>", "\n\n", "    code")  # fmt: skip
HTML = ("<table>", "</table>", "<tr>", "<td colspan=99999>", "</td>", "<td rowspan=0>", "<h1>", "</h1>", "<p>",
        "text", "<script>", "<ul><li>", "&amp;", "<!--", "-->", "<pre>", "<a href='javascript:x'>", "<svg>",
        "<br>")  # fmt: skip
CSV = ("a,b,c", '"', "\n", ",", ";", "\t", '"a""b"', "1e999", "=1+1", "年假,15", "\r\n")
TOML = ('[search]', 'kept = 3', 'kept = "x"', '[review]', 'reviewers = ["slack:U1"]', 'reviewers = 3',
        '[[review.rules]]', 'name = "a"', 'action = "hold"', 'action = 7', 'collections = [1]', '[limits]',
        'minutes = -1', '[slack]', 'follow = "all"', 'x = nan', 'x = 1979-05-27', '[audiences]', 'hr = ["everyone"]',
        'hr = "e"', '=', '[', '"')  # fmt: skip


@dataclass
class Fuzzed:
    """How many cases each target had, what was refused, and what went wrong."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class TooSlow(Exception):
    """A parser took longer than `SECONDS`."""


def fuzz_parsers(cases: int, seed: int = 1) -> Fuzzed:
    """`cases` over all targets. Call it in the main thread: the clock is SIGALRM."""
    chance, found, before = random.Random(seed), Fuzzed(), _memory()
    targets = _targets(chance)
    shares = {name: (1 if name in ("pdf", "docx", "pptx", "xlsx") else 6) for name in targets}
    names = [name for name in targets for _ in range(shares[name])]
    for number in range(cases):
        _one(names[number % len(names)], targets, found)
    grown = _memory() - before
    if grown > MEGABYTES:
        found.faults.append(f"memory grew by {grown:.0f} MB in {cases} cases")
    return found


def _one(name: str, targets: Mapping[str, Callable[[], None]], found: Fuzzed) -> None:
    found.cases[name] += 1
    began = time.perf_counter()
    try:
        with _clock():
            targets[name]()
    except (IngestError, SettingsError):
        found.refused[name] += 1
    except Exception as error:  # noqa: BLE001 - whatever else comes out is the finding
        frame = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in f.filename]
        place = ours[-1] if ours else frame
        found.faults.append(
            f"{name}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:80]!r}"
        )
    found.slowest[name] = max(found.slowest.get(name, 0.0), round(time.perf_counter() - began, 2))


def _targets(chance: random.Random) -> dict[str, Callable[[], None]]:
    """name → one random case of it."""
    made: dict[str, Callable[[], None]] = {}
    for kind in FORMATS:
        made[kind.name] = partial(_read, chance, kind.name, _seeds().get(kind.name))

    def toml() -> None:
        folder = Path("/nonexistent")
        with _file(weird.text(chance, [f"{line}\n" for line in TOML], 12)) as path:
            load_settings(folder, {"SIGNOFF_CONFIG": str(path)})

    made["signoff.toml"] = toml
    return made


def _read(chance: random.Random, name: str, sound: bytes | None) -> None:
    """As ingestion does: told apart by its bytes, read in a process of its own where a library does it, cleaned."""
    data = _bytes(chance, name, sound)
    kind = detect(data, f"file.{SUFFIX.get(name, name)}", LIMITS)
    if kind.apart:
        cleaned(reading.read(kind, data, "file", LIMITS, lambda *_: None))
    else:
        cleaned(kind.read(data, "file", LIMITS, lambda *_: None))


def _bytes(chance: random.Random, name: str, given: bytes | None) -> bytes:
    if given is not None:
        return _repacked(chance, given) if given[:2] == b"PK" else weird.garbled(chance, given)
    words = {"html": HTML, "csv": CSV}.get(name, MARKDOWN)
    written = weird.text(chance, words, 80).encode("utf-8", "surrogatepass")
    return weird.garbled(chance, written) if written and chance.random() < 0.3 else written


def _repacked(chance: random.Random, archive: bytes) -> bytes:
    """An office file with one of its parts garbled; one in five is garbled from outside."""
    if chance.random() < 0.2:
        return weird.garbled(chance, archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    changed = chance.choice([name for name in parts if name.endswith((".xml", ".rels"))])
    return office.archive({**parts, changed: weird.garbled(chance, parts[changed])})


@cache
def _seeds() -> Mapping[str, bytes]:
    """A sound document of every binary format."""
    presentation = office.deck()
    office.slide(presentation, "Leave", "Employees receive 15 days.", notes="年假")
    word = (
        office.p("Leave", "H1")
        + office.p("Employees receive 15 days.")
        + office.grid([["a", "b"], ["1", "2"]])
    )
    return {
        "pdf": document(
            ("Leave", HEADING), ("Employees receive 15 days.", BODY), grid([["a", "b"], ["1", "2"]])
        ),
        "docx": office.docx(word),
        "pptx": office.saved(presentation),
        "xlsx": office.workbook({"Leave": [["a", "b"], [1, 2.5], ["年假", ""]]}),
    }


@contextmanager
def _clock() -> Iterator[None]:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"{SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _file(content: str) -> Iterator[Path]:
    import tempfile

    with tempfile.NamedTemporaryFile("wb", suffix=".toml") as file:
        file.write(content.encode("utf-8", "surrogatepass"))
        file.flush()
        yield Path(file.name)


def _memory() -> float:
    """Megabytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
