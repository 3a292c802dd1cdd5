"""The trust ramp, case by case."""

from dataclasses import replace
from typing import Any

import pytest

from rag_graph.contracts import Draft, Question
from rag_graph.policy import Hold, Private, Rules, Sample, Send, Two, Verdict
from rag_graph.ramp import OFF, Ramp, Standing, loosened, standing, topics

RAMP = Ramp(after=3, percent=20)
QUESTION = Question("q1", "web:hr:1", "年假多少天？", "zh", "web:ada", ("everyone",))
DRAFT = Draft("30 天 [1]。", "model", collections=("hr",))
RULES = Rules.parse(
    [
        {"name": "hr", "collections": ["hr"], "action": "hold", "ramp": True},
        {"name": "contracts", "collections": ["contracts"], "action": "hold"},
    ]
)
UP, LOW = Standing(True, 3, 0), Standing(False, 1, 2)
SHORT = {"a": "approved", "e": "edited", "r": "rejected"}


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        pytest.param("", Standing(False, 0, 3), id="at first everything is held"),
        pytest.param("aa", Standing(False, 2, 1), id="one more"),
        pytest.param("aaa", Standing(True, 3, 0), id="a sample is enough"),
        pytest.param("aae", Standing(False, 0, 3), id="an edit begins anew"),
        pytest.param("aaeaa", Standing(False, 2, 1), id="counted from the edit"),
        pytest.param("aar", Standing(False, 0, 3), id="a rejection begins anew"),
        pytest.param("aaaa", Standing(True, 4, 0), id="approved after sending"),
        pytest.param("aaae", Standing(True, 3, 0), id="edited after sending"),
        pytest.param("aaar", Standing(False, 0, 3, 1), id="one bad rejection climbs back"),
        pytest.param("aaarera", Standing(False, 1, 2, 1), id="and stays there"),
        pytest.param("aaaraaa", Standing(True, 3, 0, 1), id="until it has climbed again"),
    ],
)
def test_where_a_topic_stands(decided: str, expected: Standing) -> None:
    """From the decisions in order, and from nothing else."""
    assert standing([SHORT[letter] for letter in decided], RAMP) == expected


def test_a_ramp_that_is_off_never_loosens() -> None:
    """The default: however many approvals there are, everything stays held."""
    assert standing(["approved"] * 500, OFF) == Standing(False, 500, 0)
    held = Hold("hr", "collection: hr")
    assert loosened(held, QUESTION, DRAFT, RULES, [UP], OFF) == held


@pytest.mark.parametrize(
    ("verdict", "standings"),
    [
        pytest.param(Hold("hr"), [LOW], id="not there yet"),
        pytest.param(Hold("hr"), [UP, LOW], id="one of two collections is not there yet"),
        pytest.param(Hold("hr"), [], id="nothing is known"),
        pytest.param(Hold("contracts"), [UP], id="the rule has no ramp"),
        pytest.param(Hold("gone"), [UP], id="the rule is gone"),
        pytest.param(Two("hr"), [UP], id="two people are asked for"),
        pytest.param(Private("hr"), [UP], id="a private draft"),
        pytest.param(Send("hr"), [UP], id="sent anyhow"),
    ],
)
def test_what_stays_as_the_rule_says(verdict: Verdict, standings: list[Standing]) -> None:
    """Only a hold whose rule says so, with every topic of the draft on top of the ramp, is loosened."""
    assert loosened(verdict, QUESTION, DRAFT, RULES, standings, RAMP) == verdict


def test_about_as_many_as_set_are_looked_at_afterwards() -> None:
    """The same questions every time, about a fifth of them; the others are sent, and say why."""

    def verdict(number: int) -> Any:
        return loosened(Hold("hr"), replace(QUESTION, id=f"q{number}"), DRAFT, RULES, [UP], RAMP)

    verdicts = [verdict(number) for number in range(2_000)]
    assert verdicts == [verdict(number) for number in range(2_000)]
    assert 340 <= sum(isinstance(v, Sample) for v in verdicts) <= 460
    assert all(isinstance(v, Sample | Send) and v.rule == "hr" and "ramp: 3" in v.reason for v in verdicts)


def test_a_topic_is_a_rule_and_a_collection() -> None:
    """A draft from two collections has two, one that stands on tools alone has one."""
    assert topics("hr", ("it", "hr", "it")) == ("hr/hr", "hr/it")
    assert topics("today", ()) == ("today/",)
