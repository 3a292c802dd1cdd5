"""PDF into Markdown: structure found, pages kept, every bad file named for what it is."""

import contextlib
import io
import random
import re

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak

from store.errors import IngestError
from store.ingest.layout import Page, Word, joined, reading_order, text_of, without_furniture
from store.ingest.pages import readable
from store.ingest.pdf import read_pdf
from tests import documents as make

EN = "The policy applies to every employee of the company, including those on probation, and to contractors. "


def _lines(markdown: str) -> list[str]:
    return [line for line in markdown.splitlines() if line]


def test_headings_by_size_and_weight() -> None:
    """Larger is higher, bold at the body's size is a heading too, and the body is none."""
    bold = ParagraphStyle("bold", parent=make.BODY, fontName="Helvetica-Bold")
    pdf = make.document(
        ("Travel Policy", make.TITLE),
        (EN * 3, make.BODY),
        ("Booking", make.HEADING),
        (EN * 3, make.BODY),
        ("Trains", bold),
        (EN * 3, make.BODY),
    )
    headings = [line for line in _lines(read_pdf(pdf).markdown) if line.startswith("#")]
    assert headings == ["# Travel Policy", "## Booking", "### Trains"]


def test_a_small_title_above_large_chapters_is_the_title() -> None:
    """Where a document begins with a heading smaller than its chapters', that is the first level."""
    chapters = [part for n in "AB" for part in ((f"Chapter {n}", make.TITLE), (EN * 3, make.BODY))]
    markdown = read_pdf(make.document(("Travel Policy", make.HEADING), (EN, make.BODY), *chapters)).markdown
    headings = [line for line in _lines(markdown) if line.startswith("#")]
    assert headings == ["# Travel Policy", "## Chapter A", "## Chapter B"]


def test_numbered_headings_of_one_style_are_nested() -> None:
    """3.2 stands below 3 though both are set alike."""
    parts = [
        part for n in ("3 Fees", "3.2 Payment", "4 Term") for part in ((n, make.HEADING), (EN * 3, make.BODY))
    ]
    headings = [line for line in _lines(read_pdf(make.document(*parts)).markdown) if line.startswith("#")]
    assert headings == ["# 3 Fees", "## 3.2 Payment", "# 4 Term"]


def test_the_dots_of_a_table_of_contents_go() -> None:
    """A row of leader dots becomes one mark."""
    pdf = make.document(("Leave " + ". " * 40 + "12", make.BODY), (EN, make.BODY))
    assert "Leave … 12" in read_pdf(pdf).markdown


def test_letters_that_only_look_like_letters_are_replaced() -> None:
    """Ligatures and radicals that fonts put in place of characters are the characters people search for."""
    assert readable("ﬁnance 车⻔⽤⼾(cid:3)") == "finance 车门用户"
    assert readable("(cid:127)") == "•"


def test_every_page_has_its_anchor() -> None:
    """An anchor stands where each page begins, before its first word."""
    pdf = make.document(("First page.", make.BODY), PageBreak(), ("Second page.", make.BODY))
    assert _lines(read_pdf(pdf).markdown) == [
        "<!-- page 1 -->",
        "First page.",
        "<!-- page 2 -->",
        "Second page.",
    ]


def test_paragraphs_are_joined() -> None:
    """The lines of a paragraph are one line again, English with spaces, Chinese without."""
    zh = "员工每年享有带薪年假十天，工作满五年的享有十五天，未休完的年假可以结转到次年三月底，逾期作废。" * 3
    markdown = read_pdf(make.document((EN * 4, make.BODY), (zh, make.ZH_BODY))).markdown
    assert (EN * 4).strip() in markdown
    assert zh in markdown


def test_chinese_headings_and_clauses() -> None:
    """Headings by size in Chinese, and each numbered clause begins a paragraph."""
    pdf = make.document(
        ("采购合同", make.ZH_TITLE),
        ("第一章 总则", make.ZH_HEADING),
        ("第一条 乙方应当按照约定交付货物，不得转让本合同项下的义务，否则承担违约责任。" * 2, make.ZH_BODY),
        ("第二条 付款期限为三十日。", make.ZH_BODY),
    )
    lines = _lines(read_pdf(pdf).markdown)
    assert lines[1:3] == ["# 采购合同", "## 第一章 总则"]
    assert lines[3].startswith("第一条 乙方")
    assert lines[4] == "第二条 付款期限为三十日。"


