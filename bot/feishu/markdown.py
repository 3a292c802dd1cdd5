"""From Markdown that somebody else wrote to the elements of a card, and those into cards of bearable size. Pure.

Everything that stands between marks of ours is escaped, so that an `<at id=all>` or an address in a document stays
the letters it is (invariant 8): card Markdown knows mentions, links, pictures and emoji codes
(open.feishu.cn/document/feishu-cards/card-json-v2-components/content-components/rich-text).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Json = dict[str, Any]

JOINER = "\u2060"  # word joiner: invisible, and no address or mention any more
HAIR = "\u200a"  # a space that CommonMark counts as one and nobody sees
# 30 KB a card, counted in UTF-8 as JSON in a JSON string (230025); room is left for what surrounds the elements.
BUDGET = 26_000
COMPONENTS = 150  # of 200
TABLES = 3  # the page says 5; others were refused a fourth (sipeed/picoclaw#1727, openclaw-lark#53)
ROWS, COLUMNS = 100, 20
LEAF = 1_500  # letters of one run
SEPARATOR = 16  # bytes between two elements or runs, at most
DEEPEST = 4
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]")
CUT = re.compile(r"[\s。！？；，.!?;,][^\s。！？；，.!?;,]*$")
# What CommonMark leaves of `**重点：**后文`: a closing mark between punctuation and a letter closes nothing.
LEFT_BOLD = re.compile(r"\*\*(?=\S)([^*]+?)(?<=\S)\*\*")
ADDRESS = re.compile(
    r"(?<=\w):(?=//)|(?<=mailto):|(?<=\bwww)\.(?=\w)|(?<=[\w.+-])@(?=[\w-]+\.\w)", re.IGNORECASE
)
# In code, where no entity is decoded: what a client might parse there all the same.
TAG = re.compile(r"<(?=\s*/?\s*[a-z])|\](?=\()", re.IGNORECASE)
SPECIAL = {ord(letter): f"&#{ord(letter)};" for letter in "<>*_~`[]|$\\"} | {ord("&"): "&amp;"}
EMOJI = re.compile(r":(?=[A-Za-z_]\w*:)")
LEAD = re.compile(r"^(\s*)(?:([#+-])|(\d{1,9})([.)]))(?=\s|$|#|-)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """Letters of one style: any of b, i, s, c (bold, italic, struck, code)."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """What stands by itself: `kind` is text, quote, item, code, rule or table. `mark` leads an item's first line."""

    kind: str
    runs: tuple[Run, ...] = ()
    mark: str = ""
    depth: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def size(value: Any) -> int:
    """Bytes that `value` takes in a request: JSON in a JSON string."""
    packed = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(packed, ensure_ascii=False).encode()) - 2


def bare(text: str) -> str:
    """`text` for a place that parses nothing but addresses: plain_text and the cells of tables."""
    return ADDRESS.sub(lambda match: _joined(match.group()), CONTROL.sub("", text))


def _joined(letter: str) -> str:
    return f"{JOINER}{letter}" if letter == "@" else f"{letter}{JOINER}"


def escaped(text: str) -> str:
    """`text` for card Markdown: nothing in it is a mark, a mention or a link, and nothing is lost."""
    made = bare(text).translate(SPECIAL)
    made = LEAD.sub(_led, made)
    return EMOJI.sub("&#58;", made)


def _led(match: re.Match[str]) -> str:
    space, mark, number, dot = match.groups()
    return f"{space}&#{ord(mark)};" if mark else f"{space}{number}&#{ord(dot)};"


# --- Markdown to units


def units(text: str) -> list[Unit]:
    root = SyntaxTreeNode(_PARSER.parse(text))
    return [unit for node in root.children for unit in _block(node)]


def _block(node: SyntaxTreeNode, depth: int = 0) -> list[Unit]:
    if node.type in ("fence", "code_block"):
        code = CONTROL.sub("", node.content.rstrip("\n"))
        return [Unit("code", (Run(code),))] if code.strip() else []
    if node.type == "blockquote":
        runs = tuple(_merged(_flat(node.children)))
        return [Unit("quote", runs)] if runs else []
    if node.type in ("bullet_list", "ordered_list"):
        return _list(node, depth)
    if node.type == "table":
        return _table(node)
    if node.type == "hr":
        return [Unit("rule")]
    runs = tuple(_merged(_inline(node, "b" if node.type == "heading" else "")))
    return [Unit("text", runs)] if runs else []


