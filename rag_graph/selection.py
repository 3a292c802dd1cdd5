"""Which sentences of the passages are shown when not all can be. Pure.

A sentence counts by the question's words it has (rare ones more), by those of its neighbours, since an answer often
stands beside what was asked, and by its passage's place. At equal tokens that holds the answer's sentence more often
than the best passages pasted whole: `signoff eval context`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from rag_graph.terms import content
from store.text import estimate_tokens, sentences

__all__ = ["GAP", "selected"]

GAP: Final = "…"
# Tried on thirds of three public sets: .3 to 2 for the place and 0 to .6 for the neighbours differ by a point or two.
PLACE: Final = 0.6  # of the first passage; the n-th has 1/n of it
NEIGHBOUR: Final = 0.1

Key = tuple[int, int]  # passage, sentence


def selected(question: str, texts: Sequence[str], tokens: int) -> list[str]:
    """`texts`, best first, cut to `tokens` in all: what is left of each is verbatim, gaps show as an ellipsis.

    A text of which nothing is left is empty.
    """
    cut = [_cut(text) for text in texts]
    ranked = _ranked(question, cut)
    room = 3 * tokens + 2  # bytes; the estimate is a third of them
    chosen: list[Key] = []
    for key in ranked:
        size = len(cut[key[0]][key[1]][0].encode()) + 1
        if size <= room:
            chosen.append(key)
            room -= size
    made = _joined(texts, cut, chosen)
    while chosen and (surplus := sum(map(estimate_tokens, made)) - tokens) > 0:  # the ellipses
        # The least of those that are long enough, so that one sentence pays for all of them.
        enough = [key for key in chosen[1:] if len(cut[key[0]][key[1]][0].encode()) >= 3 * surplus]
        chosen.remove(enough[-1] if enough else chosen[-1])
        made = _joined(texts, cut, chosen)
    return made


@lru_cache(maxsize=256)
def _cut(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((sentence, frozenset(content(sentence))) for sentence in sentences(text))


def _ranked(question: str, cut: Sequence[Sequence[tuple[str, frozenset[str]]]]) -> list[Key]:
    """Sentences by what they are worth, best first; ties go to the better passage and the earlier sentence."""
    asked = set(content(question))
    held = Counter(word for pieces in cut for _, words in pieces for word in asked & words)
    count = sum(len(pieces) for pieces in cut)
    weight = {word: math.log(1 + count / (1 + held[word])) for word in asked}
    whole = sum(weight.values()) or 1.0
    worth: dict[Key, float] = {}
    for document, pieces in enumerate(cut):
        own = [sum(weight[word] for word in asked & words) / whole for _, words in pieces]
        for at, value in enumerate(own):
            beside = max(own[max(0, at - 1) : at] + own[at + 1 : at + 2], default=0.0)
            worth[document, at] = value + NEIGHBOUR * beside + PLACE / (document + 1)
    return sorted(worth, key=lambda key: (-worth[key], key))


def _joined(
    texts: Sequence[str], cut: Sequence[Sequence[tuple[str, frozenset[str]]]], chosen: Sequence[Key]
) -> list[str]:
    kept: dict[int, set[int]] = {}
    for document, at in chosen:
        kept.setdefault(document, set()).add(at)
    return [_without(text, [s for s, _ in cut[n]], kept.get(n, set())) for n, text in enumerate(texts)]


def _without(text: str, pieces: Sequence[str], kept: set[int]) -> str:
    """`text` with all but the `kept` sentences left out; what stands between two that follow each other stays.

    Between others stands an ellipsis; at the ends none, a passage is an excerpt anyway.
    """
    if len(kept) == len(pieces):
        return text
    made, end, last, at = "", 0, -1, 0
    for number, piece in enumerate(pieces):
        start = text.find(piece, at)
        at = start + len(piece)
        if number not in kept:
            continue
        adjoining = last == number - 1 and made
        made += (text[end:start] if adjoining else GAP if made else "") + piece
        end, last = at, number
    return made
