"""An installation's own words are tokens as a whole, and take nothing away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.dictionary import Dictionary
from store.words import lexemes, query_lexemes

OWN = Dictionary.of(["灵犀台账", "灵犀", "Blue  Heron", "ＥＲＰ", "c++17"])


def test_words_are_normalised_once_and_in_order() -> None:
    """Width, case, spaces and repetitions make no other dictionary; its digest names it, and is empty without words."""
    assert OWN.words == ("blue heron", "c++17", "erp", "灵犀", "灵犀台账")
    assert (
        Dictionary.of(["blue heron", "BLUE HERON", "erp", "C++17", "灵犀台账", "灵犀"]).digest == OWN.digest
    )
    assert Dictionary.of([]).digest == "" != OWN.digest


def test_a_word_is_found_where_it_stands() -> None:
    """Chinese anywhere, overlapping words too; Latin words only whole."""
    assert list(OWN.found("在灵犀台账里")) == ["灵犀", "灵犀台账"]
    assert list(OWN.found("blue herons, a blue heron and terps of an erp")) == ["blue heron", "erp"]


@pytest.mark.parametrize("words", [["x"], ["长" * 101], [f"w{n}" for n in range(10_001)]])
def test_what_cannot_be_a_word_is_refused(words: list[str]) -> None:
    """Too short, too long, too many: said, not dropped."""
    with pytest.raises(ValueError, match="word"):
        Dictionary.of(words)


@given(st.text())
def test_words_only_add(text: str) -> None:
    """With a dictionary a text has every token that it has without one, in that order."""
    assert lexemes(text, OWN)[: len(lexemes(text))] == lexemes(text)


def test_question_and_passage_agree_on_a_word() -> None:
    """What the passage is kept under is what the question looks for."""
    assert "灵犀台账" in set(lexemes("灵犀台账由行政部维护", OWN)) & set(
        query_lexemes("灵犀台账谁来维护？", OWN)
    )
    assert "灵犀台账" not in lexemes("灵犀台账由行政部维护")
