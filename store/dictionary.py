"""The words of one installation that no dictionary knows: products, projects, terms of the trade. Pure."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from store.text import normalise

__all__ = ["Dictionary"]

MOST_WORDS = 10_000
LONGEST = 100  # characters
_EDGE = re.compile(r"[a-z0-9]")


@dataclass(frozen=True)
class Dictionary:
    """Words that are searched for as a whole, beside their parts: 灵犀台账, "Blue Heron", 年假结转.

    They add to what is cut anyway, so that a question without the word finds what it found before. Build one with
    `of`, from an operator's list.
    """

    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str]) -> "Dictionary":
        """Normalised, each once, in order. Raises `ValueError` naming what cannot be a word."""
        normal = sorted({" ".join(normalise(word).split()) for word in words} - {""})
        if wrong := [word for word in normal if len(word) < 2 or len(word) > LONGEST]:
            raise ValueError(f"a word has 2 to {LONGEST} characters, unlike {wrong[0][:30]!r}")
        if len(normal) > MOST_WORDS:
            raise ValueError(f"a dictionary has at most {MOST_WORDS} words, not {len(normal)}")
        return cls(tuple(normal))

    @cached_property
    def digest(self) -> str:
        """What the tokens of a chunk depend on; "" without words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()[:12] if self.words else ""

    def found(self, plain: str) -> Iterator[str]:
        """Each occurrence of a word in normalised text, overlapping ones too. Latin words are whole words."""
        for match in self._anywhere.finditer(plain) if self.words else ():
            yield from (
                word for word in self._by_start[match.group(1)] if self._stands(word, plain, match.start())
            )

    def _stands(self, word: str, plain: str, at: int) -> bool:
        end = at + len(word)
        if not plain.startswith(word, at):
            return False
        before = at > 0 and _EDGE.match(word[0]) and _EDGE.match(plain[at - 1])
        after = end < len(plain) and _EDGE.match(word[-1]) and _EDGE.match(plain[end])
        return not before and not after

    @cached_property
    def _by_start(self) -> dict[str, list[str]]:
        starts: dict[str, list[str]] = {}
        for word in self.words:
            starts.setdefault(word[:2], []).append(word)
        return starts

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(f"(?=({'|'.join(map(re.escape, self._by_start))}))")