def test_running_heads_and_page_numbers_go() -> None:
    """What stands at the same place on every page, or counts with the pages, is no part of the text."""
    pdf = make.document(
        *[part for n in range(6) for part in ((f"Topic {n}. " + EN * 2, make.BODY), PageBreak())],
        head="Acme Handbook 2026",
        foot="第 {page} 页",
    )
    markdown = read_pdf(pdf).markdown
    assert "Acme" not in markdown
    assert "页" not in markdown
    assert all(f"Topic {n}." in markdown for n in range(6))


def test_repeated_text_that_is_no_furniture_stays() -> None:
    """Numbers that do not count with the pages, and lines in the middle of pages, are text."""

    def page(number: int, top: str) -> Page:
        return Page(number, 600, 800, (Word(top, 50, 200, 20, 30), Word("Same words", 50, 200, 400, 410)), ())

    pages = without_furniture([page(1, "Rate 7"), page(2, "Rate 3"), page(3, "Rate 9")])
    assert [[word.text for word in page.words] for page in pages] == [
        ["Rate 7", "Same words"],
        ["Rate 3", "Same words"],
        ["Rate 9", "Same words"],
    ]


def test_a_table_becomes_a_pipe_table() -> None:
    """Framed cells are a Markdown table; a bar in a cell is escaped."""
    pdf = make.document(
        (EN, make.BODY), make.grid([["城市", "上限"], ["北京", "550"], ["上海", "a|b"]], [100, 80])
    )
    assert "| 城市 | 上限 |\n|---|---|\n| 北京 | 550 |\n| 上海 | a\\|b |" in read_pdf(pdf).markdown


def test_a_table_across_pages_is_one() -> None:
    """The continuation joins without its repeated header, and the first row of each page carries the anchor."""
    rows = [["城市", "级别", "上限"], *[[f"城市{n}", "A", str(n)] for n in range(90)]]
    markdown = read_pdf(make.document(("住宿标准", make.ZH_TITLE), make.grid(rows, [120, 80, 80]))).markdown
    assert markdown.count("|---|---|---|") == 1
    assert markdown.count("| 城市 | 级别 | 上限 |") == 1
    found = [int(n) for n in re.findall(r"城市(\d+) \| A \|", markdown)]
    assert found == list(range(90))
    anchored = re.findall(r"^\| <!-- page (\d) -->城市", markdown, re.MULTILINE)
    assert anchored == ["2", "3"]


def test_tables_of_different_shape_stay_apart() -> None:
    """A table with another number of columns at the top of the next page is another table."""
    pdf = make.document(
        make.grid([["a", "b"], ["1", "2"]], [100, 100]),
        PageBreak(),
        make.grid([["a", "b", "c"], ["1", "2", "3"]], [100, 100, 100]),
    )
    assert read_pdf(pdf).markdown.count("---|") == 5


def test_merged_cells_speak_for_every_row() -> None:
    """The text of a cell over two rows stands in both, so that each row can be read alone."""
    table = make.grid([["部门", "人数"], ["研发", "10"], ["", "20"]], [100, 100])
    table.setStyle([("SPAN", (0, 1), (0, 2))])
    assert "| 研发 | 10 |\n| 研发 | 20 |" in read_pdf(make.document((EN, make.BODY), table)).markdown


def test_tables_with_three_rules() -> None:
    """A table without frames is found by its rules, its columns by the white between the words."""
    table = make.ruled(
        [["Model", "Layers", "Score"], ["small", "6", "0.91"], ["large", "24", "0.95"]], [120, 80, 80]
    )
    markdown = read_pdf(make.document((EN * 2, make.BODY), table, (EN * 2, make.BODY))).markdown
    assert (
        "| Model | Layers | Score |\n|---|---|---|\n| small | 6 | 0.91 |\n| large | 24 | 0.95 |" in markdown
    )


def test_a_frame_around_a_paragraph_is_no_table() -> None:
    """One cell is a box, and its text stays text."""
    markdown = read_pdf(
        make.document(make.grid([["Please note the deadline."]], [300]), (EN, make.BODY))
    ).markdown
    assert "|" not in markdown
    assert "Please note the deadline." in markdown


def test_two_columns_are_read_one_after_the_other() -> None:
    """All of the left column comes before the right one, below the title."""
    paragraphs = [f"Paragraph {n} begins. " + EN * 4 + f"Paragraph {n} ends." for n in range(8)]
    markdown = read_pdf(make.two_columns("A Paper in Two Columns", paragraphs)).markdown
    order = [int(n) for n in re.findall(r"Paragraph (\d) (?:begins|ends)", markdown)]
    assert order == sorted(order)
    assert len(order) == 16
    assert _lines(markdown)[1] == "# A Paper in Two Columns"


