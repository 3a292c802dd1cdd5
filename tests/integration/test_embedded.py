"""The embedded PostgreSQL: starts, adopts, recovers, keeps to itself."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from store.embedded import EmbeddedPostgres
from store.errors import EmbeddedPostgresFailed, OtherMajorVersion

ROOT = Path(__file__).parents[2]
START = """
import pathlib, sys
from store.embedded import EmbeddedPostgres
print(EmbeddedPostgres(pathlib.Path(sys.argv[1]), durable=False).start())
"""
# Privileges are dropped after the imports: the interpreter itself may lie below a closed /root.
AS_NOBODY = """
import os, pathlib, pwd, sys
from store.embedded import EmbeddedPostgres
nobody = pwd.getpwnam("nobody")
os.setgroups([]); os.setgid(nobody.pw_gid); os.setuid(nobody.pw_uid)
server = EmbeddedPostgres(pathlib.Path(sys.argv[1]), durable=False)
print(server.start())
server.stop()
"""

Make = Callable[[str], EmbeddedPostgres]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other accounts may pass through, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def make(folder: Path) -> Iterator[Make]:
    """Makes servers below `folder` and stops them at the end."""
    made: list[EmbeddedPostgres] = []

    def build(home: str) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(folder / home, durable=False, state=folder / "state"))
        return made[-1]

    yield build
    for server in made:
        server.stop()


@pytest.fixture(scope="module")
def server(make: Make) -> EmbeddedPostgres:
    """A server with a table in it, shared: initdb takes a second."""
    shared = make("home")
    with psycopg.connect(shared.start()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    return shared


def pid(server: EmbeddedPostgres) -> int:
    return int((server.data / "postmaster.pid").read_text().split()[0])


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def python(code: str, home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_stops_and_is_back_within_three_seconds(server: EmbeddedPostgres) -> None:
    """A stopped server keeps its data and is back in three seconds; stopping twice is harmless."""
    server.start()
    server.stop()
    assert not server.running()
    server.stop()
    began = time.monotonic()
    url = server.start()
    assert time.monotonic() - began < 3
    assert server.running()
    assert ask(url, "SELECT answer FROM kept") == 42


def test_offers_pgvector_on_a_private_socket_only(server: EmbeddedPostgres) -> None:
    """No network port, a password of 0600, one encoding everywhere, the vector extension at hand."""
    url = server.start()
    assert ask(url, "SHOW listen_addresses") == ""
    assert ask(url, "SHOW server_encoding") == "UTF8"
    assert ask(url, "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'") == "0.8.6"
    assert stat.S_IMODE((server.home / "postgres.password").stat().st_mode) == 0o600
    assert stat.S_IMODE((server.base / "run").stat().st_mode) == 0o700
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace("signoff:", "signoff:wrong"))


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's server runs as that user")
def test_root_hands_the_server_to_nobody(server: EmbeddedPostgres) -> None:
    """Postgres refuses root, and root's server may not own anything but its data."""
    server.start()
    assert Path(f"/proc/{pid(server)}").stat().st_uid != 0
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert (server.base / "postgresql.conf").stat().st_uid == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another account")
def test_an_ordinary_user_runs_it_from_the_wheel(folder: Path) -> None:
    """Without root nothing is copied: the server runs as the caller."""
    home = folder / "ordinary"
    home.mkdir()
    home.chmod(0o777)
    process = python(AS_NOBODY, home)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert said.startswith("postgresql://signoff:")
    assert not list((home / "postgres").glob("software-*"))


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user may always read its own home")
def test_a_closed_home_moves_the_cluster_out_of_it(make: Make, folder: Path) -> None:
    """/root is 0700: the data goes to the state folder, is found again, and stays there when /root opens up."""
    (folder / "closed").mkdir(mode=0o700)
    closed = make("closed/home")
    with psycopg.connect(closed.start()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert closed.base.is_relative_to(folder / "state")
    (folder / "closed").chmod(0o755)
    again = make("closed/home")
    assert again.base == closed.base
    assert ask(again.start(), "SELECT answer FROM kept") == 42


def test_a_running_server_is_adopted(server: EmbeddedPostgres, make: Make) -> None:
    """start() on a running server returns its URL at once and starts nothing."""
    url = server.start()
    first = pid(server)
    began = time.monotonic()
    assert make("home").start() == url
    assert time.monotonic() - began < 1
    assert pid(server) == first


def test_outlives_its_starter_and_is_adopted_by_the_next(server: EmbeddedPostgres, folder: Path) -> None:
    """When the process that started it dies, the server stays, and whoever starts next has it."""
    server.stop()
    said, complaint = python(START, folder / "home").communicate(timeout=60)
    assert said, complaint
    left = pid(server)
    assert server.start() == said.strip()
    assert pid(server) == left


def test_two_starts_at_once_end_with_one_server(make: Make, folder: Path) -> None:
    """Two processes that start the same new home get the same URL, and both can connect.

    The home's name is longer than a socket's path may be.
    """
    name = "a-very-long-name-of-a-folder" * 4
    both = [python(START, folder / name) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    urls = {out.strip() for out, _ in said}
    assert len(urls) == 1
    assert ask(urls.pop(), "SELECT 1") == 1
    started = make(name)
    assert started.running()
    sockets = Path(str(ask(started.start(), "SHOW unix_socket_directories")))
    started.stop()
    assert not sockets.exists()


def test_recovers_from_kill_9(server: EmbeddedPostgres) -> None:
    """After SIGKILL of the server the pid file is stale; the next start replays the log and has all commits."""
    server.start()
    os.kill(pid(server), signal.SIGKILL)
    assert ask(server.start(), "SELECT answer FROM kept") == 42


def test_a_stale_pid_that_is_now_a_stranger_does_not_block(server: EmbeddedPostgres) -> None:
    """The number in a left-over pid file may be another process's by now (in a container it usually is)."""
    server.start()
    server.stop()
    left_over = f"{os.getpid()}\n{server.data}\n1\n5432\n{server.base / 'run'}\n\n  1 1\nready   \n"
    (server.data / "postmaster.pid").write_text(left_over)
    assert not server.running()
    assert ask(server.start(), "SELECT 1") == 1


def test_a_killed_initdb_is_done_again(make: Make) -> None:
    """What a first start left half made is not taken for a cluster. (Homes have spaces and accents in their names.)"""
    half = make("half 一半, it's")
    (half.base / "initdb").mkdir(parents=True)
    (half.base / "initdb" / "PG_VERSION").write_text("18\n")
    (half.base / "initdb.password").write_text("left over")
    assert ask(half.start(), "SELECT 1") == 1


def test_another_major_version_is_named_and_left_alone(server: EmbeddedPostgres) -> None:
    """Data of PostgreSQL 17 is refused with both versions in the message, before anything touches it."""
    server.start()
    server.stop()
    (server.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(OtherMajorVersion, match="PostgreSQL 17, and this version of Signoff brings 18"):
        server.start()
    (server.data / "PG_VERSION").write_text("18\n")


def test_a_lost_password_is_replaced(server: EmbeddedPostgres) -> None:
    """Removing HOME does not lock anybody out of data that lives elsewhere."""
    old = server.start()
    (server.home / "postgres.password").unlink()
    new = server.start()
    assert new != old
    assert ask(new, "SELECT answer FROM kept") == 42


def test_stops_only_when_nobody_uses_it(server: EmbeddedPostgres) -> None:
    """`if_idle` leaves the server to the command that still works with it."""
    with psycopg.connect(server.start()):
        server.stop(if_idle=True)
        assert server.running()
    deadline = time.monotonic() + 5
    while server.running() and time.monotonic() < deadline:
        server.stop(if_idle=True)
    assert not server.running()


def test_the_log_does_not_quote_people(server: EmbeddedPostgres) -> None:
    """Errors, their details and their statements stay out of the server's log."""
    with psycopg.connect(server.start()) as connection, pytest.raises(psycopg.DataError):
        connection.execute("SELECT 'how much does Ada earn'::int")
    server.stop()
    logged = "".join(path.read_text() for path in (server.base / "log").iterdir())
    assert "database system is ready" in logged
    assert "Ada" not in logged


def test_another_spelling_of_the_home_finds_the_same_server(
    server: EmbeddedPostgres, make: Make, folder: Path
) -> None:
    """Through a link the running server is adopted: a second one on the same data would destroy it."""
    url = server.start()
    (folder / "link").symlink_to(folder / "home")
    assert make("link").start() == url


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs from a copy")
def test_a_running_server_keeps_the_software_it_runs_from(server: EmbeddedPostgres, make: Make) -> None:
    """Adopting removes nothing; the next launch removes what nobody runs from any more."""
    server.start()
    older = server.base / "software-18.0.0"
    older.mkdir()
    make("home").start()
    assert older.exists()
    server.stop()
    server.start()
    assert not older.exists()


def test_a_home_that_a_shell_would_read_is_refused(make: Make) -> None:
    """pg_ctl passes its paths through a shell."""
    with pytest.raises(EmbeddedPostgresFailed, match="Choose a home"):
        make("$(touch here)").start()


def test_a_home_that_cannot_be_made_says_so(make: Make, folder: Path) -> None:
    """A file where the folder should be: one sentence instead of a traceback."""
    (folder / "file").write_text("")
    with pytest.raises(EmbeddedPostgresFailed, match="no place to live"):
        make("file/home").start()


def test_a_broken_cluster_says_why(make: Make) -> None:
    """A start that fails raises with the server's own words instead of waiting."""
    broken = make("home")
    broken.stop()
    (broken.data / "global" / "pg_control").rename(broken.data / "global" / "pg_control.away")
    with pytest.raises(EmbeddedPostgresFailed, match="could not find the database system"):
        broken.start()
    (broken.data / "global" / "pg_control.away").rename(broken.data / "global" / "pg_control")
