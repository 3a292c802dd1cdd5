"""Words for search: one tokenizer for documents and questions, Chinese and English. Pure, no I/O.

Postgres has no Chinese text search without an extension and loses identifiers (`to_tsvector` of "C++ user_id"
keeps `c`, `id`, `user`), so tokens are cut here and go in as ready literals.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from threading import Lock
from typing import Protocol

import rjieba
import snowballstemmer

from store.text import HAN, normalise

__all__ = [
    "lexemes",
    "query_lexemes",
    "references",
    "tokens",
    "tsquery_literal",
    "tsvector_literal",
]

_LETTER = rf"[^\W_{HAN}]"

# A clause by number, however it is written: 第三条, 第 3.2 条, §7(b), Article 3, clause 3.2.
_REFERENCE = r"\d{1,4}(?:\.\d{1,4})*"
_CLAUSE = re.compile(
    rf"第\s*(?P<zh>{_REFERENCE}(?:\s*\([a-z0-9]{{1,4}}\))?|[零〇一二两三四五六七八九十百千]+)\s*(?P<unit>[条款项章节编])"
    rf"(?:\s*\((?P<item>[a-z0-9]{{1,4}})\))?"
    rf"|(?:§+\s*|\b(?P<word>articles?|sections?|clauses?|chapters?|paragraphs?|sec\.|art\.)\s*)"
    rf"(?P<en>{_REFERENCE}(?:\s?\([a-z0-9]{{1,4}}\))?)"
    rf"|(?<![\w.])(?P<bare>{_REFERENCE}\([a-z0-9]{{1,4}}\))"
)
_UNITS = {"chapter": "章", "paragraph": "款"}

_TERM = re.compile(
    rf"(?P<han>[{HAN}]+)"
    r"|(?P<grouped>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?)"
    r"|(?P<acronym>\b(?:[a-z]\.){2,}[a-z]?(?![a-z]))"
    rf"|(?P<term>\.?{_LETTER}+(?:[-_./:@&'+#]+{_LETTER}+)*(?:\+\+|#|%)?)"
)
# A code is named exactly; "24-hour" is none, and neither is a grade (P7), which a range may mean as well.
_CODE = re.compile(r"(?<![a-z0-9])(?P<code>[a-z]+(?:[-_./][a-z0-9]+)*[-_./]\d[a-z0-9]*)(?![a-z0-9])")
_JOINT = re.compile(r"[-_./:@&'+#%]+")
_DOTTED = re.compile(r"\d+(?:\.\d+)+")
_MEASURE = re.compile(r"(\d+(?:\.\d+)?)([a-z]+)")
_WORD = re.compile(r"[a-z]{3,}")

_DIGITS = {
    digit: value for value, digits in enumerate(("零〇", "一", "二两", *"三四五六七八九")) for digit in digits
}
_MULTIPLIERS = {"十": 10, "百": 100, "千": 1000}

_stemmer = snowballstemmer.stemmer("english")
_stemming = Lock()  # the stemmer keeps the word it works on in itself; ingestion tokenises in threads

# Postgres: a lexeme is at most 2,046 bytes, a position at most 16,383, a whole tsvector under 1 MB, and a query's
# operands together under 1 MB.
_LEXEME_CHARACTERS = 500
_POSITIONS = tuple(map(str, range(1, 16_384)))
_VECTOR_BYTES = 900_000
_QUERY_OPERANDS = 400


# --- tokens ----------------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """The words of `text`, in order, repeated as often as they occur.

    Chinese is cut into words and the words inside words; neighbouring characters that the dictionary
    leaves single are also joined (年假 is no dictionary word: 年, 假, 年假). English words are stemmed.
    Identifiers stay whole beside their parts (user_id, user, id). Clause numbers have one form: 第三条 and
    "Article 3" give 第3条; 第 3.2 条, clause 3.2 and 3.2 give 3.2.
    """
    return _tokens(normalise(text), _words)


class Words(Protocol):
    """Words that are tokens as a whole, beside their parts: `store.dictionary.Dictionary`."""

    def found(self, plain: str) -> Iterator[str]: ...


def lexemes(text: str, words: Words | None = None) -> list[str]:
    """What the keyword index keeps of `text`: `tokens`, but Chinese as dictionary words and every character.

    A question and its answer are seldom cut alike; their characters agree all the same. Measured on
    zh_cmrc_chunk, fused with vectors: R@5 .951 and nDCG@10 .877, against .944 and .859 for words alone, at
    1.8 times the tokens. Words guessed by a hidden Markov model, which depend on their neighbours, cost .01.
    """
    plain = normalise(text)
    own = words.found(plain) if words is not None else ()
    return [*_tokens(plain, _words_and_characters), *own]


def query_lexemes(text: str, words: Words | None = None) -> list[str]:
    """The distinct lexemes of a question that can tell passages apart.

    Without the words questions are made of, unless nothing else is left (en_mtrag, BM25 alone: R@5 .658 → .693
    without them).
    """
    found = list(dict.fromkeys(lexemes(text, words)))
    return [lexeme for lexeme in found if lexeme not in _frame()] or found


def references(text: str) -> list[tuple[str, ...]]:
    """What a question names exactly: clauses by number, and codes (ERR_0042, ISO-9001).

    Each is a choice: a passage holds the reference if it has its first lexeme, or all the others ("ISO 9001").
    An item of a clause is meant as such: 7(b), and not 7.
    """
    plain = normalise(text)
    found = [tuple(_clause_number(match)[:1]) for match in _CLAUSE.finditer(plain)]
    found += [tuple(_term(match["code"])) for match in _CODE.finditer(_CLAUSE.sub(" ", plain))]
    return list(dict.fromkeys(found))


# Only words that never carry the topic of a question: this list is not for documents.
_FRAME = (
    "a an and are as at be been but by can could did do does for from had has have how i if in into is it me my no "
    "not of on or our should such that the their then there these they this to was we were what when where which "
    "who whom whose why will with would you your 的 了 是 在 和 与 及 或 吗 呢 么 什 哪 谁 什么 怎么 请问"
)


@cache
def _frame() -> frozenset[str]:
    return frozenset(lexemes(_FRAME))


_Cut = Callable[[str], list[str]]


def _tokens(text: str, cut: _Cut) -> list[str]:
    found: list[str] = []
    at = 0
    for match in _CLAUSE.finditer(text):
        found += _terms(text[at : match.start()], cut)
        if word := _unit_word(match):
            found.append(_stem(word))
        found += _clause_number(match)
        at = match.end()
    found += _terms(text[at:], cut)
    return found


def _unit_word(match: re.Match[str]) -> str:
    return (match["word"] or "").rstrip("s.")


def _clause_number(match: re.Match[str]) -> list[str]:
    """The lexemes of a clause's number, the most exact first: 7(b), 第7条."""
    number = re.sub(r"\s", "", match["zh"] or match["en"] or match["bare"])
    if number[0] in _DIGITS or number[0] in _MULTIPLIERS:
        number = str(_numeral(number))
    if match["item"]:
        number = f"{number}({match['item']})"
    base, _, item = number.partition("(")
    whole = [number] if item else []
    if "." in base:
        return [*whole, *_dotted(base)]
    return [*whole, f"第{base}{match['unit'] or _UNITS.get(_unit_word(match), '条')}"]


