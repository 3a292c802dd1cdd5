"""How much may come in and how fast things go out. Pure values, and one pace for all houses."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from aiolimiter import AsyncLimiter

from bot.messages import Incoming
from bot.settings import Limits
from store.inbox import Door
from store.rates import Allowance

Method = Literal["send", "update"]
LIMITERS_MOST = 4_000


def door(incoming: Incoming, limits: Limits, longest: int, now: datetime) -> Door:
    """What this message has to pass. Its own faults come first: they cost no allowance."""
    if len(incoming.text) > longest:
        return Door(refused="long")
    if now - incoming.sent_at > timedelta(minutes=limits.away_minutes):
        return Door(refused="away")
    most = {f"person:{incoming.asker}": limits.person_questions}
    if not incoming.private:
        most[f"channel:{incoming.platform}:{incoming.channel}"] = limits.channel_questions
    return Door(
        allowance=Allowance(limits.minutes * 60, {key: count for key, count in most.items() if count}),
        waiting=limits.waiting_questions or None,
    )


@dataclass(frozen=True, slots=True)
class Rate:
    """`most` calls in `seconds`, for each channel, for each message, or for the platform as a whole."""

    most: float
    seconds: float
    of: Literal["channel", "message", "platform"]


# Slack: docs.slack.dev/apis/web-api/rate-limits: a message a second and channel with short bursts; chat.update is tier
# 3, 50 a minute. Feishu: open.feishu.cn "frequency control": 5 a second for a chat, 5 for a message's updates, 50 for
# each interface. Rows of our own database (web, cli) need none.
PACES: Mapping[str, Mapping[Method, Sequence[Rate]]] = {
    "slack": {
        "send": (Rate(4, 4.0, "channel"),),
        "update": (Rate(1, 1.2, "message"), Rate(50, 60.0, "platform")),
    },
    "feishu": {
        "send": (Rate(5, 1.0, "channel"), Rate(50, 1.0, "platform")),
        "update": (Rate(5, 1.0, "message"), Rate(50, 1.0, "platform")),
    },
}


class Pace:
    """Waits until a platform bears the next call. One for a process: its houses share nothing else."""

    def __init__(self, paces: Mapping[str, Mapping[Method, Sequence[Rate]]] = PACES) -> None:
        self._paces = paces
        self._limiters: OrderedDict[tuple[str, str, float, str], AsyncLimiter] = OrderedDict()

    async def turn(self, platform: str, method: Method, *, channel: str = "", message: str = "") -> None:
        """Return when this call may go out."""
        for limiter in self._which(platform, method, channel, message):
            await limiter.acquire()

    def free(self, platform: str, method: Method, *, channel: str = "", message: str = "") -> bool:
        """Whether it may go out at once."""
        return all(limiter.has_capacity() for limiter in self._which(platform, method, channel, message))

    def _which(self, platform: str, method: Method, channel: str, message: str) -> list[AsyncLimiter]:
        of = {"channel": channel, "message": message, "platform": platform}
        rates = self._paces.get(platform, {}).get(method, ())
        return [self._limiter((platform, method, rate.seconds, of[rate.of]), rate) for rate in rates]

    def _limiter(self, key: tuple[str, str, float, str], rate: Rate) -> AsyncLimiter:
        limiter = self._limiters.setdefault(key, AsyncLimiter(rate.most, rate.seconds))
        self._limiters.move_to_end(key)
        while len(self._limiters) > LIMITERS_MOST:
            self._limiters.popitem(last=False)
        return limiter
