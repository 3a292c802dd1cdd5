"""What the documents tell people to type exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from bot.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
TYPED = re.compile(r"`(?:\.venv/bin/)?signoff ([^`]+)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def commands(page: Path) -> Iterator[str]:
    """What follows `signoff` in a code span, line breaks inside it undone."""
    for found in TYPED.findall(page.read_text(encoding="utf-8")):
        yield re.sub(r"\s+", " ", found)


def trouble(typed: str) -> str:
    """What is wrong with a command: the name or the option that does not exist, or ""."""
    words = re.sub(r'"[^"]*"', "TEXT", typed).split()
    command: Any = get_command(cli)
    while isinstance(command, TyperGroup) and words:
        names = re.split(r"[|…]+", words.pop(0))
        missing = [name for name in names if name and name not in command.commands]
        if missing:
            return missing[0]
        command = command.commands[names[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    return next((option for option in options if option not in known), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_documents_exists(page: Path) -> None:
    """Its name, its subcommand and its options are those of the program."""
    wrong = {typed: found for typed in commands(page) if (found := trouble(typed))}
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_the_documents_link_is_there(page: Path) -> None:
    """Links between the documents, and to their pictures, lead somewhere."""
    linked = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in linked if not (page.parent / target).exists()] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    """The check above can fail."""
    assert trouble("documents polish") == "polish"
    assert trouble("ingest --swiftly FOLDER") == "--swiftly"
    assert trouble("reviews list|show|paint") == "paint"
    assert trouble('doctor --question "why?" --as PERSON --document NAME') == ""
