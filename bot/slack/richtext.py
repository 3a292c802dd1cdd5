"""From Markdown that somebody else wrote to Slack's rich text, and rich text into messages of bearable size. Pure.

Rich text rather than the `markdown` block: nothing in it is parsed again, so that a `<!channel>` or an address in a
document stays the letters it is (invariant 8), and bold beside Chinese is bold. Its price is the JSON around the
words; where that alone would make an answer two messages, `render` takes the markdown block instead.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Json = dict[str, Any]

# Slack answers msg_blocks_too_long from about 13,200 characters on (slackapi/bolt-js#2509).
BUDGET = 11_000
BLOCKS = 50  # docs.slack.dev/reference/block-kit/blocks
LEAF = 2_000  # characters of one text element; JSON at most doubles them (quotes, line ends)
ROWS, COLUMNS = 100, 20  # docs.slack.dev/reference/block-kit/blocks/table-block
DEEPEST = 8  # rich_text_list indent
# What CommonMark leaves of `**重点：**后文`: a closing mark between punctuation and a letter closes nothing, and
# Chinese has no space there.
LEFT_BOLD = re.compile(r"\*\*(?=\S)([^*]+?)(?<=\S)\*\*")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]")
CUT = re.compile(r"[\s。！？；，.!?;,][^\s。！？；，.!?;,]*$")


def size(value: Any) -> int:
    """Characters that `value` takes in a payload."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def text_of(node: SyntaxTreeNode) -> str:
    """The letters of an inline node without its marks."""
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    return node.content if not node.children else "".join(text_of(child) for child in node.children)


# --- Markdown to units


def units(text: str) -> list[Json]:
    """The rich text elements, tables and dividers that show `text`, in order."""
    root = SyntaxTreeNode(_PARSER.parse(text))
    return [unit for node in root.children for unit in _block(node)]


def _block(node: SyntaxTreeNode) -> list[Json]:
    if node.type in ("fence", "code_block"):
        code = CONTROL.sub("", node.content.rstrip("\n"))
        return [{"type": "rich_text_preformatted", "elements": [_leaf(code)]}] if code else []
    if node.type == "blockquote":
        found = list(_merged(_flat(node.children)))
        return [{"type": "rich_text_quote", "elements": found}] if found else []
    if node.type in ("bullet_list", "ordered_list"):
        return _list(node, 0)
    if node.type == "table":
        return _table(node)
    if node.type == "hr":
        return [{"type": "divider"}]
    found = list(_merged(_inline(node, {"bold": True} if node.type == "heading" else {})))
    return [section(found)] if found else []


def section(leaves: list[Json]) -> Json:
    return {"type": "rich_text_section", "elements": leaves}


def _leaf(text: str, style: Json | None = None) -> Json:
    return {"type": "text", "text": text, **({"style": dict(style)} if style else {})}


def _inline(node: SyntaxTreeNode, style: Json) -> Iterator[Json]:
    for child in node.children:
        if child.type == "inline":
            yield from _inline(child, style)
        elif child.type in ("strong", "em", "s"):
            name = {"strong": "bold", "em": "italic", "s": "strike"}[child.type]
            yield from _inline(child, {**style, name: True})
        elif child.type == "code_inline":
            yield _leaf(child.content, {**style, "code": True})
        elif child.type in ("softbreak", "hardbreak"):
            yield _leaf("\n", style)
        elif child.type == "text":
            yield from _bold(child.content, style)
        else:
            yield _leaf(child.content, style)


def _bold(text: str, style: Json) -> Iterator[Json]:
    end = 0
    for match in LEFT_BOLD.finditer(text):
        yield _leaf(text[end : match.start()], style)
        yield _leaf(match.group(1), {**style, "bold": True})
        end = match.end()
    yield _leaf(text[end:], style)


def _merged(leaves: Iterable[Json]) -> Iterator[Json]:
    """Neighbours of one style joined, empty ones and control characters left out."""
    last: Json | None = None
    for leaf in leaves:
        text = CONTROL.sub("", leaf["text"])
        if not text:
            continue
        if last is not None and last.get("style") == leaf.get("style"):
            last["text"] += text
            continue
        if last is not None:
            yield last
        last = {**leaf, "text": text}
    if last is not None:
        yield last


