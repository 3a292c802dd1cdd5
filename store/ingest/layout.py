"""A page's words into lines in reading order: rows, columns, running heads. Pure.

Coordinates are PDF points from the page's top left corner.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

__all__ = [
    "Line",
    "Page",
    "Table",
    "Word",
    "joined",
    "reading_order",
    "rows_of",
    "text_of",
    "without_furniture",
]

_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f\u201c\u201d\u2018\u2019\U00020000-\U000323af"
_IS_CJK = re.compile(f"[{_CJK}]")


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float = 10.0
    bold: bool = False
    spaced: bool = False  # a blank was printed before it


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text, row by row; every row has the same number of cells. `size` is the font's that most of it is in."""

    rows: tuple[tuple[str, ...], ...]
    x0: float
    x1: float
    top: float
    bottom: float
    size: float = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """What was read of one page. `number` counts from 1; `pictures` is how many images it shows, `unmapped` how many
    glyphs of its fonts stand for no known character."""

    number: int
    width: float
    height: float
    words: tuple[Word, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: int = 0
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """Words side by side. `left` and `right` are the edges of the column they stand in."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    bold: bool
    left: float = 0.0
    right: float = 0.0

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def joined(left: str, right: str, gap: float = 0.5) -> str:
    """Two pieces of one line or paragraph. `gap` is the distance in units of the font size.

    No space between Chinese characters unless one would nearly fit, none where the pieces touch (a change
    of font inside a word), one otherwise.
    """
    if not left or not right:
        return left + right
    chinese = bool(_IS_CJK.match(left[-1])), bool(_IS_CJK.match(right[0]))
    least = 0.8 if all(chinese) else 0.12
    return f"{left} {right}" if gap >= least else left + right


_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_IS_RTL = re.compile(f"[{_RTL}]")
_IS_LTR = re.compile(f"[^\\W\\d_{_RTL}]")


def text_of(row: Sequence[Word]) -> str:
    """The words of one line, in the order they are read, as text."""
    text = ""
    before: Word | None = None
    for word in _read_leftward(row) if _leftward(row) else row:
        gap = 0.0 if before is None else _apart(before, word) / max(word.size, 1.0)
        text = joined(text, word.text, max(gap, 1.0) if word.spaced else gap)
        before = word
    return text


def _apart(one: Word, other: Word) -> float:
    return max(one.x0, other.x0) - min(one.x1, other.x1)


def _leftward(row: Sequence[Word]) -> bool:
    """Whether the line is Hebrew or Arabic: most of its words are read from right to left."""
    leftward = sum(bool(_IS_RTL.search(word.text)) for word in row)
    return leftward > sum(bool(_IS_LTR.search(word.text)) for word in row if not _IS_RTL.search(word.text))


def _read_leftward(row: Sequence[Word]) -> list[Word]:
    """From right to left, but runs of Latin words inside from left to right."""
    ordered: list[Word] = []
    run: list[Word] = []
    for word in reversed(row):
        if _IS_LTR.search(word.text) and not _IS_RTL.search(word.text):
            run.insert(0, word)
            continue
        ordered += [*run, word]
        run = []
    return [*ordered, *run]


# --- rows ----------------------------------------------------------------------------------------------------


def rows_of(words: Iterable[Word]) -> list[list[Word]]:
    """Words that share a line, each row from left to right, rows from top to bottom.

    Two words share a line when they overlap by half the lower one's height: superscripts stay with their line.
    """
    rows: list[list[Word]] = []
    spans: list[tuple[float, float]] = []
    for word in sorted(words, key=lambda word: (word.top + word.bottom, word.x0)):
        for at in range(len(rows) - 1, max(-1, len(rows) - 4), -1):
            top, bottom = spans[at]
            shared = min(bottom, word.bottom) - max(top, word.top)
            if shared >= 0.5 * min(bottom - top, word.bottom - word.top):
                rows[at].append(word)
                if word.bottom - word.top > bottom - top:
                    spans[at] = (word.top, word.bottom)
                break
        else:
            rows.append([word])
            spans.append((word.top, word.bottom))
    return [sorted(row, key=lambda word: word.x0) for row in rows]


def _line(words: Sequence[Word]) -> Line:
    end = max(word.x1 for word in words)
    heavy = sum(len(word.text) for word in words if word.bold)
    return Line(
        text=text_of(words),
        x0=words[0].x0,
        x1=end,
        top=min(word.top for word in words),
        bottom=max(word.bottom for word in words),
        size=usual_size(words),
        bold=heavy >= 0.9 * sum(len(word.text) for word in words),
    )


def usual_size(words: Iterable[Word]) -> float:
    """The font size, to half a point, of most characters."""
    weights: dict[float, int] = defaultdict(int)
    for word in words:
        weights[round(word.size * 2) / 2] += len(word.text)
    return max(weights, key=lambda size: (weights[size], size), default=10.0)


def _segments(words: Iterable[Word]) -> list[Line]:
    """Rows, cut where the gap is wider than any space between words: there may be a gutter."""
    found = []
    for row in rows_of(words):
        start = 0
        for at, (word, following) in enumerate(pairwise(row), 1):
            if following.x0 - word.x1 > 0.9 * max(word.size, following.size):
                found.append(_line(row[start:at]))
                start = at
        found.append(_line(row[start:]))
    return found


# --- running heads and feet ----------------------------------------------------------------------------------

# Shares of the page's height at top and bottom. Text begins an inch down (.086 of A4), so only page numbers and
# lines that never change are looked for further in.
_MARGIN = 0.085
_WIDE_MARGIN = 0.14
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"\W*(?:第|page|p\.|seite)?\s*#\s*(?:页|頁)?(?:\s*(?:of|/|，|,|共)*\s*#\s*页?)?\W*", re.IGNORECASE
)


def without_furniture(pages: Sequence[Page]) -> list[Page]:
    """The pages without the lines that repeat at the same place: running heads, feet and page numbers.

    A line repeats when its text is the same, or differs only by a number that counts with the pages, on at least
    three pages (two, in documents of up to four); heads may alternate between left and right pages.
    """
    seen: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    segments = {
        page.number: [line for line in _segments(page.words) if _in_margin(line, page, _WIDE_MARGIN)]
        for page in pages
    }
    for page in pages:
        for line in segments[page.number]:
            seen[_place(line)][page.number] = line.text
    needed = 2 if len(pages) < 5 else 3
    repeated = {
        place: texts
        for place, texts in seen.items()
        if len(texts) >= needed and len(texts) * 5 >= len(pages) and _counts(texts)
    }
    return [
        _cleared(page, [line for line in segments[page.number] if _repeats(line, page, repeated)])
        for page in pages
    ]


def _repeats(line: Line, page: Page, repeated: Mapping[tuple[str, int], Mapping[int, str]]) -> bool:
    texts = repeated.get(_place(line))
    if texts is None:
        return False
    constant = len(set(texts.values())) == 1
    return constant or bool(_PAGE_NUMBER.fullmatch(_place(line)[0])) or _in_margin(line, page, _MARGIN)


def _in_margin(line: Line, page: Page, margin: float) -> bool:
    """Whether the line stands in the page's upper or lower `margin`, a share of its height."""
    return line.bottom < page.height * margin or line.top > page.height * (1 - margin)


def _place(line: Line) -> tuple[str, int]:
    return _NUMBER.sub("#", line.text), round(line.top / 4)


def _counts(texts: Mapping[int, str]) -> bool:
    """Whether every number is constant, or grows as the pages do."""
    numbers = {page: [int(number[:9]) for number in _NUMBER.findall(text)] for page, text in texts.items()}
    columns = zip(*numbers.values(), strict=True)
    offsets = zip(*([n - page for n in found] for page, found in numbers.items()), strict=True)
    return all(
        len(set(column)) == 1 or len(set(offset)) == 1
        for column, offset in zip(columns, offsets, strict=True)
    )


def _cleared(page: Page, furniture: Sequence[Line]) -> Page:
    def inside(word: Word) -> bool:
        middle = (word.top + word.bottom) / 2
        return any(
            line.top <= middle <= line.bottom and line.x0 - 1 <= word.x0 and word.x1 <= line.x1 + 1
            for line in furniture
        )

    return replace(page, words=tuple(word for word in page.words if not inside(word))) if furniture else page


# --- columns -------------------------------------------------------------------------------------------------

_COLUMN_LINES = 4  # fewer lines side by side are a form or a signature block, read row by row
_LEAST_GUTTER = 6.0


def reading_order(page: Page) -> list[Line | Table]:
    """Lines and tables as they are read: top to bottom, a left column before the right one."""
    items: list[Line | Table] = [*_segments(page.words), *page.tables]
    middle = page.width / 2
    if not _spread(page, items):
        return list(_ordered(items))
    left = [item for item in items if item.x1 <= middle]
    return [*_ordered(left), *_ordered([item for item in items if item.x1 > middle])]


# Two pages on one sheet leave their inner margins in its middle; no columns and no table do that.
_SPREAD_STRIP = 0.06


def _spread(page: Page, items: Sequence[Line | Table]) -> bool:
    """Whether the sheet shows two pages side by side."""
    middle, half = page.width / 2, page.width * _SPREAD_STRIP / 2
    left = sum(item.x1 < middle for item in items)
    free = not any(item.x0 < middle + half and item.x1 > middle - half for item in items)
    return page.width > 1.2 * page.height and free and min(left, len(items) - left) >= _COLUMN_LINES


def _ordered(items: Sequence[Line | Table], depth: int = 0) -> Iterator[Line | Table]:
    gutter = _gutter(items) if depth < 3 else None
    if gutter is None:
        yield from _single(items)
        return
    left: list[Line | Table] = []
    right: list[Line | Table] = []
    for item in sorted(items, key=lambda item: item.top):
        if item.x1 <= gutter + 1:
            left.append(item)
        elif item.x0 >= gutter - 1:
            right.append(item)
        else:
            yield from _ordered(left, depth + 1)
            yield from _ordered(right, depth + 1)
            left, right = [], []
            yield from _single([item])
    yield from _ordered(left, depth + 1)
    yield from _ordered(right, depth + 1)


def _single(items: Sequence[Line | Table]) -> Iterator[Line | Table]:
    """One column: pieces of the same row are one line again."""
    lines = [item for item in items if isinstance(item, Line)]
    left = min((line.x0 for line in lines), default=0.0)
    right = max((line.x1 for line in lines), default=0.0)
    rows: list[Line | Table] = []
    for item in sorted(items, key=lambda item: (item.top, item.x0)):
        before = rows[-1] if rows else None
        if isinstance(item, Line) and isinstance(before, Line) and before.top <= item.middle <= before.bottom:
            rows[-1] = _beside(before, item)
        elif isinstance(item, Line):
            rows.append(replace(item, left=left, right=right))
        else:
            rows.append(item)
    yield from rows


def _beside(first: Line, second: Line) -> Line:
    if second.x0 < first.x0:
        first, second = replace(second, left=first.left, right=first.right), first
    gap = (second.x0 - first.x1) / max(first.size, 1.0)
    longer = first if len(first.text) >= len(second.text) else second
    return replace(
        first,
        text=joined(first.text, second.text, gap),
        x1=max(first.x1, second.x1),
        top=min(first.top, second.top),
        bottom=max(first.bottom, second.bottom),
        size=longer.size,
        bold=first.bold and second.bold,
    )


def _gutter(items: Sequence[Line | Table]) -> float | None:
    """The middle of the white strip between two columns of prose, if there is one."""
    lines = [item for item in items if isinstance(item, Line)]
    if len(lines) < 2 * _COLUMN_LINES:
        return None
    start, end = min(line.x0 for line in lines), max(line.x1 for line in lines)
    width = end - start
    best: tuple[int, float, float] | None = None  # (lines crossing, -width of the strip, its middle)
    for low, high in _strips(lines, start + width * 0.25, start + width * 0.75):
        middle = (low + high) / 2
        crossing = sum(line.x0 < middle < line.x1 for line in lines)
        if best is None or (crossing, low - high) < best[:2]:
            best = (crossing, low - high, middle)
    if best is None or not _prose(lines, best[2], start, end):
        return None
    return best[2]


def _strips(lines: Sequence[Line], low: float, high: float) -> Iterator[tuple[float, float]]:
    """White strips between pieces of one row whose middle lies in [low, high]."""
    ends = sorted({round(line.x1) for line in lines if line.x1 < high})
    starts = sorted({round(line.x0) for line in lines if line.x0 > low})
    for end in ends:
        begin = next((start for start in starts if start >= end + _LEAST_GUTTER), None)
        if begin is not None and low <= (end + begin) / 2 <= high:
            yield end, begin


def _prose(lines: Sequence[Line], gutter: float, start: float, end: float) -> bool:
    """Whether both sides are columns of running text: enough lines, most of them long, side by side."""
    left = _rows([line for line in lines if line.x1 <= gutter])
    right = _rows([line for line in lines if line.x0 >= gutter])
    crossing = _rows([line for line in lines if line.x0 < gutter < line.x1])
    if min(len(left), len(right)) < _COLUMN_LINES or len(crossing) > 0.4 * (len(left) + len(right)):
        return False
    for side, width in ((left, gutter - start), (right, end - gutter)):
        long = median(line.x1 - line.x0 for line in side) >= 0.55 * width
        if not long or median(len(line.text) for line in side) < 10:
            return False
    shared = min(left[-1].bottom, right[-1].bottom) - max(left[0].top, right[0].top)
    return shared > 0.3 * min(left[-1].bottom - left[0].top, right[-1].bottom - right[0].top)


def _rows(lines: Sequence[Line]) -> list[Line]:
    return [item for item in _single(lines) if isinstance(item, Line)]
