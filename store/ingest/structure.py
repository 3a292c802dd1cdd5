"""The shape of a Markdown document: sections, blocks and page anchors, as offsets into its text. Pure.

markdown-it-py reads the blocks (its inline pass is left out: 3 ms instead of 12 ms per 100 kB), so fences inside lists,
setext headings and tables follow CommonMark and not a second, slightly different parser.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token

__all__ = ["ANCHOR", "Block", "Outline", "Section", "anchor", "outline"]

Kind = Literal["text", "fence", "table"]

#: A page anchor; it may stand on a line of its own or inside a line, where a paragraph or a table crosses pages.
ANCHOR = re.compile(r"<!-- page (\d+) -->")

# A longer "heading" is a paragraph that happens to be underlined or to start with a number sign.
_HEADING_LIMIT = 200
_LEAVES = frozenset({"paragraph_open", "heading_open", "fence", "code_block", "html_block", "hr"})
_EMPHASIS = re.compile(r"(\*\*|__|`+)(.+?)\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")


def anchor(page: int) -> str:
    """The line that says where `page` (1-based) begins."""
    return f"<!-- page {page} -->"


@dataclass(frozen=True, slots=True)
class Block:
    """One paragraph, list item, fence or table: `text[start:end]` of the outline.

    `rows` are the offsets where a table may be cut: the second body row and every later one (the header never
    stands without a row). `header` is the table's header with its delimiter line, "" elsewhere.
    """

    start: int
    end: int
    kind: Kind = "text"
    rows: tuple[int, ...] = ()
    header: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading, up to the next. `path` leads to it and includes it; () before the first, whose
    `level` is 0."""

    path: tuple[str, ...]
    start: int
    end: int
    blocks: tuple[Block, ...]
    leaf: bool = True  # no heading below it
    level: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """A document's text without page anchors, its sections in order, and where its pages begin."""

    text: str
    sections: tuple[Section, ...]
    anchors: tuple[tuple[int, int], ...]  # (offset, page), ascending offsets

    def page(self, offset: int) -> int | None:
        """The page (1-based) on which the character at `offset` stands; None where the text has no anchors."""
        at = bisect_right(self.anchors, (offset, 1 << 30))
        return self.anchors[at - 1][1] if at else None


def outline(markdown: str) -> Outline:
    """Read `markdown` (line ends are \\n) into sections and blocks. Nothing is lost: blocks cover every line that is
    neither blank nor a heading."""
    text, anchors = _without_anchors(markdown)
    lines = text.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    offsets[-1] = len(text)
    tokens = _parser().parse(text)
    return Outline(text, tuple(_sections(tokens, lines, offsets)), anchors)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["block"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return parser


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """markdown-it's tables, but without tokens for the cells: with them 20,000 rows of five took 2.1 s, not .1."""
    if silent:
        return table(state, start, end, True)
    first = len(state.tokens)
    if not table(state, start, min(end, start + 2), False):
        return False
    enders = state.md.block.ruler.getRules("blockquote")
    outside, state.parentType = state.parentType, "table"
    line = start + 2
    while line < end and _goes_on(state, line) and not any(rule(state, line, end, True) for rule in enders):
        line += 1
    state.parentType, state.line = outside, line
    state.tokens[first].map = [start, line]
    return True


def _goes_on(state: StateBlock, line: int) -> bool:
    return state.sCount[line] >= state.blkIndent and not state.isEmpty(line) and not state.is_code_block(line)


def _without_anchors(markdown: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    parts: list[str] = []
    anchors: list[tuple[int, int]] = []
    at = length = 0
    for match in ANCHOR.finditer(markdown):
        parts.append(markdown[at : match.start()])
        length += match.start() - at
        anchors.append((length, int(match[1])))
        at = match.end()
    parts.append(markdown[at:])
    return "".join(parts), tuple(anchors)


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    first: int  # line
    after: int


def _sections(tokens: Sequence[Token], lines: Sequence[str], offsets: Sequence[int]) -> Iterator[Section]:
    headings = list(_headings(tokens))
    blocks = list(_blocks(tokens, lines, offsets, headings))
    starts = [block.start for block in blocks]
    stack: list[_Heading] = []
    bounds = [_Heading(0, "", 0, 0), *headings]
    for number, heading in enumerate(bounds):
        following = bounds[number + 1] if number + 1 < len(bounds) else None
        if heading.level:
            stack = [outer for outer in stack if outer.level < heading.level] + [heading]
        start = offsets[heading.after]
        end = offsets[following.first] if following else offsets[-1]
        inside = tuple(blocks[bisect_left(starts, start) : bisect_left(starts, end)])
        if heading.level or inside:
            leaf = following is None or following.level <= heading.level
            path = tuple(outer.title for outer in stack)
            yield Section(path, start, end, inside, leaf, heading.level)


def _headings(tokens: Sequence[Token]) -> Iterator[_Heading]:
    for number, token in enumerate(tokens):
        if (
            token.type == "heading_open"
            and token.level == 0
            and token.map
            and _is_heading(tokens[number + 1])
        ):
            title = _plain(tokens[number + 1].content)
            yield _Heading(int(token.tag[1:]), title, token.map[0], token.map[1])


def _is_heading(content: Token) -> bool:
    text = content.content
    return bool(text.strip()) and "\n" not in text and len(text) <= _HEADING_LIMIT


def _plain(heading: str) -> str:
    """The heading without emphasis, code marks and link targets."""
    text = _LINK.sub(r"\1", heading)
    text = _EMPHASIS.sub(r"\2", text)
    return " ".join(text.split()) or heading.strip()


def _blocks(
    tokens: Sequence[Token], lines: Sequence[str], offsets: Sequence[int], headings: Sequence[_Heading]
) -> Iterator[Block]:
    """Leaf blocks in order; lines that no token covers (link definitions) become text blocks."""
    after = {heading.first: heading.after for heading in headings}
    line = 0
    for first, last, kind, rows in _spans(tokens, lines):
        if last <= line:
            continue
        yield from _gap(line, first, lines, offsets)
        line = max(line, last)
        if first in after:
            line = max(line, after[first])
            continue
        header = "\n".join(lines[first : first + 2]) + "\n" if kind == "table" else ""
        yield Block(offsets[first], offsets[last], kind, tuple(offsets[row] for row in rows), header)
    yield from _gap(line, len(lines), lines, offsets)


def _gap(first: int, last: int, lines: Sequence[str], offsets: Sequence[int]) -> Iterator[Block]:
    while first < last and not lines[first].strip():
        first += 1
    if first < last:
        yield Block(offsets[first], offsets[last])


def _spans(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[tuple[int, int, Kind, tuple[int, ...]]]:
    """(first line, line after, kind, cuttable row lines) of each leaf block, in order."""
    for token in tokens:
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "table_open":
            # header, delimiter, first row; the rows after it may start a piece
            yield first, last, "table", tuple(range(first + 3, last))
        elif token.type in _LEAVES:
            yield first, last, "fence" if _closed_fence(token, lines) else "text", ()


def _closed_fence(token: Token, lines: Sequence[str]) -> bool:
    """A fence without its end swallows the rest of the document; that is text, not one unbreakable block."""
    if token.type != "fence" or token.map is None:
        return False
    closing = lines[token.map[1] - 1].strip(" \t>")
    return (
        token.map[1] - token.map[0] > 1
        and closing.startswith(token.markup)
        and not closing.strip(token.markup[0])
    )
