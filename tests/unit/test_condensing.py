"""What a model is asked to condense, and what is kept of its answer."""

from dataclasses import replace

from rag_graph.condensing import condensed, request, section
from rag_graph.context import Budget
from rag_graph.contracts import Material, Question
from tests.shelf import passage

QUESTION = Question("q1", "web:hr:1", "How many days of leave?", "en", "web:ada", ("everyone",))
FIRST = replace(passage(7, "Leave is 15 days. " * 40, document=1), ordinal=4)
BEFORE = replace(passage(8, "Ask your manager. " * 40, document=1), ordinal=3, version_id=FIRST.version_id)
ELSEWHERE = passage(9, "Parking is free.", title="Parking")
MATERIAL = Material((FIRST, ELSEWHERE, BEFORE))
BUDGET = Budget.for_window(2_600)


def test_the_section_is_what_stands_under_the_same_heading() -> None:
    """Passages of the best one's version and heading, as the document has them, by the numbers that the draft cites."""
    assert section(MATERIAL) == (3, 1)
    asked = request(QUESTION, MATERIAL, BUDGET)
    assert asked.index("[3]\nAsk your manager.") < asked.index("[1]\nLeave is 15 days.")
    assert "Parking" not in asked


def test_the_request_fits_the_window() -> None:
    """A section longer than the window is cut by sentences before it is sent, a sentence in its middle."""
    for endless in ("Leave is 15 days. " * 4_000, "Leave is " + "ever " * 9_000 + "15 days."):
        asked = request(QUESTION, Material((replace(FIRST, text=endless),)), BUDGET)
        assert BUDGET.cost(asked) <= BUDGET.input
        assert "15 days." in asked


def test_only_the_section_s_own_numbers_stay() -> None:
    """Marks that point elsewhere go; the summary stands for every passage of the section."""
    made = condensed("Leave is 15 days. [1] Parking is free. [2] Ask. [3]", MATERIAL, BUDGET)
    assert made is not None
    assert made.text == "Leave is 15 days. [1] Parking is free. Ask. [3]"
    assert made.numbers == (3, 1)


def test_a_summary_that_does_not_help_is_not_used() -> None:
    """Without a mark nothing could be cited, and one as long as the section saves nothing."""
    assert condensed("Leave is 15 days.", MATERIAL, BUDGET) is None
    assert condensed("Leave is 15 days. [1] " * 200, MATERIAL, BUDGET) is None
