"""Workbooks and CSV into Markdown: a heading for each sheet, a table for each block of cells.

python-calamine reads 1.18 million cells a second where openpyxl reads 70,000, and skips the million empty rows that a
sheet may claim; which cells show percent stands in the styles alone, read here.
"""

import csv
import datetime as dt
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

from store.errors import IngestError
from store.ingest.charts import charts
from store.ingest.package import Package, opened
from store.ingest.written import document, escaped, flat, heading, table

__all__ = ["read_csv", "read_xlsx"]

Cells = list[list[str]]

# More cells than this are a data base, not a document: 5 M cells make 300,000 chunks.
MOST_CELLS = 5_000_000


def read_xlsx(data: bytes) -> str:
    """The Markdown of every visible sheet. Raises `IngestError`: broken, too_large."""
    package = opened(data)
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        blocks: list[str] = []
        total = 0
        for place, sheet in enumerate(book.sheets_metadata):
            if sheet.visible != SheetVisibleEnum.Visible or sheet.typ != SheetTypeEnum.WorkSheet:
                continue
            found = book.get_sheet_by_index(place)
            total += found.total_height * found.total_width
            if total > MOST_CELLS:
                raise IngestError("too_large", f"{MOST_CELLS:,} cells")
            texts = list(_blocks(_cells(found, _percents(package, place))))
            blocks += [heading(2, sheet.name), *texts] if texts else []
        blocks += [*charts(package, "xl"), *_comments(package)]
    except (CalamineError, ValueError, TypeError, OSError) as error:
        raise IngestError("broken", type(error).__name__) from error
    return document(blocks)


def _cells(sheet: CalamineSheet, percents: set[tuple[int, int]]) -> Cells:
    """The sheet's cells as people see them, merged ones in every place they cover."""
    start = sheet.start or (0, 0)
    values: list[list[Any]] = [list(row) for row in sheet.to_python(skip_empty_area=True)]
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
        _spread(values, (top - start[0], left - start[1]), (bottom - start[0], right - start[1]))
    return [
        [_shown(value, (row + start[0], column + start[1]) in percents) for column, value in enumerate(line)]
        for row, line in enumerate(values)
    ]


def _spread(values: list[list[Any]], first: tuple[int, int], last: tuple[int, int]) -> None:
    height, width = len(values), len(values[0]) if values else 0
    if not (0 <= first[0] < height and 0 <= first[1] < width):
        return
    text = values[first[0]][first[1]]
    for row in range(first[0], min(last[0] + 1, height)):
        for column in range(first[1], min(last[1] + 1, width)):
            values[row][column] = text


