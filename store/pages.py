"""Documents that are pages on the web: when they were last looked at, and what tells whether they changed."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncEngine

from store.database import transaction
from store.schema import documents, pages
from store.text import clean

__all__ = ["PageRow", "Pages"]

# Of a server's validators; longer ones are nobody's and would only be sent back.
LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class PageRow:
    """A document read from `url`. `error_code` says why the last look failed; the document stays as it was read."""

    document_id: int
    collection: str
    url: str
    etag: str
    last_modified: str
    error_code: str | None
    looked_at: datetime


class Pages:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def seen(self, document_id: int, *, etag: str, last_modified: str) -> None:
        """The page was read, or found unchanged, just now."""
        values = {
            "etag": clean(etag)[:LONGEST],
            "last_modified": clean(last_modified)[:LONGEST],
            "error_code": None,
            "error_detail": None,
            "looked_at": func.now(),
        }
        async with transaction(self._engine) as connection:
            await connection.execute(
                upsert(pages)
                .values(document_id=document_id, **values)
                .on_conflict_do_update(index_elements=[pages.c.document_id], set_=values)
            )

    async def missed(self, document_id: int, code: str, detail: str = "") -> None:
        """The page could not be read this time, with the reason."""
        async with transaction(self._engine) as connection:
            await connection.execute(
                update(pages)
                .where(pages.c.document_id == document_id)
                .values(error_code=code, error_detail=clean(detail), looked_at=func.now())
            )

    async def due(self, before: datetime, limit: int = 200) -> list[PageRow]:
        """Pages last looked at before that moment, the longest ago first."""
        query = (
            select(
                pages.c.document_id,
                documents.c.collection,
                documents.c.source,
                pages.c.etag,
                pages.c.last_modified,
                pages.c.error_code,
                pages.c.looked_at,
            )
            .join(documents, documents.c.id == pages.c.document_id)
            .where(pages.c.looked_at < before)
            .order_by(pages.c.looked_at)
            .limit(limit)
        )
        async with transaction(self._engine) as connection:
            return [PageRow(*row) for row in await connection.execute(query)]

    async def failing(self) -> dict[int, str]:
        """Document id → why its page could not be read when it was last looked at."""
        query = select(pages.c.document_id, pages.c.error_code).where(pages.c.error_code.is_not(None))
        async with transaction(self._engine) as connection:
            return {row.document_id: row.error_code for row in await connection.execute(query)}
