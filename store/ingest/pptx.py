"""PowerPoint into Markdown: a page for each slide, with its tables, charts and speaker's notes. By python-pptx."""

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from lxml import etree
from pptx import Presentation
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.exc import PythonPptxError

from store.errors import IngestError
from store.ingest.charts import chart
from store.ingest.package import opened, parsed
from store.ingest.structure import anchor
from store.ingest.written import document, escaped, flat, heading, table

__all__ = ["read_pptx"]

# What python-pptx raises on malformed decks besides its own errors: it trusts parts, ids and types it reads.
MALFORMED = (
    PythonPptxError,
    etree.XMLSyntaxError,
    zipfile.BadZipFile,
    struct.error,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)

_BODY = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY)
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)
_FURNITURE = (PP_PLACEHOLDER.SLIDE_NUMBER, PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER)
# The comment's own text and not its replies', which follow as comments of their own.
_REMARK = "./*[local-name()='text']/text() | ./*[local-name()='txBody']//*[local-name()='t']/text()"
_BULLETS = "{http://schemas.openxmlformats.org/drawingml/2006/main}bu"


def read_pptx(
    data: bytes, *, max_pages: int = 2_000, on_page: Callable[[int, int], None] | None = None
) -> tuple[str, int]:
    """The Markdown with an anchor for each slide, and how many there are. Raises `IngestError`: broken, too_large."""
    opened(data)
    try:
        slides = list(Presentation(io.BytesIO(data)).slides)
        if len(slides) > max_pages:
            raise IngestError("too_large", f"{max_pages} slides")
        blocks: list[str] = []
        titled = False
        for number, slide in enumerate(slides, 1):
            blocks.append(anchor(number))
            title, texts = _slide(slide)
            if title:
                blocks.append(heading(2 if titled else 1, title))
                titled = True
            blocks += texts
            if on_page:
                on_page(number, len(slides))
    except MALFORMED as error:
        raise IngestError("broken", type(error).__name__) from error
    return document(blocks), len(slides)


def _slide(slide: Any) -> tuple[str, list[str]]:
    title = ""
    blocks: list[str] = []
    for shape in _shapes(slide.shapes):
        kind = _placeholder(shape)
        if kind in _FURNITURE:
            continue
        if kind in _TITLES and not title and shape.has_text_frame and shape.text_frame.text.strip():
            title = shape.text_frame.text
            continue
        blocks += _texts(shape, listed=kind in _BODY)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        notes = flat(frame.text)
        blocks += [f"Notes: {notes}"] if notes else []
    return title, [*blocks, *_comments(slide)]


def _comments(slide: Any) -> Iterator[str]:
    """What reviewers remarked on the slide: both the older comments and the threaded ones."""
    for part in _related(slide.part, "/comments"):
        root = parsed(part.blob)
        for comment in chain(root.iter("{*}cm"), root.iter("{*}reply")):
            if text := flat(" ".join(comment.xpath(_REMARK))):
                yield f"Comment{_author(slide, comment.get('authorId', ''))}: {text}"


def _author(slide: Any, number: str) -> str:
    deck = slide.part.package.presentation_part
    for part in chain(_related(deck, "/commentAuthors"), _related(deck, "/authors")):
        for author in parsed(part.blob):
            if author.get("id") == number:
                return f" by {author.get('name', '')}"
    return ""


def _related(part: Any, kind: str) -> Iterator[Any]:
    for relation in part.rels.values():
        if not relation.is_external and relation.reltype.endswith(kind):
            yield relation.target_part


def _shapes(shapes: Any) -> Iterator[Any]:
    """Every shape in the order they are read aloud, groups opened up."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _placeholder(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _texts(shape: Any, *, listed: bool) -> Iterator[str]:
    if getattr(shape, "has_table", False):
        yield table([[_cell(shape.table, row, column) for column in range(len(shape.table.columns))]
                     for row in range(len(shape.table.rows))])  # fmt: skip
    elif getattr(shape, "has_chart", False):
        yield from chart(shape.chart._chartSpace)
    elif shape.has_text_frame:
        numbers = [0] * 10
        for paragraph in shape.text_frame.paragraphs:
            text = paragraph.text.replace("\v", "\n").strip()
            if text:
                yield _paragraph(paragraph, text, numbers, listed=listed)


def _paragraph(paragraph: Any, text: str, numbers: list[int], *, listed: bool) -> str:
    """A paragraph with its bullet or number; `numbers` are the last ones at each depth and are counted on."""
    properties = paragraph._p.pPr
    marks = [] if properties is None else [child.tag.removeprefix(_BULLETS) for child in properties]
    depth = min(paragraph.level, 8)
    numbers[depth + 1 :] = [0] * (9 - depth)
    if "AutoNum" in marks:
        numbers[depth] += 1
        return f"{'  ' * depth}{numbers[depth]}. {flat(text)}"
    numbers[depth] = 0
    if "Char" in marks or "Blip" in marks or (listed and "None" not in marks):
        return f"{'  ' * depth}- {flat(text)}"
    return escaped(text)


def _cell(grid: Any, row: int, column: int) -> str:
    """A cell's text; a merged cell's in every place it covers, so that each row reads alone."""
    cell = grid.cell(row, column)
    if not cell.is_spanned:
        return str(cell.text)
    for top in range(row, -1, -1):
        for left in range(column, -1, -1):
            origin = grid.cell(top, left)
            if (
                origin.is_merge_origin
                and top + origin.span_height > row
                and left + origin.span_width > column
            ):
                return str(origin.text)
    return str(cell.text)
