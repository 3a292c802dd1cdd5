"""When messages come in faster than they can be answered, answering waits for them: a platform gives the door three
seconds, and nobody expects the last of a hundred answers soon."""

import time
from collections import deque
from collections.abc import Callable

__all__ = ["Rush"]

MANY = 10  # messages in a second, in one process: three are answered in that time
LONGEST = 15.0  # seconds; what lasts longer is no rush, and its answers wait no more
PAUSE = 0.25  # seconds before another job is begun


class Rush:
    """One for a process: the inbox says what arrives, the worker asks before it fetches a job."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._latest: deque[float] = deque(maxlen=MANY)
        self._since: float | None = None

    def arrived(self) -> None:
        """A message is at the door."""
        self._latest.append(self._now())
        if self._since is None and self._many():
            self._since = self._now()

    def pause(self) -> float:
        """Seconds to wait before another job is begun; 0 without a rush."""
        if self._since is None:
            return 0.0
        if not self._many():
            self._since = None
            return 0.0
        return PAUSE if self._now() - self._since < LONGEST else 0.0

    def _many(self) -> bool:
        return len(self._latest) == MANY and self._now() - self._latest[0] < 1.0
