"""One pdfplumber page into words and tables: letters that are letters, text that stands upright, frames read."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unicodedata import normalize

from pdfminer.layout import LTChar
from pdfplumber.table import merge_edges
from pdfplumber.utils.text import extract_words

from store.ingest.layout import Page, Table, Word
from store.ingest.tables import Box, read_ruled, read_table

__all__ = ["read_page", "readable"]

# A gap of .18 em ends a word; pdfplumber's own three points swallow the spaces of small print.
_WORDS: dict[str, Any] = {
    "x_tolerance_ratio": 0.18,
    "extra_attrs": ["fontname", "size"],
    "return_chars": True,
}
# Charts and maps are made of thousands of strokes; searching them for tables takes minutes and finds none.
_MOST_STROKES = 4_000


def read_page(page: Any, number: int) -> Page:
    """What a pdfplumber page says. Coordinates start at the page's visible corner."""
    page.process_object = _quick(page)
    if _printed_twice(page.chars):
        page = page.dedupe_chars()
    x0, top, x1, bottom = page.bbox
    width, height = float(x1 - x0), float(bottom - top)
    found = page.extract_words(**_WORDS)
    unmapped = sum(len(_GLYPH.findall(word["text"])) for word in found if "(cid:" in word["text"])
    blanks = {(round(c["x1"]), round(c["bottom"])) for c in page.chars if c["text"].isspace()}
    words = list(_words([word for word in found if word["upright"]], x0, top, blanks))
    turned = list(_words(_turned(page), 0.0, 0.0, set()))
    if sum(len(word.text) for word in turned) > sum(len(word.text) for word in words):
        return Page(number, height, width, tuple(turned), (), len(page.images), unmapped)
    tables = _tables(page, [*words, *(_turned_back(word, height) for word in turned)])
    left = tuple(word for word in words if not any(_within(word, table) for table in tables))
    return Page(number, width, height, left, tuple(tables), len(page.images), unmapped)


def _quick(page: Any) -> Callable[[Any], dict[str, Any]]:
    """`page.process_object`, but of a character only what is read here: pdfplumber's own looks into each one's colours
    and attributes, a third of the time that a page takes."""
    general = page.process_object
    (left, top, _, _), height = page.mediabox, page.height

    def process(item: Any) -> dict[str, Any]:
        if type(item) is not LTChar or not isinstance(item.fontname, str):
            found: dict[str, Any] = general(item)
            return found
        above = height - item.y1 + top
        return {
            "object_type": "char",
            "text": item.get_text(),
            "fontname": item.fontname,
            "size": item.size,
            "upright": item.upright,
            "matrix": item.matrix,
            "x0": item.x0 + left,
            "x1": item.x1 + left,
            "top": above,
            "bottom": height - item.y0 + top,
            "doctop": page.initial_doctop + above,
        }

    return process


def _printed_twice(characters: Sequence[Mapping[str, Any]]) -> bool:
    """Bold faked by printing each letter twice, a hair apart."""
    places = {(round(c["x0"] / 2), round(c["top"] / 2), c["text"]) for c in characters}
    return len(places) < 0.9 * len(characters)


def _words(
    found: Sequence[Mapping[str, Any]], left: float, top: float, blanks: set[tuple[int, int]]
) -> Iterator[Word]:
    for word in found:
        painted = word["text"]
        if text := readable(_read_leftward(word["chars"]) if _LEFTWARD.search(painted) else painted):
            x, y = round(word["x0"]), round(word["bottom"])
            yield Word(
                text=text,
                x0=word["x0"] - left,
                x1=word["x1"] - left,
                top=word["top"] - top,
                bottom=word["bottom"] - top,
                size=word["size"],
                bold=_bold(word["fontname"]),
                spaced=any((x + dx, y + dy) in blanks for dx in (0, -1, 1) for dy in (0, -1, 1)),
            )


def _read_leftward(characters: Sequence[Mapping[str, Any]]) -> str:
    """A Hebrew or Arabic word: painted from left to right, glyph by glyph, but for numbers and Latin letters. A
    ligature's letters stand in reading order."""
    parts: list[str] = []
    for character in characters:
        if parts and _LATIN.fullmatch(parts[-1] + character["text"]):
            parts[-1] += character["text"]
        else:
            parts.append(character["text"])
    return "".join(reversed(parts))


def _turned(page: Any) -> list[dict[str, Any]]:
    """Words printed from bottom to top, or top to bottom, as they stand when the page is turned to read them.

    Those of the rarer direction are left out: a page is turned one way.
    """
    left, top, right, bottom = page.bbox
    sides: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for c in page.chars:
        if c["upright"]:
            continue
        upward = c["matrix"][1] > 0
        x = (bottom - c["bottom"], bottom - c["top"]) if upward else (c["top"] - top, c["bottom"] - top)
        y = (c["x0"] - left, c["x1"] - left) if upward else (right - c["x1"], right - c["x0"])
        place = {"x0": x[0], "x1": x[1], "top": y[0], "bottom": y[1], "doctop": y[0]}
        sides[upward].append({**c, **place, "upright": True, "size": c["x1"] - c["x0"]})
    chosen = max(sides.values(), key=len)
    words: list[dict[str, Any]] = extract_words(chosen, **_WORDS) if chosen else []
    return words


