"""Does a question leave out what it is about? Pure rules, for Chinese and English.

Demonstratives, dropped subjects and bare follow-ups do; a question that names its own topic does not, whatever
the conversation was about. The lists were drawn up on KdConv, MTRAG and CAsT (`signoff eval rewrite` measures it).
"""

import re
from collections.abc import Sequence

import rjieba

from rag_graph.attributes import ATTRIBUTES_ZH, GENERIC_EN
from rag_graph.contracts import Turn
from rag_graph.terms import STOP, content
from store.text import language, normalise
from store.words import tokens

__all__ = [
    "AND_ZH",
    "BARE_EN",
    "BARE_ZH",
    "MISTAGGED",
    "PRONOUN_EN",
    "attribute_zh",
    "needs_rewrite",
    "pointed_zh",
    "specific_en",
    "specific_zh",
]


def needs_rewrite(text: str, turns: Sequence[Turn]) -> bool:
    """Must `text`, asked after `turns`, be rewritten before it can be searched? Never on a first turn."""
    asked = normalise(text).strip()
    if not turns or not asked:
        return False
    return _incomplete_zh(asked) if language(asked) == "zh" else _incomplete_en(text.strip())


# --- Chinese ----------------------------------------------------------------------------------------------------

_LEAD_ZH = r"(?:那么?|[哦嗯啊噢行对]|好的?|然后|所以|但是?|可是?|还|[，,、 ])*"
_TAIL_ZH = r"(?:啊|呀|呢|吗|的|了)*[？?！!。. ]*"
BARE_ZH = re.compile(
    rf"{_LEAD_ZH}(?:"
    r"为什么|为啥|为何|怎么(?:办理?|弄|做|算|样)?|如何办理|怎样|还?有(?:什么|啥|别的|其他的?|哪些)?[吗呢]|然后呢?|比如|例如|举个?例子?|举例说明"
    r"|(?:具体|详细)(?:点|一点|说说|说明|怎么说)?|多久|多长时间|多少钱?|几[天次个月年]+|多大|(?:到|从)?什么时候(?:开始)?|何时"
    r"|找?谁|在?哪里?|哪[儿些个]|真的|(?:确定|一样|有区别|可以|行|能|必须|需要|是这样|是)吗"
    rf"){_TAIL_ZH}"
)
AND_ZH = re.compile(rf"{_LEAD_ZH}(?:如果是?|要是|换成|改成)?(?P<x>[^，,。？?！!]{{1,16}})呢[？?！!。. ]*")
_ALSO_ZH = re.compile(r"[^，,。]{1,12}也[^，,。]{1,10}[吗么][？?。 ]*")
_ASKS_ZH = re.compile(
    r"什么|怎么|怎样|如何|多[少久长大远钱高]|几|哪|谁|吗|为何|是否|是不是|有没有|能不能|啥|咋"
)
_SPAN_ZH = r"[一二两三几]?(?:周|个?月|个?季度|年|天|次|星期)"
_THIS_ZH = r"(?<![应不活本])该(?![怎如不去找向由是有给用在做多何谁什吗交走填写请报联提申])"
_DEMONSTRATIVE_ZH = re.compile(
    r"它们?|(?<![其吉])他们?(?!人)|她们?|(?<!与)其(?![他它实中余间次])|(?<![如因])此(?![外致时前后意次])"
    rf"|上述|以上(?=[内规条情要说都])|前者|后者|两者|二者|这(?!样|么|{_SPAN_ZH})|那(?=[个些种边里儿家项条份款次])|{_THIS_ZH}"
    r"|(?:刚才|刚刚|之前|前面|上面)(?:说|提|讲|的|那)|同样"
)
_CLAUSE_ZH = re.compile(r"[，,。；;！!？?\s]+")
_NOUNS = ("n", "vn", "eng", "j")
MISTAGGED = frozenset(("合同", "绩效", "安全", "假期", "发工资"))  # no nouns by the dictionary
_CLAUSE_NUMBER = re.compile(r"第\s*[\d.一二三四五六七八九十百]+\s*[条款章节]")


def _incomplete_zh(asked: str) -> bool:
    if BARE_ZH.fullmatch(asked) or _ALSO_ZH.fullmatch(asked):
        return True
    short = AND_ZH.fullmatch(asked)
    if short and not _ASKS_ZH.search(short["x"]):
        return True
    pointed = pointed_zh(asked)
    if pointed:
        before = asked[: pointed.start()]
        return not specific_zh(before[: _last_break(before)], verbs=False)
    clauses = [clause for clause in _CLAUSE_ZH.split(asked) if clause] or [""]
    return not specific_zh(clauses[-1]) and not any(specific_zh(clause, verbs=False) for clause in clauses)


