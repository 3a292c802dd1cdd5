"""How a question is put to search without a model: the topic carried over, or, after a weak search, another way.

The result is used for search only, but people are shown it, so it has to read well. `followups.needs_rewrite`
says whether; a model, where there is one, does better and is asked first (rag_graph/models.py).
"""

import re
from collections.abc import Sequence
from typing import Final

import rjieba

from rag_graph.compound import parts
from rag_graph.contracts import Turn
from rag_graph.followups import AND_ZH, BARE_EN, BARE_ZH, PRONOUN_EN, needs_rewrite, pointed_zh
from rag_graph.numbers import quantities
from rag_graph.terms import content, is_content
from rag_graph.topics import doings, phrases, titles_in, topics
from store.text import language, normalise

__all__ = [
    "CARRY_OVER",
    "apply_strategy",
    "by_rule",
    "carry_over",
    "needs_rewrite",
    "next_strategy",
    "strategies",
]

CARRY_OVER: Final = "carry_over"
KEYWORDS: Final = "keywords"
OTHER_LANGUAGE: Final = "other_language"
STEP_BACK: Final = "step_back"
DECOMPOSE: Final = "decompose"

REMEMBERED = 6  # turns looked back at


# --- the topic carried over -------------------------------------------------------------------------------------


def carry_over(question: str, turns: Sequence[Turn], summary: str, titles: Sequence[str]) -> str:
    """`question` with what it leaves out: the conversation's topic in the demonstrative's place, or before it.

    A question that names a known title and points at nothing is returned as it is, and so is any for which the
    conversation offers no topic.
    """
    asked = question.strip()
    chinese = language(asked) == "zh"
    pointed = pointed_zh(asked) if chinese else PRONOUN_EN.search(normalise(asked))
    if titles_in(asked, titles) and not pointed:
        return asked
    recent = _spelled_out(turns[-REMEMBERED:])
    found = topics(recent, titles) or topics([Turn("", summary, "")], titles) or _answered(recent)
    if not found:
        return asked
    last = _last_whole(recent)
    if chinese:
        return _carried_zh(asked, found, last)
    return _carried_en(asked, found, last, known=found[0] in titles)


def _spelled_out(turns: Sequence[Turn]) -> list[Turn]:
    """那合同工呢？ asks the question before it once more, about somebody else: so it is still about that."""
    done: list[Turn] = []
    for turn in turns:
        short = AND_ZH.fullmatch(normalise(turn.question))
        last = _last_whole(done)
        if short and last and not pointed_zh(turn.question) and phrases(short["x"]):
            done.append(Turn(turn.question_id, f"{short['x']}：{last}", turn.answer, turn.status))
        else:
            done.append(turn)
    return done


def _last_whole(turns: Sequence[Turn]) -> str:
    """The last question that could be understood alone; the very first one always could."""
    for at in range(len(turns) - 1, -1, -1):
        if not needs_rewrite(turns[at].question, turns[:at]):
            return turns[at].question
    return ""


def _answered(turns: Sequence[Turn]) -> list[str]:
    """Where no question named a thing: what was to be done, or what the last answer begins with."""
    for turn in reversed(turns):
        if done := doings(turn.question):
            return done[:1]
    first = next((turn.answer for turn in reversed(turns) if turn.answer), "")
    return [phrase.text for phrase in phrases(first[:120])][:1]


# --- Chinese ----------------------------------------------------------------------------------------------------

_CHATTER_ZH = re.compile(
    r"^(?:(?:[哦噢嗯啊哈呀哇诶唉对是行]+|好(?:的|吧|呀)?|是[吗呀的啊]*|真的吗?|太好了|不错[啊呀]?|谢谢|对了|这样啊|知道了|明白了?|了解|收到)[呀啊吧了]?"
    r"[，,。！!？?、~ ]+)*(?:那么?(?![个些种里儿边])|所以|然后|另外)?[，, ]*"
)
_REASONS_ZH = re.compile(r"为|还?有|然后|比如|例如|举|具体|详细|真的|确定|是")
_CLASS_ZH = re.compile(
    r"[个些种份项条家款本座]?(?P<noun>景点|景区|地方|制度|规定|政策|办法|流程|合同|文件|文档|手册|条款|公司|产品|项目|东西|事情?|问题)?"
)


