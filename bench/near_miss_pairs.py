"""Questions made from public ones: the same question said otherwise, and others that differ in one thing. Pure, seeded.

A rephrasing changes politeness, word order, contractions or the spelling of a number, by one of the templates below. A
near miss changes one number, one name, one unit, or whether it is denied; the fifth kind, another audience, changes who
asks and nothing else.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rag_graph.names import names
from rag_graph.numbers import quantities
from store.text import language, normalise

__all__ = ["KINDS", "Pair", "near_misses", "rephrasings"]

KINDS = ("number", "name", "negation", "unit", "audience")


@dataclass(frozen=True, slots=True)
class Pair:
    """`asked` after `known` was signed off. `kind`: one of `KINDS`, or the template of a rephrasing."""

    kind: str
    known: str
    asked: str


# --- the same, said otherwise ------------------------------------------------------------------------------------

_AUX = r"(?:is|are|was|were|do|does|did|can|could|will|would|has|have|had|should|must)"
_WH = re.compile(
    rf"^(?P<wh>(?:[A-Za-z]+ )?(?:what|when|where|who|why|how|which)\b[^,]*?) (?P<aux>{_AUX}) (?P<rest>.+)$",
    re.I,
)
_BE = re.compile(r"^(?P<wh>what|who|where) (?P<aux>is|are|was|were) (?P<rest>[^,]+)$", re.I)


_STARTS = (
    "what when where who why how which whose whom in on at by for from to of with the a an is are "
    "was were do does did can could will would has have had should must during after before under "
    "according as "
)


def _lower(text: str) -> str:
    """Without the capital of a sentence's first word; names keep theirs."""
    first, _, rest = text.partition(" ")
    common = first.lower() in _STARTS.split()
    return f"{first.lower()} {rest}" if common else text


def _bare(text: str) -> str:
    return text.strip().rstrip("?？.。! ")


def _indirect(lead: str) -> Callable[[str], str | None]:
    """Could you tell me when the treaty was signed."""

    def made(text: str) -> str | None:
        match = _BE.match(_bare(text))
        if match is None or len(match["rest"].split()) > 9:
            return None
        return f"{lead} {match['wh'].lower()} {match['rest']} {match['aux'].lower()}?"

    return made


def _lead(lead: str, tail: str = "?") -> Callable[[str], str | None]:
    return lambda text: f"{lead}{_lower(_bare(text))}{tail}"


_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


def _spelt_out(text: str) -> str | None:
    """3 as three; a year, a score or a name's number stays."""
    match = re.search(r"(?<![\w.,:/%$€£-])([2-9]|1[0-2])(?= [a-z]{3,})(?! (?:am|pm|a\.m|p\.m))", text)
    return f"{text[: match.start()]}{_WORDS[int(match[1])]}{text[match.end() :]}" if match else None


_SHORT = (
    ("What is", "What's"),
    ("Who is", "Who's"),
    ("Where is", "Where's"),
    ("did not", "didn't"),
    ("is not", "isn't"),
)


def _contracted(text: str) -> str | None:
    for long, short in _SHORT:
        if long in text:
            return text.replace(long, short, 1)
    return None


def _counted(text: str) -> str | None:
    match = re.match(r"^How many (\w+(?: \w+){0,3}) (are|were) (.+)$", _bare(text))
    return (
        f"What {'is' if match[2] == 'are' else 'was'} the number of {match[1]} {match[3]}?" if match else None
    )


TEMPLATES_EN: dict[str, Callable[[str], str | None]] = {
    "could you tell me": _lead("Could you tell me: "),
    "hi, please": _lead("Hi, ", ", please?"),
    "do you know": _lead("Do you know "),
    "I would like to know": _lead("I would like to know ", "."),
    "quick question": _lead("Quick question: ", " Thanks!"),
    "does anyone know": _lead("Does anyone know ", "?"),
    "thanks in advance": _lead("Hello team, ", "? Thanks in advance."),
    "I was wondering": _lead("I was wondering, ", "?"),
    "any idea": lambda text: f"{_bare(text)}? Any idea?",
    "no question mark": lambda text: _lower(_bare(text)),
    "turned round": _indirect("Can you tell me"),
    "turned round, wondering": _indirect("I wonder"),
    "contracted": _contracted,
    "number spelt out": _spelt_out,
    "full width": lambda text: text.replace("?", "？"),
}

_HAN_DIGITS = "〇一二三四五六七八九十"


def _zh_digit(text: str) -> str | None:
    """三个 as 3个, and the other way round."""
    match = re.search(r"(?<![\d第十百千万亿零〇一二三四五六七八九.])([2-9])(?=[个名位次种项年天月周])", text)
    if match:
        return f"{text[: match.start()]}{_HAN_DIGITS[int(match[1])]}{text[match.end() :]}"
    match = re.search(
        r"(?<![第十百千万亿零〇一二三四五六七八九\d])([三四五六七八九])(?=[个名位次种项年天月周](?![代级]))",
        text,
    )
    if match:
        return f"{text[: match.start()]}{_HAN_DIGITS.index(match[1])}{text[match.end() :]}"
    return None


