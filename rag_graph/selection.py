"""Which sentences of the passages are shown when not all can be. Pure.

A sentence counts by the question's words that it has (rare ones more) or its document's title has, by those of its
neighbours, since an answer often stands beside what was asked, and by its passage's place. A document that another's
best sentence names by its title is read for that: questions of two hops go on there. At equal tokens all this holds the
answer's sentence more often than the best passages pasted whole: `signoff eval context`.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from rag_graph.terms import content
from store.text import estimate_tokens, sentences

__all__ = ["GAP", "selected", "window"]

GAP: Final = "…"
# Tried on thirds of three public sets: .3 to 2 for the place and 0 to .6 for the neighbours differ by a point or two.
PLACE: Final = 0.6  # of the first passage; the n-th has 1/n of it
NEIGHBOUR: Final = 0.1
# On en_multihop .3 to .8 for the title and .2 to .4 for the name do better than neither at nearly every k.
TITLE: Final = 0.3  # a word in the title against one in the sentence
NAMED: Final = 0.2  # a document that another's best sentence names

Key = tuple[int, int]  # passage, sentence
_Cut = tuple[tuple[str, frozenset[str]], ...]  # sentences with their words


def selected(question: str, texts: Sequence[str], tokens: int, titles: Sequence[str] = ()) -> list[str]:
    """`texts`, best first, cut to `tokens` in all: what is left of each is verbatim, gaps show as an ellipsis.

    A text of which nothing is left is empty. `titles` are their documents', one for each text, or none at all.
    """
    cut = [_cut(text) for text in texts]
    ranked = _ranked(question, cut, titles or [""] * len(texts))
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


def window(question: str, text: str) -> str:
    """The paragraph of `text` that says most of what was asked, with one on either side, verbatim."""
    spans = [match.span() for match in _PARAGRAPH.finditer(text)]
    if not spans:
        return text
    cut = [_cut(text[start:end]) for start, end in spans]
    weight = _weights(question, cut)
    said = [frozenset(word for _, words in pieces for word in words) for pieces in cut]
    best = max(range(len(spans)), key=lambda at: _share(weight, said[at]))
    return text[spans[max(best - 1, 0)][0] : spans[min(best + 1, len(spans) - 1)][1]]


_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")


@lru_cache(maxsize=256)
def _cut(text: str) -> _Cut:
    return tuple((sentence, frozenset(content(sentence))) for sentence in sentences(text))


def _ranked(question: str, cut: Sequence[_Cut], titles: Sequence[str]) -> list[Key]:
    """Sentences by what they are worth, best first; ties go to the better passage and the earlier sentence."""
    weight = _weights(question, cut)
    headed = [frozenset(content(title)) for title in titles]
    own = [
        [_share(weight, words) + TITLE * _share(weight, headed[document] - words) for _, words in pieces]
        for document, pieces in enumerate(cut)
    ]
    worth: dict[Key, float] = {}
    named = _named(cut, own, headed)
    for document, values in enumerate(own):
        prior = PLACE / (document + 1) + NAMED * (document in named)
        for at, value in enumerate(values):
            beside = max(values[max(0, at - 1) : at] + values[at + 1 : at + 2], default=0.0)
            worth[document, at] = value + NEIGHBOUR * beside + prior
    return sorted(worth, key=lambda key: (-worth[key], key))


def _share(weight: Mapping[str, float], words: frozenset[str]) -> float:
    return sum(weight[word] for word in weight.keys() & words)


def _named(cut: Sequence[_Cut], own: Sequence[Sequence[float]], titles: Sequence[frozenset[str]]) -> set[int]:
    """The documents whose whole title stands in the best sentence of another one."""
    best = [
        pieces[max(range(len(pieces)), key=values.__getitem__)][1] if pieces else frozenset()
        for pieces, values in zip(cut, own, strict=True)
    ]
    return {
        document
        for document, title in enumerate(titles)
        if title and any(title <= said and titles[other] != title for other, said in enumerate(best))
    }


def _weights(question: str, cut: Sequence[_Cut]) -> dict[str, float]:
    """The question's words by how few of the sentences have them; together they weigh 1."""
    asked = set(content(question))
    held = Counter(word for pieces in cut for _, words in pieces for word in asked & words)
    count = sum(len(pieces) for pieces in cut)
    weight = {word: math.log(1 + count / (1 + held[word])) for word in asked}
    whole = sum(weight.values()) or 1.0
    return {word: value / whole for word, value in weight.items()}


def _joined(texts: Sequence[str], cut: Sequence[_Cut], chosen: Sequence[Key]) -> list[str]:
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
