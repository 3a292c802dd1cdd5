"""Questions that ask about the same thing are one gap; whatever order they come in."""

import random
from datetime import datetime, timedelta

from bot.gaps import clustered
from store.insight import Gap

MONDAY = datetime.fromisoformat("2026-11-23T09:00+00:00")


def gap(number: int, text: str, *, days: float = 0, kind: str = "unknown", owner: str = "") -> Gap:
    return Gap(f"q{number}", text, False, MONDAY + timedelta(days=days, minutes=number), kind, "", owner)


GAPS = [
    gap(1, "How many penguins live in the office?"),
    gap(2, "Do penguins live in our office?", days=2, kind="unhelpful"),
    gap(3, "员工宿舍怎么申请？", days=3),
    gap(4, "请问怎么申请员工宿舍", days=4, owner="web:lin"),
    gap(5, "员工宿舍的申请", days=5),
    gap(6, "Who waters the plants?", days=6),
    gap(7, "How many penguins live in the office?", days=7),
]


def test_same_thing_same_week_is_one_cluster() -> None:
    """Largest first, the newest week first, the first asked in front; an owner of one is the owner of all."""
    found = clustered(GAPS)
    assert [(c.week, [g.question_id for g in c.gaps], c.owner) for c in found] == [
        ("2026-11-30", ["q7"], ""),
        ("2026-11-23", ["q3", "q4", "q5"], "web:lin"),
        ("2026-11-23", ["q1", "q2"], ""),
        ("2026-11-23", ["q6"], ""),
    ]
    assert found[2].kinds == {"unknown": 1, "unhelpful": 1}


def test_order_changes_nothing() -> None:
    """The same gaps give the same clusters under the same keys."""
    shuffled = GAPS[:]
    random.Random(7).shuffle(shuffled)
    assert clustered(shuffled) == clustered(GAPS)
    assert len({c.key for c in clustered(GAPS)}) == 4


def test_nothing_is_nothing() -> None:
    """No gaps, no clusters; questions without a telling word stay apart."""
    assert clustered([]) == []
    assert len(clustered([gap(1, "?"), gap(2, "!")])) == 2
