"""The manifests grant what the code uses, and nothing else."""

import re
from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack import doctor
from tests.emulators.slack.scopes import EVENTS, METHODS, Manifest

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "bot" / "slack"
# Where the same method needs a scope for each family of conversations, those that it is called for.
FAMILIES = {"read": ("channels", "groups", "mpim"), "history": ("channels", "groups", "im", "mpim")}
SPEECH = {"message.channels", "message.groups", "message.im", "message.mpim"}
HEARD = {
    "app_mention", "app_home_opened", "app_uninstalled", "assistant_thread_started", "message", "tokens_revoked",
}  # fmt: skip


def methods() -> set[str]:
    """The Web API methods that the house calls, in Slack's spelling."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in HOUSE.glob("*.py"))
    found = set(re.findall(r"client\.([a-z]+_\w+)", source))
    # The client of Socket Mode has methods, too; those of the Web API are the other client's.
    return {name.replace("_", ".") for name in found if hasattr(AsyncWebClient, name)}


def needed() -> set[str]:
    scopes: set[str] = set()
    for method in methods():
        kinds = METHODS[method]
        if "{kind}" in "".join(kinds):
            ending = kinds[0].split(":")[1]
            scopes |= {f"{family}:{ending}" for family in FAMILIES[ending]}
        elif "chat:write" not in kinds:
            scopes |= set(kinds)
        else:
            scopes.add("chat:write")
    if 'shown.get("email")' in (HOUSE / "people.py").read_text(encoding="utf-8"):
        scopes.add("users:read.email")  # not of a method, but of a field in what users.info answers
    for event in (HEARD - {"message"}) | SPEECH:
        scopes |= set(EVENTS[event])
    return scopes | {"commands"}


def test_every_method_is_known_to_the_stand_in() -> None:
    """The house calls no method whose scope and rules nobody wrote down."""
    assert methods() - set(METHODS) == set()


def test_the_full_manifest_grants_exactly_what_is_used() -> None:
    """Every method and event has its scope; no scope is asked for without a use."""
    assert Manifest.read(ROOT / "manifests/slack.yaml").scopes == needed()


def test_the_full_manifest_subscribes_to_exactly_what_is_heard() -> None:
    """Events and listeners are the same set, and each listener is bound by name."""
    manifest = Manifest.read(ROOT / "manifests/slack.yaml")
    assert manifest.events == (HEARD - {"message"}) | SPEECH
    source = (HOUSE / "listen.py").read_text(encoding="utf-8")
    assert {name for name in HEARD if f'"{name}"' not in source} == set()


@pytest.mark.parametrize("name", ["slack.yaml", "slack-minimal.yaml"])
def test_no_event_is_subscribed_without_its_scope(name: str) -> None:
    """Slack refuses a manifest whose events lack their scopes."""
    manifest = Manifest.read(ROOT / "manifests" / name)
    assert {event for event in manifest.events if not manifest.delivers(event)} == set()


def test_the_minimal_manifest_is_what_the_doctor_calls_needed() -> None:
    """What the minimal manifest grants is what nothing works without; the rest is named with its effect."""
    minimal = Manifest.read(ROOT / "manifests/slack-minimal.yaml")
    full = Manifest.read(ROOT / "manifests/slack.yaml")
    assert minimal.scopes == doctor.NEEDED
    assert minimal.scopes < full.scopes
    assert full.scopes - minimal.scopes == set(doctor.BETTER)


@pytest.mark.parametrize("name", ["slack.yaml", "slack-minimal.yaml"])
def test_manifests_keep_slacks_own_limits(name: str) -> None:
    """Descriptions within the lengths of docs.slack.dev/reference/app-manifest, Socket Mode on, buttons on."""
    content = Manifest.read(ROOT / "manifests" / name).content
    assert len(content["display_information"]["name"]) <= 35
    assert len(content["display_information"]["description"]) <= 140
    assert len(content["features"].get("agent_view", {}).get("agent_description", "")) <= 300
    for command in content["features"]["slash_commands"]:
        assert re.fullmatch(r"/[a-z-]{1,31}", command["command"])
        assert len(command["description"]) <= 2_000
        assert len(command["usage_hint"]) <= 1_000
    assert content["settings"]["socket_mode_enabled"]
    assert content["settings"]["interactivity"]["is_enabled"]
