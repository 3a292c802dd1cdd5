"""The questions of a load run: fifty of each kind, on the sample handbook.

Fifty single facts are written down (singles.csv, 25 in Chinese). Of them are made fifty that ask for two facts, which a
second search completes, and fifty for which a tool is needed: the calendar, or the list of documents. Asked again, a
question is dressed differently, so that nothing comes out of a memory of earlier ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rag_graph.evaluation.questions import Groups, Kind, OwnQuestion, read
from store.text import language

__all__ = ["KINDS", "Case", "cases", "dressed"]

KINDS: tuple[Kind, ...] = ("single", "multi-hop", "tool")
SINGLES = Path(__file__).parent / "singles.csv"
APART = 7  # a fact is asked together with the one that stands so many lines below
CATALOGUE = {
    "知识库里有哪些关于休假的文档？": "休假制度",
    "知识库里有哪些关于报销的文档？": "费用报销制度",
    "知识库里有哪些关于密码的文档？": "信息安全管理规定",
    "知识库里有哪些关于访客的文档？": "访客与门禁管理",
    "知识库里有哪些关于试用期的文档？": "试用期与离职管理办法",
    "Which documents do you have about leave?": "Leave policy",
    "Which documents do you have about expenses?": "Expense policy",
    "Which documents do you have about visitors?": "Visitors and building access",
    "Which documents do you have about the VPN?": "Remote access by VPN",
    "Which documents do you have about probation?": "Probation and leaving the company",
}
DRESSES = {
    "zh": (("", "你好，", "请问，", "想问一下，", "麻烦问下，", "各位好，"), ("", "谢谢！", "多谢。", "谢谢大家！")),
    "en": (("", "Hi! ", "Hello, ", "Quick question: ", "Good morning. ", "Dear all, "),
           ("", " Thanks!", " Thank you.", " Thanks a lot!")),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One question. `then` is what the second search of a multi-hop one looks for, `tool` what a tool one calls."""

    kind: Kind
    text: str
    facts: Groups
    documents: Groups = ()
    then: str = ""
    tool: str = ""


@cache
def singles() -> tuple[OwnQuestion, ...]:
    """The written ones."""
    found = read(SINGLES.read_bytes(), jsonl=False)
    assert not found.faults, found.faults
    return found.questions


def cases(of: Sequence[OwnQuestion] | None = None, each: int = 50) -> list[Case]:
    """`each` cases of each kind, made of the single ones `of` (all of them)."""
    chosen = list(of or singles())
    zh = [one for one in chosen if language(one.text) == "zh"]
    en = [one for one in chosen if language(one.text) == "en"]
    single = [Case("single", one.text, one.facts, one.documents) for one in chosen]
    several = [_both(one, _other(some, at)) for some in (zh, en) for at, one in enumerate(some)]
    dated = [_dated(one) for pair in zip(zh, en, strict=False) for one in pair]
    listed = [Case("tool", text, ((title,),), tool="list_documents") for text, title in CATALOGUE.items()]
    listed = listed if of is None else []
    tools = [*listed, *dated][:each]
    return [*single[:each], *several[:each], *tools]


def _other(some: Sequence[OwnQuestion], at: int) -> OwnQuestion:
    return some[(at + (APART if len(some) > APART else 1)) % len(some)]


def _both(one: OwnQuestion, other: OwnQuestion) -> Case:
    zh = language(one.text) == "zh"
    text = (
        f"{one.text}另外，{other.text}" if zh else f"{one.text} And {other.text[0].lower()}{other.text[1:]}"
    )
    return Case("multi-hop", text, one.facts + other.facts, one.documents + other.documents, then=other.text)


def _dated(one: OwnQuestion) -> Case:
    zh = language(one.text) == "zh"
    text = f"截至今天，{one.text}" if zh else f"As of today, {one.text[0].lower()}{one.text[1:]}"
    return Case("tool", text, one.facts, one.documents, tool="today")


def dressed(case: Case, round_: int) -> str:
    """The case as it is asked in its `round_`; the first time as it is, and 24 rounds are all different."""
    before, after = DRESSES[language(case.text)]
    return f"{before[round_ % len(before)]}{case.text}{after[round_ // len(before) % len(after)]}"
