"""Use case: trying a variant. Started and moved on by a person, taken back by a guardrail, and those who run it told.

What became of questions is read from the database each time, so that any process may judge at any moment; whoever sees
a guardrail trip ends the canary by one compare-and-set.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from bot import variants
from bot.canary_lines import told
from bot.deliver import Deliverer
from bot.pausing import CHANNEL
from bot.settings import Settings
from bot.trials import ITSELF, SETTINGS, Trials
from bot.words import Words
from rag_graph.canary import (
    FAILING,
    GUARDRAILS,
    NOTHING,
    REWRITTEN,
    SLOW,
    Count,
    Plan,
    Standing,
    changed,
    standing,
    tripped,
)
from store import Store
from store.canaries import TOPIC, Arm, CanaryRow, Tally
from store.changes import Change
from store.errors import StoreError

__all__ = ["Measured", "Refused", "Status", "Trying"]

log = structlog.get_logger(__name__)

PAUSE_SECONDS: Final = 1.0  # between two looks at the guardrails; what ends meanwhile is judged together
IDLE: Final = (
    9  # times as long as a look took is waited before the next: counting may take a tenth of one connection
)
KEPT_SECONDS: Final = 60.0
BEFORE: Final = timedelta(days=28)  # of the settings' own questions before the start
TIMED: Final = 100  # of them that are needed to say what is slow
FOR_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
TOLD_FOR: Final = timedelta(days=1)  # how long it is tried to tell what happened by itself


class Refused(Exception):
    """It was not done; `key` names the sentence that says why (`canary.refused.<key>` in the words files)."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


@dataclass(frozen=True, slots=True)
class Measured:
    """The variant's questions since the start, those of the present step, and where each guardrail stands."""

    questions: int
    of_step: int
    standings: tuple[Standing, ...]
    worst: Standing | None  # the one that trips


