"""How two wordings are compared: the words, quantities and denials of a clause, without the way it is written. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from rag_graph.agreement import stated
from rag_graph.numbers import Quantity, quantities
from rag_graph.terms import content
from store.text import normalise

__all__ = [
    "EDGES",
    "NEGATION",
    "Clause",
    "clauses",
    "meant",
    "negated",
    "plain",
    "said",
    "shared",
    "squeezed",
    "told",
    "whole",
]


_MARKDOWN = re.compile(r"\[\d{1,3}\]|[*_`>#|]+|^\s*(?:[-+•]|\d{1,2}[.)])\s+", re.MULTILINE)
EDGES = "。.!！;；,，、:：\"“”'‘’…"


def plain(text: str) -> str:
    """`text` without citation marks and Markdown."""
    return _MARKDOWN.sub(" ", text).strip()


@lru_cache(maxsize=512)
def squeezed(text: str) -> str:
    """Normalised and without white space, quotation marks or Markdown: for "is it said in these words?"."""
    return re.sub(r"[\s\"“”'‘’*_`|>#]+", "", normalise(text))


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence: its words that carry meaning, whether it is denied, and its numbers."""

    words: frozenset[str]
    negated: bool
    quantities: tuple[Quantity, ...]


@lru_cache(maxsize=1024)
def whole(sentence: str) -> Clause:
    """A sentence as one clause, whether it is denied left open: its parts may differ in that."""
    text = plain(sentence)
    return Clause(meant(text), False, tuple(q for q in said(text) if not q.soft))


_SPLIT = re.compile(
    r"[。！？；;!?\n|]+|[，,](?!\s?\d)|\.\s|\b(?:but|however|although|whereas)\b|但是?|然而|不过"
)


@lru_cache(maxsize=512)
def clauses(text: str) -> tuple[Clause, ...]:
    """`text` in the parts that can be true or false by themselves."""
    return tuple(
        Clause(meant(part), negated(part), tuple(q for q in said(part) if not q.soft))
        for part in _SPLIT.split(plain(text))
        if part.strip()
    )


_NUMERAL = re.compile(r"[\d.,]+|第?[零〇一二两三四五六七八九十百千万亿\d.]+[年月日天条]?")


@lru_cache(maxsize=1024)
def meant(text: str) -> frozenset[str]:
    """The words that carry meaning, without numbers: those are compared by value, not by how they are written."""
    return frozenset(word for word in content(text) if not _NUMERAL.fullmatch(word))


def shared(words: frozenset[str], others: frozenset[str]) -> float:
    """The part of `words` that `others` have, longer Chinese words counting more than single characters."""
    total = sum(_weight(word) for word in words)
    return sum(_weight(word) for word in words & others) / total if total else 0.0


def _weight(word: str) -> float:
    return 0.5 if len(word) == 1 and not word.isascii() else 1.0


@lru_cache(maxsize=1024)
def said(text: str) -> tuple[Quantity, ...]:
    """The quantities that `text` claims."""
    return tuple(quantities(text))


@lru_cache(maxsize=512)
def told(text: str) -> tuple[Quantity, ...]:
    """The quantities that `text` is evidence of."""
    return tuple(stated(text))


# 不仅, 非常, 不满十年 and "not only" deny nothing; 不超过 and "no later than" are limits, compared by their numbers.
_AFFIRMED = re.compile(
    r"不(?:仅|但|只|过|断|同|少|久|论|管|满|足|超过|低于|少于|多于|高于|晚于|大于|小于)|无论|非常|未来|除非"
    r"|是否|能否|可否|有没有|是不是|能不能|要不要|可不可以"
    r"|\bnot only\b|\bno (?:later|more|less|fewer|earlier) than\b"
    r"|\bnot (?:more|less|fewer|later|exceed\w*)\b|\bwhether or not\b|\bwithout\b"
)
NEGATION = re.compile(
    r"[不没無无未勿莫]|并非|非(?=本|正|全|工|公|因)|禁止|严禁|免(?=[收交于除])|拒绝"
    r"|\b(?:not|no|never|none|neither|nor|cannot|prohibited|forbidden)\b|n't\b"
)


def negated(text: str) -> bool:
    """Is the clause denied? Two denials affirm (不得不)."""
    return len(NEGATION.findall(_AFFIRMED.sub(" ", normalise(text)))) % 2 == 1
