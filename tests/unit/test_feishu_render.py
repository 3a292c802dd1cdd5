"""What an answer becomes in Feishu: whole, harmless, and within every limit."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.feishu import cards, render
from bot.feishu.markdown import HAIR, JOINER, content, pages, parser, units
from bot.messages import Reply
from bot.telling import Setting
from bot.words import Words
from tests.emulators.feishu import seen
from tests.emulators.feishu.limits import bytes_of, check_card, links, pings, walk
from tests.unit.test_slack_render import DOCUMENT, subsequence

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WORDS = Words()
# Beside what breaks Slack's renderer, what Feishu's clients parse.
OWN = st.lists(
    st.sampled_from(
        [
            "<at id=all></at>", "<at user_id='ou_1'>x</at>", "< at id=all>", "<person id='ou_1'></person>",
            "<link icon='x' url='https://evil.example'></link>", "<font color='red'>r</font>", ":DONE:", ":a:b:",
            "$$x^2$$", "<a href='https://evil.example'></a>", "![](img_v3)", "# no", "#", "1. x", "- y", "+ z", "```",
            "~~~", "a&#60;b", "&lt;at id=all&gt;", "lark://client", "x@evil.example", "<text_tag>t</text_tag>",
            "\u200b",
        ]
    ),
    max_size=8,
).map(" ".join)  # fmt: skip
EITHER = st.tuples(OWN, DOCUMENT).map("\n\n".join)


CONSOLE = "https://signoff.corp.example"
# As a link, and as the beginning of the bare address in it.
RUN = [f"[运行记录 q1]({CONSOLE}/console/runs/q1)", "https://s"]


def setting(**more: Any) -> Setting:
    return Setting(words=WORDS, now=NOW, **more)


def citation(number: int, title: str = "Leave", **more: Any) -> dict[str, Any]:
    return {
        "number": number, "passage_id": 10 + number, "document_id": 1, "version": 1, "title": title,
        "heading_path": ["Annual leave"], "page": 3, "source": "leave.md",
        "updated_at": (NOW - timedelta(days=40)).isoformat(), "content_hash": "h", **more,
    }  # fmt: skip


def letters(text: str) -> str:
    """What must not be lost: everything but white space, bullets of ours and marks that became styles."""
    return "".join(c for c in text if not c.isspace() and c not in f"*•|{JOINER}{HAIR}")


def source_letters(text: str) -> str:
    found = []
    for token in parser().parse(text):
        found += [child.content for child in token.children or []] or [token.content]
    return letters("".join(found))


def valid(card: dict[str, Any]) -> list[str]:
    """Checks everything but where it leads, which it returns."""
    check_card(card)
    assert bytes_of(card) <= 30_000
    assert pings(card) == []
    return links(card)


def check(text: str) -> None:
    """The whole property, also for the bench."""
    cited = tuple(
        citation(n, title) for n, title in ((1, "<at id=all></at> 手册"), (2, "https://evil.example"))
    )
    reply = Reply("answer", text, "zh", cited, {"rewritten_question": "<person id='ou_1'> www.evil.example"})
    shown = render.cards(reply, setting(question_id="q1", private=True, share_to="oc_1"))
    assert [link for card in shown for link in valid(card)] == []
    traced = render.cards(reply, setting(question_id="q1", console=CONSOLE))
    assert [link for card in traced for link in valid(card)] == RUN
    body = "".join(seen.words("interactive", {"body": {"elements": page}}) for page in pages(units(text)))
    wanted, got = source_letters(text), letters(body)
    shown = sum(element["tag"] == "table" for page in pages(units(text)) for element in page)
    if shown == sum(unit.kind == "table" for unit in units(text)):
        assert subsequence(wanted, got) == ""
    else:  # a table as lines repeats its head before each cell: nothing is lost, the order is another
        assert Counter(wanted) - Counter(got) == Counter()
    streamed = render.stream_card(
        WORDS, "zh", ["retrieve"], "\n\n".join(content(u) for u in units(text))[:9_000], "q"
    )
    if not text.count("```"):  # a stream is cut at a sentence, never inside a fence
        assert pings(streamed) == []
    assert valid(cards.review_card(_card_of(text), setting())) == []
    assert valid(cards.review_card(_card_of(text), setting(console=CONSOLE))) == RUN


def _card_of(text: str) -> Reply:
    meta = {
        "review_id": 7, "question_id": "q1", "version_hash": "v", "state": "pending", "round": 1, "reason": "contracts",
        "asker": "feishu:ou_1",
        "conversation_id": "feishu:oc_1:om_1", "claimed_by": None, "opened_at": NOW.isoformat(), "confidence": 0.9,
        "calibrated": True, "visible": True, "question": text, "rewritten_question": text, "decision": {},
        "nearest": {"question": text, "answer": text, "signed_by": "feishu:ou_1"},
        "sentences": [{"text": text[:200], "support": "weak"}] * 6,
    }  # fmt: skip
    return Reply("card", text, "zh", tuple(citation(n, "t" * 90) for n in range(1, 25)), meta)


@settings(max_examples=250, deadline=None)
@given(EITHER)
def test_any_document_is_shown_whole_and_harmless(text: str) -> None:
    """Random Markdown makes cards that Feishu takes, loses no letter, pings nobody and links nowhere."""
    check(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**重点：**后文", f"**重点：**{HAIR}后文"),
        ("请看*这里*的说明", "请看*这里*的说明"),
        ("命令`ls -a`可用", "命令`ls -a`可用"),
        ("~~旧~~新", "~~旧~~新"),
        ("# 标题", "**标题**"),
        ("变量_名_称", "变量&#95;名&#95;称"),
        ("2 * 3", "2 &#42; 3"),
        ("<at id=all></at>", "&#60;at id=all&#62;&#60;/at&#62;"),
        ("1. one\n   - sub\n2. two", "1. one\n    - sub\n2. two"),
        ("[1] :DONE:", "&#91;1&#93; &#58;DONE:"),
    ],
)
def test_card_markdown_to_the_letter(text: str, shown: str) -> None:
    """Styles hold beside Chinese; what is no mark of ours is an entity."""
    assert "\n".join(content(unit) for unit in units(text)) == shown


def test_a_fourth_table_becomes_lines() -> None:
    """Cards with more tables are refused (230099, 11310): further ones are lists, on the same card."""
    table = "| a | b |\n|---|---:|\n| 1 | 2 |"
    (shown,) = render.cards(Reply("answer", "\n\n".join([table] * 5), "en"), setting())
    assert sum(e["tag"] == "table" for e in walk(shown)) == 3
    text = seen.words("interactive", shown)
    assert text.count("a: 1 · b: 2") == 2


def test_a_long_answer_continues_and_says_so() -> None:
    """Every word is in one of the cards, each under 30 KB with its JSON escapes counted."""
    words = [f"字{number}" for number in range(12_000)]
    shown = render.cards(Reply("answer", " ".join(words), "zh"), setting(question_id="q"))
    text = "".join(seen.words("interactive", card) for card in shown)
    assert len(shown) > 2
    assert all(word in text for word in words)
    assert "续（2/" in text.replace(" ", "") or "2" in seen.words("interactive", shown[1])[:20]


def test_quotes_count_as_they_travel() -> None:
    """A card is JSON in a JSON string: each quotation mark takes four bytes, each Chinese letter three."""
    for text in ('"' * 20_000, "\\" * 20_000, "签" * 20_000, "\n\n".join(['| a |\n|---|\n| "x" |'] * 3)):
        for card in render.cards(Reply("answer", text, "zh"), setting()):
            assert bytes_of(card) <= 30_000


def test_forms_hold_what_inputs_hold() -> None:
    """A draft is cut at a thousand letters into inputs, and comes back the same when they are joined."""
    text = "".join(f"{number}," for number in range(900))
    card = cards.edit_form(text, {"review": 1, "version": "v"}, setting(), "en")
    check_card(card)
    fields = seen.fields(seen.form(card) or {})
    assert "".join(field["default_value"] for field in fields.values()) == text
    for made in (
        cards.reject_form({"review": 1}, setting(), "zh"),
        cards.feedback_form("q", setting(), "en"),
    ):
        check_card(made)


def test_a_card_that_is_over_has_no_button() -> None:
    """Decided, or replaced by a newer card: nothing on it can be clicked but its passages."""
    reply = _card_of("draft")
    for change in ({"state": "approved", "decided_by": "feishu:ou_1"}, {"moved": True}):
        card = cards.review_card(Reply("card", "draft", "en", (), {**reply.meta, **change}), setting())
        assert {seen.name_of(b) for b in seen.buttons(card)} == set()
