"""What production does to a bot, done on purpose: each scenario runs real processes and returns what it found.

The parts are `signoff serve` (fleet.py), the stand-in Slack with its people (crowd.py), a model server, Postgres,
and invariants asserted from what the stand-in shows and what the database holds (judge.py).
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_graph.contracts import Limits
from store import open_store
from store.embedded import EmbeddedPostgres
from store.embedding import EndpointEmbedder
from tests.emulators.openai import MODEL, Cut, Hang, OpenAIServer, Slow, Status, Unsteady
from tests.emulators.slack.client import StandIn
from tests.knowledge import publish
from tests.load import processor
from tests.load.crowd import CORPUS, QUESTIONS, REVIEW_CHANNEL, REVIEWERS, THREADS, Asked, Crowd
from tests.load.fleet import Fleet, Serving, Starter, listens
from tests.load.judge import Database, Message, Report, judge, messages

Filling = Callable[[str, OpenAIServer], Awaitable[None]]

# Slack repeats after nothing, a minute and five; here a tenth of it.
LADDER = (0.0, 6.0, 30.0)
THINKS = 0.25  # seconds before each piece of an answer, of which there are about four
REST_SECONDS = 120.0
BUDGET = Limits().question_seconds
GRACE = 5.0
ACK_SECONDS = 3.0  # what Slack waits for
CONFIGURATION = f"""
[search]
retry_below = 0.3
abstain_below = 0.3

[review]
reviewers = {[f"slack:{user}" for user in REVIEWERS]}
verified = false
channels = ["slack:{REVIEW_CHANNEL}"]

[[review.rules]]
name = "contracts"
collections = ["contracts"]
action = "hold"

[limits]
person_questions = 0
channel_questions = 0
"""


@dataclass(frozen=True)
class Ground:
    """What a scenario stands on: a migrated, empty database, the stand-in, a folder, and how to start processes."""

    database: str
    slack: StandIn
    folder: Path
    starter: Starter


@dataclass
class Run:
    """One scenario under way."""

    ground: Ground
    fleet: Fleet
    crowd: Crowd
    database: Database
    report: Report
    began: float

    async def rest(self, seconds: float = REST_SECONDS) -> None:
        """Wait until nothing is left to do, then until nothing is on its way."""
        deadline = time.monotonic() + seconds
        while left := await self._unrest():
            if time.monotonic() > deadline:
                self.report.faults.append(f"no rest within {seconds:g} s: {'; '.join(left)}")
                break
            await asyncio.sleep(0.3)
        await asyncio.sleep(1.5)  # what is acknowledged first and told later, such as a word to the clicker

    def processor(self) -> dict[str, float]:
        """Seconds of processor time so far: of the serving processes that run, the server, the stand-in with its
        people, and this process, which is the load and the model."""
        return {
            "signoff": sum(processor.seconds(process.pid) for process in self.fleet.processes),
            "postgres": processor.of_postgres(self.ground.database),
            "stand-in": processor.seconds(self.ground.slack.process),
            "load and model": processor.seconds(os.getpid()),
        }

    async def _unrest(self) -> list[str]:
        """What is left: payloads that have not arrived, questions that have not ended, jobs that are due."""
        waiting = await self.ground.slack.do("waiting")
        left = await asyncio.to_thread(self.database.unrest)
        return [*left, *([f"{waiting} payloads on their way"] if waiting else [])]

    async def conclude(self) -> Report:
        """Judge, and say how long it took."""
        self.report.clicks = self.crowd.clicks
        world = await self.ground.slack.world()
        await asyncio.to_thread(judge, self.crowd.asked, world, self.database, self.report)
        self.report.seconds = round(time.monotonic() - self.began, 1)
        return self.report


@asynccontextmanager
async def scene(
    ground: Ground,
    name: str,
    *,
    size: int = 1,
    transport: str = "socket",
    conversations: int = 4,
    seed: int = 1,
    answers: Any = None,
    model: bool = True,
    configuration: str = CONFIGURATION,
    copies: tuple[int, int] = (1, 1),
    threads: int = THREADS,
    server: OpenAIServer | None = None,
    filling: Filling | None = None,
    roles: Sequence[str] = ("LLM", "EMBEDDING"),
) -> AsyncIterator[Run]:
    """Everything up and ready, and people waiting to ask. `server` is a model server of one's own, used for `roles`,
    and `filling` another knowledge base."""
    began = time.monotonic()
    with server or OpenAIServer(default=answers or Slow(THINKS)) as server:
        await (filling or fill)(ground.database, server)
        await ground.slack.do("reset")
        await ground.slack.do("set", ladder=LADDER)
        await ground.slack.do("trouble", copies=copies, spread=2.0)
        crowd = Crowd(ground.slack, seed, threads)
        await crowd.arrive(conversations)
        fleet = Fleet(
            ground.database,
            ground.slack,
            ground.folder,
            ground.starter,
            configuration if model else f"local_embedding = false\n{configuration}",
            size,
            transport,
            server if model else None,
            roles,
        )
        async with fleet:
            yield Run(ground, fleet, crowd, Database(ground.database), Report(name), began)


async def fill(database: str, model: OpenAIServer) -> None:
    """A small knowledge base, in the space of the model server's embeddings."""
    embedder = EndpointEmbedder(model.base_url, model.key, MODEL)
    try:
        await embedder.query("dimension")
        async with open_store(database, embedder) as store:
            for (collection, source), texts in CORPUS.items():
                await publish(store, embedder, collection, source, texts)
    finally:
        await embedder.close()


