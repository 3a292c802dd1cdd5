"""Which chunk of a document's current version took the place of an earlier one. Pure."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Protocol, TypeVar

__all__ = ["counterpart"]

ALIKE = 0.3  # of the characters in order: below, the text is about something else


class Chunk(Protocol):
    @property
    def heading_path(self) -> Sequence[str]: ...
    @property
    def text(self) -> str: ...


C = TypeVar("C", bound=Chunk)


def counterpart(heading_path: Sequence[str], text: str, now: Sequence[C]) -> C | None:
    """The chunk under the same heading that is most like `text`, else the one most like it anywhere; None where nothing
    is."""
    here = [chunk for chunk in now if list(chunk.heading_path) == list(heading_path)]
    for among in (here, now):
        ranked = [(SequenceMatcher(None, text, chunk.text, autojunk=False).ratio(), chunk) for chunk in among]
        best = max(ranked, key=lambda pair: pair[0], default=None)
        if best is not None and best[0] >= ALIKE:
            return best[1]
    return None
