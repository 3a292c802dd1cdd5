"""What the workspace makes of text that somebody else wrote."""

import html.parser
import itertools
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from bot.web.desk_views import changes
from bot.web.guard import from_us
from bot.web.pages import Block
from bot.web.render import Cite, around, excerpt, markdown
from bot.web.send import Broadcast, Live, message
from bot.web.site import DETAILS, SENTENCES
from bot.web.views import passage
from bot.web.visitor import preferred
from bot.words import Words
from rag_graph.contracts import Passage
from store.changes import LISTENING, Change

TAGS = {
    *("p", "h4", "h5", "h6", "strong", "em", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br"),
    *("table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}
ATTRIBUTES = {
    "a": {"class", "href", "hx-get", "hx-target", "hx-swap", "aria-label"},
    "span": {"class"},
    "ol": {"start"},
    "th": {"class"},
    "td": {"class"},
}
CITES = {1: Cite("/q/1/source/1", 'Source 1: "Leave" <b>'), 2: Cite("", "")}
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](https://evil.example/a.png)",
    "<https://evil.example>",
    '<a href="//evil.example" onclick=1>',
    "[1]: javascript:alert(1)\n\n[1]",
    "[1](https://evil.example)",
    "``` <script>\nx\n```",
    "| a |\n|:-:|\n| <b>x</b> [1] |",
    "&lt;script&gt; &#60;b&#62;",
    "\u202e[1] <!-- -->",
    "<svg/onload=alert(1)> **<b>**",
    "# [1] <style>*{}</style>",
]


class Reading(html.parser.HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.other: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)


def markdownish() -> st.SearchStrategy[str]:
    pieces = st.one_of(
        st.sampled_from(
            [*HOSTILE, "\n", "\n\n", "- ", "> ", "| ", "**", "_", "`", "[", "](", ")", "<", ">", "&"]
        ),
        st.text(max_size=12),
        st.integers(0, 999).map(lambda n: f"[{n}]"),
    )
    return st.lists(pieces, max_size=14).map("".join)


@given(markdownish())
@settings(max_examples=400, deadline=None)
@example("".join(HOSTILE))
def test_only_our_own_tags_attributes_and_links_come_out(text: str) -> None:
    """Whatever Markdown comes in, the page gets no tag, attribute or address that is not ours."""
    seen = Reading(str(markdown(text, CITES)))
    assert not seen.other
    for tag, attributes in seen.tags:
        assert tag in TAGS
        assert set(attributes) <= ATTRIBUTES.get(tag, set())
        if tag == "a":
            assert attributes["href"] == attributes["hx-get"] == CITES[1].href
        if tag in ("th", "td") and attributes:
            assert attributes["class"] in ("align-left", "align-right", "align-center")


@given(st.text(alphabet="abcXYZéß你好年假《》，。？！：；…,;:?!'\"/()%$€ \n", max_size=80))
@settings(max_examples=200, deadline=None)
def test_words_are_kept(text: str) -> None:
    """Plain text comes out with every character that went in, white space aside."""
    assert "".join(Reading(str(markdown(text))).text.split()) == "".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    """No hostile line becomes an element that could act."""
    tags = {tag for tag, _ in Reading(str(markdown(text))).tags}
    assert not tags & {"script", "img", "a", "svg", "style", "iframe", "b"}


def test_a_mark_with_a_passage_is_a_link_and_one_without_stays_text() -> None:
    """[1] opens its passage; [7], which no citation has, is left as it stands."""
    out = str(markdown("Ten days [1], perhaps [7].", CITES))
    assert 'href="/q/1/source/1"' in out
    assert "[7]" in out
    assert out.count("<a ") == 1


def test_a_mark_inside_code_is_no_citation() -> None:
    """`list[1]` in code is code."""
    assert "<a " not in str(markdown("`list[1]`", CITES))


def test_bold_beside_chinese_punctuation_is_bold() -> None:
    """CommonMark would leave the stars; Chinese writes no space there."""
    assert str(markdown("**重点：**后文")) == "<p><strong>重点：</strong>后文</p>\n"


def test_headings_stay_below_those_of_the_page() -> None:
    """A document's "# Title" does not become the page's first heading."""
    assert str(markdown("# Title")) == "<h4>Title</h4>\n"


def test_alignment_needs_no_inline_style() -> None:
    """The pages' policy refuses style attributes."""
    out = str(markdown("| a |\n|--:|\n| 1 |"))
    assert 'class="align-right"' in out
    assert "style" not in out


@given(st.lists(st.text("abc \n", min_size=1, max_size=40), min_size=1, max_size=6), st.data())
@settings(max_examples=200, deadline=None)
def test_the_cited_chunk_is_never_shortened(texts: list[str], data: st.DataObject) -> None:
    """Neighbours lose what the cited passage repeats; the cited one keeps every character."""
    focus = data.draw(st.integers(0, len(texts) - 1))
    cut = around(texts, focus)
    assert cut[focus] == texts[focus]
    assert all(short in whole for short, whole in zip(cut, texts, strict=True))


def test_neighbours_do_not_repeat_the_overlap() -> None:
    """Two chunks that share a sentence read as one text."""
    shared = "It is valid until March."
    assert around([f"A. {shared}", f"{shared} B."], 0) == [f"A. {shared}", " B."]
    assert around([f"A. {shared}", f"{shared} B."], 1) == ["A. ", f"{shared} B."]


@given(st.text(max_size=80), st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_an_edit_can_be_read_back_from_its_changes(before: str, after: str) -> None:
    """What was kept and taken out is the old text; what was kept and put in is the new one."""
    found = changes(before, after)
    assert "".join(piece.text for piece in found if piece.kind != "new") == before
    assert "".join(piece.text for piece in found if piece.kind != "gone") == after


def test_a_cut_excerpt_says_so() -> None:
    """A shortened title ends with an ellipsis."""
    assert excerpt("one\ntwo", 20) == "one two"
    assert excerpt("x" * 50, 10) == "x" * 9 + "…"


def _chunk(passage_id: int, text: str) -> Passage:
    return Passage(
        *(passage_id, 1, 1, 1, "hr", "Leave", "leave.md", ("Leave",), None, text, "h", "en"),
        audience=frozenset({"everyone"}),
        labels=frozenset(),
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


CITATION = {
    "number": 1,
    "passage_id": 8,
    "title": "Leave",
    "heading_path": ["Leave"],
    "version": 1,
    "page": None,
    "source": "leave.md",
    "updated_at": "2026-01-01T00:00:00+00:00",
}


def test_the_cited_passage_is_the_highlighted_one() -> None:
    """Of a section's chunks exactly the cited one is in focus."""
    view = passage(CITATION, [_chunk(7, "before"), _chunk(8, "exact"), _chunk(9, "after")])
    assert ["exact" in piece.html for piece in view.pieces if piece.focus] == [True]


def test_a_passage_that_cannot_be_read_is_refused_with_its_reason() -> None:
    """Without readable chunks there is a sentence, and no text."""
    view = passage(CITATION, [])
    assert view.refused == "unavailable"
    assert view.pieces == ()


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("fr, zh-TW;q=0.4, en;q=0.3", "zh"),
        ("zh;q=0, en;q=0.1", "en"),
        ("zh;q=nonsense", "en"),
        ("", "en"),
    ],
)
def test_the_browser_says_which_language(header: str, language: str) -> None:
    """The heaviest of our languages in Accept-Language wins, English without one."""
    assert preferred(header) == language


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8787", "host": "127.0.0.1:8787"}, True),
        ({"origin": "http://evil.example", "host": "127.0.0.1:8787"}, False),
        ({"origin": "http://127.0.0.1:9999", "host": "127.0.0.1:8787"}, False),
        ({"origin": "null", "host": "127.0.0.1:8787"}, False),
        ({"sec-fetch-site": "cross-site", "host": "x"}, False),
        ({"sec-fetch-site": "same-site", "host": "x"}, False),
        ({"sec-fetch-site": "same-origin", "host": "x"}, True),
    ],
)
def test_requests_from_other_sites_are_recognised(headers: dict[str, str], ours: bool) -> None:
    """Origin and Sec-Fetch-Site tell a foreign form from ours."""
    assert from_us(Headers(headers)) is ours