def _turned_back(word: Word, height: float) -> Word:
    """Where a word printed upwards stands on the page as it is: for the heads of narrow table columns."""
    return replace(word, x0=word.top, x1=word.bottom, top=height - word.x1, bottom=height - word.x0)


_BOLD = ("bold", "black", "heavy", "demi", "medi", "cmbx", "sfbx", "simhei", "heiti")


def _bold(font: str) -> bool:
    name = font.lower()
    return any(mark in name for mark in _BOLD)


# --- tables ----------------------------------------------------------------------------------------------------


def _tables(page: Any, words: Sequence[Word]) -> list[Table]:
    if not words or not page.edges or len(page.lines) + len(page.rects) + len(page.curves) > _MOST_STROKES:
        return []
    found = [table for grid in _grids(page) if (table := read_table(grid, words))]
    left, top = page.bbox[0], page.bbox[1]
    rules = [
        (edge["x0"] - left, edge["x1"] - left, edge["top"] - top)
        for edge in page.edges
        if edge["orientation"] == "h"
    ]
    for table in read_ruled(rules, words):
        if not any(_overlaps(_box(table), _box(other)) for other in found):
            found.append(table)
    return found


def _grids(page: Any) -> list[list[Box]]:
    """The cells of each framed table, without tables inside tables."""
    left, top = page.bbox[0], page.bbox[1]
    outer: list[Any] = []
    for table in sorted(
        page.find_tables({"explicit_vertical_lines": _open_sides(page)}), key=lambda table: -_area(table.bbox)
    ):
        if not any(_overlaps(table.bbox, other.bbox) for other in outer):
            outer.append(table)
    return [[(a - left, b - top, c - left, d - top) for a, b, c, d in table.cells] for table in outer]


# Rules of one extent that strokes cross: a table, though no stroke may close its sides.
_OPEN_RULES = 3
_OPEN_WIDTH = 120.0
# Strokes closer than this are one, as pdfplumber has it by default.
_SNAP = 3.0


def _open_sides(page: Any) -> list[dict[str, Any]]:
    """The outer strokes that tables are drawn without, along the rules that inner strokes join."""
    edges = merge_edges([edge for edge in page.edges if edge["orientation"]], *[_SNAP] * 4)
    strokes = [edge for edge in edges if edge["orientation"] == "v"]
    rules: dict[tuple[int, int], list[float]] = defaultdict(list)
    for edge in edges:
        if edge["orientation"] == "h" and edge["x1"] - edge["x0"] >= _OPEN_WIDTH:
            rules[round(edge["x0"]), round(edge["x1"])].append(edge["top"])
    sides = []
    for (left, right), tops in rules.items():
        inner = [stroke for stroke in strokes if left + 4 < stroke["x0"] < right - 4]
        for joined in _runs(sorted(tops), inner):
            if len(joined) >= _OPEN_RULES:
                sides += [_stroke(x, joined[0], joined[-1]) for x in (left, right)]
    return sides


def _runs(tops: Sequence[float], inner: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The rules of each table: those that the same stroke reaches, one after the other."""
    found: list[list[float]] = []
    for top in tops:
        last = found[-1][-1] if found else top
        if found and any(s["top"] - _SNAP <= last and top <= s["bottom"] + _SNAP for s in inner):
            found[-1].append(top)
        else:
            found.append([top])
    return found


def _stroke(x: float, top: float, bottom: float) -> dict[str, Any]:
    place = {"x0": x, "x1": x, "top": top, "bottom": bottom, "doctop": top}
    return {"object_type": "line", "width": 0.0, "height": bottom - top, **place}


def _box(table: Table) -> Box:
    return table.x0, table.top, table.x1, table.bottom


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _overlaps(one: Box, other: Box) -> bool:
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across > 1 and down > 1


def _within(word: Word, table: Table) -> bool:
    x, y = (word.x0 + word.x1) / 2, (word.top + word.bottom) / 2
    return table.x0 <= x <= table.x1 and table.top <= y <= table.bottom


# --- letters ---------------------------------------------------------------------------------------------------

# Characters that look like letters but are not: Kangxi radicals and ligatures have compatibility forms, the radicals
# that fonts of simplified Chinese put in place of characters have none.
_LOOKALIKES = re.compile("[\u2e80-\u2fdf\ufb00-\ufdff\ufe70-\ufefc]")
_RADICALS = dict(
    zip(
        "⺠⻁⻄⻅⻆⻉⻋⻓⻔⻘⻙⻚⻛⻜⻢⻣⻤⻥⻦⻨⻩⻬⻮⻰⻳⼾",
        "民虎西见角贝车长门青韦页风飞马骨鬼鱼鸟麦黄齐齿龙龟户",
        strict=True,
    )
)
# Where the usual fonts keep the bullets that their encodings do not name: Helvetica, Wingdings, Symbol.
_BULLETS = frozenset(f"(cid:{glyph})" for glyph in (108, 110, 113, 118, 127, 159, 167, 183, 216, 252))
_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LATIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z.,:/%-]*")
_GLYPH = re.compile(r"\(cid:\d+\)")


def readable(text: str) -> str:
    """A word without glyph numbers (a font's glyphs that map to no character) and with real letters."""
    if "(cid:" in text:
        text = _GLYPH.sub("", text) if text not in _BULLETS else "•"
    if _LOOKALIKES.search(text):
        text = _LOOKALIKES.sub(lambda found: _RADICALS.get(found[0]) or normalize("NFKC", found[0]), text)
    return text.strip()
