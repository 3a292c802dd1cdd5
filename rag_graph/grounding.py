"""Does the draft say what its passages say, and may its readers read them? Pure.

Support is judged without a model: quantities, names and negations are compared after normalising, and the rest by
the words a sentence shares with what it cites. "unchecked" is honest: nothing in the sentence could be compared.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rag_graph.agreement import agrees, missing
from rag_graph.contracts import Passage, Sentence, Support
from rag_graph.names import names, present, renamed
from rag_graph.neutral import neutralise, segments
from rag_graph.numbers import Quantity, quantities
from rag_graph.terms import content
from rag_graph.wording import EDGES, Clause, clauses, meant, plain, said, shared, squeezed, told, whole
from store.text import language, sentences

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
    claims = [claim for claim in quantities(plain(sentence)) if not claim.soft]
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
    claim = plain(sentence)
    if (
        not passages
        or not content(claim)
        or _HEADING.fullmatch(sentence)
        or claim.rstrip().endswith(("?", "？", ":", "："))
    ):
        return "unchecked"
    every = squeezed("\n".join(passages))
    if squeezed(claim).strip(EDGES) in every:
        return "supported"
    if missing(said(claim), [q for passage in passages for q in told(passage)]):
        return "unsupported"
    spoken = language(claim)
    same = [passage for passage in passages if language(passage) == spoken]
    if not same:
        return _across(claim, passages)
    named = names(claim, spoken)
    if named - present(every, named):
        return "unsupported"
    return _by_words(claim, same)


def _across(claim: str, passages: Sequence[str]) -> Support:
    """Between languages quantities and identifiers are what can be compared; all of them were found."""
    checked = [quantity for quantity in said(claim) if not quantity.soft and quantity.kind != "ordinal"]
    return "supported" if checked else "unchecked"


def _by_words(claim: str, passages: Sequence[str]) -> Support:
    pieces = [clause for passage in passages for clause in clauses(passage)]
    worst = 1.0
    for clause in clauses(claim):
        verdict = _contradicted(clause, pieces)
        if verdict == "unsupported":
            return "unsupported"
        worst = min(worst, WEAK_FROM if verdict == "weak" else 1.0)
    if _misquoted(claim, passages) or renamed(claim, passages):
        return "unsupported"
    known = frozenset(word for passage in passages for word in meant(passage))
    share = min(shared(meant(claim), known), worst)
    return "supported" if share >= SUPPORTED_FROM else "weak" if share >= WEAK_FROM else "unsupported"


# From here a sentence says the same thing as another, and its numbers are that one's.
QUOTED_FROM = 0.8


def _misquoted(claim: str, passages: Sequence[str]) -> bool:
    """Is the claim nearly a sentence of the passages, but for a number that those state elsewhere?

    "In 1972, Nixon named …": the clause "In 1972" has no words of its own to be compared by.
    """
    mine = whole(claim)
    theirs = [whole(sentence) for passage in passages for sentence in sentences(passage)]
    scored = [(shared(mine.words, other.words), other) for other in theirs]
    best = max((share for share, _ in scored), default=0.0)
    near = [other for share, other in scored if share >= best - 0.15]
    return best >= QUOTED_FROM and any(_denied(quantity, near) for quantity in mine.quantities)


def _contradicted(claim: Clause, pieces: Sequence[Clause]) -> Support:
    """Compare with the clauses that speak of the same thing: one that agrees is enough."""
    if not claim.words:
        return "unchecked"
    scored = [(shared(claim.words, piece.words), piece) for piece in pieces]
    best = max((share for share, _ in scored), default=0.0)
    if best < ALIGNED_FROM:
        return "unchecked"
    near = [piece for share, piece in scored if share >= best - 0.15]
    if all(piece.negated != claim.negated for piece in near):
        return "unsupported" if best >= 0.7 else "weak"
    if any(_denied(quantity, near) for quantity in claim.quantities):
        return "unsupported" if best >= 0.75 else "weak"
    return "supported"


def _denied(quantity: Quantity, near: Sequence[Clause]) -> bool:
    """Clauses about the same thing name quantities of this kind and unit, and none of them is this one."""
    known = [other for piece in near for other in piece.quantities]
    alike = [other for other in known if (other.kind, other.unit) == (quantity.kind, quantity.unit)]
    return bool(alike) and not any(agrees(quantity, other) for other in known)


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
