"""What an answer becomes in Slack: whole, harmless, and within every limit."""

import html
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block

from bot.messages import Reply
from bot.slack import cards, render, views
from bot.slack.richtext import BUDGET, CONTROL, pages, parser, units
from bot.telling import Setting
from bot.words import Words
from tests.emulators.slack import seen
from tests.emulators.slack.limits import check_message, check_view, links, pings

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WORDS = Words()


CONSOLE = "https://signoff.corp.example"
RUN = f"<{CONSOLE}/console/runs/q1|运行记录 q1>"


def setting(**more: Any) -> Setting:
    return Setting(words=WORDS, now=NOW, **more)


def citation(number: int, title: str = "Leave", **more: Any) -> dict[str, Any]:
    return {
        "number": number, "passage_id": 10 + number, "document_id": 1, "version": 1, "title": title,
        "heading_path": ["Annual leave"], "page": 3, "source": "leave.md",
        "updated_at": (NOW - timedelta(days=40)).isoformat(), "content_hash": "h", **more,
    }  # fmt: skip


# --- random documents: the characters that renderers get wrong, and ordinary ones

WORD = st.sampled_from(
    [
        "年假", "**重点：**后文", "*强调*文字", "`代码`后", "_下划线_", "变量_名_称", "**a**b", "a*b*c", "2 * 3 * 4",
        "C++", "<!channel>", "<!here|here>", "<@U0ADA>", "<#C1|x>", "<!subteam^S1>", "@channel", "@everyone", "[1]",
        "[99]", "~~gone~~", "[click](https://evil.example/x)", "<https://evil.example>", "https://evil.example/?q=1",
        "www.evil.example", "&amp;", "mailto:a@b.example", "![i](https://evil.example/i.png)", "\\*escaped\\*",
        "``a ` b``", "<b>html</b>", '"quoted"', "\\", "|", "",
    ]
)  # fmt: skip
LETTERS = st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=30)
LINE = st.lists(st.one_of(WORD, LETTERS.map(lambda s: s.replace("\n", " "))), max_size=8).map(" ".join)
CELL = LINE.map(lambda line: line.replace("|", ""))
TABLE = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=6).map(
        lambda rows: "\n".join(
            ["|" + "h|" * width, "|" + "---|" * width, *(f"|{'|'.join(row)}|" for row in rows)]
        )
    )
)
ITEM = st.tuples(st.integers(0, 5), st.sampled_from(["- ", "1. ", "* "]), LINE).map(
    lambda t: "  " * t[0] + t[1] + t[2]
)
PART = st.one_of(
    LINE,
    LINE.map(lambda line: f"## {line}"),
    LINE.map(lambda line: f"> {line}\n> - {line}"),
    st.lists(ITEM, min_size=1, max_size=8).map("\n".join),
    LINE.map(lambda line: f"```python\n{line}\n```"),
    LINE.map(lambda line: f"- item\n\n  ```\n  {line}\n  ```\n- next"),
    TABLE,
    st.just("---"),
    st.tuples(LINE, st.integers(1, 60)).map(lambda t: f"{t[0]} " * t[1]),
)
DOCUMENT = st.lists(PART, max_size=12).map("\n\n".join)


def letters(text: str) -> str:
    """What must not be lost: everything but white space, bullets of ours and marks that became bold."""
    return "".join(c for c in text if not c.isspace() and c not in "*•|").replace(render.JOINER, "")


def source_letters(text: str) -> str:
    found = []
    for token in parser().parse(text):
        found += [child.content for child in token.children or []] or [token.content]
    return letters("".join(found))


def valid(message: render.Message) -> list[str]:
    """Checks everything but where it leads, which it returns."""
    blocks = list(message.blocks)
    for block in blocks:
        parsed = Block.parse(block)
        assert parsed is not None
        parsed.to_dict()
    check_message(message.text, blocks)
    assert len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) + len(message.text) <= BUDGET
    assert pings(blocks, message.text) == []
    return links(blocks, message.text)


