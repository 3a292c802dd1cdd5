"""HTML into Markdown: the page's own content with its headings, lists and tables; links as their text. By lxml."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from lxml import etree, html

from store.errors import IngestError
from store.ingest.package import raise_exhausted
from store.ingest.plain import decoded
from store.ingest.written import document, escaped, flat, heading, table

__all__ = ["read_html", "tables_as_markdown"]

Element: TypeAlias = html.HtmlElement

_DROPPED = frozenset([
    "script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "embed",
    "head", "select", "option", "datalist", "button", "audio", "video", "map", "dialog",
])  # fmt: skip
_FURNITURE = frozenset({"nav", "aside", "footer"})
_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "complementary", "dialog"})
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "details", "dd", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup",
    "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "center", "caption",
])  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
# The page's own words are in its <main> where that has this share of them.
_MAIN = 0.4


def read_html(data: bytes) -> tuple[str, str]:
    """The Markdown, and the page's title. Raises `IngestError`: broken, empty, not_text."""
    text = _text(data)
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise_exhausted(parser)
        raise IngestError("empty" if not text.strip() else "broken", "HTML") from error
    title = flat(root.findtext(".//title") or "")
    body = root.find(".//body")
    return document(list(_blocks(_main(root if body is None else body)))), title


def _text(data: bytes) -> str:
    """The page in the encoding its mark says, or its <meta>, or that its bytes show."""
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return decoded(data)
    declared = _CHARSET.search(data[:4_096])
    name = declared[1].decode().lower() if declared else "utf-8"
    try:
        # Browsers read what calls itself gb2312 as its superset, and so do we.
        return data.decode("gb18030" if name in ("gb2312", "gbk") else name)
    except (LookupError, UnicodeDecodeError):
        return decoded(data)


def _main(body: Element) -> Element:
    whole = len(_words(body))
    for path in (".//main", ".//*[@role='main']", ".//article"):
        found = body.findall(path)
        if len(found) == 1 and len(_words(found[0])) >= _MAIN * whole:
            return found[0]
    return body


def _words(element: Element) -> str:
    return "".join("".join(text.split()) for text in element.itertext() if isinstance(text, str))


def _shown(element: Element) -> bool:
    tag = element.tag
    if not isinstance(tag, str) or tag in _DROPPED or tag in _FURNITURE:
        return False
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    return not hidden and element.get("role") not in _ROLES and not _HIDDEN.search(element.get("style") or "")


_HTML_TABLE = re.compile(r"<table\b.*?</table\s*>", re.IGNORECASE | re.DOTALL)


def tables_as_markdown(markdown: str) -> str:
    """Markdown whose HTML tables are Markdown tables: only those are split by rows, under their header."""

    def written(match: re.Match[str]) -> str:
        try:
            element = html.fragment_fromstring(match[0])
        except (etree.ParserError, etree.XMLSyntaxError, ValueError):
            return match[0]
        return "\n\n" + document(list(_table(element))) + "\n"

    return _HTML_TABLE.sub(written, markdown)


# --- blocks ----------------------------------------------------------------------------------------------------


def _blocks(element: Element) -> Iterator[str]:
    """The element's content: runs of inline content as paragraphs between its blocks."""
    inline = [element.text or ""]
    for child in element:
        if _shown(child):
            if child.tag in _BLOCKS or _holds_blocks(child):
                yield from _paragraph(inline)
                inline = []
                yield from _block(child)
            else:
                inline.append(_inline(child))
        inline.append(child.tail or "")
    yield from _paragraph(inline)


def _holds_blocks(element: Element) -> bool:
    return any(child.tag in _BLOCKS for child in element.iterdescendants() if isinstance(child.tag, str))


def _paragraph(inline: list[str]) -> Iterator[str]:
    lines = (flat(line) for line in "".join(inline).split("\0"))
    text = "\n".join(line for line in lines if line)
    if text:
        yield escaped(text)


def _block(element: Element) -> Iterator[str]:
    tag = element.tag
    if tag in _HEADINGS:
        text = flat(_inline(element).replace("\0", " "))
        yield from [heading(_HEADINGS[tag], text)] if text else []
        yield from (block for child in element.iterdescendants("table") for block in _block(child))
    elif tag in ("ul", "ol", "menu", "dl"):
        yield from _list(element, 0)
    elif tag == "table":
        yield from _table(element)
    elif tag == "pre":
        code = "".join(text for text in element.itertext() if isinstance(text, str)).strip("\n")
        yield from [f"```\n{code}\n```"] if code.strip() else []
    elif tag == "blockquote":
        yield from ("\n".join(f"> {line}" for line in block.split("\n")) for block in _blocks(element))
    else:
        yield from _blocks(element)


