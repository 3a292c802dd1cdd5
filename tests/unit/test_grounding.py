"""Citations that point somewhere, sentences that their passages support, and text that can do no harm."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag_graph.grounding import Cited, check_citations, ground, intersect_audiences, neutralise, support
from rag_graph.neutral import segments
from store.passages import Passage

LEAVE = (
    "员工累计工作已满1年不满10年的，年休假5天；已满10年不满20年的，年休假10天；已满20年的，年休假15天。"
    "试用期员工不得休年假。年假应于次年3月31日前使用，逾期作废。审批人为张伟。差旅餐补为每天 120 元。"
)
HANDBOOK = (
    "Employees with 1 to 10 years of service get 5 days of annual leave. Probationary staff may not take annual "
    "leave. Leave must be used by 31 March of the following year. Requests are approved by Maria Chen. You may "
    "bring pets, but not into the laboratory. Meals are paid at 120 yuan a day under policy HR-12."
)


def passage(text: str, number: int = 1) -> Passage:
    return Passage(
        id=number,
        document_id=number,
        version_id=number,
        version=1,
        collection="handbook",
        title="Leave",
        source="leave.md",
        heading_path=("Annual leave",),
        page=None,
        text=text,
        content_hash=f"h{number}",
        language="en",
        audience=frozenset({"everyone"}),
        labels=frozenset(),
        updated_at=datetime(2024, 3, 1, tzinfo=UTC),
    )


# --- citations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("五天 [2]，十天 [1]。", Cited("五天 [1]，十天 [2]。", (2, 1))),
        ("Five days [7].", Cited("Five days.", ())),
        ("Five days [9][3].", Cited("Five days [1].", (3,))),
        ("五天【2】。", Cited("五天[1]。", (2,))),
        ("Five [1, 3] and ten [1-3].", Cited("Five [1][2] and ten [1][3][2].", (1, 3, 2))),
        ("Five [2] [2].", Cited("Five [1].", (2,))),
        ("Nothing [0].", Cited("Nothing.", ())),
        ("国发[2024]5号 [1]", Cited("国发[2024]5号 [1]", (1,))),
        ("Use `list[1]` [2].", Cited("Use `list[1]` [1].", (2,))),
    ],
)
def test_citations_are_checked_and_renumbered(text: str, checked: Cited) -> None:
    """Marks that point nowhere go; the others count from 1 in order of use; code and years are no marks."""
    assert check_citations(text, 3) == checked


PIECES = st.lists(
    st.sampled_from(
        ["五天", "ten days ", "[1]", " [2]", "[3]", "[9]", "[0]", "【2】", "[1, 4]", "。", "`[1]`", "\n"]
    ),
    max_size=20,
)


@given(PIECES, st.integers(min_value=0, max_value=4))
def test_checked_marks_have_no_gaps(pieces: list[str], count: int) -> None:
    """After checking, marks appear in the order 1, 2, 3 …, each points to a passage, and a second look agrees."""
    checked = check_citations("".join(pieces), count)
    prose = "".join(piece for code, piece in segments(checked.text) if not code)
    used = [int(number) for number in re.findall(r"\[(\d{1,3})\]", prose)]
    assert list(dict.fromkeys(used)) == list(range(1, len(checked.numbers) + 1))
    assert all(1 <= number <= count for number in checked.numbers)
    assert check_citations(checked.text, len(checked.numbers)).text == checked.text


# --- support ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "judged"),
    [
        ("已满20年的，年休假15天 [1]。", "supported"),
        ("已满二十年的，年休假十五天 [1]。", "supported"),
        ("年休假 25 天 [1]。", "unsupported"),
        ("试用期员工不能休年假 [1]。", "supported"),
        ("试用期员工可以休年假 [1]。", "unsupported"),
        ("年假须在4月30日前使用 [1]。", "unsupported"),
        ("审批人为李强 [1]。", "unsupported"),
        ("差旅餐补为每天 120 美元 [1]。", "unsupported"),
        ("月球由奶酪构成 [1]。", "unsupported"),
        ("您想问的是年假吗？", "unchecked"),
        ("具体如下：", "unchecked"),
        ("You get 5 days after one year [1].", "supported"),
        ("You get 6 days after one year [1].", "unsupported"),
    ],
)
def test_support_by_a_chinese_passage(sentence: str, judged: str) -> None:
    """Numbers, dates, currencies, names and negations must be the passage's; across languages numbers decide."""
    assert support(sentence, [LEAVE]) == judged


