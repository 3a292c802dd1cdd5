"""Lines into Markdown: paragraphs joined, headings by size and weight, tables across pages made one. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from store.ingest.layout import Line, Page, Table, joined, reading_order, without_furniture
from store.ingest.structure import anchor

__all__ = ["markdown"]

_END = re.compile(r"[。！？!?.：:；;”\"’』」）)\]]$")
_SENTENCE_END = re.compile(r"[。！？!?.；;：:][”\"’』」）)\]]*$")
# Symbol fonts put their bullets into the private use area.
_DOT = r"[•●▪◦○■□◆◇‣∙\ue000-\uf8ff]"
_BULLET = re.compile(rf"^(?:{_DOT}|[·–*-])\s*(?=\S)")
_ITEM = re.compile(
    rf"^(?:{_DOT}|[-–*]\s|\(?\d{1, 2}[.)、](?!\d)|[（(][一二三四五六七八九十\da-z]{1, 3}[）)]"
    r"|[一二三四五六七八九十]{1,3}、|第\s*[零〇一二两三四五六七八九十百千\d.]+\s*[编章节条款](?![款项的和至])|\d{1,2}(?:\.\d{1,2})+\.?\s"
    r"|(?:Article|Section|Clause|Chapter|Appendix)\s+[\dA-Z]+\b|§\s*\d|附[件录]\s*[\d一二三四五六七八九十A-Z]?\s*[:：])"
)
_CHAPTER = re.compile(r"^第\s*[零〇一二两三四五六七八九十百\d]+\s*([编章节])(?![款项的])")
_NUMBERED = re.compile(r"^(\d{1,2}(?:\.\d{1,2})*)[.、]?\s*(?=\D)")
_CAPTION = re.compile(r"^(?:图|表|Figure|Fig\.|Table)\s*[\dA-Z一二三四五六七八九十]")
_LETTER = re.compile(r"[^\W\d_]")
_LEADER = re.compile(r"(?:\s*[.·…]){4,}\s*")  # the dots of a table of contents
_ENTRY = re.compile(r"(.*?\w.*?)(?:\s*[.·…]){4,}[\s.·…]*([^\s.·…].{0,14})$")
_ENTRIES = 3  # fewer are sentences with dots
_HYPHEN = re.compile(r"([A-Za-z]+)-$")
_WORDS = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)+")


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """Joined lines of one style. `at` is the first line's page; `breaks` (offset, page) where later pages begin."""

    text: str
    at: int
    first: Line
    last: Line
    lines: int = 1
    breaks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table, with the page of each run of rows: (index of the first row, page)."""

    rows: tuple[tuple[str, ...], ...]
    pages: tuple[tuple[int, int], ...]
    table: Table


_Part = _Paragraph | _Rows


def markdown(pages: Sequence[Page]) -> str:
    """The document as Markdown with an anchor where each page begins."""
    cleared = without_furniture(pages)
    ordered = [(page, reading_order(page)) for page in cleared]
    lines = [item for _, items in ordered for item in items if isinstance(item, Line)]
    body = _body_style([item for _, items in ordered for item in items])
    hyphenated = {word.lower() for line in lines for word in _WORDS.findall(line.text)}
    parts = _listings(_assembled(ordered, _Joiner(body, _pitch(ordered, body), hyphenated)))
    levels = _levels(parts, body)
    return _written(parts, [page.number for page in pages], levels)


Style = tuple[float, bool]


def _style(line: Line) -> Style:
    return line.size, line.bold


def _body_style(items: Sequence[Line | Table]) -> Style:
    """The style most characters are set in."""
    counted: Counter[Style] = Counter()
    for item in items:
        if isinstance(item, Line):
            counted[_style(item)] += len(item.text)
        else:
            counted[item.size, False] += sum(len(cell) for row in item.rows for cell in row)
    return counted.most_common(1)[0][0] if counted else (10.0, False)


def _pitch(ordered: Sequence[tuple[Page, list[Line | Table]]], body: Style) -> float:
    """The usual distance from line to line, in units of the font size."""
    steps = []
    for _, items in ordered:
        for above, below in pairwise(items):
            if isinstance(above, Line) and isinstance(below, Line) and _style(above) == _style(below) == body:
                step = (below.top - above.top) / body[0]
                if 0.8 < step < 3:
                    steps.append(step)
    return median(steps) if len(steps) > 3 else 1.5


@dataclass(frozen=True, slots=True)
class _Joiner:
    """Decides whether a line continues the paragraph before it, and how."""

    body: Style
    pitch: float
    hyphenated: set[str]

    def continues(self, paragraph: _Paragraph, line: Line, *, broken: bool) -> bool:
        """`broken`: a new column or page lies between."""
        last = paragraph.last
        if abs(last.size - line.size) > 0.6 or last.bold != line.bold or _ITEM.match(line.text):
            return False
        if _ENTRY.match(last.text):
            return False
        full = last.x1 >= last.right - 0.12 * (last.right - last.left)
        if broken:
            return (
                not _END.search(paragraph.text) and (full or line.text[0].islower()) and not _indented(line)
            )
        if line.top - last.top > max(1.3 * self.pitch, self.pitch + 0.35) * line.size:
            return False
        hanging = paragraph.lines == 1 and bool(_ITEM.match(paragraph.first.text))
        if line.x0 > last.x0 + 0.9 * line.size and not hanging:
            return False
        width = last.right - last.left
        if _SENTENCE_END.search(last.text):
            return last.x1 >= last.right - 0.2 * width
        return last.x1 >= last.right - 0.45 * width

    def text(self, before: str, line: str) -> str:
        """Hyphens at a line's end mended, unless the word is written with one elsewhere."""
        if before.endswith("\u00ad"):
            return before[:-1] + line
        hyphen = _HYPHEN.search(before)
        following = re.match(r"[a-z]+", line)
        if hyphen and following:
            word = f"{hyphen[1]}-{following[0]}".lower()
            return before + line if word in self.hyphenated else before[:-1] + line
        return joined(before, line)


