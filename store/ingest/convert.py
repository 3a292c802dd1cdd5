"""Bytes into Markdown, as Haystack components. Which kinds there are: `store.ingest.formats`."""

from typing import Any

from haystack import component

from store.ingest import reading
from store.ingest.chunking import cleaned
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


@component
class Clean:
    """See `store.ingest.chunking.cleaned`."""

    @component.output_types(converted=Converted)
    def run(self, converted: Converted) -> dict[str, Any]:
        return {"converted": cleaned(converted)}
