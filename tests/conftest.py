"""Fixtures for everybody: one embedded server a session, and a database of its own for each test."""

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import structlog
from psycopg import sql
from sqlalchemy import make_url

from store import Store, open_store
from store.database import migrate
from store.embedded import EmbeddedPostgres
from tests.embedder import HashEmbedder

_configure = structlog.configure


def _uncached(*arguments: Any, **settings: Any) -> None:
    _configure(*arguments, **{**settings, "cache_logger_on_first_use": False})


# A command that runs in this process configures the log: a logger that it caches, and its level, would make
# `capture_logs` deaf in every later test.
structlog.configure = _uncached

TEMPLATE = "signoff_template"

# A deadline for each example judges the neighbours on the same processors.
hypothesis.settings.register_profile("shared", deadline=None)
hypothesis.settings.load_profile("shared")


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """An embedded server in a folder of its own, without fsync. Reads nothing from the environment."""
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        server = EmbeddedPostgres(Path(folder) / "home", durable=False)
        yield server.start()
        server.stop()


@pytest.fixture(scope="session")
def admin(postgres_url: str) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    """A session that may create and drop databases."""
    with psycopg.connect(_database(postgres_url, "postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(postgres_url: str, admin: "psycopg.Connection[tuple[object, ...]]") -> str:
    """The name of a migrated, empty database that tests are cloned from."""
    admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    asyncio.run(migrate(_database(postgres_url, TEMPLATE)))
    return TEMPLATE


@pytest.fixture
def empty_database_url(postgres_url: str, admin: "psycopg.Connection[tuple[object, ...]]") -> Iterator[str]:
    """A database with nothing in it."""
    name = f"t_{uuid.uuid4().hex}"
    admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield _database(postgres_url, name)
    _drop(admin, name)


Cloning = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def cloning(postgres_url: str, admin: "psycopg.Connection[tuple[object, ...]]", template: str) -> Cloning:
    """Makes migrated, empty databases, each for the length of a block."""

    @contextmanager
    def cloned() -> Iterator[str]:
        name = f"t_{uuid.uuid4().hex}"
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        yield _database(postgres_url, name)
        _drop(admin, name)

    return cloned


@pytest.fixture
def database_url(cloning: Cloning) -> Iterator[str]:
    """A migrated, empty database."""
    with cloning() as url:
        yield url


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
async def store(database_url: str, embedder: HashEmbedder) -> AsyncIterator[Store]:
    """The whole store over a database of its own."""
    async with open_store(database_url, embedder) as opened:
        yield opened


def _database(server: str, name: str) -> str:
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def _drop(admin: "psycopg.Connection[tuple[object, ...]]", name: str) -> None:
    admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
