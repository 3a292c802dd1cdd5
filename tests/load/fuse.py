"""Killing a process at an exact place, an exact number of times.

Counters live in files, so that they go on counting over the lives of the process. A kill is SIGKILL to oneself: no
handler runs, no buffer is flushed, exactly as when the machine is gone.
"""

import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


class Fuse:
    """`plan` maps a point to the occurrences at which it kills. `folder` keeps counts and the log of kills."""

    def __init__(self, folder: Path, plan: Mapping[str, Sequence[int]]) -> None:
        self._folder = folder
        self._plan = plan

    def reach(self, point: str) -> int:
        """Count one arrival at `point`; return which it is, or never return."""
        count = self._count(f"{point}.hits")
        if count in self._plan.get(point, ()):
            self._count(f"{point}.kills")
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    def kills(self) -> dict[str, int]:
        return {
            path.name.removesuffix(".kills"): path.stat().st_size
            for path in sorted(self._folder.glob("*.kills"))
        }

    def _count(self, name: str) -> int:
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, b".")
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)


class Fused:
    """`target` with a fuse before or after some of its methods: {"method": "point"}."""

    def __init__(
        self, target: Any, fuse: Fuse, before: Mapping[str, str] = {}, after: Mapping[str, str] = {}
    ) -> None:
        self._target = target
        self._fuse = fuse
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if name not in self._before and name not in self._after:
            return attribute

        async def fused(*args: Any, **kwargs: Any) -> Any:
            if name in self._before:
                self._fuse.reach(self._before[name])
            result = await attribute(*args, **kwargs)
            if name in self._after:
                self._fuse.reach(self._after[name])
            return result

        return fused


def fused_node(
    point: str, node: Callable[..., Awaitable[dict[str, Any]]], fuse: Fuse
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A node that may die before its body, or after it and before anything of its result is saved."""

    async def run(state: Any, runtime: Any) -> dict[str, Any]:
        fuse.reach(f"{point}.before")
        update = await node(state, runtime)
        fuse.reach(f"{point}.after")
        return update

    return run


def write_plan(path: Path, plan: Mapping[str, Sequence[int]]) -> None:
    path.write_text(json.dumps(plan))


def read_plan(path: Path) -> dict[str, list[int]]:
    plan: dict[str, list[int]] = json.loads(path.read_text())
    return plan
