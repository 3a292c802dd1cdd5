"""Bytes into Markdown, as Haystack components. Which kinds there are: `store.ingest.formats`."""

import re
from dataclasses import replace
from typing import Any

from haystack import component

from store import text as words
from store.errors import IngestError
from store.ingest import reading
from store.ingest.formats import FORMATS, Converted, Format, Limits, Report

__all__ = ["FORMATS", "Clean", "Convert", "Converted"]


@component
class Convert:
    """Reads one kind of file, in a process of its own where a library does it."""

    def __init__(self, kind: Format, limits: Limits, report: Report) -> None:
        self.kind = kind
        self.limits = limits
        self.report = report

    @component.output_types(converted=Converted)
    def run(self, data: bytes, name: str) -> dict[str, Any]:
        """Raises `IngestError`."""
        if self.kind.apart:
            return {"converted": reading.read(self.kind, data, name, self.limits, self.report)}
        return {"converted": self.kind.read(data, name, self.limits, self.report)}


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
