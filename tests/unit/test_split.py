"""Splitting: nothing lost, nothing too long, nothing cut that must stay whole."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.chunks import embedding_text
from store.ingest.split import Chunk, Profile, SplitSettings, guess_profile, split
from store.ingest.structure import ANCHOR, outline

SMALL = SplitSettings(size=120, overlap=30)
ALPHABET = "年假合同审批员工报销安全。，；、！？第三条abcdef ABC .,;:!?3.2()（）“”-–%é😀"

words = st.builds("{}{}".format, st.sampled_from("年假abcT"), st.text(alphabet=ALPHABET, max_size=60)).map(
    str.strip
)
sentence = st.tuples(words, st.sampled_from(["。", ". ", "！", "\n", " ", ""])).map("".join)
paragraph = st.lists(sentence, min_size=1, max_size=12).map(
    lambda parts: re.sub(r"\n\s*", "\n", "".join(parts)).strip()
)
cell = st.text(alphabet="年假天数abc 123。", max_size=12).map(str.strip)


def _table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---|---|---|", *lines[1:]])


table = st.lists(st.lists(cell, min_size=3, max_size=3), min_size=2, max_size=14).map(_table)
fence = st.lists(st.text(alphabet="abc =()#年。", max_size=30), max_size=12).map(
    lambda lines: "\n".join(["```python", *lines, "```"])
)
bullets = st.lists(words, min_size=1, max_size=6).map(lambda items: "\n".join(f"- {item}" for item in items))
block = st.one_of(paragraph, paragraph, table, fence, bullets)
heading = st.text(alphabet="年假合同abc", min_size=1, max_size=12)
sections = st.lists(
    st.tuples(st.integers(1, 4), heading, st.lists(block, max_size=6)), min_size=1, max_size=5
)
profiles = st.sampled_from(["structured", "faq", "messages"])


def _markdown(parts: list[tuple[int, str, list[str]]]) -> str:
    return "\n\n".join("\n\n".join([f"{'#' * level} {title}", *blocks]) for level, title, blocks in parts)


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)


def _own(chunks: list[Chunk]) -> str:
    return _bare("".join(chunk.text[chunk.repeated :] for chunk in chunks))


@given(parts=sections)
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost(parts: list[tuple[int, str, list[str]]]) -> None:
    """Without what they repeat, the chunks are the body, every non-space character once and in order."""
    chunks = split(_markdown(parts), "", SMALL)
    body = ""
    for number, (level, title, blocks) in enumerate(parts):
        leaf = number + 1 == len(parts) or parts[number + 1][0] <= level
        body += _bare("".join(blocks)) or (title if leaf else "")
    assert _own(chunks) == body


@given(text=st.text(alphabet=ALPHABET + "\n\n#>*_|`~<\\[]\t=", max_size=1500), profile=profiles)
@settings(max_examples=300, deadline=None)
def test_nothing_is_lost_of_any_text(text: str, profile: Profile) -> None:
    """Whatever the marks add up to, every character outside headings and thematic breaks is in a chunk, in order.
    Row 30."""
    source = outline(text)
    body = text if profile == "messages" else "".join(source.text[s.start : s.end] for s in source.sections)
    chunks = split(text, "", SMALL, profile)
    if profile != "messages":
        chunks = [chunk for chunk in chunks if chunk.heading_path[-1:] != (chunk.text,)]
    letters = re.compile(r"[^\w。，！？；、]")
    assert letters.sub("", _own(chunks)).replace("_", "") == letters.sub("", body).replace("_", "")


@given(parts=sections)
@settings(max_examples=150, deadline=None)
def test_no_chunk_is_longer_than_the_limit(parts: list[tuple[int, str, list[str]]]) -> None:
    """Only a single table row or code fence may be longer than the size, and no chunk is empty."""
    for chunk in split(_markdown(parts), "", SMALL):
        own = chunk.text[chunk.repeated :].strip()
        alone = own.startswith("```") or (own.startswith("|") and len(own.splitlines()) <= 3)
        assert chunk.text.strip()
        assert len(chunk.text) <= SMALL.size or alone


@given(parts=sections)
@settings(max_examples=150, deadline=None)
def test_tables_and_fences_stay_whole(parts: list[tuple[int, str, list[str]]]) -> None:
    """Every line of a table, and every fence as a whole, is found uncut in some chunk."""
    texts = [chunk.text for chunk in split(_markdown(parts), "", SMALL)]
    for _, _, blocks in parts:
        for part in blocks:
            if part.startswith("```"):
                assert any(part in text for text in texts)
            elif part.startswith("| "):
                lines = [line for text in texts for line in text.splitlines()]
                assert all(row in lines for row in part.splitlines())


@given(parts=sections, window=st.integers(128, 220))
@settings(max_examples=80, deadline=None)
def test_every_chunk_fits_the_models_window(parts: list[tuple[int, str, list[str]]], window: int) -> None:
    """Title, headings and text together never have more tokens than the model reads, whatever the size says."""

    def count(text: str) -> int:
        return len(_bare(text)) + 2

    chosen = SplitSettings(size=2000, overlap=80, window=window, count=count)
    chunks = split(_markdown(parts), "手册", chosen)
    assert all(count(embedding_text("手册", c.heading_path, c.text)) <= window for c in chunks)
    assert len(_own(chunks)) >= len(_bare("".join("".join(blocks) for _, _, blocks in parts)))


@given(parts=sections)
@settings(max_examples=60, deadline=None)
def test_overlap_stays_inside_a_section(parts: list[tuple[int, str, list[str]]]) -> None:
    """Text is repeated only from the chunk before it under the same heading, at most `overlap` characters."""
    chunks = split(_markdown(parts), "", SMALL)
    assert not chunks[0].repeated if chunks else True
    for before, chunk in pairwise(chunks):
        lead = chunk.text[: chunk.repeated].strip()
        if lead and not lead.startswith("|"):
            assert len(lead) <= SMALL.overlap
            assert before.heading_path == chunk.heading_path
            assert before.text.endswith(lead)


@given(parts=sections, profile=profiles)
@settings(max_examples=40, deadline=None)
def test_splitting_twice_gives_the_same(parts: list[tuple[int, str, list[str]]], profile: Profile) -> None:
    """The same text gives the same chunks, so that unchanged chunks keep their vectors."""
    assert split(_markdown(parts), "t", SMALL, profile) == split(_markdown(parts), "t", SMALL, profile)


def test_headings_become_the_path() -> None:
    """A chunk carries the headings it stands under, and nothing is merged across them."""
    chunks = split(
        "# Handbook\n\nHello.\n\n## Leave\n\n### Annual\n\nTen days.\n\n## Travel\n\nBook.", "Handbook", SMALL
    )
    assert [(c.heading_path, c.text) for c in chunks] == [
        ((), "Hello."),
        (("Leave", "Annual"), "Ten days."),
        (("Travel",), "Book."),
    ]


def test_small_paragraphs_are_packed() -> None:
    """Short paragraphs under one heading share a chunk up to the size."""
    chunks = split("\n\n".join(["## A", *[f"Paragraph {n} here." for n in range(10)]]), "t", SMALL)
    assert len(chunks) == 2
    assert chunks[0].text.count("Paragraph") > 3


def test_a_big_table_is_cut_between_rows_with_its_header() -> None:
    """Each piece of a long table begins with the header, and each row is in exactly one piece."""
    rows = "\n".join(f"| 城市{n} | {n * 100} 元 |" for n in range(30))
    chunks = split(f"## 标准\n\n| 城市 | 上限 |\n|---|---|\n{rows}\n", "t", SMALL)
    assert len(chunks) > 3
    assert all(chunk.text.startswith("| 城市 | 上限 |\n|---|---|\n| 城市") for chunk in chunks)
    assert sum(chunk.text.count("元") for chunk in chunks) == 30


def test_a_table_that_fits_is_never_cut() -> None:
    """A table shorter than the size moves to the next chunk whole, with the sentence that introduces it."""
    body = "一" * 60 + "。\n\n标准如下：\n\n" + _table([["a", "b", "c"], *[["1", "2", "3"]] * 5])
    chunks = split(f"## 标准\n\n{body}", "t", SMALL)
    assert "| a | b | c |\n|---|---|---|\n" + "\n".join(["| 1 | 2 | 3 |"] * 5) in chunks[-1].text
    assert chunks[-1].text.startswith("标准如下：")


@pytest.mark.parametrize("mark", ["第{}条", "**第 3.{} 条**", "3.{}", "Article {}", "（{}）"])
def test_clauses_are_preferred_cuts(mark: str) -> None:
    """A long run of numbered clauses is cut where a clause begins, also without blank lines."""
    numbers = "一二三四五六七八" if mark[0] in "第（" else "12345678"
    clauses = [mark.format(n) + " " + "乙方应当按照约定履行义务，" * 3 + "不得转让。" for n in numbers]
    chunks = split("# 合同\n\n" + "\n".join(clauses), "合同", SplitSettings(size=200, overlap=40))
    assert len(chunks) > 2
    assert all(chunk.text[chunk.repeated :].startswith(mark.split("{}")[0]) for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    ["本办法适用于全体员工，包括试用期员工。" * 60, "The policy applies to everybody in the company. " * 40],
)
def test_long_prose_ends_at_sentences(text: str) -> None:
    """More than 1,100 characters without structure become several chunks, each ending with its sentence. Row 31."""
    chunks = split(text, "t", SplitSettings())
    assert len(chunks) > 2
    assert all(chunk.text.endswith(("。", ".")) for chunk in chunks)
    assert all(0 < chunk.repeated <= 80 for chunk in chunks[1:])


def test_text_without_any_boundary_is_cut_by_character() -> None:
    """Four thousand letters in a row are still cut at the size, and an emoji keeps its parts."""
    chunks = split("x" * 4000, "t", SplitSettings())
    assert max(len(chunk.text) for chunk in chunks) == 400
    family = "👩\u200d👩\u200d👧" * 200
    assert all(not chunk.text.startswith("\u200d") for chunk in split(family, "t", SMALL))


def test_pages_are_where_a_chunk_begins() -> None:
    """A chunk's page is the one its own text starts on; anchors inside rows and sentences leave no trace."""
    text = (
        "<!-- page 1 -->\n\n# T\n\nOne. "
        "\n\n<!-- page 2 -->\n\n## A\n\nTwo begins <!-- page 3 -->and ends.\n\n## B\n\n"
        "| k | v |\n|---|---|\n| a | " + "1" * 90 + " |\n| <!-- page 4 -->b | " + "2" * 90 + " |\n"
    )
    chunks = split(text, "T", SMALL)
    assert [chunk.page for chunk in chunks] == [1, 2, 3, 4]
    assert chunks[1].text == "Two begins and ends."
    assert chunks[3].text.startswith("| k | v |\n|---|---|\n| b |")
    assert not any(ANCHOR.search(chunk.text) for chunk in chunks)


