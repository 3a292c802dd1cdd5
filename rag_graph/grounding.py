"""Does the draft say what its passages say, and may its readers read them? Pure.

Support is judged without a model: quantities, names and negations are compared after normalising, and the rest by
the words a sentence shares with what it cites. "unchecked" is honest: nothing in the sentence could be compared.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import rjieba

from rag_graph.contracts import Passage, Sentence, Support
from rag_graph.neutral import neutralise, segments
from rag_graph.numbers import Quantity, agrees, missing, quantities
from rag_graph.terms import content
from store.text import language, normalise, sentences

__all__ = ["Cited", "check_citations", "ground", "intersect_audiences", "neutralise", "support"]


# --- citations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cited:
    """A text whose citation marks are right. `numbers[i]` is the passage (1-based) that mark [i + 1] points to."""

    text: str
    numbers: tuple[int, ...]


_ONE = r"\s*\^?\d{1,3}\s*"
_MARKS = re.compile(rf"[ \t]*(?:[\[【［]{_ONE}(?:[,，、;–—-]{_ONE})*(?:†[^\]】］]*)?[\]】］])+")
_REST = re.compile(r"\d+|[-–—]")


def check_citations(text: str, n_passages: int) -> Cited:
    """Remove marks that point nowhere and renumber the others without gaps, in order of first use.

    【1】, [1, 2], [1-3] and [^1] are read as marks too. Code is left alone: `list[0]` is no citation.
    """
    order: list[int] = []

    def renumbered(match: re.Match[str]) -> str:
        kept = [number for number in _numbers(match.group()) if 1 <= number <= n_passages]
        order.extend(number for number in dict.fromkeys(kept) if number not in order)
        gap = match.group()[: len(match.group()) - len(match.group().lstrip())] if kept else ""
        return gap + "".join(f"[{order.index(number) + 1}]" for number in dict.fromkeys(kept))

    done = "".join(piece if code else _MARKS.sub(renumbered, piece) for code, piece in segments(text))
    return Cited(re.sub(r"(\[\d+\])(?:\s*\1)+", r"\1", done), tuple(order))


def _numbers(mark: str) -> list[int]:
    found: list[int] = []
    ranged = False
    for part in _REST.findall(mark):
        if not part.isdigit():
            ranged = True
            continue
        number = int(part)
        if ranged and found and found[-1] < number <= found[-1] + 20:
            found.extend(range(found[-1] + 1, number))
        found.append(number)
        ranged = False
    return found


# --- support ----------------------------------------------------------------------------------------------------

# Measured on the public sets this project reads: a true sentence shares three fifths of its words with its source.
SUPPORTED_FROM = 0.6
WEAK_FROM = 0.35
ALIGNED_FROM = 0.5  # from here two clauses speak of the same thing, so their numbers and negations must agree


def ground(text: str, passages: Sequence[Passage]) -> tuple[Sentence, ...]:
    """Each sentence of `text` with the marks it carries and how well those passages support it.

    `passages[i]` is what mark [i + 1] points to. A sentence without a mark is judged by all of them and is at best
    "weak": it may be true, but says not where it comes from.
    """
    found: list[Sentence] = []
    for sentence in _marked(text):
        marks = tuple(dict.fromkeys(int(n) for n in _MARK.findall(sentence) if 1 <= int(n) <= len(passages)))
        cited = [evidence(passages[number - 1]) for number in marks] or [evidence(p) for p in passages]
        judged = support(sentence, cited)
        if not marks:
            judged = _unmarked(sentence, judged)
        found.append(Sentence(sentence, marks, judged))
    return tuple(found)


def evidence(passage: Passage) -> str:
    """What a passage says, its title and headings included: they are part of what it states."""
    return "\n".join((passage.title, " ".join(passage.heading_path), passage.text))


def _unmarked(sentence: str, judged: Support) -> Support:
    if judged == "supported":
        return "weak"
    claims = [claim for claim in quantities(_plain(sentence)) if not claim.soft]
    return judged if claims or judged == "unchecked" else "unchecked"


_MARK = re.compile(r"\[(\d{1,3})\]")
_LEADING = re.compile(r"(?:\[\d{1,3}\]\s*)+")


def _marked(text: str) -> list[str]:
    """Sentences, each with the marks that follow its full stop.

    The mark behind a quoted line is for the whole of it, and one below a table for all of its rows.
    """
    found: list[str] = []
    for quoted, lines in groupby(text.splitlines(), key=lambda line: line.lstrip().startswith(">")):
        for block in [line.lstrip("> ") for line in lines] if quoted else ["\n".join(lines)]:
            first = len(found)
            for sentence in sentences(block):
                _add(found, sentence)
            for at in range(first, len(found) - 1) if quoted else ():
                found[at] += "" if _MARK.search(found[at]) else "".join(_MARK_TEXT.findall(found[-1]))
    return found


_ROW = re.compile(r"\s*\|")
_MARK_TEXT = re.compile(r"\[\d{1,3}\]")


def _add(found: list[str], sentence: str) -> None:
    marks = _LEADING.match(sentence) if found else None
    if marks:
        found[-1] += marks.group().strip()
        for at in range(len(found) - 2, -1, -1):
            if not (_ROW.match(found[-1]) and _ROW.match(found[at])) or _MARK.search(found[at]):
                break
            found[at] += marks.group().strip()
    rest = sentence[marks.end() :].strip() if marks else sentence
    if rest:
        found.append(rest)


_HEADING = re.compile(r"[\s>]*(?:#{1,6}\s[^\n]*|\*\*[^*\n]+\*\*[:：]?)\s*")


def support(sentence: str, passages: Sequence[str]) -> Support:
    """How well `passages` (their texts) support `sentence`.

    "unsupported": a quantity, a name or a negation that they do not have, or next to none of its words. "weak":
    some of its words, or a number that they state of something else. "unchecked": nothing to compare.
    """
    claim = _plain(sentence)
    if (
        not passages
        or not content(claim)
        or _HEADING.fullmatch(sentence)
        or claim.rstrip().endswith(("?", "？", ":", "："))
    ):
        return "unchecked"
    whole = _squeezed("\n".join(passages))
    if _squeezed(claim).strip(_EDGES) in whole:
        return "supported"
    if missing(_quantities(claim), [q for passage in passages for q in _quantities(passage)]):
        return "unsupported"
    spoken = language(claim)
    same = [passage for passage in passages if language(passage) == spoken]
    if not same:
        return _across(claim, passages)
    names = _names(claim, spoken)
    if names - _present(whole, names):
        return "unsupported"
    return _by_words(claim, same)


def _across(claim: str, passages: Sequence[str]) -> Support:
    """Between languages quantities and identifiers are what can be compared; all of them were found."""
    checked = [
        quantity for quantity in _quantities(claim) if not quantity.soft and quantity.kind != "ordinal"
    ]
    return "supported" if checked else "unchecked"


def _by_words(claim: str, passages: Sequence[str]) -> Support:
    pieces = [clause for passage in passages for clause in _clauses(passage)]
    worst = 1.0
    for clause in _clauses(claim):
        verdict = _contradicted(clause, pieces)
        if verdict == "unsupported":
            return "unsupported"
        worst = min(worst, WEAK_FROM if verdict == "weak" else 1.0)
    share = _share(_words(claim), frozenset(word for passage in passages for word in _words(passage)))
    share = min(share, worst)
    return "supported" if share >= SUPPORTED_FROM else "weak" if share >= WEAK_FROM else "unsupported"


@dataclass(frozen=True, slots=True)
class _Clause:
    words: frozenset[str]
    negated: bool
    quantities: tuple[Quantity, ...]


def _contradicted(claim: _Clause, pieces: Sequence[_Clause]) -> Support:
    """Compare with the clauses that speak of the same thing: one that agrees is enough."""
    if not claim.words:
        return "unchecked"
    scored = [(_share(claim.words, piece.words), piece) for piece in pieces]
    best = max((share for share, _ in scored), default=0.0)
    if best < ALIGNED_FROM:
        return "unchecked"
    near = [piece for share, piece in scored if share >= best - 0.15]
    if all(piece.negated != claim.negated for piece in near):
        return "unsupported" if best >= 0.7 else "weak"
    if any(_denied(quantity, near) for quantity in claim.quantities):
        return "unsupported" if best >= 0.75 else "weak"
    return "supported"


def _denied(quantity: Quantity, near: Sequence[_Clause]) -> bool:
    """Clauses about the same thing name quantities of this kind and unit, and none of them is this one."""
    known = [other for piece in near for other in piece.quantities]
    alike = [other for other in known if (other.kind, other.unit) == (quantity.kind, quantity.unit)]
    return bool(alike) and not any(agrees(quantity, other) for other in known)


def _share(words: frozenset[str], others: frozenset[str]) -> float:
    """The part of `words` that `others` have, longer Chinese words counting more than single characters."""
    total = sum(_weight(word) for word in words)
    return sum(_weight(word) for word in words & others) / total if total else 0.0


def _weight(word: str) -> float:
    return 0.5 if len(word) == 1 and not word.isascii() else 1.0


_SPLIT = re.compile(
    r"[。！？；;!?\n|]+|[，,](?!\d)|\.\s|\b(?:but|however|although|whereas)\b|但是?|然而|不过"
)


_NUMERAL = re.compile(r"[\d.,]+|第?[零〇一二两三四五六七八九十百千万亿\d.]+[年月日天条]?")


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    """The words that carry meaning, without numbers: those are compared by value, not by how they are written."""
    return frozenset(word for word in content(text) if not _NUMERAL.fullmatch(word))


@lru_cache(maxsize=512)
def _clauses(text: str) -> tuple[_Clause, ...]:
    return tuple(
        _Clause(_words(part), _negated(part), tuple(q for q in _quantities(part) if not q.soft))
        for part in _SPLIT.split(_plain(text))
        if part.strip()
    )


@lru_cache(maxsize=1024)
def _quantities(text: str) -> tuple[Quantity, ...]:
    return tuple(quantities(text))


# 不仅, 非常, 不满十年 and "not only" deny nothing; 不超过 and "no later than" are limits, compared by their numbers.
_AFFIRMED = re.compile(
    r"不(?:仅|但|只|过|断|同|少|久|论|管|满|足|超过|低于|少于|多于|高于|晚于|大于|小于)|无论|非常|未来|除非"
    r"|是否|能否|可否|有没有|是不是|能不能|要不要|可不可以"
    r"|\bnot only\b|\bno (?:later|more|less|fewer|earlier) than\b"
    r"|\bnot (?:more|less|fewer|later|exceed\w*)\b|\bwhether or not\b|\bwithout\b"
)
_NEGATION = re.compile(
    r"[不没無无未勿莫]|并非|非(?=本|正|全|工|公|因)|禁止|严禁|免(?=[收交于除])|拒绝"
    r"|\b(?:not|no|never|none|neither|nor|cannot|prohibited|forbidden)\b|n't\b"
)


def _negated(text: str) -> bool:
    """Is the clause denied? Two denials affirm (不得不)."""
    return len(_NEGATION.findall(_AFFIRMED.sub(" ", normalise(text)))) % 2 == 1


# --- names ------------------------------------------------------------------------------------------------------

_TITLE = re.compile(r"《([^《》]{1,40})》")
_LATIN_NAME = re.compile(r"(?<![\w-])[A-Z][\w&.'-]*[\w](?:\s+(?:of|de|van|von|the|and)?\s*[A-Z][\w&.'-]*\w)*")
_IDENTIFIER = re.compile(r"[A-Za-z]+(?:[_./-][A-Za-z0-9]+)+|[A-Z]{2,}[a-z]?\b|[a-z]+[A-Z]\w*")
_CALENDAR = re.compile(
    "(?:january|february|march|april|may|june|july|august|september|october|november|december|i|chinese|english"
    "|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?"
)
_NAME_TAGS = ("nr", "ns", "nt", "nz")  # and their kinds: nrt, nrfg


def _names(claim: str, spoken: str) -> set[str]:
    """Names in `claim`, normalised: people, places, organisations, titles, identifiers."""
    found = {match[1] for match in _TITLE.finditer(claim)} | set(_IDENTIFIER.findall(claim))
    if spoken == "zh":
        found |= {word for word, tag in rjieba.tag(claim) if tag.startswith(_NAME_TAGS) and len(word) > 1}
    else:
        found |= set(_english_names(claim))
    return {_squeezed(name) for name in found if len(name) > 1}


def _english_names(claim: str) -> list[str]:
    """Capitalised words; at the start of the sentence only as part of a longer name."""
    found: list[str] = []
    for match in _LATIN_NAME.finditer(claim):
        words = match.group().split()
        if match.start() == 0 or claim[: match.start()].rstrip().endswith(
            (".", "!", "?", ":", "*", "-", "•")
        ):
            words = words[1:] if not content(words[0]) or len(words) == 1 else words
        found += [
            word
            for word in words
            if word[0].isupper() and not _CALENDAR.fullmatch(word.lower()) and content(word)
        ]
    return found


def _present(whole: str, names: Iterable[str]) -> set[str]:
    """Those of `names` that `whole` has; the tagger now and then takes the word before a name into it (由张伟)."""
    return {
        name
        for name in names
        if name in whole
        or (name.isascii() and name.removesuffix("'s").removesuffix("s") in whole)
        or (len(name) > 2 and not name.isascii() and name[1:] in whole)
    }


# --- text -------------------------------------------------------------------------------------------------------

_MARKDOWN = re.compile(r"\[\d{1,3}\]|[*_`>#|]+|^\s*(?:[-+•]|\d{1,2}[.)])\s+", re.MULTILINE)
_EDGES = "。.!！;；,，、:：\"“”'‘’…"


def _plain(text: str) -> str:
    return _MARKDOWN.sub(" ", text).strip()


@lru_cache(maxsize=512)
def _squeezed(text: str) -> str:
    """Normalised and without white space, quotation marks or Markdown: for "is it said in these words?"."""
    return re.sub(r"[\s\"“”'‘’*_`|>#]+", "", normalise(text))


def intersect_audiences(audiences: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Who may read a text made from sources with these audiences, sorted. "everyone" in one leaves the others'.

    Empty when nobody may read all of them, and for no source at all.
    """
    left: set[str] | None = None
    for audience in audiences:
        allowed = set(audience)
        if left is None or "everyone" in left:
            left = allowed if left is None or "everyone" not in allowed else left | allowed
        elif "everyone" not in allowed:
            left &= allowed
    return tuple(sorted(left or ()))
