"""Is a new question the very question that was signed off? Pure.

Vectors only propose. E5 gives "20 days of leave" and "30 days of leave" a cosine of .99 and many a true rephrasing
less, so that what decides is what is said: the same numbers in the same units, the same names, denied or not, asking
for the same kind of thing. In one language the words must be the same too, as far as politeness, word order between
"could you tell me when it was" and "when was it", and the spelling of numbers allow. Across languages words cannot be
compared: there every name must be recognised in the other script, and the line for the vectors is higher.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rag_graph.agreement import agrees
from rag_graph.framing import (
    ARTICLES,
    ASKS_EN,
    ASKS_ZH,
    LATIN_ZH,
    LIGHT_EN,
    LIGHT_ZH,
    NAMED,
    ORDINARY,
    POLITE_EN,
    POLITE_ZH,
    RELATION,
    SELF,
    SPELT_EN,
    SPELT_ZH,
    STARTS,
    THANKS_EN,
    THANKS_ZH,
    WORD,
)
from rag_graph.numbers import Quantity, quantities
from rag_graph.transliteration import recognised
from rag_graph.units import EN_UNITS, ZH_UNITS, Unit
from rag_graph.wording import negated
from store.text import language, normalise
from store.words import tokens

__all__ = ["ACROSS", "SURE", "Asked", "asked", "differs", "same", "wording"]

PAST: Final = "did"
# Of the calibrated likeness (store/likeness.json). In one language the words have decided; at one half a cosine is as
# likely that of one question as of two. Across languages nothing else compares what is neither a number nor a name: at
# .99 one in twenty that were served on xquad_bilingual was the answer to a question of the same paragraph; with another
# noun in its place (卫星, "satellite": 公司, 美味) one question has .9994, .9984 and .9959.
SURE: Final = 0.5
ACROSS: Final = 0.999


@dataclass(frozen=True, slots=True)
class Asked:
    """A question taken apart. `asks` are the kinds of thing it asks for (time, place, person, amount, …; "polar" for
    yes or no); `words` everything else that was said, in order, "#" for a number; `proper` the words in `words` that
    are written as names."""

    language: str
    asks: tuple[str, ...]
    numbers: tuple[Quantity, ...]
    negated: bool
    words: tuple[str, ...]
    proper: frozenset[str]
    latin: frozenset[str]


def same(new: str, known: str, sure: float | None) -> str:
    """ "" where `known`'s answer is the answer to `new`; otherwise what keeps them apart (see `differs`; "likeness").

    `sure` is the calibrated likeness of the two in [0, 1]; None without one (no model, or one that nobody calibrated):
    then only the same wording will do.
    """
    if sure is None:
        return "" if wording(new) == wording(known) else "likeness"
    line = SURE if language(new) == language(known) else ACROSS
    return differs(new, known) or ("" if sure >= line else "likeness")


def differs(new: str, known: str) -> str:
    """What the two questions do not have in common: numbers (with their units), negation, asks, names or words; ""
    where they agree in all of it."""
    mine, theirs = asked(new), asked(known)
    if not _same_numbers(mine.numbers, theirs.numbers):
        return "numbers"
    if mine.negated != theirs.negated:
        return "negation"
    across = mine.language != theirs.language
    if mine.asks != theirs.asks and not (across and _loosely(mine.asks) == _loosely(theirs.asks)):
        return "asks"
    if across:
        chinese, english = (new, known) if mine.language == "zh" else (known, new)
        return _across(asked(chinese), asked(english), chinese)
    if not _same_words(mine, theirs):
        return "names" if _other_names(mine, theirs) else "words"
    return ""


def wording(question: str) -> str:
    """sha256 (hex) of what `question` asks, without its polite frame: equal only where `differs` finds nothing and the
    words stand in the same order."""
    taken = asked(question)
    numbers = "".join(f"{q.kind}={q.value!s}{q.unit};" for q in taken.numbers)
    facts = "\x1f".join((taken.language, " ".join(taken.asks), numbers, str(taken.negated), *taken.words))
    return hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()


@lru_cache(maxsize=2048)
def asked(question: str) -> Asked:
    """`question` taken apart."""
    spoken = language(question)
    text = re.sub(r"\s+", " ", question.replace("’", "'")).strip()
    return _chinese(text) if spoken == "zh" else _english(text)


# --- numbers and names -------------------------------------------------------------------------------------------


def _counted(text: str) -> tuple[str, tuple[Quantity, ...]]:
    """`text` with "#" for each number, and the numbers. "A day" and a lone first stay words."""
    whole = unicodedata.normalize("NFKC", text.replace("，", "、"))
    pieces, at, found = [], 0, []
    for quantity in quantities(text):
        if quantity.soft or quantity.start < at:
            continue
        found.append(quantity)
        pieces += [whole[at : quantity.start], " # "]
        at = quantity.start + len(quantity.text)
    return "".join([*pieces, whole[at:]]), tuple(found)


def _same_numbers(mine: Sequence[Quantity], theirs: Sequence[Quantity]) -> bool:
    """Each number has its equal on the other side, by value and unit, and none is left over."""
    left = list(theirs)
    for quantity in mine:
        match = next((other for other in left if _equal(quantity, other)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _equal(one: Quantity, other: Quantity) -> bool:
    """The same, no less exactly said: "in 2024" and "on 1 March 2024" are two questions."""
    exact = one.kind == other.kind and one.value == other.value
    if exact and (one.unit == other.unit or one.kind == "ordinal"):
        return True
    loose = {"number", "ordinal", "date"}
    plain = one.kind in loose and other.kind in loose and one.kind != other.kind
    return plain and agrees(one, other) and agrees(other, one)


def _other_names(mine: Asked, theirs: Asked) -> bool:
    return bool((set(mine.words) ^ set(theirs.words)) & (mine.proper | theirs.proper))


def _loosely(asks: Sequence[str]) -> list[str]:
    """English asks what the population is where Chinese asks how many there are."""
    return sorted("amount" if kind == "thing" else kind for kind in asks)


def _across(chinese: Asked, english: Asked, text: str) -> str:
    """Between two languages: every name written in Latin letters stands in both, or is the other script's spelling."""
    if not chinese.latin <= english.latin | set(english.words):
        return "names"
    if _unit_asked(chinese.words) != _unit_asked(english.words):
        return "numbers"
    said = normalise(text)
    missing = [name for name in sorted(english.proper) if name not in chinese.latin]
    return "" if all(recognised(name, said) for name in missing) else "names"


