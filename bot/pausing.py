"""Answering paused by an administrator: everywhere, or in one channel of a platform."""

import re

from store import Store
from store.switches import Switch, Switches

EVERYWHERE = "paused"
CHANNEL = re.compile(r"(slack|feishu|web):[^\s,]+")  # a channel's principal


def switch_of(place: str) -> str | None:
    """The name of the switch that pauses `place`: a channel's principal, or "" for everywhere; None where it is
    neither."""
    if not place:
        return EVERYWHERE
    return f"{EVERYWHERE}:{place}" if CHANNEL.fullmatch(place) else None


def place_of(switch: Switch) -> str:
    """What a switch pauses: a channel's principal, or "" for everywhere."""
    return switch.name.partition(":")[2]


def pausing(platform: str, channel: str) -> tuple[str, ...]:
    """The switches that keep questions of this channel from being answered."""
    return (EVERYWHERE, f"{EVERYWHERE}:{platform}:{channel}")


async def paused(switches: Switches, platform: str, channel: str) -> Switch | None:
    """What keeps questions of this channel from being answered; None when nothing does."""
    return await switches.any_on(pausing(platform, channel))


async def pauses(switches: Switches) -> list[Switch]:
    """All that is paused, the longest paused first."""
    return await switches.list(EVERYWHERE)


async def pause(store: Store, place: str, by: str, *, off: bool) -> bool:
    """Stop or start answering; False where `place` is no channel. The console hears of it."""
    name = switch_of(place)
    if name is None:
        return False
    if off:
        await store.switches.off(name)
    else:
        await store.switches.on(name, by)
    await store.changes.notify("documents", {"pause": place})
    return True