def _shown(value: Any, percent: bool) -> str:
    if isinstance(value, float):
        return f"{round(value * 100, 6):g}%" if percent else _number(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return str(value).strip()


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(round(value, 10))


_COMMENTS = re.compile(r"xl/(?:comments\d*|comments/comment\d+|threadedComments/threadedComment\d+)\.xml")
# What Excel writes into the older comment for programs that know no threaded ones.
_STAND_IN = "[Threaded comment]"


def _comments(package: Package) -> Iterator[str]:
    """Remarks on cells: in workbooks they often say what a number includes."""
    people = _people(package)
    for name in sorted(filter(_COMMENTS.fullmatch, package.names)):
        root = package.xml(name)
        if root is None:
            continue
        authors = [author.text or "" for author in root.iterfind("{*}authors/{*}author")]
        for comment in chain(root.iter("{*}comment"), root.iter("{*}threadedComment")):
            text = flat(
                " ".join(part.text or "" for part in chain(comment.iter("{*}t"), comment.iter("{*}text")))
            )
            number = comment.get("authorId", "")
            by = authors[int(number)] if number.isdigit() and int(number) < len(authors) else ""
            by = people.get(comment.get("personId", ""), by)
            if text and not text.startswith(_STAND_IN):
                yield f"Comment on {comment.get('ref', '')}{f' by {by}' if by else ''}: {text}"


def _people(package: Package) -> dict[str, str]:
    root = package.xml("xl/persons/person.xml")
    found = [] if root is None else root.iterfind("{*}person")
    return {person.get("id", ""): person.get("displayName", "") for person in found}


# --- blocks of cells -------------------------------------------------------------------------------------------


def _blocks(cells: Cells) -> Iterator[str]:
    """What blank rows and columns part: titles as paragraphs, the rest as tables."""
    for rows in _runs(cells):
        columns = [any(row[at] for row in rows) for at in range(len(rows[0]))]
        for first, last in _filled(columns):
            part = [row[first:last] for row in rows]
            yield from _block([row for row in part if any(row)])


def _runs(cells: Cells) -> Iterator[Cells]:
    for first, last in _filled([any(row) for row in cells]):
        yield cells[first:last]


def _filled(marks: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """The runs of true marks."""
    start: int | None = None
    for at, mark in enumerate([*marks, False]):
        if mark and start is None:
            start = at
        elif not mark and start is not None:
            yield start, at
            start = None


def _block(rows: Cells) -> Iterator[str]:
    """A row with one text, or one text merged over all columns, before any other is a title."""
    while (
        rows
        and (len(rows[0]) == 1 or len({cell for cell in rows[0] if cell}) == 1)
        and len(rows[0]) * len(rows) > 1
    ):
        if len(rows[0]) == 1 and len(rows) > 2:
            break  # one column: a list with its header
        yield escaped(next(cell for cell in rows[0] if cell))
        rows = rows[1:]
    if len(rows) == 1 and len(rows[0]) == 1:
        yield escaped(rows[0][0])
    elif rows:
        yield table(rows)


# --- percent ---------------------------------------------------------------------------------------------------

_BUILT_IN_PERCENT = {"9", "10"}


def _percents(package: Package, place: int) -> set[tuple[int, int]]:
    """(row, column) from 0 of the cells that the sheet shows as percent: their values are hundredths."""
    styles = _percent_styles(package)
    name = f"xl/worksheets/sheet{place + 1}.xml"
    if not styles or name not in package.names:
        return set()
    wanted = b"|".join(re.escape(style.encode()) for style in sorted(styles))
    found = re.finditer(
        rb'<c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"[^>]*?\bs="(?:' + wanted + rb')"', package.read(name)
    )
    return {(int(match[2]) - 1, _column(match[1])) for match in found}


def _percent_styles(package: Package) -> set[str]:
    root = package.xml("xl/styles.xml")
    if root is None:
        return set()
    forms = {
        form.get("numFmtId", "")
        for form in root.iterfind("{*}numFmts/{*}numFmt")
        if "%" in re.sub(r'"[^"]*"|\\.', "", form.get("formatCode", ""))
    }
    cells = root.iterfind("{*}cellXfs/{*}xf")
    return {str(at) for at, cell in enumerate(cells) if cell.get("numFmtId") in forms | _BUILT_IN_PERCENT}


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


# --- CSV ---------------------------------------------------------------------------------------------------------

_DELIMITERS = ",;\t|"
_SAMPLE = 50  # rows


def read_csv(text: str) -> str:
    """Rows under the first one as their header. Raises `IngestError`: broken (a field that never ends), too_large."""
    delimiter = _delimiter(text)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise IngestError("broken", "CSV") from error
    if sum(map(len, rows)) > MOST_CELLS:
        raise IngestError("too_large", f"{MOST_CELLS:,} cells")
    if all(len(row) <= 1 for row in rows):
        return document([table([[flat(cell) for cell in row] for row in rows if row])])
    return document([table(rows)])


def _delimiter(text: str) -> str:
    """The sign that cuts the first rows into the most columns, the same number in most of them."""
    lines = [line for line in text.split("\n", 4 * _SAMPLE)[: 4 * _SAMPLE] if line.strip()]
    best, chosen = (0.0, 1), ","
    for sign in _DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=sign)][:_SAMPLE]
        except csv.Error:
            continue
        width, times = Counter(widths).most_common(1)[0] if widths else (1, 0)
        if width > 1 and (times / len(widths), width) > best:
            best, chosen = (times / len(widths), width), sign
    return chosen
