"""A tiny embedding model for tests: no weights, no download, the same vector in every process."""

import hashlib
import math
from collections.abc import Sequence


class HashEmbedder:
    """Words and character trigrams hashed into 64 signed buckets, so that similar text is near.

    Satisfies `store.embedding.Embedder`, and remembers what it was asked.
    """

    model = "hash-64"
    dimension = 64
    max_tokens = 512

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.passage_batches: list[list[str]] = []

    async def query(self, text: str) -> list[float]:
        self.queries.append(text)
        return self._vector(text)

    async def passages(self, texts: Sequence[str]) -> list[list[float]]:
        self.passage_batches.append(list(texts))
        return [self._vector(text) for text in texts]

    def count(self, text: str) -> int:
        """Tokens, never fewer than a real model's for prose."""
        return len(text.encode()) // 3 + 2

    def _vector(self, text: str) -> list[float]:
        lowered = text.lower()
        padded = f"  {lowered} "
        features = [*lowered.split(), *lowered, *(padded[i : i + 3] for i in range(len(padded) - 2))]
        vector = [0.0] * self.dimension
        for feature in features:
            digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
            vector[digest[0] % self.dimension] += 1.0 if digest[1] % 2 else -1.0
        length = math.sqrt(sum(value * value for value in vector))
        if length == 0:
            vector[0] = length = 1.0
        return [value / length for value in vector]
