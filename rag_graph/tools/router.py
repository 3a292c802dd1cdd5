"""Which groups of tools a question may need, by rule. Most need none, and then no model is asked. Pure.

Asking costs a model call before every draft; a rule that fires too often costs time, one that fires too seldom an
answer. So the rules name what search alone cannot give: today's date, the list of documents, a second hop.
"""

import re

from store.text import normalise

__all__ = ["CATALOGUE", "GROUPS", "groups"]

CATALOGUE = "catalogue"
GROUPS = ("calendar", CATALOGUE, "knowledge")  # of the built-in tools, offered by these rules alone

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
# Somebody or something known only by what it did: "the performer of Sings America", "Erik Hort's birthplace". Who that
# is must be found before the question itself can be. Tools are offered for 80 % of MuSiQue's questions (46 % without).
_ROLE = (
    r"(?:performer|author|director|producer|composer|singer|actor|actress|founder|creator|writer|inventor|owner|"
    r"publisher|developer|supplier|artist|band|label|team|spouse|wife|husband|sibling|sister|brother|father|mother|"
    r"child|birth ?place|birth city|death city|headquarters|individual|person|employer|country|county|city|"
    r"province|continent)"
)
_NESTED = re.compile(
    rf"\b{_ROLE} (?:of|who|that|which|where|behind|first|contain|produc|won|prepar|voic)\w*\b|['’]s {_ROLE}\b"
    rf"|\bby the .{{1,40}} {_ROLE}\b|\bthe star of\b"
    r"|(?:的)(?:作者|导演|创始人|演唱者|发明者|负责人|主管|供应商|所在地|出生地|总部|母公司|上级)(?:是|的|在|于|有|几|哪|谁|什么|由)"
)
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
        found.append(CATALOGUE)
    if _SEVERAL.search(plain) or _NESTED.search(plain) or found:
        found.append("knowledge")
    return tuple(found)
