"""The peers' side of `make bench-retrieval`, in an environment of its own: they pin other versions than ours.

    .venv-peers/bin/python bench/peers.py URL FOLDER    reads FOLDER/set.json and vectors.npz, writes FOLDER/peers.json

Nothing of ours is imported. All get the same passages, the same ready vectors (questions and passages), and the words
of Chinese cut by the same jieba. Milliseconds are those of one question, embedding not counted.
"""

import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rjieba

DEEPEST = 10
CANDIDATES = 50
OLD_TOP = 4

Retrieve = Callable[[int], list[str]]


class Job:
    """The set as it was handed over; questions go by their place."""

    def __init__(self, folder: Path) -> None:
        told = json.loads((folder / "set.json").read_text(encoding="utf-8"))
        self.ids: list[str] = told["ids"]
        self.texts: list[str] = told["texts"]
        self.questions: list[str] = told["questions"]
        with np.load(folder / "vectors.npz") as loaded:
            self.passages = loaded["passages"].astype("f4")
            self.queries = loaded["queries"].astype("f4")


def words(text: str) -> list[str]:
    """Chinese cut by jieba, all of it lower case: what both BM25 peers are given."""
    return [word for word in re.findall(r"\w+", " ".join(rjieba.cut(text.lower())))]


# --- the peers ---------------------------------------------------------------------------------------------------


def langchain(job: Job, url: str) -> Retrieve:
    """`EnsembleRetriever`, as its documentation shows it: BM25 in memory and PGVector, half the weight each."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_postgres import PGVector

    place_of = {text: place for place, text in enumerate(job.questions)}

    class Ready(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise NotImplementedError

        def embed_query(self, text: str) -> list[float]:
            vector: list[float] = job.queries[place_of[text]].tolist()
            return vector

    store = PGVector(Ready(), connection=url.replace("postgresql://", "postgresql+psycopg://"), use_jsonb=True,
                     embedding_length=job.passages.shape[1], pre_delete_collection=True)  # fmt: skip
    for start in range(0, len(job.ids), 1_000):
        part = slice(start, start + 1_000)
        store.add_embeddings(job.texts[part], job.passages[part].tolist(), [{"i": one} for one in job.ids[part]],
                             ids=job.ids[part])  # fmt: skip
    documents = [Document(text, metadata={"i": one}) for one, text in zip(job.ids, job.texts, strict=True)]
    sparse = BM25Retriever.from_documents(documents, preprocess_func=words, k=CANDIDATES)
    dense = store.as_retriever(search_kwargs={"k": CANDIDATES})
    both = EnsembleRetriever(retrievers=[sparse, dense], weights=[0.5, 0.5], id_key="i")
    return lambda place: [document.metadata["i"] for document in both.invoke(job.questions[place])]


def haystack(job: Job, url: str) -> Retrieve:
    """`PgvectorDocumentStore` with its embedding and keyword retrievers, joined by reciprocal rank, in a pipeline.

    Postgres cannot cut Chinese: its words are set apart by spaces in the text that the store is given.
    """
    from haystack import Document, Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.utils import Secret
    from haystack_integrations.components.retrievers.pgvector import (
        PgvectorEmbeddingRetriever,
        PgvectorKeywordRetriever,
    )
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    store = PgvectorDocumentStore(
        connection_string=Secret.from_token(url), embedding_dimension=job.passages.shape[1], recreate_table=True,
        vector_function="cosine_similarity", search_strategy="hnsw", language="simple",
    )  # fmt: skip
    documents = [
        Document(id=one, content=" ".join(words(text)), embedding=vector.tolist())
        for one, text, vector in zip(job.ids, job.texts, job.passages, strict=True)
    ]
    for start in range(0, len(documents), 1_000):
        store.write_documents(documents[start : start + 1_000])
    pipeline = Pipeline()
    pipeline.add_component("dense", PgvectorEmbeddingRetriever(document_store=store, top_k=CANDIDATES))
    pipeline.add_component("sparse", PgvectorKeywordRetriever(document_store=store, top_k=CANDIDATES))
    pipeline.add_component("joined", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=DEEPEST))
    pipeline.connect("dense", "joined")
    pipeline.connect("sparse", "joined")

    def retrieve(place: int) -> list[str]:
        asked = " ".join(words(job.questions[place]))
        found = pipeline.run(
            {"dense": {"query_embedding": job.queries[place].tolist()}, "sparse": {"query": asked}}
        )
        return [document.id for document in found["joined"]["documents"]]

    return retrieve


def old_chain(job: Job, url: str) -> Retrieve:
    """FAISS and the four nearest. The set's own passages stand in for its windows of 500 characters."""
    import faiss

    index = faiss.IndexFlatIP(job.passages.shape[1])
    index.add(np.ascontiguousarray(job.passages))

    def retrieve(place: int) -> list[str]:
        _, places = index.search(np.ascontiguousarray(job.queries[place : place + 1]), OLD_TOP)
        return [job.ids[one] for one in places[0]]

    return retrieve


PEERS: dict[str, Callable[[Job, str], Retrieve]] = {
    "LangChain EnsembleRetriever": langchain,
    "Haystack PgvectorDocumentStore, RRF": haystack,
    "old chain: FAISS, top 4": old_chain,
}


def run(job: Job, url: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, build in PEERS.items():
        began = time.perf_counter()
        retrieve = build(job, url)
        written = time.perf_counter() - began
        for place in range(min(10, len(job.questions))):
            retrieve(place)
        found: list[Sequence[str]] = []
        taken: list[float] = []
        for place in range(len(job.questions)):
            began = time.perf_counter()
            found.append(retrieve(place)[:DEEPEST])
            taken.append(1e3 * (time.perf_counter() - began))
        told[name] = {"found": found, "ms": taken, "written_s": written}
    return told


def main() -> None:
    warnings.simplefilter("ignore")
    url, folder = sys.argv[1], Path(sys.argv[2])
    (folder / "peers.json").write_text(json.dumps(run(Job(folder), url)), encoding="utf-8")


if __name__ == "__main__":
    main()
