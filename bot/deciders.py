"""Who may decide a review, asked at the click: on the list, still in the review channel, and not the one who asked
(invariant 5)."""

from collections.abc import Mapping, Sequence
from typing import cast

import structlog

from bot.messages import Directory, Membership, NotTaken, Platform
from store.people import People

log = structlog.get_logger(__name__)

# Whoever sits at the machine types these names themselves: web:lin and cli:lin are one.
LOCAL = ("web", "cli")


class Deciders:
    """`reviewers` are principals; any identity that is linked to one of them counts."""

    def __init__(
        self,
        people: People,
        platforms: Mapping[str, Platform],
        *,
        reviewers: Sequence[str],
        channels: Sequence[str] = (),
        allow_own: bool = False,
    ) -> None:
        """`channels` are the review channels, as principals."""
        self._people = people
        self._platforms = platforms
        self.reviewers = tuple(dict.fromkeys(reviewers))
        self._channels = tuple(channels)
        self._allow_own = allow_own

    async def present(self, principal: str) -> bool:
        """Whether this person is in a review channel of their platform, where it has one: who has left it decides no
        more, and sees no draft."""
        platform = principal.partition(":")[0]
        there = [place.partition(":")[2] for place in self._channels if place.startswith(f"{platform}:")]
        house = self._platforms.get(platform)
        if not there or not hasattr(house, "inside"):
            return True
        return await cast(Membership, house).inside(principal, there)

    async def listed(self, principal: str) -> bool:
        """Whether this person is on the list, under any identity."""
        if principal in self.reviewers:
            return True
        await self._introduce(principal)
        return any(who in self.reviewers for who in await self._people.principals(principal))

    async def refusal(self, actor: str, asker: str) -> str:
        """Why `actor` may not decide what `asker` asked: "", forbidden, own or unlinked.

        Across platforms only people whose accounts are linked decide: of others nobody can tell whether they asked
        the question themselves.
        """
        if not await self.present(actor) or not await self.listed(actor):
            return "forbidden"
        return "" if self._allow_own else await self._alike(actor, asker)

    async def repeated(self, actor: str, approved: Sequence[str]) -> str:
        """Why an approval by `actor` is no second one: "", twice (the same person, on whatever platform), or
        unlinked_too (nobody can tell whether it is)."""
        for earlier in approved:
            alike = await self._alike(actor, earlier)
            if alike:
                return "twice" if alike == "own" else "unlinked_too"
        return ""

    async def _alike(self, actor: str, other: str) -> str:
        """ "own" where the two are one person, "unlinked" where nobody can tell, else "": they are told apart by the
        accounts that they have on one platform."""
        if _local(actor) == _local(other):
            return "own"
        if _family(actor) != _family(other):
            await self._introduce(actor)
            await self._introduce(other)
        mine = await self._people.principals(actor)
        if other in mine:
            return "own"
        theirs = await self._people.principals(other)
        return "" if {_family(p) for p in mine} & {_family(p) for p in theirs} else "unlinked"

    async def _introduce(self, principal: str) -> None:
        """Ask the platform for the address of somebody of whom nothing is known yet."""
        house = self._platforms.get(principal.partition(":")[0])
        if not hasattr(house, "email") or await self._people.known(principal):
            return
        try:
            email = await cast(Directory, house).email(principal)
        except (OSError, TimeoutError, NotTaken) as error:
            log.info("person.unknown", principal=principal, error=type(error).__name__)
            return
        if email:
            await self._people.verified(principal, email)


def _family(principal: str) -> str:
    platform = principal.partition(":")[0]
    return "local" if platform in LOCAL else platform


def _local(principal: str) -> str:
    platform, _, name = principal.partition(":")
    return f"local:{name}" if platform in LOCAL else principal
