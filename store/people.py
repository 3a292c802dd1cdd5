"""Who is who across platforms: principals that belong to one human being."""

import builtins
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.database import single, transaction
from store.errors import NotFound
from store.schema import identities, people
from store.text import clean

__all__ = ["Identity", "People", "Person", "tidy"]

EMAIL = "email"


@dataclass(frozen=True, slots=True)
class Identity:
    """One principal of a person. `linked_by` is "email", or the principal of the admin who said so."""

    principal: str
    linked_by: str
    linked_at: datetime


@dataclass(frozen=True, slots=True)
class Person:
    """A human being, as far as their principals are known to be one's."""

    id: int
    identities: tuple[Identity, ...]

    @property
    def principals(self) -> frozenset[str]:
        return frozenset(identity.principal for identity in self.identities)


class People:
    """Links are made by the same verified e-mail address on two platforms, or by an admin; nothing else counts."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def principals(self, principal: str) -> frozenset[str]:
        """Every principal of the person who has `principal`, itself included; it alone where nobody is known."""
        return (await self.principals_of([principal]))[clean(principal)]

    async def principals_of(self, principals: Collection[str]) -> dict[str, frozenset[str]]:
        """The same for several at once, by principal."""
        asked = [clean(principal) for principal in principals]
        own, other = identities.alias("own"), identities.alias("other")
        query = (
            select(own.c.principal, other.c.principal)
            .join(other, other.c.person_id == own.c.person_id)
            .where(own.c.principal.in_(asked))
        )
        found: dict[str, set[str]] = {principal: {principal} for principal in asked}
        async with single(self._engine) as connection:
            for mine, also in await connection.execute(query):
                found[mine].add(also)
        return {principal: frozenset(also) for principal, also in found.items()}

    async def known(self, principal: str) -> bool:
        """Whether anything was ever said of this principal."""
        query = select(exists().where(identities.c.principal == clean(principal)))
        async with single(self._engine) as connection:
            return bool(await connection.scalar(query))

    async def verified(self, principal: str, email: str) -> None:
        """A platform vouches that `principal` owns this address: whoever else owns it is the same person.

        An identity that an admin linked stays where the admin put it. Of the address only its sha256 is kept.
        """
        principal, digest = clean(principal), _digest(email)
        async with transaction(self._engine) as connection:
            await _one_at_a_time(connection)
            mine = await _person(connection, principal)
            same = await connection.scalar(
                select(identities.c.person_id)
                .where(identities.c.email_hash == digest, identities.c.principal != principal)
                .order_by(identities.c.linked_at)
                .limit(1)
            )
            if mine is None:
                await _add(connection, principal, same, EMAIL)
            elif same not in (None, mine):
                await _move(connection, principal, same, EMAIL, only=EMAIL)
            await connection.execute(
                update(identities)
                .where(identities.c.principal == principal, identities.c.linked_by == EMAIL)
                .values(email_hash=digest)
            )

    async def link(self, principal: str, other: str, by: str) -> Person:
        """An admin says that two principals, and all that are linked to either, are one person's."""
        async with transaction(self._engine) as connection:
            await _one_at_a_time(connection)
            target = await _person(connection, clean(principal))
            if target is None:
                target = await _add(connection, clean(principal), None, clean(by))
            source = await _person(connection, clean(other))
            if source is None:
                await _add(connection, clean(other), target, clean(by))
            elif source != target:
                await connection.execute(
                    update(identities)
                    .where(identities.c.person_id == source)
                    .values(person_id=target, linked_by=clean(by), linked_at=func.now())
                )
            await tidy(connection)
            return await _load(connection, target)

    async def unlink(self, principal: str, by: str) -> None:
        """Make a principal a person of its own, and one that no e-mail address links again. Raises `NotFound`."""
        async with transaction(self._engine) as connection:
            await _one_at_a_time(connection)
            if await _person(connection, clean(principal)) is None:
                raise NotFound(f"{principal!r} is linked to nobody.")
            alone = await connection.scalar(insert(people).values().returning(people.c.id))
            await _move(connection, clean(principal), alone, clean(by))
            await connection.execute(
                update(identities).where(identities.c.principal == clean(principal)).values(email_hash=None)
            )
            await tidy(connection)

    async def list(self) -> builtins.list[Person]:
        """Everybody of whom anything is known, in the order in which they became known."""
        async with transaction(self._engine) as connection:
            ids = (await connection.execute(select(people.c.id).order_by(people.c.id))).scalars().all()
            return [await _load(connection, person_id) for person_id in ids]


def _digest(email: str) -> str:
    return hashlib.sha256(clean(email).strip().casefold().encode()).hexdigest()


async def _one_at_a_time(connection: AsyncConnection) -> None:
    """Linking is rare, and two links at once could each make a person of their own."""
    await connection.execute(select(func.pg_advisory_xact_lock(0x5169_0001)))


async def _person(connection: AsyncConnection, principal: str) -> int | None:
    found: int | None = await connection.scalar(
        select(identities.c.person_id).where(identities.c.principal == principal)
    )
    return found


async def _add(connection: AsyncConnection, principal: str, person_id: int | None, by: str) -> int:
    if person_id is None:
        person_id = await connection.scalar(insert(people).values().returning(people.c.id))
    assert person_id is not None
    await connection.execute(
        insert(identities).values(principal=principal, person_id=person_id, linked_by=by)
    )
    return person_id


async def _move(
    connection: AsyncConnection, principal: str, person_id: int | None, by: str, only: str = ""
) -> None:
    """Give the principal to another person; with `only`, unless somebody else than that linked it."""
    query = update(identities).where(identities.c.principal == principal)
    if only:
        query = query.where(identities.c.linked_by == only)
    await connection.execute(query.values(person_id=person_id, linked_by=by, linked_at=func.now()))
    await tidy(connection)


async def tidy(connection: AsyncConnection) -> None:
    """Nobody stays without a principal."""
    await connection.execute(delete(people).where(~exists().where(identities.c.person_id == people.c.id)))


async def _load(connection: AsyncConnection, person_id: int) -> Person:
    found = await connection.execute(
        select(identities.c.principal, identities.c.linked_by, identities.c.linked_at)
        .where(identities.c.person_id == person_id)
        .order_by(identities.c.principal)
    )
    return Person(person_id, tuple(Identity(*row) for row in found))
