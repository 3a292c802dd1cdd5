"""People's own questions: reading what spreadsheets write, judging what came of them, and comparing two runs."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.cli.own_questions import EXAMPLE
from rag_graph.advance import Outcome
from rag_graph.contracts import Draft
from rag_graph.drafting import cited_from
from rag_graph.evaluation.by_kind import results
from rag_graph.evaluation.faults import FAULTS, TROUBLES
from rag_graph.evaluation.pairs import changes, mcnemar, paired, verdict
from rag_graph.evaluation.questions import KINDS, OwnQuestion, read
from rag_graph.evaluation.stating import states
from rag_graph.evaluation.verdicts import Known, Told, called, row
from store.passages import Passage
from tests.load.cases import SINGLES

HANDBOOK = EXAMPLE.parent / "handbook"
TABLE = """问题,要点,文档,类型,无答案,提问者,会话,工具
年假可以休多少天？,15 天|15 days; 3 月 31 日,休假制度|leave,单一事实,,slack:C1,甲,
年终奖什么时候发？,,,,是,,,
"""


def text_of(read_: Any) -> list[str]:
    return [question.text for question in read_.questions]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_a_table_is_read_however_a_spreadsheet_wrote_it(encoding: str) -> None:
    """Chinese headers; groups of wordings; who asks beside everyone; in each encoding that a spreadsheet saves in."""
    found = read(TABLE.encode(encoding), jsonl=False)
    assert found.faults == ()
    first, second = found.questions
    assert first.facts == (("15 天", "15 days"), ("3 月 31 日",))
    assert first.documents == (("休假制度", "leave"),)
    assert (first.kind, first.guessed, first.principals, first.conversation) == (
        "single", False, ("everyone", "slack:C1"), "甲",
    )  # fmt: skip
    assert second.unanswerable
    assert second.line == 3


def test_the_same_questions_as_lines_of_json() -> None:
    """Lists instead of marks; an "answer" list of the shared format is one fact in several wordings."""
    lines = [
        {
            "question": "年假？",
            "facts": ["15 天", ["3 月 31 日", "31 March"]],
            "document": ["leave"],
            "kind": "single",
        },
        {
            "text": "差旅餐补？",
            "answer": ["120 元", "一百二十元"],
            "type": "answerable",
            "note": "from the chat",
        },
    ]
    found = read("\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode(), jsonl=True)
    assert found.faults == ()
    assert [question.facts for question in found.questions] == [
        (("15 天",), ("3 月 31 日", "31 March")), (("120 元", "一百二十元"),),
    ]  # fmt: skip
    assert found.unused == ("note",)


def test_everything_that_is_wrong_is_told_by_line_and_at_once() -> None:
    """Eight faulty lines give eight faults, each with its line, and the lines between are no excuse to stop."""
    table = (
        "question,facts,kind,unanswerable,as\n"
        ",five days,,,\n"
        "How long?,five days,double,,\n"
        "How long is it?,five days,,maybe,\n"
        "Is there a pool?,yes,,yes,\n"
        '"How\nmany?",,,,nobody\n'
        "How much, and when?,5,single\n"
        "What is right?,this,single,,\n"
        "What is right?,this,single,,\n"
        "too,many,cells,,,here\n"
    )
    found = read(table.encode(), jsonl=False, principal=lambda name: ":" in name)
    told = {fault.line: fault.what for fault in found.faults}
    assert sorted(told) == [2, 3, 4, 5, 6, 8, 10, 11]
    assert "question is empty" in told[2]
    assert "none of single, multi-hop, tool" in told[3]
    assert "unanswerable is 'maybe'" in told[4]
    assert "unanswerable and yet has an answer" in told[5]
    assert "nobody could be nobody" in told[6]
    assert "kind '5' is none" in told[8]  # the comma in the question had no quotes
    assert "same as line 9" in told[10]
    assert "6 cells, the header 5" in told[11]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "no question"),
        (b"PK\x03\x04rest", "Excel workbook"),
        (b"\xff\xff\xff", "neither UTF-8 nor GB18030"),
        (b"Frage;Antwort\nWas?;Das\n", "no column is called"),
        (b'question\n"never closed\n', "quotes are not closed"),
    ],
)
def test_a_file_that_is_no_table_of_questions_says_what_it_is(data: bytes, told: str) -> None:
    """An empty file, a workbook, another encoding, other columns, an open quote: each has its sentence."""
    (fault,) = read(data, jsonl=False).faults
    assert told in str(fault)


def test_a_missing_kind_is_guessed_by_the_rule_that_offers_tools() -> None:
    """What asks for today or for the list needs a tool, two things or two documents several hops; and it says so."""
    table = 'question,document\n离年假清零还有几天？,\n"Who decides, and when?",\nHow long?,a; b\nHow long is it?,a\n'
    found = read(table.encode(), jsonl=False)
    assert [(q.kind, q.guessed) for q in found.questions] == [
        ("tool", True), ("multi-hop", True), ("multi-hop", True), ("single", True),
    ]  # fmt: skip
    assert found.questions[0].tools == ("today",)


def test_the_example_has_the_three_kinds_in_both_languages() -> None:
    """About thirty questions, about half of them Chinese, some without an answer, some that follow each other."""
    found = read(EXAMPLE.read_bytes(), jsonl=False)
    assert (found.faults, found.unused) == ((), ())
    assert {question.kind for question in found.questions} == set(KINDS)
    assert sum(bool(re.search(r"[一-鿿]", text)) for text in text_of(found)) in range(12, 23)
    assert sum(question.unanswerable for question in found.questions) == 4
    assert len([question for question in found.questions if question.conversation]) == 4


@pytest.mark.parametrize("path", [EXAMPLE, SINGLES], ids=lambda path: path.name)
def test_every_fact_stands_in_one_of_its_documents(path: Path) -> None:
    """What is called right can be read in the handbook, in the document that is named."""
    texts = {
        Known(file.stem, file.relative_to(HANDBOOK).as_posix()): file.read_text(encoding="utf-8")
        for file in HANDBOOK.rglob("*.md")
    }
    for question in read(path.read_bytes(), jsonl=False).questions:
        named = [names for names in question.documents if any(called(known, names) for known in texts)]
        for group in question.facts:
            places = [
                text
                for known, text in texts.items()
                if not named or any(called(known, names) for names in named)
            ]
            assert any(states(text, wording) for text in places for wording in group), (question.text, group)


# --- what became of a question --------------------------------------------------------------------------------------


def passage(identity: int, title: str, text: str) -> Passage:
    return Passage(
        id=identity, document_id=identity, version_id=1, version=1, collection="hr", title=title,
        source=f"{title}.en.md", heading_path=("Rules",), page=None, text=text, content_hash=str(identity),
        language="en", audience=frozenset({"everyone"}), labels=frozenset(), updated_at=datetime.now(UTC),
    )  # fmt: skip


LEAVE = passage(1, "leave", "Annual leave is 15 days a year.")
OTHER = passage(2, "travel", "Trips are booked ahead.")
QUESTION = OwnQuestion(
    "q", 2, "How long is annual leave?", "single", facts=(("15 days",),), documents=(("leave",),)
)
KNOWN = [Known("leave", "leave.en.md"), Known("travel", "travel.en.md")]


def told(
    answer: str = "It is 15 days. [1]",
    found: Sequence[Passage] = (LEAVE, OTHER),
    cited: Sequence[Passage] = (LEAVE,),
    question: OwnQuestion = QUESTION,
    **outcome: Any,
) -> Told:
    draft = cited_from(Draft(answer, "model" if answer else "declined"), cited)
    made = Outcome(
        **{"status": "answered" if answer else "declined", "draft": draft, "retrieved": (1, 2), **outcome}
    )
    return Told(question, made, tuple(found), read=1, ms=12.0, model_ms=5.0)


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        (told(), ""),
        (told("It is 12 days. [1]"), "not said"),
        (told("", cited=()), "refused"),
        (told("It is 12 days. [1]", found=(OTHER,), cited=(OTHER,)), "not retrieved"),
        (told("It is long. [1]", found=(replace(LEAVE, text="Leave is long."),)), "not in the passages"),
        (told("It is long. [1]", found=(replace(LEAVE, text="Leave is long."), LEAVE)), "ranked too low"),
        (told("It is 15 days. [1]", cited=(OTHER,)), "not cited"),
        (told(question=replace(QUESTION, documents=(("handbook",),))), "not indexed"),
        (told(question=replace(QUESTION, facts=(), documents=(), unanswerable=True)), "not refused"),
        (told("", cited=(), question=replace(QUESTION, facts=(), documents=(), unanswerable=True)), ""),
        (told("", cited=(), question=replace(QUESTION, kind="tool", tools=("today",))), "without its tool"),
        (
            told("", cited=(), question=replace(QUESTION, facts=(), documents=())),
            "",
        ),  # nothing says what is right
    ],
)
def test_the_first_thing_that_went_wrong_is_named(case: Told, fault: str) -> None:
    """From the documents over search to the answer, each fault by its own name, and no fault where all is right."""
    if fault == "not indexed":  # a right answer from another document than the one that was named
        case = replace(case, outcome=replace(case.outcome, draft=Draft("", "declined"), status="declined"))
    kept = row(case, KNOWN)
    assert kept["fault"] == fault
    assert kept["fault"] in ("", *FAULTS)


def test_a_document_that_the_asker_may_not_read_is_not_there() -> None:
    """The same document, closed to who asks, counts as not indexed for them."""
    closed = [replace(KNOWN[0], audience=frozenset({"slack:C9"}))]
    assert row(told("", found=(OTHER,), cited=()), closed)["fault"] == "not indexed"


TODAY = OwnQuestion("t", 3, "What day is it today?", "tool", tools=("today",))


def call(name: str, error: str = "", trouble: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "arguments": {},
        "error": error,
        "trouble": trouble,
        "text": "",
        "ms": 1,
        "passages": [],
    }


@pytest.mark.parametrize(
    ("calls", "offered", "right", "troubles"),
    [
        ([call("today", trouble="needless")], ("today",), True, []),
        ([call("today", "invalid", "wrong")], ("today",), False, ["wrong"]),
        ([call("today", "invalid", "wrong"), call("today")], ("today",), True, ["wrong"]),
        ([], ("today",), False, ["missing"]),
        ([], (), False, ["not offered"]),
        ([call("list_documents", trouble="needless")], ("today",), False, ["needless", "missing"]),
    ],
)
def test_tool_trouble_has_three_forms_and_one_that_no_rule_offered(
    calls: list[dict[str, Any]], offered: tuple[str, ...], right: bool, troubles: list[str]
) -> None:
    """Not called, called for nothing, called wrongly; a corrected call is right and was wrong once."""
    kept = row(replace(told(question=TODAY, tools=tuple(calls)), offered=offered), KNOWN)
    assert (kept["tool_right"], kept["tool_troubles"]) == (right, troubles)
    assert set(troubles) <= set(TROUBLES)


def test_without_a_model_nothing_is_told_of_tools() -> None:
    """Quotations call no tool: that is no trouble of the tool's."""
    kept = row(replace(told(question=TODAY), model_ms=None), KNOWN)
    assert (kept["tool_right"], kept["tool_troubles"]) == (None, [])


