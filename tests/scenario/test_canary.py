"""A variant that is tried: who is answered by it, how it goes back in every process, and what people are told."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot import canary as canary_module
from bot.app import Parts, _platforms
from bot.ask import as_question
from bot.canary_command import typed
from bot.doctor import examine
from bot.messages import Platform
from bot.settings import Canary, Operations, Search, Settings, Variant
from rag_graph.contracts import Question
from rag_graph.graph import NODES
from store import Store
from store.canaries import CanaryRow
from tests.embedder import HashEmbedder
from tests.houses import House
from tests.questions import asked, review
from tests.scenario.desk import Desk, desk, reopened

LEAVE, CLAUSE = "年假可以休多少天？", "合同第 3.2 条规定多少日内付款？"
KEPT = 5  # what tells the variant from the settings
VARIANTS = {"wide": Variant(search={"kept": KEPT})}
AT_ONCE = Canary(days=0, questions=0)


@dataclass
class Trial:
    """A team whose alerts go to `ops`."""

    team: Desk
    ops: House

    async def row(self) -> CanaryRow:
        row = await self.team.app.store.canaries.latest()
        assert row is not None
        return row

    def told(self) -> list[str]:
        return [reply.text for reply in self.ops.shown("notice")]

    async def variant(self, question_id: str) -> str:
        """Of the last run."""
        run = await self.team.app.store.runs.latest(question_id)
        assert run is not None
        return run.variant


def parts(ops: House, nodes: Any = NODES) -> Parts:
    def houses(store: Store) -> Mapping[str, Platform]:
        return {**_platforms(store), "ops": ops}

    return Parts(embedder=HashEmbedder(), nodes=nodes, platforms=houses)


def chosen(**changes: Any) -> dict[str, Any]:
    return {
        "variants": VARIANTS,
        "canary": AT_ONCE,
        "operations": Operations(alerts=("ops:room",)),
        **changes,
    }


@asynccontextmanager
async def trial(url: str, folder: Path, nodes: Any = NODES, **changes: Any) -> AsyncIterator[Trial]:
    ops = House("ops")
    async with desk(url, folder, parts(ops, nodes), **chosen(**changes)) as team:
        yield Trial(team, ops)


@asynccontextmanager
async def another(url: str, folder: Path, **changes: Any) -> AsyncIterator[Trial]:
    """A second process over the same database, that nobody asks anything yet."""
    ops = House("ops")
    async with reopened(url, folder, parts(ops), **chosen(**changes)) as team:
        yield Trial(team, ops)


async def asked_of(app: Any, number: int = 1) -> str:
    """The variant that a new conversation would be answered by."""
    question = Question(
        f"x{number}", f"cli:x{number}", LEAVE, "zh", "cli:lin", ("everyone",), "cli:lin", True
    )
    return str(await app.graphs.variant(question))


async def until_settings(app: Any, seconds: float) -> float:
    """How long it takes until that is the settings."""
    began = time.monotonic()
    while await asked_of(app):
        assert time.monotonic() - began < seconds
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def failing() -> Any:
    """The ten nodes, of which `draft` fails under the variant."""

    async def draft(state: Any, runtime: Any) -> Any:
        if runtime.context.limits.kept == KEPT:
            raise TypeError("a fault of the variant")
        node: Any = NODES["draft"]
        return await node(state, runtime=runtime)

    return {**NODES, "draft": draft}


async def test_a_failing_variant_goes_back_in_every_process(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three failures in a row: nobody is answered by it any more, in the process that saw it, in one that hears of it,
    and, within the five seconds, in one that the notification never reaches. Why is told once, and remembered."""
    monkeypatch.setattr(canary_module, "PAUSE_SECONDS", 0.05)
    async with (
        trial(database_url, tmp_path, failing()) as first,
        another(database_url, tmp_path) as hearing,
        another(database_url, tmp_path) as deaf,
    ):
        started = await first.team.app.trying.start("wide", "cli:admin", percent=100)
        # Only a process with work listens.
        await hearing.team.app.asking.stops.guard("nothing", asyncio.sleep(0))
        await asyncio.sleep(0.3)
        assert [await asked_of(one.team.app) for one in (first, hearing, deaf)] == ["wide"] * 3
        for number in range(3):
            assert (await first.team.answered(LEAVE, f"t{number}")).state == "failed"

        async def ended() -> bool:
            return (await first.row()).state == "rolled_back"

        await first.team.wait(ended, "the variant to go back")
        assert await until_settings(first.team.app, 1) < 1
        assert await until_settings(hearing.team.app, 1) < 1
        assert await until_settings(deaf.team.app, 5) < 5

        row = await first.row()
        assert (row.id, row.reason, row.steps[-1]["by"], row.steps[-1]["ours"]) == (
            started.id,
            "error",
            "signoff",
            [3, 3],
        )
        for _ in range(2):
            await first.team.app.trying.tend()
        (sentence,) = first.told()
        assert "wide" in sentence
        assert "3 of its 3 questions" in sentence
        answered = await first.team.answered(LEAVE, "after")
        assert (answered.state, await first.variant(answered.id)) == ("answered", "")
        assert any(
            "taken back by itself" in f.detail for f in await examine(first.team.app) if f.name == "canary"
        )
        # It is remembered: the same variant is not tried again by mistake.
        assert "之后没有改动" in (await typed(first.team.app, "zh", "cli:admin", ["start", "wide"]) or "")
        assert (await first.row()).id == started.id