# --- processes die ----------------------------------------------------------------------------------------------


async def killed(
    ground: Ground,
    *,
    questions: int = 200,
    conversations: int = 40,
    held: int = 60,
    processes: int = 3,
    kills: int = 20,
    every: float = 15.0,
    transport: str = "socket",
    seed: int = 1,
) -> Report:
    """Serving processes killed with -9, every event delivered two to four times, four clicks against each other on
    each review. Recovery is the time until the killed process serves again, and until every job that ran anywhere at
    the kill has ended."""
    async with scene(
        ground,
        "killed",
        size=processes,
        transport=transport,
        conversations=conversations,
        seed=seed,
        copies=(2, 4),
    ) as run:
        deciding = asyncio.create_task(run.crowd.decide())
        watching = asyncio.create_task(_watch_decisions(run))
        kinds = run.crowd.kinds(questions, held)
        asking = asyncio.create_task(run.crowd.ask_all(kinds, conversations, max(kills, 1) * every))
        recoveries = await _kill_often(run, kills, every, random.Random(seed))
        await asking
        await run.rest()
        await _probe(run, conversations)
        for task in (deciding, watching):
            task.cancel()
        await asyncio.gather(deciding, watching, return_exceptions=True)
        run.report.measured["recoveries"] = recoveries
        for key in ("serving", "jobs"):
            run.report.measured[f"{key}_seconds"] = spread([one[key] for one in recoveries])
        return await run.conclude()


async def _kill_often(run: Run, kills: int, every: float, chance: random.Random) -> list[dict[str, Any]]:
    began, after = time.monotonic(), []
    for number in range(kills):
        await asyncio.sleep(max(0.0, began + (number + chance.uniform(0.3, 0.7)) * every - time.monotonic()))
        # One of those that serve, and never the last: what is still starting has nothing to lose.
        while len(serving := [p for p in run.fleet.processes if _serves(p)]) < min(2, run.fleet.size):
            await asyncio.sleep(0.1)
        victim = chance.choice(serving)
        victim.dying = True
        after.append(asyncio.create_task(_kill(run, victim)))
    return list(await asyncio.gather(*after))


def _serves(process: Serving) -> bool:
    return not process.dying and listens(process.port)


