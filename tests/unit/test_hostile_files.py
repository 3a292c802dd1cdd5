"""Files made to do harm: each is refused with its reason, quickly, and the next file is read."""

import contextlib
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.errors import IngestError
from store.ingest import package, reading
from store.ingest.formats import BY_NAME, Limits, detect
from tests import office as make

GOOD = make.docx(make.p("Ten days a year."))
# For the child: its Python and libraries alone need 200 MB of addresses.
NARROW = Limits(seconds=20.0, megabytes=400)


def silent(_step: str, _done: int, _of: int) -> None:
    pass


def refused(data: bytes, name: str = "a.docx") -> tuple[str, str]:
    with pytest.raises(IngestError) as caught:
        detect(data, name, Limits()).read(data, name, Limits(), silent)
    return caught.value.code, caught.value.detail


@pytest.fixture(autouse=True, scope="module")
def _no_child_is_left() -> Iterator[None]:
    yield
    reading.stop()


def test_an_archive_that_unpacks_to_gigabytes_is_refused() -> None:
    """The directory says how much would come out; nothing is unpacked to find out."""
    bomb = make.archive({"word/document.xml": b"\0" * 30_000_000})
    assert len(bomb) < 40_000
    assert refused(bomb) == ("bomb", "packed more than 200 times")


def test_an_archive_of_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one with more parts than any document has, and one with more bytes in all."""
    monkeypatch.setattr(package, "MOST_PARTS", 50)
    assert refused(make.archive({f"word/document{n}.xml": b"x" for n in range(51)})) == ("bomb", "51 parts")
    monkeypatch.setattr(package, "MOST_UNPACKED", 5_000_000)
    parts = {f"word/document{n}.xml": bytes([n]) * 1_100_000 for n in range(5)}
    assert refused(make.archive(parts)) == ("bomb", "5 MB unpacked")


def test_parts_that_share_their_bytes_are_refused() -> None:
    """A directory that names the same bytes many times makes little into much."""
    data = bytearray(make.archive({"word/document.xml": b"x" * 2_000}, zipfile.ZIP_STORED))
    at = data.index(b"PK\x01\x02")
    entry = bytes(data[at : data.index(b"PK\x05\x06")])
    end = bytearray(data[data.index(b"PK\x05\x06") :])
    many = entry * 40
    end[8:12] = (40).to_bytes(2, "little") * 2
    end[12:16] = len(many).to_bytes(4, "little")
    assert refused(bytes(data[:at]) + many + bytes(end)) == ("bomb", "overlapping parts")


def test_an_archive_inside_a_document_is_never_opened() -> None:
    """What is embedded is no text: a bomb inside does not go off and does not keep the document from being read."""
    bomb = make.archive({"x": b"\0" * 5_000_000})
    parts: dict[str, str | bytes] = {
        "word/document.xml": "<d><body><p><r><t>Text.</t></r></p></body></d>",
        "word/embeddings/b.zip": bomb,
    }
    data = make.archive(parts)
    assert detect(data, "a.docx", Limits()).read(data, "a.docx", Limits(), silent).markdown == "Text.\n"


LAUGHS = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
SECRET = '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("prologue", [LAUGHS, SECRET, " " * 5_000 + LAUGHS])
@pytest.mark.parametrize("part", ["word/document.xml", "word/styles.xml", "word/numbering.xml"])
def test_entities_are_refused(prologue: str, part: str) -> None:
    """Entities that grow, or that name a file, stand in no office document."""
    parts: dict[str, str | bytes] = {
        "word/document.xml": "<d><body><p/></body></d>",
        part: f"{prologue}<d><body>&a;</body></d>",
    }
    assert refused(make.archive(parts)) == ("bomb", "XML entities")


def test_html_entities_reach_no_file() -> None:
    """A page's own document type declares nothing that is followed."""
    data = (SECRET + "<html><body><p>&a; text</p></body></html>").encode()
    converted = BY_NAME["html"].read(data, "a.html", Limits(), silent)
    assert "root:" not in converted.markdown
    assert "text" in converted.markdown


def test_a_page_of_enormous_spans_is_refused() -> None:
    """A table that claims millions of cells is no table."""
    row = '<tr><td rowspan="200" colspan="200">x</td></tr>'
    assert refused(f"<html><table>{row * 100}</table>".encode(), "a.html") == ("bomb", "table spans")


def test_protected_and_old_office_files_say_so() -> None:
    """Both wear the older format's mark: one asks for its password, the other for a newer format."""
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    assert refused(old + "EncryptedPackage".encode("utf-16-le")) == ("encrypted", "")
    assert refused(old + "WordDocument".encode("utf-16-le"), "a.doc") == (
        "unsupported",
        ".doc (Word 97–2003)",
    )
    assert refused(old + "Workbook".encode("utf-16-le"), "a.xlsx") == ("unsupported", ".xls (Excel 97–2003)")


def test_a_password_on_the_archive_is_seen() -> None:
    """Parts marked as encrypted cannot be read without it."""
    data = bytearray(GOOD)
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        at = data.find(mark)
        data[at + (6 if mark == b"PK\x03\x04" else 8)] |= 1
    assert refused(bytes(data)) == ("encrypted", "")


