"""The manifest asks for what the code uses, and for nothing else."""

import re
from pathlib import Path

from bot.feishu import doctor, events
from tests.emulators.feishu.permissions import APIS, CALLBACKS, EMAILS, EVENTS, NAMES, Manifest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "bot" / "feishu"
MANIFEST = Manifest.read(ROOT / "manifests" / "feishu.yaml")
# Each of the three lets another kind of message arrive: direct ones, mentions, and all that is said in groups.
HEARD = {"im:message.p2p_msg:readonly", "im:message.group_at_msg:readonly", "im:message.group_msg"}


def addresses() -> set[tuple[str, str]]:
    """What the house calls: every `Api(...)`, and the long connection's endpoint."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in HOUSE.glob("*.py"))
    found = set(re.findall(r'Api\(\s*"([A-Z]+)", "([^"]+)"\s*\)', source))
    return found | {("POST", path) for path in re.findall(r'ENDPOINT = "([^"]+)"', source)}


def test_every_address_is_known_to_the_stand_in() -> None:
    """The house calls no address whose permission and rules nobody wrote down, and each of its names is used."""
    assert addresses() - set(APIS) == set()
    source = "\n".join(path.read_text(encoding="utf-8") for path in HOUSE.glob("*.py"))
    for name in re.findall(r"^(\w+) = Api\(", source, re.MULTILINE):
        assert len(re.findall(rf"\b{name}\b", source)) > 1, name


def test_the_manifest_asks_for_exactly_what_is_used() -> None:
    """Of several permissions that would do, the narrowest; those for fields of people; those that let messages in."""
    narrowest = {APIS[address][0] for address in addresses() if APIS[address]}
    assert MANIFEST.scopes == narrowest | HEARD | {NAMES, EMAILS}
    assert set(EVENTS[events.MESSAGE]) == HEARD


def test_events_and_callbacks_are_what_is_heard() -> None:
    """Two pages of the console, two lists; no event without its permission."""
    assert MANIFEST.events == {events.MESSAGE, events.RECALLED}
    assert MANIFEST.callbacks == {events.CLICK} == CALLBACKS
    for event in MANIFEST.events:
        assert MANIFEST.scopes & set(EVENTS[event])


def test_the_doctor_knows_the_same_permissions() -> None:
    """What the manifest calls needed is what nothing works without; the rest is named with its effect."""
    assert set(MANIFEST.content["permissions"]["needed"]) == doctor.NEEDED
    assert set(MANIFEST.content["permissions"]["better"]) == set(doctor.BETTER)


def test_the_installation_page_names_every_permission() -> None:
    """Whoever follows docs/install-feishu.md grants all of them, in either language."""
    page = (ROOT / "docs" / "install-feishu.md").read_text(encoding="utf-8")
    for scope in MANIFEST.scopes | MANIFEST.events | MANIFEST.callbacks:
        assert page.count(scope) >= 1, scope