def test_a_block_keeps_its_fingerprint_as_long_as_its_html() -> None:
    """The same HTML is not sent twice, other HTML is."""
    prints = [Block("q", markdown(text)).fingerprint for text in ("a", "a", "b")]
    assert prints[0] == prints[1] != prints[2]


def test_sentences_of_an_earlier_attempt_are_dropped() -> None:
    """A job that starts again, or a draft that is made anew, begins with an empty answer."""
    live = Live("q").then("draft", "").then("sentence", "One.").then("sentence", "Two.")
    assert live.sentences == ("One.", "Two.")
    assert live.then("publish", "").sentences == ("One.", "Two.")
    assert live.then("lookup_verified", "").sentences == ()
    assert live.then("retrieve", "annual leave").searched == "annual leave"


def test_a_server_sent_event_keeps_its_lines_apart() -> None:
    """A line break in the data cannot end the event or begin another."""
    assert message("step", "a\n\nevent: x") == "event: step\ndata: a\ndata: \ndata: event: x\n\n"
    assert message("changed") == "event: changed\ndata:\n\n"


async def test_a_page_hears_of_its_own_conversation_only() -> None:
    """Topics are matched whole, or by a prefix that ends in a colon."""
    broadcast = Broadcast(None)  # type: ignore[arg-type] # nothing is listened to here
    with (
        broadcast.subscribe(["conversation:web:hr:1"]) as own,
        broadcast.subscribe(["conversation:web:hr:"]) as channel,
        broadcast.subscribe(["conversation:web:legal:"]) as other,
    ):
        broadcast.take(Change("conversation:web:hr:1", {"question": "q", "step": "draft", "text": ""}))
        assert await own.take(1) == ((Live("q", "draft"),), False)
        assert (await channel.take(1))[0]
        assert await other.take(0.01) == ((), False)
        broadcast.take(Change("conversation:web:hr:10", {"delivery": 1}))
        assert await own.take(0.01) == ((), False)
        broadcast.take(Change(LISTENING, {}))
        assert [await page.take(1) for page in (own, other)] == [((), True)] * 2


