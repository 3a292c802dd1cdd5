"""What a chunk is to the store: its text, what is searched of it, and the hash by which it keeps its vector. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from store.dictionary import Dictionary
from store.words import lexemes, tsvector_literal

__all__ = ["NewChunk", "content_hash", "embedding_text", "rows", "terms"]

# Title and headings in front of the text; deep paths give up their outer headings first.
_PREFIX_LIMIT = 200


@dataclass(frozen=True, slots=True)
class NewChunk:
    """One passage to be stored. `ordinal` counts from 0 in document order, `page` from 1."""

    ordinal: int
    heading_path: tuple[str, ...]
    page: int | None
    text: str

    def __deepcopy__(self, _memo: object) -> "NewChunk":
        # Frozen all the way down. Haystack copies whatever passes between components.
        return self


def embedding_text(title: str, heading_path: Sequence[str], text: str) -> str:
    """What the embedding model and the keyword index read: title, headings, text, a line each."""
    kept: list[str] = []
    room = _PREFIX_LIMIT - min(len(title), _PREFIX_LIMIT // 2)
    for heading in reversed(heading_path):
        room -= len(heading) + 3
        if room < 0 and kept:
            break
        kept.insert(0, heading[:_PREFIX_LIMIT])
    lines = (title[: _PREFIX_LIMIT // 2], " > ".join(kept), text)
    return "\n".join(line for line in lines if line)


def content_hash(title: str, chunk: NewChunk) -> str:
    """Hex sha256 of title, heading path and text. A chunk with the same hash has the same vector."""
    parts = "\x1e".join([title, "\x1f".join(chunk.heading_path), chunk.text])
    return hashlib.sha256(parts.encode()).hexdigest()


def terms(title: str, heading_path: Sequence[str], text: str, dictionary: Dictionary) -> list[str]:
    """What the keyword index keeps of a chunk, in order, repeated as often as it occurs."""
    return lexemes(embedding_text(title, heading_path, text), dictionary)


def rows(title: str, chunks: Iterable[NewChunk], dictionary: Dictionary) -> list[Mapping[str, Any]]:
    """The chunks as columns of the table `chunks`, tokenised. CPU work: call it in a thread."""
    return [_row(title, chunk, dictionary) for chunk in chunks]


def _row(title: str, chunk: NewChunk, dictionary: Dictionary) -> Mapping[str, Any]:
    found = terms(title, chunk.heading_path, chunk.text, dictionary)
    return {
        "ordinal": chunk.ordinal,
        "heading_path": list(chunk.heading_path),
        "page": chunk.page,
        "text": chunk.text,
        "content_hash": content_hash(title, chunk),
        "tokens": tsvector_literal(found),
        "length": len(found),
    }
