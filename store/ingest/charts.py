"""Charts of office documents into their title and a table of the numbers they draw, from the file's cached values."""

from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from lxml import etree

from store.ingest.package import Package
from store.ingest.written import escaped, flat, table

__all__ = ["charts"]

_Element: TypeAlias = etree._Element


def charts(package: Package, folder: str) -> Iterator[str]:
    """The blocks of every chart below `folder` ("word", "xl", …), by the order of their parts."""
    names = [
        name for name in package.names if name.startswith(f"{folder}/charts/chart") and name.endswith(".xml")
    ]
    for name in sorted(names, key=lambda name: (len(name), name)):
        root = package.xml(name)
        if root is not None:
            yield from chart(root)


def chart(root: _Element) -> Iterator[str]:
    """The blocks of one chart part."""
    if title := flat(
        " ".join(root.xpath("./*[local-name()='chart']/*[local-name()='title']//*[local-name()='t']/text()"))
    ):
        yield escaped(title)
    columns: list[tuple[str, dict[int, str]]] = []
    labels: dict[int, str] = {}
    for series in root.iter("{*}ser"):
        labels = labels or _points(series, "cat") or _points(series, "xVal")
        name = flat(" ".join(series.xpath("./*[local-name()='tx']//*[local-name()='v']/text()")))
        columns.append((name, _points(series, "val") or _points(series, "yVal")))
    places = sorted(set(chain(labels, *(points for _, points in columns))))
    rows = [[labels.get(at, ""), *(points.get(at, "") for _, points in columns)] for at in places]
    if rows:
        yield table([["", *(name for name, _ in columns)], *rows])


def _points(series: _Element, name: str) -> dict[int, str]:
    found = series.find(f"{{*}}{name}")
    if found is None:
        return {}
    return {
        int(point.get("idx", "0")): _shown(point.findtext("{*}v") or "")
        for point in found.iter("{*}pt")
        if point.get("idx", "0").isdigit()
    }


def _shown(value: str) -> str:
    try:
        return f"{float(value):.10g}"
    except ValueError:
        return value
