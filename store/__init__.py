"""The data side: Postgres, and nobody else knows SQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from store.arrivals import Arrivals
from store.canaries import Canaries
from store.changes import Changes
from store.conversations import Conversations
from store.database import Database, migrate
from store.deliveries import Deliveries
from store.dictionary import Dictionary
from store.documents import Documents
from store.embedding import Embedder
from store.erasure import Erasure
from store.errors import DatabaseUnavailable, ExtensionMissing, NotFound, SchemaOutdated, StoreError
from store.inbox import Inbox
from store.insight import Insight
from store.kept import Kept
from store.pages import Pages
from store.people import People
from store.quality import Quality
from store.queue import Queue, Timing, build_queue
from store.reranking import Reranker
from store.review_history import ReviewHistory
from store.reviews import Reviews
from store.runs import Runs
from store.search import Searcher, SearchSettings
from store.standing import Standings
from store.switches import Switches
from store.tracing import Tracing
from store.verified import Verified

__all__ = [
    "DatabaseUnavailable",
    "ExtensionMissing",
    "NotFound",
    "SchemaOutdated",
    "Store",
    "StoreError",
    "migrate",
    "open_store",
]


@dataclass(frozen=True)
class Store:
    """Everything the rooms above may ask of the data side. A test replaces a part with `dataclasses.replace`."""

    database: Database
    queue: Queue
    inbox: Inbox
    conversations: Conversations
    reviews: Reviews
    deliveries: Deliveries
    runs: Runs
    tracing: Tracing
    people: People
    erasure: Erasure
    documents: Documents
    pages: Pages
    search: Searcher
    changes: Changes
    arrivals: Arrivals
    kept: Kept
    switches: Switches
    insight: Insight
    verified: Verified
    history: ReviewHistory
    quality: Quality
    standings: Standings
    canaries: Canaries


@asynccontextmanager
async def open_store(  # noqa: PLR0913 - what a process chooses, all but two by name
    url: str,
    embedder: Embedder,
    *,
    search: SearchSettings | None = None,
    pool_size: int = 8,
    timing: Timing | None = None,
    direct_url: str | None = None,
    reranker: Reranker | None = None,
    dictionary: Dictionary | None = None,
) -> AsyncIterator[Store]:
    """Connect to a migrated database for the length of the block.

    `pool_size` connections each for statements and for checkpoints; `timing` is the queue's; `direct_url` reaches the
    server itself where `url` leads to PgBouncer. Raises
    `DatabaseUnavailable`, `SchemaOutdated` or `ExtensionMissing`.
    """
    database = Database(url, pool_size=pool_size, direct_url=direct_url)
    queue = Queue(build_queue(database.conninfo, timing, database.direct))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        await database.open()
        await database.assert_ready()
        await stack.enter_async_context(queue.opened())
        engine = database.engine
        searcher = Searcher(engine, embedder, search, reranker, dictionary)
        yield Store(
            database=database,
            queue=queue,
            inbox=Inbox(engine, queue),
            conversations=Conversations(engine),
            reviews=Reviews(engine, queue),
            deliveries=Deliveries(engine),
            runs=Runs(engine),
            tracing=Tracing(engine),
            people=People(engine),
            erasure=Erasure(engine),
            documents=Documents(engine, embedder, queue, dictionary or Dictionary()),
            pages=Pages(engine),
            search=searcher,
            changes=Changes(engine, database.direct),
            arrivals=Arrivals(engine, database.conninfo),
            kept=Kept(engine),
            switches=Switches(engine),
            insight=Insight(engine),
            verified=Verified(engine, queue, embedder, searcher),
            history=ReviewHistory(engine),
            quality=Quality(engine),
            standings=Standings(engine),
            canaries=Canaries(engine),
        )
