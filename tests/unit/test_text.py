"""The tokenizer both sides of search share, and the text rules beside it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.text import clean, estimate_tokens, language, normalise, sentences
from store.words import lexemes, query_lexemes, references, tokens, tsquery_literal, tsvector_literal

ANY_TEXT = st.text(st.characters(), max_size=200)
# What documents are made of, denser in the shapes that have rules.
SHAPES = [
    "第",
    "三",
    "条",
    "十",
    "3",
    ".",
    "2",
    "(",
    "b",
    ")",
    "§",
    " ",
    "C++",
    "_",
    "-",
    "'",
    "\\",
    ":",
    "\0",
]
SHAPES += ["年", "假", "制度", "Article ", "。", "!", "\n", "| ", "- ", "ß", "é", "½", "\ud800", "％", ",000"]
TRICKY = st.lists(st.sampled_from(SHAPES), max_size=40).map("".join)


def test_a_question_about_annual_leave_shares_the_word_with_the_policy() -> None:
    """年假制度 finds 年假, although no dictionary has the word. Row 37."""
    assert "年假" in tokens("年假制度")
    assert set(tokens("年假")) <= set(tokens("年假制度"))


def test_words_inside_words_are_found() -> None:
    """A long Chinese word gives its parts too."""
    assert {"劳动", "合同", "合同法"} <= set(tokens("中华人民共和国劳动合同法"))


@pytest.mark.parametrize(
    "spelling", ["第三条", "第3条", "第 3 条", "第３条", "第 三 条", "Article 3", "article 3", "§3", "§ 3"]
)
def test_a_clause_has_one_form_however_its_number_is_written(spelling: str) -> None:
    """Chinese and Arabic numerals, widths, spaces and languages of a clause meet in one token."""
    assert "第3条" in tokens(spelling)


@pytest.mark.parametrize(
    ("numeral", "value"), [("十", 10), ("十二", 12), ("二十", 20), ("一百零三", 103), ("二〇", 20)]
)
def test_chinese_numerals_of_clauses_are_read(numeral: str, value: int) -> None:
    """Tens, hundreds and digit strings give the number a reader means."""
    assert tokens(f"第{numeral}条") == [f"第{value}条"]


@pytest.mark.parametrize("spelling", ["第 3.2 条", "第3.2条", "3.2", "clause 3.2", "§3.2", "第３．２条"])
def test_a_numbered_clause_is_found_by_its_number(spelling: str) -> None:
    """Every way of writing clause 3.2 contains the token 3.2."""
    assert "3.2" in tokens(spelling)


def test_a_subclause_is_found_under_its_clause() -> None:
    """3.2.1 belongs to 3.2, and is not 3.2 alone."""
    assert tokens("3.2.1") == ["3.2.1", "3.2"]


@pytest.mark.parametrize(
    "spelling", ["§7(b)", "§ 7 (b)", "7(b)", "第7条（b）", "第七条(b)项", "Section 7(b)"]
)
def test_an_item_of_a_clause_is_found_with_and_without_its_letter(spelling: str) -> None:
    """§7(b) is found as 7(b) and under clause 7."""
    assert {"7(b)", "第7条"} <= set(tokens(spelling))


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        ("ISO-9001", ["iso-9001", "iso", "9001"]),
        ("user_id", ["user_id", "user", "id"]),
        ("ERR_0042", ["err_0042", "err", "0042"]),
        ("node.js", ["node.js", "node", "js"]),
        (".NET", [".net", "net"]),
        ("10mg", ["10mg", "10", "mg"]),
        ("1,000", ["1000"]),
        ("U.S.", ["us"]),
        ("2024-01-15", ["2024-01-15", "2024", "01", "15"]),
    ],
)
def test_identifiers_stay_whole_beside_their_parts(identifier: str, expected: list[str]) -> None:
    """An identifier can be searched as it is written, and by its parts."""
    assert tokens(identifier) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("服务合同第 3.2 条是怎么规定的？", [("3.2",)]),
        ("What does clause 7(b) of the agreement say?", [("7(b)",)]),
        ("第三条和 §4", [("第3条",), ("第4条",)]),
        ("I get ERR_0042", [("err_0042", "err", "0042")]),
        ("do we need ISO-9001?", [("iso-9001", "iso", "9001")]),
        ("A 24-hour limit for P7 of 3.5 days since 2024", []),
    ],
)
def test_what_a_question_names_exactly(question: str, expected: list[tuple[str, ...]]) -> None:
    """Clauses and codes are references; quantities, grades and years are not."""
    assert references(question) == expected


def test_the_words_of_a_question_do_not_look_it_up() -> None:
    """Question words are left out, unless nothing else is left."""
    assert query_lexemes("What is the limit of the limit?") == ["limit"]
    assert query_lexemes("谁") == ["谁"]


def test_characters_make_other_cuts_of_the_same_words_meet() -> None:
    """A question's word and a document's agree by their characters, however each was cut."""
    assert set(lexemes("年假")) < set(lexemes("带薪年休假制度"))


def test_a_mixed_question_loses_neither_half() -> None:
    """Latin words inside Chinese text are words of their own."""
    assert {"vpn", "报销", "err_0042"} <= set(tokens("VPN的ERR_0042怎么报销"))


@pytest.mark.parametrize(
    ("one", "other"), [("policies", "policy"), ("approved", "approve"), ("café", "Cafe")]
)
def test_english_inflections_and_accents_meet(one: str, other: str) -> None:
    """Inflected English words share a stem; accents do not divide them."""
    assert tokens(one) == tokens(other)


def test_punctuation_gives_no_tokens() -> None:
    """Text without words gives no search terms."""
    assert tokens(" 。，！？ -- '' \0 () ") == []


@given(ANY_TEXT | TRICKY)
def test_any_text_gives_storable_tokens(text: str) -> None:
    """No token is empty, has white space or NUL in it, or is longer than a Postgres lexeme."""
    for token in (*tokens(text), *lexemes(text), *query_lexemes(text)):
        assert token
        assert not re.search(r"\s|\0", token)
        assert len(token.encode()) <= 2046


@given(ANY_TEXT | TRICKY)
def test_the_question_side_and_the_document_side_agree(text: str) -> None:
    """Tokens depend on the normalised text alone, so that both sides meet."""
    assert tokens(text) == tokens(normalise(text))
    assert set(query_lexemes(text)) <= set(lexemes(text))
    assert {one[0] for one in references(text)} <= set(lexemes(text))


def test_vector_literals_carry_positions_and_quote() -> None:
    """Positions start at 1; quotes and backslashes are doubled as Postgres wants them."""
    assert tsvector_literal(["a", "b'", "a", "c\\"]) == "'a':1,3 'b''':2 'c\\\\':4"


def test_vector_literals_stay_within_postgres_limits() -> None:
    """No position beyond 16,383, and under a megabyte in all."""
    assert tsvector_literal(["x"] * 20_000).endswith(",16383")
    assert "'late'" not in tsvector_literal(["x"] * 16_383 + ["late"])
    assert len(tsvector_literal([f"{n:0>400}" for n in range(5_000)]).encode()) < 1_048_575


def test_query_literals_ask_for_any_term_once() -> None:
    """Terms are joined by OR, without repetition; none give the empty query."""
    assert tsquery_literal(["a", "b", "a", ""]) == "'a' | 'b'"
    assert tsquery_literal([]) == ""


def test_nul_and_lone_surrogates_are_cleaned() -> None:
    """What Postgres refuses is removed or replaced; a split emoji is joined."""
    assert clean("a\0b") == "ab"
    assert clean("a\ud800b") == "a�b"
    assert clean("\ud83d\ude00") == "😀"


@given(ANY_TEXT | TRICKY)
def test_clean_text_is_encodable_and_stays_as_it_is(text: str) -> None:
    """Cleaning makes any text UTF-8 and does nothing the second time."""
    once = clean(text)
    assert "\0" not in once
    assert once.encode().decode() == once
    assert clean(once) == once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("年假可以休多少天？", "zh"),
        ("How many days of leave?", "en"),
        ("VPN client 怎么装", "zh"),
        ("Slack 通知", "zh"),
        ("What does 年假 mean?", "en"),
        ("How do I apply for 年假制度", "en"),
        ("合同第 3.2 条 termination 怎么算", "zh"),
        ("", "en"),
        ("123 ？", "en"),
    ],
)
def test_language_follows_the_words_that_hold_the_sentence_together(text: str, expected: str) -> None:
    """A name in the other script does not change the language of a question."""
    assert language(text) == expected


def test_token_estimate_is_a_third_of_the_bytes() -> None:
    """The estimate is high enough for both languages."""
    assert estimate_tokens("年" * 30) == 30
    assert estimate_tokens("a" * 97) == 32
    assert estimate_tokens("\ud800") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("年假为15天。需提前3.5天申请！好吗？", ["年假为15天。", "需提前3.5天申请！", "好吗？"]),
        ("他说：“好的。”然后走了。", ["他说：“好的。”", "然后走了。"]),
        ("见第 3.2 条。下一句", ["见第 3.2 条。", "下一句"]),
        ("See Sec. 3.2, e.g. leave. Dr. Smith agreed.", ["See Sec. 3.2, e.g. leave.", "Dr. Smith agreed."]),
        ('It costs $3.50. "Done." Next?', ["It costs $3.50.", '"Done."', "Next?"]),
        ("J. Smith left (see p. 4). Bye.", ["J. Smith left (see p. 4).", "Bye."]),
        ("# Leave\n- one\n- two\n\nText.", ["# Leave", "- one", "- two", "Text."]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        ("1. First. Second.\n2. Third", ["1. First.", "Second.", "2. Third"]),
        ("A wrapped\nline ends. Here", ["A wrapped\nline ends.", "Here"]),
        ("（一）婚假；\n（二）产假。", ["（一）婚假；", "（二）产假。"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    """Decimals, clauses, abbreviations and initials do not end a sentence; items, rows and headings do."""
    assert sentences(text) == expected


@given(ANY_TEXT | TRICKY)
def test_sentences_are_slices_in_order(text: str) -> None:
    """Each sentence can be found again in the text, after the one before."""
    at = 0
    for sentence in sentences(text):
        at = text.index(sentence, at) + len(sentence)
