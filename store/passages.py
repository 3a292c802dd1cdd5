"""What the data side hands out: passages, and the result of one search. Leaf vocabulary, no imports of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved chunk of a visible document version.

    `score` is the fused reciprocal-rank score (unitless, comparable within one search only). The ranks are
    1-based places in each leg, None where that leg did not return it; `similarity` is the cosine in [-1, 1] and
    `bm25` the Okapi score.
    """

    id: int
    document_id: int
    version_id: int
    version: int
    collection: str
    title: str
    source: str
    heading_path: tuple[str, ...]
    page: int | None
    text: str
    content_hash: str
    language: str
    audience: frozenset[str]
    labels: frozenset[str]
    updated_at: datetime
    ordinal: int = 0
    score: float = 0.0
    vector_rank: int | None = None
    keyword_rank: int | None = None
    similarity: float | None = None
    bm25: float | None = None
    # Why it is where it is: what each leg added to `score`, by name (see `store.ranking.shares`).
    shares: Mapping[str, float] = field(default_factory=dict)
    # The chunks it was joined from, in document order (`store.joining`); empty of one chunk alone.
    parts: tuple[int, ...] = ()
    reranked: float | None = None  # the reranker's judgement, on its own scale; None without one


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages best first, and how sure search is that they answer.

    `confidence` is in [0, 1], calibrated per embedding space where `calibrated` is true; `degraded` names what was
    missing ("embedding": keywords alone; "rerank": in the order of the search); `timings` are milliseconds by step
    ("embed", "sql", "rank", "rerank").
    """

    passages: tuple[Passage, ...]
    confidence: float
    calibrated: bool
    degraded: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    corpus_version: int = 0