def test_labels_and_values_are_read_row_by_row() -> None:
    """Two ragged columns of short words are a form, not columns of prose."""
    rows = ["Name", "Department", "Start date", "Room", "Phone", "Manager"]
    pdf = make.page_of_text(
        [(72, 700 - 20 * n, label, "Helvetica", 10) for n, label in enumerate(rows)]
        + [(300, 700 - 20 * n, f"value {n}", "Helvetica", 10) for n in range(6)]
    )
    assert "Name value 0" in read_pdf(pdf).markdown


def test_hyphens_at_line_ends_are_mended() -> None:
    """A word cut at a line's end is whole again; one that is written with its hyphen elsewhere keeps it."""
    lines = [
        "The carry-over of annual leave needs a written agree-",
        "ment of the lead and its carry-",
        "over limit.",
    ]
    pdf = make.page_of_text([(72, 700 - 13 * n, line, "Courier", 10) for n, line in enumerate(lines)])
    text = " ".join(read_pdf(pdf).markdown.split())
    assert "written agreement of" in text
    assert "its carry-over limit" in text


def test_a_paragraph_across_pages_is_one() -> None:
    """A sentence that goes on on the next page is joined, with the anchor where that page begins."""
    long = "; ".join(
        f"team {n} may carry {n} days of leave into the next year and use them" for n in range(90)
    )
    markdown = read_pdf(make.document((long, make.BODY))).markdown
    assert re.sub(r"<!-- page \d -->", "", markdown).strip() == long
    assert re.search(r"\S <!-- page 2 -->\S", markdown)
    assert len(markdown.split("\n\n")) == 2


def test_bullets_become_a_list() -> None:
    """Bullets of any shape are Markdown's, one item a line."""
    pdf = make.document(*[(f"<bullet>&bull;</bullet>Item {n} of the list", make.BODY) for n in range(3)])
    assert "- Item 0 of the list\n- Item 1 of the list\n- Item 2 of the list" in read_pdf(pdf).markdown


def test_text_that_looks_like_markup_is_escaped() -> None:
    """A line that begins with a number sign or a quote mark does not become a heading or a quotation."""
    pdf = make.document(("# of seats is limited.", make.BODY), ("&gt; 5 days need approval.", make.BODY))
    assert _lines(read_pdf(pdf).markdown)[1:] == ["\\# of seats is limited.", "\\> 5 days need approval."]


def test_text_printed_upwards_is_read() -> None:
    """A page printed sideways is turned and read."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    canvas.rotate(90)
    for n in range(4):
        canvas.drawString(100, -100 - 20 * n, f"Sideways line number {n}.")
    canvas.save()
    markdown = read_pdf(buffer.getvalue()).markdown
    assert [int(n) for n in re.findall(r"line number (\d)", markdown)] == [0, 1, 2, 3]


def test_bold_faked_by_printing_twice_is_read_once() -> None:
    """Letters printed twice a hair apart are one letter."""
    pdf = make.page_of_text([(72 + dx, 700, "Payment terms", "Helvetica", 12) for dx in (0, 0.3)])
    assert "Payment terms" in read_pdf(pdf).markdown


def test_progress_is_reported_page_by_page() -> None:
    """Each page is reported with the number of all."""
    seen: list[tuple[int, int]] = []
    pdf = make.document(*[p for n in range(3) for p in ((f"Page {n}. " + EN, make.BODY), PageBreak())])
    read_pdf(pdf, on_page=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_pictures_among_text_are_counted() -> None:
    """A page whose only content is a picture is named, the others are read."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4)
    for n in range(3):
        canvas.drawString(72, 700, f"Readable page {n} with enough letters on it.")
        canvas.showPage()
    canvas.drawImage(make.picture(), 50, 50, 400, 600)
    canvas.save()
    assert read_pdf(buffer.getvalue()).textless == (4,)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (make.encrypted(), "encrypted"),
        (make.scanned(), "scanned"),
        (make.blank(), "empty"),
        (make.document((EN * 3, make.BODY))[:900], "broken"),
        (make.document((EN * 3, make.BODY))[:-400], "broken"),
        (b"%PDF-1.7\nstartxref\n0\n%%EOF", "broken"),
        (b"%PDF-1.4\n" + b"garbage " * 200 + b"startxref 12\n%%EOF", "broken"),
    ],
    ids=["encrypted", "scanned", "blank", "truncated", "cut", "hollow", "garbage"],
)
def test_bad_files_are_named(data: bytes, code: str) -> None:
    """Each kind of bad file has its own code, and no other exception escapes."""
    with pytest.raises(IngestError) as caught:
        read_pdf(data)
    assert caught.value.code == code


