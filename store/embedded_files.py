"""Where the embedded server's files lie, and to whom they belong."""

import hashlib
import os
import pwd
import shutil
from pathlib import Path
from typing import Any

from store.errors import EmbeddedPostgresFailed

__all__ = ["base_folder", "copy_software", "digest", "remove_older", "server_account", "write_secret"]


def server_account() -> dict[str, Any]:
    """Whom to run as, in subprocess's own words; empty for an ordinary user, who runs the server as itself."""
    if os.getuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise EmbeddedPostgresFailed(
            "PostgreSQL does not run as root and there is no account `nobody`. Start Signoff as an ordinary user."
        ) from error
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def base_folder(home: Path, state: Path, *, shared: bool) -> Path:
    """Where the cluster lives. One that exists is kept, so that a changed permission never hides the data."""
    near, far = home / "postgres", state / digest(home)
    if not shared or (near / "data").exists():
        return near
    if (far / "data").exists():
        return far
    return near if _open_to_others(home) else far


def _open_to_others(home: Path) -> bool:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    return all(folder.stat().st_mode & 0o001 for folder in (existing, *existing.resolve().parents))


def digest(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]


def copy_software(package: Path, target: Path) -> None:
    """Copy the wheel's server and its libraries, readable by everyone and written by root alone."""
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    libraries = package.with_name(package.name + ".libs")
    shutil.copytree(
        package / "pginstall",
        part / package.name / "pginstall",
        symlinks=True,
        ignore=shutil.ignore_patterns("include"),
    )
    if libraries.exists():
        shutil.copytree(libraries, part / libraries.name, symlinks=True)
    for path in (part, *part.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    part.rename(target)


def remove_older(target: Path) -> None:
    """Remove the copies of other versions. Only while no server runs: a running one loads libraries from its own."""
    for older in target.parent.glob("software-*"):
        if older != target:
            shutil.rmtree(older)


def write_secret(path: Path, secret: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret)
