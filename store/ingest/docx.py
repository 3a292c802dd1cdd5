"""Word into Markdown, from the document's own XML.

python-docx 1.2 refuses Strict Open XML and gives neither automatic numbers (3.2, 第三条) nor text boxes, content
controls or footnotes; what is left of it then is opening a ZIP. Elements are matched by their local names, which
Strict and Transitional share.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lxml import etree

from store.errors import IngestError
from store.ingest.charts import charts
from store.ingest.equations import equation
from store.ingest.numbering import Level, Numbering
from store.ingest.package import Package, opened
from store.ingest.written import document, escaped, flat, heading, table

__all__ = ["read_docx"]

Element: TypeAlias = etree._Element

# A chain of styles longer than this is a circle.
_CHAIN = 20
_HEADING = re.compile(r"^(?:heading|标题|überschrift|titre|título)\s*(\d)$", re.IGNORECASE)
_CODE = re.compile(r"code|preformatted", re.IGNORECASE)
_SIMPLE = re.compile(r"\d{1,9}[.)]$")
_SKIPPED = frozenset(
    {"del", "moveFrom", "instrText", "delText", "rPr", "pPr", "Fallback", "sdtPr", "comment"}
)


def read_docx(data: bytes) -> tuple[str, str]:
    """The Markdown, and the title: the Title paragraph's ("" without one). Raises `IngestError`."""
    package = opened(data)
    root = package.xml(_main(package))
    body = None if root is None else _child(root, "body")
    if body is None:
        raise IngestError("broken", "document.xml")
    styles = _styles(package)
    writer = _Writer(styles, _numbering(package), _notes(package), _shift(body, styles))
    blocks = [*writer.blocks(body), *charts(package, "word")]
    return document(_fenced(blocks)), writer.title


def _main(package: Package) -> str:
    return next((name for name in sorted(package.names) if re.fullmatch(r"word/document\d*\.xml", name)), "")


# --- XML -------------------------------------------------------------------------------------------------------


def _name(element: Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""  # comments have functions for tags


def _child(element: Element | None, *path: str) -> Element | None:
    for name in path:
        if element is None:
            return None
        element = next((child for child in element if _name(child) == name), None)
    return element


def _value(element: Element | None, attribute: str = "val") -> str:
    if element is None:
        return ""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == attribute), "")


def _whole(element: Element | None, attribute: str = "val", default: int = 0) -> int:
    value = _value(element, attribute)
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else default


# --- styles, numbers, notes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """What a paragraph style says after following what it is based on. `list` is (numbering, depth)."""

    name: str = ""
    outline: int | None = None
    list: tuple[str, int] | None = None


def _styles(package: Package) -> dict[str, _Style]:
    root = package.xml("word/styles.xml")
    if root is None:
        return {}
    raw = {_value(style, "styleId"): style for style in root if _name(style) == "style"}
    return {name: _resolved(name, raw) for name in raw}


def _resolved(name: str, raw: Mapping[str, Element]) -> _Style:
    outline: int | None = None
    numbered: tuple[str, int] | None = None
    own = _value(_child(raw[name], "name"))
    at: str | None = name
    for _ in range(_CHAIN):
        style = raw.get(at or "")
        if style is None:
            break
        properties = _child(style, "pPr")
        level = _child(properties, "outlineLvl")
        outline = _whole(level) if outline is None and level is not None else outline
        numbered = numbered or _list_of(properties)
        named = _HEADING.match(_value(_child(style, "name")))
        outline = int(named[1]) - 1 if outline is None and named else outline
        at = _value(_child(style, "basedOn"))
    return _Style(own, outline if outline is not None and outline < 9 else None, numbered)


def _list_of(properties: Element | None) -> tuple[str, int] | None:
    numbered = _child(properties, "numPr")
    if numbered is None or _child(numbered, "numId") is None:
        return None
    return _value(_child(numbered, "numId")), _whole(_child(numbered, "ilvl"))


