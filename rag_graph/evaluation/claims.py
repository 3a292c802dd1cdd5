"""Sentences that are true of their passage and sentences that are not, made from a set's gold sentences by rule.

Numbers, dates, names and negations are swapped; true ones are written otherwise: other units, other forms of a date,
the other language. The rules are the generator's own, none of the checker's: what the checker does not see must count
against it. Seeded: the same set and seed give the same claims.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_graph.evaluation.datasets import EvaluationSet
from rag_graph.evaluation.wordings import MONTH_NAMES, date_forms, number_forms, unit_forms
from store.text import language, sentences

__all__ = ["Claim", "claims", "halves"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the passage it is held against, and whether that says so. `language` is the sentence's."""

    kind: str
    true: bool
    text: str
    passage: str
    language: str
    source: str  # id of the passage the sentence was taken from


@dataclass(frozen=True, slots=True)
class _Gold:
    """A sentence of a passage that holds the answer to a question."""

    question: str
    answer: str
    sentence: str
    passage: str
    source: str
    language: str


def claims(chosen: EvaluationSet, seed: int = 0) -> list[Claim]:
    """At most one claim of each kind for each gold sentence of `chosen`."""
    golds = list(_golds(chosen))
    names = _names(golds)
    other = _parallel(chosen)
    made: list[Claim] = []
    for gold in golds:
        dice = random.Random(f"{seed}/{gold.source}/{gold.sentence}")
        for kind, text in _false(gold, names, dice):
            made.append(Claim(kind, False, text, gold.passage, gold.language, gold.source))
        for kind, text in _true(gold, dice):
            made.append(Claim(kind, True, text, gold.passage, gold.language, gold.source))
        if translated := other.get(gold.source):
            base = Claim("other language", True, gold.sentence, translated, gold.language, gold.source)
            made.append(base)
            if swapped := _swapped_number(gold.sentence, f"{gold.passage}\n{translated}", dice):
                made.append(replace(base, kind="number, other language", true=False, text=swapped))
    return made


def _golds(chosen: EvaluationSet) -> Iterator[_Gold]:
    """Each gold sentence once, with the first question it answers."""
    passages = {row.id: row for row in chosen.rows}
    seen: set[str] = set()
    for query in chosen.judged():
        row = passages.get(next(iter(chosen.relevant[query["id"]])))
        for answer in query.get("answer", ()) if row else ():
            found = [s for s in sentences(row.text) if answer in s] if row else []
            if row and found and found[0] not in seen and 8 <= len(found[0]) <= 400:
                seen.add(found[0])
                evidence = f"{row.title}\n{row.text}"
                yield _Gold(query["text"], answer, found[0], evidence, row.id, language(found[0]))
                break


def _parallel(chosen: EvaluationSet) -> Mapping[str, str]:
    """The same passage in the other language, where ids say so: en:Title:0 and zh:Title:0."""
    texts = {row.id: row.text for row in chosen.rows}
    other = {"en:": "zh:", "zh:": "en:"}
    twins = {id_: other.get(id_[:3], "") + id_[3:] for id_ in texts}
    return {id_: texts[twin] for id_, twin in twins.items() if twin != id_[3:] and twin in texts}


# --- false ------------------------------------------------------------------------------------------------------


def _false(
    gold: _Gold, names: Mapping[tuple[str, str], Sequence[str]], dice: random.Random
) -> Iterator[tuple[str, str]]:
    for kind, text in (
        ("number", _swapped_number(gold.sentence, gold.passage, dice)),
        ("number of the passage", _number_of_the_passage(gold, dice)),
        ("date", _swapped_date(gold.sentence, gold.passage, dice)),
        ("name", _swapped_name(gold, names, dice)),
        ("negation", _negated(gold)),
    ):
        if text and text != gold.sentence:
            yield kind, text


