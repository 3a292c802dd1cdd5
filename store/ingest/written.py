"""Blocks as Markdown: what every converter but the PDF's writes with. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["document", "escaped", "flat", "heading", "table"]

# What would begin a heading, quote, fence, rule or table at a line's start.
_OPENS = re.compile(r"^(?=#{1,6}(?:\s|$)|>|`{3}|~{3}|[-=*_]{3,}\s*$|\|)", re.MULTILINE)


def escaped(text: str) -> str:
    """A paragraph whose lines stay a paragraph's."""
    return _OPENS.sub(r"\\", text)


def flat(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def heading(level: int, text: str) -> str:
    return f"{'#' * min(max(level, 1), 6)} {flat(text)}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first as its header; "" where no cell says anything.

    Rows are filled up to the widest; empty rows, and columns empty in every row, go.
    """
    width = max((len(row) for row in rows), default=0)
    filled = [
        [flat(cell) for cell in row] + [""] * (width - len(row)) for row in rows if any(map(str.strip, row))
    ]
    used = [at for at in range(width) if any(row[at] for row in filled)]
    if not used:
        return ""
    lines = ["| " + " | ".join(row[at].replace("|", "\\|") for at in used) + " |" for row in filled]
    lines.insert(1, "|" + "---|" * len(used))
    return "\n".join(lines)


def document(blocks: Sequence[str]) -> str:
    """Blocks, a blank line between them; list items that follow each other stay together."""
    parts = [block for block in blocks if block.strip()]
    if not parts:
        return ""
    out = [parts[0]]
    for before, block in pairwise(parts):
        out += ["\n" if _ITEM.match(before) and _ITEM.match(block) else "\n\n", block]
    return "".join(out) + "\n"


_ITEM = re.compile(r"^ *(?:-|\d{1,9}[.)]) ")