def _carried_zh(asked: str, found: Sequence[str], last: str) -> str:
    topic = found[0]
    rest = _CHATTER_ZH.sub("", asked) or asked
    short = AND_ZH.fullmatch(normalise(asked))
    if short and not pointed_zh(asked):
        return f"{topic}的{short['x']}" if not phrases(short["x"]) else f"{short['x']}：{last or topic}"
    if BARE_ZH.fullmatch(normalise(asked)) and _REASONS_ZH.search(rest[:3]) and last:
        return f"{last.rstrip('？?。. ')}，{rest}"
    pointed = pointed_zh(rest)
    if pointed:
        return _substituted_zh(rest, pointed, found)
    return f"{topic}：{rest}"


def _substituted_zh(rest: str, pointed: re.Match[str], found: Sequence[str]) -> str:
    word, after = pointed.group(), rest[pointed.end() :]
    topic = "和".join(found[:2]) if word in ("两者", "二者") else found[0]
    if word in ("这", "那", "该", "此"):
        kind = _CLASS_ZH.match(after)
        assert kind
        noun = kind["noun"] or ""
        after = (
            after[kind.end() :].removeprefix("里").removeprefix("儿").removeprefix("边").removeprefix("处")
        )
        if noun and noun not in topic and noun not in ("景点", "景区", "地方", "东西", "事", "事情", "问题"):
            topic += noun
    elif (
        not word.startswith(("它", "他", "她"))
        and not after.startswith("的")
        and word not in ("两者", "二者")
    ):
        topic += "的"
    return f"{rest[: pointed.start()]}{topic}{after}"


# --- English ----------------------------------------------------------------------------------------------------

_LEAD_EN = re.compile(
    r"^(?:(?:and|but|so|or|ok(?:ay)?|well|also|then|yes|no|right|great|thanks|interesting|wow|oh|got it|i see)"
    r"[,.! ]+)+",
    re.IGNORECASE,
)
_ABOUT_EN = re.compile(
    r"(?:what|how) about (?P<about>.{1,60})"
    r"|(?P<alone>(?!what|how|who|when|where|which|why|is|are|can|do|does|did).{1,40})",
    re.IGNORECASE,
)
_PLAIN = ("it", "they", "them")
_OWNED = {"its": "'s", "their": "'s"}
_SHORT = 12  # words; in a longer question a pronoun may mean anything
_SHOWN = 3  # phrases


def _carried_en(asked: str, found: Sequence[str], last: str, *, known: bool) -> str:
    """The phrases of the last complete question before this one, or in a lone pronoun's place.

    On MTRAG they serve search better than the single most salient phrase (R@5 of the rewritten .68 against .63).
    """
    rest = _LEAD_EN.sub("", asked) or asked
    led = rest != asked
    about = _ABOUT_EN.fullmatch(rest.rstrip("?.! "))
    if last and about and (about["about"] or led):
        return f"{last.rstrip('?. ')} – {about['about'] or about['alone']}"
    if last and BARE_EN.fullmatch(normalise(asked)):
        return f"{last.rstrip('?. ')} – {rest}"
    if led and not needs_rewrite(rest, [Turn("", last, "")]):
        return rest
    said = [found[0]] if known else [phrase.text for phrase in phrases(last)][:_SHOWN] or [found[0]]
    return _substituted_en(rest, said) or f"{', '.join(dict.fromkeys(said))}: {rest}"


def _substituted_en(asked: str, said: Sequence[str]) -> str:
    """The one thing spoken of in the place of the one pronoun; "" where it is not that clear."""
    pronouns = list(PRONOUN_EN.finditer(asked.lower()))
    if len(said) > 1 or len(pronouns) != 1 or len(asked.split()) > _SHORT or asked.rstrip("?.!").count("."):
        return ""
    word, start, end = pronouns[0].group(), pronouns[0].start(), pronouns[0].end()
    if word in _OWNED:
        return f"{asked[:start]}{said[0]}{_OWNED[word]}{asked[end:]}"
    return f"{asked[:start]}{said[0]}{asked[end:]}" if word in _PLAIN else ""


# --- another way ------------------------------------------------------------------------------------------------


def next_strategy(tried: Sequence[str], *, model: bool = False) -> str | None:
    """The next way to put a question after a weak search; None when all were tried."""
    order = (KEYWORDS, OTHER_LANGUAGE, STEP_BACK, DECOMPOSE) if model else (KEYWORDS, STEP_BACK, DECOMPOSE)
    return next((strategy for strategy in order if strategy not in tried), None)


def strategies(question: str, tried: Sequence[str], *, model: bool = False) -> str:
    """The next strategy that would change `question`, or "" when none is left."""
    done = list(tried)
    while (strategy := next_strategy(done, model=model)) is not None:
        if model or apply_strategy(question, strategy) != question.strip():
            return strategy
        done.append(strategy)
    return ""