def _numeral(text: str) -> int:
    """A Chinese numeral below ten thousand: 三, 十二, 一百零三, 二〇."""
    if all(character in _DIGITS for character in text):
        return int("".join(str(_DIGITS[character]) for character in text))
    total = digit = 0
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        else:
            total += (digit or 1) * _MULTIPLIERS[character]
            digit = 0
    return total + digit


def _dotted(number: str) -> Iterator[str]:
    """3.2.1 and what it belongs to, 3.2; a decimal stays itself."""
    parts = number.split(".")
    for length in range(len(parts), 1, -1):
        yield ".".join(parts[:length])


def _terms(text: str, cut: _Cut) -> list[str]:
    # Lists, not generators: a chunk has 400 tokens, each would pass through four of them.
    found: list[str] = []
    for match in _TERM.finditer(text):
        kind, term = match.lastgroup, match.group()
        if kind == "han":
            found += cut(term)
        elif kind == "term":
            found += _term(term)
        else:
            found.append(term.replace("," if kind == "grouped" else ".", ""))
    return found


def _words(run: str) -> list[str]:
    found: list[str] = []
    previous, end = "", -1
    for word, start, stop in rjieba.tokenize(run, "search"):
        found.append(word[:_LEXEME_CHARACTERS])
        if len(word) == 1:
            if previous and end == start:
                found.append(previous + word)
            previous, end = word, stop
    return found


def _words_and_characters(run: str) -> list[str]:
    words = rjieba.cut_for_search(run, False)
    return [*run, *(word[:_LEXEME_CHARACTERS] for word in words if len(word) > 1)]


@lru_cache(maxsize=50_000)
def _term(term: str) -> tuple[str, ...]:
    """A word, number or identifier as tokens: itself and its parts."""
    if _DOTTED.fullmatch(term):
        return tuple(_dotted(term[:_LEXEME_CHARACTERS]))
    parts = [part for part in _JOINT.split(term) if part]
    if term.endswith("'s") and len(parts) == 2:
        return (_stem(parts[0]),)
    found = []
    if parts != [term]:
        found.append(term[:_LEXEME_CHARACTERS])
    elif measure := _MEASURE.fullmatch(term):
        found.append(term[:_LEXEME_CHARACTERS])
        parts = [measure[1], measure[2]]
    stems = [part for part in parts if len(part) > 1 or part.isdigit() or parts == [term]]
    return (*found, *(_stem(part[:_LEXEME_CHARACTERS]) for part in stems))


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """English by Snowball (24 µs a word uncached); accents folded, other scripts and numbers left alone."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    plain = folded if folded.isascii() else word
    if not _WORD.fullmatch(plain):
        return plain
    with _stemming:
        return str(_stemmer.stemWord(plain))


# --- Postgres literals -----------------------------------------------------------------------------------


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def tsvector_literal(terms: Sequence[str]) -> str:
    """A `tsvector` literal with each term's positions, for a column or a cast.

    Beyond Postgres' limits (position 16,383, 1 MB) occurrences are left out; a chunk of any sensible size is far
    below them. Of one lexeme it keeps 255 positions itself.
    """
    # Text, not lists of numbers: 90 µs instead of 250 for a chunk's 400 tokens.
    entries: dict[str, str] = {}
    room = _VECTOR_BYTES
    for term, position in zip(terms, _POSITIONS, strict=False):
        if term in entries:
            entries[term] = f"{entries[term]},{position}"
        elif term:
            room -= 4 * len(term) + 8  # no character takes more bytes
            if room < 0:
                break
            entries[term] = f"'{term}':{position}" if term.isalnum() else f"{_quoted(term)}:{position}"
    return " ".join(entries.values())


def tsquery_literal(terms: Iterable[str]) -> str:
    """A `tsquery` literal that any one of `terms` satisfies; "" (which matches nothing) without terms."""
    distinct = [term for term in dict.fromkeys(terms) if term]
    return " | ".join(_quoted(term) for term in distinct[:_QUERY_OPERANDS])