def test_too_many_pages_are_refused() -> None:
    """Beyond the limit nothing is read, and the limit is named."""
    pdf = make.document(*[p for n in range(4) for p in ((EN, make.BODY), PageBreak())])
    with pytest.raises(IngestError) as caught:
        read_pdf(pdf, max_pages=3)
    assert (caught.value.code, caught.value.detail) == ("too_large", "3 pages")


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_end_in_text_or_a_reason(seed: int) -> None:
    """A file with bytes overwritten is read as far as it goes or refused by name; nothing else is raised."""
    chance = random.Random(seed)
    data = bytearray(
        make.document(("Title", make.TITLE), (EN * 6, make.BODY), make.grid([["a", "b"], ["1", "2"]]))
    )
    for _ in range(chance.choice([1, 5, 30])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    with contextlib.suppress(IngestError):
        assert read_pdf(bytes(data)).pages >= 1


@pytest.mark.parametrize(
    ("left", "right", "gap", "text"),
    [
        ("年假", "制度", 0.3, "年假制度"),
        ("使用", "VPN", 0.25, "使用 VPN"),
        ("H", "2O", 0.0, "H2O"),
        ("two", "words", 0.3, "two words"),
        ("姓名", "日期", 3.0, "姓名 日期"),
    ],
)
def test_words_of_a_line_are_joined(left: str, right: str, gap: float, text: str) -> None:
    """By script and by how far apart they stand, in units of the font size."""
    assert joined(left, right, gap) == text


def test_a_table_without_its_outer_strokes_keeps_its_outer_columns() -> None:
    """Rules that inner strokes cross are a table as wide as the rules, whatever closes its sides."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4)
    rows = [("city", "limit", "per"), ("Paris", "200", "night"), ("Rome", "180", "night")]
    for at, row in enumerate(rows):
        for x, text in zip((80, 200, 320), row, strict=True):
            canvas.drawString(x, 700 - 20 * at, text)
    for y in (715, 695, 675, 655):
        canvas.line(72, y, 420, y)
    for x in (190, 310):
        canvas.line(x, 655, x, 715)
    canvas.save()
    assert _lines(read_pdf(out.getvalue()).markdown)[1:] == [
        "| city | limit | per |", "|---|---|---|", "| Paris | 200 | night |", "| Rome | 180 | night |"
    ]  # fmt: skip


def test_a_table_of_contents_is_a_table() -> None:
    """Lines with leaders are rows of title and page, a line each, and no headings."""
    entries = [("Leave", "3"), ("Travel", "vii"), ("C. 1.2 Costs", "12")]
    lines = [
        (72.0, 700.0 - 18 * at, f"{title} ........ {page}", "Helvetica", 11.0)
        for at, (title, page) in enumerate(entries)
    ]
    found = _lines(read_pdf(make.page_of_text(lines)).markdown)
    assert found[1:] == ["| Leave | 3 |", "|---|---|", "| Travel | vii |", "| C. 1.2 Costs | 12 |"]


def _row(*words: tuple[str, float]) -> list[Word]:
    return [Word(text, x, x + 5.0 * len(text), 10.0, 20.0) for text, x in words]


def test_leftward_lines_are_read_from_the_right() -> None:
    """Hebrew and Arabic are read from the right, Latin words inside from the left, and other lines are as ever."""
    assert text_of(_row(("בה", 10), ("machine learning", 40), ("למידת", 150))) == "למידת machine learning בה"
    assert text_of(_row(("machine", 10), ("learning", 50), ("של", 100))) == "machine learning של"


def test_two_pages_on_one_sheet_are_read_one_after_the_other() -> None:
    """A sheet as wide as two pages, with their margins in its middle, is two pages; a wide table is none."""
    left = [Word(f"left{n}", 60, 200, 40.0 + 15 * n, 50.0 + 15 * n) for n in range(6)]
    right = [Word(f"right{n}", 680, 800, 40.0 + 15 * n, 50.0 + 15 * n) for n in range(6)]
    sheet = Page(1, 1224, 792, (*left, *right))
    read = [getattr(line, "text", "") for line in reading_order(sheet)]
    assert read == [*(f"left{n}" for n in range(6)), *(f"right{n}" for n in range(6))]
    crossing = Page(1, 1224, 792, (*left, *right, Word("a heading over both", 500, 720, 10, 20)))
    assert getattr(reading_order(crossing)[1], "text", "") == "left0 right0"
