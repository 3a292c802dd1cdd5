"""Which questions need no search: small talk, about the bot, nothing to do with documents, too vague. Pure rules.

Only what is nothing but small talk is taken for it: "你好，年假几天？" is a question. In doubt a question is searched.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag_graph.contracts import Turn
from rag_graph.followups import needs_rewrite, specific_en, specific_zh
from store.text import language, normalise

__all__ = ["Route", "route"]

Kind = Literal["search", "smalltalk", "clarify"]
Topic = Literal["", "greeting", "thanks", "about", "out_of_scope", "too_vague"]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a question goes. `topic` names the sentence that answers it (a key of the words files), "" for search."""

    kind: Kind
    topic: Topic = ""


SEARCH = Route("search")
LONGEST = 60  # characters; small talk and vagueness are short


def route(text: str, turns: Sequence[Turn]) -> Route:
    """Where `text`, asked after `turns`, goes."""
    asked = _bare(text)
    if len(asked) > LONGEST:
        return SEARCH
    for pattern, topic in _SMALL_TALK:
        if pattern.fullmatch(asked):
            return Route("smalltalk", topic)
    if not turns and _vague(text, asked):
        return Route("clarify", "too_vague")
    return SEARCH


_MENTION = re.compile(r"<@[^>]*>|@\S+")
_EDGES = " \t\r\n。.！!？?，,、~～…:：;；\"'“”‘’()（）[]【】*_`"


def _bare(text: str) -> str:
    """Normalised, without mentions, emoji at the ends and surrounding punctuation."""
    asked = _MENTION.sub(" ", normalise(text))
    asked = re.sub(r"[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]|:[a-z_]+:", " ", asked)
    return re.sub(r"\s+", " ", asked).strip(_EDGES)


_NAME = r"(?:[ ,，]*(?:signoff|签发|bot|机器人|小助手|助手|everyone|all|there|team|大家|各位))?"
_SEP = r"[，,。.！!~ ]*"


def _any(*alternatives: str) -> str:
    return "(?:" + "|".join(alternatives) + ")"


