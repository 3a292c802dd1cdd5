"""Word, PowerPoint, Excel, CSV and HTML into Markdown: structure kept, nothing said twice, nothing lost."""

import datetime as dt

import pytest

from store.errors import IngestError
from store.ingest.docx import read_docx
from store.ingest.formats import Limits, detect
from store.ingest.numbering import Level, Numbering, shown
from store.ingest.pptx import read_pptx
from store.ingest.sheets import read_csv, read_xlsx
from store.ingest.webpage import read_html, tables_as_markdown
from tests import office as make

# --- Word --------------------------------------------------------------------------------------------------------


def word(body: str, **parts: str) -> str:
    return read_docx(make.docx(body, **parts))[0]


def test_a_title_is_the_first_level_and_headings_stand_below_it() -> None:
    """A Title paragraph becomes the document's title; headings move one level down to make room."""
    markdown, title = read_docx(
        make.docx(make.p("差旅制度", "T") + make.p("标准", "H1") + make.p("住宿", "H2"))
    )
    assert (title, markdown) == ("差旅制度", "# 差旅制度\n\n## 标准\n\n### 住宿\n")
    assert word(make.p("Only", "H1") + make.p("Text.")) == "# Only\n\nText.\n"


def test_automatic_numbers_become_text() -> None:
    """Numbers that Word only draws are what people ask for (3.2, 第二条): they stand in the Markdown."""
    levels = make.numbering([("chineseCounting", "第%1条"), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")])
    body = (
        make.p("总则", number=(1, 0))
        + make.p("范围", number=(1, 1))
        + make.p("甲", number=(1, 2))
        + make.p("乙", number=(1, 2))
        + make.p("细则", number=(1, 0))
        + make.p("例外", number=(1, 1))
    )
    lines = [line for line in word(body, numbering=levels).split("\n") if line]
    assert lines == ["第一条 总则", "一.1 范围", "(a) 甲", "(b) 乙", "第二条 细则", "二.1 例外"]


def test_lists_are_lists() -> None:
    """Bullets and plain numbers become Markdown list items, indented by depth."""
    body = make.p("one", number=(1, 0)) + make.p("inner", number=(1, 1)) + make.p("two", number=(1, 0))
    found = word(body, numbering=make.numbering([("decimal", "%1."), ("bullet", "•")]))
    assert found == "1. one\n  - inner\n2. two\n"


def test_merged_cells_are_said_in_each_row_and_column() -> None:
    """A merged cell's text stands in every place it covers, so that each row reads alone."""
    table = make.grid([["city", "limit", "per"], ["Paris", "<2>200 a night"], ["^", "50", "meal"]])
    assert word(table) == (
        "| city | limit | per |\n|---|---|---|\n| Paris | 200 a night | 200 a night |\n| Paris | 50 | meal |\n"
    )


def test_notes_stand_behind_their_paragraph() -> None:
    """A footnote follows the paragraph that refers to it, under the same number."""
    body = make.p('<w:r><w:t>Ten days</w:t><w:footnoteReference w:id="4"/></w:r>') + make.p("Next.")
    notes = f'<w:footnote w:id="4">{make.p("Part-time: pro rata.")}</w:footnote>'
    assert word(body, footnotes=notes) == "Ten days[^1]\n\n[^1]: Part-time: pro rata.\n\nNext.\n"


def test_what_was_deleted_or_hidden_is_not_read() -> None:
    """Tracked deletions and hidden runs are no text of the document; insertions are."""
    body = make.p(
        "<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r>"
    )
    assert word(body) == "new\n"


def test_a_text_box_is_read_once() -> None:
    """Word writes a text box twice, for new and old readers."""
    box = f"<w:txbxContent>{make.p('boxed')}</w:txbxContent>"
    body = make.p(f"<w:r><w:t>before</w:t><w:Choice>{box}</w:Choice><w:Fallback>{box}</w:Fallback></w:r>")
    assert word(body) == "before\n\nboxed\n"


def test_code_is_a_fence_and_an_equation_one_line() -> None:
    """Paragraphs of a code style are one fence; fractions and powers keep their parts."""
    assert word(make.p("a = 1", "Code") + make.p("b = 2", "Code")) == "```\na = 1\nb = 2\n```\n"
    part = "<m:{0}><m:r><m:t>{1}</m:t></m:r></m:{0}>"
    fraction = part.format("num", "a") + part.format("den", "b")
    assert word(make.p(f"<m:oMath><m:f>{fraction}</m:f></m:oMath>")) == "$\\frac{a}{b}$\n"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(4, "upperRoman", "IV"), (28, "lowerLetter", "bb"), (12, "chineseCounting", "十二"), (105, "chineseCounting",
     "一百零五"), (3, "decimalZero", "03"), (21, "decimalEnclosedCircle", "21"), (7, "unheardOf", "7")],
)  # fmt: skip
def test_number_formats(value: int, form: str, text: str) -> None:
    """Each of Word's number formats is written as Word draws it."""
    assert shown(value, form) == text


def test_a_list_of_the_same_definition_goes_on_unless_told() -> None:
    """Two lists of one definition count on; a list with its own start begins there, once."""
    counting = Numbering({"1": "a", "2": "a"}, {"a": {0: Level()}}, {("2", 0): 5})
    assert [counting.label(number, 0) for number in "11221"] == ["1.", "2.", "5.", "6.", "7."]
    assert counting.label("9", 0) is None


# --- PowerPoint --------------------------------------------------------------------------------------------------


