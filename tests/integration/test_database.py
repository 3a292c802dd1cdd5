"""Pools, readiness, savers."""

from store import Store


async def test_a_migrated_database_is_ready(store: Store) -> None:
    """What `migrate` leaves behind passes the check that serving processes make."""
    await store.database.assert_ready()
    await store.database.ping()
