"""What Slack's mark-up means in a command."""

import pytest

from bot.principals import unreadable
from bot.slack.commands import principals


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("audience 3 <#C0HR|hr> <@U0LIN|lin> <@W12>", "audience 3 slack:C0HR slack:U0LIN slack:W12"),
        ("audience 3 <!subteam^S0KB|@kb>", "audience 3 slack:S0KB"),
        ("pause here off", "pause slack:C0GEN off"),
        ("add <https://a.example/b?c=1|a.example/b> hr", "add https://a.example/b?c=1 hr"),
        ("add <https://a.example/b> hr", "add https://a.example/b hr"),
        ("search R&amp;D &lt;draft&gt;", "search R&D <draft>"),
    ],
)
def test_mentions_become_principals_and_links_addresses(typed: str, read: str) -> None:
    """People, channels, groups and "here" become principals, links the address that they lead to."""
    assert principals(typed, "C0GEN") == read


def test_only_principals_can_read() -> None:
    """Everybody, and whoever a platform names; a bare name is nobody."""
    assert unreadable(["everyone", "slack:C0HR", "feishu:oc_1", "web:#hr", "hr", "slack:", "mail:x"]) == [
        "hr",
        "slack:",
        "mail:x",
    ]