async def test_a_slow_page_gets_the_latest_state_once() -> None:
    """However much happened while a page did not read, it is told once."""
    broadcast = Broadcast(None)  # type: ignore[arg-type] # nothing is listened to here
    with broadcast.subscribe(["conversation:c"]) as page:
        for number, _ in itertools.product(range(50), range(2)):
            broadcast.take(
                Change("conversation:c", {"question": "q", "step": "sentence", "text": f"{number}."})
            )
            broadcast.take(Change("conversation:c", {"delivery": number}))
        live, changed = await page.take(1)
    assert changed
    assert [len(answer.sentences) for answer in live] == [100]


WEB = Path(str(files("bot.web")))
SAID = re.compile(
    r"""\bt\(\s*f?["']([a-z_0-9.]+)["'.{]"""
    r"""|words\(\s*f?["']web\.([a-z_0-9.]+)["'{]"""
    r'|"((?:error|feedback|ask)\.[a-z_]+(?<!html))"'
)


def test_every_sentence_a_page_asks_for_exists_and_none_is_left_over() -> None:
    """Keys in templates and handlers are in the words files, and no key there has lost its page."""
    sources = [
        path.read_text(encoding="utf-8") for path in (*WEB.glob("*.py"), *WEB.glob("templates/*.html"))
    ]
    asked = {next(filter(None, found)) for source in sources for found in SAID.findall(source)}
    asked |= {f"error.{key}" for key in (*DETAILS, *SENTENCES.values(), "database")}
    known = {key.removeprefix("web.") for key in Words().keys("en") if key.startswith("web.")}
    whole = {key for key in asked if not key.endswith((".", "_"))}
    begun = tuple(key for key in asked if key.endswith((".", "_")))
    assert {
        key for key in whole if key not in known and not any(k.startswith(f"{key}.") for k in known)
    } == set()
    assert {key for key in known if key not in whole and not key.startswith(begun)} == set()