def test_the_kinds_are_kept_apart_and_what_does_not_apply_is_left_out() -> None:
    """A result for all and for each kind that occurs; no tool figures of single facts, no hits without documents."""
    rows = [row(told(), KNOWN), row(told("It is 12 days. [1]", question=replace(QUESTION, id="r")), KNOWN),
            row(replace(told(question=TODAY, tools=(call("today"),)), offered=("today",)), KNOWN)]  # fmt: skip
    whole, single, tool = results("own", rows, {"k": 1}, {"documents": 2})
    assert [(one.set, one.n) for one in (whole, single, tool)] == [
        ("own", 3),
        ("own, single", 2),
        ("own, tool", 1),
    ]
    assert single.metrics["right by containment"] == 0.5
    assert single.metrics["first hit"] == single.metrics["hit@5"] == 1.0
    assert tool.metrics["right tool called"] == 1.0
    assert "right tool called" not in single.metrics
    assert "first hit" not in tool.metrics
    assert [one["id"] for one in whole.details["questions"]] == ["q", "r", "t"]


# --- two variants ----------------------------------------------------------------------------------------------------


def judged(marks: str) -> list[dict[str, Any]]:
    return [{"id": str(n), "line": n, "kind": "single", "text": str(n), "right": {"+": True, "-": False}.get(mark)}
            for n, mark in enumerate(marks, 2)]  # fmt: skip


