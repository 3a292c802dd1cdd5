"""What is done after an acknowledgement, when nobody waits for it any more."""

import asyncio
import traceback
from collections.abc import Awaitable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

FINISH_SECONDS = 5.0


class Afterwards:
    """Call it with what is to be done. Its failure is logged, never raised."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Let what was begun come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_SECONDS)

    async def _logged(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - nobody waits for it: its failure must reach the log, whatever it is
            log.error(f"{self._platform}.afterwards", error=type(error).__name__, at=where(error))


def where(error: BaseException) -> str:
    """The file and line that raised it. Not the traceback: its values are people's text."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
