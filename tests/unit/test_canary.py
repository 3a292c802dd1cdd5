"""Who gets a variant, when more may, and when it goes back: case by case, and computed exactly."""

from dataclasses import replace

import pytest

from bench.canary import USUAL, chance, joint, simulated
from rag_graph.canary import (
    GUARDRAILS,
    NOTHING,
    SHOWN,
    Count,
    Guardrail,
    Plan,
    changed,
    chosen,
    standing,
    takes_part,
    tripped,
    trips,
    upper,
    usual,
)

RAILS = {rail.name: rail for rail in GUARDRAILS}
ERROR, UNKNOWN = RAILS["error"], RAILS["unknown"]
CONVERSATIONS = [f"slack:C1:{number}" for number in range(4_000)]


# --- who gets it


def test_who_is_in_stays_in() -> None:
    """The same conversations every time; who is in at 5 % is in at 20 %, and at 100 % everybody."""
    at = {percent: {c for c in CONVERSATIONS if chosen(7, c, percent)} for percent in (5, 20, 100)}
    assert at[5] < at[20] < at[100] == set(CONVERSATIONS)
    assert at[5] == {c for c in CONVERSATIONS if chosen(7, c, 5)}
    assert 150 <= len(at[5]) <= 250
    assert 700 <= len(at[20]) <= 900


def test_each_canary_draws_anew() -> None:
    """The conversations that had the last variant are not those that have the next one."""
    first, second = ({c for c in CONVERSATIONS if chosen(number, c, 20)} for number in (1, 2))
    assert len(first & second) < len(first) / 2


@pytest.mark.parametrize(
    ("channels", "place", "expected"),
    [((), "slack:C1", True), (("slack:C1",), "slack:C1", True), (("slack:C1",), "slack:C2", False)],
)
def test_channels_that_are_named_are_the_only_ones(
    channels: tuple[str, ...], place: str, expected: bool
) -> None:
    """Without any everybody takes part."""
    assert takes_part(channels, place) is expected


# --- when more may


def test_steps_go_up_and_end() -> None:
    """From wherever it was started to the next step above, until there is none."""
    assert [Plan().after(percent) for percent in (1, 5, 7, 20, 99, 100)] == [5, 20, 20, 100, 100, None]


@pytest.mark.parametrize(
    ("days", "questions", "lacking"),
    [(6.9, 99, ("days", "questions")), (7, 99, ("questions",)), (6.9, 100, ("days",)), (7, 100, ())],
)
def test_a_step_takes_its_time_and_its_questions(
    days: float, questions: int, lacking: tuple[str, ...]
) -> None:
    """Both are needed, and what lacks is named."""
    assert Plan().lacking(days, questions) == lacking


# --- when it goes back


def test_a_failing_variant_is_back_soon() -> None:
    """Exactly: 20 % failures within 60 questions and 10 % within 100, each with a chance of 95 % at least; also where
    that the settings fail in 1 % is known from their questions alone."""
    assert chance(ERROR, 0.20, 60)[-1] >= 0.95
    assert chance(ERROR, 0.10, 100)[-1] >= 0.95
    assert joint(ERROR, (0.10, 0.01), 100, 19)[-1] >= 0.95


def test_a_healthy_variant_stays() -> None:
    """Exactly: with 1 % failures at most 1 % ever go back by errors, and all guardrails share 2 % for ever."""
    assert chance(ERROR, 0.01, 2_000)[-1] <= 0.01
    assert sum(rail.alpha + rail.delta for rail in GUARDRAILS) <= 0.02 + 1e-12


def test_one_early_failure_is_no_reason() -> None:
    """Neither the first question nor the first two decide anything."""
    assert not trips(ERROR, Count(2, 2), NOTHING)
    assert trips(ERROR, Count(3, 20), NOTHING)
    assert not trips(ERROR, Count(3, 40), NOTHING)


def test_an_outage_of_both_is_not_the_variants_fault() -> None:
    """Where the settings fail as often at the same time, ten failures of twenty take nothing back."""
    assert trips(ERROR, Count(10, 20), Count(1, 380))
    assert not trips(ERROR, Count(10, 20), Count(190, 380))


