"""Fifty questions of each kind through the real doors, in an open loop, and the rate at which the 95th of a hundred
answers comes too late.

First every case once, at a rate that waits for nothing: what each kind costs and how often it is right. Then more and
more questions a second, all kinds mixed and none in the same words, until P95 is beyond `limit`; one more rate half
way back says where between. What a question took is the stand-in platform's time from the message to the call that
posts its whole answer; what the model took is the model server's; the search's and the tokens are the run's own.
"""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bot.app import Parts, open_app
from bot.cli.knowledge import upload_handbook
from bot.settings import Settings
from rag_graph.evaluation.results import percentiles, share
from rag_graph.evaluation.stating import states_all
from rag_graph.evaluation.vectors import KeptEmbedder
from rag_graph.evaluation.verdicts import Known, called
from store import open_store
from store.embedding import EndpointEmbedder, LocalEmbedder
from tests.emulators.openai import MODEL, OpenAIServer
from tests.knowledge import publish
from tests.load.cases import KINDS, Case, cases, dressed
from tests.load.chaos import Filling, Ground, Run, between, scene
from tests.load.judge import Report
from tests.load.pace import overheads
from tests.load.reader import ReadingServer

__all__ = ["HANDBOOK", "LIMIT", "few", "handbook", "kinds", "knee", "rise"]

LIMIT = 3.0  # seconds: later than that an answer in a chat counts as slow
HANDBOOK = Path(__file__).parents[2] / "bot" / "handbook"
At = Callable[[float], Awaitable[dict[str, Any]]]  # a rate to what came of it
LOWEST = 0.2  # questions a second
SEARCH = ("embed", "sql", "rank", "rerank")
# The product's own defaults, without what would make a question wait for a person.
CONFIGURATION = """
[review]
verified = false

[limits]
person_questions = 0
channel_questions = 0
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What became of one of them; `seconds` None where no answer was posted."""

    kind: str
    seconds: float | None
    search_ms: float
    model_ms: float
    model_calls: int
    tokens: Mapping[str, int]
    found: bool | None  # was a passage of every document that it needs retrieved
    right: bool
    tool: bool | None  # was its tool called, with arguments that it could run with
    state: str
    without: tuple[str, ...]


@dataclass
class Stage:
    """Some cases asked at one rate; `first` counts the questions that were asked before."""

    rate: float
    asked: list[tuple[Case, str]]
    first: int = 0
    took: float = 0.0
    processor: dict[str, float] = field(default_factory=dict)


async def kinds(
    ground: Ground,
    *,
    processes: int = 1,
    each: int = 50,
    chosen: Sequence[Case] | None = None,
    rate: float = 1.0,
    first: float = 2.0,
    most: float = 40.0,
    seconds: float = 20.0,
    limit: float = LIMIT,
    once: bool = True,
    rising: bool = True,
    filling: Filling | None = None,
    local: bool = True,
    channels: int = 20,
    warm: bool = True,
    transport: str = "socket",
    seed: int = 1,
) -> Report:
    """`each` cases of each kind (or those `chosen`) `once` at `rate` a second; then `rising` from `first`, `seconds` at
    each.

    `filling` writes the knowledge base: the sample handbook. `local`: vectors by the local model in every serving
    process, as a new installation makes them; else by the model server.
    """
    mixed = list(chosen or cases(each=each))
    random.Random(seed).shuffle(mixed)
    server = ReadingServer(mixed)
    async with scene(
        ground, f"kinds, {processes}", size=processes, transport=transport, conversations=channels, seed=seed,
        configuration=CONFIGURATION, threads=1, server=server, filling=filling or handbook(),
        roles=("LLM",) if local else ("LLM", "EMBEDDING"),
    ) as run:  # fmt: skip
        hall = _Hall(run, server, channels)
        if warm:  # one in every channel, so that connections, caches, threads and the local model are there
            await hall.ask(Stage(channels / 4, [(case, dressed(case, 23)) for case in mixed[:channels]]))
        run.report.measured |= {"limit_seconds": limit, "model": server.said}
        if once:
            told = await hall.ask(Stage(rate, [(case, case.text) for case in mixed]))
            run.report.measured |= {"rate": rate, "kinds": by_kind(told)}
        if rising:
            tried = await rise(partial(_at, hall, mixed, seconds), first, most, limit)
            run.report.measured |= {"tried": tried, **knee(tried, limit)}
        return await run.conclude()