def pointed_zh(asked: str) -> re.Match[str] | None:
    """The first word that points at something outside the question (not 大戏楼这个地方)."""
    return next((match for match in _DEMONSTRATIVE_ZH.finditer(asked) if not _apposed(asked, match)), None)


def _last_break(text: str) -> int:
    return max((match.start() for match in _CLAUSE_ZH.finditer(text)), default=0)


def _apposed(asked: str, pointed: re.Match[str]) -> bool:
    before = asked[_last_break(asked[: pointed.start()]) : pointed.start()]
    return pointed.group()[0] in "这那" and bool(specific_zh(before, verbs=False))


def specific_zh(text: str, *, verbs: bool = True) -> list[str]:
    """The words that name a particular thing: nouns (and verbs) that are not attributes of just anything."""
    found: list[str] = _CLAUSE_NUMBER.findall(text)
    single = ""
    for word, tag in [*rjieba.tag(_CLAUSE_NUMBER.sub(" ", text)), ("", "")]:
        if len(word) == 1 and tag[0] in "nmvg" and word not in STOP:
            single += word  # 年假 is no dictionary word
            continue
        if len(single) > 1 and single not in ATTRIBUTES_ZH and not _ASKS_ZH.search(single):
            found.append(single)
        single = ""
        named = tag.startswith(_NOUNS) or word in MISTAGGED or (verbs and tag.startswith("v"))
        if named and len(word) > 1 and not attribute_zh(word):
            found.append(word)
    return found


def attribute_zh(word: str) -> bool:
    """Is `word`, or each word inside it, an attribute of just anything (开放时间, 具体地址)?"""
    parts = [part for part in tokens(word) if len(part) > 1 and part != word]
    return word in ATTRIBUTES_ZH or (bool(parts) and all(part in ATTRIBUTES_ZH for part in parts))


# --- English ----------------------------------------------------------------------------------------------------

