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

__all__ = [
    "clean",
    "estimate_tokens",
    "language",
    "lexemes",
    "normalise",
    "query_lexemes",
    "references",
    "sentences",
    "tokens",
    "tsquery_literal",
    "tsvector_literal",
]

HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
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

# Postgres: a lexeme is at most 2,046 bytes, a position at most 16,383 (at most 255 of them for one lexeme), a
# whole tsvector under 1 MB, and a query's operands together under 1 MB.
_LEXEME_CHARACTERS = 500
_LAST_POSITION = 16_383
_POSITIONS = 255
_VECTOR_BYTES = 900_000
_QUERY_OPERANDS = 400


def clean(text: str) -> str:
    """`text` as Postgres can store it: no NUL, surrogate pairs joined, lone ones replaced by U+FFFD."""
    return text.replace("\0", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def normalise(text: str) -> str:
    """NFKC and lower case: full-width forms and capitals compare equal; ’ becomes '."""
    return unicodedata.normalize("NFKC", clean(text)).lower().replace("’", "'")


def estimate_tokens(text: str) -> int:
    """Language-model tokens of `text`, a safe estimate on the high side in both languages.

    A third of the UTF-8 bytes. Measured: 30 Chinese characters, 17 real and 30 estimated; 97 English ones, 17
    and 33. Exact counts would need a vocabulary that tiktoken downloads at run time.
    """
    return len(text.encode("utf-8", "surrogatepass")) // 3


# --- language --------------------------------------------------------------------------------------------

_HAN_CHARACTER = re.compile(rf"[{HAN}]")
_LATIN_WORD = re.compile(r"[a-z]+")
_ENGLISH_FRAME = re.compile(
    r"\b(?:an?|the|is|are|was|were|do|does|did|how|what|when|where|which|who|why|can|could|should|must|may|i|my|"
    r"we|our|you|your|it|to|of|for|from|in|on|at|with|by|and|or|not|mean|about|if)\b"
)
_CHINESE_FRAME = re.compile("[的吗呢了是么吧怎]|什么|多少|如何|哪|几|谁|可以|能|请|有没有|需要|要")


def language(text: str) -> str:
    """ "zh" or "en", by script; where both occur, by the words that hold the sentence together.

    "VPN client 怎么装" is Chinese, "What does 年假 mean?" is English. Without any letter: "en".
    """
    lowered = normalise(text)
    han = len(_HAN_CHARACTER.findall(lowered))
    words = _LATIN_WORD.findall(lowered)
    if not han or not words:
        return "zh" if han else "en"
    english = len(_ENGLISH_FRAME.findall(lowered))
    chinese = len(_CHINESE_FRAME.findall(lowered))
    if english >= 2 and chinese == 0:
        return "en"
    if chinese and english < 2:
        return "zh"
    return "zh" if han >= 2 * len(words) else "en"


# --- tokens ----------------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """The words of `text`, in order, repeated as often as they occur.

    Chinese is cut into words and the words inside words; neighbouring characters that the dictionary
    leaves single are also joined (年假 is no dictionary word: 年, 假, 年假). English words are stemmed.
    Identifiers stay whole beside their parts (user_id, user, id). Clause numbers have one form: 第三条 and
    "Article 3" give 第3条; 第 3.2 条, clause 3.2 and 3.2 give 3.2.
    """
    return list(_tokens(normalise(text), _words))


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


_Cut = Callable[[str], Iterator[str]]


def _tokens(text: str, cut: _Cut) -> Iterator[str]:
    at = 0
    for match in _CLAUSE.finditer(text):
        yield from _terms(text[at : match.start()], cut)
        yield from _clause(match)
        at = match.end()
    yield from _terms(text[at:], cut)


def _clause(match: re.Match[str]) -> Iterator[str]:
    if word := _unit_word(match):
        yield _stem(word)
    yield from _clause_number(match)


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


def _terms(text: str, cut: _Cut) -> Iterator[str]:
    for match in _TERM.finditer(text):
        if match["han"]:
            yield from cut(match["han"])
        elif match["grouped"]:
            yield match["grouped"].replace(",", "")
        elif match["acronym"]:
            yield match["acronym"].replace(".", "")
        else:
            yield from _term(match["term"])


def _words(run: str) -> Iterator[str]:
    previous, end = "", -1
    for word, start, stop in rjieba.tokenize(run, "search"):
        yield word[:_LEXEME_CHARACTERS]
        if len(word) == 1:
            if previous and end == start:
                yield previous + word
            previous, end = word, stop


def _words_and_characters(run: str) -> Iterator[str]:
    yield from run
    for word, _, _ in rjieba.tokenize(run, "search", False):
        if len(word) > 1:
            yield word[:_LEXEME_CHARACTERS]


def _term(term: str) -> Iterator[str]:
    if _DOTTED.fullmatch(term):
        yield from _dotted(term[:_LEXEME_CHARACTERS])
        return
    parts = [part for part in _JOINT.split(term) if part]
    if term.endswith("'s") and len(parts) == 2:
        yield _stem(parts[0])
        return
    if parts != [term]:
        yield term[:_LEXEME_CHARACTERS]
    elif measure := _MEASURE.fullmatch(term):
        yield term[:_LEXEME_CHARACTERS]
        parts = [measure[1], measure[2]]
    for part in parts:
        if len(part) > 1 or part.isdigit() or parts == [term]:
            yield _stem(part[:_LEXEME_CHARACTERS])


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

    Beyond Postgres' limits (position 16,383, 255 positions a lexeme, 1 MB) occurrences are left out; a chunk
    of any sensible size is far below them.
    """
    positions: dict[str, list[int]] = {}
    size = 0
    for position, term in enumerate(terms, 1):
        if not term or position > _LAST_POSITION:
            continue
        places = positions.get(term)
        if places is None:
            size += len(term.encode()) + 8
            if size > _VECTOR_BYTES:
                break
            places = positions[term] = []
        if len(places) < _POSITIONS:
            places.append(position)
    return " ".join(f"{_quoted(term)}:{','.join(map(str, places))}" for term, places in positions.items())


def tsquery_literal(terms: Iterable[str]) -> str:
    """A `tsquery` literal that any one of `terms` satisfies; "" (which matches nothing) without terms."""
    distinct = [term for term in dict.fromkeys(terms) if term]
    return " | ".join(_quoted(term) for term in distinct[:_QUERY_OPERANDS])


# --- sentences -------------------------------------------------------------------------------------------

_ABBREVIATION = re.compile(
    r"e\.g|i\.e|etc|vs|cf|al|approx|nos?|fig|eq|sec|art|vol|pp?|dr|mrs?|ms|prof|sr|jr|st|inc|ltd|co|corp|dept|est|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|u\.s|u\.k|a\.m|p\.m",
    re.IGNORECASE,
)
_CLOSERS = "\"'”’」』）)]》*_"
_END = re.compile(
    rf"[。！？!?]+[{re.escape(_CLOSERS)}]*|…{{2,}}[{re.escape(_CLOSERS)}]*|\.+[{re.escape(_CLOSERS)}]*(?=\s|$)"
)
_BLOCK = re.compile(
    r"\s*(?:[-*+•]\s|\d{1,3}[.)、]\s*|[（(][一二三四五六七八九十\d]{1,3}[）)]|#{1,6}\s|\||>|```|~~~|\[page|<!--)"
)
_MARKUP = re.compile(r"[\s|:*_=+`~#>-]*|<!--.*-->|(?:```|~~~).*")


def sentences(text: str) -> list[str]:
    """The sentences of `text`, each a verbatim slice of it, in order, without the white space around them.

    Ends are 。！？!? and a full stop before white space, with the quotes that close there; not decimals,
    clause numbers, abbreviations or initials. Headings, list items, table rows and paragraphs end a sentence
    too; lines of mere markup are left out.
    """
    found: list[str] = []
    for block in _blocks(text):
        start = 0
        for match in _END.finditer(block):
            if match.group()[0] == "." and not _stops(block, match.start(), start):
                continue
            found.append(block[start : match.end()].strip())
            start = match.end()
        found.append(block[start:].strip())
    return [sentence for sentence in found if sentence and not _MARKUP.fullmatch(sentence)]


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, with each heading, list item and table row alone; wrapped lines stay together."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        alone = line.lstrip().startswith(("#", "|"))
        if not line.strip() or _BLOCK.match(line):
            yield "".join(lines)
            lines = []
        if alone:
            yield line
        elif line.strip():
            lines.append(line)
    yield "".join(lines)


def _stops(block: str, dot: int, start: int) -> bool:
    """Does the full stop at `dot` end a sentence, not an abbreviation, initial or list number?"""
    head = block[start:dot]
    last = head.split()[-1].lstrip("(\"'“‘*_") if head.split() else ""
    if not last or _ABBREVIATION.fullmatch(last):
        return not last and bool(head.strip())
    if len(last) == 1 and last.isalpha() and last.isupper():
        return block[dot + 1 :].strip() == ""
    return not (last.isdigit() and not head[: -len(last)].strip())
