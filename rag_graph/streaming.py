"""A draft told in whole, harmless sentences while it is still being written."""

import re
from typing import Final

from rag_graph.contracts import OnSentence
from rag_graph.drafting import NO_ANSWER
from rag_graph.grounding import check_citations, neutralise
from store.text import sentences

__all__ = ["SentenceStream", "Telling"]

# A citation after the full stop belongs to the sentence before it.
_TRAILING: Final = re.compile(r"\s*(?:\[\d+\]\s*)+")


class SentenceStream:
    """Feed it deltas; it returns the pieces that are complete, each one or more sentences, verbatim.

    The pieces joined are the text, white space included, so that what was shown grows into what is sent. Nothing
    comes out while `withheld` might still be the whole text: a refusal is not streamed.
    """

    def __init__(self, withheld: str = NO_ANSWER) -> None:
        self._withheld = withheld
        self._pending = ""
        self._started = False

    def feed(self, delta: str) -> list[str]:
        """Take some more text; return what became complete with it."""
        self._pending += delta
        if not self._started and self._withheld.startswith(self._pending.strip()[: len(self._withheld)]):
            return []
        whole = sentences(self._pending)
        if len(whole) < 2:
            return []
        at = self._pending.rindex(whole[-1])
        marks = _TRAILING.match(self._pending, at)
        if marks is not None:
            # "[1] [" may go on with another mark: only what follows a finished run is the next sentence.
            if marks.end() == len(self._pending) or self._pending[marks.end()] == "[":
                return []
            at = marks.end()
        elif self._pending.startswith("[", at):
            return []  # "[1" may become a mark of the sentence before it
        return self._take(at)

    def finish(self) -> list[str]:
        """What is left, at the end of the text."""
        if not self._started and self._pending.strip().startswith(self._withheld):
            return []
        return self._take(len(self._pending))

    def _take(self, at: int) -> list[str]:
        piece, self._pending = self._pending[:at], self._pending[at:]
        self._started = self._started or bool(piece.strip())
        return [piece] if piece.strip() else []


class Telling:
    """Tells a listener the sentences of one draft: neutralised, marks checked and numbered as in the result.

    A further attempt of the same draft tells nothing once something was told: it may begin differently, and the
    finished draft replaces what was shown anyway.
    """

    def __init__(self, hear: OnSentence | None, passages: int = 0) -> None:
        self._hear = hear
        self._passages = passages
        self._shown = ""
        self.attempt()

    def attempt(self) -> None:
        """A new attempt begins."""
        self._stream = SentenceStream()
        self._raw = ""
        self._silent = self._hear is None or bool(self._shown)

    async def feed(self, delta: str) -> None:
        if not self._silent:
            await self._tell(self._stream.feed(delta))

    async def finish(self) -> None:
        if not self._silent:
            await self._tell(self._stream.finish())

    async def _tell(self, pieces: list[str]) -> None:
        for piece in pieces:
            self._raw += piece
            checked = check_citations(neutralise(self._raw), self._passages).text
            if NO_ANSWER in piece or not checked.startswith(self._shown):
                self._silent = True
                return
            news, self._shown = checked[len(self._shown) :], checked
            if news.strip() and self._hear is not None:
                await self._hear(news)
