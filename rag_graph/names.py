"""Names in a text, and whether one was put in another's place. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

import rjieba

from rag_graph.terms import content
from rag_graph.wording import NEGATION, plain, shared, squeezed, whole
from store.text import language, sentences

__all__ = ["names", "present", "renamed"]

ALIGNED_FROM = 0.5  # from here two sentences speak of the same thing
REPEATED_FROM = 0.7  # of their words in order: from here they are one sentence, with something exchanged

_TITLE = re.compile(r"《([^《》]{1,40})》")
_LATIN_NAME = re.compile(
    r"(?<![\w-])[A-Z][\w&.'-]*\w(?:\s+(?:of|de|van|von|the|and)?\s*(?:[A-Z]\.\s+)*[A-Z][\w&.'-]*\w)*"
)
# A code, a file, an address; "well-known" and "metres/h" are words.
_IDENTIFIER = re.compile(
    r"[A-Za-z]+(?:[_.][A-Za-z0-9]+)+|(?=[\w/-]*(?:\d|[A-Z]{2}))[A-Za-z]+(?:[/-][A-Za-z0-9]+)+"
    r"|[A-Z]{2,}[a-z]?\b|[a-z]+[A-Z]\w*"
)
_CALENDAR = re.compile(
    "(?:january|february|march|april|may|june|july|august|september|october|november|december|i|chinese|english"
    "|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?"
)
_NAME_TAGS = ("nr", "ns", "nt", "nz")  # and their kinds: nrt, nrfg


def names(claim: str, spoken: str) -> set[str]:
    """Names in `claim`, normalised: people, places, organisations, titles, identifiers."""
    found = {match[1] for match in _TITLE.finditer(claim)} | set(_IDENTIFIER.findall(claim))
    if spoken == "zh":
        found |= set(_chinese_names(claim))
    else:
        found |= set(_english_names(claim))
    return {squeezed(name) for name in found if len(name) > 1}


_ADDRESSED = ("先生", "女士", "小姐", "老师", "经理", "总", "工", "某", "氏", "姓", "家")


def _chinese_names(claim: str) -> Iterator[str]:
    """Words that the dictionary has as names, and a surname with the word behind it (王 + 治平)."""
    tagged = list(rjieba.tag(claim))
    for (word, tag), (after, _) in zip(tagged, [*tagged[1:], ("", "")], strict=True):
        if not tag.startswith(_NAME_TAGS):
            continue
        if len(word) > 1:
            yield word
        elif tag == "nr" and 0 < len(after) <= 2 and after not in _ADDRESSED and not after.isascii():
            yield word + after


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


def present(text: str, names: Iterable[str]) -> set[str]:
    """Those of `names` that `text`, squeezed, has; the tagger may take the word before a name into it (由张伟)."""
    return {
        name
        for name in names
        if name in text
        or (name.isascii() and name.removesuffix("'s").removesuffix("s") in text)
        or (len(name) > 2 and not name.isascii() and name[1:] in text)
    }


# --- one in another's place --------------------------------------------------------------------------------------


def renamed(claim: str, passages: Sequence[str]) -> bool:
    """Is the claim nearly a sentence of the passages, but for a name with something else in its place?

    Names that no dictionary has are found by what they stand for: in "China signed a Treaty" the passage has
    Greenland, and China nowhere.
    """
    mine, said = whole(claim), squeezed("\n".join(passages))
    return any(
        shared(mine.words, whole(sentence).words) >= ALIGNED_FROM and _replaced(sentence, claim, said)
        for passage in passages
        for sentence in sentences(passage)
    )


_TOKEN = re.compile(r"[A-Za-z][\w.'’-]*|\d[\d,.]*")
_LONGEST_NAME = 8  # characters in Chinese; four words in English


def _replaced(sentence: str, claim: str, said: str) -> bool:
    """Did a name of `sentence` become a name, in `claim`, that is nowhere in what was `said`?"""
    chinese = language(claim) == "zh"
    before, after = _tagged(sentence, chinese), _tagged(claim, chinese)
    matcher = SequenceMatcher(None, [word for word, _ in before], [word for word, _ in after], autojunk=False)
    if matcher.ratio() < REPEATED_FROM:
        return False
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "replace":
            continue
        new = squeezed(("" if chinese else " ").join(word for word, _ in after[c:d]))
        short = len(new) <= _LONGEST_NAME if chinese else d - c <= 4
        if short and len(new) > 1 and new not in said and _namelike(before[a:b]) and _nounlike(after[c:d]):
            return True
    return False


@lru_cache(maxsize=512)
def _tagged(text: str, chinese: bool) -> list[tuple[str, str]]:
    """Words with their sort: the tagger's in Chinese; in English "n" with a capital, "w" without, "m" for numbers."""
    if chinese:
        return [(word, tag) for word, tag in rjieba.tag(plain(text)) if word.strip()]
    words = [match.group().rstrip(".'’") for match in _TOKEN.finditer(plain(text))]
    return [(word, "m" if word[:1].isdigit() else "n" if word[:1].isupper() else "w") for word in words]


def _namelike(words: Sequence[tuple[str, str]]) -> bool:
    """Has it a name in it, or only characters that are no words together (a name the dictionary lacks)?"""
    named = any(
        tag.startswith(("nr", "ns", "nt", "nz", "eng")) or (tag == "n" and word.isascii())
        for word, tag in words
    )
    return named or (len(words) > 1 and all(len(word) == 1 and tag != "m" for word, tag in words))


def _nounlike(words: Sequence[tuple[str, str]]) -> bool:
    """Could it be a name? No numbers, and no words that only hold a sentence together."""
    if any(tag == "m" or NEGATION.search(word) for word, tag in words):
        return False
    nouns = [
        word
        for word, tag in words
        if tag.startswith(("n", "x", "eng")) or (len(word) == 1 and not word.isascii())
    ]
    return len(nouns) * 2 >= len(words)
