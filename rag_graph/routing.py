"""What kind of message this is, by rule: small talk, about the bot, out of scope, too vague, or a question to search.

The rules are narrow on purpose: a question mistaken for small talk is not answered, while small talk mistaken for a
question only ends in an honest "I do not know". Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rag_graph.contracts import Turn
from rag_graph.terms import content

__all__ = ["Routed", "route"]


@dataclass(frozen=True, slots=True)
class Routed:
    """`topic` names the sentence that the bot says (`smalltalk.<topic>`, `clarify.<topic>` in its words)."""

    kind: Literal["search", "smalltalk", "clarify"]
    topic: str = ""


_END = r"[\s!！。.,，~～?？…👋🙏😀-🙏]*"
_ZH_TAIL = "[呀啊哈呢哦了啦]*"

_WHOLE: Final = {
    "greeting": rf"(?:hi|hello|hey)(?: there| everyone| team| all)?|good (?:morning|afternoon|evening)|"
    rf"(?:你|您|大家|哈喽)好{_ZH_TAIL}|哈喽|嗨|早上好|上午好|中午好|下午好|晚上好|在吗|在不在",
    "thanks": rf"(?:many |ok,? |okay,? )?thanks(?: a lot| so much| very much)?|thank you(?: so much| very much)?|thx|"
    rf"cheers|got it|great|perfect|谢谢(?:你|您|大家)?{_ZH_TAIL}|多谢{_ZH_TAIL}|感谢{_ZH_TAIL}|辛苦{_ZH_TAIL}|"
    rf"好的?{_ZH_TAIL}|明白{_ZH_TAIL}|收到{_ZH_TAIL}|ok|okay",
    "about": r"who are you|what are you|what(?: can| do) you do|what can i ask(?: you)?|how do you work|help|"
    r"are you (?:a )?(?:bot|robot|human|real|an? ai)|"
    r"(?:你|您)(?:是|叫)(?:谁|什么|啥)|(?:你|您)(?:能|会|可以)(?:做|干|帮我做|回答)(?:些)?(?:什么|啥|哪些问题|哪些事)|"
    r"(?:你|您)是(?:机器人|人|真人|AI|ai)吗|(?:你|您)有什么(?:功能|用)|(?:这个)?怎么用|帮助",
}
_RULES: Final = tuple(
    (topic, re.compile(rf"(?:{pattern}){_END}", re.IGNORECASE)) for topic, pattern in _WHOLE.items()
)
# Wishes that no document answers, whatever stands around them.
_OUT_OF_SCOPE: Final = re.compile(
    r"\btell me a (?:joke|story)\b|\bwrite (?:me )?(?:a|an) (?:poem|song|story|essay)\b|"
    r"\bwhat(?:'s| is) the weather\b|\bsing (?:me )?a song\b|"
    r"(?:讲|说)个(?:笑话|故事)|写(?:一)?首(?:诗|歌)|唱(?:一)?首歌|(?:今天|明天|后天)天气(?:怎么样|如何)|"
    r"推荐(?:一)?(?:部|首)(?:电影|电视剧|歌)",
    re.IGNORECASE,
)


def route(text: str, turns: Sequence[Turn]) -> Routed:
    """The kind of `text`, asked after `turns`. A bare "why?" is vague on a first turn, a follow-up later."""
    asked = text.strip()
    for topic, pattern in _RULES:
        if pattern.fullmatch(asked):
            return Routed("smalltalk", topic)
    if _OUT_OF_SCOPE.search(asked):
        return Routed("smalltalk", "out_of_scope")
    if not turns and not content(asked):
        return Routed("clarify", "too_vague")
    return Routed("search")
