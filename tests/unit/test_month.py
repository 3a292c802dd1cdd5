"""The simulated month: the same for everybody, and what it counts is what it says."""

from collections import Counter

import pytest

from bench.month import HELD, VARIANTS, Variant, questions, run
from bench.month_questions import TOPICS, facts, phrasings
from rag_graph.likeness import differs, wording
from rag_graph.ramp import Ramp

MONTH = questions(0.4, 8, 400)


def test_there_are_forty_topics_with_different_things_to_ask() -> None:
    """No two of them are asked in the same words, in either language."""
    every = [fact for topic in facts() for fact in topic]
    assert len(TOPICS) == len(HELD.rules) == 40
    assert len({fact.id for fact in every}) == len(every) == 40 * 112
    for language in ("zh", "en"):
        assert len({fact.said(language) for fact in every}) == len(every)


def test_a_seed_is_a_month() -> None:
    """The same questions in the same order, about as many repeats as asked for, in the order of their moments."""
    assert questions(0.4, 8, 400) == MONTH
    assert questions(0.4, 9, 400) != MONTH
    repeats = Counter(asked.how != "first" for asked in MONTH)[True]
    assert 130 <= repeats <= 190
    assert [asked.at for asked in MONTH] == sorted(asked.at for asked in MONTH)
    assert len({asked.fact.id for asked in MONTH if asked.how == "first"}) == len(MONTH) - repeats


def test_within_one_language_no_two_things_are_taken_for_one() -> None:
    """Near misses by construction: another attribute, another group of people, another number."""
    topic = facts()[0]
    for language in ("zh", "en"):
        said = [fact.said(language) for fact in topic]
        wrong = [
            (one, other) for at, one in enumerate(said) for other in said[:at] if not differs(one, other)
        ]
        assert wrong == []


def test_a_polite_frame_changes_nothing() -> None:
    """Each phrasing of one thing in one language has the wording of the plain one, three times in four; the others are
    found by their vectors or held once more."""
    topic = facts()[0]
    for language in ("zh", "en"):
        same = [
            wording(said) == wording(fact.said(language))
            for fact in topic
            for said in phrasings(fact, language)
        ]
        assert sum(same) / len(same) >= 0.75


@pytest.mark.parametrize("variant", VARIANTS, ids=[variant.name for variant in VARIANTS])
def test_everything_asked_is_accounted_for(variant: Variant) -> None:
    """Who waited was reviewed first; nobody waits less than no time; nothing wrong is given again."""
    told = run(MONTH, variant, 8)
    assert told.reviews == told.before + told.samples
    assert told.wrong == 0
    assert min(told.waits, default=0) >= 0
    if not variant.match:
        assert told.served == 0
    if not variant.ramp.after:
        assert (told.samples, told.late) == (0, 0)
        assert len(told.waits) + told.served == len(MONTH)


def test_less_is_reviewed_with_either_and_least_with_both() -> None:
    """Everything held is above a hundred: a rejected draft comes a second time."""
    counted = [
        run(MONTH, Variant("", ramp, match), 8).reviews
        for ramp in (Ramp(), Ramp(3, 10))
        for match in ("", "rule")
    ]
    held, signed, climbed, both = counted
    assert held > len(MONTH)
    assert both < min(signed, climbed) <= max(signed, climbed) < held