@dataclass(frozen=True, slots=True)
class Status:
    """What a command or a page shows. `canary` is the last one that was started, in force or not; `known`: this
    process's settings have its variant as it was started; `days` since the present step began; `next` is the
    percentage that comes next, None where that is the promotion; `lacking` what the step still lacks: days, questions;
    `lines` what is to be written into the settings once it is promoted."""

    canary: CanaryRow | None
    plan: Plan
    known: bool = False
    questions: int = 0
    of_step: int = 0
    days: float = 0.0
    next: int | None = None
    lacking: tuple[str, ...] = ()
    standings: tuple[Standing, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The settings' own counts. Of 200,000 questions they were 1.8 of the 2.1 s that a look took on a busy machine."""

    canary: int
    at: float
    counts: dict[str, Count]

    def stale(self, canary: int) -> bool:
        return self.canary != canary or time.monotonic() - self.at > KEPT_SECONDS


class Trying:
    def __init__(
        self, store: Store, deliverer: Deliverer, words: Words, settings: Settings, trials: Trials
    ) -> None:
        self._store = store
        self._canaries = store.canaries
        self._deliverer = deliverer
        self._words = words
        self._settings = settings
        self._trials = trials
        chosen = settings.canary
        self.plan = Plan(chosen.steps, chosen.days, chosen.questions)
        self._shares: dict[int, float] = {}  # by review: how much its editor changed
        self._slow: dict[int, float | None] = {}  # by canary: milliseconds beyond which an answer is slow
        self._kept: _Kept | None = None
        self._looking: asyncio.Task[None] | None = None
        self._due, self._took = False, 0.0
        trials.on_unknown = self.look_soon

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    # --- what a person does

    async def start(
        self,
        variant: str,
        by: str,
        *,
        percent: int | None = None,
        channels: Sequence[str] = (),
        force: bool = False,
    ) -> CanaryRow:
        """Try `variant` on so many of a hundred conversations (the plan's first step), in these channels or everywhere.
        `force`: also one that a guardrail took back before. Raises `Refused`."""
        percent = self.plan.steps[0] if percent is None else percent
        self._check(variant, percent, channels)
        latest = await self._canaries.latest()
        if latest is not None and latest.state == "promoted" and latest.variant in self._settings.variants:
            raise Refused("promoted_still", variant=latest.variant)
        digest = variants.digest(self._settings, variant)
        before = await self._canaries.tried(variant)
        if before is not None and not force and _taken_back(before) and before.digest == digest:
            raise Refused("tried", variant=variant, day=f"{before.ended_at:%Y-%m-%d}", reason=before.reason)
        row = await self._canaries.start(variant, percent, channels, by, digest=digest)
        if row is None:
            running = await self._canaries.latest()
            raise Refused("running", variant=running.variant if running else "–")
        self._changed(row, "started")
        return row

    async def promote(self, by: str, *, force: bool = False) -> CanaryRow:
        """The next step, or after the last one the end of the trial: the variant stays in force for all. `force`:
        before its time, which is remembered. Raises `Refused`."""
        status = await self.status()
        row = status.canary
        if row is None or row.state != "running":
            raise Refused("none")
        if not status.known:
            raise Refused("unknown_here", variant=row.variant)
        if status.lacking and not force:
            raise Refused(
                "early",
                days=f"{status.days:.1f}",
                of_days=f"{self.plan.days:g}",
                questions=status.of_step,
                of_questions=self.plan.questions,
            )
        noted: dict[str, Any] = {"forced": list(status.lacking)} if status.lacking else {}
        if status.next is None:
            done = await self._canaries.end(
                row, "promoted", reason="", by=by, what="promoted", **noted, questions=status.questions
            )
        else:
            done = await self._canaries.step(row, status.next, by, questions=status.questions, **noted)
        if not done:
            raise Refused("moved")
        self._changed(row, "moved_on")
        return await self._again(row)

    async def rollback(self, by: str, reason: str = "") -> CanaryRow:
        """Answer everything by the settings again. Raises `Refused`."""
        row = await self._canaries.latest()
        if row is None or not row.in_force:
            raise Refused("none")
        if not await self._canaries.end(row, "rolled_back", reason=reason or "–", by=by, what="back"):
            raise Refused("moved")
        self._changed(row, "rolled_back")
        return await self._again(row)

    def _check(self, variant: str, percent: int, channels: Sequence[str]) -> None:
        chosen = self._settings.variants
        if variant not in chosen:
            raise Refused("no_such", variant=variant, names=", ".join(chosen) or "–")
        if not 1 <= percent <= 100:
            raise Refused("percent")
        wrong = [channel for channel in channels if not CHANNEL.fullmatch(channel)]
        if wrong:
            raise Refused("channel", names=" ".join(wrong))
        if self._settings.llm is None and not chosen[variant].search:
            raise Refused("no_model", variant=variant)

    # --- what it does by itself

    def asked(self, variant: str) -> None:
        """A question was answered by that variant, or failed under it."""
        if variant != SETTINGS:
            self.look_soon()

    def look_soon(self) -> None:
        """Judge in the background, at most once a second; what ends meanwhile is judged with the next look."""
        self._due = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="canary")

    async def _look(self) -> None:
        while self._due:
            await asyncio.sleep(max(PAUSE_SECONDS, IDLE * self._took))
            self._due, began = False, time.monotonic()
            try:
                await self.judge()
            except StoreError as error:  # the next question, or the job of the next minute, looks again
                log.warning("canary.not_judged", error=type(error).__name__)
            self._took = time.monotonic() - began

    async def judge(self) -> CanaryRow | None:
        """Take the running canary back if a guardrail trips, or its variant is not in the settings any more. Returns it
        as it ended; None where nothing was done."""
        row = await self._canaries.latest()
        if row is None or row.state != "running":
            return None
        if not self._trials.knows(row):
            return await self._back(row, "changed" if row.variant in self._settings.variants else "gone")
        if (await self.measure(row, fresh=False)).worst is None:
            return None
        found = (await self.measure(row)).worst  # nothing goes back for numbers that are a minute old
        if found is None:
            return None
        return await self._back(
            row,
            found.guardrail,
            ours=[found.ours.bad, found.ours.of],
            theirs=[found.theirs.bad, found.theirs.of],
            usual=round(found.usual, 4),
        )

    async def tend(self) -> None:
        """Every minute: judge, move on where that goes by itself, and tell what went by itself until it is told."""
        row = await self._canaries.latest()
        if row is None:
            return
        if row.state == "running" and await self.judge() is None and self._settings.canary.advance:
            with suppress(Refused):
                await self.promote(ITSELF)
        row = await self._canaries.latest()
        if row is not None:
            await self._tell(row)

    async def _back(self, row: CanaryRow, reason: str, **remembered: Any) -> CanaryRow | None:
        if not await self._canaries.end(
            row, "rolled_back", reason=reason, by=ITSELF, what="back", **remembered
        ):
            self.look_soon()  # it moved on meanwhile; judged once more as it is now
            return None
        self._changed(row, "tripped", reason=reason)
        ended = await self._again(row)
        await self._tell(ended)
        return ended

    async def _tell(self, row: CanaryRow) -> None:
        """Tell those who run Signoff of the last step, where nobody took it. Repeating it tells nobody twice."""
        step = row.steps[-1]
        if step["by"] != ITSELF or datetime.now(UTC) - datetime.fromisoformat(step["at"]) > TOLD_FOR:
            return
        language = self._deliverer.alerts.language
        sentence = told(self._words, language, row)
        if row.state == "promoted" and row.variant in self._settings.variants:
            sentence = "\n".join([sentence, *variants.lines(self._settings, row.variant)])
        await self._deliverer.warn(f"canary:{row.id}:{len(row.steps)}", sentence)

    async def _again(self, row: CanaryRow) -> CanaryRow:
        """The row as it is now."""
        return await self._canaries.get(row.id)

    def _changed(self, row: CanaryRow, what: str, **values: str) -> None:
        tell = log.warning if what == "tripped" else log.info
        tell(f"canary.{what}", canary=row.id, variant=row.variant, **values)
        self._trials.heard(Change(TOPIC, {}))

    # --- what there is to see

    async def status(self) -> Status:
        """The last canary, with its guardrails while it is in force."""
        row = await self._canaries.latest()
        if row is None or not row.in_force:
            return Status(row, self.plan)
        measured = await self.measure(row)
        days = (datetime.now(UTC) - row.step_at) / timedelta(days=1)
        known = self._trials.knows(row)
        return Status(
            canary=row,
            plan=self.plan,
            known=known,
            questions=measured.questions,
            of_step=measured.of_step,
            days=days,
            next=self.plan.after(row.percent),
            lacking=self.plan.lacking(days, measured.of_step) if row.state == "running" else (),
            standings=measured.standings,
            lines=tuple(variants.lines(self._settings, row.variant)) if known else (),
        )

    async def measure(self, row: CanaryRow, *, fresh: bool = True) -> Measured:
        """What became of the questions of both sides; where they need not be `fresh`, of the settings' up to a minute
        ago."""
        slow = await self._slow_above(row)
        side = Arm(row.variant, row.started_at, FOR_EVER, row.channels)
        tally, ours = await self._count(side, row, slow)
        if fresh or self._kept is None or self._kept.stale(row.id):
            _, theirs = await self._count(_settings_own(row), row, slow)
            self._kept = _Kept(row.id, time.monotonic(), theirs)
        theirs = self._kept.counts
        standings = tuple(standing(rail, ours[rail.name], theirs[rail.name]) for rail in GUARDRAILS)
        return Measured(tally.questions, tally.of_step, standings, tripped(ours, theirs))

    async def _count(self, side: Arm, row: CanaryRow, slow: float | None) -> tuple[Tally, dict[str, Count]]:
        tally = await self._canaries.tally(side, step_at=row.step_at, failing=FAILING, slow=slow)
        return tally, _counts(tally, await self._rewritten(side), slow is not None)

    async def _rewritten(self, side: Arm) -> int:
        """How many of that side's drafts an editor wrote anew."""
        edits = await self._canaries.edits(side, self._shares)
        for edit in edits:
            if edit.before is not None and edit.after is not None:
                gone = not edit.before or not edit.after  # its words were forgotten
                share = 0.0 if gone else await asyncio.to_thread(changed, edit.before, edit.after)
                self._shares[edit.id] = share
        return len({edit.question_id for edit in edits if self._shares[edit.id] > REWRITTEN})

    async def _slow_above(self, row: CanaryRow) -> float | None:
        """Milliseconds that 95 of a hundred of the settings' own answers took at most before the start; None where
        there were too few. What is in the past stays as it is, and is read once."""
        if row.id not in self._slow:
            before = Arm(SETTINGS, row.started_at - BEFORE, row.started_at, row.channels)
            timed, milliseconds = await self._canaries.quantile(before, SLOW)
            self._slow[row.id] = milliseconds if timed >= TIMED else None
        return self._slow[row.id]


def _taken_back(row: CanaryRow) -> bool:
    """By a guardrail."""
    return row.state == "rolled_back" and row.steps[-1]["by"] == ITSELF and "ours" in row.steps[-1]


def _settings_own(row: CanaryRow) -> Arm:
    """What to compare with: the settings' own questions at the same time, which whatever else happens befalls as well.
    A canary that began with everybody leaves none; then those of the four weeks before it."""
    if row.steps[0]["percent"] < 100:
        return Arm(SETTINGS, row.started_at, FOR_EVER, row.channels)
    return Arm(SETTINGS, row.started_at - BEFORE, row.started_at, row.channels)


def _counts(tally: Tally, rewritten: int, timed: bool) -> dict[str, Count]:
    return {
        "error": Count(tally.failed, tally.questions),
        "unknown": Count(tally.declined, tally.settled),
        "rejected": Count(tally.rejected, tally.decided),
        "edited": Count(min(rewritten, tally.signed), tally.signed),
        "disliked": Count(tally.disliked, tally.voted),
        "slow": Count(tally.slow, tally.timed) if timed else NOTHING,
    }
