"""What a run spent and how runs are asked for: times, tokens, money, days, and whose words may be read."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from bot.settings import Operations, Queue, Review, Settings
from bot.traces import bars, money, spent, wanted, withheld, zone_of
from rag_graph.record import Asked, Price, Prompts, cost, kept, searches
from store.runs import RunRow, Wanted

PRICES = {"small": Price(prompt=1.0, completion=4.0), "large": Price(prompt=10.0, completion=40.0)}


def asked(role: str, model: str, counted: int, completion: int = 0) -> Asked:
    return Asked(role, model, (), 900, counted, parts={"system": 100, "total": 1_000}, completion=completion)


@pytest.mark.parametrize(
    ("calls", "prices", "costs"),
    [
        ([asked("draft", "small", 1_000_000, 500_000)], PRICES, 3.0),
        ([asked("rewrite", "small", 0, 250_000), asked("draft", "large", 100_000, 0)], PRICES, 2.001),
        ([asked("draft", "unknown", 10, 10)], PRICES, None),
        ([asked("draft", "small", 10, 10), asked("assess", "unknown", 10, 10)], PRICES, None),
        ([asked("draft", "small", 10, 10)], {}, None),
        ([], PRICES, 0.0),
    ],
)
def test_a_run_costs_what_its_calls_cost(
    calls: list[Asked], prices: dict[str, Price], costs: float | None
) -> None:
    """Counted tokens, estimated ones where nobody counted; unknown as soon as one price is. The row that only holds
    wordings costs nothing."""
    rows = [*kept(calls, "none"), *searches(["one", "two"])]
    assert cost(rows, prices) == (None if costs is None else pytest.approx(costs))


def test_a_failed_question_keeps_its_calls_and_the_kind_of_its_fault() -> None:
    """What every try asked is the run's, once; the last fault counts."""
    prompts = Prompts("none", PRICES)
    for fault in ("TimeoutError", "RunLost"):
        prompts.hear("q", asked("draft", "small", 1_000_000))
        prompts.failed("q", fault)
    calls = prompts.take("q")
    assert len(calls) == 2
    assert prompts.cost(calls) == pytest.approx(2.0)
    assert prompts.fault("q") == "RunLost"
    assert prompts.fault("q") == ""


def test_wordings_are_kept_where_there_were_several() -> None:
    """One wording stands in the run itself; several, with the prompts, so that they are forgotten with those."""
    now = datetime.now(UTC)
    rows = (*kept([asked("draft", "small", 1)], "full"), *searches(["它何时到期", "年假 有效期"]))
    run = RunRow(
        question_id="q",
        outcome="answered",
        rewritten_question="年假 有效期",
        prompts=rows,
        id=1,
        created_at=now,
    )
    assert run.searched == ("它何时到期", "年假 有效期")
    assert [call["role"] for call in run.calls] == ["draft"]
    assert searches(["only"]) == ()
    bare = RunRow(question_id="q", outcome="answered", rewritten_question="leave", id=1, created_at=now)
    assert bare.searched == ("leave",)


def test_the_time_is_drawn_in_the_order_of_the_graph() -> None:
    """Steps follow each other, those of a search lie inside it, and what is between the nodes is said."""
    drawn = bars({"answer": 1_000, "wait": 1_000, "draft": 500, "retrieve": 300, "sql": 200, "embed": 50})
    assert [(bar.name, bar.start, bar.width, bar.within) for bar in drawn] == [
        ("wait", 0, 500, False),
        ("retrieve", 500, 150, False),
        ("embed", 500, 25, True),
        ("sql", 525, 100, True),
        ("draft", 650, 250, False),
        ("other", 900, 100, False),
    ]
    assert bars({}) == ()
    assert all(bar.start + bar.width <= 1_002 for bar in bars({"publish": 0.01, "wait": 90_000.0}))
    assert bars({"wait": 90_000.0})[0].milliseconds == "90.0 s"


def test_tokens_and_money_are_said_as_far_as_they_are_known() -> None:
    """Counted before estimated; no price is no cost, and a free model costs nothing."""
    assert spent({"prompt": 100, "completion": 20, "estimated": 90}) == 120
    assert spent({"estimated": 90}) == 90
    assert spent({}) == 0
    assert money(0.00312, "CNY") == "0.0031 CNY"
    assert money(0.0, "") == "0"
    assert money(None, "CNY") == ""


@pytest.mark.parametrize(
    ("state", "private", "asker", "why"),
    [
        ("answered", False, "slack:U1", ""),
        ("answered", True, "slack:U1", "private"),
        ("answered", True, "web:admin", ""),
        ("withdrawn", False, "slack:U1", "gone"),
        ("superseded", True, "slack:U1", "gone"),
        ("withdrawn", False, "web:admin", ""),
    ],
)
def test_words_asked_in_private_are_their_askers(state: str, private: bool, asker: str, why: str) -> None:
    """And what was taken back is nobody else's either."""
    assert withheld(state, private, asker, ("web:admin",)) == why


def test_a_day_is_the_reviewers_own(tmp_path: Path) -> None:
    """Twenty-four hours from midnight in their zone, UTC where none is set; what is no day is not asked for."""
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    shanghai = settings.model_copy(update={"review": Review(queues={"default": Queue(zone="Asia/Shanghai")})})
    assert zone_of(settings) is UTC
    asked_for = wanted({"day": "2026-12-01", "rule": "contracts", "disliked": "1"}, zone_of(shanghai), 7)
    midnight = datetime(2026, 12, 1, tzinfo=ZoneInfo("Asia/Shanghai"))
    assert asked_for == Wanted(
        rule="contracts", disliked=True, since=midnight, until=midnight.replace(day=2), before=7
    )
    for nonsense in ("", "yesterday", "2026-13-01"):
        assert wanted({"day": nonsense}, UTC).since is None


@pytest.mark.parametrize(
    "address", ["signoff.corp", "javascript:alert(1)", "https://a|b", "https://a/x y", "https://a/<b>"]
)
def test_the_console_has_an_address_that_a_link_can_hold(address: str) -> None:
    """It is put into messages as it stands."""
    with pytest.raises(ValidationError):
        Operations(address=address)
    assert (
        Operations(address="https://signoff.corp.example/ops/").address == "https://signoff.corp.example/ops"
    )
