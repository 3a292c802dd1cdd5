"""The sentences that the checker is measured with: true, false, seeded, and of the kind they say they are."""

from dataclasses import replace

import pytest

from rag_graph.evaluation import EvaluationSet
from rag_graph.evaluation.claims import Claim, claims
from rag_graph.evaluation.grounded import grounded
from rag_graph.evaluation.wordings import date_forms, number_forms, unit_forms
from store.scratch import Row

TEXTS = {
    "en:bridge:0": "The bridge was opened by Maria Chen on March 5, 1998. It is 12 km long and cost £30m.",
    "zh:bridge:0": "大桥由陈丽华于1998年3月5日启用。全长12公里，造价3000万英镑，共有5座桥塔。",
    "en:tower:0": "The tower was designed by John Smith in 1870. It has 24 bells and is 40 metres tall.",
    "zh:tower:0": "钟楼由王建国于1870年设计。钟楼有24口钟，高40米。",
}
QUESTIONS = [
    ("en:bridge:0", "Who opened the bridge?", "Maria Chen"),
    ("en:bridge:0", "How long is it?", "12 km"),
    ("en:tower:0", "Who designed the tower?", "John Smith"),
    ("en:tower:0", "How tall is it?", "40 metres"),
    ("zh:bridge:0", "大桥由谁启用？", "陈丽华"),
    ("zh:bridge:0", "全长多少？", "12公里"),
    ("zh:tower:0", "钟楼由谁设计？", "王建国"),
    ("zh:tower:0", "钟楼多高？", "40米"),
]


@pytest.fixture
def small() -> EvaluationSet:
    """Two passages in both languages, with who and how much."""
    rows = [Row(id_, id_, "", text, id_[:2]) for id_, text in TEXTS.items()]
    queries = [
        {"id": f"q{n}", "text": text, "answer": [answer]} for n, (_, text, answer) in enumerate(QUESTIONS)
    ]
    relevant = {f"q{n}": {id_: 1.0} for n, (id_, _, _) in enumerate(QUESTIONS)}
    return EvaluationSet("small", rows, queries, relevant, {}, {})


def of(made: list[Claim], kind: str) -> list[Claim]:
    return [claim for claim in made if claim.kind == kind]


def test_the_same_seed_makes_the_same_claims(small: EvaluationSet) -> None:
    """A result can be repeated; another seed makes others."""
    assert claims(small, 3) == claims(small, 3) != claims(small, 4)


def test_every_kind_is_made_in_both_languages(small: EvaluationSet) -> None:
    """Numbers, dates, names and denials are swapped; true ones are written in other ways or translated."""
    kinds = {(claim.kind, claim.language) for claim in claims(small)}
    for kind in ("number", "date", "name", "negation", "as written", "units", "dates", "other language"):
        assert {(kind, "en"), (kind, "zh")} <= kinds, kind


def test_false_claims_differ_from_their_passage(small: EvaluationSet) -> None:
    """No claim that is called false stands in its passage, and every one as written does."""
    made = claims(small)
    assert not [c.text for c in made if not c.true and c.text in c.passage]
    assert all(c.text in c.passage for c in of(made, "as written"))


def test_a_swapped_name_is_another_answer(small: EvaluationSet) -> None:
    """Where the bridge was opened by somebody, another question's somebody is put."""
    assert {c.text.split(" by ")[1][:10] for c in of(claims(small), "name") if c.language == "en"} == {
        "John Smith",
        "Maria Chen",
    }


@pytest.mark.parametrize(
    ("forms", "text", "other"),
    [
        (number_forms, "共有15人参加", "共有十五人参加"),
        (number_forms, "占5%的人口", "占百分之5的人口"),
        (number_forms, "about 1,200 people", "about 1200 people"),
        (unit_forms, "It is 3.5 km long", "It is 3,500 metres long"),
        (unit_forms, "全长12公里", "全长12,000米"),
        (date_forms, "1998年3月5日启用", "1998-03-05启用"),
        (date_forms, "on March 5, 1998", "on 5 March 1998"),
    ],
)
def test_other_forms_say_the_same(forms: object, text: str, other: str) -> None:
    """Another way of writing the same value."""
    assert other in forms(text)  # type: ignore[operator]


@pytest.mark.parametrize("text", ["3 to 5 km", "£30m", "从2到3小时", "3–5 km"])
def test_the_end_of_a_range_and_money_keep_their_unit(text: str) -> None:
    """What would make a true sentence false is not written otherwise."""
    assert not unit_forms(text)


def test_the_checker_catches_the_small_set(small: EvaluationSet) -> None:
    """On these plain sentences nothing false passes and nothing true is denied."""
    whole = grounded(small, {})[0]
    assert whole.metrics["caught"] >= 0.95
    assert whole.metrics["false alarms"] <= 0.05


def test_a_set_without_answers_is_refused(small: EvaluationSet) -> None:
    """Nothing to measure is said, not counted as perfect."""
    with pytest.raises(Exception, match="no answers"):
        grounded(replace(small, queries=[]), {})