def test_an_unclosed_fence_does_not_swallow_the_limit() -> None:
    """A fence that never ends is text: it is cut like text."""
    chunks = split("```\n" + "some words here\n" * 100, "t", SMALL)
    assert max(len(chunk.text) for chunk in chunks) <= SMALL.size


def test_a_heading_with_nothing_below_is_kept() -> None:
    """An outline without text still yields a passage for each last heading."""
    assert [c.text for c in split("# T\n\n## A\n\n## B\n", "T", SMALL)] == ["A", "B"]


def test_an_underlined_paragraph_is_no_heading() -> None:
    """Several lines above a row of dashes are a paragraph, not a heading of three lines."""
    chunks = split("One line\nand another\n---\nRest.", "t", SMALL)
    assert chunks[0].heading_path == ()
    assert "and another" in chunks[0].text


def test_messages_are_windows_of_characters() -> None:
    """By character: every chunk but the last is nearly full, repeats the overlap, and cuts no word."""
    text = "Ada: the printer on floor 3 is broken again, please call facilities. " * 30
    chunks = split(text, "t", SMALL, "messages")
    assert all(len(chunk.text) > SMALL.size - 30 for chunk in chunks[:-1])
    assert all(0 < chunk.repeated <= SMALL.overlap for chunk in chunks[1:])
    assert all(word in text.split() for chunk in chunks for word in chunk.text.split())


