"""The real PgBouncer in transaction mode, before the server that a test was given."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import make_url

BINARY = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
ACCOUNT = "nobody"  # PgBouncer refuses to run as root

# Two sessions for everybody: nothing that a session keeps is found again by the next statement.
CONFIGURATION = """
[databases]
* = host={host} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
server_reset_query =
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
"""


@contextlib.contextmanager
def bounced(url: str, folder: Path) -> Iterator[str]:
    """The same database as `url`, reached through PgBouncer for the length of the block."""
    assert BINARY is not None
    server = make_url(url)
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    file = folder / "pgbouncer.ini"
    file.write_text(
        CONFIGURATION.format(
            host=server.query["host"],
            user=server.username,
            password=server.password,
            port=port,
            folder=folder,
        )
    )
    for path in (folder, *folder.parents):
        if path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    folder.chmod(0o777)
    process = subprocess.Popen([BINARY, "-u", ACCOUNT, str(file)], stderr=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield f"postgresql://{server.username}@127.0.0.1:{port}/{server.database}"
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(100):
        if process.poll() is not None:
            raise RuntimeError("pgbouncer did not start")
        with (
            contextlib.suppress(OSError),
            contextlib.closing(socket.create_connection(("127.0.0.1", port), 1)),
        ):
            return
        time.sleep(0.05)
    raise RuntimeError("pgbouncer does not answer")