async def _kill(run: Run, process: Serving) -> dict[str, Any]:
    """Kill, start anew, and time the recovery."""
    running = {
        row["id"] for row in run.database.rows("SELECT id FROM procrastinate_jobs WHERE status = 'doing'")
    }
    began = time.monotonic()
    run.fleet.kill(process)
    while run.fleet.starter.alive(process.pid):
        await asyncio.sleep(0.01)
    run.fleet.start(process)
    process.dying = False
    serving = jobs = 0.0
    while not (serving and jobs) and time.monotonic() - began < REST_SECONDS:
        await asyncio.sleep(0.1)
        passed = round(time.monotonic() - began, 2)
        serving = serving or (passed if listens(process.port) else 0.0)
        if not jobs and not await asyncio.to_thread(_still_there, run, running):
            jobs = passed
    if not (serving and jobs):
        run.report.faults.append(f"no recovery within {REST_SECONDS:g} s of a kill")
    return {"jobs_running": len(running), "serving": serving, "jobs": jobs}


def _still_there(run: Run, ids: set[int]) -> bool:
    """Whether any of those jobs still has to end; a job that succeeded is gone from its table."""
    found = run.database.rows("SELECT 1 FROM procrastinate_jobs WHERE id = ANY(%s) LIMIT 1", list(ids))
    return bool(found)


async def _watch_decisions(run: Run) -> None:
    """A review that was decided once must never read otherwise."""
    known: dict[int, tuple[str, str]] = {}
    while True:
        for review in await asyncio.to_thread(run.database.reviews):
            if review["state"] == "pending":
                continue
            read = (review["state"], review["decided_by"])
            if known.setdefault(review["id"], read) != read:
                run.report.faults.append(f"review {review['id']} was {known[review['id']]} and became {read}")
        await asyncio.sleep(1.0)


async def _probe(run: Run, conversations: int) -> None:
    """One more question in every conversation: none is stuck."""
    began = time.monotonic()
    roots: dict[tuple[str, str], Asked] = {}
    for asked in run.crowd.asked:
        roots.setdefault((asked.channel, asked.thread), asked)
    for number, (channel, thread) in enumerate(roots):
        conversation = next(
            n for n in range(conversations) if roots[(channel, thread)].number % conversations == n
        )
        await run.crowd.ask(10_000 + number, "leave", conversation, thread)
    await asyncio.sleep(0.5)
    await run.rest(60.0)
    run.report.measured["probe_seconds"] = round(time.monotonic() - began, 1)


# --- the database goes away ---------------------------------------------------------------------------------------


async def restarted(
    ground: Ground,
    server: EmbeddedPostgres,
    *,
    questions: int = 80,
    conversations: int = 16,
    held: int = 20,
    processes: int = 2,
    restarts: int = 5,
    away: float = 4.0,
    every: float = 20.0,
    transport: str = "http",
    seed: int = 1,
) -> Report:
    """Postgres stopped and started, every second time killed, under load. Working again means that a question asked
    when it is back is acknowledged and answered, at most fifteen seconds later."""
    async with scene(
        ground,
        "restarted",
        size=processes,
        transport=transport,
        conversations=conversations + restarts,
        seed=seed,
    ) as run:
        deciding = asyncio.create_task(run.crowd.decide())
        kinds = run.crowd.kinds(questions, held)
        asking = asyncio.create_task(run.crowd.ask_all(kinds, conversations, restarts * every))
        began, again = time.monotonic(), []
        for number in range(restarts):
            await asyncio.sleep(max(0.0, began + (number + 0.3) * every - time.monotonic()))
            await asyncio.to_thread(_take_away, server, away, number % 2 == 1)
            again.append(await _working_again(run, number, conversations))
        await asking
        await run.rest()
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        run.report.measured["working_again_seconds"] = again
        run.report.faults += [
            f"not working {took} s after the database was back" for took in again if took > 15.0
        ]
        run.report.faults += _acknowledged_is_stored(await ground.slack.world(), run)
        return await run.conclude()


def _take_away(server: EmbeddedPostgres, seconds: float, violently: bool) -> None:
    if violently:
        postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
        os.kill(
            postmaster, signal.SIGQUIT
        )  # "immediate": no checkpoint, sessions cut, crash recovery at the start
    else:
        server.stop()
    time.sleep(seconds)
    server.start()