def test_faq_keeps_a_pair_together() -> None:
    """One question with its answer is one chunk, however long; what stands before the first is split as usual."""
    answer = "You may carry over five days. " * 20
    text = (
        f"# FAQ\n\nWelcome.\n\nQ: Can I carry leave over?\nA: {answer}\n\nQ: Who approves?\nA: Your lead.\n"
    )
    chunks = split(text, "FAQ", SMALL, "faq")
    assert [chunk.text[:12] for chunk in chunks] == ["Welcome.", "Q: Can I car", "Q: Who appro"]
    assert chunks[1].text.count("carry over five days") == 20


def test_faq_by_headings() -> None:
    """Where headings ask, each heading with its text is a pair, and the question is its path."""
    chunks = split(
        "# 常见问题\n\n## 年假几天？\n\n" + "十天。" * 60 + "\n\n## 谁审批？\n\n主管。",
        "常见问题",
        SMALL,
        "faq",
    )
    assert [(c.heading_path, len(c.text)) for c in chunks] == [(("年假几天？",), 180), (("谁审批？",), 3)]


def test_a_pair_beyond_the_window_carries_its_question() -> None:
    """The later pieces of a pair that no model could read whole have the question as their last heading."""
    chosen = SplitSettings(size=120, overlap=30, window=128, count=len)
    chunks = split("Q: Can I?\nA: " + "Yes, you can. " * 40, "FAQ", chosen, "faq")
    assert len(chunks) > 3
    assert chunks[0].heading_path == ()
    assert {chunk.heading_path for chunk in chunks[1:]} == {("Q: Can I?",)}


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("# A\n\ntext\n\n## B\n\ntext", "structured"),
        ("Q: a\nA: b\n\nQ: c\nA: d\n\nQ: e\nA: f", "faq"),
        ("# 问答\n\n## 年假几天？\n\n十天\n\n## 谁批？\n\n我\n\n## 何时？\n\n明天", "faq"),
        ("From: a@b.c\nTo: d@e.f\nSubject: x\n\nHi", "messages"),
        ("09:12 Ada: hi\n09:13 Bo: hi\n09:14 Ada: ok\n09:15 Bo: a\n09:16 Ada: b\n09:17 Bo: c", "messages"),
    ],
)
def test_the_profile_is_guessed(text: str, profile: str) -> None:
    """Question marks make a FAQ, mail headers and times make messages, everything else has structure."""
    assert guess_profile(text) == profile


def test_embedding_text_is_title_headings_text() -> None:
    """The model reads title, headings and text; a deep path gives up its outer headings, never the inner one."""
    assert (
        embedding_text("Handbook", ("Leave", "Annual"), "Ten days.") == "Handbook\nLeave > Annual\nTen days."
    )
    deep = embedding_text("T", tuple(f"{n}" * 90 for n in range(4)), "x")
    assert deep.split("\n")[1] == "2" * 90 + " > " + "3" * 90


@pytest.mark.parametrize("values", [{"size": 100, "overlap": 50}, {"window": 64}, {"overlap": -1}])
def test_impossible_settings_are_refused(values: dict[str, int]) -> None:
    """An overlap of half the size or a window that headings alone fill is an error at once."""
    with pytest.raises(ValueError, match=r"overlap|window"):
        SplitSettings(**values)  # type: ignore[arg-type]
