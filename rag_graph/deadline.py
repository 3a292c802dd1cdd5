"""How long the models and tools of a question may take: one moment for all calls of a run.

The moment travels in the context that asyncio hands to every task it starts: writers, retries and tools are called
through hands that need not know of it. Outside of a run (a summary for the memory, measuring) nothing is bounded here.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["left", "within"]

_moment: ContextVar[float] = ContextVar("deadline", default=math.inf)  # by the monotonic clock


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """For the length of the block `left` counts down from `seconds`."""
    token = _moment.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _moment.reset(token)


def left() -> float:
    """Seconds until the moment, 0 once it has passed; infinitely many outside of `within`."""
    return max(0.0, _moment.get() - time.monotonic())
