"""Bytes to Markdown: what a file is, what is kept of it, and why it was refused."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.errors import IngestError
from store.ingest.chunking import cleaned
from store.ingest.formats import BY_SUFFIX, Converted, Limits, detect, title_of
from store.ingest.plain import decoded, plain_markdown, tidy_markdown
from tests import documents as make

DEFAULT = Limits()
PDF = make.document(("Leave", make.TITLE), ("Ten days for everybody.", make.BODY))


def read(data: bytes, name: str, limits: Limits = DEFAULT) -> Converted:
    """As the pipeline does it: detected, converted, cleaned."""
    kind = detect(data, name, limits)
    converted = kind.read(data, name, limits, lambda _step, _done, _of: None)
    return cleaned(converted)


def code_of(data: bytes, name: str, limits: Limits = DEFAULT) -> tuple[str, str]:
    with pytest.raises(IngestError) as caught:
        read(data, name, limits)
    return caught.value.code, caught.value.detail


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"# A", "a.md", "markdown"),
        (b"# A", "A.MARKDOWN", "markdown"),
        (b"text", "notes.txt", "text"),
        (b"text", "folder.d/README", "text"),
        (PDF, "a.pdf", "pdf"),
        (PDF, "a.txt", "pdf"),
        (b"\n" + PDF, "https://example.org/a", "pdf"),
    ],
)
def test_first_bytes_decide_before_the_name(data: bytes, name: str, kind: str) -> None:
    """A PDF is one whatever it is called; text goes by its ending."""
    assert detect(data, name, Limits()).name == kind


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "a.md", ("empty", "")),
        (b" \n\t ", "a.pdf", ("empty", "")),
        (b"<!DOCTYPE html><html>", "a.pdf", ("broken", "HTML")),
        (b"just text", "a.pdf", ("broken", "no PDF")),
        (b"PK\x03\x04 and more", "a.docx", ("broken", "BadZipFile")),
        (b"just text", "a.docx", ("broken", "no DOCX")),
        (b"<html><body>log in", "a.xlsx", ("broken", "HTML")),
        (b"PK\x05\x06" + bytes(18), "a.md", ("unsupported", "ZIP")),
        (b"{\\rtf1 text}", "a.doc", ("unsupported", "RTF")),
        (b"\x89PNG\r\n\x1a\n", "scan.pdf", ("scanned", "")),
        (b"MZ\x90\x00", "tool.exe", ("unsupported", ".exe")),
        (b"caf\xe9 cr\xe8me \xfc", "a.txt", ("not_text", "")),
        (b"\x89\x01\x02\x03\x04\x05", "a.txt", ("not_text", "")),
        (b"<!-- nothing else -->", "a.md", ("empty", "")),
        (b"--- \n\n***", "a.md", ("empty", "")),
        (make.encrypted(), "a.pdf", ("encrypted", "")),
    ],
)
def test_refusals_have_a_code(data: bytes, name: str, code: tuple[str, str]) -> None:
    """Every file that cannot be read says why by a key of the words files."""
    assert code_of(data, name) == code


def test_size_is_limited() -> None:
    """More bytes than the limit are refused before anything is read, and the limit is named."""
    assert code_of(b"x" * 3_000_001, "a.md", Limits(bytes=3_000_000)) == ("too_large", "3 MB")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030", "gbk"])
def test_chinese_is_read_in_its_usual_encodings(encoding: str) -> None:
    """UTF-8, UTF-16 and GB18030 give the same text, with line ends made one."""
    assert (
        decoded("# 年假\r\n每年十天，\r由主管审批。".encode(encoding)) == "# 年假\n每年十天，\n由主管审批。"
    )


def test_markdown_keeps_its_structure() -> None:
    """Headings, lists, tables and code come through unchanged."""
    text = (
        "# Leave\n\n## Annual\n\n- ten days\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\n# no heading\n```\n"
    )
    read_ = read(text.encode(), "x.md")
    assert (read_.markdown, read_.title, read_.media_type, read_.pages) == (
        text,
        "Leave",
        "text/markdown",
        None,
    )


def test_front_matter_goes_and_gives_the_title() -> None:
    """Metadata in front of the text is no text; its title wins over the first heading."""
    read_ = read(b"---\ntitle: 'Annual leave'\ntags: [hr]\n---\n# Leave\n\nTen days.", "x.md")
    assert read_.title == "Annual leave"
    assert read_.markdown == "# Leave\n\nTen days.\n"


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    """Two rules with prose between them are left alone."""
    assert tidy_markdown("---\nSome prose here\n---\nmore")[0].startswith("---\nSome prose")


def test_comments_go_except_anchors_and_code() -> None:
    """HTML comments are dropped, page anchors and what is quoted as code stay."""
    text = "<!-- page 2 -->\nA <!-- internal -->B `<!-- code -->`\n```\n<!-- fenced -->\n```\n<!-- more\nlines -->C"
    assert tidy_markdown(text)[0] == "<!-- page 2 -->\nA B `<!-- code -->`\n```\n<!-- fenced -->\n```\nC"


@pytest.mark.parametrize(
    ("markdown", "name", "title"),
    [
        ("Intro\n\n# First\n\n# Second", "x.md", "First"),
        ("## Only second level", "hr/leave.md", "leave"),
        ("no heading", "C:\\docs\\Leave policy.pdf", "Leave policy"),
        ("Title\n=====\n\ntext", "x.md", "Title"),
    ],
)
def test_the_title_is_the_first_heading_or_the_name(markdown: str, name: str, title: str) -> None:
    """First level headings name a document; without one its file does."""
    assert title_of(markdown, name) == title


def test_plain_text_chapters_become_headings() -> None:
    """Chinese chapters alone on a line are headings, clauses stay text, a short first line is the title."""
    text = (
        "员工手册\n\n第一章 总则\n　　第一条 本手册适用于全体员工。\n　　第二条 自公布之日起施行。\n"
        "第一节 定义\n无。"
    )
    read_ = read(text.encode(), "x.txt")
    assert read_.title == "员工手册"
    assert "## 第一章 总则\n\n第一条 本手册适用于全体员工。\n\n第二条" in read_.markdown
    assert "### 第一节 定义\n\n无。" in read_.markdown


def test_plain_text_gains_no_markup() -> None:
    """A row of dashes makes no heading of the line above it, and four blanks make no code."""
    markdown, _ = plain_markdown("Total\n-----\n    indented line\n")
    assert markdown == "Total\n\n-----\nindented line\n"


def test_markdown_in_a_text_file_is_recognised() -> None:
    """A .txt with number-sign headings is Markdown by another name."""
    assert read(b"# Leave\n\n## Annual\n\nTen days.", "x.txt").title == "Leave"


def test_cleaning_removes_what_nobody_sees() -> None:
    """Zero-width marks, soft hyphens and no-break spaces do not split words; blank lines do not pile up."""
    dirty = "# A\u200b\n\n\n\n\nann\u00adual\u00a0leave  \n\u202eend\ufeff\n"
    assert read(dirty.encode(), "x.md").markdown == "# A\n\nannual leave\nend\n"


def test_every_suffix_has_one_converter() -> None:
    """The table of formats names each ending once."""
    assert set(BY_SUFFIX) >= {".md", ".txt", ".pdf", ""}


@given(
    data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode),
    name=st.sampled_from(["a.md", "a.txt", "a.pdf", "a"]),
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_end_in_text_or_a_reason(data: bytes, name: str) -> None:
    """Whatever is uploaded becomes Markdown that Postgres can store, or an `IngestError`; nothing else is raised."""
    with contextlib.suppress(IngestError):
        read_ = read(data, name)
        assert "\0" not in read_.markdown + read_.title
        read_.markdown.encode()
