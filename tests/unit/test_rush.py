"""The worker steps back while messages pour in, for a while."""

from store.rush import LONGEST, MANY, PAUSE, Rush


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_few_messages_are_no_rush() -> None:
    """Three in a second, for as long as one likes, hold up nothing."""
    clock = Clock()
    rush = Rush(clock)
    for _ in range(100):
        rush.arrived()
        clock.at += 0.34
        assert rush.pause() == 0.0


def test_many_are_one_until_they_stop() -> None:
    """Ten within a second slow the worker down; a second after the last of them it is as before."""
    clock = Clock()
    rush = Rush(clock)
    for _ in range(MANY):
        rush.arrived()
        clock.at += 0.05
    assert rush.pause() == PAUSE
    clock.at += 1.0
    assert rush.pause() == 0.0


def test_a_rush_that_lasts_is_none() -> None:
    """After fifteen seconds answers wait no longer, and only a second's quiet makes another rush of what follows."""
    clock = Clock()
    rush = Rush(clock)
    paused = []
    for _ in range(int(2 * LONGEST / 0.05)):
        rush.arrived()
        clock.at += 0.05
        paused.append(rush.pause() > 0)
    assert paused[MANY + 1]
    assert not paused[-1]
    clock.at += 1.0
    assert rush.pause() == 0.0
    for _ in range(MANY):
        rush.arrived()
    assert rush.pause() == PAUSE
