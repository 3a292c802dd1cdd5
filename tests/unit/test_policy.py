"""Review rules: what each condition means, what each action leads to, and when streaming is safe."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_graph.contracts import Draft, Question, Sentence
from rag_graph.policy import Hold, Private, Refuse, Rules, RulesInvalid, Sample, Send, Two, decide, precheck

QUESTION = Question(
    "q1", "web:legal:1", "合同第 3.2 条怎么规定？", "zh", "web:ada", ("everyone", "web:ada"), "legal"
)
DRAFT = Draft(
    "付款期限为 30 天 [1]。",
    "model",
    sentences=(Sentence("付款期限为 30 天 [1]。", (1,), "supported"),),
    confidence=0.8,
    collections=("contracts",),
    labels=("finance",),
)


def rules(**conditions: Any) -> Rules:
    return Rules.parse([{"name": "only", "action": "hold", **conditions}])


@pytest.mark.parametrize(
    ("conditions", "held"),
    [
        ({}, True),
        ({"collections": ["contracts"]}, True),
        ({"collections": ["leave", "contracts"]}, True),
        ({"collections": ["leave"]}, False),
        ({"labels": ["finance"]}, True),
        ({"labels": ["secret"]}, False),
        ({"channels": ["legal"]}, True),
        ({"channels": ["#legal"]}, True),
        ({"channels": ["general"]}, False),
        ({"topics": ["合同"]}, True),
        ({"topics": ["薪酬", "合同"]}, True),
        ({"topics": ["薪酬"]}, False),
        ({"askers": ["web:ada"]}, True),
        ({"askers": ["web:bob"]}, False),
        ({"confidence_below": 0.9}, True),
        ({"confidence_below": 0.8}, False),
        ({"unsupported": True}, False),
        ({"unsupported": False}, True),
        ({"numbers": True}, True),
        ({"numbers": False}, False),
        ({"collections": ["contracts"], "topics": ["薪酬"]}, False),
        ({"collections": ["contracts"], "topics": ["合同"]}, True),
    ],
)
def test_conditions(conditions: dict[str, Any], held: bool) -> None:
    """A rule holds a draft exactly when all of its conditions hold, each by any of its values."""
    assert isinstance(decide(QUESTION, DRAFT, rules(**conditions)), Hold) is held


@pytest.mark.parametrize(
    ("action", "verdict"),
    [("send", Send), ("hold", Hold), ("private", Private), ("two_reviewers", Two), ("refuse", Refuse)],
)
def test_actions(action: str, verdict: type) -> None:
    """Each action has its own verdict, which names the rule and what held."""
    decided = decide(QUESTION, DRAFT, rules(action=action, collections=["contracts"]))
    assert decided == verdict("only", "collection: contracts")
    assert decided.disposition == action


def test_the_first_match_wins() -> None:
    """A later rule has no say once one matched."""
    ordered = Rules.parse(
        [
            {"name": "ada", "askers": ["web:ada"], "action": "send"},
            {"name": "all", "action": "hold"},
        ]
    )
    assert decide(QUESTION, DRAFT, ordered).rule == "ada"
    assert decide(replace(QUESTION, asker="web:bob", principals=("everyone",)), DRAFT, ordered).rule == "all"


def test_the_default_decides_without_a_match() -> None:
    """Without any rule a draft is sent, unless the setting says otherwise."""
    assert decide(QUESTION, DRAFT, Rules.parse([])) == Send()
    assert decide(QUESTION, DRAFT, Rules.parse([], default="hold")) == Hold()


def test_an_unsupported_sentence_is_seen() -> None:
    """One unsupported sentence is enough for the rule about them."""
    loose = replace(DRAFT, sentences=(*DRAFT.sentences, Sentence("另有奖金。", (), "unsupported")))
    assert decide(QUESTION, loose, rules(unsupported=True)).reason == "unsupported sentences: 1"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The contract ends on 1 March [1].", True),
        ("可以休十五天 [2]。", True),
        ("请先征得主管同意 [1][2]。", False),
        ("See clause 3.2 [1].", False),
        ("Ask twice a day [3].", False),
    ],
)
def test_numbers_in_the_answer(text: str, numbers: bool) -> None:
    """Numbers and dates count, citation marks, clause numbers and "a day" do not."""
    assert isinstance(decide(QUESTION, replace(DRAFT, text=text), rules(numbers=True)), Hold) is numbers


@pytest.mark.parametrize("kind", ["declined", "clarify", "smalltalk"])
def test_only_answers_are_signed_off(kind: str) -> None:
    """That the documents do not say, a question back and small talk go out even where everything is held."""
    assert isinstance(decide(QUESTION, replace(DRAFT, kind=kind), rules()), Send)


def test_a_follow_up_is_recognised_by_the_searched_question() -> None:
    """A topic named only in the rewritten question still matches."""
    follow_up = replace(QUESTION, text="那有效期呢？")
    held = rules(topics=["合同"])
    assert isinstance(decide(follow_up, DRAFT, held), Send)
    assert isinstance(decide(follow_up, DRAFT, held, "采购合同 有效期"), Hold)


def test_english_topics_match_by_stem_and_whole_word() -> None:
    """ "contract" finds "contracts", and "art" does not find "start"."""
    asked = replace(QUESTION, text="When do our contracts start?")
    assert isinstance(decide(asked, DRAFT, rules(topics=["contract"])), Hold)
    assert isinstance(decide(asked, DRAFT, rules(topics=["art"])), Send)


def test_sampling_is_by_question_and_close_to_its_share() -> None:
    """The same question is always in or out; over many questions the share is the one asked for."""
    sampled = rules(action="sample", percent=20)
    verdicts = [decide(replace(QUESTION, id=f"q{number}"), DRAFT, sampled) for number in range(2_000)]
    assert verdicts == [decide(replace(QUESTION, id=f"q{number}"), DRAFT, sampled) for number in range(2_000)]
    assert 340 < sum(isinstance(verdict, Sample) for verdict in verdicts) < 460
    assert all(verdict.rule == "only" for verdict in verdicts)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"action": "hold"}, 'rule 1: "name" must be a text'),
        ({"name": "a", "action": "stop"}, 'rule "a": "action" must be one of send, hold'),
        ({"name": "a"}, 'rule "a": "action" must be one of'),
        ({"name": "a", "action": "hold", "colections": ["x"]}, 'rule "a": unknown field "colections"'),
        (
            {"name": "a", "action": "hold", "collections": "contracts"},
            'rule "a": "collections" must be a list',
        ),
        (
            {"name": "a", "action": "hold", "topics": []},
            'rule "a": "topics" must be a list of texts that is not empty',
        ),
        ({"name": "a", "action": "hold", "numbers": "yes"}, 'rule "a": "numbers" must be true or false'),
        (
            {"name": "a", "action": "hold", "confidence_below": 60},
            'rule "a": "confidence_below" must be a number',
        ),
        ({"name": "a", "action": "sample"}, 'rule "a": "percent" is missing'),
        ({"name": "a", "action": "sample", "percent": 0}, 'rule "a": "percent" must be a number above 0'),
        ({"name": "a", "action": "hold", "percent": 5}, 'rule "a": "percent" belongs to'),
        (
            {"name": "a", "action": "two_reviewers", "ramp": True},
            'rule "a": "ramp" belongs to action = "hold"',
        ),
        ({"name": "a", "action": "hold", "ramp": "yes"}, 'rule "a": "ramp" must be true or false'),
        ({"name": "a", "action": "hold", "queue": ""}, 'rule "a": "queue" must name a table'),
        ({"name": "default", "action": "hold"}, 'rule "default": "name" cannot be "default"'),
    ],
)
def test_a_wrong_rule_is_named_with_its_field(table: dict[str, Any], said: str) -> None:
    """The error says which rule and which field, and what is allowed there."""
    with pytest.raises(RulesInvalid) as caught:
        Rules.parse([table])
    assert said in str(caught.value)


def test_all_problems_are_reported_at_once() -> None:
    """Two wrong rules and a taken name need one look, not three starts."""
    good = {"name": "same", "action": "hold"}
    with pytest.raises(RulesInvalid) as caught:
        Rules.parse([good, good, {"name": "b", "action": "x", "y": 1}], default="maybe")
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(
    ("tables", "safe"),
    [
        ([], True),
        ([{"action": "hold"}], False),
        ([{"action": "hold", "collections": ["contracts"]}], False),
        ([{"action": "hold", "confidence_below": 0.3}], False),
        ([{"action": "private", "numbers": True}], False),
        ([{"action": "two_reviewers", "unsupported": True}], False),
        ([{"action": "hold", "ramp": True, "collections": ["hr"]}], False),
        ([{"action": "hold", "channels": ["hr"]}], True),
        ([{"action": "hold", "channels": ["hr"], "collections": ["contracts"]}], True),
        ([{"action": "hold", "askers": ["web:bob"]}], True),
        ([{"action": "send", "channels": ["legal"]}, {"action": "hold"}], True),
        ([{"action": "send", "numbers": False}, {"action": "hold"}], False),
        ([{"action": "sample", "percent": 10}, {"action": "hold"}], True),
        ([{"action": "hold", "topics": ["薪酬"]}], False),
    ],
)
def test_precheck(tables: list[dict[str, Any]], safe: bool) -> None:
    """Streaming is safe only when no draft for this question could be kept back."""
    parsed = Rules.parse([{"name": str(number), **table} for number, table in enumerate(tables)])
    assert precheck(QUESTION, parsed) is safe


def test_precheck_knows_the_topic_once_the_question_is_rewritten() -> None:
    """With the searched question a rule about another topic no longer stands in the way."""
    assert precheck(QUESTION, rules(topics=["薪酬"]), "合同 第 3.2 条")
    assert not precheck(QUESTION, rules(topics=["薪酬"]), "合同中的薪酬")


CONDITIONS = st.fixed_dictionaries(
    {"action": st.sampled_from(["send", "hold", "private", "two_reviewers", "refuse"])},
    optional={
        "collections": st.sampled_from([["contracts"], ["leave"]]),
        "channels": st.sampled_from([["legal"], ["hr"]]),
        "topics": st.sampled_from([["合同"], ["薪酬"]]),
        "askers": st.sampled_from([["web:ada"], ["web:bob"]]),
        "confidence_below": st.sampled_from([0.5, 0.9]),
        "numbers": st.booleans(),
    },
)


@given(
    st.lists(CONDITIONS, max_size=5),
    st.sampled_from(["", "薪酬", "合同"]),
    st.sampled_from([("contracts",), ("leave",), ()]),
    st.sampled_from([0.1, 0.7, 1.0]),
    st.sampled_from(["30 天 [1]", "可以 [1]"]),
)
def test_what_precheck_lets_stream_is_never_held(
    tables: list[dict[str, Any]], searched: str, collections: tuple[str, ...], confidence: float, text: str
) -> None:
    """Whatever draft follows, a question that may stream is sent."""
    parsed = Rules.parse([{"name": str(number), **table} for number, table in enumerate(tables)])
    draft = replace(DRAFT, collections=collections, confidence=confidence, text=text)
    verdict = decide(QUESTION, draft, parsed, searched)
    if precheck(QUESTION, parsed) or precheck(QUESTION, parsed, searched):
        assert isinstance(verdict, Send)