async def test_conversations_are_answered_by_the_variant_they_drew(database_url: str, tmp_path: Path) -> None:
    """Each run says which; a conversation never changes sides while the percentage stands, and every new one is as the
    hash has it."""
    async with trial(database_url, tmp_path) as one:
        await one.team.app.trying.start("wide", "cli:admin", percent=50)
        seen: dict[str, set[str]] = {}
        for number in (1, 2, 3, 4, 5, 6, 1, 2):
            row = await one.team.answered(LEAVE, f"t{number}")
            conversation = await one.team.app.store.conversations.get(row.conversation_id)
            variant = await one.variant(row.id)
            assert variant == await one.team.app.graphs.variant(as_question(row, conversation))
            seen.setdefault(row.conversation_id, set()).add(variant)
        assert all(len(variants) == 1 for variants in seen.values())
        status = await one.team.app.trying.status()
        assert status.questions == sum(variants == {"wide"} for c, variants in seen.items()) + sum(
            seen[f"cli:cli:lin:t{number}"] == {"wide"} for number in (1, 2)
        )


async def test_only_the_named_channels_take_part(database_url: str, tmp_path: Path) -> None:
    """By channel: everybody there at 100 %, nobody elsewhere."""
    async with another(database_url, tmp_path) as one:
        await one.team.app.trying.start("wide", "cli:admin", percent=100, channels=("slack:C1",))
        there = Question("q", "slack:T:C1:1", LEAVE, "zh", "slack:U1", ("everyone",), "C1")
        elsewhere = replace(there, conversation_id="slack:T:C2:1", channel="C2")
        assert [await one.team.app.graphs.variant(question) for question in (there, elsewhere)] == [
            "wide",
            "",
        ]


async def test_a_draft_in_review_goes_on_with_the_variant_that_wrote_it(
    database_url: str, tmp_path: Path
) -> None:
    """Rolled back meanwhile: the decision is carried out by the variant, the next question answered by the settings."""
    async with trial(database_url, tmp_path) as one:
        await one.team.app.trying.start("wide", "cli:admin", percent=100)
        review = await one.team.held(CLAUSE)
        await one.team.app.trying.rollback("cli:admin", "tired of it")
        assert (await one.team.decide(review, "approve")).key == "done"
        row = await one.team.ended(review.question_id)
        assert [run.variant for run in await one.team.app.store.runs.for_question(row.id)] == ["wide", "wide"]
        assert await one.variant((await one.team.answered(LEAVE, "t2")).id) == ""
        assert one.told() == []  # whoever did it knows


@pytest.mark.parametrize(
    ("variants", "reason"),
    [({}, "gone"), ({"wide": Variant(search={"kept": 6})}, "changed")],
    ids=["deleted", "changed"],
)
async def test_a_variant_that_is_no_more_goes_back(
    database_url: str, tmp_path: Path, variants: dict[str, Variant], reason: str
) -> None:
    """Deleted from the settings, or changed under way: the process that finds out ends it, and says so."""
    async with another(database_url, tmp_path) as before:
        await before.team.app.trying.start("wide", "cli:admin", percent=100)
        async with another(database_url, tmp_path, variants=variants) as after:
            assert await asked_of(after.team.app) == ""
            await after.team.app.trying.tend()
            assert ((await after.row()).state, (await after.row()).reason) == ("rolled_back", reason)
            (sentence,) = after.told()
            assert "wide" in sentence
        assert await until_settings(before.team.app, 5) < 5


async def test_an_admin_takes_it_all_the_way(database_url: str, tmp_path: Path) -> None:
    """By /kb canary: too early is refused with what lacks, "force" goes on and is remembered; promoted, it stays in
    force over a restart, tells what to write into the settings, and gives way to them."""
    canary = Canary(steps=(5, 100), days=7, questions=10)
    async with another(database_url, tmp_path, canary=canary) as one:

        async def say(text: str, language: str = "en") -> str:
            said = await typed(one.team.app, language, "slack:UADM", text.split())
            assert said is not None
            return said

        assert await typed(one.team.app, "en", "slack:UADM", ["paint", "it"]) is None
        assert await say("status") == "No variant is being tried."
        assert "no variant narrow" in await say("start narrow")
        assert "between 1 and 100" in await say("start wide 101")
        assert "Not a channel: general" in await say("start wide 5 general")
        assert "started at 5 %" in await say("start wide")
        assert "one at a time" in await say("start wide")
        assert "0 of 10 questions" in await say("promote")
        assert "0/10 个问题" in await say("promote", "zh")
        assert (await one.row()).percent == 5
        assert "now answers 100 %" in await say("promote force")
        assert "answers 100 % of all conversations" in await say("")
        promoted = await say("promote force")
        assert "[search]\nkept = 5" in promoted
        assert "[variants.wide]" in promoted
        row = await one.row()
        assert [step["what"] for step in row.steps] == ["start", "step", "promoted"]
        assert row.steps[1]["forced"] == ["days", "questions"]
        assert "Move its values" in await say("start wide")
    async with another(database_url, tmp_path, canary=canary) as restarted:
        assert await asked_of(restarted.team.app) == "wide"
    async with another(database_url, tmp_path, variants={}, search=Search(kept=KEPT)) as moved:
        assert await asked_of(moved.team.app) == ""
        await moved.team.app.trying.tend()
        assert (await moved.row()).state == "promoted"
        assert moved.team.app.graphs.deps.limits.kept == KEPT
        assert not [f for f in await examine(moved.team.app) if f.name == "canary"]