_UNITS: Final[dict[str, Unit]] = {**ZH_UNITS, **EN_UNITS}
_LONGEST_UNIT: Final = 4  # characters in Chinese, words in English


def _unit_asked(words: Sequence[str]) -> Unit | None:
    """In what is asked for: metric tons, kilometres, days. None where in nothing that has a unit."""
    joint = "" if words and not words[0].isascii() else " "
    for start in range(len(words)):
        for end in range(min(start + _LONGEST_UNIT, len(words)), start, -1):
            unit = _UNITS.get(joint.join(words[start:end]))
            if unit is not None and len(joint.join(words[start:end])) > 1:
                return unit
    return None


# --- words --------------------------------------------------------------------------------------------------------


def _same_words(mine: Asked, theirs: Asked) -> bool:
    if mine.words == theirs.words:
        return True
    if not _paired(mine, theirs):
        return False
    return _turned(_bearing(mine), _bearing(theirs))


def _paired(mine: Asked, theirs: Asked) -> bool:
    """Does each word have its equal? Inflections are one word (start, started) unless either is a name."""
    left, right = Counter(mine.words), Counter(theirs.words)
    one, other = left - right, right - left
    if not one and not other:
        return True
    named = mine.proper | theirs.proper
    if mine.language == "zh" or named & (one.keys() | other.keys()):
        return False
    # "When did it start" and "when it started": the past is said by one or the other. "Do" and "did" are two questions.
    past = abs(one.pop(PAST, 0) - other.pop(PAST, 0))
    if past and not one:
        return False
    return Counter(map(_stem, one.elements())) == Counter(map(_stem, other.elements()))


def _bearing(taken: Asked) -> tuple[str, ...]:
    """The words whose order says who does what to whom."""
    if taken.language == "zh":
        return taken.words
    return tuple(
        _stem(word) if word not in taken.proper else word for word in taken.words if word not in LIGHT_EN
    )