def check(text: str) -> None:
    """The whole property, also for the bench."""
    cited = tuple(
        citation(number, title) for number, title in ((1, "<!channel> 手册"), (2, "https://evil.example"))
    )
    reply = Reply("answer", text, "zh", cited, {"rewritten_question": "<@U1> www.evil.example"})
    shown = render.messages(reply, setting(question_id="q1", private=True, share_to="C0GEN"))
    assert [link for message in shown for link in valid(message)] == []
    traced = render.messages(reply, setting(question_id="q1", console=CONSOLE))
    assert [link for message in traced for link in valid(message)] == [RUN]
    found = pages(units(text))
    rich = "".join(seen.words({"blocks": page}) for page in found)
    # Bullets and numbers of lists that stand in a quote are ours, so that the source is a subsequence.
    missing = subsequence(source_letters(text), letters(rich))
    assert missing == ""
    flat = html.unescape(render.markdown(text)).replace(render.JOINER, "").replace(render.HAIR, "")
    assert flat == CONTROL.sub("", text)


def check_card(text: str) -> None:
    """A draft as reviewers see it: the card in every state, the modal, the form; also for the bench."""
    cited = (citation(1, "<!channel> 手册"), citation(2, "https://evil.example"))
    sentences = [{"text": text[:400], "support": support} for support in ("supported", "weak", "unsupported")]
    meta: dict[str, Any] = {
        "review_id": 7, "question_id": "q1", "version_hash": "h" * 12, "round": 2,
        "reason": "<!here>", "asker": "slack:U1", "visible": True,
        "conversation_id": "slack:C1:1.0", "opened_at": NOW.isoformat(), "question": text, "calibrated": False,
        "rewritten_question": text, "sentences": sentences, "confidence": 0.5,
        "nearest": {"question": text, "answer": text, "signed_by": "slack:U2"},
    }  # fmt: skip
    decided = {"decided_by": "slack:U2", "decided_at": NOW.isoformat(), "decision": {"hint": text[:500]}}
    for state in ({"state": "pending"}, {"state": "rejected", **decided}):
        reply = Reply("card", text, "zh", cited, {**meta, **state})
        message = cards.card(reply, setting(console=CONSOLE), "https://signoff.slack.com/archives/C1/p1")
        found = links(list(message.blocks), message.text)
        assert sorted(found) == [RUN, "https://signoff.slack.com/archives/C1/p1"]
        assert links(list(cards.card(reply, setting()).blocks), "") == []
        assert pings(list(message.blocks), message.text) == []
        check_message(message.text, list(message.blocks))
        check_view(views.draft(reply, setting()))
    form = views.edit(text, "7:h", setting(), "zh")
    check_view(form)
    fields = [block["element"]["initial_value"] for block in form["blocks"]]
    assert subsequence(letters(text), letters("".join(fields))) == ""


def subsequence(wanted: str, got: str) -> str:
    """The rest of `wanted` from its first letter that `got` does not have in this order."""
    letters_of = iter(got)
    for position, letter in enumerate(wanted):
        if letter not in letters_of:
            return wanted[position:]
    return ""


@settings(max_examples=250, deadline=None)
@given(DOCUMENT)
def test_any_document_is_shown_whole_and_harmless(text: str) -> None:
    """Random Markdown is valid to Slack's own validators, loses no letter, pings nobody and links nowhere."""
    check(text)


@settings(max_examples=50, deadline=None)
@given(DOCUMENT)
def test_any_draft_fits_its_card_and_its_forms(text: str) -> None:
    """Random Markdown in a review card, its modal and its form is valid, pings nobody, links only to the thread, and
    the form holds all of it."""
    check_card(text)