def _numbering(package: Package) -> Numbering:
    root = package.xml("word/numbering.xml")
    lists: dict[str, str] = {}
    definitions: dict[str, dict[int, Level]] = {}
    restarts: dict[tuple[str, int], int] = {}
    for entry in [] if root is None else root:
        if _name(entry) == "abstractNum":
            levels = {_whole(level, "ilvl"): _level(level) for level in entry if _name(level) == "lvl"}
            definitions[_value(entry, "abstractNumId")] = levels
        elif _name(entry) == "num":
            number = _value(entry, "numId")
            lists[number] = _value(_child(entry, "abstractNumId"))
            for override in entry:
                start = _child(override, "startOverride")
                if start is not None:
                    restarts[number, _whole(override, "ilvl")] = _whole(start)
    return Numbering(lists, definitions, restarts)


def _level(level: Element) -> Level:
    start = _child(level, "start")
    return Level(
        _value(_child(level, "numFmt")) or "decimal",
        _value(_child(level, "lvlText")),
        1 if start is None else _whole(start),
    )


def _notes(package: Package) -> dict[tuple[str, str], Element]:
    """Footnotes and endnotes by (kind, id); separators are none."""
    found = {}
    for kind in ("footnote", "endnote"):
        root = package.xml(f"word/{kind}s.xml")
        for note in [] if root is None else root:
            if not _value(note, "type").endswith("eparator"):
                found[kind, _value(note, "id")] = note
    return found


def _shift(body: Element, styles: Mapping[str, _Style]) -> int:
    """1 where a Title paragraph is the document's first level and headings stand below it."""
    for paragraph in body.iter("{*}p"):
        style = styles.get(_value(_child(paragraph, "pPr", "pStyle")))
        if style and style.name.lower() == "title" and "".join(paragraph.itertext("{*}t")).strip():
            return 1
    return 0


