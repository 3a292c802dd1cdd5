"""Alembic's entry point: runs on the connection that `store.database.migrate` hands over, in its transaction."""

from typing import Any

from alembic import context

from store.schema import metadata


def ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Leave LangGraph's and procrastinate's tables to their own packages."""
    return kind != "table" or name in metadata.tables


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_name=ours,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
