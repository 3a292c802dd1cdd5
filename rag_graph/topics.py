"""What a conversation is about: known titles and noun phrases in its turns, weighed by where they stand. Pure."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import rjieba

from rag_graph.attributes import GENERIC_EN, NOUNS_EN
from rag_graph.contracts import Turn
from rag_graph.followups import MISTAGGED, attribute_zh
from rag_graph.terms import STOP, content
from store.text import language, normalise, sentences

__all__ = ["doings", "phrases", "titles_in", "topics"]

# Measured on KdConv's 350 elliptical questions, half of them unseen: the title meant is picked in 97 %; the last
# one named anywhere would be right in 81 %. Between .7 and .9 for the first and .1 and .4 for the second: ± 2 %.
DECAY = 0.8  # for each utterance back
OBLIQUE = 0.2  # 位于颐和园内, "in the handbook": a place it stands in, not the topic
ASKED = 2.0  # what somebody asked about
LISTED = 0.7  # one of several in a sentence
FIRST = 1.5  # at the start of a clause
TITLE = 1.5  # a known title against a mere phrase
ASIDE = 0.3  # a phrase in a clause that asks nothing
OPENING = 1.4  # what the conversation began with


@dataclass(frozen=True, slots=True)
class _Mention:
    text: str
    start: int
    end: int
    known: bool


def topics(turns: Sequence[Turn], titles: Sequence[str]) -> list[str]:
    """What `turns` are about, most salient first: titles as they are known, phrases as the asker wrote them.

    Phrases are taken from questions only: answers are full of things nobody asked about.
    """
    scores: dict[str, float] = defaultdict(float)
    shown: dict[str, str] = {}
    known = _by_length(tuple(titles))
    utterances = [(turn, asked) for turn in turns for asked in (True, False)]
    for age, (turn, asked) in enumerate(reversed(utterances)):
        text = turn.question if asked else turn.answer
        opening = OPENING if turn is turns[0] and asked else 1.0
        for mention, weight in _weighed(text, known, asked=asked):
            key = normalise(mention.text)
            shown.setdefault(key, mention.text)
            scores[key] += weight * opening * DECAY**age
    for key in [key for key in scores if shown[key] not in titles]:
        whole = next(
            (name for name, title in known if key in name and name != key and shown.get(name) == title), None
        )
        if whole:  # 公园 for 密云时光公园
            scores[whole] += scores.pop(key)
    return [shown[key] for key in sorted(scores, key=lambda key: (-scores[key], key))]


def titles_in(text: str, titles: Sequence[str]) -> list[str]:
    """The known titles that `text` names, longest first where they overlap, in order of place."""
    return [mention.text for mention in _titles(text, _by_length(tuple(titles)))]


@lru_cache(maxsize=8)
def _by_length(titles: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    named = ((normalise(title), title) for title in dict.fromkeys(titles))
    return tuple(sorted((pair for pair in named if len(pair[0]) > 1), key=lambda pair: -len(pair[0])))


# --- weighing -------------------------------------------------------------------------------------------------------

_QUESTION = re.compile(
    r"[？?]|[吗呢]|什么|哪|多少|怎么|^(?:what|how|who|when|where|why|which|can|do|does|is|are)\b",
    re.IGNORECASE,
)
_PLACED_BEFORE = re.compile(
    r"(?:位于|坐落于?|[在于近临含接邻属距离从到由至和与及、]|[省市区县镇乡村路街东南西北])$"
    r"|\b(?:in|at|on|near|from|within|under|by|and|or|with)(?: the)? $",
    re.IGNORECASE,
)
_PLACED_AFTER = re.compile(
    r"(?:[东西南北中]+[侧边部面麓方]|[内里镇旁附路街]|景区内|公园内|\d|[一二三四五六七八九十]+号)"
)


def _weighed(
    text: str, known: tuple[tuple[str, str], ...], *, asked: bool
) -> Iterator[tuple[_Mention, float]]:
    for sentence in sentences(text):
        named = _titles(sentence, known)
        if asked and _QUESTION.search(sentence):
            named += [
                m for m in phrases(sentence) if not any(m.start < k.end and k.start < m.end for k in named)
            ]
        several = len({mention.text for mention in named if mention.known}) > 1
        for mention in named:
            yield mention, _weight(sentence, mention, several=several and mention.known)


def _weight(sentence: str, mention: _Mention, *, several: bool) -> float:
    before, after = sentence[: mention.start], sentence[mention.end :]
    weight = TITLE if mention.known else _fullness(mention.text)
    if not mention.known and not _QUESTION.search(_clause_at(sentence, mention)):
        weight *= ASIDE
    if _PLACED_BEFORE.search(before) or _PLACED_AFTER.match(after):
        weight *= OBLIQUE if mention.known else 1.0
    if _QUESTION.search(sentence):
        weight *= ASKED
    if several:
        weight *= LISTED
    if not before or before[-1] in "，,。：: ":
        weight *= FIRST if mention.known or not before.isascii() else 1.0
    return weight


def _clause_at(sentence: str, mention: _Mention) -> str:
    start = max((sentence.rfind(mark, 0, mention.start) for mark in "，,；;"), default=-1) + 1
    ends = [at for at in (sentence.find(mark, mention.end) for mark in "，,；;") if at >= 0]
    return sentence[start : min(ends, default=len(sentence))]


def _fullness(phrase: str) -> float:
    """A longer name, or one with capitals, says more."""
    words = len(phrase.split()) if phrase.isascii() else max(len(phrase) // 2, 1)
    return math.sqrt(min(words, 3)) * (1.3 if any(c.isupper() for c in phrase) else 1.0)


# --- finding --------------------------------------------------------------------------------------------------------


def _titles(text: str, known: tuple[tuple[str, str], ...]) -> list[_Mention]:
    lowered = normalise(text)
    if len(lowered) != len(text):  # offsets are of the normalised text; weights need only the neighbourhood
        text = lowered
    found: list[_Mention] = []
    for name, title in known:
        at = lowered.find(name)
        while at >= 0:
            end = at + len(name)
            whole = not name.isascii() or not (_joined(lowered, at) or _joined(lowered, end))
            if whole and not any(at < mention.end and mention.start < end for mention in found):
                found.append(_Mention(title, at, end, True))
            at = lowered.find(name, end)
    return sorted(found, key=lambda mention: mention.start)


def _joined(text: str, at: int) -> bool:
    """Do two letters or digits meet at `at`, inside a word?"""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum() and text[at - 1].isascii()


def phrases(text: str) -> list[_Mention]:
    """Noun phrases of a question that name something: 年假, 差旅报销, "annual leave", 合同第 3.2 条."""
    return _phrases_zh(text) if language(text) == "zh" else _phrases_en(text)


_CLAUSE = re.compile(r"第\s*[\d.一二三四五六七八九十百]+\s*[条款章节]")
_NOMINAL = ("n", "vn", "eng", "j", "m")


def _phrases_zh(text: str) -> list[_Mention]:
    """Runs of nouns; attributes at the end of one (差旅报销的流程) are not part of the name."""
    words: list[tuple[str, str]] = []
    at = 0
    for clause in _CLAUSE.finditer(text):
        words += [*rjieba.tag(text[at : clause.start()]), (clause.group(), "ref")]
        at = clause.end()
    words += rjieba.tag(text[at:])
    return list(_runs(words))


def doings(text: str) -> list[str]:
    """What is done, where a Chinese question names nothing else: 怎么报销？"""
    verbal = [(word, "n" if tag == "v" and len(word) > 1 else tag) for word, tag in rjieba.tag(text)]
    return [mention.text for mention in _runs(verbal)]


def _runs(words: Sequence[tuple[str, str]]) -> Iterator[_Mention]:
    run: list[tuple[str, bool]] = []  # word, names something
    at = start = 0
    for place, (word, tag) in enumerate([*words, ("", "x")]):
        if _nominal(word, tag) or (run and (word == " " or _compounded(words, place))):
            start = start if run else at
            run.append((word, tag == "ref" or _names(word, tag)))
        else:
            yield from _trimmed(run, start)
            run = []
        at += len(word)


def _nominal(word: str, tag: str) -> bool:
    return tag == "ref" or ((tag.startswith(_NOMINAL) or word in MISTAGGED) and word not in STOP)


def _compounded(words: Sequence[tuple[str, str]], place: int) -> bool:
    """差旅报销的流程: a verb between a noun and what is asked of it is part of the name."""
    if place + 1 >= len(words):
        return False
    (word, tag), (after, next_tag) = words[place], words[place + 1]
    return (
        tag == "v"
        and len(word) == 2
        and not attribute_zh(word)
        and (after == "的" or next_tag.startswith("n"))
    )


def _names(word: str, tag: str) -> bool:
    if len(word) == 1:
        return tag.startswith("n")
    return not tag.startswith("m") and not attribute_zh(word)


def _trimmed(run: list[tuple[str, bool]], start: int) -> Iterator[_Mention]:
    kept = list(run)
    while kept and not kept[-1][1]:
        kept.pop()
    text = "".join(word for word, _ in kept)
    if len(text) > 1 and not attribute_zh(text):
        yield _Mention(text.strip(), start, start + len(text), False)


_WORD_EN = re.compile(r"[A-Za-z0-9][\w'&+#./-]*\w|[A-Za-z0-9]|[^\sA-Za-z0-9]")


def _phrases_en(text: str) -> list[_Mention]:
    """Runs of words that are not function words, from the first that names something to the last that may."""
    found: list[_Mention] = []
    run: list[tuple[int, int, str]] = []
    for match in [*_WORD_EN.finditer(text), None]:
        stem = _stem(match.group()) if match else ""
        if match and stem:
            run.append((match.start(), match.end(), stem))
            continue
        while run and run[0][2] in GENERIC_EN:
            run.pop(0)
        while run and run[-1][2] in GENERIC_EN and run[-1][2] not in NOUNS_EN:
            run.pop()
        if run:
            found.append(_Mention(text[run[0][0] : run[-1][1]], run[0][0], run[-1][1], False))
        run = []
    return found


def _stem(word: str) -> str:
    stems = content(word)
    return stems[0] if stems else ""