def _turned(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """The same order, or one part moved to the front ("for expense reports, what is the deadline"). Names and numbers
    keep theirs: from Paris to London is not from London to Paris."""
    if len(mine) != len(theirs):
        return False
    turns = range(len(mine) or 1)
    return any(tuple(mine[at:]) + tuple(mine[:at]) == tuple(theirs) for at in turns) and _kept(mine, theirs)


def _kept(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Not more than one part moved, so two that stand around a verb or a preposition did not change places."""
    return mine == theirs or not RELATION & set(mine)


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    found = tokens(word)
    return found[0] if len(found) == 1 else word


# --- English ------------------------------------------------------------------------------------------------------


def _english(text: str) -> Asked:
    # Before anything is lowered: which words are written as names.
    plain, numbers = _counted(text)
    proper = _proper(plain)
    lowered = normalise(plain)
    lowered = _spelt(_framed(lowered))
    denied = negated(lowered)
    asks, rest = _asks(lowered, ASKS_EN)
    said = [SELF.get(word, word) for word in _words(rest) if word not in ARTICLES]
    words = tuple(said)
    latin = frozenset(word for word in words if word.isascii() and word.isalnum() and not word.isdigit())
    return Asked("en", asks, numbers, denied, words, proper & set(words), latin)


def _words(text: str) -> list[str]:
    return [match.group().removesuffix("'s").strip("'.-") for match in WORD.finditer(text)]


def _framed(text: str) -> str:
    before = ""
    while before != text:
        before = text
        text = POLITE_EN.sub("", text, count=1)
        text = THANKS_EN.sub("", text.rstrip(" ?!."), count=1)
    return text


def _spelt(text: str) -> str:
    for pattern, put in SPELT_EN:
        text = pattern.sub(put, text)
    return text


def _asks(text: str, table: Sequence[tuple[str, re.Pattern[str]]]) -> tuple[tuple[str, ...], str]:
    """The kinds of thing asked for, sorted, and the text without the words that ask."""
    found = []
    for kind, pattern in table:
        text, count = pattern.subn(" ", text)
        found += [kind] * count
    return tuple(sorted(found)) or ("polar",), text


def _proper(text: str) -> frozenset[str]:
    """Words that are written as names, in lower case; at the start of a sentence only what no sentence starts with."""
    found = set()
    for match in NAMED.finditer(text):
        word = match.group().removesuffix("'s").strip("'.-")
        lowered = word.lower()
        if lowered in ORDINARY or (STARTS.search(text[: match.start()]) and lowered in ORDINARY):
            continue
        found.add(lowered)
    return frozenset(found)


# --- Chinese ------------------------------------------------------------------------------------------------------


def _chinese(text: str) -> Asked:
    plain, numbers = _counted(re.sub(r"哪一(?=[年天月日个])", "哪", text).replace("一下", ""))
    proper = frozenset(word.lower() for word in LATIN_ZH.findall(plain))
    lowered = normalise(plain).strip()
    before = ""
    while before != lowered:
        before = lowered
        lowered = POLITE_ZH.sub("", lowered, count=1)
        lowered = THANKS_ZH.sub("", lowered.rstrip(" ?？!！.。"), count=1)
    for pattern, put in SPELT_ZH:
        lowered = pattern.sub(put, lowered)
    asks, rest = _asks(lowered, ASKS_ZH)
    if set(asks) > {"polar"} and lowered.endswith(("吗", "么")):
        # 能告诉我什么时候开会吗: what it asks is when.
        asks = tuple(kind for at, kind in enumerate(asks) if kind != "polar" or "polar" in asks[at + 1 :])
    denied = negated(rest)
    words = tuple(_cut(LIGHT_ZH.sub(" ", rest)))
    latin = frozenset(word for word in proper if word in words)
    return Asked("zh", asks, numbers, denied, words, latin, latin)


def _cut(text: str) -> list[str]:
    """Latin words whole, Chinese by character: no segmenter can then cut two equal questions differently."""
    return re.findall(r"#|[A-Za-z][A-Za-z0-9._+/&-]*|[^\s#]", text)
