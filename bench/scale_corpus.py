"""A large corpus with the shape of real ones: text and vectors in the neighbourhood of the public sets' passages.

Vectors of independent Gaussian noise have no neighbourhoods: in 384 dimensions every pair is equally far apart, and no
approximate index finds "the nearest" of them. Here a chunk's vector is a real passage's, moved along the difference of
two others (so along directions that the model uses), and its text is sentences of that passage and of one more.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg

from bench.corpus import PublicSet, load
from store.text import clean, sentences
from store.words import lexemes, tsvector_literal

SETS = ("zh_cmrc_chunk", "en_multihop", "en_scifact", "en_mtrag")
CHUNKS_OF_A_DOCUMENT = 20
# How far from the passage it comes from, as a share of the distance between two random passages: at .5 the nearest
# neighbour of a chunk is as near (cosine .90 to .93) as that of a chunk in zh_cmrc_chunk, whose chunks are 150
# characters of the same articles.
MOVED = 0.5
SEED = 7

Vector = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A real passage: its sentences, its language and its unit vector."""

    sentences: Sequence[str]
    language: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk to be written. `document` counts from 0."""

    number: int
    document: int
    language: str
    text: str
    vector: Vector


def sources() -> list[Source]:
    """Every passage of the sets that has a vector."""
    return [
        Source(sentences(row.text) or [row.text], row.language, public.passage_vectors[row.id])
        for public in _sets()
        for row in public.rows
        if row.id in public.passage_vectors
    ]


def questions(count: int) -> list[tuple[str, Vector]]:
    """Real questions with their vectors, as many of each set, in a fixed order."""
    of_sets = [
        [
            (clean(q["text"]), public.query_vectors[q["id"]])
            for q in public.queries
            if q["id"] in public.query_vectors
        ]
        for public in _sets()
    ]
    mixed = [pair for row in zip(*of_sets, strict=False) for pair in row]
    return list(dict(mixed).items())[:count]


def _sets() -> Iterator[PublicSet]:
    for name in SETS:
        yield load(name)


def chunks(start: int, stop: int, pool: Sequence[Source]) -> Iterator[Chunk]:
    """Chunks `start` to `stop`; the same ones however the range is divided. A document is in one language."""
    of_language = {name: [s for s in pool if s.language == name] for name in ("zh", "en")}
    for number in range(start, stop):
        document = number // CHUNKS_OF_A_DOCUMENT
        # By the dozen, so that every audience has documents of both.
        language = "zh" if document // 12 % 2 else "en"
        chance = random.Random(SEED * 1_000_003 + number)
        near, other, third = (chance.choice(of_language[language]) for _ in range(3))
        moved = near.vector + MOVED * (other.vector - third.vector)
        said = [*chance.choices(near.sentences, k=2), *chance.choices(other.sentences, k=2)]
        joint = "" if language == "zh" else " "
        yield Chunk(
            number, document, language, joint.join(dict.fromkeys(said)), moved / np.linalg.norm(moved)
        )


def audience(document: int) -> str:
    """One document in a hundred is for `web:one` alone, one in ten for `web:ten`, the others for everyone."""
    if document % 100 == 50:
        return "web:one"
    return "web:ten" if document % 10 == 1 else "everyone"


def write(connection: "psycopg.Connection[Any]", space: int, rows: Sequence[Chunk]) -> None:
    """COPY whole documents with their chunks and vectors, in the way of `bench.corpus.store`; ids are numbers + 1."""
    documents = {row.document: row.language for row in rows}
    with connection.cursor() as cursor:
        with cursor.copy(
            "COPY documents (id, collection, source, title, language, audience, current_version_id) FROM STDIN"
        ) as copy:
            for document, language in documents.items():
                copy.write_row(
                    (
                        document + 1,
                        "bench",
                        str(document),
                        f"T{document}",
                        language,
                        [audience(document)],
                        document + 1,
                    )
                )
        with cursor.copy(
            "COPY versions (id, document_id, number, state, content_hash, chunk_count) FROM STDIN"
        ) as copy:
            for document in documents:
                copy.write_row((document + 1, document + 1, 1, "live", str(document), CHUNKS_OF_A_DOCUMENT))
        with cursor.copy(
            "COPY chunks (id, version_id, ordinal, text, content_hash, tokens, length) FROM STDIN"
        ) as copy:
            for row in rows:
                terms = lexemes(row.text)
                place = row.number % CHUNKS_OF_A_DOCUMENT
                copy.write_row(
                    (
                        row.number + 1,
                        row.document + 1,
                        place,
                        row.text,
                        str(row.number),
                        tsvector_literal(terms),
                        len(terms),
                    )
                )
        with cursor.copy(
            "COPY embeddings (space_id, chunk_id, version_id, vector, language) FROM STDIN"
        ) as copy:
            for row in rows:
                literal = "[" + ",".join(f"{value:.5g}" for value in row.vector) + "]"
                copy.write_row((space, row.number + 1, row.document + 1, literal, row.language))