def _flat(nodes: Sequence[SyntaxTreeNode], mark: str = "") -> Iterator[Json]:
    """Blocks as lines of one element, where Slack allows no nesting: quotes, and what stands in them."""
    for position, node in enumerate(nodes):
        if position:
            yield _leaf("\n")
        if node.type in ("bullet_list", "ordered_list"):
            for number, item in enumerate(node.children):
                yield _leaf(("\n" if number else "") + mark + _bullet(node, number))
                yield from _flat(item.children, mark + "    ")
        elif node.type in ("fence", "code_block"):
            yield _leaf(node.content.rstrip("\n"), {"code": True})
        elif node.type == "table":
            yield _leaf("\n".join(" | ".join(text_of(c) for c in row) for row in _rows(node)))
        elif node.type == "blockquote":
            yield from _flat(node.children, mark)
        else:
            yield from _inline(node, {"bold": True} if node.type == "heading" else {})


def _bullet(node: SyntaxTreeNode, number: int) -> str:
    return "• " if node.type == "bullet_list" else f"{int(node.attrs.get('start', 1)) + number}. "


def _list(node: SyntaxTreeNode, depth: int) -> list[Json]:
    """One list element for each run of plain items; what an item holds besides text stands between them."""
    found: list[Json] = []
    fresh = True
    for number, item in enumerate(node.children):
        leaves: list[Json] = []
        rest: list[Json] = []
        for child in item.children:
            if child.type in ("bullet_list", "ordered_list"):
                rest += _list(child, depth + 1)
            elif child.type in ("paragraph", "heading") and not rest:
                leaves += [_leaf("\n")] if leaves else []
                leaves += _inline(child, {"bold": True} if child.type == "heading" else {})
            else:
                rest += _block(child)
        entry = section(list(_merged(leaves)) or [_leaf(" ")])
        if fresh:
            found.append(_started(node, number, depth))
        found[-1]["elements"].append(entry)
        found += rest
        fresh = bool(rest)
    return found


def _started(node: SyntaxTreeNode, number: int, depth: int) -> Json:
    ordered = node.type == "ordered_list"
    made: Json = {
        "type": "rich_text_list",
        "style": "ordered" if ordered else "bullet",
        "indent": min(depth, DEEPEST),
        "elements": [],
    }
    offset = int(node.attrs.get("start", 1)) - 1 + number if ordered else 0
    return made | ({"offset": offset} if offset > 0 else {})


def _rows(table: SyntaxTreeNode) -> list[list[SyntaxTreeNode]]:
    return [row.children for part in table.children for row in part.children]


def _table(node: SyntaxTreeNode) -> list[Json]:
    rows = _rows(node)
    if len(rows[0]) > COLUMNS:  # wider than Slack's tables: each row as lines
        return [
            _as_lines([list(_merged(_inline(c, {}))) for c in rows[0]], row) for row in map(_cells, rows[1:])
        ]
    aligned = [str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in rows[0]]
    settings = [{"align": a} if a in ("center", "right") else {"align": "left"} for a in aligned]
    return [
        {
            "type": "table",
            "rows": [[_cell(c) for c in _cells(row)] for row in rows],
            "column_settings": settings,
        }
    ]


def _cells(row: Sequence[SyntaxTreeNode]) -> list[list[Json]]:
    return [list(_merged(_inline(cell, {}))) for cell in row]


def _cell(leaves: list[Json]) -> Json:
    if not leaves:
        return {"type": "raw_text", "text": " "}
    if len(leaves) == 1 and "style" not in leaves[0]:
        return {"type": "raw_text", "text": leaves[0]["text"]}
    return {"type": "rich_text", "elements": [section(leaves)]}


def _as_lines(head: list[list[Json]], row: list[list[Json]]) -> Json:
    leaves: list[Json] = []
    for name, cell in zip(head, row, strict=True):
        title = "".join(leaf["text"] for leaf in name)
        leaves += [_leaf(f"{title}: ", {"bold": True}), *cell, _leaf("\n")]
    return section(list(_merged(leaves)))


# --- units to messages


def pages(found: Sequence[Json], room: int = BUDGET, blocks: int = BLOCKS) -> list[list[Json]]:
    """The blocks of one or more messages: each at most `room` characters and `blocks` blocks, one table each."""
    made: list[list[Json]] = [[]]
    for unit in (piece for whole in found for piece in split(whole, room - 200)):
        candidate = _added(made[-1], unit)
        crowded = size(candidate) > room or len(candidate) > blocks
        if crowded or sum(block["type"] == "table" for block in candidate) > 1:
            made.append(_added([], unit))
        else:
            made[-1] = candidate
    return [page for page in made if page]