@given(at=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255), end=st.integers(1, len(GOOD)))
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_ends_in_a_reason(at: int, value: int, end: int) -> None:
    """A byte changed and the rest cut off: a result or an `IngestError`, never anything else."""
    data = bytearray(GOOD)
    data[at] = value
    with contextlib.suppress(IngestError):
        kind = detect(bytes(data[:end]), "a.docx", Limits())
        kind.read(bytes(data[:end]), "a.docx", Limits(), silent)


# --- the reading process -------------------------------------------------------------------------------------------


def test_what_is_read_apart_is_the_same() -> None:
    """The reading process returns what the reader returns, progress and reasons included, file after file."""
    deck = make.deck()
    make.slide(deck, "One", "a")
    make.slide(deck, "Two", "b")
    data = make.saved(deck)
    told: list[tuple[str, int, int]] = []
    kind = BY_NAME["pptx"]
    found = reading.read(kind, data, "a.pptx", Limits(), lambda *step: told.append(step))
    assert found == kind.read(data, "a.pptx", Limits(), silent)
    assert told == [("convert", 1, 2), ("convert", 2, 2)]
    with pytest.raises(IngestError, match="broken"):
        reading.read(BY_NAME["docx"], b"no archive", "a.docx", Limits(), silent)
    assert reading.read(BY_NAME["docx"], GOOD, "a.docx", Limits(), silent).markdown == "Ten days a year.\n"


def test_a_file_that_eats_memory_is_given_up_and_the_next_is_read() -> None:
    """The process has so much memory and no more; the file says why, and takes no other along."""
    with pytest.raises(IngestError) as caught:
        reading.read(BY_NAME["html"], b"<html><p>" + b"<b>x</b>" * 4_000_000, "a.html", NARROW, silent)
    assert (caught.value.code, caught.value.detail) == ("too_heavy", "400 MB")
    assert reading.read(BY_NAME["docx"], GOOD, "a.docx", NARROW, silent).markdown == "Ten days a year.\n"


def pdf_bomb(megabytes: int) -> bytes:
    """A PDF whose one page is that many megabytes of blanks, packed a thousand times."""
    packer = zlib.compressobj()
    blank = b" " * (1 << 20)
    stream = packer.compress(blank) + packer.flush(zlib.Z_FULL_FLUSH)
    stream += (packer.compress(blank) + packer.flush(zlib.Z_FULL_FLUSH)) * megabytes + packer.flush()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<<>>>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(stream), stream),
    ]
    out = bytearray(b"%PDF-1.4\n")
    table = b"xref\n0 5\n0000000000 65535 f \n"
    for number, body in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    at = len(out)
    return bytes(out) + table + b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % at


def test_a_pdf_that_unpacks_to_gigabytes_is_given_up() -> None:
    """A page's content is unpacked by the library: the process's memory bounds it."""
    bomb = pdf_bomb(1_000)
    assert len(bomb) < 2_000_000
    with pytest.raises(IngestError, match="too_heavy: 400 MB"):
        reading.read(BY_NAME["pdf"], bomb, "a.pdf", NARROW, silent)


def test_a_file_that_takes_for_ever_is_given_up_and_the_next_is_read() -> None:
    """After its seconds the process is ended, whatever the library is doing."""
    slow = b"<html>" + b"<p>x" * 4_000_000
    began = time.monotonic()
    with pytest.raises(IngestError, match=r"too_slow: 0\.2 s"):
        reading.read(BY_NAME["html"], slow, "a.html", Limits(seconds=0.2), silent)
    assert time.monotonic() - began < 10
    assert reading.read(BY_NAME["docx"], GOOD, "a.docx", Limits(), silent).markdown == "Ten days a year.\n"


def test_a_fault_nobody_foresaw_is_ours_and_the_next_file_is_read() -> None:
    """An error out of a library is told as one of ours, and the same process reads on."""
    with pytest.raises(IngestError, match="internal: AttributeError"):
        reading.read(BY_NAME["docx"], GOOD, 7, Limits(), silent)  # type: ignore[arg-type]
    assert reading.read(BY_NAME["docx"], GOOD, "a.docx", Limits(), silent).markdown == "Ten days a year.\n"


def test_text_written_to_hold_expressions_up_is_given_up() -> None:
    """Comments that never end take our own cleaning for ever: it, too, happens where it can be ended."""
    slow = b"<!-- " * 1_000_000
    with pytest.raises(IngestError, match=r"too_slow: 0\.3 s"):
        reading.read_safely(BY_NAME["markdown"], slow, "a.md", Limits(seconds=0.3), silent)
    small = reading.read_safely(BY_NAME["markdown"], b"# A\n\nText.\n", "a.md", Limits(seconds=0.3), silent)
    assert small.title == "A"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at the process through /proc")
def test_the_reading_process_holds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started without our environment: what a file makes it do finds no token there."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    reading.stop()
    reading.read(BY_NAME["docx"], GOOD, "a.docx", Limits(), silent)
    (child,) = reading._idle
    assert Path(f"/proc/{child.pid}/environ").read_bytes() == b""
