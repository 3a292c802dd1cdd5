"""Neighbouring chunks become one passage, and nothing is said twice or lost."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from store.joining import joined
from store.passages import Passage


def passage(ordinal: int, text: str, *, version: int = 1) -> Passage:
    return Passage(
        id=100 * version + ordinal, document_id=version, version_id=version, version=1, collection="c", title="t",
        source="s", heading_path=(), page=ordinal + 1, text=text, content_hash=f"h{version}-{ordinal}", language="en",
        audience=frozenset({"everyone"}), labels=frozenset(), updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        ordinal=ordinal,
    )  # fmt: skip


def test_neighbours_are_one_where_the_best_of_them_stood() -> None:
    """The better chunk gives its id, hash and place; the text is in document order, the overlap once."""
    found = joined([passage(5, "two. three."), passage(0, "far.", version=2), passage(4, "one. two.")], 1_000)
    assert [(one.id, one.text, one.parts) for one in found] == [
        (105, "one. two. three.", (104, 105)),
        (200, "far.", ()),
    ]
    assert (found[0].content_hash, found[0].page) == ("h1-5", 5)


def test_what_does_not_follow_stays_apart() -> None:
    """Another version, a gap, or no room: separate passages, and a link between two joins all three."""
    apart = [passage(1, "a"), passage(3, "b"), passage(2, "c", version=2)]
    assert joined(apart, 1_000) == apart
    assert joined([passage(1, "a" * 60), passage(2, "b" * 60)], 100) == [
        passage(1, "a" * 60),
        passage(2, "b" * 60),
    ]
    assert joined([passage(2, "b"), passage(1, "a"), passage(3, "c")], 1_000)[0].parts == (101, 102, 103)


@given(
    st.text(min_size=1, max_size=60), st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 8)
)
def test_a_cut_text_is_whole_again(text: str, sizes: Sequence[int], overlap: int) -> None:
    """Chunks cut with an overlap are joined to the text they were cut from, give or take what repeats itself."""
    start, chunks = 0, []
    for size in sizes:
        if start < len(text):
            chunks.append(text[max(0, start - overlap) : start + size])
            start += size
    whole = text[:start]
    found = joined([passage(n, chunk) for n, chunk in enumerate(chunks)], 10_000)
    assert len(found) == 1
    # A text that repeats itself may share more than was meant; it never gains, and keeps its beginning and end.
    assert len(found[0].text) <= len(whole) + len(chunks)
    assert found[0].text.startswith(chunks[0])
    assert found[0].text.endswith(chunks[-1])
