"""A retriever in memory: a few passages, found by the words they share with the query. Remembers its searches."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from store.passages import Passage, SearchResult
from store.words import tokens

UPDATED = datetime(2025, 1, 15, tzinfo=UTC)


def passage(
    identity: int,
    text: str,
    *,
    title: str = "Leave",
    document: int | None = None,
    heading: tuple[str, ...] = (),
    collection: str = "handbook",
    audience: Collection[str] = ("everyone",),
    labels: Collection[str] = (),
) -> Passage:
    """A passage with everything that a test does not care about filled in."""
    return Passage(
        id=identity,
        document_id=document or identity,
        version_id=identity,
        version=1,
        collection=collection,
        title=title,
        source=f"{title.lower()}.md",
        heading_path=heading or (title,),
        page=None,
        text=text,
        content_hash=f"hash-{identity}-{len(text)}",
        language="zh" if any("\u4e00" <= character <= "\u9fff" for character in text) else "en",
        audience=frozenset(audience),
        labels=frozenset(labels),
        updated_at=UPDATED,
    )


@dataclass
class Shelf:
    """Satisfies `rag_graph.contracts.Retriever`.

    Confidence is the share of the query's tokens that the best passage holds, unless `confidence` is set.
    """

    passages_: list[Passage] = field(default_factory=list)
    confidence: float | None = None
    calibrated: bool = True
    degraded: tuple[str, ...] = ()
    searches: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = field(default_factory=list)

    async def search(
        self,
        query: str,
        principals: Collection[str],
        *,
        top_k: int = 10,
        exclude: Collection[int] = (),
        collections: Collection[str] = (),
    ) -> SearchResult:
        self.searches.append((query, tuple(principals), tuple(exclude)))
        wanted = set(tokens(query))
        scored = [
            (len(wanted & set(tokens(f"{p.title} {p.text}"))) / max(1, len(wanted)), p)
            for p in self._readable(principals)
            if p.id not in exclude and (not collections or p.collection in collections)
        ]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:top_k]
        confidence = self.confidence if self.confidence is not None else (best[0][0] if best else 0.0)
        found = tuple(replace(p, score=score, similarity=score) for score, p in best)
        return SearchResult(
            found, confidence if found else 0.0, self.calibrated, self.degraded, {"embed": 1.0, "sql": 2.0}
        )

    async def passages(self, ids: Sequence[int], principals: Collection[str]) -> list[Passage]:
        readable = {p.id: p for p in self._readable(principals)}
        return [readable[identity] for identity in ids if identity in readable]

    async def section(self, passage_id: int, principals: Collection[str]) -> list[Passage]:
        readable = self._readable(principals)
        heads = {(p.document_id, p.heading_path) for p in readable if p.id == passage_id}
        return [p for p in readable if (p.document_id, p.heading_path) in heads]

    async def titles(self, principals: Collection[str]) -> list[str]:
        return list(dict.fromkeys(p.title for p in self._readable(principals)))

    def change(self, identity: int, text: str) -> None:
        """Another version of a passage's text takes its place."""
        self.passages_ = [
            replace(p, text=text, content_hash=f"changed-{identity}-{text}") if p.id == identity else p
            for p in self.passages_
        ]

    def hide(self, identity: int, audience: Collection[str] = ("web:nobody",)) -> None:
        """Its audience changes, so that readers without those principals find it no more."""
        self.passages_ = [
            replace(p, audience=frozenset(audience)) if p.id == identity else p for p in self.passages_
        ]

    def _readable(self, principals: Collection[str]) -> list[Passage]:
        return [p for p in self.passages_ if p.audience & set(principals)]
