"""How much processor time each kind of process took, from /proc: what a rate that is not reached was spent on."""

import os
from pathlib import Path

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")


def seconds(process: int) -> float:
    """User and system time of a process and of its children that have ended; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def of_postgres(url: str) -> float:
    """The same of the whole server behind `url`, which runs here."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = _parent(row[0])
        family = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return seconds(postmaster) + sum(seconds(one) for one in family if _parent(one) == postmaster)


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
