"""Settings that do not fit together are found before anybody waits for an answer."""

from pathlib import Path
from typing import Any

import pytest

from bot.consistency import consistent
from bot.settings import Settings

SLACK = {"bot_token": "xoxb-1", "app_token": "xapp-1"}
HOLD = {"name": "contracts", "collections": ["contracts"], "action": "hold"}
TWO = {"name": "two", "action": "two_reviewers"}
SIGNED_UP = {"reviewers": ("slack:U0REV",), "admins": ("slack:U0ADM",), "channels": ("slack:C0REV",)}


def settings(**given: Any) -> Settings:
    return Settings(home=Path("/nowhere"), config=Path("/nowhere/signoff.toml"), **given)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("reviewers", {"review": {"reviewers": ()}}, "nobody may decide"),
        ("reviewers", {"review": {"reviewers": ("rita",)}}, "nobody could be rita"),
        ("reviewers", {"review": {"reviewers": ("slack:U1",)}}, "slack:U1: their platform"),
        ("reviewers", {"review": {"admins": ()}}, "no administrator"),
        ("reviewers", {"review": {"reviewers": ("web:one",), "rules": (TWO,)}}, "asks for two"),
        ("reviewers", {"slack": SLACK, "review": {"channels": ("slack:C0REV",)}}, "nobody in slack"),
        ("channels", {"slack": SLACK, "review": {"reviewers": ("slack:U0REV",)}}, "no review channel"),
        ("channels", {"review": {"channels": ("feishu:oc_1",)}}, "feishu:oc_1: their platform"),
        ("channels", {"operations": {"alerts": ("slack:C1",)}}, "slack:C1: their platform"),
        ("rules", {"review": {"rules": (HOLD,)}}, '"contracts" names contracts'),
    ],
)
def test_what_does_not_fit_is_named_with_a_remedy(name: str, given: dict[str, Any], said: str) -> None:
    """Each fault is in its own finding, which says what to do."""
    finding = next(one for one in consistent(settings(**given), {"hr"}) if one.name == name)
    assert not finding.ok
    assert said in finding.detail
    assert finding.remedy


@pytest.mark.parametrize(
    "given", [{}, {"slack": SLACK, "review": SIGNED_UP}, {"review": {"rules": (HOLD, TWO)}}]
)
def test_what_fits_is_left_alone(given: dict[str, Any]) -> None:
    """The defaults, a usual Slack installation, and rules for collections that are there."""
    assert [one for one in consistent(settings(**given), {"hr", "contracts"}) if not one.ok] == []
