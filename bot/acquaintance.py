"""What a platform said of its people and places, kept for a while: who somebody is, where, and what they are called."""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

import structlog

T = TypeVar("T")

log = structlog.get_logger(__name__)

# A person who was removed loses their rights within five minutes.
KEPT_SECONDS = 300.0
KEPT_MOST = 10_000


class Unknown(Exception):
    """The platform did not say who or what this is."""


class Acquaintance:
    """`passing` are the errors that mean: the platform does not say."""

    def __init__(
        self,
        platform: str,
        passing: tuple[type[Exception], ...],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._platform, self._passing, self._now = platform, passing, now
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}

    async def ask(self, kind: str, key: str, ask: Callable[[], Awaitable[T]], *, anew: bool = False) -> T:
        """What `ask` finds, or found within `KEPT_SECONDS` unless `anew`. Raises `Unknown`."""
        kept = self._kept.get((kind, key))
        if kept and not anew and self._now() - kept[0] < KEPT_SECONDS:
            value: T = kept[1]
            return value
        try:
            found = await ask()
        except self._passing as error:
            log.warning(f"{self._platform}.unknown", kind=kind, id=key, error=type(error).__name__)
            raise Unknown(f"{kind} {key}") from error
        if len(self._kept) >= KEPT_MOST:
            self._kept.clear()
        self._kept[kind, key] = (self._now(), found)
        return found

    def forget(self) -> None:
        self._kept.clear()


class Naming(Protocol):
    """A house that knows how its people and channels are called."""

    name: str

    async def called(self, identity: str) -> str:
        """By the platform's id; "" for what has no name. Raises `Unknown`."""
        ...


async def names(houses: Iterable[object], principals: Iterable[str]) -> dict[str, str]:
    """Display names by principal, from whichever house knows them: somebody who asked in Slack has a name on a card in
    Feishu. Nobody is pinged by a name."""
    by_platform = {
        cast(Naming, house).name: cast(Naming, house) for house in houses if hasattr(house, "called")
    }
    found: dict[str, str] = {}
    for principal in principals:
        platform, _, identity = principal.partition(":")
        if identity and platform in by_platform:
            try:
                found[principal] = await by_platform[platform].called(identity)
            except Unknown:
                log.info("name.unknown", principal=principal)
    return found
