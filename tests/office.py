"""Office files made in the test: Word from its own XML, decks by python-pptx, workbooks by XlsxWriter."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import xlsxwriter
from pptx import Presentation
from pptx.util import Inches

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
_STYLES = "".join(
    f'<w:style w:type="paragraph" w:styleId="{id_}"><w:name w:val="{name}"/></w:style>'
    for id_, name in (("T", "Title"), ("H1", "heading 1"), ("H2", "heading 2"), ("Code", "Source Code"))
)


def archive(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as target:
        for name, data in parts.items():
            target.writestr(name, data)
    return out.getvalue()


def docx(body: str, **parts: str) -> bytes:
    """A Word file with this body; `numbering`, `footnotes` are further parts' content."""
    files = {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {_W}>{_STYLES}</w:styles>",
    }
    files |= {f"word/{name}.xml": f"<w:{name} {_W}>{content}</w:{name}>" for name, content in parts.items()}
    return archive(files)


def p(text: str, style: str = "", number: tuple[int, int] | None = None) -> str:
    """A paragraph; `number` is (list, depth). Text that begins with < is XML of its own."""
    properties = f'<w:pStyle w:val="{style}"/>' if style else ""
    if number:
        properties += f'<w:numPr><w:ilvl w:val="{number[1]}"/><w:numId w:val="{number[0]}"/></w:numPr>'
    run = text if text.startswith("<") else f"<w:r><w:t>{text}</w:t></w:r>"
    return f"<w:p><w:pPr>{properties}</w:pPr>{run}</w:p>"


def grid(rows: Sequence[Sequence[str]]) -> str:
    """A table; a cell "^" continues the one above it, "<2>text" spans two columns."""
    out = ""
    for row in rows:
        out += "<w:tr>"
        for cell in row:
            span = '<w:gridSpan w:val="2"/>' if cell.startswith("<2>") else ""
            merge = "<w:vMerge/>" if cell == "^" else '<w:vMerge w:val="restart"/>'
            text = "" if cell == "^" else cell.removeprefix("<2>")
            out += f"<w:tc><w:tcPr>{span}{merge}</w:tcPr>{p(text)}</w:tc>"
        out += "</w:tr>"
    return f"<w:tbl>{out}</w:tbl>"


def numbering(levels: Sequence[tuple[str, str]]) -> str:
    """List 1 with these levels' (format, text)."""
    inside = "".join(
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for depth, (form, text) in enumerate(levels)
    )
    return (
        f'<w:abstractNum w:abstractNumId="7">{inside}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    )


def deck() -> Any:
    """An empty presentation; `saved` gives its bytes."""
    return Presentation()


def slide(presentation: Any, title: str, *lines: str, notes: str = "") -> Any:
    added = presentation.slides.add_slide(presentation.slide_layouts[1])
    added.shapes.title.text = title
    added.placeholders[1].text = "\n".join(lines)
    if notes:
        added.notes_slide.notes_text_frame.text = notes
    return added


def slide_table(on: Any, rows: Sequence[Sequence[str]]) -> Any:
    shape = on.shapes.add_table(len(rows), len(rows[0]), Inches(1), Inches(1), Inches(4), Inches(2))
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            shape.table.cell(y, x).text = text
    return shape.table


def saved(presentation: Any) -> bytes:
    out = io.BytesIO()
    presentation.save(out)
    return out.getvalue()


def workbook(sheets: Mapping[str, Sequence[Sequence[Any]]], percent: Sequence[tuple[int, int]] = ()) -> bytes:
    """Sheets of rows; cells named in `percent` show percent."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    form, day = book.add_format({"num_format": "0.0%"}), book.add_format({"num_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if hasattr(value, "isoformat"):
                    sheet.write_datetime(y, x, value, day)
                elif value != "":
                    sheet.write(y, x, value, form if (y, x) in percent else None)
    book.close()
    return out.getvalue()