def _swap(pairs: Sequence[tuple[str, str]]) -> Callable[[str], str | None]:
    def made(text: str) -> str | None:
        for one, other in pairs:
            if text.count(one) == 1:
                return text.replace(one, other)
        return None

    return made


TEMPLATES_ZH: dict[str, Callable[[str], str | None]] = {
    "请问": lambda text: f"请问{text}",
    "你好": lambda text: f"你好，请问一下，{text}",
    "我想知道": lambda text: f"我想知道{_bare(text)}。",
    "谢谢": lambda text: f"{_bare(text)}？谢谢！",
    "有人知道吗": lambda text: f"{_bare(text)}？有人知道吗？",
    "麻烦问一下": lambda text: f"麻烦问一下，{text}",
    "能告诉我": lambda text: f"能告诉我{_bare(text)}吗？",
    "想请教一下": lambda text: f"想请教一下：{text}",
    "语气词": lambda text: f"{_bare(text)}呢？",
    "没有问号": _bare,
    "半角": lambda text: f"{_bare(text)}?".replace("，", ","),
    "数字": _zh_digit,
    "什么时候": _swap([("什么时候", "何时"), ("何时", "什么时候"), ("在哪一年", "在哪年")]),
    "哪里": _swap([("哪里", "哪儿"), ("何处", "哪里"), ("什么地方", "哪里")]),
    "怎样": _swap([("怎么", "如何"), ("如何", "怎样"), ("为什么", "为何"), ("可以", "能"), ("能够", "可以")]),
}


def rephrasings(questions: Sequence[str], count: int, seed: int) -> list[Pair]:
    """`count` pairs from questions of one language, the templates taking turns as far as they apply."""
    rolled = random.Random(f"rephrasings:{seed}")
    templates = TEMPLATES_ZH if language(questions[0]) == "zh" else TEMPLATES_EN
    drawn = rolled.sample(list(questions), len(questions))
    made: list[Pair] = []
    names_of = list(templates)
    for at, known in enumerate(drawn * 3):
        if len(made) == count:
            break
        for shift in range(len(names_of)):
            kind = names_of[(at + shift) % len(names_of)]
            asked = templates[kind](known)
            if asked and asked != known and all(pair.asked != asked for pair in made[-40:]):
                made.append(Pair(kind, known, asked))
                break
    return made


# --- another question --------------------------------------------------------------------------------------------

_ENGLISH_NUMBERS = {word: at for at, word in enumerate(_WORDS) if at > 1}


def _number(text: str, rolled: random.Random) -> str | None:
    """Another number in the place of one."""
    found = [q for q in quantities(text) if not q.soft and q.amount is not None]
    rolled.shuffle(found)
    for quantity in found:
        # The text of a quantity is NFKC; only where it stands there as it was written can it be exchanged.
        if text[quantity.start : quantity.start + len(quantity.text)] != quantity.text:
            continue
        changed = _other(quantity.text, rolled)
        if changed:
            return text[: quantity.start] + changed + text[quantity.start + len(quantity.text) :]
    return None


def _other(said: str, rolled: random.Random) -> str | None:
    digits = re.search(r"\d+", said)
    if digits:
        number = int(digits[0])
        other = number + rolled.choice([1, 2, 3, 5] if number < 1000 else [1, 2, 10, -1])
        return said[: digits.start()] + str(other) + said[digits.end() :]
    for word, value in _ENGLISH_NUMBERS.items():
        if re.search(rf"\b{word}\b", said, re.I):
            return re.sub(rf"\b{word}\b", _WORDS[value + 1 if value < 12 else 2], said, count=1, flags=re.I)
    han = re.search(r"[二三四五六七八九]", said)
    if han:
        digit = rolled.choice([c for c in "二三四五六七八九" if c != han[0]])
        return said[: han.start()] + digit + said[han.end() :]
    return None


def _pairs(table: str) -> tuple[tuple[str, str], ...]:
    """ "one>other|…" as pairs."""
    return tuple((one, other) for one, _, other in (pair.partition(">") for pair in table.split("|")))