@pytest.mark.parametrize(
    ("text", "style", "words"),
    [
        ("**重点：**后文", "bold", "重点："),
        ("请看*这里*的说明", "italic", "这里"),
        ("命令`ls -a`可用", "code", "ls -a"),
        ("~~旧~~新", "strike", "旧"),
        ("# 标题", "bold", "标题"),
    ],
)
def test_styles_beside_chinese_are_styles(text: str, style: str, words: str) -> None:
    """Bold, italic, code and strike-through hold without a space beside Chinese."""
    (unit,) = units(text)
    assert [leaf["text"] for leaf in unit["elements"] if leaf.get("style", {}).get(style)] == [words]


@pytest.mark.parametrize("text", ["变量_名_称", "2 * 3 * 4", "\\*\\*x\\*\\*", "`**x**`"])
def test_what_is_no_markup_stays_letters(text: str) -> None:
    """Underscores in a name, stars between numbers, escaped stars and stars in code are not bold or italic."""
    (unit,) = units(text)
    assert not any(leaf.get("style", {}).keys() & {"bold", "italic"} for leaf in unit["elements"])


def test_nested_lists_keep_their_depth() -> None:
    """A list in a list is indented, and numbering goes on after it."""
    first, inner, after = units("1. one\n   - sub\n2. two")
    assert (first["indent"], inner["indent"], after["offset"]) == (0, 1, 1)


def test_a_table_is_a_table_and_two_are_two_messages() -> None:
    """Slack shows one table a message, so that the second one continues in the thread."""
    table = "| a | b |\n|---|---:|\n| 1 | 2 |"
    shown = render.messages(Reply("answer", f"{table}\n\ntext\n\n{table}", "en"), setting(question_id="q"))
    assert [sum(block["type"] == "table" for block in message.blocks) for message in shown] == [1, 1]
    assert "Continued (2 of 2)" in shown[1].text


def test_a_long_answer_continues_and_says_so() -> None:
    """Forty thousand letters become several messages with a number each, and every word is in one of them."""
    words = [f"word{number}" for number in range(6_000)]
    shown = render.messages(Reply("answer", " ".join(words), "en"), setting(question_id="q"))
    text = "".join(seen.words({"blocks": list(message.blocks)}) for message in shown)
    assert len(shown) > 3
    assert all(word in text for word in words)
    assert f"Continued (3 of {len(shown)})" in shown[2].text


def test_a_heavily_styled_answer_is_one_markdown_block() -> None:
    """Where only the JSON around styles would need a second message, the markdown block is taken."""
    text = "**a** b " * 300
    (shown,) = render.messages(Reply("answer", text, "en"), setting())
    assert shown.blocks[0]["type"] == "markdown"


def test_the_notification_is_the_first_sentence() -> None:
    """A phone shows the first sentence without marks, not a heading of blocks."""
    reply = Reply("answer", "**Thirty days** a year [1]. More follows.", "en")
    assert render.messages(reply, setting())[0].text == "Thirty days a year ."


def test_sources_name_document_section_page_and_age() -> None:
    """The sources line lets a reader judge without a click, and each passage has a button."""
    reply = Reply("answer", "Thirty days [1].", "en", (citation(1),))
    (shown,) = render.messages(reply, setting(question_id="q1"))
    text = seen.words({"blocks": list(shown.blocks)})
    assert "[1] Leave › Annual leave · p. 3 · updated 40 days ago" in text.replace("1 months", "40 days")
    buttons = [e for _, e in seen.clickable({"blocks": list(shown.blocks)}) if e["type"] == "button"]
    assert (buttons[0]["action_id"], buttons[0]["value"]) == ("passage:1", "q1:11")


def test_only_a_private_answer_offers_to_be_shared() -> None:
    """In a channel everybody reads the answer already."""
    reply = Reply("answer", "Yes.", "en")
    (private,) = render.messages(reply, setting(question_id="q", private=True, share_to="C0GEN"))
    (public,) = render.messages(reply, setting(question_id="q"))
    assert "share" in [e.get("action_id") for _, e in seen.clickable({"blocks": list(private.blocks)})]
    assert "share" not in [e.get("action_id") for _, e in seen.clickable({"blocks": list(public.blocks)})]