# --- writing ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Walks the body in order. `waiting` are text boxes and notes of the paragraph being read: they follow it."""

    styles: Mapping[str, _Style]
    numbering: Numbering
    notes: Mapping[tuple[str, str], Element]
    shift: int
    title: str = ""
    waiting: list[Element] = field(default_factory=list)
    noted: int = 0

    def blocks(self, parent: Element) -> Iterator[str]:
        for element in parent:
            name = _name(element)
            if name == "p":
                yield from self._paragraph(element)
            elif name == "tbl":
                yield from self._table(element)
            elif name not in _SKIPPED:
                yield from self.blocks(element)

    def _paragraph(self, element: Element) -> Iterator[str]:
        waiting, self.waiting = self.waiting, []
        text = self._inline(element).strip()
        boxes, self.waiting = self.waiting, waiting
        properties = _child(element, "pPr")
        style = self.styles.get(_value(_child(properties, "pStyle")), _Style())
        if text:
            yield self._styled(text, properties, style)
        for box in boxes:
            yield from self._aside(box)

    def _styled(self, text: str, properties: Element | None, style: _Style) -> str:
        level = _child(properties, "outlineLvl")
        outline = _whole(level, default=9) if level is not None else style.outline
        label, depth = self._label(properties, style)
        if style.name.lower() == "title":
            self.title = self.title or flat(text)
            return heading(1, text)
        if outline is not None and outline < 9 and len(text) <= 200:
            return heading(outline + 1 + self.shift, f"{label or ''} {text}")
        if _CODE.search(style.name):
            return f"\0{text}"
        if label is None:
            return escaped(text)
        indent = "  " * min(depth, 6)
        if label == "" or _SIMPLE.fullmatch(label):
            return f"{indent}{label or '-'} {flat(text)}"
        return f"{label} {text}"

    def _label(self, properties: Element | None, style: _Style) -> tuple[str | None, int]:
        number, depth = _list_of(properties) or style.list or ("", 0)
        if _child(properties, "numPr", "ilvl") is not None:
            depth = _whole(_child(properties, "numPr", "ilvl"))
        return self.numbering.label(number, depth), depth

    def _aside(self, element: Element) -> Iterator[str]:
        if _name(element) in ("footnote", "endnote"):
            text = flat(" ".join(self.blocks(element)))
            if text:
                yield f"[^{_value(element, 'number')}]: {text}"
        else:
            yield from self.blocks(element)

    def _inline(self, parent: Element) -> str:
        return "".join(self._piece(element) for element in parent)

    def _piece(self, element: Element) -> str:
        name = _name(element)
        if name == "t":
            return element.text or ""
        if name in _SKIPPED or (name == "r" and _hidden(element)):
            return ""
        if name in _SIGNS:
            return _SIGNS[name](element)
        if name == "txbxContent":
            self.waiting.append(element)
            return ""
        if name in ("footnoteReference", "endnoteReference"):
            return self._note(name.removesuffix("Reference"), _value(element, "id"))
        box = element.find("{*}sdtPr/{*}checkbox") if name == "sdt" else None
        return self._inline(element) if box is None else _box(box)

    def _note(self, kind: str, number: str) -> str:
        note = self.notes.get((kind, number))
        if note is None:
            return ""
        self.noted += 1
        note.set("number", str(self.noted))
        self.waiting.append(note)
        return f"[^{self.noted}]"

    # --- tables ------------------------------------------------------------------------------------------------

    def _table(self, element: Element) -> Iterator[str]:
        rows = [list(self._cells(row)) for row in _inside(element, "tr")]
        if sum(map(len, rows)) == 1:  # a frame around text
            yield from (block for _, _, cell in rows[0] for block in self.blocks(cell))
            return
        texts: list[list[str]] = []
        for row in rows:
            out: list[str] = []
            for column, merged, cell in row:
                above = texts[-1][column] if merged and texts and column < len(texts[-1]) else ""
                out += [""] * (column - len(out))
                out.append(above or self._cell(cell))
            texts.append(out)
        yield table(texts)

    def _cells(self, row: Element) -> Iterator[tuple[int, bool, Element]]:
        """(column, continues the cell above, cell), one for each column a cell covers."""
        column = _whole(_child(row, "trPr", "gridBefore"))
        for cell in _inside(row, "tc"):
            properties = _child(cell, "tcPr")
            merge = _child(properties, "vMerge")
            merged = merge is not None and _value(merge) != "restart"
            for _ in range(max(1, min(200, _whole(_child(properties, "gridSpan"), default=1)))):
                yield column, merged, cell
                column += 1

    def _cell(self, cell: Element) -> str:
        return flat(
            " ".join(re.sub(r"^\|[-|]+\|$", "", block, flags=re.MULTILINE) for block in self.blocks(cell))
        )


def _inside(parent: Element, name: str) -> Iterator[Element]:
    """Children of that name, also those wrapped in content controls and tracked insertions."""
    for child in parent:
        if _name(child) == name:
            yield child
        elif _name(child) in ("sdt", "sdtContent", "ins", "customXml"):
            yield from _inside(child, name)


def _hidden(run: Element) -> bool:
    vanish = _child(run, "rPr", "vanish")
    return vanish is not None and _value(vanish) not in ("0", "false")


def _box(box: Element) -> str:
    return "[x]" if _value(_child(box, "checked")) in ("1", "true") else "[ ]"


def _symbol(element: Element) -> str:
    """Symbol fonts keep their signs in the private use area, where nobody finds them."""
    code = _value(element, "char")
    value = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,6}", code) else 0
    return chr(value) if 0x20 <= value < 0xD800 else " "


_SIGNS: Mapping[str, Callable[[Element], str]] = {
    "tab": lambda _: " ",
    "br": lambda _: "\n",
    "cr": lambda _: "\n",
    "noBreakHyphen": lambda _: "-",
    "softHyphen": lambda _: "",
    "oMath": lambda element: f"${equation(element)}$",
    "sym": _symbol,
}


def _fenced(blocks: list[str]) -> list[str]:
    """Paragraphs in a code style, marked by \\0, as fences."""
    out: list[str] = []
    code: list[str] = []
    for block in [*blocks, ""]:
        if block.startswith("\0"):
            code.append(block[1:])
            continue
        if code:
            out.append("\n".join(["```", *code, "```"]))
            code = []
        out.append(block)
    return out
