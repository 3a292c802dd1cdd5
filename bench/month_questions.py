"""A month of questions for the simulated month: 40 topics, each with 112 different things to ask, in two languages.

Made by rule from a seed, so that everybody gets the same ones. Things asked of one topic differ in an attribute, in
whom it is for, or in a number, and in nothing else: whoever takes one for the other gives a wrong answer.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["TOPICS", "Fact", "facts", "phrased", "phrasings"]

TOPICS = (
    ("年假", "annual leave"), ("病假", "sick leave"), ("婚假", "marriage leave"), ("产假", "maternity leave"),
    ("育儿假", "parental leave"), ("加班补贴", "overtime allowance"), ("差旅报销", "travel reimbursement"),
    ("住宿补贴", "housing allowance"), ("餐费补贴", "meal allowance"), ("交通补贴", "transport allowance"),
    ("培训申请", "training request"), ("调岗申请", "transfer request"), ("离职手续", "exit procedure"),
    ("试用期考核", "probation review"), ("绩效面谈", "performance interview"), ("年终奖", "annual bonus"),
    ("期权协议", "option agreement"), ("保密协议", "confidentiality agreement"), ("采购合同", "purchase contract"),
    ("租赁合同", "lease contract"), ("服务合同", "service contract"), ("供应商准入", "supplier admission"),
    ("投标保证金", "bid bond"), ("发票申请", "invoice request"), ("备用金", "petty cash"), ("借款单", "loan form"),
    ("固定资产盘点", "asset inventory"), ("笔记本电脑", "laptop"), ("访问权限", "access permission"),
    ("门禁卡", "badge"), ("远程桌面", "remote desktop"), ("软件许可", "software licence"),
    ("数据备份", "data backup"), ("事故报告", "incident report"), ("会议室预订", "meeting room booking"),
    ("访客登记", "visitor registration"), ("名片印制", "business card order"), ("班车", "shuttle bus"),
    ("体检", "health check"), ("补充医疗保险", "supplementary insurance"),
)  # fmt: skip
SCOPES = (
    ("上海办公室", "the Shanghai office"), ("北京办公室", "the Beijing office"), ("深圳办公室", "the Shenzhen office"),
    ("实习生", "interns"), ("外包人员", "contractors"), ("新员工", "new employees"),
    ("销售部", "the sales department"), ("研发部", "the research department"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Attribute:
    """`zh` and `en` ask it; `indirect` is the English clause after "tell me"; the others use other words."""

    zh: str
    en: str
    indirect: str
    other_zh: str
    other_en: str


ATTRIBUTES = (
    _Attribute(
        "{s}的{t}有效期是多久？", "How long is the {t} for {s} valid?", "how long the {t} for {s} is valid",
        "{s}的{t}多长时间内有效？", "For how long does the {t} for {s} remain in force?",
    ),
    _Attribute(
        "{s}的{t}最晚什么时候提交？", "When is the {t} for {s} due?", "when the {t} for {s} is due",
        "{s}的{t}截止时间是什么时候？", "What is the deadline for the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}由谁审批？", "Who approves the {t} for {s}?", "who approves the {t} for {s}",
        "{s}的{t}需要哪位领导同意？", "Whose approval does the {t} for {s} need?",
    ),
    _Attribute(
        "{s}的{t}上限是多少？", "What is the limit of the {t} for {s}?", "what the limit of the {t} for {s} is",
        "{s}的{t}最多可以有多少？", "How high may the {t} for {s} be at most?",
    ),
    _Attribute(
        "{s}的{t}要填哪张表？", "Which form does the {t} for {s} need?", "which form the {t} for {s} needs",
        "{s}办{t}用什么表格？", "What do I fill in for the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}在哪里办理？", "Where is the {t} for {s} handled?", "where the {t} for {s} is handled",
        "{s}办{t}要去什么地方？", "At which desk do I get the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}需要多少个工作日？", "How many working days does the {t} for {s} take?",
        "how many working days the {t} for {s} takes",
        "{s}的{t}多久能办好？", "How soon is the {t} for {s} done?",
    ),
    _Attribute(
        "{s}的{t}需要哪些材料？", "Which documents does the {t} for {s} need?",
        "which documents the {t} for {s} needs",
        "{s}办{t}要准备什么？", "What do I have to bring for the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}出现问题联系谁？", "Who helps with the {t} for {s}?", "who helps with the {t} for {s}",
        "{s}的{t}有疑问找哪位同事？", "Whom do I ask about the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}费用由谁承担？", "Who pays for the {t} for {s}?", "who pays for the {t} for {s}",
        "{s}的{t}的钱谁出？", "Which cost centre carries the {t} for {s}?",
    ),
    _Attribute(
        "{s}的{t}可以转让吗？", "Can the {t} for {s} be transferred?", "whether the {t} for {s} can be transferred",
        "{s}的{t}能不能给别人？", "Is it possible to pass on the {t} for {s}?",
    ),
)  # fmt: skip
NUMBERED = _Attribute(
    "{s}的{t}超过 {n} 天怎么处理？", "What happens to the {t} for {s} after {n} days?",
    "what happens to the {t} for {s} after {n} days",
    "{s}的{t}过了 {n} 天会怎样？", "How is the {t} for {s} treated once {n} days are over?",
)  # fmt: skip
NUMBERS = (7, 15, 30)
POLITE_ZH = ("请问{q}", "想问一下，{q}", "你好，{q}", "麻烦问一下，{q}谢谢！")
POLITE_EN = ("Hello, {low}", "Could you tell me {indirect}?", "Please tell me {indirect}.", "{q} Thanks!")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to ask; `id` is the same for all its wordings."""

    id: int
    topic: int
    attribute: _Attribute
    scope: int
    number: int = 0

    def said(self, language: str, *, other: bool = False) -> str:
        template = {
            ("zh", False): self.attribute.zh, ("zh", True): self.attribute.other_zh,
            ("en", False): self.attribute.en, ("en", True): self.attribute.other_en,
        }[language, other]  # fmt: skip
        return self._filled(template, language)

    @property
    def indirect(self) -> str:
        return self._filled(self.attribute.indirect, "en")

    def _filled(self, template: str, language: str) -> str:
        at = 0 if language == "zh" else 1
        return template.format(s=SCOPES[self.scope][at], t=TOPICS[self.topic][at], n=self.number)


