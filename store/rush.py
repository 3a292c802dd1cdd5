"""When more messages stand at the door than it lets in, answering waits a little: a platform gives the door three
seconds, and nobody expects the last of a hundred answers at once."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Rush"]

MANY = 5  # messages at the door at once, in one process
PAUSE = 0.25  # seconds before another job is begun


class Rush:
    """One for a process: the inbox says who is at the door, the worker asks before it fetches a job.

    Eight jobs at once make a turn of the event loop long, and storing a message takes several turns: without this
    the door fell behind by half a minute, platforms repeated what they had sent, and it never caught up.
    """

    def __init__(self) -> None:
        self._inside = 0

    @contextmanager
    def entering(self) -> Iterator[None]:
        """For as long as a message is being stored."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def pause(self) -> float:
        """Seconds to wait before another job is begun; 0 without a rush."""
        return PAUSE if self._inside >= MANY else 0.0