@pytest.mark.parametrize(
    ("sentence", "judged"),
    [
        ("Probationary staff may not take annual leave [1].", "supported"),
        ("Probationary staff may take annual leave [1].", "unsupported"),
        ("Requests are approved by Maria Chen [1].", "supported"),
        ("Requests are approved by John Smith [1].", "unsupported"),
        ("You may bring pets [1].", "supported"),
        ("Leave must be used by March 31 of the following year [1].", "supported"),
        ("The rule is in HR-13 [1].", "unsupported"),
        ("工龄 1 至 10 年的，年假 5 天 [1]。", "supported"),
        ("工龄 1 至 10 年的，年假 7 天 [1]。", "unsupported"),
        ("试用期员工不能休年假 [1]。", "unchecked"),
    ],
)
def test_support_by_an_english_passage(sentence: str, judged: str) -> None:
    """The same in English; a Chinese sentence without numbers cannot be compared, and says so."""
    assert support(sentence, [HANDBOOK]) == judged


def test_a_number_of_something_else_is_not_support() -> None:
    """A number that the passage states, but of another thing, does not pass as supported."""
    text = "The main office has 40 desks. The branch office has 12 desks."
    assert support("The main office has 12 desks [1].", [text]) == "unsupported"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        ("在王治平出任特首时，组成三人组。", "在梁振英出任特首时，组成三人组。"),
        ("计划由酒井美纪进行，他是总长。", "计划由陆军参谋部进行，他是总长。"),
        ("China signed a treaty giving it a special status.", "Greenland signed a treaty giving it a special status."),
        ("In 1972, the board named the administrator of the office.",
         "In 1973, the board named the administrator of the office. It was founded in 1972."),
        ("William E. Simon was the first to travel with the married couple.",
         "The Doctor was the first to travel with the married couple."),
    ],
)  # fmt: skip
def test_something_else_in_a_names_or_a_years_place(sentence: str, passage: str) -> None:
    """A sentence repeated but for one name, known to a dictionary or not, or one year, is unsupported."""
    assert support(sentence, [passage]) == "unsupported"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        (
            "Full-time staff get well-known benefits and/or leave.",
            "Staff who work full time get benefits and leave that are well known.",
        ),
        ("On 6 October 1973, Syria launched an attack.", "On October 6, 1973, Syria launched an attack."),
        ("年假须由部门经理审核。", "年假须由部门经理批准。"),
    ],
)
def test_another_wording_is_no_false_alarm(sentence: str, passage: str) -> None:
    """A hyphen, another order of a date or a synonym does not make a true sentence unsupported."""
    assert support(sentence, [passage]) != "unsupported"


def test_no_passage_nothing_to_compare() -> None:
    """Without a passage there is no verdict."""
    assert support("年休假 5 天。", []) == "unchecked"


def test_ground_takes_marks_after_the_full_stop() -> None:
    """A mark behind the full stop belongs to the sentence before it, and each sentence to its own passages."""
    judged = ground(
        "Requests are approved by Maria Chen. [2] You get 9 days [1].", [passage(LEAVE), passage(HANDBOOK, 2)]
    )
    assert [(sentence.citations, sentence.support) for sentence in judged] == [
        ((2,), "supported"),
        ((1,), "unsupported"),
    ]


def test_a_sentence_without_a_mark_is_weak_at_best() -> None:
    """True but uncited is weak, a wrong number is unsupported all the same, and an introduction is unchecked."""
    judged = ground(
        "As for leave: here is the rule. You may bring pets. You get 9 days.", [passage(HANDBOOK)]
    )
    assert [sentence.support for sentence in judged] == ["unchecked", "weak", "unsupported"]


# --- audiences --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("audiences", "readers"),
    [
        ([], ()),
        ([["everyone"]], ("everyone",)),
        ([["everyone"], ["slack:C1"]], ("slack:C1",)),
        ([["slack:C1", "web:ada"], ["web:ada"]], ("web:ada",)),
        ([["slack:C1"], ["slack:C2"]], ()),
        ([["everyone", "slack:C1"], ["everyone"]], ("everyone", "slack:C1")),
    ],
)
def test_audiences(audiences: list[list[str]], readers: tuple[str, ...]) -> None:
    """Who may read all sources may read the draft; "everyone" narrows nothing."""
    assert intersect_audiences(audiences) == readers


PRINCIPALS = st.sets(st.sampled_from(["everyone", "slack:C1", "web:ada", "web:bob"]), min_size=1)


@given(st.lists(PRINCIPALS, min_size=1, max_size=4))
def test_no_reader_is_gained(audiences: list[set[str]]) -> None:
    """Every reader of the intersection may read every source, and nobody who may is left out."""
    readers = intersect_audiences(audiences)
    for who in ("slack:C1", "web:ada", "web:bob"):
        allowed = all(who in audience or "everyone" in audience for audience in audiences)
        assert (who in readers or "everyone" in readers) is allowed


