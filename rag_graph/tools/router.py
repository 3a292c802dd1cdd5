"""Which groups of tools a question may need, by rule. Most need none, and then no model is asked. Pure.

Asking costs a model call before every draft; a rule that fires too often costs time, one that fires too seldom an
answer. So the rules name what search alone cannot give: today's date, the list of documents, a second hop.
"""

import re

from store.text import normalise

__all__ = ["GROUPS", "groups"]

GROUPS = ("calendar", "catalogue", "knowledge")  # of the built-in tools, offered by these rules alone

_CALENDAR = re.compile(
    r"今天|明天|昨天|现在|目前|眼下|[这本下上]个?(?:周|月|季度|年度)|[今明去]年|还有几天|还剩|来得及|过期了|截止了"
    r"|几号|星期几"
    r"|\b(?:today|tomorrow|yesterday|now|currently|still|(?:this|next|last) (?:week|month|quarter|year)"
    r"|(?:how long|how many days|time) (?:until|till|left)|(?:days|weeks) left|too late|in time)\b"
)
_CATALOGUE = re.compile(
    r"(?:哪些|什么|多少)(?:文档|文件|制度|手册|资料|政策)|知识库(?:里|中|有)|文档列表|文件列表"
    r"|\b(?:which|what|list|how many)\b.{0,24}\b(?:documents?|policies|files|handbooks|manuals|guides)\b"
)
_ASKS_ZH = "(?:谁|哪|什么|多少|多久|几|何时|怎么|如何)"
_SEVERAL = re.compile(
    r"以及|分别|各自|区别|不同点|对比|相比|比较|同时|[?？].+[?？]"
    rf"|{_ASKS_ZH}.*[，,、和又还].*{_ASKS_ZH}"
    r"|\b(?:both|compare[ds]?|versus|vs|differences?|differ|respectively|as well as|whose)\b"
    r"|\band (?:who|what|when|where|how|which|why|is|are|can|do|does|if)\b"
    r"|\b(?:who|what|when|where|how|which)\b.*\b(?:where|whose|that|which)\b"
)


def groups(text: str) -> tuple[str, ...]:
    """Groups of `Tool.group` worth offering for the question `text`; () for none."""
    plain = normalise(text)
    found = []
    if _CALENDAR.search(plain):
        found.append("calendar")
    if _CATALOGUE.search(plain):
        found.append("catalogue")
    if _SEVERAL.search(plain) or found:
        found.append("knowledge")
    return tuple(found)
