"""What reviewers decided, as a test."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bot.exporting import Case, case
from store.reviews import ReviewRow

AT = datetime(2026, 11, 30, 9, tzinfo=UTC)
CITED = [
    {"number": 1, "content_hash": "h1", "document_id": 7},
    {"number": 2, "content_hash": "h2", "document_id": 8},
]


def review(state: str, text: str = "Thirty days [1]. Ask HR [2].", **decision: Any) -> ReviewRow:
    return ReviewRow(
        id=1, question_id="q1", interrupt_id="i", round=1, state=state, version_hash="v", reason="hr",
        draft={"text": text, "citations": CITED}, audience=("everyone",), claimed_by=None, decided_by="web:reviewer",
        decision=decision, resumed=True, opened_at=AT, claimed_at=None, decided_at=AT,
    )  # fmt: skip


def made(*rounds: ReviewRow) -> Case:
    found = case(1, "How long is it?", "en", rounds)
    assert found is not None
    return found


def test_an_approved_answer_is_gold() -> None:
    """The whole text and each sentence, without marks; what it cites is relevant."""
    found = made(review("approved"))
    assert found.kind == "approved"
    assert found.answer == ("Thirty days. Ask HR.", "Thirty days.", "Ask HR.")
    assert found.good == {"h1", "h2"}
    assert not found.bad
    assert not found.rejected


def test_an_edited_answer_is_gold_in_the_editors_words() -> None:
    """Only what the edited text still cites is relevant."""
    found = made(replace(review("edited"), decision={"text": "Twenty days [1]."}))
    assert found.answer == ("Twenty days.",)
    assert found.good == {"h1"}


def test_a_rejected_draft_is_what_must_not_be_said() -> None:
    """With its reason, and what only it cites graded 0."""
    found = made(review("rejected", reason="out_of_date"))
    assert (found.kind, found.answer) == ("rejected", ())
    assert (found.rejected, found.reasons) == (("Thirty days. Ask HR.",), ("out_of_date",))
    assert found.bad == {"h1", "h2"}


def test_what_should_not_be_answered_is_unanswerable() -> None:
    """Then silence is right."""
    assert made(review("rejected", reason="should_not_answer")).kind == "unanswerable"


def test_a_second_draft_that_was_signed_settles_it() -> None:
    """The first one stays as what must not be said again."""
    found = made(
        review("rejected", text="Ten days [2].", reason="incomplete"), review("approved", text="Thirty [1].")
    )
    assert (found.kind, found.answer, found.rejected) == ("approved", ("Thirty.",), ("Ten days.",))
    assert found.good == {"h1"}
    assert found.bad == {"h2"}


def test_what_tells_nothing_is_left_out() -> None:
    """Words that were erased, or a time-out."""
    assert case(1, "", "en", [review("approved")]) is None
    assert case(1, "How long?", "en", [review("expired")]) is None
