"""When is a new question the very question that was signed off? A table of cases, and what must hold for any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph.likeness import ACROSS, SURE, asked, differs, same, wording
from rag_graph.transliteration import recognised

SAME = [
    ("How many days of annual leave do I get?", "Could you tell me how many days of annual leave I get?"),
    ("How many days of annual leave do I get?", "how many days of annual leave do we get"),
    ("When was the treaty signed?", "Do you know when the treaty was signed?"),
    ("When did the war start?", "I was wondering when the war started."),
    (
        "What is the number of points scored in 2015?",
        "How many points were scored in 2015?".replace("were ", ""),
    ),
    ("Do I have to give 30 days of notice?", "Must I give thirty days of notice?"),
    ("Is it possible to carry over 2 weeks?", "Can I carry over 14 days?"),
    ("What's the deadline for expense reports?", "For expense reports, what is the deadline?"),
    ("What is clause 3.2 about?", "Quick question: what is Clause 3.2 about? Thanks!"),
    ("年假有多少天？", "请问年假多少天？谢谢"),
    ("年假有多少天？", "能告诉我年假有多少天吗？"),
    ("试用期三个月可以请年假吗？", "想问一下，试用期3个月能请年假吗"),
    ("出差住宿每晚上限是500元吗", "你好，出差住宿每晚上限是五百元吗？"),
    ("第 3.2 条怎么规定的？", "第3.2条如何规定？"),
    ("什么时候发工资？", "何时发工资呢"),
    ("How many hours is the trial?", "试用多少小时？"),
    ("How many people live in Fresno?", "弗雷斯诺有多少人？"),
    ("Who is the CEO of ABC?", "ABC 的 CEO 是谁？"),
]
APART = [
    ("How many days of leave after 2 years?", "How many days of leave after 3 years?", "numbers"),
    ("Must I give 30 days of notice?", "Must I give 30 working days of notice?", "numbers"),
    ("Is the limit $500?", "Is the limit €500?", "numbers"),
    ("Is the limit 500 kilometres?", "Is the limit 500 miles?", "numbers"),
    ("Can I work from home?", "Can't I work from home?", "negation"),
    ("When was the treaty signed?", "Where was the treaty signed?", "asks"),
    ("In what year was it founded in Rome?", "On what day was it founded in Rome?", "asks"),
    ("Can I work from home?", "Must I work from home?", "words"),
    ("Who defeated Newton?", "Who was defeated by Newton?", "words"),
    ("Does Rena approve Rolf's claims?", "Does Rolf approve Rena's claims?", "words"),
    ("How much is a flight from Paris to London?", "How much is a flight from London to Paris?", "words"),
    ("What did the policy cover?", "What does the policy cover?", "words"),
    ("How many days of annual leave do I get?", "How many days of sick leave do I get?", "words"),
    ("Who leads Peyton Manning's team?", "Who leads Josh Norman's team?", "names"),
    ("年假有多少天？", "病假有多少天？", "words"),
    ("年假有多少天？", "年假有多少周？", "words"),
    ("入职2年的年假有多少天？", "入职3年的年假有多少天？", "numbers"),
    ("谁可以报销？", "谁不可以报销？", "negation"),
    ("住宿500元以上怎么办", "住宿500美元以上怎么办", "numbers"),
    ("他在哪一年毕业？", "他在哪一天毕业？", "asks"),
    ("张伟审批王芳的报销吗？", "王芳审批张伟的报销吗？", "words"),
    ("How many people live in Fresno?", "凤凰城有多少人？", "names"),
    ("How many metric tons of carbon?", "有多少公斤碳？", "numbers"),
    ("Is the VPN down?", "WLAN 断了吗？", "names"),
]


@pytest.mark.parametrize(("known", "new"), SAME)
def test_the_same_question_said_otherwise(known: str, new: str) -> None:
    """Politeness, contractions, word order of indirect questions and the spelling of numbers change nothing."""
    assert differs(new, known) == ""
    assert same(new, known, 1.0) == ""


@pytest.mark.parametrize(("known", "new", "why"), APART)
def test_a_near_miss_is_another_question(known: str, new: str, why: str) -> None:
    """One number, unit, name, denial, interrogative or word apart, and no likeness of vectors makes them one."""
    assert differs(new, known) == why
    assert same(new, known, 1.0) == why
    assert differs(known, new) != ""


def test_equal_words_need_a_likeness_too() -> None:
    """Below the line nothing is served; across languages the line is higher."""
    known, new = SAME[0]
    assert same(new, known, SURE - 0.01) == "likeness"
    assert same("弗雷斯诺有多少人？", "How many people live in Fresno?", ACROSS - 0.001) == "likeness"
    assert SURE < ACROSS


def test_without_a_model_the_wording_decides() -> None:
    """Where nothing is calibrated only the same words in the same order will do, politeness aside."""
    assert same("请问年假有多少天？", "年假有多少天？", None) == ""
    turned = "For expense reports, what is the deadline?"
    assert same(turned, "What's the deadline for expense reports?", None) == "likeness"
    assert wording("请问年假有多少天？") == wording("年假有多少天？")
    assert wording("年假有多少天？") != wording("病假有多少天？")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    """A question equals itself, comparing is symmetric in whether there is a difference, and nothing raises."""
    assert differs(one, one) == ""
    assert bool(differs(one, other)) == bool(differs(other, one))
    assert asked(one).asks


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("fresno", "弗雷斯诺的人口是多少", True),
        ("jacksonville", "杰克逊维尔市的人口", True),
        ("germany", "德国的首都", True),
        ("phoenix", "弗雷斯诺的人口是多少", False),
        ("france", "德国的首都", False),
        ("broncos", "野马队赢了吗", False),
        ("lee", "李是谁", False),
    ],
)
def test_names_across_scripts(name: str, text: str, found: bool) -> None:
    """A name is recognised by a table of places or by its consonants; one translated by meaning is not."""
    assert recognised(name, text) is found