# --- neutralising -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (
            "<!channel> and <@U12|bob> of <!subteam^S1|@team> in <#C1|general>",
            "channel and bob of team in general",
        ),
        ('<at user_id="all">所有人</at>', "所有人"),
        ("@channel @here ＠all @所有人 @ everyone", "channel here all 所有人 everyone"),
        ("@chan\u200bnel", "channel"),
        ("&lt;!channel&gt; &#64;here", "channel here"),
        ("[click](https://evil.example/x?d=secret)", "click"),
        ("as stated [1](https://evil.example) and [2](附件二)", "as stated [1] and [2] (附件二)"),
        ("<https://evil.example/x|label>", "label"),
        ("![chart](https://evil.example/p.png)", "chart"),
        ("[![chart](a.png)](https://evil.example)", "chart"),
        ("见 https://wiki.corp/leave。", "见 `wiki.corp/leave`。"),
        ("mail hr@corp.com.", "mail `hr@corp.com`."),
        ("[x]: https://evil.example\n[x]", "[x] : `evil.example`\n[x]"),
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("a < b, 3.2 and Node.js [1]", "a < b, 3.2 and Node.js [1]"),
        ("| `a | [x](http://evil.example)` |", "| a | x |"),
        ("```\nif a<b: print('@here')\n```", "```\nif a<b: print('here')\n```"),
        ("第一项<br>第二项", "第一项 第二项"),
    ],
)
def test_neutralised(text: str, safe: str) -> None:
    """Words stay, and whatever would ping, link, load or mark up is gone."""
    assert neutralise(text) == safe


@pytest.mark.parametrize(
    "text",
    [
        "员工**累计**工作满 1 年的，年休假 5 天 [1][2]。",
        "| 工龄 | 天数 |\n| --- | --- |\n| 1–10 年 | 5 天 |\n\n[1]",
        "> 第 3.2 条 付款期限为 30 天。[1]\n\n- a\n- b & c\n\n1. *x*",
        "Use `pip install <name>` and call user_id, C++ or ISO-9001.",
        "```python\nx = [f(y) for y in z]\n```",
        "5 > 3, a@b is no address; e.g. this.",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    """Formatting, tables, quotations, code and citation marks come through unchanged."""
    assert neutralise(text) == text


FRAGMENTS = (
    "` `` ``` ~~~ - > | [ ] ( ) ]( < > @ ! : \\ * _ ~ # \" ' ? & ; = a b 中文 all here channel 1 [1] <b> </b> "
    "<!channel> <@U1> <#C1> <!-- --> <at </at> [x](http://evil.com) [x](u) ![i](p) [x]: [x] http:// "
    "https://evil.com/ evil.com mailto:a@b.c <http://e.com> <http://e.com|x> &lt; &#64; &amp; &#60; lt; #64; "
    "<script> <![CDATA[ javascript:x"
)
SPACES = (" ", "    ", "\n", "\n\n", "\t", "\r", "\u200b", "\u2028", "| a | b |\n|---|---|\n")
ATTACKS = st.lists(st.sampled_from([*FRAGMENTS.split(), *SPACES]), max_size=25)
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
PING = re.compile(
    r"<!(?:channel|here|everyone|subteam)|<[@#][A-Z0-9]|<\s*at\b"
    r"|@(?:all|channel|here|everyone)(?![a-z])(?![A-Za-z0-9-]*\.[a-z])",
    re.IGNORECASE,
)


def inner(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from inner(token.children or ())


@given(ATTACKS)
@example(["~~~", " ", "| a | b |\n|---|---|\n", "[x](http://evil.com)"])
@example(["<", "```", "@", "a", ">", "```"])
@example(["\\", "http://e.com", "`", "<b>", "`"])
@example(["- ", "~~~", "\n", "[x](u)", "\n", "~~~", "\n", "[x](u)"])
def test_no_attack_survives(pieces: list[str]) -> None:
    """Whatever is put together, a Markdown parser with HTML on finds no link, image or tag, and nobody is pinged."""
    safe = neutralise("".join(pieces))
    found = {token.type for token in inner(PARSER.parse(safe))}
    assert not found & {"link_open", "image", "html_inline", "html_block"}
    assert not PING.search(safe)
    assert neutralise(safe) == safe


@given(st.text(max_size=200))
def test_any_text_comes_out_stable(text: str) -> None:
    """Any text at all is neutralised, and once is enough."""
    assert neutralise(neutralise(text)) == neutralise(text)


@given(ATTACKS)
def test_segments_join_to_the_text(pieces: list[str]) -> None:
    """Cutting code from prose loses nothing."""
    text = "".join(pieces)
    assert "".join(piece for _, piece in segments(text)) == text


@pytest.mark.parametrize("piece", ["@", "[", "](", "<a", "`", "a.", "a-", "[a](b(", "&#38;", "![", "~", "\\"])
def test_long_repetitions_take_no_time(piece: str) -> None:
    """Repetition does not blow up: 20,000 characters of it are done within the time-out of a second."""
    started = datetime.now(UTC)
    neutralise(piece * (20_000 // len(piece)))
    assert (datetime.now(UTC) - started).total_seconds() < 1
