"""Where a text may be cut: clauses, blocks, rows, sentences, words, characters, in that order. Pure."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from store.ingest.structure import Block

__all__ = ["SOFT", "Cutter", "between_characters", "first_end", "last_end"]

# A numbered clause opens a thought of its own: 第三条, 3.2, § 7, Article 4, 一、 （二）.
_CLAUSE_START = (
    r"(?:[-*+]\s+|\*\*|>\s*)*(?:第\s*[零〇一二两三四五六七八九十百千\d.]+\s*[编章节条款]|\d{1,3}(?:\.\d{1,3})+(?![\d%])"
    r"|§\s*\d|(?:Article|Section|Clause)\s+\d|[一二三四五六七八九十]{1,3}、|[（(][一二三四五六七八九十]{1,3}[）)])"
)
_CLAUSE = re.compile(_CLAUSE_START)
# Inside a paragraph only after a sentence's end: a wrapped line may begin with "3.5 million" by chance.
_CLAUSE_LINE = re.compile(r"(?<=[。！？；：.!?:;])\n[ \t\u3000]*(?=" + _CLAUSE_START + ")")
_SENTENCE = re.compile(
    r"(?:[。！？；?]+|!+(?!\[)|…{2}|(?<![A-Z\s])(?<!\be\.g)(?<!\bi\.e)(?<!\bNo)(?<!\bvs)\.(?=\s))"
    r"[\"'”’」』）)\]]*[ \t]*\n*"
    r"|\n(?=[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t])|(?:  |\\)\n"
)
SOFT = re.compile(r"[，、,:：;|][ \t]*|\s+")
_LINE = re.compile(r"\n+")
_JOINERS = "\u200d\ufe0e\ufe0f"  # zero-width joiner, variation selectors


def last_end(pattern: re.Pattern[str], text: str, low: int, high: int) -> int:
    """The latest end of a match in (low, high]; 0 where there is none."""
    found: int = 0
    for match in pattern.finditer(text, low, high):
        if low < match.end() <= high:
            found = match.end()
    return found


def first_end(pattern: re.Pattern[str], text: str, low: int, high: int) -> int:
    """The earliest end of a match in [low, high); 0 where there is none."""
    for match in pattern.finditer(text, max(0, low - 1), high):
        if low <= match.end() < high:
            return match.end()
    return 0


def _joins(character: str) -> bool:
    return bool(unicodedata.combining(character)) or character in _JOINERS


def between_characters(text: str, at: int, low: int) -> int:
    """`at`, or a little before it, so that no accent or emoji part is torn from what it belongs to."""
    while low + 1 < at < len(text) and (_joins(text[at]) or text[at - 1] == "\u200d"):
        at -= 1
    return at


class Cutter:
    """Chooses the cuts of one run of blocks, from the first one's start to `end`."""

    def __init__(self, text: str, blocks: Sequence[Block], end: int, size: int) -> None:
        self.text = text
        self.end = end
        self.size = size
        self.starts: list[int] = []  # of blocks, and of numbered clauses inside them
        self.clauses: set[int] = set()
        self.rows: list[int] = []  # where a table longer than a chunk may be cut
        self.headers: dict[int, str] = {}
        self.spans: list[tuple[int, int]] = []  # never cut inside, unless the model's window asks for it
        ends = [block.start for block in blocks[1:]] + [end]
        for block, following in zip(blocks, ends, strict=True):
            self._add(block, following)
        self.span_starts = [start for start, _ in self.spans]

    def _add(self, block: Block, end: int) -> None:
        self.starts.append(block.start)
        if block.kind == "text":
            lines = [match.end() for match in _CLAUSE_LINE.finditer(self.text, block.start, end)]
            self.starts.extend(lines)
            self.clauses.update(lines)
            if _CLAUSE.match(self.text, block.start):
                self.clauses.add(block.start)
            return
        if block.kind == "fence" or len(self.text[block.start : block.end].rstrip()) <= self.size:
            self.spans.append((block.start, end))
            return
        bounds = [block.start, *block.rows, end]
        self.spans.extend(pairwise(bounds))
        self.rows.extend(block.rows)
        self.headers.update(dict.fromkeys(block.rows, block.header))

    def cut(self, start: int, high: int) -> int:
        """Where the piece that begins at `start` ends: at or before `high`, or behind the span that begins at
        `start` and is longer."""
        if high >= self.end:
            return self.end
        # A rest of a few words would make a poor passage: leave it a quarter.
        high = max(start + 1, min(high, self.end - (high - start) // 4))
        while self.text[high : high + 1].isspace() and high < self.end:
            high += 1
        middle, least = start + (high - start) // 2, start + (high - start) // 8
        span = self._span(high)
        if span and span[0] <= start:
            return span[1]
        return (
            self._block(middle, high, clause=True)
            or self._block(middle, high)
            or self._natural(middle, high)
            or self._block(least, middle)
            or self._natural(least, middle)
            or (span[0] if span else 0)
            or self._soft(middle, high)
            or self._soft(start, middle)
            or between_characters(self.text, high, start)
        )

    def force(self, start: int, high: int) -> int:
        """The same where a table row or a code block is longer than the model reads: by line, then as prose."""
        if high >= self.end:
            return self.end
        high = max(start + 1, high)
        middle = start + (high - start) // 2
        return (
            last_end(_LINE, self.text, middle, high)
            or last_end(_SENTENCE, self.text, middle, high)
            or last_end(SOFT, self.text, middle, high)
            or between_characters(self.text, high, start)
        )

    def overlap(self, previous: int, start: int, limit: int) -> int:
        """Where the repetition before `start`, at most `limit` characters, begins; `start` where there is none.

        It reaches back over text only, into no table or fence, not before `previous`, and begins with a sentence
        where one fits.
        """
        low = max(start - max(0, limit), previous)
        at = bisect_left(self.span_starts, start)
        if at:
            low = max(low, self.spans[at - 1][1])
        if low >= start or start in self.headers:
            return start
        last = low + len(self.text[low:start].rstrip())
        if low > previous:
            low = first_end(_SENTENCE, self.text, low, last) or first_end(SOFT, self.text, low, last) or low
        while low < start and (self.text[low].isspace() or unicodedata.combining(self.text[low])):
            low += 1
        return low

    def _span(self, offset: int) -> tuple[int, int] | None:
        """The span that a cut at `offset` would break."""
        at = bisect_left(self.span_starts, offset)
        return self.spans[at - 1] if at and self.spans[at - 1][1] > offset else None

    def _block(self, low: int, high: int, *, clause: bool = False) -> int:
        """The latest block start in (low, high]; 0 where there is none."""
        for at in range(bisect_right(self.starts, high) - 1, -1, -1):
            if self.starts[at] <= low:
                break
            if not clause or self.starts[at] in self.clauses:
                return self.starts[at]
        return 0

    def _natural(self, low: int, high: int) -> int:
        """The latest table row or sentence end in (low, high]; 0 where there is none."""
        at = bisect_right(self.rows, high)
        row = self.rows[at - 1] if at and self.rows[at - 1] > low else 0
        sentence = last_end(_SENTENCE, self.text, low, high)
        return max(row, 0 if self._span(sentence) else sentence)

    def _soft(self, low: int, high: int) -> int:
        at = last_end(SOFT, self.text, low, high)
        return 0 if self._span(at) else at