def _list(node: SyntaxTreeNode, depth: int) -> list[Unit]:
    found: list[Unit] = []
    for number, item in enumerate(node.children):
        runs: list[Run] = []
        rest: list[Unit] = []
        for child in item.children:
            if child.type in ("bullet_list", "ordered_list"):
                rest += _list(child, depth + 1)
            elif child.type in ("paragraph", "heading") and not rest:
                runs += [Run("\n")] if runs else []
                runs += _inline(child, "b" if child.type == "heading" else "")
            else:
                rest += _block(child)
        mark = "- " if node.type == "bullet_list" else f"{int(node.attrs.get('start', 1)) + number}. "
        found.append(Unit("item", tuple(_merged(runs)), mark, min(depth, DEEPEST)))
        found += rest
    return found


def _inline(node: SyntaxTreeNode, style: str) -> Iterator[Run]:
    for child in node.children:
        if child.type == "inline":
            yield from _inline(child, style)
        elif child.type in ("strong", "em", "s"):
            yield from _inline(child, _with(style, {"strong": "b", "em": "i", "s": "s"}[child.type]))
        elif child.type == "code_inline":
            yield Run(child.content, "c")
        elif child.type in ("softbreak", "hardbreak"):
            yield Run("\n", style)
        elif child.type == "text":
            yield from _bold(child.content, style)
        else:
            yield Run(child.content, style)


def _bold(text: str, style: str) -> Iterator[Run]:
    end = 0
    for match in LEFT_BOLD.finditer(text):
        yield Run(text[end : match.start()], style)
        yield Run(match.group(1), _with(style, "b"))
        end = match.end()
    yield Run(text[end:], style)


def _with(style: str, mark: str) -> str:
    return style if mark in style else "".join(sorted(style + mark))


def _merged(runs: Iterable[Run]) -> Iterator[Run]:
    last: Run | None = None
    for run in runs:
        text = CONTROL.sub("", run.text)
        if not text:
            continue
        if last is not None and last.style == run.style:
            last = replace(last, text=last.text + text)
            continue
        if last is not None:
            yield last
        last = replace(run, text=text)
    if last is not None:
        yield last


def _flat(nodes: Sequence[SyntaxTreeNode]) -> Iterator[Run]:
    """Blocks as lines of one quote."""
    for position, node in enumerate(nodes):
        if position:
            yield Run("\n")
        for number, unit in enumerate(_block(node)):
            if number:
                yield Run("\n")
            yield Run("    " * unit.depth + unit.mark)
            yield from (unit.runs if unit.kind != "table" else _lines(unit.rows))


def _table(node: SyntaxTreeNode) -> list[Unit]:
    rows = [tuple(_text(cell) for cell in row.children) for part in node.children for row in part.children]
    return [Unit("table", rows=tuple(rows))] if rows else []


def _text(node: SyntaxTreeNode) -> str:
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    return node.content if not node.children else "".join(_text(child) for child in node.children)


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[Run]:
    """A table as lines: its head in bold before each cell."""
    head, *body = rows
    for number, row in enumerate(body or [head]):
        yield Run("\n" * bool(number))
        for at, (name, cell) in enumerate(zip(head, row, strict=False)):
            yield Run(" · " * bool(at))
            yield Run(f"{name.strip()}: " if body and name.strip() else "", "b")
            yield Run(cell)


# --- units to elements


def content(unit: Unit) -> str:
    """One unit as card Markdown."""
    if unit.kind == "code":
        code = _code_letters("".join(run.text for run in unit.runs))
        return f"```\n{code.replace('```', f'``{JOINER}`')}\n```"
    written = _written(unit.runs)
    if unit.kind == "quote":
        return "\n".join(f"> {line}" for line in written.split("\n"))
    indent = "    " * unit.depth
    return f"{indent}{unit.mark}{written}".replace("\n", f"\n{indent}") if unit.kind == "item" else written


def _written(runs: Sequence[Run]) -> str:
    made = ""
    for number, run in enumerate(runs):
        following = runs[number + 1].text[:1] if number + 1 < len(runs) else ""
        made += _styled(run, made[-1:], following)
    return made


def _styled(run: Run, before: str, after: str) -> str:
    if run.style == "c":
        return _code(run.text)
    text = escaped(run.text)
    inner = text.strip()
    if not run.style or not inner or "\n" in inner:
        # A style over a line's end would be shown as marks: each line by itself.
        if run.style and inner:
            return "\n".join(_styled(replace(run, text=line), "", "") for line in run.text.split("\n"))
        return text
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    mark = "".join({"b": "**", "i": "*", "s": "~~"}[name] for name in run.style)
    opened = HAIR if not lead and before.isalnum() and not inner[0].isalnum() else ""
    closed = HAIR if not tail and after.isalnum() and not inner[-1].isalnum() else ""
    return f"{lead}{opened}{mark}{inner}{mark[::-1]}{closed}{tail}"


def _code(text: str) -> str:
    if "`" in text or "\n" in text or not text.strip():
        return escaped(text)
    return f"`{_code_letters(text)}`"


def _code_letters(text: str) -> str:
    return TAG.sub(lambda match: f"{match.group()}{JOINER}", bare(text))


