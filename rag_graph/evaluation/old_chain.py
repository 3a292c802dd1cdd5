"""The chain that a knowledge base like this one is usually built on first, to compare whole answers with.

Windows of 500 characters with 50 overlap, the four nearest to the history and the question as one text, all of them
pasted, and always an answer. It has the same embedding model and the same writer as ours, so that a difference is the
chain's. The nearest are found by comparing with every window, as the flat index it had did.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from rag_graph.contracts import Draft, Material, Passage, Question, Turn, Writer
from rag_graph.evaluation.datasets import SetUnusable
from store.embedding import Embedder
from store.scratch import Row
from store.text import clean

__all__ = ["Answered", "OldChain", "windows"]

SIZE: Final = 500
OVERLAP: Final = 50
TOP: Final = 4


def windows(text: str) -> list[str]:
    """`text` by character alone; neighbours share 50."""
    text = clean(text)
    return [text[at : at + SIZE] for at in range(0, max(len(text) - OVERLAP, 1), SIZE - OVERLAP)]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a chain made of one question: `first` and `cited` are ids of the set's rows, of the passage that it found
    first ("" for none) and of those that the answer points to; `tokens` as the endpoint counts them."""

    draft: Draft
    searched: tuple[str, ...]
    first: str
    cited: frozenset[str]
    tokens: Mapping[str, int]


class OldChain:
    """An index in memory. Raises `SetUnusable` without an embedding model."""

    def __init__(
        self, passages: Sequence[Passage], vectors: np.ndarray[Any, Any], embedder: Embedder
    ) -> None:
        self._passages = passages
        self._vectors = vectors
        self._embedder = embedder

    @classmethod
    async def of(cls, rows: Sequence[Row], embedder: Embedder) -> "OldChain":
        """The chain over the texts of `rows`."""
        passages = [
            _passage(row, text, number)
            for number, (row, text) in enumerate(
                ((row, text) for row in rows for text in windows(row.text)), 1
            )
        ]
        vectors = await embedder.passages([passage.text for passage in passages])
        if not vectors:
            raise SetUnusable("The old chain searches by vectors alone: an embedding model is needed.")
        return cls(passages, np.array(vectors, dtype=float), embedder)

    async def answer(
        self, question: Question, turns: Sequence[Turn], readers: Sequence[str], writer: Writer
    ) -> Answered:
        """Written from the four nearest windows that `readers` may read."""
        pasted = "\n".join(
            [*(f"user: {turn.question}\nassistant: {turn.answer}" for turn in turns), question.text]
        )
        near = self._vectors @ np.array(await self._embedder.query(pasted), dtype=float)
        readable = [at for at in np.argsort(-near) if self._passages[at].audience & set(readers)]
        found = tuple(self._passages[at] for at in readable[:TOP])
        written = await writer.draft(question, turns, "", Material(found))
        text = written.text or (f"{found[0].text} [1]" if found else "")
        marked = {int(number) for number in re.findall(r"\[(\d+)\]", text)}
        return Answered(
            Draft(text, written.kind),
            (pasted,),
            found[0].source if found else "",
            frozenset(passage.source for number, passage in enumerate(found, 1) if number in marked),
            written.tokens,
        )


def _passage(row: Row, text: str, number: int) -> Passage:
    return Passage(
        id=number,
        document_id=number,
        version_id=number,
        version=1,
        collection="evaluation",
        title=row.title,
        source=row.id,
        heading_path=(),
        page=None,
        text=text,
        content_hash=str(number),
        language=row.language,
        audience=frozenset(row.audience),
        labels=frozenset(),
        updated_at=datetime.now(UTC),
    )
