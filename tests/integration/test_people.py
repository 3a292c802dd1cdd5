"""Principals that are one human being's: linked by a verified address or by an admin, and by nothing else."""

import asyncio

import pytest

from store import NotFound, Store


async def together(store: Store, principal: str) -> list[str]:
    return sorted(await store.people.principals(principal))


async def test_the_same_verified_address_links(store: Store) -> None:
    """Whatever its capitals; another address does not, and who is unknown stands alone."""
    await store.people.verified("slack:U1", "Lin@Henglu.example")
    await store.people.verified("feishu:ou_1", " lin@henglu.example")
    await store.people.verified("feishu:ou_2", "ann@henglu.example")
    assert await together(store, "slack:U1") == ["feishu:ou_1", "slack:U1"]
    assert await together(store, "feishu:ou_2") == ["feishu:ou_2"]
    assert await together(store, "web:lin") == ["web:lin"]


async def test_an_admin_links_whole_persons(store: Store) -> None:
    """Two with several accounts each become one with all of them; linking again changes nothing."""
    await store.people.verified("slack:U1", "a@x.example")
    await store.people.verified("feishu:ou_1", "a@x.example")
    await store.people.link("web:lin", "cli:lin", by="cli:admin")
    person = await store.people.link("slack:U1", "web:lin", by="cli:admin")
    assert sorted(person.principals) == ["cli:lin", "feishu:ou_1", "slack:U1", "web:lin"]
    assert await store.people.link("slack:U1", "web:lin", by="cli:admin") == person
    assert await store.people.list() == [person]


async def test_an_unlinked_account_stays_alone(store: Store) -> None:
    """Also when its platform vouches for the same address again: an admin's word stands above it."""
    await store.people.verified("slack:U1", "a@x.example")
    await store.people.verified("feishu:ou_1", "a@x.example")
    await store.people.unlink("feishu:ou_1", by="cli:admin")
    await store.people.verified("feishu:ou_1", "a@x.example")
    assert await together(store, "slack:U1") == ["slack:U1"]
    with pytest.raises(NotFound, match="U9"):
        await store.people.unlink("slack:U9", by="cli:admin")


async def test_a_changed_address_moves_only_what_an_address_linked(store: Store) -> None:
    """The platform's profile says another address now: the account follows it, one that an admin linked does not."""
    await store.people.verified("slack:U1", "a@x.example")
    await store.people.verified("feishu:ou_1", "a@x.example")
    await store.people.verified("feishu:ou_2", "b@x.example")
    await store.people.verified("feishu:ou_1", "b@x.example")
    assert await together(store, "feishu:ou_2") == ["feishu:ou_1", "feishu:ou_2"]
    await store.people.link("slack:U1", "web:ann", by="cli:admin")
    await store.people.verified("web:ann", "b@x.example")
    assert await together(store, "slack:U1") == ["slack:U1", "web:ann"]


async def test_many_at_once_make_one_person(store: Store) -> None:
    """Two processes that see the same address at the same moment do not make two persons of it."""
    await asyncio.gather(*(store.people.verified(f"slack:U{n}", "a@x.example") for n in range(8)))
    assert len(await store.people.principals("slack:U0")) == 8
