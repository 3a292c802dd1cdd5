"""What somebody switched on until they switch it off: answering paused, a thread left to its people."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import single
from store.schema import switches

__all__ = ["Switch", "Switches"]


@dataclass(frozen=True, slots=True)
class Switch:
    """One that is on: since when, and who did it."""

    name: str
    set_by: str
    set_at: datetime


class Switches:
    """A switch is on while its row is there."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def on(self, name: str, by: str) -> None:
        """Switch on; the first one to do so stays named."""
        row = insert(switches).values(name=name, set_by=by).on_conflict_do_nothing()
        async with single(self._engine) as connection:
            await connection.execute(row)

    async def off(self, name: str) -> bool:
        """Switch off; False when it was off already."""
        gone = delete(switches).where(switches.c.name == name).returning(switches.c.name)
        async with single(self._engine) as connection:
            return await connection.scalar(gone) is not None

    async def any_on(self, names: Sequence[str]) -> Switch | None:
        """The one of `names` that has been on longest; None when all are off."""
        query = select(switches).where(switches.c.name.in_(names)).order_by(switches.c.set_at).limit(1)
        async with single(self._engine) as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return Switch(**row) if row is not None else None

    async def list(self, prefix: str) -> list[Switch]:
        """Those whose names begin with `prefix`, the longest on first."""
        query = (
            select(switches)
            .where(func.starts_with(switches.c.name, prefix))
            .order_by(switches.c.set_at, switches.c.name)
        )
        async with single(self._engine) as connection:
            return [Switch(**row) for row in (await connection.execute(query)).mappings()]

    async def sweep(self, prefix: str, before: datetime) -> None:
        """Forget those of `prefix` that were switched on before `before`."""
        old = delete(switches).where(func.starts_with(switches.c.name, prefix), switches.c.set_at < before)
        async with single(self._engine) as connection:
            await connection.execute(old)