async def _working_again(run: Run, number: int, conversations: int) -> float:
    """Seconds until a question asked now has its answer in its thread."""
    began = time.monotonic()
    asked = await run.crowd.ask(20_000 + number, "leave", conversations + number)
    while time.monotonic() - began < 60.0:
        for message in await run.ground.slack.see(asked.user, asked.channel):
            if message["by"] == "U0BOT" and message["thread"] == asked.ts and "15 days" in message["text"]:
                return round(time.monotonic() - began, 2)
        await asyncio.sleep(0.1)
    return 60.0


def _acknowledged_is_stored(world: Mapping[str, Any], run: Run) -> list[str]:
    """What Slack was told is taken is in the database, whatever happened to it a moment later."""
    stored = {row["address"]["asked"] for row in run.database.questions()}
    asked = {one.ts: one for one in run.crowd.asked}
    faults = []
    for parcel in world["deliveries"]:
        one = asked.get(str(parcel.get("ts")))
        if one is not None and parcel["acked"] and one.ts not in stored:
            faults.append(f"question {one.number} was acknowledged and is not stored")
    return faults


# --- the platform refuses and forgets -----------------------------------------------------------------------------


async def limited(
    ground: Ground,
    *,
    questions: int = 60,
    conversations: int = 12,
    held: int = 15,
    ratelimited: float = 0.30,
    lost: float = 0.05,
    over: float = 45.0,
    copies: tuple[int, int] = (1, 1),
    transport: str = "socket",
    seed: int = 1,
) -> Report:
    """A share of all calls answered with 429, another carried out and never answered. No answer twice, none missing
    without a word."""
    async with scene(
        ground, "limited", transport=transport, conversations=conversations, seed=seed, copies=copies
    ) as run:
        await ground.slack.do("odds", ratelimited=ratelimited, lost=lost)
        deciding = asyncio.create_task(run.crowd.decide())
        await run.crowd.ask_all(run.crowd.kinds(questions, held), conversations, over)
        await run.rest()
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        calls = (await ground.slack.world())["calls"]
        met = Counter(call.get("fault", "answered") for call in calls)
        run.report.measured |= {"calls": len(calls), "met": dict(met)}
        return await run.conclude()


# --- the model fails ----------------------------------------------------------------------------------------------


async def unsteady(
    ground: Ground,
    *,
    questions: int = 60,
    held: int = 12,
    odds: float = 0.30,
    hang: float = 60.0,
    over: float = 30.0,
    budget: float = BUDGET,
    seed: int = 1,
) -> Report:
    """A share of the model's calls ends in 429, 500, a cut stream or silence. Every question, in a conversation of its
    own, ends in an answer, quotations or an honest sentence within its time (`budget` seconds of being asked, and a
    little more for its way through queue, search and platform)."""
    model = Unsteady(
        odds, ways=(Status(429, 1.0), Status(500), Cut(), Hang(hang)), then=Slow(0.05), seed=seed
    )
    async with scene(ground, "unsteady", size=2, conversations=questions, seed=seed, answers=model) as run:
        deciding = asyncio.create_task(run.crowd.decide())
        await run.crowd.ask_all(run.crowd.kinds(questions, held), questions, over)
        await run.rest(budget + 60.0)
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        report = await run.conclude()
        world = await ground.slack.world()
        runs = run.database.rows("SELECT timings, degraded FROM runs")
    taken = first_words(run.crowd.asked, run.database.questions(), messages(world))
    report.measured |= {
        "model_calls": dict(Counter(model.drawn)),
        "first_word_seconds": spread(list(taken.values())),
        "run_seconds": spread(
            [row["timings"]["answer"] / 1_000 for row in runs if "answer" in row["timings"]]
        ),
        "without_model": dict(Counter(part for row in runs for part in row["degraded"])),
    }
    report.faults += [
        f"question {n} waited {took:.0f} s" for n, took in taken.items() if took > budget + GRACE
    ]
    unanswered = {one.number for one in run.crowd.asked} - set(taken)
    return replace(report, faults=report.faults + [f"question {n} got no word" for n in sorted(unanswered)])


