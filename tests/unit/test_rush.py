"""The worker steps back while messages stand at the door."""

from contextlib import ExitStack, suppress

from store.rush import MANY, PAUSE, Rush


def test_a_few_messages_are_no_rush() -> None:
    """One after the other, or a few at once, hold up nothing."""
    rush = Rush()
    for _ in range(3 * MANY):
        with rush.entering():
            assert rush.pause() == 0.0


def test_many_at_once_are_one_until_they_are_in() -> None:
    """The worker is slowed down, never stopped, and only for as long as they wait; one that could not be stored has
    left the door too."""
    rush = Rush()
    with ExitStack() as door:
        for _ in range(MANY):
            door.enter_context(rush.entering())
        assert rush.pause() == PAUSE
    assert rush.pause() == 0.0
    for _ in range(MANY):
        with suppress(RuntimeError), rush.entering():
            raise RuntimeError
    assert rush.pause() == 0.0