_UNITS_EN = _pairs(
    "seconds>minutes|minutes>hours|hours>days|days>working days|weeks>months|months>years|years>months"
    "|year>month|kilometres>miles|kilometers>miles|miles>kilometers|metres>feet|meters>feet|feet>meters"
    "|percent>percentage points|percentage>number|tons>kilograms|metric tons>tons|pounds>kilograms"
    "|dollars>euros|euros>dollars|%> per mille|$>€|£>$|million>billion|billion>million|square miles>acres"
    "|century>decade|decade>century|acres>hectares|degrees>radians"
)
_UNITS_ZH = _pairs(
    "公里>英里|英里>公里|平方公里>公顷|公顷>亩|千克>吨|公斤>斤|吨>公斤|小时>分钟|分钟>秒|秒>分钟|个月>周"
    "|星期>个月|多少天>多少个工作日|多少年>多少个月|哪一年>哪一天|哪年>哪天|世纪>年代|美元>欧元|英镑>美元"
    "|元>美元|米>英尺|岁>个月|百分之>千分之|%>‰|百分比>千分比|亿>万|万>亿|码>米|度>弧度|年>个月|天>周"
)


def _unit(text: str, rolled: random.Random) -> str | None:
    """Another unit in the place of one, of what is asked or of what is said."""
    chinese = language(text) == "zh"
    if chinese:
        counted = r"(?:[\d零一二两三四五六七八九十百千万亿]|多少|几)\s*"
        for one, other in _UNITS_ZH:
            whole = one.startswith(("多少", "哪", "百分"))
            match = re.search(
                re.escape(one) if whole else rf"{counted}(?P<u>{re.escape(one)})(?![代级度轻青前后初末])",
                text,
            )
            if match:
                start = match.start() if whole else match.start("u")
                return text[:start] + other + text[start + len(one) :]
        return None
    for one, other in _UNITS_EN:
        pattern = re.escape(one) if not one.isalpha() else rf"\b{one}\b"
        match = re.search(
            rf"(?:\d|how many |how much |one |two |three |four |five |six |ten |per |what |which |in )\s?{pattern}",
            text,
            re.I,
        )
        if match and (one.isalpha() or " " in one or re.search(r"\d", text)):
            start = match.end() - len(one)
            return text[:start] + other + text[match.end() :]
    return None


_DENIED_ZH = _pairs("是>不是|可以>不可以|能>不能|会>不会|被>没有被|有>没有|在>不在|需要>不需要")


def _negated(text: str, rolled: random.Random) -> str | None:
    """Denied where it was not, and the other way round."""
    if language(text) == "zh":
        for one, other in (("不", ""), ("没有", "有"), ("未", "")):
            if text.count(one) == 1 and not re.search("不同|不仅|不过|不断|未来|不足|不满|不少|不超", text):
                return text.replace(one, other)
        for one, other in _DENIED_ZH:
            at = [m.start() for m in re.finditer(re.escape(one), text)]
            at = [
                a
                for a in at
                if not re.search(r"[功性可技才智职机学大议社协国公都开教工商年拥占没含具只所还]$", text[:a])
            ]
            if len(at) == 1:
                return text[: at[0]] + other + text[at[0] + len(one) :]
        return None
    if match := re.search(r"\b(\w+) not\b", text):
        return text[: match.end(1)] + text[match.end() :]
    match = re.search(r"\b(is|are|was|were|did|does|do|has|have|had|could|would|should)\b", text)
    return f"{text[: match.end()]}n't{text[match.end() :]}" if match else None


def _named(text: str, pool: Sequence[str], rolled: random.Random) -> str | None:
    """Another name in the place of one."""
    own = [name for name in _written(text) if len(name) > 1]
    if not own:
        return None
    one = max(own, key=len)
    other = rolled.choice([name for name in pool if normalise(name) not in normalise(text)])
    return text.replace(one, other, 1)


_CAPITALS = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")


def _written(text: str) -> list[str]:
    """The names of `text` as they are written there."""
    if language(text) == "zh":
        return [name for name in sorted(names(text, "zh")) if name in text and not name.isascii()]
    return _CAPITALS.findall(text)


def near_misses(questions: Sequence[str], count: int, seed: int) -> dict[str, list[Pair]]:
    """By kind, at most `count` pairs from questions of one language; fewer where fewer questions have such a thing."""
    rolled = random.Random(f"near misses:{seed}")
    drawn = rolled.sample(list(questions), len(questions))
    pool = sorted({name for question in questions for name in _written(question)})
    makers: dict[str, Callable[[str], str | None]] = {
        "number": lambda text: _number(text, rolled),
        "name": lambda text: _named(text, pool, rolled),
        "negation": lambda text: _negated(text, rolled),
        "unit": lambda text: _unit(text, rolled),
        "audience": lambda text: text,
    }
    there = {normalise(question) for question in questions}
    made: dict[str, list[Pair]] = {}
    for kind, make in makers.items():
        made[kind] = list(_taken(drawn, kind, make, there, count))
    return made


def _taken(
    drawn: Sequence[str], kind: str, make: Callable[[str], str | None], there: set[str], count: int
) -> Iterator[Pair]:
    taken = 0
    for known in drawn:
        asked = make(known)
        # What happens to be another question of the set is no near miss of this one.
        if taken < count and asked and (kind == "audience" or normalise(asked) not in there):
            taken += 1
            yield Pair(kind, known, asked)