def test_mcnemar_is_the_exact_coin() -> None:
    """Two of two are as likely as not to come about by chance; ten of ten are not; nothing changed is certain."""
    assert mcnemar(2, 0) == pytest.approx(0.5)
    assert mcnemar(10, 0) == pytest.approx(2 / 2**10)
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(0, 0) == 1.0


def test_two_questions_more_are_not_sold_as_progress() -> None:
    """2 of 20 better: too few to tell; 12 of 20: better, and the interval is away from zero."""
    before = judged("-" * 12 + "+" * 8)
    little, much = (
        paired("right", before, judged("++" + "-" * 10 + "+" * 8)),
        paired("right", before, judged("+" * 20)),
    )
    assert little is not None
    assert much is not None
    assert (little.better, little.worse, little.difference) == (2, 0, 0.1)
    assert "too few changed" in verdict(little)
    assert much.low > 0
    assert "more than chance" in verdict(much)
    assert "no more than chance" in verdict(paired("right", judged("-----+++"), judged("+++++---")) or much)


def test_changes_are_listed_by_question_and_only_of_common_ones() -> None:
    """Worse first, in the file's order; a question that one run does not have, or cannot judge, is not compared."""
    found = changes(judged("+-?-+"), judged("-+++++"))
    assert [(change.line, change.became) for change in found] == [(2, "worse"), (3, "better"), (5, "better")]
    assert paired("right", judged("+"), [{**judged("+")[0], "id": "x"}]) is None


def test_names_of_a_document_are_its_title_its_file_and_the_file_without_endings() -> None:
    """leave.zh.md goes by leave, but not by a part of its name."""
    known = Known("休假制度", "hr/leave.zh.md", "hr")
    assert all(
        called(known, [name]) for name in ("休假制度", "leave", "Leave.zh.md", "hr/leave.zh.md", "leave.zh")
    )
    assert not any(called(known, [name]) for name in ("lea", "休假", "md"))


def test_the_example_lies_where_the_command_says() -> None:
    """It is shipped beside the settings' example."""
    assert EXAMPLE.exists()
    assert Path(EXAMPLE).with_name("signoff.example.toml").exists()
