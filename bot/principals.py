"""Principals: how people, groups and places are named, and who reads in a place."""

import re
from collections.abc import Sequence

from store.conversations import ConversationRow

__all__ = ["readers", "unreadable"]

PRINCIPAL = re.compile(r"everyone|(slack|feishu|web|cli):[^\s,]+")


def readers(conversation: ConversationRow, asker: str) -> tuple[str, ...]:
    """Who reads an answer there: in a channel everyone and that channel, in private the asker (invariant 6)."""
    if conversation.private:
        return ("everyone", asker)
    # Names of channels need a mark that tells them from people; ids of chat platforms carry it already.
    mark = "#" if conversation.platform in ("web", "cli") else ""
    return ("everyone", f"{conversation.platform}:{mark}{conversation.channel}")


def unreadable(names: Sequence[str]) -> list[str]:
    """Those of `names` that nobody could be."""
    return [name for name in names if not PRINCIPAL.fullmatch(name)]
