"""A page's frames and rules into tables of text. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from store.ingest.layout import Table, Word, joined, rows_of, text_of, usual_size

__all__ = ["Box", "read_ruled", "read_table"]

Box = tuple[float, float, float, float]  # x0, top, x1, bottom

# Thinner than this is the space between a double line, no column.
_LEAST = 3.0
# Half the rows with a cell of more characters than this: a page layout, not a table.
_PROSE = 600


def read_table(cells: Sequence[Box], words: Sequence[Word]) -> Table | None:
    """The table that `cells` make, or None for frames around paragraphs.

    A merged cell's text stands in every row and column it covers, so that each row reads alone. A title over the
    whole width is no part of the table; it stays a line above it.
    """
    xs = _edges([edge for x0, _, x1, _ in cells for edge in (x0, x1)])
    ys = _edges([edge for _, top, _, bottom in cells for edge in (top, bottom)])
    if len(xs) < 3 or len(ys) < 2:
        return None
    texts = {cell: _text(cell, words) for cell in cells}
    rows: list[tuple[str, ...]] = []
    first = 0
    for number, (top, bottom) in enumerate(pairwise(ys)):
        covering = [_covering(cells, (x0 + x1) / 2, (top + bottom) / 2) for x0, x1 in pairwise(xs)]
        if len({cell for cell in covering if cell}) < 2 and not rows:
            first = number + 1
            continue
        rows.append(_row(covering, texts))
    used = [at for at in range(len(xs) - 1) if any(row[at] for row in rows)]
    rows = [tuple(row[at] for at in used) for row in rows if any(row)]
    if len(used) < 2 or sum(max(map(len, row)) > _PROSE for row in rows) * 2 > len(rows):
        return None
    x0, top, x1, bottom = xs[0], ys[first], xs[-1], ys[-1]
    return Table(tuple(rows), x0, x1, top, bottom, usual_size(_inside((x0, top, x1, bottom), words)))


def _edges(values: Sequence[float]) -> list[float]:
    found: list[float] = []
    for value in sorted(values):
        if not found or value - found[-1] >= _LEAST:
            found.append(value)
    return found


def _covering(cells: Sequence[Box], x: float, y: float) -> Box | None:
    for cell in cells:
        if cell[0] <= x <= cell[2] and cell[1] <= y <= cell[3]:
            return cell
    return None


def _row(covering: Sequence[Box | None], texts: dict[Box, str]) -> tuple[str, ...]:
    if len(set(covering)) == 1:  # one cell over the whole width, a heading between rows
        only = covering[0]
        return (texts[only] if only else "", *[""] * (len(covering) - 1))
    return tuple(texts[cell] if cell else "" for cell in covering)


def _text(cell: Box, words: Sequence[Word]) -> str:
    return _lines([text_of(row) for row in rows_of(_inside(cell, words))])


def _inside(box: Box, words: Sequence[Word]) -> list[Word]:
    x0, top, x1, bottom = box
    return [
        word
        for word in words
        if x0 <= (word.x0 + word.x1) / 2 < x1 and top <= (word.top + word.bottom) / 2 < bottom
    ]


# --- tables with horizontal rules only ------------------------------------------------------------------------

_LEAST_RULES = 3  # above the head, below it, below the table
_LEAST_WIDTH = 120.0


def read_ruled(rules: Sequence[tuple[float, float, float]], words: Sequence[Word]) -> list[Table]:
    """Tables drawn with horizontal rules (x0, x1, y) alone, as journals and Chinese reports draw them.

    Rules of the same extent belong together; the columns are where no word of the body stands. A row without a
    first cell continues the one above it.
    """
    groups: dict[tuple[int, int], list[float]] = {}
    for x0, x1, y in rules:
        if x1 - x0 >= _LEAST_WIDTH:
            groups.setdefault((round(x0 / 3), round(x1 / 3)), []).append(y)
    found = []
    for (left, right), heights in groups.items():
        ys = _edges(heights)
        if len(ys) >= _LEAST_RULES and (table := _between(left * 3.0 - 3, right * 3.0 + 3, ys, words)):
            found.append(table)
    return found


def _between(x0: float, x1: float, ys: Sequence[float], words: Sequence[Word]) -> Table | None:
    inside = [
        word
        for word in words
        if word.x0 >= x0 and word.x1 <= x1 and ys[0] <= (word.top + word.bottom) / 2 <= ys[-1]
    ]
    body = rows_of([word for word in inside if word.top >= ys[1] - 1])
    bounds = _gaps([word for row in body for word in row], x0, x1)
    if len(bounds) < 3 or not body:
        return None
    head = _cells(rows_of([word for word in inside if word.top < ys[1] - 1]), bounds)
    rows = [tuple(_lines([row[at] for row in head]) for at in range(len(bounds) - 1))] if head else []
    for cells in _cells(body, bounds):
        if rows and not cells[0] and len(rows) > 1:
            rows[-1] = tuple(joined(above, cell) for above, cell in zip(rows[-1], cells, strict=True))
        else:
            rows.append(cells)
    filled = sum(bool(cell) for row in rows for cell in row)
    if len(rows) < 2 or filled < 0.6 * len(rows) * (len(bounds) - 1):
        return None
    return Table(tuple(rows), x0, x1, ys[0], ys[-1], usual_size(inside))


def _gaps(words: Sequence[Word], x0: float, x1: float) -> list[float]:
    """The columns' bounds: the middles of the strips that no word touches, with both edges."""
    bounds = [x0]
    end = None
    for word in sorted(words, key=lambda word: word.x0):
        if end is not None and word.x0 - end > 0.8 * word.size:
            bounds.append((word.x0 + end) / 2)
        end = word.x1 if end is None else max(end, word.x1)
    return [*bounds, x1]


def _cells(rows: Sequence[Sequence[Word]], bounds: Sequence[float]) -> list[tuple[str, ...]]:
    return [
        tuple(
            text_of([word for word in row if low <= (word.x0 + word.x1) / 2 < high])
            for low, high in pairwise(bounds)
        )
        for row in rows
    ]


def _lines(parts: Sequence[str]) -> str:
    text = ""
    for part in parts:
        text = joined(text, part)
    return text
