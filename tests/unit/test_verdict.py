"""Whose fault an answer is: each way in which a passage can be missing from it has a verdict and a remedy."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from bot.findings import Finding
from bot.verdict import Case, Hint, Ruling, reason, remedy
from bot.words import Words
from rag_graph.verdict import FAULTS, ORDER, Facts, Kind, Match, Verdict, judge
from store.conversations import ConversationRow, QuestionRow
from store.runs import RunRow

WORDS, NOW = Words(), datetime(2026, 12, 1, 9, tzinfo=UTC)
THERE = Match(7, "Leave", frozenset({1, 2}))
ABSENT = replace(THERE, passages=frozenset(), there=False)
FOUND = Facts(retrieved=(9, 2, 8), read=frozenset({9, 2}), cited=frozenset({9}))
ELSEWHERE = Facts(retrieved=(9, 8), read=frozenset({9}), cited=frozenset({9}))

CASES: list[tuple[str, Facts, Match, int]] = [
    ("cited", replace(FOUND, cited=frozenset({9, 2})), THERE, 2),
    (
        "cited",
        Facts(cited=frozenset({1}), searched=False),
        THERE,
        0,
    ),  # a signed answer, used again without a search
    ("unused", FOUND, THERE, 2),
    ("unused", replace(FOUND, cited=frozenset()), THERE, 2),  # the draft could not stand
    ("unread", replace(FOUND, read=frozenset({9})), THERE, 2),
    ("doubted", replace(FOUND, read=frozenset({2}), cited=frozenset(), doubted=True), THERE, 2),
    ("not_retrieved", ELSEWHERE, THERE, 0),
    ("not_retrieved", Facts(), THERE, 0),
    ("not_searched", Facts(searched=False), THERE, 0),
    ("not_readable", ELSEWHERE, replace(THERE, readable=False), 0),
    ("later", ELSEWHERE, replace(THERE, later=True), 0),
    ("later", ELSEWHERE, replace(THERE, later=True, readable=False), 0),
    ("unfinished", ELSEWHERE, replace(ABSENT, live=False, state="pending"), 0),
    ("unfinished", ELSEWHERE, replace(ABSENT, live=False, state="embedding"), 0),
    ("failed", ELSEWHERE, replace(ABSENT, live=False, state="failed", error="scanned"), 0),
    (
        "failed",
        ELSEWHERE,
        replace(ABSENT, state="failed", error="scanned"),
        0,
    ),  # an older version is still there
    ("not_in_it", ELSEWHERE, ABSENT, 0),
    ("not_in_it", ELSEWHERE, replace(THERE, there=False), 0),  # only the version before had it
    ("not_indexed", ELSEWHERE, replace(ABSENT, live=False, state="retired"), 0),
    # What was found then stays found, whatever became of the document since.
    ("unused", FOUND, replace(THERE, readable=False), 2),
    ("unused", FOUND, replace(THERE, there=False, live=False, state="failed"), 2),
]


@pytest.mark.parametrize(("kind", "facts", "match", "place"), CASES)
def test_each_way_to_miss_a_passage_is_told_apart(kind: Kind, facts: Facts, match: Match, place: int) -> None:
    """From the same facts the same verdict, with the place that the passage had."""
    assert judge(facts, [match]) == [Verdict(kind, match, place)]


def test_every_kind_is_reached() -> None:
    """The table above leaves none out."""
    assert {kind for kind, *_ in CASES} == set(get_args(Kind)) == set(FAULTS)


def test_nothing_like_it_is_not_indexed() -> None:
    """No document by that name, no passage with those words."""
    assert judge(FOUND, []) == [Verdict("not_indexed")]


def test_of_several_documents_the_one_that_got_furthest_counts() -> None:
    """Two are called alike: one was cited, the other cannot be read; both are said, the cited one first."""
    other = replace(THERE, document_id=8, passages=frozenset({5}), readable=False)
    found = judge(replace(FOUND, cited=frozenset({2})), [other, THERE])
    assert [verdict.kind for verdict in found] == ["cited", "not_readable"]
    assert [ORDER.index(verdict.kind) for verdict in found] == sorted(ORDER.index(v.kind) for v in found)


# --- in words


def case(**more: Any) -> Case:
    question = QuestionRow(
        "q", 1, "slack:C1:1.0", "slack:U1", "?", "en", "answered", {}, None, False, NOW, None, None
    )
    conversation = ConversationRow("slack:C1:1.0", "slack", "C1", "1.0", False, "", NOW, NOW)
    return Case(
        question, conversation, RunRow(question_id="q", outcome="answered", id=3, created_at=NOW, **more)
    )


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", ORDER)
def test_every_verdict_says_what_it_is_and_what_mends_it(kind: Kind, language: str) -> None:
    """A sentence and a remedy in the reader's language, with nothing left to fill in."""
    verdict = Verdict(
        kind, None if kind == "not_indexed" else replace(THERE, error="scanned", state="failed"), 2
    )
    ruling = Ruling((verdict,))
    at = case(retrieved=(9, 2), scores=({"id": 9, "read": True},), confidence=0.31)
    said, mends = reason(WORDS, language, at, ruling, verdict), remedy(WORDS, language, at, ruling, verdict)
    assert said
    assert mends
    assert said != mends
    assert "{" not in said + mends
    assert WORDS(language, f"verdict.fault.{verdict.fault}")


def test_a_failed_upload_says_why_and_a_near_miss_how_near() -> None:
    """The reasons of ingestion are the ones that the documents page gives; a passage just beyond the ten is not looked
    for with a dictionary."""
    failed = Verdict("failed", replace(ABSENT, live=False, state="failed", error="scanned"))
    unknown = Verdict("failed", replace(ABSENT, live=False, state="failed", error="no such code"))
    missed = Verdict("not_retrieved", THERE)
    assert "scanned pictures" in reason(WORDS, "en", case(), Ruling((failed,)), failed)
    assert "OCR" in remedy(WORDS, "en", case(), Ruling((failed,)), failed)
    assert "fault is ours" in reason(WORDS, "en", case(), Ruling((unknown,)), unknown)
    assert "candidates" in remedy(WORDS, "en", case(), Ruling((missed,), now=12), missed)
    assert "place 12" in remedy(WORDS, "en", case(), Ruling((missed,), now=12), missed)
    assert "dictionary" in remedy(
        WORDS, "en", case(), Ruling((missed,), checks=(Finding("x", True, "y"),)), missed
    )


def test_a_hint_of_blanks_is_none() -> None:
    """An empty form asks for the verdict that presumes."""
    assert not Hint(" ", "\t")
    assert Hint("", "x")