async def test_it_moves_on_by_itself_where_that_is_set(database_url: str, tmp_path: Path) -> None:
    """One step a minute, once time and sample are there; each is told."""
    async with another(database_url, tmp_path, canary=Canary(days=0, questions=0, advance=True)) as one:
        await one.team.app.trying.start("wide", "cli:admin")
        steps = []
        for _ in range(4):
            await one.team.app.trying.tend()
            row = await one.row()
            steps.append((row.state, row.percent))
        assert steps == [("running", 20), ("running", 100), ("promoted", 100), ("promoted", 100)]
        assert len(one.told()) == 3
        assert "kept = 5" in one.told()[-1]


async def test_two_who_move_it_on_move_it_once(database_url: str, tmp_path: Path) -> None:
    """Two processes promote at the same moment: one step is taken."""
    async with another(database_url, tmp_path) as one, another(database_url, tmp_path) as two:
        await one.team.app.trying.start("wide", "cli:admin")
        acts = [each.team.app.trying.promote("cli:admin") for each in (one, two)]
        done = await asyncio.gather(*acts, return_exceptions=True)
        row = await one.row()
        taken = [result for result in done if isinstance(result, CanaryRow)]
        assert (row.percent, len(row.steps) - 1) in ((20, 1), (100, 2))  # one after the other is two steps
        assert len(taken) == len(row.steps) - 1


async def test_without_a_model_a_variant_of_the_model_is_not_started(
    database_url: str, tmp_path: Path
) -> None:
    """It would be tried for weeks against itself."""
    other = {"other": Variant(model={"model": "other"})}
    async with another(database_url, tmp_path, variants=other) as one:
        said = await typed(one.team.app, "en", "cli:admin", ["start", "other"])
        assert "SIGNOFF_LLM_BASE_URL" in (said or "")
        assert await one.team.app.store.canaries.latest() is None


async def test_every_guardrail_counts_what_it_says(database_url: str, tmp_path: Path) -> None:
    """From the rows of questions: failures, wants of an answer, rejections, heavy edits, dislikes, and what is slower
    than the settings were before."""
    async with another(database_url, tmp_path) as one:
        store, trying = one.team.app.store, one.team.app.trying
        for number in range(100, 200):
            await asked(store, number, "", timings={"answer": float(number)})
        row = await trying.start("wide", "cli:admin", percent=100)
        changes: list[dict[str, Any]] = [
            {"outcome": "failed", "timings": {}},
            {"outcome": "declined"},
            {"outcome": "held", "timings": {"answer": 500.0}},
            {"outcome": "held", "degraded": ("rewrite",)},
            {"outcome": "held"},
            {},
        ]
        for number, change in enumerate(changes, 1):
            await asked(store, number, "wide", **change)
        texts = {3: "Ninety days, by contract.", 4: "Thirty days [1]!", 5: ""}
        for number, text in texts.items():
            opened = await store.reviews.open(review(number))
            state = "edited" if text else "rejected"
            decision = {"action": state, "text": text}
            await store.reviews.decide(opened.id, "hash-1", state, "cli:rita", decision)
        await store.conversations.feedback("q6", "web:ada", False, "wrong")
        status = await trying.status()
        assert {one.guardrail: (one.ours.bad, one.ours.of) for one in status.standings} == {
            "error": (2, 6), "unknown": (1, 5), "rejected": (1, 3), "edited": (1, 2), "disliked": (1, 1),
            "slow": (1, 5),
        }  # fmt: skip
        theirs = {one.guardrail: (one.theirs.bad, one.theirs.of) for one in status.standings}
        assert (theirs["error"], theirs["slow"]) == ((0, 100), (5, 100))
        assert (status.questions, (await trying.measure(row)).worst, await trying.judge()) == (6, None, None)
        assert [f.detail for f in await examine(one.team.app) if f.name == "canary"] == [
            "variant wide answers 100 %, 6 questions in 0.0 days"
        ]


def test_settings_without_variants_are_unchanged(tmp_path: Path) -> None:
    """The defaults: three steps, a week and a hundred questions each, by hand."""
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    assert settings.variants == {}
    assert settings.canary == Canary(steps=(5, 20, 100), days=7, questions=100, advance=False)
