"""What two texts do not have in common, and which chunk took another's place."""

from dataclasses import dataclass

from bot.differences import differences, lines
from store.counterparts import counterpart


@dataclass(frozen=True)
class Chunk:
    heading_path: tuple[str, ...]
    text: str


def test_differences_are_sentences() -> None:
    """What stayed, what went and what came, in reading order."""
    found = differences("付款期限为 45 日。逾期加收利息。", "付款期限为 30 日。逾期加收利息。")
    assert found == [
        ["gone", "付款期限为 45 日。"],
        ["new", "付款期限为 30 日。"],
        ["same", "逾期加收利息。"],
    ]


def test_lines_show_what_changed_alone() -> None:
    """A line for each changed sentence, cut where there is no room, nothing where nothing changed."""
    found = differences("One. Two.", "One. Three.")
    assert lines(found, 100) == "− Two.\n+ Three."
    assert lines(found, 8) == "− Two.\n…"
    assert lines(differences("One.", "One."), 100) == ""


def test_the_counterpart_stands_under_the_same_heading() -> None:
    """Under its heading the most alike; else the most alike anywhere; nothing where nothing is alike."""
    now = [Chunk(("Pay",), "Payment within 30 days."), Chunk(("Law",), "Payment within 45 days, by law.")]
    assert counterpart(("Pay",), "Payment within 45 days.", now) is now[0]
    assert counterpart(("Gone",), "Payment within 45 days, by law", now) is now[1]
    assert counterpart(("Pay",), "完全不同", now) is None
    assert counterpart(("Pay",), "anything", []) is None