async def rise(at: At, first: float, most: float, limit: float) -> list[dict[str, Any]]:
    """What `at` gives for half more each time until it breaks, or half as much until it holds; then once half way
    between the last two. Lowest rate first."""
    tried = [await at(first)]
    held = _good(tried[0], limit)
    rate = first
    while _good(tried[-1], limit) == held:
        rate *= 1.5 if held else 0.5
        if not LOWEST <= rate <= most:
            return sorted(tried, key=lambda one: float(one["rate"]))
        tried.append(await at(rate))
    tried.append(await at((tried[-2]["rate"] + tried[-1]["rate"]) / 2))
    return sorted(tried, key=lambda one: float(one["rate"]))


async def _at(hall: "_Hall", mixed: Sequence[Case], seconds: float, rate: float) -> dict[str, Any]:
    stage = Stage(round(rate, 2), hall.next(mixed, max(1, round(rate * seconds))))
    told = await hall.ask(stage)
    late = [1e3 * one.seconds for one in told if one.seconds is not None]
    return {
        "rate": stage.rate,
        "asked_a_second": round(len(stage.asked) / stage.took, 2),
        "questions": len(told),
        "answered": len(late),
        "ms": percentiles(late),
        "kinds": by_kind(told),
        "processor_seconds": stage.processor,
    }


def _good(step: Mapping[str, Any], limit: float) -> bool:
    return bool(step["answered"] == step["questions"] and step["ms"]["p95"] <= 1e3 * limit)


def knee(tried: Sequence[Mapping[str, Any]], limit: float) -> dict[str, Any]:
    """The highest rate below the first that broke, and that one; None where none held or none broke."""
    holds = breaks = None
    for step in tried:
        if not _good(step, limit):
            breaks = step["rate"]
            break
        holds = step["rate"]
    return {"holds": holds, "breaks": breaks}


# --- asking -----------------------------------------------------------------------------------------------------------


@dataclass
class _Hall:
    """The channels where people ask, each question in a thread of its own: nobody's earlier one is in its prompt."""

    run: Run
    server: ReadingServer
    channels: int
    rounds: int = 0
    waiting: list[tuple[Case, str]] = field(default_factory=list)

    def next(self, mixed: Sequence[Case], count: int) -> list[tuple[Case, str]]:
        """`count` questions that were not asked in these words before."""
        while len(self.waiting) < count:
            self.rounds += 1
            self.waiting += [(case, dressed(case, self.rounds)) for case in mixed]
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken

    async def ask(self, stage: Stage) -> list[Question]:
        """One after the other, evenly, whatever becomes of the earlier ones; then wait for all of them."""
        stage.first = len(self.run.crowd.asked)
        self.server.answered.clear()
        began, idle = time.monotonic(), self.run.processor()
        for number, (case, text) in enumerate(stage.asked):
            await asyncio.sleep(max(0.0, began + number / stage.rate - time.monotonic()))
            await self.run.crowd.ask(number, case.kind, number % self.channels, text=text)
        stage.took = max(time.monotonic() - began, len(stage.asked) / stage.rate)
        stage.processor = between(idle, self.run.processor())
        await self.run.rest(180.0)
        return await asyncio.to_thread(_told, self, stage, await self.run.ground.slack.world())


# --- what became of them ----------------------------------------------------------------------------------------------

ASKED = """
SELECT q.address, q.state, q.answer, r.retrieved, r.tools, r.tokens, r.timings, r.degraded
  FROM questions q LEFT JOIN LATERAL (SELECT * FROM runs WHERE question_id = q.id ORDER BY id DESC LIMIT 1) r ON true
"""
SHELF = """
SELECT c.id, d.title, d.source, d.collection FROM chunks c JOIN documents d ON d.current_version_id = c.version_id
"""


def _told(hall: _Hall, stage: Stage, world: Mapping[str, Any]) -> list[Question]:
    rows = {
        (row["address"]["channel"], row["address"]["asked"]): row for row in hall.run.database.rows(ASKED)
    }
    shelf = {
        row["id"]: Known(row["title"], row["source"], row["collection"])
        for row in hall.run.database.rows(SHELF)
    }
    late = overheads(hall.run, world, stage.first)
    waited = _model(hall.server, [text for _, text in stage.asked])
    told = []
    for number, ((case, text), asked) in enumerate(
        zip(stage.asked, hall.run.crowd.asked[stage.first :], strict=True)
    ):
        row = rows.get((asked.channel, asked.ts), {})
        told.append(_question(case, row, shelf, late.get(stage.first + number), waited.get(text, [])))
    return told