_ARABIC = r"(?<![A-Za-z0-9.,/:–-])\d[\d,]*(?:\.\d+)?(?![A-Za-z0-9/:–-])"
_COUNTED = "多余个名人位次份台项种件家年天日月周岁米公里千百万亿元吨克斤度层座"
_HAN = rf"(?<![一二三四五六七八九十百千万第零〇])[二三四五六七八九](?=十|百|千|万|[{_COUNTED}])"
_WORDS = (
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "twelve",
    "twenty",
    "thirty",
    "fifty",
)
_WORD = rf"\b(?:{'|'.join(_WORDS)})\b"
_NUMBER = re.compile(rf"(?P<arabic>{_ARABIC})|(?P<han>{_HAN})|(?P<word>{_WORD})", re.IGNORECASE)
_DATED = re.compile(
    rf"\d{{2,4}}\s*年(?:\s*\d{{1,2}}\s*月(?:\s*\d{{1,2}}\s*[日号])?)?|\d{{1,2}}\s*月(?:\s*\d{{1,2}}\s*[日号])?"
    rf"|(?:{MONTH_NAMES})\s+\d{{1,2}}(?:st|nd|rd|th)?,?(?:\s+\d{{4}})?|\d{{1,2}}\s+(?:{MONTH_NAMES})(?:\s+\d{{4}})?"
    rf"|(?:{MONTH_NAMES})\s+\d{{4}}|(?<![\d,.$£€])(?:1[0-9]|20)\d\d(?![\d,%]|\.\d|\s*(?:people|men|km|m|feet|acres))"
)


def _numbers(text: str) -> list[re.Match[str]]:
    dated = [match.span() for match in _DATED.finditer(text)]
    return [m for m in _NUMBER.finditer(text) if not any(a <= m.start() < b for a, b in dated)]


def _swapped_number(sentence: str, passage: str, dice: random.Random) -> str:
    found = _numbers(sentence)
    if not found:
        return ""
    match = dice.choice(found)
    for _ in range(20):
        new = _another(match, dice)
        if new.lower() != match.group().lower() and not _states(passage, new):
            return sentence[: match.start()] + new + sentence[match.end() :]
    return ""


def _states(passage: str, number: str) -> bool:
    return re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", passage, re.IGNORECASE) is not None


def _another(match: re.Match[str], dice: random.Random) -> str:
    if match["han"]:
        return dice.choice("二三四五六七八九")
    if match["word"]:
        new = dice.choice(_WORDS)
        return new.capitalize() if match.group()[0].isupper() else new
    digits = [at for at, c in enumerate(match.group()) if c.isdigit()]
    at = dice.choice(digits)
    new = dice.choice([d for d in "123456789" if d != match.group()[at]])
    return match.group()[:at] + new + match.group()[at + 1 :]


def _number_of_the_passage(gold: _Gold, dice: random.Random) -> str:
    """A number that the passage states of something else: digits for digits, as many."""
    mine = [m for m in _numbers(gold.sentence) if m["arabic"]]
    theirs = [m.group() for m in _numbers(gold.passage) if m["arabic"] and m.group() not in gold.sentence]
    pairs = [(m, new) for m in mine for new in theirs if len(new) == len(m.group())]
    if not pairs:
        return ""
    match, new = dice.choice(pairs)
    return gold.sentence[: match.start()] + new + gold.sentence[match.end() :]


def _swapped_date(sentence: str, passage: str, dice: random.Random) -> str:
    """Another year, month or day."""
    found = list(_DATED.finditer(sentence))
    if not found:
        return ""
    match = dice.choice(found)
    parts = list(re.finditer(rf"\d+|{MONTH_NAMES}", match.group()))
    part = dice.choice(parts)
    for _ in range(20):
        new = _another_part(part.group(), dice)
        whole = match.group()[: part.start()] + new + match.group()[part.end() :]
        if whole != match.group() and whole not in passage:
            return sentence[: match.start()] + whole + sentence[match.end() :]
    return ""


def _another_part(part: str, dice: random.Random) -> str:
    if not part.isdigit():
        return dice.choice(MONTH_NAMES.split("|"))
    if len(part) >= 3:
        return str(int(part) + dice.choice([-30, -7, -3, -1, 1, 2, 5, 20]))
    return str(dice.randint(1, 12))


