"""Documents for tests, published the way ingestion publishes, without its three seconds of imports."""

from collections.abc import Sequence

from store import Store
from store.documents import NewChunk, NewDocument, VersionRow
from store.embedding import Embedder
from store.text import language


async def publish(  # a whole document in one call
    store: Store,
    embedder: Embedder,
    collection: str,
    source: str,
    texts: Sequence[str],
    *,
    title: str = "",
    audience: tuple[str, ...] | None = None,
) -> VersionRow:
    """Make `texts` the chunks of a new version of `source`, each under the title as its heading."""
    name = title or source.removesuffix(".md")
    version = await store.documents.add(
        NewDocument(
            collection=collection,
            source=source,
            data="\n".join(texts).encode(),
            uploaded_by="test",
            audience=audience,
        )
    )
    chunks = [NewChunk(n, (name,), None, text) for n, text in enumerate(texts)]
    vectors = await embedder.passages(texts)
    await store.documents.publish(
        version.id,
        chunks,
        vectors,
        markdown="\n\n".join(texts),
        pages=None,
        title=name,
        language=language(texts[0]),
    )
    await store.documents.refresh_statistics()
    return await store.documents.version(version.id)
