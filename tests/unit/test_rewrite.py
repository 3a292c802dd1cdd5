"""When a question is rewritten before it is searched, and what becomes of it without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph.contracts import Turn
from rag_graph.rewrite import (
    CARRY_OVER,
    apply_strategy,
    by_rule,
    carry_over,
    needs_rewrite,
    next_strategy,
    strategies,
)
from rag_graph.topics import titles_in, topics

TITLES = ["员工休假制度", "差旅与报销制度", "采购合同", "Leave policy", "Travel and expenses"]


def turn(question: str, answer: str = "") -> Turn:
    return Turn("t", question, answer)


LEAVE = [turn("年假可以休多少天？", "满 1 年不满 10 年的，5 天 [1]。")]
ANNUAL = [turn("How many days of annual leave do I get?", "Five to fifteen [1].")]


@pytest.mark.parametrize(
    "text",
    [
        "它的有效期到什么时候？",
        "其适用范围是什么？",
        "这个制度什么时候生效？",
        "该条款适用于谁？",
        "上述规定有例外吗？",
        "那里怎么走？",
        "有效期到什么时候？",
        "多少钱？",
        "需要提前多久申请？",
        "那海外呢？",
        "合同工呢？",
        "为什么？",
        "还有呢？",
        "审批人是谁？",
        "实习生也可以吗？",
        "两者有什么区别？",
        "好的，那它多久发一次？",
        "Does it expire?",
        "And for contractors?",
        "What about overseas staff?",
        "how long?",
        "Why?",
        "Who approves them?",
        "What are the exceptions?",
        "Is that paid out?",
        "the same for interns?",
        "How do I apply?",
        "Can they be carried over?",
    ],
)
def test_fires_on_what_leaves_its_topic_out(text: str) -> None:
    """Demonstratives, dropped subjects and bare follow-ups are rewritten, and never on a first turn."""
    assert needs_rewrite(text, LEAVE)
    assert not needs_rewrite(text, [])


@pytest.mark.parametrize(
    "text",
    [
        "年假可以休多少天？",
        "病假怎么请？",
        "差旅报销的流程是什么？",
        "应该找谁审批年假？",
        "试用期员工有年假吗？",
        "VPN 怎么申请？",
        "合同第 3.2 条怎么规定？",
        "年假和病假有什么区别？",
        "这个月发工资吗？",
        "出差可以坐头等舱吗？",
        "发票丢了怎么办？",
        "年假没休完，它会作废吗？",
        "其他假期怎么请？",
        "How do I request annual leave?",
        "What is the password policy?",
        "How many days of sick leave do I get?",
        "Is it possible to carry over annual leave?",
        "Can contractors use the VPN?",
        "How long does it take to get a visa invitation letter?",
        "What does ERR_0042 mean?",
        "Who is Maria Chen and what does she do?",
        "Do interns get annual leave?",
    ],
)
def test_leaves_complete_questions_alone(text: str) -> None:
    """A question that says what it is about is never rewritten, whatever was spoken of before."""
    assert not needs_rewrite(text, LEAVE)


@pytest.mark.parametrize(
    ("turns", "question", "carried"),
    [
        (LEAVE, "它的有效期到什么时候？", "年假的有效期到什么时候？"),
        (LEAVE, "其有效期到什么时候？", "年假的有效期到什么时候？"),
        (LEAVE, "哦，那它可以结转吗？", "年假可以结转吗？"),
        (LEAVE, "这个制度什么时候生效？", "年假制度什么时候生效？"),
        (LEAVE, "有效期到什么时候？", "年假：有效期到什么时候？"),
        (LEAVE, "那有效期呢？", "年假的有效期"),
        (LEAVE, "那合同工呢？", "合同工：年假可以休多少天？"),
        (LEAVE, "为什么？", "年假可以休多少天，为什么？"),
        ([turn("年假和病假怎么请？")], "两者有什么区别？", "年假和病假有什么区别？"),
        ([turn("差旅报销的流程是什么？")], "需要哪些材料？", "差旅报销：需要哪些材料？"),
        ([turn("采购申请的流程是什么？")], "要多久？", "采购：要多久？"),
        ([turn("怎么报销？")], "它有期限吗？", "报销有期限吗？"),
        ([turn("采购合同第 3.2 条怎么规定？")], "那付款期限呢？", "采购合同的付款期限"),
        (ANNUAL, "Does it expire?", "Does annual leave expire?"),
        (ANNUAL, "What are its limits?", "What are annual leave's limits?"),
        (ANNUAL, "And for contractors?", "How many days of annual leave do I get – for contractors"),
        (ANNUAL, "What about overseas staff?", "How many days of annual leave do I get – overseas staff"),
        (ANNUAL, "how long?", "How many days of annual leave do I get – how long?"),
        (ANNUAL, "What are the exceptions?", "annual leave: What are the exceptions?"),
        (ANNUAL, "And how do I request sick leave?", "how do I request sick leave?"),
    ],
)
def test_the_topic_takes_the_demonstrative_s_place(turns: list[Turn], question: str, carried: str) -> None:
    """The topic of the last question stands where it was left out, in words that people can read."""
    assert carry_over(question, turns, "", TITLES) == carried


def test_a_chain_of_follow_ups_keeps_its_topic() -> None:
    """The third question is still about what the first one named."""
    chain = [*LEAVE, turn("它的有效期到什么时候？"), turn("那合同工呢？")]
    assert carry_over("可以结转吗？", chain, "", TITLES) == "年假：可以结转吗？"


def test_a_new_topic_replaces_the_old_one() -> None:
    """After a complete question about something else, that is what is meant."""
    moved = [*LEAVE, turn("病假需要什么证明？", "医院的诊断证明。")]
    assert carry_over("它要提前多久交？", moved, "", TITLES) == "病假要提前多久交？"


def test_a_known_title_is_carried_over() -> None:
    """A title named in the conversation outweighs other phrases."""
    named = [turn("差旅与报销制度是哪天发布的？", "2026 年 1 月。")]
    assert carry_over("它由谁负责？", named, "", TITLES) == "差旅与报销制度由谁负责？"


def test_a_place_is_not_the_topic() -> None:
    """What only says where something lies does not take the topic over."""
    titles = ["万寿山", "颐和园"]
    turns = [turn("知道万寿山吗？", "知道。"), turn("门票要多少钱？", "无需门票，含于颐和园景区内。")]
    assert topics(turns, titles)[0] == "万寿山"


def test_a_question_that_names_a_title_is_left_alone() -> None:
    """A known title in the question is its topic."""
    assert carry_over("采购合同的付款期限呢？", LEAVE, "", TITLES) == "采购合同的付款期限呢？"


def test_the_summary_helps_where_the_turns_do_not() -> None:
    """With nothing named in the turns, a title in the summary is carried over; with nothing at all, nothing is."""
    assert (
        carry_over("它什么时候生效？", [turn("你好")], "谈到了员工休假制度。", TITLES)
        == "员工休假制度什么时候生效？"
    )
    assert carry_over("它什么时候生效？", [turn("你好")], "", TITLES) == "它什么时候生效？"


def test_titles_are_found_whole_and_longest_first() -> None:
    """A longer title hides a shorter one inside it, and English titles are whole words."""
    assert titles_in("冶仙塔旅游风景区和冶仙塔", ["冶仙塔", "冶仙塔旅游风景区"]) == [
        "冶仙塔旅游风景区",
        "冶仙塔",
    ]
    assert titles_in("the leave policy, believe policy", ["Leave policy"]) == ["Leave policy"]


@pytest.mark.parametrize(
    ("question", "strategy", "put"),
    [
        ("请问差旅报销的流程是什么？", "keywords", "差旅 报销 流程"),
        ("合同第 3.2 条怎么规定？", "keywords", "合同 第 3.2 条 规定"),
        ("How many days of annual leave do I get?", "keywords", "days annual leave"),
        ("张伟去上海出差 5 天的住宿标准是多少？", "step_back", "张伟去上海出差 的住宿标准是多少？"),
        ("如果我下周离职，年假怎么折算？", "step_back", "年假怎么折算？"),
        ("Can I take 12 days of leave in one go?", "step_back", "Can I take of leave in one go?"),
        ("年假有几天，怎么申请？", "decompose", "年假有几天"),
        ("年假和病假有什么区别？", "decompose", "年假"),
        ("What is the difference between annual leave and sick leave?", "decompose", "annual leave"),
        ("年假有几天？", "other_language", "年假有几天？"),
    ],
)
def test_another_way(question: str, strategy: str, put: str) -> None:
    """Each strategy changes the question in its own way; another language needs a model."""
    assert apply_strategy(question, strategy) == put


def test_strategies_come_once_each() -> None:
    """After a weak search each way is tried once, the other language only with a model."""
    assert next_strategy([]) == "keywords"
    assert next_strategy(["keywords"]) == "step_back"
    assert next_strategy(["keywords", "step_back", "decompose"]) is None
    assert next_strategy(["keywords"], model=True) == "other_language"


def test_a_strategy_that_changes_nothing_is_passed_over() -> None:
    """Searching the same words again would be a waste."""
    assert strategies("VPN", []) == ""
    assert strategies("年假有几天，怎么申请？", ["keywords"]) == "decompose"


def test_a_follow_up_is_made_whole_before_it_is_put_another_way() -> None:
    """Keywords of a follow-up include its topic."""
    assert by_rule("它的有效期到什么时候？", LEAVE, "", TITLES, CARRY_OVER) == "年假的有效期到什么时候？"
    assert by_rule("它的有效期到什么时候？", LEAVE, "", TITLES, "keywords") == "年假 有效期"


TEXTS = st.text(max_size=40) | st.lists(
    st.sampled_from(
        [
            "它",
            "年假",
            "的",
            "那",
            "呢",
            "？",
            "it",
            " the ",
            "leave ",
            "?",
            "what about ",
            "and ",
            "《",
            "3.2",
            "\n",
        ]
    ),
    max_size=10,
).map("".join)


@given(TEXTS, st.lists(st.builds(turn, TEXTS, TEXTS), max_size=4), TEXTS)
def test_any_conversation_gives_some_question(question: str, turns: list[Turn], summary: str) -> None:
    """Whatever was said, the rewrite is a text, the same twice, and empty only where the question was."""
    carried = carry_over(question, turns, summary, TITLES)
    assert carried == carry_over(question, turns, summary, TITLES)
    assert bool(carried.strip()) or not question.strip()
    for strategy in ("keywords", "step_back", "decompose", "other_language"):
        assert bool(apply_strategy(question, strategy)) is bool(question.strip())
