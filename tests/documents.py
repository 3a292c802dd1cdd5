"""PDFs for tests, made with reportlab: nothing that somebody else owns is kept in the repository."""

import io
from collections.abc import Sequence

from PIL import Image as Picture
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    PageTemplate,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
    TableStyle,
)

SONG = "STSong-Light"
pdfmetrics.registerFont(UnicodeCIDFont(SONG))

BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=10, leading=14, spaceAfter=8, alignment=4)
HEADING = ParagraphStyle(
    "heading", fontName="Helvetica-Bold", fontSize=14, leading=18, spaceAfter=6, spaceBefore=10
)
TITLE = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=20, leading=26, spaceAfter=12)
ZH_BODY = ParagraphStyle("zh", fontName=SONG, fontSize=10.5, leading=16, firstLineIndent=21, wordWrap="CJK")
ZH_HEADING = ParagraphStyle("zh-heading", fontName=SONG, fontSize=14, leading=20, spaceBefore=8, spaceAfter=6)
ZH_TITLE = ParagraphStyle("zh-title", fontName=SONG, fontSize=20, leading=28, spaceAfter=12)
GRID = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("FONTNAME", (0, 0), (-1, -1), SONG)])


def document(
    *parts: Flowable | tuple[str, ParagraphStyle], head: str = "", foot: str = "", **options: object
) -> bytes:
    """Flowables, or (text, style) pairs, one below the other; `head` and `foot` on every page, {page} in them."""

    def furniture(canvas: Canvas, _document: BaseDocTemplate) -> None:
        canvas.setFont(SONG, 8)
        canvas.drawString(72, A4[1] - 40, head.format(page=canvas.getPageNumber()))
        canvas.drawCentredString(A4[0] / 2, 30, foot.format(page=canvas.getPageNumber()))

    buffer = io.BytesIO()
    story = [part if isinstance(part, Flowable) else Paragraph(*part) for part in parts]
    SimpleDocTemplate(buffer, pagesize=A4, title="Untitled").build(
        story, onFirstPage=furniture, onLaterPages=furniture
    )
    return buffer.getvalue()


def two_columns(title: str, paragraphs: Sequence[str]) -> bytes:
    """A title over the whole width, then text in two columns."""
    buffer = io.BytesIO()
    template = BaseDocTemplate(buffer, pagesize=A4)
    width = (A4[0] - 144 - 18) / 2
    frames = [
        Frame(72, A4[1] - 130, A4[0] - 144, 60, id="title"),
        Frame(72, 72, width, A4[1] - 210, id="left"),
        Frame(72 + width + 18, 72, width, A4[1] - 210, id="right"),
    ]
    template.addPageTemplates([PageTemplate(frames=frames)])
    template.build([Paragraph(title, TITLE), Spacer(1, 60), *(Paragraph(text, BODY) for text in paragraphs)])
    return buffer.getvalue()


def grid(rows: Sequence[Sequence[str]], widths: Sequence[float] | None = None, *, repeat: int = 1) -> Table:
    return Table([list(row) for row in rows], colWidths=widths, repeatRows=repeat, style=GRID)


def ruled(rows: Sequence[Sequence[str]], widths: Sequence[float]) -> Table:
    """Three rules and no frames, as journals draw tables."""
    lines = [
        ("LINEABOVE", (0, 0), (-1, 0), 1, colors.black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, colors.black),
    ]
    style = TableStyle(
        [*lines, ("LINEBELOW", (0, -1), (-1, -1), 1, colors.black), ("FONTNAME", (0, 0), (-1, -1), SONG)]
    )
    return Table([list(row) for row in rows], colWidths=widths, style=style)


def picture() -> ImageReader:
    return ImageReader(Picture.new("L", (300, 400), 200))


def scanned(pages: int = 2) -> bytes:
    """Pages that are pictures."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    for _ in range(pages):
        canvas.drawImage(picture(), 50, 50, 400, 600)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def blank() -> bytes:
    """One page with nothing on it."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def encrypted(password: str = "secret") -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption(password, strength=128))
    canvas.drawString(72, 700, "Nobody may read this.")
    canvas.save()
    return buffer.getvalue()


def page_of_text(lines: Sequence[tuple[float, float, str, str, float]]) -> bytes:
    """One page with each (x, y from the bottom, text, font, size) where it is said."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    for x, y, text, font, size in lines:
        canvas.setFont(font, size)
        canvas.drawString(x, y, text)
    canvas.save()
    return buffer.getvalue()
