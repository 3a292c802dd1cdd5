"""What stands beside every committed result: the command, the machine, the commit, and a hash of the settings."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.report.machine import machine

__all__ = ["ROOT", "digest", "folder_digest", "machine", "provenance", "when_and_where"]

ROOT = Path(__file__).resolve().parent.parent


def provenance(command: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Facts by which a result can be repeated; `config_hash` is the first 12 hex digits of the settings' sha256."""
    return {
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "commit": _git("rev-parse", "HEAD"),
        "modified": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "config": dict(config),
        "config_hash": digest(config),
    }


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def folder_digest(folder: Path) -> str:
    """One hash over the names and bytes of every file below `folder`."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def when_and_where(about: Mapping[str, Any]) -> str:
    """When, at which commit and on what: results of one page may come from several machines."""
    return f"{about['date'][:10]}, {about['commit'][:7]}, {about['machine']['processor']}"
