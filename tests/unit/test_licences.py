"""What is installed with Signoff may be: every package is on the page, under a licence that binds nobody else."""

import re
from importlib.metadata import distribution

import pytest

from tests.licences import PAGE, ROOT, installed, licence_of, listed, refused

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_installed_package_is_on_the_page_with_its_licence() -> None:
    """And each has one; run `python -m tests.licences` after a change of the dependencies."""
    found = {one.name: one.licence for one in installed()}
    assert [name for name, licence in found.items() if not licence] == []
    assert found.items() <= listed(TEXT).items()
    pinned = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    }
    assert listed(TEXT).keys() <= pinned


def test_none_of_them_is_under_a_licence_that_binds_others() -> None:
    """Neither those that are here nor those that only the page names."""
    found = {one.name: one.licence for one in installed()}
    assert {name: licence for name, licence in {**listed(TEXT), **found}.items() if refused(licence)} == {}
    assert refused(licence_of(distribution("psycopg"))) is False


@pytest.mark.parametrize(
    ("licence", "is_refused"),
    [
        ("AGPL-3.0-only", True),
        ("GPL-2.0-or-later", True),
        ("GNU Affero General Public License v3", True),
        ("SSPL-1.0", True),
        ("Elastic-2.0", True),
        ("BUSL-1.1", True),
        ("LGPL-3.0-only", False),
        ("MIT OR GPL-2.0-only", False),
        ("MIT AND GPL-2.0-only", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
    ],
)
def test_a_licence_is_refused_or_not(licence: str, is_refused: bool) -> None:
    """The check can fail, and knows a choice from an addition."""
    assert refused(licence) is is_refused


def test_every_file_that_others_wrote_is_named() -> None:
    """What the browser gets is ours or on the page, with the text of its licence beside it."""
    static = ROOT / "bot" / "web" / "static"
    for path in static.iterdir():
        assert f"`{path.name}`" in TEXT, path.name
    for name in ("htmx", "htmx-sse"):
        assert (static / f"{name}.LICENSE.txt").exists()
