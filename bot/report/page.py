"""What a report consists of, and drawing it. Everything in it is escaped, except pictures that we drew ourselves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup, escape

from bot.report.machine import machine

__all__ = ["Case", "Page", "Section", "Table", "about", "picture", "rendered"]

Tone = Literal["good", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Table:
    """The first column is text, the others figures unless `words` is true. A cell may be (text, tone)."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, Tone]]]
    caption: str = ""
    words: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One question, open at first so that paper has it: its text, what stands beside it, and named lines."""

    title: str
    chips: Sequence[tuple[str, Tone]] = ()
    lines: Sequence[tuple[str, str | Sequence[tuple[str, Tone]]]] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """`id` names it in the list of contents; `hint` says what to do about it."""

    title: str
    texts: Sequence[str] = ()
    hint: str = ""
    tables: Sequence[Table] = ()
    pictures: Sequence[Markup] = ()
    cases: Sequence[Case] = ()
    level: Literal[2, 3] = 2


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section] = field(default=())


def picture(svg: str) -> Markup:
    """An SVG that `rag_graph.evaluation.drawing` drew, which escapes every name in it."""
    return Markup(svg)  # noqa: S704 - ours, see above


def about(command: str) -> list[tuple[str, str]]:
    """How it came about: the command, when, with which version, on what."""
    on: dict[str, Any] = machine()
    place = "{processor}, {cores} cores, {memory_gib} GiB, {system}, Python {python}".format(**on)
    try:
        ours = version("signoff")
    except PackageNotFoundError:
        ours = "from source"
    return [
        ("Command", command),
        ("Date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("Signoff", ours),
        ("Machine", place),
    ]


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(str(files("bot.report")))),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _code(text: str) -> Markup:
    """What stands between backticks as code, all of it escaped."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 and at < len(parts) - 1 else escape(part)
        for at, part in enumerate(parts)
    )


_ENVIRONMENT.filters["code"] = _code


def rendered(page: Page) -> str:
    """One HTML file that needs nothing else: no script, no font, no picture from anywhere."""
    return _ENVIRONMENT.get_template("report.html").render(page=page)
