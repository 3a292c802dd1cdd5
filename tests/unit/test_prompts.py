"""Prompts: complete in both languages, filled in strictly, and firm about what is data."""

from importlib import resources

import pytest

from rag_graph import prompts
from rag_graph.prompts import NAMES, PromptInvalid, placeholders, render

BOTH = [(name, language) for name in NAMES for language in ("zh", "en")]


def filled(name: str, language: str) -> str:
    return render(name, language, **{key: f"<{key}>" for key in placeholders(name, language)})


@pytest.mark.parametrize(("name", "language"), BOTH)
def test_every_prompt_renders(name: str, language: str) -> None:
    """Each prompt exists in both languages and leaves no placeholder behind."""
    text = filled(name, language)
    assert text
    assert all(f"<{key}>" in text for key in placeholders(name, language))
    assert "{" not in text


@pytest.mark.parametrize("name", NAMES)
def test_languages_have_the_same_places(name: str) -> None:
    """The Chinese and the English file of a prompt take the same values."""
    assert placeholders(name, "zh") == placeholders(name, "en")


def test_every_file_is_named() -> None:
    """No prompt file lies about unused, and none is missing."""
    files = {entry.name for entry in resources.files(prompts).iterdir() if entry.name.endswith(".txt")}
    assert files == {f"{name}.{language}.txt" for name, language in BOTH}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "rewrite.en: missing history, missing question, missing summary"),
        ({"summary": "", "history": "", "question": "", "today": ""}, "rewrite.en: unknown today"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, str], said: str) -> None:
    """A missing and an unknown value are errors that name the prompt and the value."""
    with pytest.raises(PromptInvalid, match=said):
        render("rewrite", "en", **values)


@pytest.mark.parametrize(("name", "language"), [("poem", "en"), ("draft", "fr"), ("../draft", "en")])
def test_unknown_prompts_are_refused(name: str, language: str) -> None:
    """Asking for a prompt or language that does not exist says which exist."""
    with pytest.raises(PromptInvalid, match="no such prompt"):
        render(name, language)


def test_values_are_not_looked_into() -> None:
    """A question with braces in it is inserted as it is."""
    assert "{summary} {x}" in render("rewrite", "en", summary="s", history="h", question="{summary} {x}")


@pytest.mark.parametrize(("name", "language"), BOTH)
def test_others_text_is_called_data(name: str, language: str) -> None:
    """Every prompt says that what people and documents wrote is data and gives no instructions."""
    text = filled(name, language)
    assert (
        ("data" in text and "instruction" in text)
        if language == "en"
        else ("数据" in text and "指令" in text)
    )


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_draft_may_say_that_it_does_not_know(language: str) -> None:
    """The drafting prompt asks for citations and names the exact word for "the documents do not answer"."""
    text = filled("draft", language)
    assert "NO_ANSWER" in text
    assert "[1][3]" in text
