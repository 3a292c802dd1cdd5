"""Bytes into Markdown, as Haystack components. Which kinds there are: `store.ingest.formats`."""

from typing import Any

from haystack import component

from store.ingest import reading
from store.ingest.chunking import cleaned
from store.ingest.formats import FORMATS, Converted, Format, Limits, Report

__all__ = ["FORMATS", "Clean", "Convert", "Converted"]


@component
class Convert:
    """Reads one kind of file, in another process where that is not quick and safe."""

    def __init__(self, kind: Format, limits: Limits, report: Report) -> None:
        self.kind = kind
        self.limits = limits
        self.report = report

    @component.output_types(converted=Converted)
    def run(self, data: bytes, name: str) -> dict[str, Any]:
        """Raises `IngestError`."""
        read = reading.read_safely(self.kind, data, name, self.limits, self.report)
        return {"converted": read}


@component
class Clean:
    """See `store.ingest.chunking.cleaned`."""

    @component.output_types(converted=Converted)
    def run(self, converted: Converted) -> dict[str, Any]:
        return {"converted": cleaned(converted)}
