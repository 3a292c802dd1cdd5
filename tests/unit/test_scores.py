"""The fifty questions are judged by what was said, cited and refused."""

from dataclasses import replace
from pathlib import Path

from bench.question_set import Item
from bench.scores import Reply, halves, judge, summarise, tuned
from bench.tables import table, write_section

ITEM = Item(
    id="m99",
    text="How much, and until when?",
    kind="several",
    language="en",
    history=(),
    facts=(("12 days", "12 天"), ("31 March", "3 月 31 日")),
    sources=(("hr/leave.en.md", "hr/leave.zh.md"), ("hr/other.en.md",)),
    tags=(),
)
ABSENT = replace(ITEM, id="a99", kind="absent", facts=(), sources=(), missing="pets")
REPLY = Reply(
    found=("hr/leave.zh.md", "it/vpn.en.md"),
    window="12 天；有效期到 3 月 31 日",
    cited=("hr/leave.zh.md",),
    text="年假 12 天，3 月 31 日前休完。[1]",
    refused=False,
    ms=20.0,
    score=0.9,
)


def test_an_answer_is_right_when_it_states_every_fact() -> None:
    """One wording of each group is enough, in either language; a missing group is a wrong answer."""
    assert judge(ITEM, REPLY).right
    assert not judge(ITEM, replace(REPLY, text="年假 12 天。[1]")).right


def test_citations_are_judged_by_group() -> None:
    """One right document counts as cited; all needed ones only when every group is there."""
    judged = judge(ITEM, REPLY)
    assert (judged.first, judged.cited, judged.cited_all, judged.only_cited) == (True, True, False, True)
    both = judge(ITEM, replace(REPLY, cited=("hr/leave.en.md", "hr/other.en.md", "it/vpn.en.md")))
    assert (both.cited_all, both.only_cited) == (True, False)


def test_a_refusal_is_right_only_where_nothing_is_known() -> None:
    """Refusing what the handbook answers is wrong and cites nothing; answering what it does not is wrong."""
    refused = replace(REPLY, refused=True)
    assert judge(ABSENT, refused).right
    assert not judge(ABSENT, REPLY).right
    assert not judge(ITEM, refused).right
    assert not judge(ITEM, refused).cited


def test_measures_count_only_what_they_apply_to() -> None:
    """An absent question is no miss of the first hit, and a known one no missed refusal."""
    report = summarise([judge(ITEM, REPLY), judge(ABSENT, REPLY)], [10.0, 30.0])
    assert report["measures"]["first_hit"] == {"n": 1, "hits": 1, "share": 1.0}
    assert report["measures"]["right_refusal"] == {"n": 1, "hits": 0, "share": 0.0}
    assert report["measures"]["right"] == {"n": 2, "hits": 1, "share": 0.5}
    assert report["latency_ms"]["p50"] == 20.0


def test_a_threshold_separates_what_can_be_separated() -> None:
    """Tuning finds the cut that makes most right, and never refuses where refusing gains nothing."""
    known = [False, False, True, True]
    scores = [0.1, 0.2, 0.3, 0.4]
    assert 0.2 < tuned(scores, lambda place, refused: refused != known[place]) < 0.3
    assert tuned(scores, lambda place, refused: not refused) < 0.1


def test_halves_share_each_kind_evenly() -> None:
    """Every question is in exactly one half, and kinds alternate."""
    items = [replace(ITEM, kind=kind) for kind in ("single", "several", "absent") for _ in range(4)]
    tuning, held_out = halves(items)
    assert sorted(tuning + held_out) == list(range(12))
    assert tuning == [0, 2, 4, 6, 8, 10]


def test_a_section_is_replaced_in_place(tmp_path: Path) -> None:
    """Writing a section twice leaves one, and the text around it as it was."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nBefore.\n", encoding="utf-8")
    write_section(page, "x", table(["a", "b"], [["1", "2"]]))
    page.write_text(page.read_text(encoding="utf-8") + "\nAfter.\n", encoding="utf-8")
    write_section(page, "x", "new")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Page\n\nBefore.\n")
    assert text.endswith("\nAfter.\n")
    assert (text.count("new"), text.count("| a | b |")) == (1, 0)
