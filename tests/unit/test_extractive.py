"""The answer without a model: the right sentences, word for word, each with its mark."""

import re
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph.blocks import Group, groups
from rag_graph.extractive import answer
from rag_graph.grounding import check_citations, ground, neutralise
from store.passages import Passage

TIERS = """年假按司龄计算，已包含法定年休假：

| 司龄 | 每年年假 |
|---|---|
| 不满 1 年 | 5 天 |
| 满 1 年不满 10 年 | 10 天 |
| 满 10 年及以上 | 15 天 |

司龄在年中跨档的，自跨档当月起按新档折算。"""
RULE = "员工累计工作已满1年不满10年的，年休假5天；已满10年不满20年的，年休假10天；已满20年的，年休假15天。"
VALID = "当年的年假应在 12 月 31 日前休完。未休完的部分最多可结转 5 天，有效期到次年 3 月 31 日，逾期作废。"
APPLY = """请假按以下规定提前申请：

- 3 天以内：提前 3 个工作日，由直属上级审批。
- 超过 3 天：提前 10 个工作日，由部门负责人审批。

已批准的休假可以撤销。"""
SICK = "员工每年有 8 天全薪病假。连续病假达到 2 天的，须上传医院的诊断证明和病假条。"
PURCHASE = """**第 3.1 条** 预付款不得超过合同总价的 20%。

**第 3.2 条** 验收合格后 45 日内，买方付至合同总价的 90%。

**第 3.3 条** 剩余 10% 作为质量保证金。"""
SERVICE = "**第 3.2 条** 甲方分三期付款：签订后支付 30%，验收后支付 50%，质保期满后支付 20%。"
CODES = """| Code | What it means |
|---|---|
| ERR_0017 | One-time code rejected |
| ERR_0042 | Device certificate expired |
| ERR_0058 | Already connected from 2 other devices |"""


def passage(
    text: str, number: int, title: str = "休假制度", heading: str = "年假", language: str = "zh"
) -> Passage:
    return Passage(
        id=number,
        document_id=sum(map(ord, title)),
        version_id=number,
        version=1,
        collection="hr",
        title=title,
        source="leave.md",
        heading_path=(heading,) if heading else (),
        page=None,
        text=text,
        content_hash=f"h{number}",
        language=language,
        audience=frozenset({"everyone"}),
        labels=frozenset(),
        updated_at=datetime(2024, 3, 1, tzinfo=UTC),
        ordinal=number,
    )


LEAVE = [
    passage(TIERS, 1, heading="年假天数"),
    passage(VALID, 2, heading="年假的有效期"),
    passage(SICK, 3, heading="病假"),
]
TERMS = [
    passage("合同签署后 3 个工作日内归档。", 1, "合同审批", "归档"),
    passage(SERVICE, 2, "技术服务合同", "第 3 条 费用与付款"),
    passage(PURCHASE, 3, "采购合同", "第 3 条 付款"),
]


def quoted(text: str) -> list[str]:
    return re.findall(r"^> (.*?)(?: \[\d+\])?$", text, re.MULTILINE)


def test_all_tiers_of_a_table() -> None:
    """How many days of leave: every tier, with the table's header, from the passage that has them."""
    said = answer("年假可以休多少天？", LEAVE)
    assert said.splitlines()[:6] == [
        "**休假制度 › 年假天数**",
        "",
        "> 年假按司龄计算，已包含法定年休假：",
        ">",
        "> | 司龄 | 每年年假 |",
        "> |---|---|",
    ]
    assert all(f"> | {tier} |" in said for tier in ("不满 1 年 | 5 天", "满 1 年不满 10 年 | 10 天"))
    assert "> | 满 10 年及以上 | 15 天 |\n>\n> [1]" in said


def test_all_tiers_of_a_sentence() -> None:
    """A rule that puts all tiers in a sentence is quoted whole."""
    assert RULE in answer("年假可以休多少天？", [passage(RULE, 1), passage(SICK, 2, heading="病假")])


def test_when_prefers_a_date() -> None:
    """Until when: the sentence with the date comes first, though the other passage was ranked above."""
    said = answer("年假的有效期到什么时候？", LEAVE)
    assert said.startswith(f"**休假制度 › 年假的有效期**\n\n> {VALID} [2]")


def test_a_list_comes_with_its_lead_in() -> None:
    """Items are quoted under the line that introduces them, each with its mark."""
    said = answer("请假要提前多久申请？", [passage(APPLY, 1, heading="申请")])
    assert said.splitlines()[2:6] == [
        "> 请假按以下规定提前申请：",
        ">",
        "> - 3 天以内：提前 3 个工作日，由直属上级审批。 [1]",
        "> - 超过 3 天：提前 10 个工作日，由部门负责人审批。 [1]",
    ]


def test_a_level_within_a_range_is_there() -> None:
    """P5 stands in no text, P4–P6 does: that answers; P9 is answered by nothing."""
    limits = passage("| 城市 | P4–P6 | P7–P8 |\n|---|---|---|\n| 青岛 | 450 | 600 |", 1, "差旅标准", "住宿")
    assert "| 青岛 | 450 | 600 |" in answer("P5 去青岛的住宿上限是多少？", [limits])
    assert answer("P9 去青岛的住宿上限是多少？", [limits]) == ""


