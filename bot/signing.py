"""Who stands for an answer, in a line. Pure."""

from collections.abc import Mapping
from typing import Any

from bot.words import Words

__all__ = ["signed_line"]

KEYS = {"approved": "signed", "edited": "edited", "verified": "verified"}


def signed_line(words: Words, language: str, meta: Mapping[str, Any], who: str) -> str:
    """The sentence under an answer that a person signed; "" where nobody did. `meta` is the reply's, `who` the name
    of `meta["signed_by"]` as it is shown in that house."""
    key = KEYS.get(str(meta.get("signed", "")))
    return words(language, f"answer.{key}", who=who, day=str(meta.get("signed_at", ""))[:10]) if key else ""
