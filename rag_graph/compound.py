"""A question that asks several things at once, as its parts. Pure.

Each part is searched and quoted for by itself, beside the whole: a part may leave out what the one before it named.
Carrying that over by the rules for follow-ups made parts worse ("three days of stay valid").
"""

import re
from typing import Final

from rag_graph.followups import BARE_ZH, specific_zh
from rag_graph.terms import content
from store.text import language

__all__ = ["MOST", "parts"]

MOST: Final = 3  # parts; what asks more than that is one piece of prose

_WH = r"what|how|who|whom|whose|when|where|which|why"
_HELP = r"can|could|may|must|should|do|does|did|is|are|will"
# Where another question may begin: after a question mark, at "and" before a question word, at a Chinese comma.
_BREAK = re.compile(
    rf"(?<=[？?；;])\s*|,?\s+and\s+(?=(?:{_WH}|{_HELP})\b)|，\s*(?:以及|并且|另外|同时|还有)?|以及|并且|另外",
    re.IGNORECASE,
)
_ASKS_ZH = re.compile(
    r"什么|怎么|怎样|如何|多[少久长大远高]|几(?=[点个天日周月年次小时名人位份类种级])|哪|谁|[吗么]$|为何|是否|能否|可否|是不是|有没有|能不能"
)
_ASKS_EN = re.compile(rf"\b(?:{_WH})\b|(?:^|[,:.?!]\s*)(?:{_HELP})\b", re.IGNORECASE)
_BARE_EN = re.compile(rf"\b(?:{_WH})$", re.IGNORECASE)  # "when and where was it published" asks once


def parts(question: str) -> list[str]:
    """The questions that `question` consists of, in order, at most three; itself alone where it asks one thing.

    What does not ask belongs to the part that it stands before: 我是 P5，住宿上限是多少？几天内报销？ has two.
    """
    asked = question.strip()
    found: list[str] = []
    pending = ""
    end = 0
    for match in [*_BREAK.finditer(asked), None]:
        start = match.start() if match else len(asked)
        pending += asked[end:start]
        end = match.end() if match else len(asked)
        if _asks(pending, first=not found):
            found.append(pending.strip(" ，,"))
            pending = ""
        elif match:
            pending += asked[start:end]
    if pending.strip(" ，,。.") and found:
        found[-1] = asked[asked.index(found[-1]) :].strip()
    return found if 1 < len(found) <= MOST else [asked]


def _asks(text: str, *, first: bool) -> bool:
    """Is `text` a question that says what it is about? 真的吗 is none; after another question 怎么申请 is one."""
    text = text.strip(" ，,；;？?。.")
    if language(text) == "zh":
        named = bool(specific_zh(text)) if first else not BARE_ZH.fullmatch(text)
        return bool(_ASKS_ZH.search(text) and named)
    return bool(_ASKS_EN.search(text) and content(text) and not _BARE_EN.search(text))