def _list(element: Element, depth: int) -> Iterator[str]:
    number = int(start) if (start := element.get("start") or "").isdigit() and len(start) < 6 else 1
    for item in element:
        if not _shown(item):
            continue
        if item.tag in ("ul", "ol", "menu", "dl"):
            yield from _list(item, depth + 1)
            continue
        mark = f"{number}." if element.tag == "ol" else "-"
        yield from _item(item, mark, depth + (item.tag == "dd"))
        number += 1


def _item(item: Element, mark: str, depth: int) -> Iterator[str]:
    """A list item: its own content on one line, inner lists below it, tables and code after it."""
    own: list[str] = [item.text or ""]
    after: list[str] = []
    for child in item:
        if _shown(child):
            if child.tag in ("ul", "ol", "menu", "dl"):
                after += _list(child, depth + 1)
            elif child.tag in ("table", "pre"):
                after += _block(child)
            elif _holds_lists(child):
                after += _item(child, "-", depth)
            else:
                own.append(f" {_inline(child)} " if child.tag in _BLOCKS else _inline(child))
        own.append(child.tail or "")
    text = flat("".join(own).replace("\0", " "))
    if text:
        yield f"{'  ' * min(depth, 6)}{mark} {text}"
    yield from after


def _holds_lists(element: Element) -> bool:
    return any(child.tag in ("ul", "ol", "menu", "dl", "table", "pre") for child in element.iterdescendants())


# --- inline ----------------------------------------------------------------------------------------------------


def _inline(element: Element) -> str:
    """Text of inline content; \\0 is a line break."""
    tag = element.tag
    if tag == "br":
        return "\0"
    if tag == "img":
        return flat(element.get("alt") or "")
    if tag == "input":
        return _input(element)
    parts = [element.text or ""]
    for child in element:
        if _shown(child):
            inside = _inline(child)
            parts.append(f" {inside} " if child.tag in _BLOCKS else inside)
        parts.append(child.tail or "")
    text = "".join(parts)
    return f"`{text}`" if tag in ("code", "kbd", "samp") and text.strip() and "`" not in text else text


def _input(element: Element) -> str:
    kind = (element.get("type") or "text").lower()
    if kind in ("checkbox", "radio"):
        return "[x] " if element.get("checked") is not None else "[ ] "
    return f" {element.get('value') or ''} " if kind in ("text", "number", "date", "email", "tel") else ""


# --- tables ----------------------------------------------------------------------------------------------------


def _table(element: Element) -> Iterator[str]:
    """The table as a grid, spanning cells in every place they cover; a table with one cell is a frame."""
    caption = next((child for child in element if child.tag == "caption"), None)
    if caption is not None and (text := flat(_inline(caption).replace("\0", " "))):
        yield escaped(text)
    rows = list(_rows(element))
    if sum(len(_cells_of(row)) for row in rows) == 1:
        yield from _blocks(_cells_of(rows[0])[0] if _cells_of(rows[0]) else rows[0])
        return
    yield table(_grid(rows))


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child if row.tag == "tr")


def _cells_of(row: Element) -> list[Element]:
    return [cell for cell in row if cell.tag in ("td", "th") and _shown(cell)]


MOST_CELLS = 500_000
_SPAN = 200  # a span beyond this is a mistake, or made to exhaust memory


def _grid(rows: list[Element]) -> list[list[str]]:
    taken: dict[tuple[int, int], str] = {}
    for at, row in enumerate(rows):
        column = 0
        for cell in _cells_of(row):
            while (at, column) in taken:
                column += 1
            text = flat(_inline(cell).replace("\0", " "))
            down, across = _span(cell, "rowspan"), _span(cell, "colspan")
            for y in range(at, min(at + down, len(rows))):
                taken.update(dict.fromkeys(((y, x) for x in range(column, column + across)), text))
            if len(taken) > MOST_CELLS:
                raise IngestError("bomb", "table spans")
            column += across
    width = 1 + max((x for _, x in taken), default=-1)
    return [[taken.get((y, x), "") for x in range(width)] for y in range(len(rows))]


def _span(cell: Element, name: str) -> int:
    value = (cell.get(name) or "1").strip()
    return min(max(int(value), 1), _SPAN) if value.isdigit() and len(value) < 6 else 1