_HELLO = _any(
    "hiya|hi|hello|hey|howdy|greetings|yo|good (?:morning|afternoon|evening|day)|how are you(?: today| doing)?",
    "what's up",
    "你好[呀啊吗]?|您好|嗨|哈喽|哈啰|喂|早上好|上午好|中午好|下午好|晚上好|早安|晚安|早|在吗|在不在|有人吗|最近怎么样",
)
_THANKS = _any(
    "(?:many |great |perfect )?(?:thanks|thank you|thx|ty|cheers)"
    "(?: a lot| so much| very much| for (?:your|the) help)?",
    "ok(?:ay)?|great|perfect|awesome|got it|i see|understood|nice|cool|bye|goodbye|see you(?: later)?|good night",
    "well done|good (?:bot|job)|no problem|you're welcome",
    "(?:非常|太|十分)?(?:感谢|谢谢|多谢|谢|辛苦)(?:你们|大家|你|您|啦|了)*|好的?[吧呀]?|行|嗯|哦|收到|明白了?|懂了|知道了|了解了?",
    "没问题|没事了?|再见|拜拜|下次见|不错|厉害|真?棒|太好了|赞",
)
_ABOUT = _any(
    "(?:who|what) are you|what(?: exactly)? (?:can|do) you (?:do|know|answer|help(?: me)? with)(?: for me)?",
    "what is (?:signoff|this bot)|who (?:made|built|created) you|what(?:'s| is) your name|introduce yourself|help",
    "are you (?:an? )?(?:bot|robot|human|person|real person|real|ai|chatbot|machine)|which (?:model|llm) are you",
    "how (?:do|does) (?:you|this bot|signoff|this) work|how (?:do i|can i|to) use (?:you|this|this bot|signoff)",
    "what (?:documents|sources) do you (?:have|use|know)",
    "你是(?:谁|什么)|你是(?:不是)?(?:机器人|真?人|ai|人工智能|机器)|你叫什么(?:名字)?|你(?:能|会|可以)(?:帮我)?(?:做|干|回答)?些?(?:什么|啥)(?:问题)?",
    "你有什么用|你能帮我?什么忙|(?:怎么|如何)(?:使用|用)(?:你|这个机器人|signoff|签发)|你怎么工作|介绍一下(?:你)?自己|自我介绍|帮助|使用说明",
    "你是谁(?:做|开发)的|谁(?:开发|做)的你|你用的?是?什么模型|(?:signoff|签发) ?是什么|你有哪些(?:文档|资料)",
)
_OUTSIDE = _any(
    "(?:please |can you |could you )?(?:tell|write|sing|give|make|compose)(?: me| us)?(?: up)? (?:an?|another|some)"
    "(?: \\w+)? (?:joke|poem|story|song|haiku|limerick|riddle)s?(?: .{0,40})?",
    "(?:what|how)(?:'s| is) the(?: current)? (?:weather|temperature)(?: like)?(?: .{0,20})?|will it rain(?: .{0,20})?",
    "what time is it(?: now)?|(?:what(?:'s| is) )?the (?:stock|share) price of .{1,30}|marry me",
    "do you (?:love|like) me",
    "who (?:won|will win) .{1,30}(?:game|match|cup|election|bowl)|what is the meaning of life",
    "(?:请|帮我|给我|能|可以|麻烦|你)*(?:讲|说|写|唱|来|编|作)一?[个首段篇点]?(?:.{0,8}的)?(?:笑话|故事|诗|歌|小说|段子|绕口令|谜语|情书|作文)[吧吗呗]?",
    "(?:今天|明天|后天|现在|外面|最近|.{1,4})?的?(?:天气|气温)(?:怎么样|如何|预报|好吗)?|(?:今天|明天)会?下雨吗",
    "现在几点了?|几点了|今天星期几|我?中午吃(?:什么|啥)好?|.{1,10}股价(?:是多少|多少|怎么样)?|你(?:爱|喜欢)我吗|我爱你|给我算[个一]?命",
)
_SMALL_TALK: tuple[tuple[re.Pattern[str], Topic], ...] = (
    (re.compile(rf"(?>(?:{_HELLO}{_NAME}{_SEP})+)"), "greeting"),
    (re.compile(rf"(?>(?:{_THANKS}{_NAME}{_SEP})+)"), "thanks"),
    (re.compile(rf"(?:{_HELLO}{_NAME}{_SEP})?(?:请问)?{_ABOUT}[呀啊呢吗]?"), "about"),
    (re.compile(rf"(?:{_HELLO}{_NAME}{_SEP})?{_OUTSIDE}"), "out_of_scope"),
)

_EMPTY = re.compile(r"[\W_]*|\d{1,2}|[a-z]")
_VAGUE = re.compile(
    _any(
        "(?:(?:i have|i've got|got|quick|one|another|an?) )*(?:question|query)s?|(?:i )?need help|please help",
        "help(?: me)?(?: please)?|can you help(?: me)?|can i ask(?: you)?(?: something| a question)?",
        "info|information|details|documents?|polic(?:y|ies)|rules?",
        "我?有?想?问?一?[个点些]?(?:问题|事情?)|我?想?(?:问|咨询|请教)(?:一下|个问题|点事)?你?|帮帮?我|帮忙|求助|请问|在线等",
        "(?:查|问)一下|规定|制度|政策|文档|资料|流程|这个|那个",
    )
)


_DATE = re.compile(r"几号|什么日期|(?:what|which)(?:'s| is)?(?: the)? (?:day|date)\b")


def _vague(text: str, asked: str) -> bool:
    """Is there nothing to search for? No words, "I have a question", or a first turn that points at a turn before."""
    if _EMPTY.fullmatch(asked) or _VAGUE.fullmatch(asked):
        return True
    if _DATE.search(asked):
        return False  # a tool knows
    named = specific_zh(asked) if language(asked) == "zh" else specific_en(asked)
    return not named and needs_rewrite(text, [Turn("", "", "")])
