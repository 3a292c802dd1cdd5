"""What is said of answers and reviews, and which buttons stand below them: the same on every chat platform."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot import telling
from bot.acquaintance import KEPT_SECONDS, Acquaintance, Unknown, names
from bot.following import STOP, is_stop
from bot.messages import AGAIN, REASONS, Reply
from bot.pausing import place_of, switch_of
from bot.review import Acted
from bot.telling import OPINIONS, Setting
from bot.words import Words
from store.reviews import ReviewRow
from store.switches import Switch

WORDS, NOW = Words(), datetime(2026, 12, 1, 12, tzinfo=UTC)
SETTING = Setting(WORDS, NOW, names={"slack:U1": "rena", "feishu:ou_2": "rolf"})
REVIEW = ReviewRow(
    id=7, question_id="q", interrupt_id="i", round=1, state="pending", version_hash="h", reason="contracts", draft={},
    audience=(), claimed_by=None, decided_by=None, decision=None, resumed=False, opened_at=NOW, claimed_at=None,
    decided_at=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("meta", "private", "shown"),
    [
        ({}, False, ["approve", "edit", "reject", "claim", "pass_on"]),
        ({"claimed_by": "slack:U1"}, False, ["approve", "edit", "reject", "release", "pass_on"]),
        ({"visible": False}, False, ["open", "claim", "pass_on"]),
        ({"visible": False}, True, ["approve", "edit", "reject"]),
        ({}, True, ["approve", "edit", "reject"]),
        ({"moved": True}, False, []),
        ({"state": "approved"}, False, []),
        ({"state": "withdrawn"}, True, []),
    ],
)
def test_a_card_has_the_buttons_that_still_do_something(
    meta: dict[str, Any], private: bool, shown: list[str]
) -> None:
    """What its channel may not read is opened first; what is over has no button."""
    assert telling.decisions({"state": "pending", "visible": True, **meta}, private=private) == shown


@pytest.mark.parametrize(
    ("kind", "setting", "shown"),
    [
        ("answer", {"question_id": "q"}, ["helpful", "unhelpful", "person"]),
        ("answer", {"question_id": "q", "private": True}, ["helpful", "unhelpful", "person"]),
        ("answer", {"question_id": "q", "share_to": "C1"}, ["helpful", "unhelpful", "person"]),
        (
            "answer",
            {"question_id": "q", "private": True, "share_to": "C1"},
            ["helpful", "unhelpful", "person", "share"],
        ),
        ("declined", {"question_id": "q"}, ["person"]),
        ("clarify", {"question_id": "q"}, []),
        ("answer", {}, []),
    ],
)
def test_an_answer_offers_what_its_readers_can_do(
    kind: str, setting: dict[str, Any], shown: list[str]
) -> None:
    """Sharing only what is private and was asked in a channel."""
    assert telling.offers(Reply(kind, "x", "en"), replace(SETTING, **setting)) == shown


def test_asking_again_is_offered_where_the_reply_says_so() -> None:
    """Also without a question of its own: a refusal is one."""
    assert telling.offers(Reply("refused", "x", "en", meta={"actions": [AGAIN]}), SETTING) == [AGAIN]


@pytest.mark.parametrize(
    ("acted", "said"),
    [
        (Acted("done", replace(REVIEW, state="approved", decided_by="slack:U1")), "Recorded: approved."),
        (
            Acted("late", replace(REVIEW, state="rejected", decided_by="slack:U1")),
            "rena was faster: rejected.",
        ),
        (Acted("late", replace(REVIEW, claimed_by="slack:U1")), "rena has this review."),
        (Acted("late", REVIEW), "Nobody has this review just now."),
        (Acted("late", replace(REVIEW, state="expired")), "Signoff was faster: expired."),
        (Acted("reassigned", replace(REVIEW, claimed_by="feishu:ou_2")), "The review is rolf's now."),
        (Acted("no_reviewer", replace(REVIEW, claimed_by="slack:U1")), "rolf may not decide this review"),
        (Acted("forbidden", None), "You are not on the list of reviewers"),
    ],
)
def test_whoever_clicks_on_a_review_reads_what_became_of_it(acted: Acted, said: str) -> None:
    """Also who comes late, may not, or tried to take what somebody has."""
    assert telling.told(WORDS, "en", acted, SETTING, "feishu:ou_2").startswith(said)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reasons_are_read_in_the_readers_language(language: str) -> None:
    """A key is translated wherever it is shown; what somebody wrote stays as it is."""
    for key in REASONS:
        assert telling.reason(WORDS, language, key) == WORDS(language, f"review.reasons.{key}")
    for key in OPINIONS:
        opinion = WORDS(language, f"chat.feedback_{key}")
        assert telling.opinion(WORDS, language, key) == opinion
        assert telling.opinion(WORDS, language, f"{key}: 20 天") == f"{opinion}: 20 天"
    assert telling.reason(WORDS, language, "See § 4: outdated") == "See § 4: outdated"
    assert telling.opinion(WORDS, language, "See § 4: outdated") == "See § 4: outdated"


@pytest.mark.parametrize(
    ("since", "said"),
    [
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=59), "59 min ago"),
        (timedelta(hours=23), "23 h ago"),
        (timedelta(days=30), "30 days ago"),
        (timedelta(days=360), "11 months ago"),
        (timedelta(days=366), "1 years ago"),
        (timedelta(days=-1), "just now"),
    ],
)
def test_ages_are_said_in_the_largest_unit(since: timedelta, said: str) -> None:
    """A clock that is ahead makes nothing older than now."""
    assert telling.age(WORDS, "en", NOW - since, NOW) == said


def test_a_place_is_named_unless_it_is_private() -> None:
    """Channels of any platform; direct messages have no place."""
    found = [
        telling.place_of(Reply("card", "", "en", meta={"conversation_id": conversation}))
        for conversation in (
            "slack:C1:17.1",
            "feishu:oc_1:om_1",
            "slack:@U1:dm",
            "slack:D1:17.1",
            "feishu:@ou_1:dm",
        )
    ]
    assert found == ["slack:C1", "feishu:oc_1", "", "", ""]


@pytest.mark.parametrize("text", [*sorted(STOP), "Stop!", " 停。", "CANCEL"])
def test_stop_is_understood(text: str) -> None:
    """In both languages, with or without a mark behind it."""
    assert is_stop(text)


@pytest.mark.parametrize("text", ["stop the presses", "不要停", ""])
def test_what_only_contains_stop_is_a_question(text: str) -> None:
    """A sentence about stopping stops nothing."""
    assert not is_stop(text)


@pytest.mark.parametrize(
    ("place", "switch"),
    [
        ("", "paused"),
        ("slack:C1", "paused:slack:C1"),
        ("feishu:oc_1", "paused:feishu:oc_1"),
        ("general", None),
    ],
)
def test_a_pause_names_a_channel_or_everything(place: str, switch: str | None) -> None:
    """And reads back as what it was."""
    assert switch_of(place) == switch
    if switch is not None:
        assert place_of(Switch(switch, "web:admin", NOW)) == place


async def test_what_a_platform_said_is_asked_for_again_after_a_while() -> None:
    """Within five minutes it is known; `anew` asks at once; a platform that does not answer makes it unknown."""
    clock = [0.0]
    said: list[int] = []

    async def ask() -> int:
        if len(said) == 3:
            raise OSError
        said.append(len(said))
        return said[-1]

    known = Acquaintance("slack", (OSError,), now=lambda: clock[0])
    assert [await known.ask("user", "U1", ask) for _ in range(2)] == [0, 0]
    assert await known.ask("user", "U1", ask, anew=True) == 1
    clock[0] = KEPT_SECONDS + 1
    assert await known.ask("user", "U1", ask) == 2
    known.forget()
    with pytest.raises(Unknown):
        await known.ask("user", "U1", ask)


class Hall:
    """A house that knows two of its people, and remembers for whom it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    async def called(self, identity: str) -> str:
        self.asked.append(identity)
        if identity == "U404":
            raise Unknown(identity)
        return f"{identity} of {self.name}"


async def test_names_come_from_the_house_of_the_platform() -> None:
    """Whoever asks: a Feishu card names somebody of Slack. Who is unknown, or of no house, has no name."""
    slack, feishu = Hall("slack"), Hall("feishu")
    wanted = ["slack:U1", "feishu:ou_1", "slack:U404", "web:lin", ""]
    found = await names([slack, feishu, object()], wanted)
    assert found == {"slack:U1": "U1 of slack", "feishu:ou_1": "ou_1 of feishu"}
    assert (slack.asked, feishu.asked) == (["U1", "U404"], ["ou_1"])
