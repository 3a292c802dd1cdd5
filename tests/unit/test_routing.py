"""What is answered without a search, and, more important, what is not."""

import time

import pytest

from rag_graph.contracts import Turn
from rag_graph.routing import route

BEFORE = [Turn("t", "年假可以休多少天？", "5 天。")]


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("你好", "greeting"),
        ("您好！", "greeting"),
        ("Hi there", "greeting"),
        ("hello, Signoff 👋", "greeting"),
        ("早上好，在吗？", "greeting"),
        ("<@U123> hey", "greeting"),
        ("谢谢", "thanks"),
        ("好的，谢谢你！", "thanks"),
        ("Thanks a lot!", "thanks"),
        ("ok, got it", "thanks"),
        ("嗯嗯", "thanks"),
        ("你是谁？", "about"),
        ("你好，你能做什么？", "about"),
        ("What can you do?", "about"),
        ("help", "about"),
        ("Are you a bot?", "about"),
        ("怎么使用你？", "about"),
        ("给我讲个笑话", "out_of_scope"),
        ("今天天气怎么样？", "out_of_scope"),
        ("Tell me a joke", "out_of_scope"),
        ("Write a short poem about tea", "out_of_scope"),
        ("What's the weather like in Berlin?", "out_of_scope"),
    ],
)
def test_small_talk(text: str, topic: str) -> None:
    """Greetings, thanks, questions about the bot and requests outside the documents need no search."""
    chosen = route(text, [])
    assert (chosen.kind, chosen.topic) == ("smalltalk", topic)


@pytest.mark.parametrize(
    "text",
    [
        "？",
        "...",
        "请问",
        "我想问个问题",
        "I have a question",
        "Can you help me?",
        "为什么？",
        "它的有效期到什么时候？",
        "多少钱？",
        "How long does it take?",
        "how do I apply?",
        "那个",
    ],
)
def test_too_vague_as_a_first_turn(text: str) -> None:
    """With nothing before it and nothing named in it, one question goes back."""
    chosen = route(text, [])
    assert (chosen.kind, chosen.topic) == ("clarify", "too_vague")


@pytest.mark.parametrize(
    "text", ["为什么？", "它的有效期到什么时候？", "多少钱？", "How long does it take?", "那海外呢？"]
)
def test_a_follow_up_is_not_vague(text: str) -> None:
    """The same words after a turn are a follow-up, to be rewritten and searched."""
    assert route(text, BEFORE).kind == "search"


@pytest.mark.parametrize(
    "text",
    [
        "年假可以休多少天？",
        "你好，请问年假可以休多少天？",
        "谢谢！那病假怎么请？",
        "Hi, how do I request annual leave?",
        "How many days of annual leave do I get?",
        "合同第 3.2 条怎么规定？",
        "VPN",
        "怎么报销差旅费？",
        "报销流程",
        "密码多久换一次？",
        "What is the weather policy for field work?",
        "Can you help me reset my password?",
        "你能帮我申请年假吗？",
        "Tell me a bit about the travel policy",
        "高温天气有补贴吗？",
        "ISO-9001",
        "Who are the first aiders?",
        "薪资几号发？",
        "公司地址在哪里？",
        "几点上班？",
        "What is Project Atlas?",
        "help desk phone number",
    ],
)
def test_questions_are_searched(text: str) -> None:
    """A question stays one, with a greeting before it, in a word, or in terms that small talk uses too."""
    assert route(text, []).kind == "search"


@pytest.mark.parametrize("piece", ["嗯", "hi ", "谢谢", "ok, ", "你好，", "a", "写", " "])
def test_repetition_takes_no_time(piece: str) -> None:
    """No text makes the patterns explode."""
    started = time.perf_counter()
    route(piece * 30, [])
    route(piece * 29 + "x?", [])
    assert time.perf_counter() - started < 1
