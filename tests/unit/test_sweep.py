"""What chunks show of an answer: places, coverage, scores, and the picture of a sweep."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_graph.evaluation.chunking import bars, plot
from store.ingest.split import SplitSettings
from store.ingest.sweep import Excerpt, Piece, first_hit, pieces, score

TEXT = "# Leave\n\nTen days a year. Twelve after five years.\n\n## Sick\n\nA note after three days, from a doctor.\n"


def piece(*spans: tuple[int, int], document: str = "a") -> Piece:
    return Piece(document, "", spans)


@given(size=st.integers(20, 120), overlap=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_a_piece_shows_the_characters_it_says(size: int, overlap: int) -> None:
    """Whatever the size, a piece's spans are its text in the document, repetition included, and all letters are
    in some piece."""
    text = TEXT * 3 + "| a | b |\n|---|---|\n" + "| one | two |\n" * 12
    found = pieces("a", "", text, SplitSettings(size, overlap))
    for one in found:
        for start, end in one.spans:
            assert text[start:end].strip() in one.text
    shown = {at for one in found for start, end in one.spans for at in range(start, end)}
    hidden = {text[at] for at in range(len(text)) if at not in shown}
    assert not any(character.isalnum() for character in hidden - set("#LeavSick |-\n"))


def test_places_count_page_anchors() -> None:
    """Offsets are those of the text as it is given, anchors included."""
    text = "<!-- page 1 -->\n\nTen days.\n\n<!-- page 2 -->\n\nTwelve days.\n"
    (one,) = pieces("a", "", text, SplitSettings(400, 0))
    ((start, end),) = one.spans
    assert text[start:end].endswith("Twelve days.")
    assert text[start:].lstrip().startswith("Ten days.")


def test_scores_are_of_characters() -> None:
    """Recall counts what is shown once, IoU and precision everything that was retrieved."""
    wanted = [Excerpt("a", 100, 200)]
    half = score(wanted, [piece((150, 250)), piece((140, 200), document="b")])
    assert (half.recall, half.precision) == (0.5, 50 / 160)
    assert half.iou == 50 / (160 + 50)
    assert score(wanted, [piece((100, 150)), piece((120, 200))]).recall == 1.0
    assert score(wanted, [piece((0, 100)), piece((200, 300))]).recall == 0.0


def test_a_hit_shows_one_whole_excerpt() -> None:
    """An answer cut in two is no hit, whatever both halves show together."""
    wanted = [Excerpt("a", 0, 100)]
    assert first_hit(wanted, [piece((0, 60)), piece((60, 100))]) is None
    assert first_hit(wanted, [piece((0, 60)), piece((0, 95))]) == 2
    assert first_hit(wanted, [piece((0, 100), document="b")]) is None


def test_the_picture_has_a_line_for_each_overlap() -> None:
    """Settings become points, sets and overlaps lines; names are text, not markup."""
    rows = [
        {
            "set": f"a<b {size}/{overlap}",
            "metrics": {"hit@5": size / 1000},
            "details": {"size": size, "overlap": overlap},
        }
        for size in (200, 400)
        for overlap in (0, size // 5)
    ]
    drawn = plot(rows)
    assert drawn.count("<polyline") == 2
    assert "a&lt;b, overlap 20 %" in drawn
    assert bars(rows)[0].split() == ["a<b", "200/0", "████████", "0.20", "hit@5"]
