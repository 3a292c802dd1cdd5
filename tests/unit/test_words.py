"""Every sentence exists in both languages and takes the same values."""

import string

import pytest

from bot.words import Words

WORDS = Words()


def test_both_languages_have_the_same_sentences() -> None:
    """A sentence that exists in one language only would reach somebody as an error."""
    assert WORDS.keys("en") == WORDS.keys("zh")


@pytest.mark.parametrize("key", sorted(WORDS.keys("en")))
def test_both_languages_take_the_same_values(key: str) -> None:
    """A translation neither drops a value nor asks for one that nobody gives."""

    def fields(language: str) -> set[str]:
        parsed = string.Formatter().parse(WORDS.template(language, key))
        return {field for _, field, _, _ in parsed if field}

    assert fields("en") == fields("zh")


def test_a_missing_sentence_is_an_error() -> None:
    """A typo in a key is found by the first test that runs it, not by a person."""
    with pytest.raises(KeyError):
        WORDS("en", "declined.nonsense")


def test_an_unknown_language_reads_english() -> None:
    """Somebody whose language we do not have gets a sentence all the same."""
    assert WORDS("fr", "smalltalk.thanks") == WORDS("en", "smalltalk.thanks")