_WHO = re.compile(r"谁|哪位|什么人|\b(?:who|whom|whose)\b", re.IGNORECASE)
_WHERE = re.compile(
    r"哪里|哪儿|何处|何地|哪[个座]?(?:国家|城市|省|市|地方?|县|州)|\bwhere\b|\b(?:city|country|state|town)\b",
    re.IGNORECASE,
)
_NAME_ZH = re.compile(
    r"[^\W第的前后内外者们中和与]{2,8}"
)  # the other answers to 谁 and 哪里 describe: 第一背鳍前方
_NAME_EN = re.compile(r"(?:[A-Z][\w.'-]+)(?: (?:of |de |van )?[A-Z][\w.'-]+){0,3}")


def _asks(question: str) -> str:
    return "who" if _WHO.search(question) else "where" if _WHERE.search(question) else ""


def _names(golds: Sequence[_Gold]) -> dict[tuple[str, str], list[str]]:
    """Answers that are names, by language and what was asked."""
    found: dict[tuple[str, str], list[str]] = {}
    for gold in golds:
        pattern = _NAME_ZH if gold.language == "zh" else _NAME_EN
        asked = _asks(gold.question)
        if asked and pattern.fullmatch(gold.answer) and not gold.answer.endswith("'"):
            found.setdefault((gold.language, asked), []).append(gold.answer)
    return found


def _swapped_name(gold: _Gold, names: Mapping[tuple[str, str], Sequence[str]], dice: random.Random) -> str:
    """The answer, a name, replaced by another question's answer of the same sort that the passage does not have."""
    pool = names.get((gold.language, _asks(gold.question)), ())
    if gold.answer not in pool:
        return ""
    others = sorted({name for name in pool if name not in gold.passage and name not in gold.answer})
    return gold.sentence.replace(gold.answer, dice.choice(others), 1) if others else ""


_DENY: tuple[tuple[str, str], ...] = (
    (r"不是", "是"), (r"没有|没(?=有)", "有"), (r"无法", "可以"), (r"不能", "能"), (r"不会", "会"),
    (r"并未|从未|未能", "已经"), (r"(?<![不也只但就还便若总于凡或算皆均即可])是(?![否非不])", "不是"),
    (r"(?<![没只所拥还具富含共原])有(?![限关些时的])", "没有"), (r"(?<![不才])可以", "不可以"),
    (r"(?<!不)能够", "不能够"),
    (r"(?<![没不])被", "没有被"), (r"位于", "不位于"), (r"属于", "不属于"),
    (r"(?<!没有)(?=获得|成为|参加|担任|使用|建立|发现|发表|加入|赢得|当选)", "没有"),
)  # fmt: skip
_DENY_EN: tuple[tuple[str, str], ...] = (
    (r" not\b(?! only)", ""), (r"\bcannot\b", "can"), (r"(?<=[a-z])n't\b", ""), (r"\bnever ", ""),
    (r"\b(is|was|are|were|can|could|will|would|did|does|must|may|should)\b(?! not|n't)", r"\1 not"),
    (r"\b(has|have|had)(?= (?:been|\w+ed)\b)", r"\1 not"),
)  # fmt: skip


def _negated(gold: _Gold) -> str:
    """The sentence denied, or its denial taken away, in the first place a rule finds."""
    for pattern, new in _DENY if gold.language == "zh" else _DENY_EN:
        if re.search(pattern, gold.sentence):
            return re.sub(pattern, new, gold.sentence, count=1)
    return ""


# --- true -------------------------------------------------------------------------------------------------------

_FORMS: tuple[tuple[str, Callable[[str], list[str]]], ...] = (
    ("numbers", number_forms),
    ("units", unit_forms),
    ("dates", date_forms),
)


def _true(gold: _Gold, dice: random.Random) -> Iterator[tuple[str, str]]:
    yield "as written", gold.sentence
    for kind, forms in _FORMS:
        if found := forms(gold.sentence):
            yield kind, dice.choice(found)


def halves(made: Sequence[Claim]) -> Mapping[str, list[Claim]]:
    """By passage, both languages of one together: the half that the checker was mended on, and the other."""
    split: dict[str, list[Claim]] = {"mended on": [], "held out": []}
    for claim in made:
        split["mended on" if random.Random(_twin(claim.source)).random() < 0.5 else "held out"].append(claim)
    return split


def _twin(source: str) -> str:
    return source[3:] if source.startswith(("en:", "zh:")) else source