def _indented(line: Line) -> bool:
    return line.x0 > line.left + 1.5 * line.size


def _assembled(ordered: Sequence[tuple[Page, list[Line | Table]]], joiner: _Joiner) -> list[_Part]:
    parts: list[_Part] = []
    for page, items in ordered:
        top = True  # nothing but the table's own continuation stands above it
        for item in items:
            before = parts[-1] if parts else None
            if isinstance(item, Table):
                together = _continued(before, item, page) if top and isinstance(before, _Rows) else None
                if together:
                    parts[-1] = together
                else:
                    parts.append(_Rows(item.rows, ((0, page.number),), item))
            elif isinstance(before, _Paragraph) and _joins(before, item, page, joiner):
                parts[-1] = _extended(before, item, page, joiner)
            else:
                parts.append(_Paragraph(item.text, page.number, item, item))
            top = False
    return parts


def _joins(paragraph: _Paragraph, line: Line, page: Page, joiner: _Joiner) -> bool:
    number = paragraph.breaks[-1][1] if paragraph.breaks else paragraph.at
    other_column = line.left > paragraph.last.right or line.top < paragraph.last.top
    return joiner.continues(paragraph, line, broken=number != page.number or other_column)


def _extended(paragraph: _Paragraph, line: Line, page: Page, joiner: _Joiner) -> _Paragraph:
    text = joiner.text(paragraph.text, line.text)
    breaks = paragraph.breaks
    if page.number != (breaks[-1][1] if breaks else paragraph.at):
        breaks = (*breaks, (len(text) - len(line.text), page.number))
    return replace(paragraph, text=text, last=line, lines=paragraph.lines + 1, breaks=breaks)


def _continued(before: _Rows, table: Table, page: Page) -> _Rows | None:
    """The table with its continuation from the next page, if that is what `table` is: as many columns, as wide, and
    nothing between. A repeated header is dropped."""
    last = before.table
    if before.pages[-1][1] != page.number - 1 or len(table.rows[0]) != len(before.rows[0]):
        return None
    if abs(last.x0 - table.x0) > 12 or abs(last.x1 - table.x1) > 12:
        return None
    rows = table.rows[1:] if table.rows[0] == before.rows[0] else table.rows
    if not rows:
        return replace(before, table=table)
    return _Rows((*before.rows, *rows), (*before.pages, (len(before.rows), page.number)), table)


# --- headings ------------------------------------------------------------------------------------------------


_STYLES = 4


def _is_heading(part: _Part, body: Style) -> bool:
    if not isinstance(part, _Paragraph) or part.lines > 3 or len(part.text) > 150:
        return False
    text = part.text
    if not _LETTER.search(text) or _CAPTION.match(text) or _BULLET.match(text):
        return False
    if re.search(r"[。；，、,;：:]$", text) or (text.endswith(".") and len(text) > 40):
        return False
    size, bold = _style(part.first)
    if size >= max(body[0] * 1.15, body[0] + 1):
        return True
    if bold and not body[1] and size >= body[0] - 0.5 and len(text) <= 80:
        return True
    return bool(_CHAPTER.match(text)) and len(text) <= 40


def _rank(part: _Paragraph, body: Style) -> tuple[float, bool]:
    """What orders headings: size and weight. A chapter in the body's own style comes after every other."""
    style = _style(part.first)
    return style if style > body else (0.0, False)


