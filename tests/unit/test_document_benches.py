"""The yardsticks of the document benchmarks: what counts as found, and recall at a peer's IoU."""

from bench.chunking import at_equal_iou, fixed
from bench.parse_docs import cells, share, words


def test_words_are_counted_without_marks() -> None:
    """Links, comments and rules of Markdown are no words; a Chinese character is one; each counts as often as it is
    there."""
    found = words("# The [page](https://e.org/x)\n\n<!-- image -->\n\n| a | b |\n|---|---|\n\n年假 the A")
    assert found == {"the": 2, "page": 1, "a": 2, "b": 1, "年": 1, "假": 1}
    assert share(found, words("the page, the the 年")) == (4, 8)


def test_cells_are_compared_by_their_words() -> None:
    """Width, emphasis and order of marks do not matter, empty cells and rules are none, and a bar may be escaped."""
    one = cells("| **City** | x\\|y |\n| - | - |\n| Paris |  |")
    other = cells("text | not a row\n|City|x y|\n|:--|--:|\n| paris. | |")
    assert one == other
    assert one.total() == 3


def test_recall_is_compared_at_the_peers_iou() -> None:
    """Between our two nearest sizes; beyond them our nearest stands for itself."""
    rows = [
        {"chunker": "ours 1", "iou": 0.02, "recall": 0.9},
        {"chunker": "ours 2", "iou": 0.04, "recall": 0.7},
        {"chunker": "peer", "iou": 0.03, "recall": 0.75},
        {"chunker": "wide", "iou": 0.01, "recall": 0.95},
    ]
    peer, wide = at_equal_iou(rows)
    assert (peer["ours"], peer["at"]) == (0.8, 0.03)
    assert (wide["ours"], wide["at"]) == (0.9, 0.02)


def test_a_peer_says_where_its_pieces_stand() -> None:
    """Each piece's span is its text, and the fixed ones overlap as they should."""
    text = (
        "One sentence here. Another one there.\n\nA paragraph of its own, a little longer than the first.\n"
        * 5
    )
    for piece in fixed(60, 20)("a", text):
        ((start, end),) = piece.spans
        assert text[start:end] == piece.text
    first, second = fixed(60, 20)("a", text)[:2]
    assert second.spans[0][0] == first.spans[0][1] - 20
