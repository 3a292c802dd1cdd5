"""From Markdown that somebody else wrote to HTML that is safe to show. Pure.

HTML in the source is text, links and images stay literal, and no attribute comes from the source: the only
links on the page are those the citation builder makes here (invariant 8). The policy of the pages allows no
inline style, so table alignment becomes a class.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

MARK = re.compile(r"\[(\d{1,3})\]")
# CommonMark leaves `**重点：**后文` alone: a closing mark between punctuation and a letter closes nothing, and
# Chinese has no space there. What is left of such pairs in plain text becomes bold here.
LEFT_BOLD = re.compile(r"\*\*(?=\S)([^*]+?)(?<=\S)\*\*")
FIRST_HEADING = 4  # below the page's, the question's and the section's own headings
LAST_HEADING = 6
MIN_SHARED, MAX_SHARED = 8, 1_000  # `ingest.overlap_characters` is at most 1,000


@dataclass(frozen=True, slots=True)
class Cite:
    """Where a citation mark leads: `href` on this site (empty while the answer is still arriving), and the
    sentence a screen reader says for it."""

    href: str
    label: str


def markdown(text: str, cites: Mapping[int, Cite] | None = None) -> Markup:
    """Render `text`. A mark like [1] becomes a link where `cites` has its number and stays as it is where not
    (invariant 7: no number without a passage)."""
    tokens = _PARSER.parse(text)
    for token in tokens:
        _outer(token)
        if token.children:
            token.children = [made for child in token.children for made in _inline(child, cites or {})]
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))  # noqa: S704 - the property test holds it


def plain(text: str) -> Markup:
    """Somebody's own words: as they were typed, line breaks kept by the style sheet."""
    return escape(text)


def excerpt(text: str, longest: int) -> str:
    """The beginning of `text` in one line of at most `longest` characters, an ellipsis where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def around(texts: Sequence[str], focus: int) -> list[str]:
    """The chunks of a section as one reading text: neighbours share their edges, and what the chunk at `focus`
    (or one nearer to it) already shows is dropped from the others."""
    cut = list(texts)
    for position in range(focus - 1, -1, -1):
        cut[position] = texts[position][
            : len(texts[position]) - _shared(texts[position], texts[position + 1])
        ]
    for position in range(focus + 1, len(texts)):
        cut[position] = texts[position][_shared(texts[position - 1], texts[position]) :]
    return cut


def _shared(before: str, after: str) -> int:
    """Characters that end `before` and begin `after`; fewer than MIN_SHARED are a coincidence."""
    longest = min(len(before), len(after), MAX_SHARED)
    return next((n for n in range(longest, MIN_SHARED - 1, -1) if before.endswith(after[:n])), 0)


def _outer(token: Token) -> None:
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1]) + FIRST_HEADING - 1, LAST_HEADING)}"
    style = str(token.attrs.pop("style", ""))
    if style.startswith("text-align:"):
        token.attrs["class"] = f"align-{style.removeprefix('text-align:')}"
    token.info = ""  # the language of a code block would become a class name


def _inline(token: Token, cites: Mapping[int, Cite]) -> Iterable[Token]:
    if token.type != "text":
        return [token]
    return [made for piece in _bold(token.content) for made in _marks(piece, cites)]


def _bold(text: str) -> Iterable[Token]:
    end = 0
    for match in LEFT_BOLD.finditer(text):
        yield _text(text[end : match.start()])
        yield Token("strong_open", "strong", 1)
        yield _text(match.group(1))
        yield Token("strong_close", "strong", -1)
        end = match.end()
    yield _text(text[end:])


def _marks(token: Token, cites: Mapping[int, Cite]) -> Iterable[Token]:
    if token.type != "text":
        yield token
        return
    end = 0
    for match in MARK.finditer(token.content):
        cite = cites.get(int(match.group(1)))
        if cite is None:
            continue
        yield _text(token.content[end : match.start()].rstrip(" "))
        yield Token("citation", "", 0, content=match.group(1), meta={"cite": cite})
        end = match.end()
    yield _text(token.content[end:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _citation(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    number, cite = int(tokens[index].content), tokens[index].meta["cite"]
    if not cite.href:
        return str(Markup('<span class="cite">{}</span>').format(number))
    return str(
        Markup(
            '<a class="cite" href="{href}" hx-get="{href}" hx-target="#panel" hx-swap="innerHTML"'
            ' aria-label="{label}">{number}</a>'
        ).format(href=cite.href, label=cite.label, number=number)
    )


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["link", "image", "autolink", "reference", "html_inline", "html_block"])
    parser.add_render_rule("citation", _citation)
    return parser


_PARSER = _parser()