def apply_strategy(question: str, strategy: str) -> str:
    """`question` put another way without a model, unchanged where the strategy has nothing to work on.

    "keywords": its content words alone. "step_back": without numbers, dates, names and asides. "decompose": the
    first of several questions, or the first of two things compared. "other_language" needs a model.
    """
    asked = question.strip()
    chinese = language(asked) == "zh"
    if strategy == KEYWORDS:
        return _keywords(asked, chinese=chinese) or asked
    if strategy == STEP_BACK:
        return _stepped_back(asked, chinese=chinese) or asked
    if strategy == DECOMPOSE:
        return _first_part(asked) or asked
    return asked


def by_rule(question: str, turns: Sequence[Turn], summary: str, titles: Sequence[str], strategy: str) -> str:
    """The rewrite by `strategy` for a question of a conversation: follow-ups are made whole first."""
    whole = (
        carry_over(question, turns, summary, titles) if needs_rewrite(question, turns) else question.strip()
    )
    return whole if strategy == CARRY_OVER else apply_strategy(whole, strategy)


_REFERENCE = re.compile(r"第\s*[\d.一二三四五六七八九十百]+\s*[条款章节]|\d+(?:\.\d+)+")


def _keywords(asked: str, *, chinese: bool) -> str:
    if not chinese:
        words = re.findall(r"[A-Za-z0-9][\w'&+#./-]*", asked)
        return " ".join(word.rstrip(".,'") for word in words if content(word))
    words = []
    at = 0
    for reference in _REFERENCE.finditer(asked):
        words += [*_words_zh(asked[at : reference.start()]), reference.group()]
        at = reference.end()
    return " ".join([*words, *_words_zh(asked[at:])])


def _words_zh(text: str) -> list[str]:
    """Words as a person would type them: single characters joined to their neighbours, function words left out."""
    words: list[str] = []
    single = ""
    for word in [*rjieba.cut(text), ""]:
        if len(word) == 1 and word.isalpha() and is_content(word):
            single += word
            continue
        words += [single] * (len(single) > 1)
        single = ""
        if word.strip() and is_content(normalise(word)) and any(c.isalnum() for c in word):
            words.append(word)
    return words


_ASIDE = re.compile(r"[（(][^（()）]*[)）]|[“\"][^”\"]*[”\"]")
_IF = re.compile(
    r"^(?:如果|假如|要是|若)[^，,]*[，,]|[，,](?:如果|假如|要是|若)[^，,？?]*(?=[？?]|$)"
    r"|^(?:if|when|since|because|as|given that)\b[^,]*,\s*|,?\s*\b(?:if|when|given that)\b[^,?]*(?=\?|$)",
    re.IGNORECASE,
)


def _stepped_back(asked: str, *, chinese: bool) -> str:
    general = _IF.sub("", _ASIDE.sub("", asked))
    for quantity in sorted(quantities(general), key=lambda quantity: -quantity.start):
        if quantity.kind not in ("clause", "identifier") and not quantity.soft:
            general = _without(general, quantity.text)
    if general == asked:
        for name in _proper_names(general, chinese=chinese):
            general = _without(general, name)
    general = re.sub(r"\s{2,}", " ", general).strip(" ,，、")
    return general if content(general) else ""


def _without(text: str, part: str) -> str:
    shorter = text.replace(part, "", 1)
    return shorter if content(shorter) else text


def _proper_names(asked: str, *, chinese: bool) -> list[str]:
    if chinese:
        return [word for word, tag in rjieba.tag(asked) if tag in ("nr", "ns", "nt", "nz") and len(word) > 1]
    return re.findall(
        r"(?<=[a-z,] )(?:(?:in|at|for|of|from|with) )?[A-Z][\w.&'-]+(?: [A-Z][\w.&'-]+)*", asked
    )


_COMPARED = re.compile(
    r"(?P<first>[^，,。]{2,20}?)(?:和|与|跟|同)(?P<second>[^，,。]{2,20}?)(?:的|有什么|有何|之间|哪)"
)
_COMPARED_EN = re.compile(r"(?:difference|relationship)s? between (?P<first>.{2,50}?) and ", re.IGNORECASE)


def _first_part(asked: str) -> str:
    several = parts(asked)
    if len(several) > 1:
        return several[0].rstrip("？?")
    compared = _COMPARED.match(asked) or _COMPARED_EN.search(asked)
    return compared["first"].strip() if compared and content(compared["first"]) else ""
