"""Load in an open loop: questions come at their rate, whatever becomes of the earlier ones, and the model is instant.

Overhead is the time from a message to its answer in the thread, both by the stand-in's clock: what the model would
take is not in it. Every conversation has a channel of its own: Slack bears one message a second in each, and waiting
for that is no overhead of ours. `steady` asks at one rate; `highest` looks for the highest that is sustained.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tests.emulators.openai_script import parrot
from tests.load.chaos import Ground, Run, between, scene, spread
from tests.load.judge import Report

SUSTAINED_P99 = 3.0  # seconds: above it a queue grows


async def steady(
    ground: Ground,
    *,
    rate: float = 3.0,
    conversations: int = 20,
    seconds: float = 60.0,
    processes: int = 1,
    transport: str = "socket",
    seed: int = 1,
) -> Report:
    """`rate` questions a second for `seconds`."""
    async with scene(
        ground,
        "steady",
        size=processes,
        transport=transport,
        conversations=conversations,
        seed=seed,
        answers=parrot,
        threads=1,
    ) as run:
        await warm(run, conversations)
        measured = await asked_at(run, rate, conversations, seconds)
        run.report.measured |= measured
        run.report.measured["steps_ms"] = await asyncio.to_thread(where_the_time_goes, run)
        return await run.conclude()


async def highest(
    ground: Ground,
    *,
    processes: int,
    conversations: int = 20,
    seconds: float = 15.0,
    first: float = 2.0,
    most: float = 64.0,
    transport: str = "socket",
    seed: int = 1,
) -> Report:
    """The rate is raised by half until answers come later than `SUSTAINED_P99`; the highest before that counts."""
    async with scene(
        ground, f"highest, {processes}", size=processes, transport=transport, conversations=conversations, seed=seed,
        answers=parrot, threads=1,
    ) as run:  # fmt: skip
        await warm(run, conversations)
        tried: list[dict[str, Any]] = []
        rate = first
        while rate <= most:
            tried.append({"rate": round(rate, 1), **await asked_at(run, rate, conversations, seconds)})
            if tried[-1]["overhead_seconds"].get("p99", 99.0) > SUSTAINED_P99:
                break
            rate *= 1.5
        good = [one["rate"] for one in tried if one["overhead_seconds"].get("p99", 99.0) <= SUSTAINED_P99]
        run.report.measured |= {"sustained": max(good, default=0.0), "tried": tried}
        run.report.measured["steps_ms"] = await asyncio.to_thread(where_the_time_goes, run)
        return await run.conclude()


async def warm(run: Run, conversations: int) -> None:
    """One question in every conversation, so that connections, caches and threads are there."""
    await run.crowd.ask_all(["leave"] * conversations, conversations, conversations / 4)
    await run.rest()


async def asked_at(run: Run, rate: float, conversations: int, seconds: float) -> dict[str, Any]:
    """Ask at that rate, then wait for all answers. Returns the overhead in seconds."""
    began, before, idle = time.monotonic(), len(run.crowd.asked), run.processor()
    # Not what no document answers: its nearest passage may be a contract's, and nobody decides here.
    kinds = ["leave" if number % 2 else "expenses" for number in range(max(1, round(rate * seconds)))]
    await run.crowd.ask_all(kinds, conversations, seconds)
    took, spent = time.monotonic() - began, between(idle, run.processor())
    await run.rest(120.0)
    world = await run.ground.slack.world()
    taken = overheads(run, world, before)
    asked = len(run.crowd.asked) - before
    return {
        "questions": asked,
        "asked_a_second": round(asked / took, 2),
        "answered": len(taken),
        "overhead_seconds": spread(list(taken.values())),
        "processor_seconds": spent,
    }


def overheads(run: Run, world: Mapping[str, Any], first: int) -> dict[int, float]:
    """Seconds from each question (from the `first` on) to the call that posted its whole answer."""
    done: dict[str, float] = {}
    for call in world["calls"]:
        metadata = call["arguments"].get("metadata")
        payload = metadata.get("event_payload") or {} if isinstance(metadata, dict) else {}
        kind, _, question = str(payload.get("purpose", "")).partition(":")
        if kind == "answer" and (call.get("response") or {}).get("ok", True):
            done.setdefault(question, call["at"])
    ids = {
        (row["address"]["channel"], row["address"]["asked"]): row["id"] for row in run.database.questions()
    }
    found = {}
    for one in run.crowd.asked[first:]:
        moment = done.get(ids.get((one.channel, one.ts), ""))
        if moment is not None:
            found[one.number + first] = moment - float(one.ts)
    return found


def where_the_time_goes(run: Run) -> dict[str, float]:
    """Median milliseconds of every step, from the runs' own timings: the one thing here that we say ourselves."""
    steps: dict[str, list[float]] = defaultdict(list)
    for row in run.database.rows("SELECT timings FROM runs"):
        for step, spent in row["timings"].items():
            steps[step].append(float(spent))
    medians = {step: sorted(values)[len(values) // 2] for step, values in steps.items()}
    return {step: round(value, 1) for step, value in sorted(medians.items(), key=lambda pair: -pair[1])}
