"""Which messages are for the bot: a mention, a direct message, or a follow-up that this channel wants answered.

Once somebody in a thread speaks to somebody else, the thread is left to them until the bot is mentioned again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from store.conversations import QuestionRow
from store.switches import Switches

ASIDE = "aside:"  # switch of a conversation in which people talk to each other
# What takes a question back, said by whoever asked it.
STOP = frozenset({"stop", "cancel", "停", "停止", "取消", "算了"})


@dataclass(frozen=True, slots=True)
class Spoken:
    """What of a message decides. `threaded`: it stands below another one; `to_other`: it addresses somebody else and
    not us."""

    conversation_id: str
    author: str  # principal
    direct: bool
    mentioned: bool
    threaded: bool
    to_other: bool


def is_stop(text: str) -> bool:
    return text.strip().rstrip("!。.！").lower() in STOP


async def is_for_us(
    said: Spoken,
    follow: str,
    switches: Switches,
    questions: Callable[[str], Awaitable[list[QuestionRow]]],
    aside: Callable[[], Awaitable[object]],
) -> bool:
    """`follow` is how far the channel's threads are followed: mentions, asker or thread. `aside` is done with what
    people say to each other below a question: it may be the answer that a person was asked for."""
    switch = f"{ASIDE}{said.conversation_id}"
    if said.direct:
        return True
    if said.mentioned:
        if said.threaded:
            await switches.off(switch)
        return True
    asked = await questions(said.conversation_id) if said.threaded and follow != "mentions" else []
    if not asked:
        return False
    stranger = follow == "asker" and all(row.asker != said.author for row in asked)
    if said.to_other or stranger:
        await aside()
        await switches.on(switch, said.author)
        return False
    return await switches.any_on((switch,)) is None
