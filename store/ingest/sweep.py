"""How well a way of chunking serves questions: which characters of the right excerpts the best passages show. Pure.

Recall, precision and IoU are those of Chroma's chunking evaluation (Smith and Troynikov 2024): every character of
every retrieved passage counts, also those of the wrong document, and what two passages both show counts twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.chunks import embedding_text
from store.ingest.split import Chunk, Profile, SplitSettings, split
from store.ingest.structure import Outline, anchor, outline

__all__ = ["Excerpt", "Piece", "Score", "Span", "first_hit", "pieces", "score"]

Span = tuple[int, int]

# A passage that shows this share of an excerpt answers with it; the rest is a full stop or a blank.
SHOWN = 0.9


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where an answer stands: characters [start, end) of a document's text."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of one of the set's documents: what the model reads, and which characters of the document it shows."""

    document: str
    text: str
    spans: tuple[Span, ...]

    @property
    def length(self) -> int:
        return sum(end - start for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Score:
    """Of one question, in characters: recall, precision, intersection over union."""

    recall: float
    precision: float
    iou: float


def pieces(
    document: str, title: str, text: str, settings: SplitSettings, profile: Profile = "structured"
) -> list[Piece]:
    """The chunks our splitter makes of `text`, with their places in it."""
    source = outline(text)
    found: list[Piece] = []
    at = 0
    for chunk in split(text, title, settings, profile):
        own, at = _place(source.text, chunk, at)
        spans = tuple(_raw(source, span) for span in own)
        found.append(Piece(document, embedding_text(title, chunk.heading_path, chunk.text), spans))
    return found


def _place(text: str, chunk: Chunk, at: int) -> tuple[list[Span], int]:
    """The spans of what a chunk repeats and of its own text, and where the next chunk is to be looked for.

    A heading that stands for its empty section is part of its line, so it is found like any other text.
    """
    own = chunk.text[chunk.repeated :]
    start = text.find(own, at)
    if start < 0:  # trailing blanks inside were normalised: it is where the last one ended
        return [], at
    spans = [(start, start + len(own))]
    lead = chunk.text[: chunk.repeated].rstrip()
    if lead and (before := text.rfind(lead, 0, start)) >= 0:
        spans.insert(0, (before, before + len(lead)))
    return spans, start + len(own)


def _raw(source: Outline, span: Span) -> Span:
    """The same span in the text with its page anchors."""
    start, end = span
    shift = [(offset, len(anchor(page))) for offset, page in source.anchors]
    return (
        start + sum(length for offset, length in shift if offset <= start),
        end + sum(length for offset, length in shift if offset < end),
    )


# --- scores --------------------------------------------------------------------------------------------------


def score(excerpts: Sequence[Excerpt], retrieved: Sequence[Piece]) -> Score:
    """How much of the excerpts the retrieved passages show, and how much else they show."""
    wanted = sum(excerpt.end - excerpt.start for excerpt in excerpts)
    shown = sum(_covered(excerpt, retrieved) for excerpt in excerpts)
    length = sum(piece.length for piece in retrieved)
    return Score(shown / wanted, shown / length if length else 0.0, shown / (length + wanted - shown))


def first_hit(excerpts: Sequence[Excerpt], retrieved: Sequence[Piece]) -> int | None:
    """The 1-based place of the first passage that shows one whole excerpt by itself; None where none does."""
    for place, piece in enumerate(retrieved, 1):
        for excerpt in excerpts:
            if _covered(excerpt, [piece]) >= SHOWN * (excerpt.end - excerpt.start):
                return place
    return None


def _covered(excerpt: Excerpt, retrieved: Iterable[Piece]) -> int:
    spans = sorted(
        (max(start, excerpt.start), min(end, excerpt.end))
        for piece in retrieved
        if piece.document == excerpt.document
        for start, end in piece.spans
        if start < excerpt.end and end > excerpt.start
    )
    total = 0
    reached = excerpt.start
    for start, end in spans:
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total