BARE_EN = re.compile(
    r"(?:and |but |so |ok(?:ay)?,? |well,? )*(?:why(?: not| is that| so)?|how(?: so| long| much| many| often| far)?"
    r"|when|where|who|which(?: ones?)?|(?:since|until|by) when|(?:what|anything|who|where) else|any others?|such as"
    r"|like what|for example|really|more|tell me more|go on|explain|(?:more )?details?|(?:an )?examples?|is that so"
    r"|are you sure|for how long)[\s?.!]*"
)
_REPLY = r"ok(?:ay)?|well|also|then|interesting|great|thanks|right|wow|oh|yes|no|sure|really|cool|nice"
_FOLLOWS_EN = re.compile(
    rf"(?:(?:and|but|so|{_REPLY})[,.!]* )*(?:what|how) (?:about|if)\b|(?:and|or|but|so|plus|same|along with|{_REPLY})\b"
    r"|i (?:mean|meant)\b|(?:do )?you (?:mean|said|mentioned)\b"
)
_JUDGED = (
    "possible|necessary|legal|illegal|ok|okay|safe|safer|good|bad|better|best|worth|easy|hard|difficult|important|required"
    "|mandatory|allowed|common|normal|true|advisable|wise|useful|helpful|enough|time|fine|compulsory|permitted|likely"
)
_BEING = rf"(?:\w+ly |still |even |really |also |be )*(?:{_JUDGED})\b(?= (?:to|that|for|if|when)\b)"
_EXPLETIVE = re.compile(
    rf"\bit(?:'s| is| was| would be| be)? {_BEING}|(?:is|was|would|will) it {_BEING}"
    r"|(?:does|did|will|would|should) it (?:usually )?(?:take|cost|matter|mean|feel)\b(?=(?: \w+)* to\b)"
    r"|it takes?\b(?=(?: \w+)* to\b)|what time is it|\bthese days\b|\bthat (?:is|means|way)\b"
    r"|\bthis (?:year|month|week|quarter|time|morning|afternoon)\b"
)
_ENDS = r"(?=\s*(?:[?.,!;]|$))"
_ASKING = "is|was|does|did|do|can|could|would|will|are|has|like|about|of|for|after|before|with|than|from|to"
PRONOUN_EN = re.compile(
    r"\b(?:it|its|it's|itself|they|them|their|theirs|they're|he|him|his|she|her|hers|this|such|former|latter|another|else)\b"
    r"|\bth[eo]se(?! (?:who|that|of|with|in|which)\b)"
    rf"|\bthat{_ENDS}|^that\b|\b(?:{_ASKING}) that\b"
    rf"|\b(?:the )?(?:same|others?|ones?)(?:{_ENDS}|(?= (?:for|in|of|apply|as)\b))"
    rf"|\bwhich one\b|\bothers?\b|\b(?:between|among) both\b|\bboth{_ENDS}|\bhere\b|\bthen{_ENDS}|\bthe two\b"
    r"|\bmore about the\b|(?<!is )(?<!are )(?<!was )(?<!were )\bthere\b(?! (?:is|are|was|were|any|an?|to|be)\b)"
)
_BREAK_EN = re.compile(
    r"[,;.?!]|\b(?:and|or|but|if|when|because|so|while|since|although|before|after|until|who|that)\b"
)
_DEFINES = re.compile(
    r"(?:what(?:'s| is| are| was| were|s)|who (?:is|are|was|were)|define|describe|explain|tell me about|meaning of)\b"
)
_SOME_OF = re.compile(
    r"what(?:'s| are| is) (?:some )?(?:of )?(?:the )?"
    r"(?:important|main|popular|common|typical|famous|best|most|different|key|major|good|pros|short)\b"
)
_ADJECTIVE = (
    "main|major|most|important|new|old|other|first|last|next|whole|short|long|best|latest|right|actual|exact"
)
# What everybody at work knows without its having been spoken of: "Is there a pool on the roof of the building?"
_SITUATION = (
    "office|company|firm|building|roof|floor|lobby|garage|canteen|cafeteria|kitchen|restroom|gym|team|department|"
    "internet|intranet|network|wi-?fi|vpn|printer|handbook|knowledge base|"
    "year|month|week|weekend|day|morning|evening|future|city|country|world|law|government|public"
)
_DEFINITE = re.compile(
    rf"\bthe (?!(?:{_SITUATION})\b)(?:(?:{_ADJECTIVE}) )?\w+(?:{_ENDS}|(?= (?:and|or|to|is|are)\b))"
)
# Which of what was spoken of: "What items should I keep?", "Which team came first?", "Why would the roles reverse?"
_OF_THESE = re.compile(
    r"which\b|what (?:\w+ )?\w+ (?:should|can|do|does|did|is|are|has)\b|why\b|are there any\b"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|am|be|do|does|did|can|could|should|would|will|may|might|must|have|has|had|what|who|whom|whose"
    r"|which|when|where|why|how|tell|explain|describe|give|show|list|compare|find|i|we|you|let|please)\b"
)
_FRAGMENT = 4  # words


def _incomplete_en(text: str) -> bool:
    asked = normalise(text).strip()
    if BARE_EN.fullmatch(asked) or _FOLLOWS_EN.match(asked):
        return True
    plain = _EXPLETIVE.sub(lambda match: " " * len(match.group()), asked)
    pronoun = PRONOUN_EN.search(plain)
    if pronoun and not _named_before(plain[: pronoun.start()]):
        return True
    specific = specific_en(asked)
    return not specific or (not _named(text) and _vague_en(asked, len(specific)))


def _vague_en(asked: str, specific: int) -> bool:
    """A question without a name in it: a fragment, one thing of whatever was spoken of, or the one that both know."""
    if not _VERB.search(asked):
        return len(asked.split()) <= _FRAGMENT
    definite = bool(_DEFINITE.search(asked))
    if _DEFINES.match(asked):
        return definite or (specific <= 2 and bool(_SOME_OF.match(asked)))
    return definite or (specific == 1 and bool(_OF_THESE.match(asked)))


def _named(text: str) -> bool:
    """Is there a capital letter other than the first word's and I?"""
    return any(
        word[0].isupper() for word in re.findall(r"[A-Za-z]\S*", text)[1:] if not re.match(r"I\b", word)
    )


def _named_before(before: str) -> bool:
    """Does the sentence itself name, in a clause before, what a pronoun stands for?"""
    breaks = [match.start() for match in _BREAK_EN.finditer(before)]
    return bool(breaks) and bool(specific_en(before[: breaks[-1]]))


def specific_en(asked: str) -> list[str]:
    """The stems that name a particular thing: not function words, and not what can be said of just anything."""
    return [word for word in content(asked) if word not in GENERIC_EN]
