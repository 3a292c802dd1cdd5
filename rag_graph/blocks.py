"""A passage's Markdown as what can be quoted: paragraphs, list items with their lead-in, rows with their header.

Every text is a verbatim slice of the passage. Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from store.text import sentences

__all__ = ["Group", "groups"]

Kind = Literal["paragraph", "list", "table", "code"]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that belong together. `lead` is the line before them and, of a table, its header; "" without."""

    kind: Kind
    lead: str
    parts: tuple[str, ...]


_SKIPPED = re.compile(r"\s*(?:#{1,6}\s.*|<!--.*-->|\[page[^\]]*\]|(?:[-*_]\s*){3,}|\[\^?[^\]]+\]:.*)?\s*")
_ITEM = re.compile(
    r"\s*(?:[-*+]\s+|•\s*|\d{1,3}(?:[.)]\s+|、\s*)|[（(][一二三四五六七八九十\d]{1,3}[)）]\s*)\S"
)
_ROW = re.compile(r"\s*\|.*")
_DELIMITER = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|?)+\s*")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")


def groups(text: str) -> list[Group]:
    """What `text` consists of, in order; headings, rules and page anchors are left out."""
    found: list[Group] = []
    for kind, lines in _runs(text.splitlines()):
        if kind == "table":
            header, rows = _table(lines)
            lead = _lead(found)
            found.append(Group("table", "\n\n".join(filter(None, (lead, header))), rows))
        elif kind == "list":
            found.append(Group("list", _lead(found), tuple(_items(lines))))
        elif kind == "code":
            found.append(Group("code", "", ("\n".join(lines),)))
        else:
            parts = sentences("\n".join(line.removeprefix("> ").removeprefix(">") for line in lines))
            if parts:
                found.append(Group("paragraph", "", tuple(parts)))
    return found


def _lead(found: list[Group]) -> str:
    """Take the line that introduces what follows from the paragraph before it."""
    if not found or found[-1].kind != "paragraph" or not _leads(found[-1].parts[-1]):
        return ""
    before = found.pop()
    if len(before.parts) > 1:
        found.append(Group("paragraph", "", before.parts[:-1]))
    return before.parts[-1]


def _leads(sentence: str) -> bool:
    return sentence.rstrip("*_ ").endswith((":", "：", "，", ",", "如下", "following"))


def _runs(lines: list[str]) -> Iterator[tuple[Kind, list[str]]]:
    """Neighbouring lines of one kind; a blank line ends a paragraph, not a list."""
    run: list[str] = []
    kind: Kind = "paragraph"
    fenced = False
    for line in lines:
        fence = bool(_FENCE.match(line))
        now: Kind = "code" if fenced or fence else _kind(line, kind if run else "paragraph")
        fenced ^= fence
        if now != "code" and _SKIPPED.fullmatch(line):
            if run and not (kind == "list" and not line.strip()):
                yield kind, run
                run = []
            continue
        if run and now != kind:
            yield kind, run
            run = []
        run.append(line)
        kind = now
    if run:
        yield kind, run


def _kind(line: str, before: Kind) -> Kind:
    if _ROW.fullmatch(line):
        return "table"
    if _ITEM.match(line) or (before == "list" and line.startswith(("  ", "\t")) and line.strip()):
        return "list"
    return "paragraph"


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if _ITEM.match(line) or not items:
            items.append(line.strip())
        else:
            items[-1] += "\n" + line
    return items


def _table(lines: list[str]) -> tuple[str, tuple[str, ...]]:
    """Header and rows; a table of a header alone is a row."""
    rows = [line.strip() for line in lines]
    if len(rows) > 2 and _DELIMITER.fullmatch(rows[1]):
        return "\n".join(rows[:2]), tuple(rows[2:])
    return "", tuple(rows)
