"""What the checkpointer's tables hold: measured, dumped and loaded, without asking the checkpointer."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

# Logical bytes, before Postgres compresses anything: every column as text, blobs as they are.
PAYLOAD = {
    "checkpoints": "octet_length(checkpoint::text) + octet_length(metadata::text)"
    " + octet_length(checkpoint_id) + coalesce(octet_length(parent_checkpoint_id), 0)",
    "checkpoint_blobs": "coalesce(octet_length(blob), 0) + octet_length(channel) + octet_length(version)",
    "checkpoint_writes": "octet_length(blob) + octet_length(channel) + octet_length(task_id)"
    " + octet_length(checkpoint_id) + octet_length(task_path)",
}


@dataclass(frozen=True)
class Size:
    """Rows by table and bytes of all, thread ids included."""

    checkpoints: int
    blobs: int
    writes: int
    bytes: int

    @property
    def rows(self) -> int:
        return self.checkpoints + self.blobs + self.writes


def measure(url: str, thread: str | None = None) -> Size:
    """What is stored for `thread`, or for all threads."""
    counts: list[int] = []
    total = 0
    with psycopg.connect(url) as connection:
        for table in TABLES:
            query = (
                f"SELECT count(*), coalesce(sum({PAYLOAD[table]} + octet_length(thread_id)), 0)"
                f" FROM {table} WHERE %(thread)s::text IS NULL OR thread_id = %(thread)s"
            )
            row = connection.execute(query.encode(), {"thread": thread}).fetchone()
            assert row is not None
            counts.append(int(row[0]))
            total += int(row[1])
    return Size(counts[0], counts[1], counts[2], total)


def dump(url: str, thread: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of `thread` as JSON values; bytes in base64 under {"base64": …}."""
    found: dict[str, list[dict[str, Any]]] = {}
    with psycopg.connect(url, row_factory=dict_row) as connection:
        for table in TABLES:
            query = sql.SQL("SELECT * FROM {} WHERE thread_id = %s ORDER BY 1, 2, 3, 4").format(
                sql.Identifier(table)
            )
            rows = connection.execute(query, (thread,)).fetchall()
            found[table] = [{key: _packed(value) for key, value in row.items()} for row in rows]
    return found


def load(url: str, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Insert what `dump` returned."""
    with psycopg.connect(url) as connection:
        for table in TABLES:
            for row in rows[table]:
                query = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                    sql.Identifier(table),
                    sql.SQL(", ").join(map(sql.Identifier, row)),
                    sql.SQL(", ").join(sql.Placeholder() for _ in row),
                )
                connection.execute(query, [_unpacked(value) for value in row.values()])


def _packed(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]) if set(value) == {"base64"} else json.dumps(value)
    return value
