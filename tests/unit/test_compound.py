"""Questions that ask several things at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph.compound import MOST, parts


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "Which client does the VPN require, and how far ahead do I apply to use it abroad?",
            ["Which client does the VPN require", "how far ahead do I apply to use it abroad?"],
        ),
        (
            "For a trip to Oslo, what is the hotel limit and who books it?",
            ["For a trip to Oslo, what is the hotel limit", "who books it?"],
        ),
        ("年假有几天，怎么申请？", ["年假有几天", "怎么申请？"]),
        ("我是 P5，住宿上限是多少？几天内报销？", ["我是 P5，住宿上限是多少？", "几天内报销？"]),
        ("发票丢了能用替票吗？一年最多多少钱？", ["发票丢了能用替票吗？", "一年最多多少钱？"]),
    ],
)
def test_each_thing_asked_is_a_part(question: str, asked: list[str]) -> None:
    """Parts follow the question's order; a clause that asks nothing belongs to the part after it."""
    assert parts(question) == asked


@pytest.mark.parametrize(
    "question",
    [
        "When imperialism impacts the norms of a state, what is it called?",
        "When and where was the book published?",
        "I get ERR_0042 when connecting. What is wrong?",
        "Who may sign, the director or the board?",
        "公司信用卡丢了，要在多长时间内书面报告？",
        "真的吗？那圆明园可以玩多久？",
        "年假可以休多少天？可以吗？",
        "VPN",
        "",
    ],
)
def test_one_question_is_one_part(question: str) -> None:
    """A condition, an alternative, chatter before or after, and words alone do not make a second question."""
    assert parts(question) == [question]


@given(
    st.lists(
        st.sampled_from(["年假有几天", "怎么申请", "，", "？", "VPN", " and who signs", "what is it", "。"])
    )
)
def test_nothing_is_invented(pieces: list[str]) -> None:
    """Whatever is asked, there are one to three parts, and each is the question's own text."""
    question = "".join(pieces)
    found = parts(question)
    assert 1 <= len(found) <= MOST
    assert all(part in question for part in found)
