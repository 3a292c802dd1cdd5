"""The release before the present schema, as it was committed: what an upgrade starts from."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from store.schema import REVISION
from tests.emulators.slack.client import ROOT
from tests.load.fleet import clean_environment

__all__ = ["Missing", "previous", "run"]


class Missing(Exception):
    """The history that a checkout needs for this is not there; the message says what of it."""


def previous(folder: Path) -> Path:
    """Unpack the last commit whose schema was the one before `REVISION`. Raises `Missing` in a shallow clone."""
    changed = _git("log", "-1", "--format=%H", f'-SREVISION = "{REVISION}"', "--", "store/schema.py").decode()
    if not changed.strip():
        raise Missing(f"the commit that made the schema {REVISION} is not in this checkout")
    archive = _git("archive", f"{changed.strip()}^", "bot", "rag_graph", "store", "tests", "bench")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def run(root: Path, *arguments: str, environment: Mapping[str, str]) -> None:
    """Run `python ARGUMENTS` on the source in `root` to its end. Raises AssertionError with what it wrote."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**clean_environment(), **environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr[-3_000:]}"


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise Missing(done.stderr.decode().strip() or "git has no history here")
    return done.stdout
