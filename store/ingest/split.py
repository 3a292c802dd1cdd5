"""Documents into chunks: by structure, by character, or by question and answer. Pure.

Every chunk is a slice of the document's text, so nothing is lost and nothing invented; what a chunk repeats (the
overlap inside one over-long section, a table's header) stands first and is counted in `Chunk.repeated`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from store.chunks import embedding_text
from store.ingest.cuts import SOFT, Cutter, between_characters, first_end, last_end
from store.ingest.structure import Block, Outline, Section, outline

__all__ = ["Chunk", "Profile", "SplitSettings", "guess_profile", "split"]

Profile = Literal["structured", "messages", "faq"]


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How long chunks are. `size` and `overlap` are characters of the chunk's text, `window` the tokens that the
    embedding model reads, counted by `count` over title, headings and text; None: no window."""

    size: int = 400
    overlap: int = 80
    window: int | None = None
    count: Callable[[str], int] = field(default=len)
    _costs: "_Costs" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.overlap * 2 < self.size:
            raise ValueError("overlap must be less than half the size")
        if self.window is not None and self.window < 128:
            raise ValueError("title and headings take up to 200 characters: a window needs 128 tokens")
        object.__setattr__(self, "_costs", _costs(self.count))

    def fits(self, text: str, share: float = 1.0) -> bool:
        """Whether `text` takes at most `share` of the window."""
        return self.excess(text, share) == 0.0

    def excess(self, text: str, share: float = 1.0) -> float:
        """How many times longer than `share` of the window `text` is; 0.0 where it fits."""
        if self.window is None:
            return 0.0
        window = self.window * share
        # No tokenizer makes more tokens than bytes, nor more of a text than of its characters one by one (0.03 ms;
        # counting takes 0.33 ms for 500 Chinese characters).
        if len(text.encode("utf-8", "surrogatepass")) <= window or self._costs.of(text) <= window:
            return 0.0
        counted = self.count(text)
        return counted / window if counted > window else 0.0


class _Costs(dict[str, int]):
    """The tokens of each character alone, asked for once; `of` is never less than what the text takes."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._stop = count("。")

    def __missing__(self, character: str) -> int:
        cost = self[character] = max(1, self._count("。" + character) - self._stop)
        return cost

    def of(self, text: str) -> int:
        return self._stop + sum(map(self.__getitem__, text))


@lru_cache(maxsize=8)
def _costs(count: Callable[[str], int]) -> _Costs:
    """One table a tokenizer, for all documents: a new one takes .01 s a document, an eighth of splitting it."""
    return _Costs(count)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage to be. `page` is where its own text begins, 1-based; `repeated` counts the leading characters of
    `text` that stand in the chunk before it or in its table's header."""

    text: str
    heading_path: tuple[str, ...]
    page: int | None
    repeated: int = 0


# Blank lines and thematic breaks alone are no passage.
_NOTHING = re.compile(r"(?:\s|^[ \t>]*(?:[-*_][ \t]*){3,}$)*", re.MULTILINE)


# --- the three profiles --------------------------------------------------------------------------------------


def split(markdown: str, title: str, settings: SplitSettings, profile: Profile = "structured") -> list[Chunk]:
    """The chunks of `markdown`, in order.

    `structured`: headings first and never across them, then clauses and paragraphs, then sentences, characters
    last; a table row or code fence is cut only where it alone is longer than the window. `messages`: by
    character. `faq`: one question with its answer a chunk.
    """
    source = outline(markdown)
    if profile == "messages":
        pieces = _by_character(source, title, settings)
    elif profile == "faq":
        pieces = _by_pair(source, title, settings)
    else:
        pieces = (
            piece for section in source.sections for piece in _by_structure(source, section, title, settings)
        )
    return [piece for piece in pieces if not _NOTHING.fullmatch(piece.text)]


def _path(section: Section, title: str) -> tuple[str, ...]:
    """The headings without the first one where that is the document's title."""
    return section.path[1:] if section.path[:1] == (title,) else section.path


def _by_structure(source: Outline, section: Section, title: str, settings: SplitSettings) -> Iterator[Chunk]:
    path = _path(section, title)
    if not section.blocks:
        if section.leaf and section.path:
            yield Chunk(section.path[-1], path, source.page(section.start))
        return
    yield from _pieces(source, section.blocks, section.end, settings, (title, path))


def _pieces(
    source: Outline,
    blocks: Sequence[Block],
    end: int,
    settings: SplitSettings,
    place: tuple[str, tuple[str, ...]],
) -> Iterator[Chunk]:
    """One run of blocks, cut where it is longer than `settings.size`; consecutive pieces overlap."""
    title, path = place
    text, start = source.text, blocks[0].start
    end = start + len(text[start:end].rstrip())
    cutter = Cutter(text, blocks, end, settings.size)
    previous = start
    while start < end:
        header = cutter.headers.get(start)
        lead = header or text[cutter.overlap(previous, start, settings.overlap) : start]
        stop = cutter.cut(start, start + max(1, settings.size - len(lead)))
        if not header:  # a table or fence that fits alone leaves less room to repeat
            room = settings.size - len(text[start:stop].rstrip())
            lead = text[cutter.overlap(previous, start, min(room, settings.overlap)) : start]
        if not settings.fits(embedding_text(title, path, lead + text[start:stop])):
            lead = lead if settings.fits(embedding_text(title, path, lead), share=0.5) else ""
            stop = _within_window(cutter, start, stop, settings, embedding_text(title, path, lead))
        own = text[start:stop].rstrip()
        if own:
            yield Chunk(lead + own, path, _page(source, start), len(lead))
        previous, start = start, stop
        while start < end and text[start] == "\n":
            start += 1


