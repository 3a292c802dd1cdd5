"""Which sentences are shown when not all can be."""

from hypothesis import given
from hypothesis import strategies as st

from rag_graph.selection import GAP, selected, window
from store.text import estimate_tokens

LEAVE = (
    "The office opens at nine. Annual leave is 15 days a year. Ask your manager first. Parking is free. "
    "Dogs are welcome."
)
OTHER = "The canteen serves lunch. Leave is booked in the portal. The lift is slow."


def test_everything_stays_where_there_is_room() -> None:
    """Texts that fit are verbatim."""
    assert selected("annual leave", [LEAVE, OTHER], 1_000) == [LEAVE, OTHER]


def test_the_sentences_of_the_question_stay() -> None:
    """What the question asks for, and what stands beside it, outlasts the rest; gaps show."""
    first, other = selected("How many days of annual leave a year?", [LEAVE, OTHER], 24)
    assert "Annual leave is 15 days a year." in first
    assert "Dogs are welcome." not in first + other
    assert estimate_tokens(first) + estimate_tokens(other) <= 24


def test_a_document_that_another_names_is_read() -> None:
    """The second hop: what the best sentence names by its title outlasts what shares a word with the question."""
    texts = [
        "The audit takes place at the Brook House.",
        "An audit costs little. The audit of tools is yearly.",
        "It was built by Ada Lin. Its roof is green.",
    ]
    question = "Who built the house where the audit takes place?"
    kept = selected(question, texts, 28, ["Audits", "Tools", "Brook House"])
    assert "Ada Lin" in kept[2]
    assert "Ada Lin" not in selected(question, texts, 28)[2]


def test_sentences_that_follow_each_other_keep_what_is_between() -> None:
    """Lines stay lines; between sentences that were apart stands an ellipsis."""
    text = "年假十五天。\n须提前申请。\n食堂在一楼。\n年假由经理审批。"
    (cut,) = selected("年假由谁审批？", [text], 18)
    assert cut == f"年假十五天。{GAP}年假由经理审批。"


def test_the_best_paragraph_with_one_on_either_side() -> None:
    """Of five paragraphs the one that speaks of the question is shown with its neighbours, as it stands there."""
    paragraphs = [
        "食堂在一楼。",
        "病假十天。",
        "年假由经理\n审批。",
        "| 司龄 | 天数 |\n|---|---|",
        "停车免费。",
    ]
    text = "\n\n".join(paragraphs)
    assert window("年假由谁审批？", text) == "\n\n".join(paragraphs[1:4])
    assert window("食堂在哪里？", text) == "\n\n".join(paragraphs[:2])
    assert window("年假", "\n") == "\n"


@given(
    st.lists(st.sampled_from([LEAVE, OTHER, "年假十五天。须提前申请。", ""]), max_size=4), st.integers(0, 120)
)
def test_no_more_than_the_tokens_and_nothing_that_was_not_there(texts: list[str], tokens: int) -> None:
    """Whatever the room, the result fits it, has a text for each, and every piece is the passage's own."""
    cut = selected("How many days of annual leave?", texts, tokens)
    assert len(cut) == len(texts)
    assert sum(map(estimate_tokens, cut)) <= tokens
    assert all(piece in text for shown, text in zip(cut, texts, strict=True) for piece in shown.split(GAP))