def facts() -> list[list[Fact]]:
    """By topic, everything that can be asked of it."""
    found: list[list[Fact]] = []
    for topic in range(len(TOPICS)):
        asked = [(attribute, scope, 0) for attribute in ATTRIBUTES for scope in range(len(SCOPES))]
        asked += [(NUMBERED, scope, number) for scope in range(len(SCOPES)) for number in NUMBERS]
        found.append(
            [
                Fact(topic * 1_000 + position, topic, attribute, scope, number)
                for position, (attribute, scope, number) in enumerate(asked)
            ]
        )
    return found


def phrasings(fact: Fact, language: str) -> Iterator[str]:
    """The fact in one language: plainly, and in each polite frame."""
    plain = fact.said(language)
    yield plain
    if language == "zh":
        yield from (frame.format(q=plain) for frame in POLITE_ZH)
    else:
        low = plain[0].lower() + plain[1:]
        yield from (frame.format(q=plain, low=low, indirect=fact.indirect) for frame in POLITE_EN)


def phrased(fact: Fact, chance: random.Random, before: str = "") -> tuple[str, str]:
    """(how, words): `fact` as somebody asks it. `before` is the language of an earlier asking: then it is mostly the
    same language in another frame, in one of seven the other language, in one of seven other words altogether."""
    language = before or chance.choice(("zh", "zh", "en"))
    how = "first" if not before else chance.choices(("frame", "words", "language"), (5, 1, 1))[0]
    if how == "words":
        return how, fact.said(language, other=True)
    if how == "language":
        language = "en" if language == "zh" else "zh"
    return how, chance.choice(list(phrasings(fact, language)))