# --- everybody at once --------------------------------------------------------------------------------------------


async def burst(
    ground: Ground,
    *,
    events: int = 1_000,
    over: float = 10.0,
    people: int = 50,
    processes: int = 2,
    transport: str = "http",
    ack: float = 0.5,
    seed: int = 1,
) -> Report:
    """Direct messages of many people within seconds, answered by quotations without a model. Each is acknowledged, 99
    of a hundred within `ack` seconds by the stand-in's clock, and each is answered."""
    async with scene(
        ground, "burst", size=processes, transport=transport, conversations=1, seed=seed, model=False
    ) as run:
        users = [f"U0B{number}" for number in range(people)]
        for user in users:
            await ground.slack.do("user", id=user)
        # Not what no document answers: its nearest passage may be a contract's, and nobody decides here.
        kinds = ["leave", "expenses"] * (events // 2) + ["leave"] * (events % 2)
        writers = [users[number % people] for number in range(events)]
        steps = [
            {
                "do": "say",
                "user": user,
                "channel": user,  # one's own id opens the direct messages with the bot
                "text": f"{QUESTIONS[kind]} (number {number})",
                "wait": False,
            }
            for number, (kind, user) in enumerate(zip(kinds, writers, strict=True))
        ]
        before = run.processor()
        said = await ground.slack.do("steps", steps=steps, seconds=over)
        spent = run.processor()
        for number, (kind, user, one) in enumerate(zip(kinds, writers, said, strict=True)):
            run.crowd.asked.append(Asked(number, kind, user, f"D{user[1:]}", one["ts"], "", float(one["ts"])))
        await run.rest(max(60.0, events / 2))
        run.report.measured |= {
            "processor_seconds_asking": between(before, spent),
            "processor_seconds_until_rest": between(before, run.processor()),
        }
        report = await run.conclude()
        world = await ground.slack.world()
    theirs = {one.ts for one in run.crowd.asked}
    attempts = [parcel["attempts"][0] for parcel in world["deliveries"] if parcel["ts"] in theirs]
    met = Counter(attempt["outcome"] for attempt in attempts)
    taken = [attempt["took"] for attempt in attempts if attempt["outcome"] == "acked"]
    report.measured |= {"ack_seconds": spread(taken), "first_attempts": dict(met)}
    if ack < ACK_SECONDS and len(taken) < len(attempts):
        report.faults.append(
            f"{len(attempts) - len(taken)} events were not acknowledged at the first attempt"
        )
    elif taken and spread(taken)["p99"] > ack:
        report.faults.append(f"99 of 100 acknowledgements took up to {spread(taken)['p99']} s")
    return report


# --- what was measured --------------------------------------------------------------------------------------------


def first_words(
    asked: Sequence[Asked], rows: Sequence[Mapping[str, Any]], shown: Sequence[Message]
) -> dict[int, float]:
    """Seconds from each question to the first message about it: its answer, or that a person looks at it."""
    first: dict[str, float] = {}
    for message in shown:
        kind, _, rest = message.purpose.partition(":")
        if kind in ("answer", "held"):
            first.setdefault(rest.split(":")[0], float(message.ts))
    ids = {(row["address"]["channel"], row["address"]["asked"]): row["id"] for row in rows}
    found = {}
    for one in asked:
        moment = first.get(ids.get((one.channel, one.ts), ""))
        if moment is not None:
            found[one.number] = moment - float(one.ts)
    return found


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was spent from `before` to `after`."""
    return {kind: round(seconds - before[kind], 2) for kind, seconds in after.items()}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th of a hundred (the greatest where there are fewer), and the greatest."""
    if not values:
        return {}
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "p50": round(ordered[len(ordered) // 2], 3),
        "p99": round(ordered[min(last, int(len(ordered) * 0.99))], 3),
        "max": round(ordered[last], 3),
    }