def _levels(parts: Sequence[_Part], body: Style) -> dict[int, int]:
    """Heading level by the part's index. Larger is higher; within one style 3.2 stands below 3, a section below a
    chapter."""
    headings = {
        at: part for at, part in enumerate(parts) if isinstance(part, _Paragraph) and _is_heading(part, body)
    }
    ranks = {at: _rank(part, body) for at, part in headings.items()}
    used = Counter(ranks.values())
    kept = sorted(used, reverse=True)
    if len(kept) > _STYLES:
        # A cover's many sizes, each seen once, are no levels; the largest is the title's.
        kept = [rank for rank in kept if used[rank] > 1 or rank == max(used)]
    steps = sorted(
        {(-_place(kept, ranks[at]), -_depth(part.text)) for at, part in headings.items()}, reverse=True
    )
    levels = {
        at: min(6, steps.index((-_place(kept, ranks[at]), -_depth(part.text))) + 1)
        for at, part in headings.items()
    }
    if levels.get(0, 1) > 1 and list(levels.values()).count(1) > 1:
        # The document begins with a heading smaller than its chapters': that is its title.
        levels = {at: 1 if at == 0 else min(6, level + 1) for at, level in levels.items()}
    return levels


def _place(kept: Sequence[tuple[float, bool]], rank: tuple[float, bool]) -> int:
    """The index of the first kept style that is not larger."""
    return next((at for at, other in enumerate(kept) if other <= rank), len(kept))


def _depth(text: str) -> int:
    """How deep a heading's number is: 3 → 1, 3.2 → 2, 第二章 → 2, 第一节 → 3; 1 without a number."""
    if chapter := _CHAPTER.match(text):
        return {"编": 1, "章": 2, "节": 3}[chapter[1]]
    numbered = _NUMBERED.match(text)
    return numbered[1].count(".") + 1 if numbered else 1


# --- writing -------------------------------------------------------------------------------------------------


def _written(parts: Sequence[_Part], pages: Sequence[int], levels: dict[int, int]) -> str:
    out: list[str] = []
    waiting = list(pages)
    listing = False
    for at, part in enumerate(parts):
        first = part.at if isinstance(part, _Paragraph) else part.pages[0][1]
        anchors = [anchor(page) for page in waiting if page <= first]
        out += anchors
        inside = {page for _, page in (part.breaks if isinstance(part, _Paragraph) else part.pages)}
        waiting = [page for page in waiting if page > first and page not in inside]
        text, item = _block(part, levels.get(at))
        if item and listing and not anchors:
            out[-1] += "\n" + text
        else:
            out.append(text)
        listing = item
    out += [anchor(page) for page in waiting]
    return "\n\n".join(out) + "\n"


def _listings(parts: Sequence[_Part]) -> list[_Part]:
    """Runs of lines with leaders (a table of contents, a price list) as tables of two columns."""
    out: list[_Part] = []
    run: list[_Paragraph] = []
    for part in [*parts, None]:
        if isinstance(part, _Paragraph) and _ENTRY.match(part.text) and not part.breaks:
            run.append(part)
            continue
        out += [_entries(run)] if len(run) >= _ENTRIES else run
        run = []
        out += [part] if part is not None else []
    return out


def _entries(run: Sequence[_Paragraph]) -> _Rows:
    rows = []
    pages: list[tuple[int, int]] = []
    for at, paragraph in enumerate(run):
        entry = _ENTRY.match(paragraph.text)
        rows.append((entry[1].strip(), entry[2].strip(" .·…")) if entry else ("", ""))
        if not pages or pages[-1][1] != paragraph.at:
            pages.append((at, paragraph.at))
    first, last = run[0].first, run[-1].last
    table = Table(tuple(rows), first.x0, first.x1, first.top, last.bottom, first.size)
    return _Rows(table.rows, tuple(pages), table)


def _block(part: _Part, level: int | None) -> tuple[str, bool]:
    """The block's Markdown, and whether it is a list item."""
    if isinstance(part, _Rows):
        return _table(part), False
    if level:
        return f"{'#' * level} {part.text}", False
    text = part.text
    if not part.breaks:
        text = _LEADER.sub(" … ", text)
    for offset, page in reversed(part.breaks):
        text = text[:offset] + anchor(page) + text[offset:]
    bullet = _BULLET.match(text)
    if bullet and _ITEM.match(text):
        return "- " + text[bullet.end() :], True
    return _escaped(text), False


def _escaped(text: str) -> str:
    """What Markdown would take for a heading, quote, fence or rule stays text."""
    return "\\" + text if re.match(r"#{1,6}(?:\s|$)|>|`{3}|~{3}|[-=*_]{3,}\s*$", text) else text


def _table(part: _Rows) -> str:
    if len(part.rows) == 1:
        return _escaped(" ".join(cell for cell in part.rows[0] if cell))
    starts = dict(part.pages[1:])
    lines = []
    for number, row in enumerate(part.rows):
        cells = [cell.replace("|", "\\|") for cell in row]
        if number in starts:
            cells[0] = anchor(starts[number]) + cells[0]
        lines.append("| " + " | ".join(cells) + " |")
        if number == 0:
            lines.append("|" + "---|" * len(row))
    return "\n".join(lines)
