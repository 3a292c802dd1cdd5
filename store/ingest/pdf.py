"""PDF into Markdown: words and ruled tables from pdfplumber, everything else in `layout` and `prose`."""

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pdfplumber
from pdfminer.pdfdocument import PDFPasswordIncorrect
from pdfminer.pdftypes import resolve1
from pdfminer.psexceptions import PSException
from pdfplumber.utils.exceptions import MalformedPDFException, PdfminerException

from store.errors import IngestError
from store.ingest.layout import Page
from store.ingest.pages import read_page
from store.ingest.prose import markdown

__all__ = ["PdfText", "read_pdf"]

# What pdfminer raises on malformed files besides its own errors: it trusts types, lengths and offsets it reads.
MALFORMED = (
    PdfminerException,
    MalformedPDFException,
    PSException,
    AssertionError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)

# Fewer letters than this on a page are a stamp or a page number, not its text.
LETTERS = 10
SCANNED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class PdfText:
    """`textless` are the pages (from 1) that show pictures and no text: what was not read is said."""

    markdown: str
    pages: int
    textless: tuple[int, ...] = ()


def read_pdf(
    data: bytes, *, max_pages: int = 2_000, on_page: Callable[[int, int], None] | None = None
) -> PdfText:
    """Convert a PDF. `on_page(done, of)` is called after each page.

    Raises `IngestError`: encrypted, broken, too_large (detail: the limit), scanned, empty or not_text.
    """
    if b"startxref" not in data:
        raise IngestError("broken", "truncated")
    try:
        with pdfplumber.open(io.BytesIO(data)) as pdf:
            return _read(pdf, max_pages, on_page)
    except PdfminerException as error:
        cause = error.args[0] if error.args else None
        if isinstance(cause, PDFPasswordIncorrect):
            raise IngestError("encrypted") from error
        if isinstance(cause, MemoryError):
            raise cause from error
        raise IngestError("broken", type(error).__name__) from error
    except MALFORMED as error:
        raise IngestError("broken", type(error).__name__) from error


def _read(pdf: Any, max_pages: int, on_page: Callable[[int, int], None] | None) -> PdfText:
    total = len(pdf.pages)
    if total == 0 or total < _declared(pdf):
        raise IngestError("broken", "pages")
    if total > max_pages:
        raise IngestError("too_large", f"{max_pages} pages")
    pages = []
    for number, page in enumerate(pdf.pages, 1):
        pages.append(read_page(page, number))
        page.close()
        if on_page:
            on_page(number, total)
    textless = tuple(page.number for page in pages if _textless(page))
    if len(textless) >= SCANNED_SHARE * total:
        raise IngestError(_why_textless(pages), str(total))
    return PdfText(markdown(pages), total, tuple(n for n in textless if pages[n - 1].pictures))


def _textless(page: Page) -> bool:
    letters = _letters(page)
    return letters == 0 or (letters < LETTERS and (page.pictures > 0 or page.unmapped > 0))


def _why_textless(pages: Sequence[Page]) -> str:
    if any(page.unmapped >= LETTERS for page in pages):
        return "not_text"
    return "scanned" if any(page.pictures for page in pages) else "empty"


def _declared(pdf: Any) -> int:
    """How many pages the file says it has; a damaged page tree yields fewer."""
    tree = resolve1(pdf.doc.catalog.get("Pages"))
    count = resolve1(tree.get("Count")) if isinstance(tree, dict) else 0
    return count if isinstance(count, int) else 0


def _letters(page: Page) -> int:
    return sum(len(word.text) for word in page.words) + sum(
        len(cell) for table in page.tables for row in table.rows for cell in row
    )
