"""Answering paused by an administrator: everywhere, or in one channel of a platform."""

from store.switches import Switch, Switches

EVERYWHERE = "paused"


def channel_switch(platform: str, channel: str) -> str:
    """The name of the switch that pauses one channel."""
    return f"{EVERYWHERE}:{platform}:{channel}"


async def paused(switches: Switches, platform: str, channel: str) -> Switch | None:
    """What keeps questions of this channel from being answered; None when nothing does."""
    return await switches.any_on((EVERYWHERE, channel_switch(platform, channel)))
