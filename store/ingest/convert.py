"""Bytes into Markdown, by kind of file. A new kind is one line in `FORMATS`, and a component beside these."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from haystack import component

from store import text as words
from store.errors import IngestError
from store.ingest.pdf import read_pdf
from store.ingest.plain import decoded, plain_markdown, tidy_markdown
from store.ingest.structure import outline

__all__ = ["FORMATS", "Clean", "Converted", "Format", "Limits", "Report", "detect", "title_of"]

Report = Callable[[str, int, int], None]  # (step, done, of), from any thread


@dataclass(frozen=True, slots=True)
class Converted:
    """A document as Markdown with page anchors. `textless` are pages (from 1) whose pictures could not be read."""

    markdown: str
    title: str
    media_type: str
    pages: int | None = None
    textless: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: what its names end in, and what makes the component that reads it.

    The component's `run(data: bytes, name: str)` returns `{"converted": Converted}` or raises `IngestError`.
    """

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    make: Callable[["Limits", Report], Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is too large: bytes of a file, pages of a document."""

    bytes: int = 50_000_000
    pages: int = 2_000


# --- converters ------------------------------------------------------------------------------------------------


@component
class ReadMarkdown:
    """Markdown stays as it is, '#' included; front matter goes, and comments that are no page anchors."""

    def __init__(self, _limits: Limits, _report: Report) -> None:
        pass

    @component.output_types(converted=Converted)
    def run(self, data: bytes, name: str) -> dict[str, Any]:
        markdown, title = tidy_markdown(decoded(data))
        return {"converted": Converted(markdown, title or title_of(markdown, name), "text/markdown")}


@component
class ReadText:
    """Plain text: chapters become headings, indented paragraphs become paragraphs. Markdown by another name is
    recognised by its headings."""

    def __init__(self, _limits: Limits, _report: Report) -> None:
        pass

    @component.output_types(converted=Converted)
    def run(self, data: bytes, name: str) -> dict[str, Any]:
        text = decoded(data)
        if re.search(r"^#{1,6} \S", text, re.MULTILINE):
            markdown, title = tidy_markdown(text)
        else:
            markdown, title = plain_markdown(text)
        return {"converted": Converted(markdown, title or title_of(markdown, name), "text/plain")}


@component
class ReadPdf:
    """See `store.ingest.pdf`."""

    def __init__(self, limits: Limits, report: Report) -> None:
        self.limits = limits
        self.report = report

    @component.output_types(converted=Converted)
    def run(self, data: bytes, name: str) -> dict[str, Any]:
        read = read_pdf(
            data, max_pages=self.limits.pages, on_page=lambda done, of: self.report("convert", done, of)
        )
        title = title_of(read.markdown, name)
        return {"converted": Converted(read.markdown, title, "application/pdf", read.pages, read.textless)}


FORMATS = (
    Format("markdown", "text/markdown", (".md", ".markdown", ".mdown", ".mkd"), ReadMarkdown),
    Format("text", "text/plain", (".txt", ".text", ".log", ""), ReadText),
    Format("pdf", "application/pdf", (".pdf",), ReadPdf),
)
BY_SUFFIX: Mapping[str, Format] = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}


def detect(data: bytes, name: str, limits: Limits) -> Format:
    """What kind of file this is, by its first bytes where those say it, else by its name.

    Raises `IngestError`: too_large, empty, broken (named .pdf and is none), unsupported (detail: what it is).
    """
    if len(data) > limits.bytes:
        raise IngestError("too_large", f"{limits.bytes // 1_000_000} MB")
    if not data.strip():
        raise IngestError("empty")
    suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    if b"%PDF-" in data[:1024]:
        return BY_SUFFIX[".pdf"]
    if suffix == ".pdf":
        head = data[:1024].lstrip().lower()
        raise IngestError("broken", "HTML" if head.startswith((b"<!doctype html", b"<html")) else "")
    known = BY_SUFFIX.get(suffix)
    if known is None:
        raise IngestError("unsupported", suffix)
    return known


def title_of(markdown: str, name: str) -> str:
    """The first heading of the first level, or the file's name without folder and ending."""
    for section in outline(markdown[:20_000]).sections:
        if section.level == 1:
            return section.path[-1]
    return PurePosixPath(name.replace("\\", "/")).stem or name


# --- cleaning ----------------------------------------------------------------------------------------------------

# Marks that are seen by nobody and split words for search: zero width, soft hyphen, direction, object replacement.
_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufffc\u00ad\x01-\x08\x0b\x0e-\x1f\x7f]"
)
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f]")


@component
class Clean:
    """What Postgres cannot store and nobody sees goes; runs of blank lines become one."""

    @component.output_types(converted=Converted)
    def run(self, converted: Converted) -> dict[str, Any]:
        text = words.clean(converted.markdown).replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
        text = _SPACES.sub(" ", _INVISIBLE.sub("", text))
        text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
        text = re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"
        if not re.search(r"\w", re.sub(r"<!--.*?-->", "", text)):
            raise IngestError("empty")
        title = _SPACES.sub(" ", _INVISIBLE.sub("", words.clean(converted.title))).strip()
        return {"converted": replace(converted, markdown=text, title=title)}