def _as_table(unit: Unit) -> Json:
    head, *rows = unit.rows
    names = [f"c{number}" for number in range(len(head))]
    return {
        "tag": "table",
        "page_size": min(10, max(1, len(rows))),
        "columns": [
            {"name": name, "display_name": bare(title).strip() or " ", "data_type": "text", "width": "auto"}
            for name, title in zip(names, head, strict=True)
        ],
        "rows": [{name: bare(cell) or " " for name, cell in zip(names, row, strict=False)} for row in rows],
    }


def element(unit: Unit) -> Json:
    if unit.kind == "table":
        return _as_table(unit)
    if unit.kind == "rule":
        return {"tag": "hr"}
    return {"tag": "markdown", "content": content(unit) or " "}


def counted(value: Any) -> int:
    """Components, as Feishu counts them: whatever has a tag."""
    if isinstance(value, dict):
        return ("tag" in value) + sum(counted(item) for item in value.values())
    return sum(counted(item) for item in value) if isinstance(value, list) else 0


# --- pages


def pages(found: Sequence[Unit], room: int = BUDGET, tables: int = TABLES) -> list[list[Json]]:
    """The elements of one or more cards, each of at most `room` bytes, with at most `tables` tables; further tables
    become lines. Nothing is left out."""
    made: list[list[Json]] = [[]]
    last, used, parts = "", 0, 0
    for unit in (piece for whole in found for piece in split(whole, room)):
        shown = unit
        if unit.kind == "table" and sum(e["tag"] == "table" for e in made[-1]) >= tables:
            shown = Unit("text", tuple(_merged(_lines(unit.rows))))
        for piece in split(shown, room):
            fresh = element(piece)
            # Added up rather than measured whole: joined elements are never longer than the two apart.
            needs, counts = size(fresh) + SEPARATOR, counted(fresh)
            if made[-1] and (used + needs > room or parts + counts > COMPONENTS):
                made.append([fresh])
                used, parts = needs, counts
            else:
                made[-1] = _added(made[-1], piece, fresh, last)
                used, parts = used + needs, parts + counts
            last = piece.kind
    return [page for page in made if page]


def _added(page: list[Json], unit: Unit, fresh: Json, before: str) -> list[Json]:
    if fresh["tag"] != "markdown" or not page or page[-1]["tag"] != "markdown":
        return [*page, fresh]
    gap = "\n" if unit.kind == before == "item" else "\n\n"
    return [*page[:-1], {"tag": "markdown", "content": f"{page[-1]['content']}{gap}{fresh['content']}"}]


def split(unit: Unit, room: int) -> list[Unit]:
    """`unit` in pieces of at most `room` bytes."""
    if unit.kind == "table":
        return _split_table(unit, room)
    if size(element(unit)) <= room:
        return [unit]
    made: list[Unit] = []
    used = 0
    for run in (piece for whole in unit.runs for piece in _short(whole)):
        needs = size(element(replace(unit, runs=(run,)))) + SEPARATOR
        if made and used + needs <= room:
            made[-1] = replace(made[-1], runs=(*made[-1].runs, run))
            used += needs
        else:
            made.append(replace(unit, runs=(run,), mark=unit.mark if not made else ""))
            used = needs
    return made


def _short(run: Run) -> Iterator[Run]:
    text = run.text
    while len(text) > LEAF:
        match = CUT.search(text[:LEAF])
        end = match.start() + 1 if match and match.start() > LEAF // 2 else LEAF
        yield replace(run, text=text[:end])
        text = text[end:]
    yield replace(run, text=text)


def _split_table(unit: Unit, room: int) -> list[Unit]:
    """Several tables, each under the head; as lines what is too wide or too long for any table."""
    head, *rows = unit.rows
    if len(head) > COLUMNS or not rows or size(element(Unit("table", rows=(head, rows[0])))) > room // 2:
        return split(Unit("text", tuple(_merged(_lines(unit.rows)))), room)
    made: list[Unit] = []
    for row in rows:
        grown = replace(made[-1], rows=(*made[-1].rows, row)) if made and made[-1].kind == "table" else None
        alone = Unit("table", rows=(head, row))
        if grown is not None and len(grown.rows) <= ROWS and size(element(grown)) <= room:
            made[-1] = grown
        elif size(element(alone)) <= room:
            made.append(alone)
        else:
            made += split(Unit("text", tuple(_merged(_lines((head, row))))), room)
    return made


def parser() -> MarkdownIt:
    """CommonMark with tables and strike-through; HTML, links and images stay the letters they are."""
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.disable(["link", "image", "autolink", "reference", "html_inline", "html_block"])
    # An escaped star must not meet LEFT_BOLD, so escapes keep tokens of their own.
    return made.disable("text_join")


_PARSER = parser()
