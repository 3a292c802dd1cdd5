"""`/kb canary …`, whatever the platform: what was typed becomes one call of the use case, and its outcome a text."""

from typing import TYPE_CHECKING

from bot.canary import Refused
from bot.canary_lines import refusal, shown, told
from store.canaries import CanaryRow

if TYPE_CHECKING:
    from bot.app import App

__all__ = ["outcome", "typed"]

FORCE = "force"


async def typed(app: "App", language: str, person: str, words: list[str]) -> str | None:
    """What the person reads; None where what they typed is no command.

    Nothing, or "status"; "start NAME [PERCENT] [CHANNEL…]"; "promote"; "rollback [REASON]". "force" at the end goes
    against what would otherwise refuse a start or a promotion.
    """
    verb, rest = (words[0], words[1:]) if words else ("status", [])
    if verb == "status" and not rest:
        return "\n".join(shown(app.words, language, await app.trying.status()))
    try:
        row = await _act(app, person, verb, rest)
    except Refused as error:
        return refusal(app.words, language, error)
    return None if row is None else "\n".join(await outcome(app, language, row))


async def outcome(app: "App", language: str, row: CanaryRow) -> list[str]:
    """What was done; after a promotion also what is to be written into the settings."""
    lines = [told(app.words, language, row)]
    if row.state == "promoted":
        lines += shown(app.words, language, await app.trying.status())
    return lines


async def _act(app: "App", person: str, verb: str, rest: list[str]) -> CanaryRow | None:
    if verb == "rollback":
        return await app.trying.rollback(person, " ".join(rest))
    force = rest[-1:] == [FORCE]
    given = rest[:-1] if force else rest
    if verb == "promote" and not given:
        return await app.trying.promote(person, force=force)
    if verb != "start" or not given:
        return None
    name, *others = given
    percent = int(others.pop(0)) if others and others[0].isdecimal() and len(others[0]) < 4 else None
    return await app.trying.start(name, person, percent=percent, channels=others, force=force)
