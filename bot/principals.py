"""How people, groups and places are named in settings and commands."""

import re
from collections.abc import Sequence

__all__ = ["unreadable"]

PRINCIPAL = re.compile(r"everyone|(slack|feishu|web|cli):[^\s,]+")


def unreadable(names: Sequence[str]) -> list[str]:
    """Those of `names` that nobody could be."""
    return [name for name in names if not PRINCIPAL.fullmatch(name)]