_WORD = re.compile(r"\w")


def _page(source: Outline, start: int) -> int | None:
    """The page of the first letter from `start` on: in a table row the anchor stands behind the first bar."""
    letter = _WORD.search(source.text, start)
    return source.page(letter.start() if letter else start)


def _within_window(cutter: Cutter, start: int, stop: int, settings: SplitSettings, prefix: str) -> int:
    """A cut after `start` so that prefix and piece fit the window; at least one character."""
    # A token is rarely longer than eight characters; counting a 100 kB code block whole would take most of the time.
    stop = min(stop, start + 8 * (settings.window or 0))
    while stop > start + 1:
        excess = settings.excess(f"{prefix}{cutter.text[start:stop]}")
        if not excess:
            break
        room = max(1, int((stop - start) * min(0.9, 0.95 / excess)))
        stop = cutter.force(start, start + room)
    return stop


def _by_character(source: Outline, title: str, settings: SplitSettings) -> Iterator[Chunk]:
    """Windows of `size` characters that repeat the last `overlap`, cut between words."""
    text = source.text
    end = len(text.rstrip())
    start = previous = len(text) - len(text.lstrip())
    while start < end:
        low = max(previous, start - settings.overlap) if start > previous else start
        if low > previous:
            low = first_end(SOFT, text, low, start) or low
        stop = min(end, low + settings.size)
        while True:
            if stop < end:
                stop = last_end(SOFT, text, max(start, stop - settings.size // 5), stop) or stop
                stop = between_characters(text, stop, start)
            excess = settings.excess(embedding_text(title, (), text[low:stop]))
            if not excess or stop <= start + 1:
                break
            low = start
            stop = start + max(1, int((stop - start) * min(0.9, 0.95 / excess)))
        yield Chunk(text[low:stop].rstrip(), (), _page(source, start), start - low)
        previous, start = start, stop


# --- questions and answers -----------------------------------------------------------------------------------

_QUESTION = re.compile(
    r"^[ \t]*(?:[-*>]\s+)?(?:\*\*)?(?:Q(?:uestion)?|问题?|问)\s*\d{0,3}\s*[:：.、](?=.*\S)",
    re.MULTILINE | re.IGNORECASE,
)
_QUESTION_LIMIT = 100


def _by_pair(source: Outline, title: str, settings: SplitSettings) -> Iterator[Chunk]:
    """Pairs by their marks (Q: …, 问：…) or, where a heading is the question, by heading; other text by structure."""
    for section in source.sections:
        marks = [match.start() for match in _QUESTION.finditer(source.text, section.start, section.end)]
        if not marks:
            asks = bool(section.path) and section.path[-1].rstrip().endswith(("?", "？"))
            if asks and section.blocks:
                yield from _pair(source, section, (section.blocks[0].start, section.end), title, settings)
            else:
                yield from _by_structure(source, section, title, settings)
            continue
        if before := _clipped(section, section.start, marks[0]):
            yield from _pieces(source, before, marks[0], settings, (title, _path(section, title)))
        for bounds in pairwise([*marks, section.end]):
            yield from _pair(source, section, bounds, title, settings)


def _pair(
    source: Outline, section: Section, bounds: tuple[int, int], title: str, settings: SplitSettings
) -> Iterator[Chunk]:
    """One pair, whole; where the window is too small, its later pieces carry the question as their last heading."""
    start, end = bounds
    path = _path(section, title)
    question = " ".join(source.text[start:end].split("\n", 1)[0].split())[:_QUESTION_LIMIT]
    place = (title, (*path, question))
    whole = replace(settings, size=max(end - start, settings.size))
    for number, piece in enumerate(_pieces(source, _clipped(section, start, end), end, whole, place)):
        yield piece if number else replace(piece, heading_path=path)


def _clipped(section: Section, start: int, end: int) -> list[Block]:
    """The section's blocks between `start` and `end`, the ones cut there as text."""
    found = []
    for block in section.blocks:
        if block.start >= start and block.end <= end:
            found.append(block)
        elif block.start < end and block.end > start:
            found.append(Block(max(block.start, start), min(block.end, end)))
    return found


# --- which profile -------------------------------------------------------------------------------------------

_MAIL = re.compile(r"^(?:From|To|Subject|Sent|发件人|收件人|主题|发送时间)\s*[:：]", re.MULTILINE)
_CHAT = re.compile(
    r"^\W{0,2}(?:\d{4}[-/年]\d{1,2}[-/月]\d{1,2}日?[ T])?\d{1,2}:\d{2}(?::\d{2})?\b", re.MULTILINE
)
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_ENOUGH = 3


def guess_profile(markdown: str) -> Profile:
    """The profile of a document whose collection sets none, by the marks it carries."""
    headings = len(_HEADING.findall(markdown))
    questions = len(_QUESTION.findall(markdown))
    asking = len(re.findall(r"^#{1,6} .*[?？]\s*$", markdown, re.MULTILINE))
    if questions >= _ENOUGH or (asking >= _ENOUGH and asking * 2 >= headings):
        return "faq"
    if headings < _ENOUGH and (
        len(_MAIL.findall(markdown)) >= _ENOUGH or len(_CHAT.findall(markdown)) >= 2 * _ENOUGH
    ):
        return "messages"
    return "structured"