def _added(page: list[Json], unit: Json) -> list[Json]:
    if not unit["type"].startswith("rich_text_"):
        return [*page, unit]
    if not page or page[-1]["type"] != "rich_text":
        return [*page, {"type": "rich_text", "elements": [unit]}]
    last = page[-1]["elements"]
    parted = [_with_end(last[-1])] if unit["type"] == "rich_text_section" else [last[-1]]
    return [*page[:-1], {"type": "rich_text", "elements": [*last[:-1], *parted, unit]}]


def _with_end(element: Json) -> Json:
    """A paragraph before a paragraph ends in an empty line; Slack puts none between two sections."""
    if element["type"] != "rich_text_section":
        return element
    leaves = element["elements"]
    return section([*leaves[:-1], {**leaves[-1], "text": leaves[-1]["text"].rstrip("\n") + "\n\n"}])


def split(unit: Json, room: int) -> list[Json]:
    """`unit` in pieces of at most `room` characters. Nothing is left out."""
    if unit["type"] == "divider" or (size(unit) <= room and len(unit.get("rows", ())) <= ROWS):
        return [unit]
    if unit["type"] == "table":
        return _split_table(unit, room)
    if unit["type"] == "rich_text_list":
        return _split_list(unit, room)
    made: list[Json] = []
    for leaf in (piece for whole in unit["elements"] for piece in _short(whole)):
        if made and size({**made[-1], "elements": [*made[-1]["elements"], leaf]}) <= room:
            made[-1]["elements"].append(leaf)
        else:
            made.append({**unit, "elements": [leaf]})
    return made


def _short(leaf: Json) -> Iterator[Json]:
    text = leaf["text"]
    while len(text) > LEAF:
        match = CUT.search(text[:LEAF])
        end = match.start() + 1 if match and match.start() > LEAF // 2 else LEAF
        yield {**leaf, "text": text[:end]}
        text = text[end:]
    yield {**leaf, "text": text}


def _split_list(unit: Json, room: int) -> list[Json]:
    made: list[Json] = []
    for number, item in enumerate(unit["elements"]):
        first, *more = split(item, room - 200)
        grown = {**made[-1], "elements": [*made[-1]["elements"], first]} if made else {}
        if made and made[-1]["type"] == "rich_text_list" and size(grown) <= room:
            made[-1] = grown
        else:
            fresh: Json = {**unit, "elements": [first]}
            if unit["style"] == "ordered" and number:
                fresh["offset"] = unit.get("offset", 0) + number
            made.append(fresh)
        made += more
    return made


def _split_table(unit: Json, room: int) -> list[Json]:
    """Several tables, each under the head; a row that is too long for any table as lines."""
    head, *rows = unit["rows"]
    empty: Json = {**unit, "rows": [head]}
    if size(empty) > room // 2:
        return [piece for row in unit["rows"] for piece in split(_line(row), room)]
    made: list[Json] = []
    for row in rows:
        grown = (
            {**made[-1], "rows": [*made[-1]["rows"], row]} if made and made[-1]["type"] == "table" else None
        )
        if grown and size(grown) <= room and len(grown["rows"]) <= ROWS:
            made[-1] = grown
        elif size({**empty, "rows": [head, row]}) <= room:
            made.append({**empty, "rows": [head, row]})
        else:
            made += split(_line(row), room)
    return made or [empty]


def _line(row: Sequence[Json]) -> Json:
    leaves: list[Json] = []
    for cell in row:
        inner = cell["elements"][0]["elements"] if cell["type"] == "rich_text" else [_leaf(cell["text"])]
        leaves += [*([_leaf(" | ")] if leaves else []), *inner]
    return section(list(_merged(leaves)))


def parser() -> MarkdownIt:
    """CommonMark with tables and strike-through; HTML, links and images stay the letters they are."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.disable(["link", "image", "autolink", "reference", "html_inline", "html_block"])
    # An escaped star must not meet LEFT_BOLD, so escapes keep tokens of their own.
    return made.disable("text_join")


_PARSER = parser()
