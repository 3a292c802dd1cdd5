"""Text files: which encoding, and what structure plain text and Markdown carry. Pure."""

import re
from collections.abc import Callable

from store.errors import IngestError

__all__ = ["decoded", "outside_fences", "plain_markdown", "tidy_markdown"]

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f]")
_CJK = re.compile("[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
_OTHER = re.compile("[^\x00-\x7f]")


def decoded(data: bytes) -> str:
    """The text of a file in UTF-8, UTF-16 with its mark, or GB18030. Line ends become \\n.

    Raises `IngestError("not_text")`: for anything else, and for files that are no text.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _unified(_strictly(data, encoding))
    if b"\0" in data:
        raise IngestError("not_text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = _strictly(data, "gb18030")
        # GB18030 reads nearly any bytes; what it makes of Latin-1 or of a picture is no Chinese.
        if len(_CJK.findall(text)) < 0.8 * len(_OTHER.findall(text)):
            raise IngestError("not_text") from None
    return _unified(text)


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise IngestError("not_text") from error


def _unified(text: str) -> str:
    if len(_CONTROL.findall(text)) > 0.01 * len(text):
        raise IngestError("not_text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- Markdown --------------------------------------------------------------------------------------------------

_FRONT = re.compile(r"\A(?:---|\+\+\+)[ \t]*\n(.*?)\n(?:---|\+\+\+|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_KEY = re.compile(r"^[\w.-]+[ \t]*[:=]", re.MULTILINE)
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
# Code spans are matched first, so that a comment inside one stays.
_COMMENT = re.compile(
    r"(?P<code>(?<!`)(`+)(?!`)(?:(?!\n\s*\n).)*?(?<!`)\2(?!`))|<!--(?! page \d+ -->).*?-->", re.DOTALL
)


def tidy_markdown(text: str) -> tuple[str, str]:
    """Markdown without front matter and comments, and the title its front matter gives ("" where none)."""
    title = ""
    front = _FRONT.match(text)
    if front and _KEY.search(front[1]):
        named = _TITLE.search(front[1])
        title = named[1].strip("\"'") if named else ""
        text = text[front.end() :]
    return outside_fences(text, _without_comments), title


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with `change` applied to everything but its fenced code."""
    parts: list[str] = []
    at = 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    parts.append(change(text[at:]))
    return "".join(parts)


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match["code"] or "", text) if "<!--" in text else text


# --- plain text --------------------------------------------------------------------------------------------------

_CHAPTER = re.compile(r"^第\s*[零〇一二两三四五六七八九十百\d]+\s*([编章节])(?![款项的])[\s：:]?.{0,38}$")
_LEVELS = {"编": 1, "章": 2, "节": 3}
_RULE = re.compile(r"^[-=_*~]{3,}$")
_CODE = re.compile(r" {4,}|\t")


def plain_markdown(text: str) -> tuple[str, str]:
    """Plain text as Markdown that says the same, and its title: a short first line that stands alone ("" if none)."""
    lines = [line.rstrip() for line in text.split("\n")]
    title = _first_line(lines)
    out: list[str] = []
    for line in lines:
        chapter = _CHAPTER.match(line.strip())
        if chapter:
            out += ["", f"{'#' * _LEVELS[chapter[1]]} {line.strip()}", ""]
        elif _RULE.match(line.strip()):
            out += ["", line.strip()]  # alone, or it would make the line above it a heading
        elif line.startswith("\u3000"):
            out += ["", line.strip()]  # Chinese typesetting begins a paragraph with two blanks
        elif _CODE.match(line):
            out.append(line.strip())  # four blanks would make it code
        else:
            out.append(line)
    return "\n".join(out), title


def _first_line(lines: list[str]) -> str:
    filled = [(at, line.strip()) for at, line in enumerate(lines) if line.strip()]
    if len(filled) < 2:
        return ""
    (at, first), (following, _) = filled[:2]
    alone = following > at + 1 or bool(_CHAPTER.match(filled[1][1]))
    short = len(first) <= 60 and not re.search(r"[。！？；，.!?;,:：]$", first)
    return first if alone and short and not _CHAPTER.match(first) else ""
