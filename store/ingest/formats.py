"""Which files can be read, how they are told apart, and by what each is read. A new kind is one row of `FORMATS`.

No Haystack here: the process that reads files (`store.ingest.reading`) loads this and the libraries, nothing else.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from store.errors import IngestError
from store.ingest.plain import decoded, outside_fences, plain_markdown, tidy_markdown
from store.ingest.structure import outline

__all__ = ["FORMATS", "SUFFIXES", "Converted", "Format", "Limits", "Report", "detect", "title_of"]

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
class Limits:
    """What is too large, or takes too long: bytes of a file, pages or slides of a document, seconds and megabytes of
    memory to read one."""

    bytes: int = 50_000_000
    pages: int = 2_000
    seconds: float = 900.0
    megabytes: int = 1_500


Read = Callable[[bytes, str, Limits, Report], Converted]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: what its names end in, and the function that reads it or raises `IngestError`.

    `apart`: a library that trusts what it reads does it, so it is read in a process that can be ended.
    """

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    read: Read
    apart: bool = False


# --- readers; libraries are loaded where they are used: 0.1 to 0.6 s each -----------------------------------------


def _markdown(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    """Markdown stays as it is, '#' included; front matter goes, and comments that are no page anchors."""
    markdown, title = tidy_markdown(decoded(data))
    if "<table" in markdown:
        from store.ingest.webpage import tables_as_markdown

        markdown = outside_fences(markdown, tables_as_markdown)
    return Converted(markdown, title or title_of(markdown, name), "text/markdown")


def _text(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    """Plain text: chapters become headings, indented paragraphs become paragraphs. Markdown by another name is
    recognised by its headings."""
    text = decoded(data)
    if re.search(r"^#{1,6} \S", text, re.MULTILINE):
        markdown, title = tidy_markdown(text)
    else:
        markdown, title = plain_markdown(text)
    return Converted(markdown, title or title_of(markdown, name), "text/plain")


def _pdf(data: bytes, name: str, limits: Limits, report: Report) -> Converted:
    from store.ingest.pdf import read_pdf

    read = read_pdf(data, max_pages=limits.pages, on_page=lambda done, of: report("convert", done, of))
    return Converted(read.markdown, title_of(read.markdown, name), _media("pdf"), read.pages, read.textless)


def _docx(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    from store.ingest.docx import read_docx

    markdown, title = read_docx(data)
    return Converted(markdown, title or title_of(markdown, name), _media("docx"))


def _pptx(data: bytes, name: str, limits: Limits, report: Report) -> Converted:
    from store.ingest.pptx import read_pptx

    markdown, slides = read_pptx(
        data, max_pages=limits.pages, on_page=lambda done, of: report("convert", done, of)
    )
    return Converted(markdown, title_of(markdown, name), _media("pptx"), slides)


def _xlsx(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    from store.ingest.sheets import read_xlsx

    return Converted(read_xlsx(data), _stem(name), _media("xlsx"))


def _csv(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    from store.ingest.sheets import read_csv

    return Converted(read_csv(decoded(data)), _stem(name), "text/csv")


def _html(data: bytes, name: str, _limits: Limits, _report: Report) -> Converted:
    from store.ingest.webpage import read_html

    markdown, title = read_html(data)
    return Converted(markdown, title or title_of(markdown, name), "text/html")


_OOXML = "application/vnd.openxmlformats-officedocument"
FORMATS = (
    Format("markdown", "text/markdown", (".md", ".markdown", ".mdown", ".mkd"), _markdown),
    Format("text", "text/plain", (".txt", ".text", ".log", ""), _text),
    Format("csv", "text/csv", (".csv", ".tsv"), _csv),
    Format("pdf", "application/pdf", (".pdf",), _pdf, apart=True),
    Format("docx", f"{_OOXML}.wordprocessingml.document", (".docx", ".docm", ".dotx"), _docx, apart=True),
    Format("pptx", f"{_OOXML}.presentationml.presentation", (".pptx", ".pptm", ".ppsx"), _pptx, apart=True),
    Format("xlsx", f"{_OOXML}.spreadsheetml.sheet", (".xlsx", ".xlsm"), _xlsx, apart=True),
    Format("html", "text/html", (".html", ".htm", ".xhtml"), _html, apart=True),
)
BY_NAME: Mapping[str, Format] = {format_.name: format_ for format_ in FORMATS}
BY_SUFFIX: Mapping[str, Format] = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes}
_BY_MEDIA_TYPE: Mapping[str, Format] = {format_.media_type: format_ for format_ in FORMATS}
#: What a watched or ingested folder is searched for.
SUFFIXES = tuple(suffix for suffix in BY_SUFFIX if suffix)


def _media(name: str) -> str:
    return BY_NAME[name].media_type


# --- which kind --------------------------------------------------------------------------------------------------

_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM")
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)


def detect(data: bytes, name: str, limits: Limits, media_type: str = "") -> Format:
    """What kind of file this is, by its first bytes where those say it, else by its name, else by `media_type` (what
    a server called it).

    Raises `IngestError`: too_large, empty, encrypted, bomb, scanned (a picture), broken (another kind than its name
    says), unsupported (detail: what it is).
    """
    if len(data) > limits.bytes:
        raise IngestError("too_large", f"{limits.bytes // 1_000_000} MB")
    if not data.strip():
        raise IngestError("empty")
    if found := _by_bytes(data):
        return found
    named = _by_name(_suffix(name), media_type)
    page = bool(_HTML.match(data[:1024]))
    if named.apart and named.name != "html":  # these have marks of their own, and the bytes show none
        raise IngestError("broken", "HTML" if page else f"no {named.name.upper()}")
    return BY_NAME["html"] if page else named


def _by_name(suffix: str, media_type: str) -> Format:
    """The ending's format; a server's word counts where there is none that we know."""
    told = _BY_MEDIA_TYPE.get(media_type.partition(";")[0].strip().lower())
    named = (told or BY_SUFFIX.get(suffix)) if media_type and not suffix else BY_SUFFIX.get(suffix, told)
    if named is None:
        raise IngestError("unsupported", suffix)
    return named


def _by_bytes(data: bytes) -> Format | None:
    head = data[:1024]
    if b"%PDF-" in head:
        return BY_NAME["pdf"]
    if data.startswith(_PICTURES) or (data.startswith(b"RIFF") and data[8:12] == b"WEBP"):
        raise IngestError("scanned")
    if data.startswith(b"{\\rtf"):
        raise IngestError("unsupported", "RTF")
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")):
        from store.ingest.package import office_kind

        kind = office_kind(data)
        if not kind:
            raise IngestError("unsupported", "ZIP")
        return BY_NAME[kind]
    return None


def _suffix(name: str) -> str:
    path = urlsplit(name).path if name.startswith(("http://", "https://")) else name.replace("\\", "/")
    return PurePosixPath(path).suffix.lower()


def title_of(markdown: str, name: str) -> str:
    """The first heading of the first level, or the file's name without folder and ending."""
    for section in outline(markdown[:20_000]).sections:
        if section.level == 1:
            return section.path[-1]
    return _stem(name)


def _stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem or name