def test_settings_that_are_ill_themselves_raise_few_alarms() -> None:
    """Exactly: a variant that fails as often as settings which fail in 2 % goes back within 150 in under 5 %."""
    assert joint(ERROR, (0.02, 0.02), 150, 19)[-1] < 0.05


def test_a_comparison_waits_for_what_it_compares_with() -> None:
    """While nothing is known of the settings' own questions, no rate is too high; what is known has its uncertainty."""
    assert not trips(UNKNOWN, Count(30, 30), NOTHING)
    assert usual(UNKNOWN, Count(3, 20)) > 0.3
    assert 0.15 < usual(UNKNOWN, Count(300, 2_000)) < 0.20
    assert usual(UNKNOWN, Count(0, 10_000)) == UNKNOWN.floor


def test_an_upper_bound_holds_at_all_times() -> None:
    """Exactly: the chance that the bound of a rate of 10 % is ever below it, within 400 questions, is at most delta."""
    alive, ever = [1.0], 0.0
    for asked in range(1, 401):
        after = [0.0] * (len(alive) + 1)
        for bad, weight in enumerate(alive):
            after[bad] += 0.9 * weight
            after[bad + 1] += 0.1 * weight
        for bad, weight in enumerate(after):
            if upper(Count(bad, asked), 0.05) >= 0.1:
                break  # the more are bad, the higher it is
            ever += weight
            after[bad] = 0.0
        alive = after
    assert 0 < ever <= 0.05


@pytest.mark.parametrize("rail", GUARDRAILS, ids=lambda rail: rail.name)
def test_a_limit_is_where_it_trips(rail: Guardrail) -> None:
    """What the status calls the limit trips, one less does not; `near` reaches 1 there."""
    theirs = Count(100, 2_000)
    for asked in (20, 57, 130):
        limit = standing(rail, Count(0, asked), theirs).limit
        assert trips(rail, Count(limit, asked), theirs)
        assert not trips(rail, Count(limit - 1, asked), theirs)
        assert standing(rail, Count(limit, asked), theirs).near >= 1


def test_what_trips_is_named() -> None:
    """The guardrail and both sides, for those who are told; a side without questions trips nothing."""
    found = tripped({"unknown": Count(60, 100)}, {"unknown": Count(150, 1_000)})
    assert found is not None
    assert (found.guardrail, found.ours, found.theirs) == ("unknown", Count(60, 100), Count(150, 1_000))
    assert tripped({}, {}) is None


def test_a_floor_holds_until_more_is_shown() -> None:
    """The settings' errors take the floor's place once chance does not explain them, with one mistake in a hundred."""
    assert usual(ERROR, Count(2, 100)) == ERROR.floor
    assert usual(ERROR, Count(60, 1_000)) > 0.06
    assert usual(replace(ERROR, absolute=False, delta=SHOWN), Count(2, 100)) > 0.05


def test_simulated_runs_agree() -> None:
    """A hundred variants through the function of production, all guardrails at once (make bench-canary: 2,000)."""
    failing = simulated({**USUAL, "error": 0.20}, 60, 100, 1)
    assert failing["tripped"] >= 95
    assert set(failing["by"]) == {"error"}
    assert simulated(USUAL, 200, 100, 2)["tripped"] <= 4


# --- what an editor changed


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("", "", 0.0, id="nothing"),
        pytest.param("Fifteen days [1].", "fifteen days [1]", 0.0, id="case and full stops"),
        pytest.param("You have 15 days of leave.", "You have 20 days of leave.", 1 / 6, id="one word of six"),
        pytest.param("每年 15 天年假。", "每年 20 天年假。", 1 / 6, id="Chinese by characters"),
        pytest.param("Ask the people desk.", "年假十五天", 1.0, id="another answer"),
        pytest.param("one two", "one two three four", 0.5, id="over the longer text"),
    ],
)
def test_how_much_was_changed(before: str, after: str, expected: float) -> None:
    """The share of words."""
    assert changed(before, after) == pytest.approx(expected)
