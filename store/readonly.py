"""A knowledge base looked at by somebody who may change nothing in it: for measuring the one that people use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from store.catalogue import DocumentRow
from store.database import Database
from store.dictionary import Dictionary
from store.documents import Documents
from store.embedding import Embedder, NoEmbedder
from store.reranking import Reranker
from store.search import Searcher, SearchSettings

__all__ = ["Onlooker", "onlooking"]


@dataclass(frozen=True)
class Onlooker:
    """What may be looked at: the search, and the list of what it searches."""

    search: Searcher
    _documents: Documents

    async def documents(self) -> list[DocumentRow]:
        """Every document that readers can see a version of."""
        return [row for row in await self._documents.list() if row.version_id is not None]


@asynccontextmanager
async def onlooking(
    url: str,
    embedder: Embedder,
    *,
    search: SearchSettings | None = None,
    reranker: Reranker | None = None,
    dictionary: Dictionary | None = None,
) -> AsyncIterator[Onlooker]:
    """Over a migrated database, for the length of the block. Each of its transactions begins READ ONLY, so that
    Postgres itself refuses a write; PgBouncer passes that on, as it does not a session's setting.

    Raises `DatabaseUnavailable`, `SchemaOutdated` or `ExtensionMissing`.
    """
    database = Database(url, pool_size=2)
    await database.open()
    try:
        await database.assert_ready()
        engine = database.engine.execution_options(postgresql_readonly=True)
        searcher = Searcher(engine, embedder, search, reranker, dictionary)
        yield Onlooker(searcher, Documents(engine, NoEmbedder()))
    finally:
        await database.close()
