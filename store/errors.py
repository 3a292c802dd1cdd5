"""What can go wrong in the store.

Each docstring is its error's default message and tells the operator the next action. Driver errors are
translated once, by `translated`, so that no caller above this package needs to know the driver.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy.exc


class StoreError(Exception):
    """The store failed; the cause below says how."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class DatabaseUnavailable(StoreError):
    """The database does not answer. Check SIGNOFF_DATABASE_URL and that Postgres runs; work resumes by itself."""


class SchemaOutdated(StoreError):
    """The database schema is not the one this version expects. Run `signoff migrate` and start again."""


class SchemaAhead(StoreError):
    """A newer version of Signoff migrated this database. Install that version again, or restore a backup."""


class ExtensionMissing(StoreError):
    """pgvector 0.8.6 or newer is needed. Install it, then CREATE EXTENSION vector or ALTER EXTENSION vector UPDATE."""


class EmbeddedPostgresFailed(StoreError):
    """The embedded PostgreSQL did not start or stop; its log says why. SIGNOFF_DATABASE_URL uses another server."""


class OtherMajorVersion(EmbeddedPostgresFailed):
    """The data belongs to another PostgreSQL major version. Dump it with that version, or move the folder away."""


class NotFound(StoreError):
    """Nothing is stored under that id."""


class EmbeddingFailed(StoreError):
    """The embedding model did not answer. Search goes on with keywords alone until it does."""


class RerankFailed(StoreError):
    """The reranking endpoint did not give a usable order. Check SIGNOFF_RERANK_BASE_URL and SIGNOFF_RERANK_MODEL; until
    it does, passages stay in the order that search put them in."""


class Unstorable(StoreError, ValueError):
    """A value that no row can hold, such as a number beyond eight bytes. Nothing was stored or found."""


class IngestError(StoreError):
    """The document could not be read.

    `code` is a key of the words files (`ingest.<code>`), so that the person who uploaded it reads what is wrong
    and what to do in their own language; `detail` is a name or number for that sentence, never document text.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


def is_outage(error: BaseException) -> bool:
    """Whether `error` says that the database is away, and not that a statement went wrong.

    SQLSTATE classes: 08 connection, 53 out of resources, 57P shutdown and start-up; none where no answer came.
    A deadlock or a statement's time-out is no outage: repeating it for ever would hide it.
    """
    driver = getattr(error, "orig", error)
    if isinstance(error, DatabaseUnavailable | sqlalchemy.exc.TimeoutError | sqlalchemy.exc.InterfaceError):
        return True
    if not isinstance(driver, psycopg.OperationalError):
        return False
    return driver.sqlstate is None or driver.sqlstate.startswith(("08", "53", "57P"))


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's failures to reach the database into `DatabaseUnavailable`, and its refusal of a value into
    `Unstorable`; let everything else through."""
    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        if is_outage(error):
            raise DatabaseUnavailable from error
        if isinstance(getattr(error, "orig", error), psycopg.DataError):
            raise Unstorable from error
        raise