def _question(
    case: Case,
    row: Mapping[str, Any],
    shelf: Mapping[int, Known],
    seconds: float | None,
    calls: Sequence[float],
) -> Question:
    found = [shelf[one] for one in row.get("retrieved") or () if one in shelf]
    tools = [call for call in row.get("tools") or () if call.get("name")]
    timings = row.get("timings") or {}
    text = str((row.get("answer") or {}).get("text", ""))
    return Question(
        kind=case.kind,
        seconds=seconds,
        search_ms=sum(float(timings.get(step, 0.0)) for step in SEARCH)
        + sum(float(call.get("ms") or 0) for call in tools),
        model_ms=1e3 * sum(calls),
        model_calls=len(calls),
        tokens=row.get("tokens") or {},
        found=all(any(called(one, group) for one in found) for group in case.documents)
        if case.documents
        else None,
        right=seconds is not None and states_all(text, case.facts),
        tool=_used(case, tools),
        state=str(row.get("state", "lost")),
        without=tuple(row.get("degraded") or ()),
    )


def _used(case: Case, tools: Sequence[Mapping[str, Any]]) -> bool | None:
    wanted = case.tool or ("search_knowledge_base" if case.then else "")
    if not wanted:
        return None
    return any(call["name"] == wanted and not call.get("error") for call in tools)


def _model(server: ReadingServer, texts: Sequence[str]) -> dict[str, list[float]]:
    """The seconds of the calls for each question, by what it asks; the longest that a prompt ends with."""
    by_length = sorted(texts, key=len, reverse=True)
    found: dict[str, list[float]] = {}
    for one in list(server.answered):
        text = next((text for text in by_length if text in one.tail), None)
        if text is not None:
            found.setdefault(text, []).append(one.seconds)
    return found


def by_kind(told: Sequence[Question]) -> dict[str, dict[str, Any]]:
    """The figures of each kind and of all."""
    parts: dict[str, list[Question]] = {"all": list(told)}
    for kind in KINDS:
        parts[kind] = [one for one in told if one.kind == kind]
    return {name: _figures(members) for name, members in parts.items() if members}


def _figures(told: Sequence[Question]) -> dict[str, Any]:
    late = [1e3 * one.seconds for one in told if one.seconds is not None]
    found = [one.found for one in told if one.found is not None]
    tools = [one.tool for one in told if one.tool is not None]
    without = Counter(part for one in told for part in one.without)
    return {
        "questions": len(told),
        "answered": len(late),
        "errors": sum(one.seconds is None or one.state in ("failed", "refused", "lost") for one in told),
        "declined": sum(one.state == "declined" for one in told),
        "without": dict(without),
        "end_to_end_ms": percentiles(late),
        "search_ms": percentiles([one.search_ms for one in told]),
        "model_ms": percentiles([one.model_ms for one in told]),
        "model_calls": round(sum(one.model_calls for one in told) / len(told), 2),
        "prompt_tokens": _mean(told, "prompt"),
        "completion_tokens": _mean(told, "completion"),
        "right_document_retrieved": share(found) if found else None,
        "answer_right": share([one.right for one in told]),
        "right_tool": share(tools) if tools else None,
    }


def _mean(told: Sequence[Question], name: str) -> float:
    return round(sum(float(one.tokens.get(name, 0)) for one in told) / len(told), 1)


# --- the knowledge base -----------------------------------------------------------------------------------------------


def handbook(vectors: Path | None = None) -> Filling:
    """The sample handbook as `signoff up` reads it, with the local model's vectors, kept in `vectors` (npz)."""

    async def filling(database: str, _server: OpenAIServer) -> None:
        home = Path(".")  # of which nothing is read: the database is given
        embedder = KeptEmbedder(LocalEmbedder(), vectors) if vectors else LocalEmbedder()
        async with open_app(
            Settings(home=home, config=home / "signoff.toml"), database, Parts(embedder=embedder)
        ) as app:
            results = await upload_handbook(app)
            failed = [result.name for result in results if result.failed]
            assert not failed, failed
        if isinstance(embedder, KeptEmbedder):
            await embedder.save()

    return filling


def few(sources: Sequence[str]) -> Filling:
    """Some of its Markdown documents cut at blank lines, in the space of the model server's vectors: in a second."""

    async def filling(database: str, server: OpenAIServer) -> None:
        embedder = EndpointEmbedder(server.base_url, server.key, MODEL)
        try:
            await embedder.query("dimension")
            async with open_store(database, embedder) as store:
                for source in sources:
                    text = (HANDBOOK / source).read_text(encoding="utf-8")
                    title, _, rest = text.removeprefix("# ").partition("\n")
                    pieces = [piece.strip() for piece in re.split(r"\n(?=## )", rest) if piece.strip()]
                    await publish(store, embedder, source.split("/")[0], source, pieces, title=title)
        finally:
            await embedder.close()

    return filling