def test_slides_are_pages_with_their_notes() -> None:
    """Each slide has its anchor, title, bullets and notes."""
    deck = make.deck()
    make.slide(deck, "Onboarding", "Laptop", "Badge", notes="Ask IT first.")
    make.slide(deck, "第二周", "培训")
    markdown, pages = read_pptx(make.saved(deck))
    assert pages == 2
    assert markdown == (
        "<!-- page 1 -->\n\n# Onboarding\n\n- Laptop\n- Badge\n\nNotes: Ask IT first.\n\n"
        "<!-- page 2 -->\n\n## 第二周\n\n- 培训\n"
    )


def test_a_slide_table_keeps_merged_cells() -> None:
    """A merged cell's text stands in each place it covers."""
    deck = make.deck()
    table = make.slide_table(make.slide(deck, "Limits"), [["a", "b"], ["c", "d"]])
    table.cell(0, 0).merge(table.cell(1, 0))
    assert "| a c | b |\n|---|---|\n| a c | d |" in read_pptx(make.saved(deck))[0]


def test_too_many_slides_are_refused() -> None:
    """The page limit is a deck's, too."""
    deck = make.deck()
    make.slide(deck, "1")
    make.slide(deck, "2")
    with pytest.raises(IngestError, match="too_large: 1 slides"):
        read_pptx(make.saved(deck), max_pages=1)


# --- Excel, CSV --------------------------------------------------------------------------------------------------


def test_sheets_are_headings_and_blocks_are_tables() -> None:
    """Blank rows part tables, a lone text above one is its title; dates and whole numbers read as people write them."""
    book = make.workbook(
        {
            "Rates": [["Travel rates"], ["city", "limit"], ["Paris", 200.0], [], ["from", dt.date(2026, 1, 31)]],
            "空": [],
            "Two": [["x", "y"], [True, 0.5]],
        }
    )  # fmt: skip
    assert read_xlsx(book) == (
        "## Rates\n\nTravel rates\n\n| city | limit |\n|---|---|\n| Paris | 200 |\n\n"
        "| from | 2026-01-31 |\n|---|---|\n\n## Two\n\n| x | y |\n|---|---|\n| True | 0.5 |\n"
    )


def test_percent_is_shown_as_percent() -> None:
    """What the sheet shows as 12.5 % is no 0.125 to those who ask."""
    book = make.workbook({"Rates": [["year", "rise"], [2026, 0.125]]}, percent=[(1, 1)])
    assert "| 2026 | 12.5% |" in read_xlsx(book)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_in_any_dialect(encoding: str, delimiter: str) -> None:
    """Delimiter and encoding are found out; a quoted delimiter or line break stays inside its cell."""
    rows = [["城市", "说明"], ["北京", f'"含{delimiter}早餐\n每晚"'], ["上海", "无"]]
    data = "\r\n".join(delimiter.join(row) for row in rows).encode(encoding)
    kind = detect(data, "limits.csv", Limits())
    markdown = kind.read(data, "limits.csv", Limits(), lambda *_: None).markdown
    inside = "\\|" if delimiter == "|" else " " if delimiter == "\t" else delimiter
    assert markdown == f"| 城市 | 说明 |\n|---|---|\n| 北京 | 含{inside}早餐 每晚 |\n| 上海 | 无 |\n"


def test_ragged_csv_keeps_every_cell() -> None:
    """Rows longer than the header widen the table, shorter ones are filled."""
    assert read_csv("a,b\n1,2,3\n4\n") == "| a | b |  |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 |  |  |\n"


# --- HTML ----------------------------------------------------------------------------------------------------------


def page(body: str) -> str:
    return read_html(f"<html><head><title>T</title></head><body>{body}</body></html>".encode())[0]


def test_main_content_without_what_stands_around_it() -> None:
    """Navigation, scripts, hidden parts and footers go; headings, paragraphs and lists stay in order."""
    body = (
        "<nav><a href=/>Home</a></nav><script>x()</script><h1>Leave</h1>"
        "<div>Ten <b>days</b> a year.<p>More.</p>tail</div>"
        "<ul><li>one<ul><li>inner</li></ul></li><li><a href='https://e.org'>two</a></li></ul>"
        "<p hidden>no</p><p style='display: none'>no</p><footer>© 2026</footer>"
    )
    assert page(body) == "# Leave\n\nTen days a year.\n\nMore.\n\ntail\n\n- one\n  - inner\n- two\n"


def test_html_tables_spread_their_spans() -> None:
    """Row and column spans are said in each place; a table of one cell is a frame, not a table."""
    table = "<table><tr><th>a<th>b<th>c<tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4</table>"
    assert page(table) == "| a | b | c |\n|---|---|---|\n| 1 | 2 | 2 |\n| 1 | 3 | 4 |\n"
    assert page("<table><tr><td><h2>Head</h2><p>Text</p></table>") == "## Head\n\nText\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<meta charset=gb2312><p>镕基", "gb18030"),
        ('<meta http-equiv=Content-Type content="text/html; charset=utf-8"><p>年假', "utf-8"),
        ("<p>年假制度规定如下", "gb18030"),
        ("<p>年假", "utf-16"),
    ],
)
def test_html_in_its_encoding(data: str, text: str) -> None:
    """The page's own word counts, then what the bytes show."""
    assert read_html(data.encode(text))[0].strip() == data.rpartition(">")[2]


def test_html_tables_inside_markdown_become_tables() -> None:
    """Only Markdown tables are split by rows under their header."""
    found = tables_as_markdown("before\n<table>\n<tr><th>a</th></tr>\n<tr><td>b|c</td></tr>\n</table>\nafter")
    assert found == "before\n\n\n| a |\n|---|\n| b\\|c |\n\n\nafter"


def test_lines_of_a_page_open_no_markdown() -> None:
    """A paragraph that begins with a number sign or bar stays a paragraph."""
    assert page("<p># not a heading</p><p>| no table |</p>") == "\\# not a heading\n\n\\| no table |\n"
