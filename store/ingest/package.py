"""Office files as what they are, ZIP archives of XML: told apart, and looked through before anything unpacks them.

Sizes in an archive's directory can be trusted as upper bounds: zipfile reads no more than they say. What is embedded
in a document (other archives, workbooks behind charts) is never opened.
"""

import io
import zipfile
import zlib
from collections.abc import Iterator

from lxml import etree

from store.errors import IngestError

__all__ = ["Package", "is_zip", "office_kind", "opened", "parsed", "raise_exhausted"]

# Real files: an annual report of 300 slides has 4,000 parts, a sheet of one repeated row packs 110 times.
MOST_PARTS = 20_000
MOST_RATIO = 200
RATIO_COUNTS_FROM = 10_000_000  # a small part may pack as well as it likes
MOST_UNPACKED = 400_000_000

_KINDS = (("word/document", "docx"), ("ppt/presentation", "pptx"), ("xl/workbook", "xlsx"))
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_LEGACY = (
    ("WordDocument", ".doc (Word 97–2003)"),
    ("PowerPoint Document", ".ppt (PowerPoint 97–2003)"),
    ("Workbook", ".xls (Excel 97–2003)"),
)


class Package:
    """An archive whose directory was found harmless."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = frozenset(archive.namelist())

    def read(self, name: str) -> bytes:
        """A part's bytes. Raises `IngestError("broken")`."""
        try:
            return self._archive.read(name)
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, OSError) as error:
            raise IngestError("broken", type(error).__name__) from error

    def xml(self, name: str) -> etree._Element | None:
        """A part's root element; None where the package has no such part."""
        return parsed(self.read(name)) if name in self.names else None


def is_zip(data: bytes) -> bool:
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def office_kind(data: bytes) -> str:
    """docx, pptx or xlsx by the archive's directory; "" for another archive.

    Raises `IngestError`: encrypted or unsupported for the older format (which an encrypted file also wears), bomb,
    broken.
    """
    if data.startswith(_OLE):
        if _ENCRYPTED in data:
            raise IngestError("encrypted")
        raise IngestError("unsupported", _legacy(data))
    if not is_zip(data):
        return ""
    names = opened(data).names
    for part, kind in _KINDS:
        if any(name.startswith(part) for name in names):
            return kind
    return ""


def _legacy(data: bytes) -> str:
    return next((what for stream, what in _LEGACY if stream.encode("utf-16-le") in data), "Office 97–2003")


def opened(data: bytes) -> Package:
    """The archive, unless unpacking it would do harm. Raises `IngestError`: broken, encrypted, bomb."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise IngestError("broken", type(error).__name__) from error
    if any(part.flag_bits & 1 for part in parts):
        raise IngestError("encrypted")
    reason = next(_alarms(parts, len(data)), "")
    if reason:
        raise IngestError("bomb", reason)
    return Package(archive)


def _alarms(parts: list[zipfile.ZipInfo], size: int) -> Iterator[str]:
    """Why this archive is made to do harm, not to carry a document."""
    unpacked = sum(part.file_size for part in parts)
    if len(parts) > MOST_PARTS:
        yield f"{len(parts)} parts"
    if unpacked > MOST_UNPACKED:
        yield f"{unpacked // 1_000_000} MB unpacked"
    if sum(part.compress_size for part in parts) > size:
        yield "overlapping parts"
    if any(
        part.file_size > RATIO_COUNTS_FROM and part.file_size > MOST_RATIO * max(1, part.compress_size)
        for part in parts
    ):
        yield f"packed more than {MOST_RATIO} times"


def parsed(data: bytes) -> etree._Element:
    """XML without entities, network or limits lifted. Raises `IngestError`: broken; bomb where it declares entities,
    which no office file does."""
    if b"<!ENTITY" in data or b"<!DOCTYPE" in data[:4_096]:
        raise IngestError("bomb", "XML entities")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise_exhausted(parser)
        raise IngestError("broken", "XML") from error


def raise_exhausted(parser: etree._FeedParser) -> None:
    """libxml2 reports that memory ran out as a fault of the file's; raises `MemoryError` where it did."""
    if any(entry.type == etree.ErrorTypes.ERR_NO_MEMORY for entry in parser.error_log):
        raise MemoryError
