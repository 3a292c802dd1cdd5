"""The licences of what is installed with Signoff: `python -m tests.licences` writes the table of docs/licences.md.

What is listed is the closure of pyproject.toml's dependencies as the installed packages declare them, without the
extras for developers and benchmarks.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.tables import table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
BEGIN, END = "<!-- installed: written by python -m tests.licences -->", "<!-- /installed -->"
# Licences that would bind whoever runs Signoff for others, or everything it is put together with. The lesser GPL does
# not: psycopg is used as it is, and can be replaced by another build of itself.
REFUSED = re.compile(
    r"(?<![A-Za-z])(AGPL|GPL|GNU (Affero )?General Public|SSPL|Server Side Public|Elastic|BUSL|Commons Clause)",
    re.I,
)
# What classifiers and old licence lines call what SPDX has one name for.
SPDX: Mapping[str, str] = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
LONGEST = 60  # characters of a licence line that is a name and not a text


@dataclass(frozen=True, slots=True)
class Installed:
    """A package, the range that pyproject.toml allows ("" where another package brings it), its version, its licence
    ("" where it declares none) and who needs it."""

    name: str
    range: str
    version: str
    licence: str
    needed_by: tuple[str, ...]


def refused(licence: str) -> bool:
    """Whether every way of taking the licence is a refused one; of "MIT OR GPL-2.0" the first may be taken."""
    return all(REFUSED.search(choice) for choice in re.split(r"\bOR\b", licence))


def licence_of(found: Distribution) -> str:
    """As SPDX has it where the package says so, else by its line or its classifiers; "" where it says nothing."""
    told = found.metadata
    lines = [*(told.get_all("License-Expression") or ()), *(told.get_all("License") or ())]
    line = lines[0].strip() if lines else ""
    first = line.split("\n")[0].strip()
    if first in SPDX or (line and first == line and len(line) <= LONGEST):
        return SPDX.get(first, first)
    classified = [
        value.rpartition(" :: ")[2]
        for value in told.get_all("Classifier") or ()
        if value.startswith("License ::") and value != "License :: OSI Approved"
    ]
    return " AND ".join(SPDX.get(name, name) for name in classified)


def direct() -> list[Requirement]:
    """What pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in project["dependencies"]]


def installed() -> list[Installed]:
    """Every package of a plain installation, by name. Raises `PackageNotFoundError` where a direct one is missing."""
    ranges: dict[str, str] = {canonicalize_name(one.name): str(one.specifier) for one in direct()}
    found: dict[str, Distribution] = {}
    needed: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(one, "signoff") for one in direct()]
    while waiting:
        wanted, by = waiting.pop()
        name = canonicalize_name(wanted.name)
        needed.setdefault(name, set()).add(by)
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            found[name] = distribution(name)
            waiting += [(other, name) for other in _requires(found[name], extra)]
    return [
        Installed(
            name,
            ranges.get(name, ""),
            found[name].version,
            licence_of(found[name]),
            tuple(sorted(needed[name])),
        )
        for name in sorted(found)
    ]


def _requires(found: Distribution, extra: str) -> Iterable[Requirement]:
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None:
            applies = not extra
        else:
            applies = wanted.marker.evaluate({"extra": extra})
            applies = applies and not (extra and wanted.marker.evaluate({"extra": ""}))
        if applies and _there(wanted.name):
            yield wanted


def _there(name: str) -> bool:
    """What a marker of another system asks for is not here."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def listed(page: str) -> dict[str, str]:
    """Name → licence, as a page's table has them."""
    between = page.split(BEGIN, 1)[1].split(END, 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in between.splitlines()
        if line.startswith("|")
    ]
    return {cells[0].strip("`"): cells[3] for cells in rows[2:]}


def write() -> None:
    rows = [
        [f"`{one.name}`", one.range or "–", one.version, one.licence, ", ".join(one.needed_by)]
        for one in installed()
    ]
    head = ["package", "range", "version", "licence", "needed by"]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    left = table(head, rows).replace("| --- | ---: | ---: | ---: | ---: |", "| --- | --- | --- | --- | --- |")
    PAGE.write_text(f"{before}{BEGIN}\n{left}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
