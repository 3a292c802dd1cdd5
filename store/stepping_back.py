"""Going back to an earlier version of a document, with its vectors in the model that search reads now."""

from sqlalchemy.ext.asyncio import AsyncEngine

from store import outdating, publication, spaces
from store.chunks import embedding_text
from store.database import transaction
from store.embedding import Embedder
from store.queue import Queue

__all__ = ["step_back"]


async def step_back(
    engine: AsyncEngine, embedder: Embedder, queue: Queue | None, document_id: int, number: int | None
) -> int:
    """Show readers the version before the current one, or version `number`, and return its id.

    Its vectors are there already unless the model was changed since; those that are missing are made first, so that
    readers see the current version until then. Raises `NotFound`, `EmbeddingFailed`.
    """
    async with transaction(engine) as connection:
        target = await publication.earlier(connection, document_id, number)
        space = await spaces.find(connection, embedder.model, embedder.dimension)
        missing = await publication.unembedded(connection, target["id"], space.id) if space else ()
    texts = [embedding_text(target["title"], row["heading_path"], row["text"]) for row in missing]
    vectors = await embedder.passages(texts) if texts else []
    async with transaction(engine) as connection:
        if space and vectors:
            fresh = {row["id"]: vector for row, vector in zip(missing, vectors, strict=True)}
            await publication.add_vectors(connection, target["id"], space.id, fresh)
        await publication.put_back(connection, document_id, target["number"])
        await outdating.sources_changed(connection, queue, [document_id])
    return int(target["id"])