def test_each_thing_that_is_asked_is_quoted() -> None:
    """A question for two things gets what answers either, though one of them fits the whole question better."""
    said = answer("年假的有效期到什么时候？病假要交什么证明？", LEAVE)
    assert f"> {VALID} [2]" in said
    assert "须上传医院的诊断证明和病假条" in said


def test_one_row_that_answers() -> None:
    """A question about one code gets that row, under the header."""
    said = answer("What does ERR_0042 mean?", [passage(CODES, 1, "IT error codes", "Sign-in", "en")])
    assert quoted(said)[:3] == [
        "| Code | What it means |",
        "|---|---|",
        "| ERR_0042 | Device certificate expired |",
    ]
    assert "ERR_0017" not in said


@pytest.mark.parametrize(
    ("question", "clause", "number"),
    [
        ("采购合同第 3.2 条怎么规定？", "**第 3.2 条** 验收合格后 45 日内，买方付至合同总价的 90%。", 3),
        ("技术服务合同第3.2条", "**第 3.2 条** 甲方分三期付款：", 2),
        ("What does clause 3.2 of the 采购合同 say?", "**第 3.2 条** 验收合格后", 3),
    ],
)
def test_a_clause_by_its_number(question: str, clause: str, number: int) -> None:
    """A clause asked for by number is that very clause, of the contract that is named, and nothing else."""
    said = answer(question, TERMS)
    assert said.count("> ") == 1
    assert f"> {clause}" in said
    assert f"[{number}]" in said


@pytest.mark.parametrize(
    "question", ["合同第 30.1 条怎么规定？", "ERR_4021 是什么意思？", "What does error 4021 mean?"]
)
def test_a_clause_or_code_that_is_nowhere(question: str) -> None:
    """Passages about other clauses or codes are no answer."""
    assert answer(question, TERMS) == ""


def test_an_english_question_over_chinese_passages() -> None:
    """Where words cannot be compared, the first passage and the quantity asked for decide."""
    said = answer("How many days of annual leave do I get?", LEAVE)
    assert "15 天" in said
    assert said.startswith("**休假制度 › 年假天数**")


def test_neighbouring_chunks_are_quoted_once() -> None:
    """The same text in two overlapping chunks is one quotation."""
    said = answer("年假的有效期到什么时候？", [passage(VALID, 1), passage(VALID + "\n\n" + SICK, 2)])
    assert said.count("逾期作废") == 1


def test_no_passages_no_answer() -> None:
    """Without passages, or with nothing but headings in them, there is nothing to quote."""
    assert answer("年假几天？", []) == ""
    assert answer("年假几天？", [passage("## 年假\n\n<!-- page 3 -->", 1)]) == ""


@pytest.mark.parametrize(
    "question", ["年假可以休多少天？", "年假的有效期到什么时候？", "病假需要什么证明？", "谁审批请假？"]
)
def test_quotations_hold_up(question: str) -> None:
    """What is quoted is in the passage word for word, survives neutralising, and every quoted sentence is supported."""
    said = answer(question, LEAVE)
    assert neutralise(said) == said
    assert all(
        any(line in p.text for p in LEAVE) for line in quoted(said) if line and not line.startswith("[")
    )
    checked = check_citations(said, len(LEAVE))
    judged = ground(checked.text, [LEAVE[number - 1] for number in checked.numbers])
    assert {sentence.support for sentence in judged if sentence.citations} == {"supported"}
    assert {sentence.support for sentence in judged} <= {"supported", "unchecked"}


def test_five_long_passages_in_twenty_milliseconds() -> None:
    """Five full passages are searched for quotations in at most 20 ms, the tokenizer being loaded."""
    texts = [f"{TIERS}\n\n{VALID}\n\n{APPLY}\n\n{SICK}{number}" for number in range(5)]
    passages = [passage(text, number) for number, text in enumerate(texts, 1)]
    answer("年假可以休多少天？", LEAVE)
    times = []
    for number in range(5):
        started = time.process_time()
        answer(f"年假可以休多少天？{number}", passages)
        times.append(time.process_time() - started)
    assert min(times) < 0.020


def test_groups_of_a_passage() -> None:
    """Headings and anchors are left out, a lead-in goes with its list, wrapped items stay one."""
    text = "# 标题\n\n第一句。第二句。如下：\n\n1. 甲\n   乙\n2. 丙\n\n<!-- page 2 -->\n\n```\ncode\n```"
    assert groups(text) == [
        Group("paragraph", "", ("第一句。", "第二句。")),
        Group("list", "如下：", ("1. 甲\n   乙", "2. 丙")),
        Group("code", "", ("```\ncode\n```",)),
    ]


TEXTS = st.lists(
    st.sampled_from(
        [
            "年假 5 天。",
            "| a | b |",
            "|---|---|",
            "- 项目",
            "1. step",
            "# 标题",
            "",
            "```",
            "> 引文",
            "第 3.2 条 付款。",
            "word " * 9,
        ]
    ),
    max_size=12,
).map("\n".join)


@given(st.text(max_size=40), st.lists(TEXTS, max_size=4))
def test_any_passages_give_the_same_marked_quotations(question: str, texts: list[str]) -> None:
    """Whatever the passages look like: the same quotations twice, and no mark beyond the passages."""
    passages = [passage(text, number) for number, text in enumerate(texts, 1)]
    said = answer(question, passages)
    assert said == answer(question, passages)
    assert all(1 <= int(number) <= len(texts) for number in re.findall(r"\[(\d+)\]", said))
