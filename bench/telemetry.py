"""What telemetry costs a question: `make bench-telemetry`. Results go to bench/results/telemetry.json and
docs/benchmarks.md.

One application in this process, over an embedded database, its model a stand-in in a process of its own. Every question
is asked twice, in a random order: once with everything that is told of it – the run's row with its prompts, the
counters, the lines of log with their ids – and once with nothing of it. Both are put together by `Parts`; what differs
is the processor time of this process, accept to remembered.
"""

import argparse
import asyncio
import gc
import json
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from bot.app import App, Parts, open_app
from bot.messages import Incoming
from bot.settings import Limits
from bot.telemetry import Telemetry, Untold, configure_logging
from rag_graph.advance import Outcome
from rag_graph.chat import Called
from rag_graph.models import ModelSettings, ModelWriter
from rag_graph.record import Asked
from store import Store
from store.database import migrate
from store.embedded import EmbeddedPostgres
from store.queue import Queue
from store.runs import NewRun, Runs
from tests.embedder import HashEmbedder
from tests.emulators.openai import MODEL
from tests.load import processor
from tests.workspace import fill, free_port, settings_for

RESULTS = ROOT / "bench" / "results" / "telemetry.json"
PAIRS, MOST_MS = 300, 3.0
KEY = "bench-key"
QUESTIONS = (
    "How many days of annual leave do I get?",
    "Until when is unused annual leave valid?",
    "Who approves my annual leave?",
    "How much notice do I have to give for a week of leave?",
    "What does ERR_0042 mean?",
    "年假可以休多少天？",
    "未休的年假什么时候作废？",
    "病假需要什么证明？",
    "How do I report an error of the VPN?",
    "How many days of leave does somebody have after ten years?",
)
SHELVES = ("hr/leave.en.md", "hr/leave.zh.md", "it/error-codes.en.md")

# It answers in one piece: every piece of a stream costs the client a millisecond, with and without telemetry.
STAND_IN = """
import dataclasses, sys, threading
from tests.emulators.openai import OpenAIServer
from tests.emulators.openai_script import Say, parrot

def whole(body):
    said = parrot(body)
    return dataclasses.replace(said, piece=10_000) if isinstance(said, Say) else said

with OpenAIServer(port=int(sys.argv[1]), key=sys.argv[2], default=whole):
    print("there")
    threading.Event().wait()
"""


class Switch:
    """Whether anything is told. Every part below asks it."""

    on = True


class SwitchedTelemetry(Telemetry):
    def __init__(self, switch: Switch) -> None:
        super().__init__()
        self._switch = switch
        self._told, self._silent = Telemetry(self.metrics), Untold(self.metrics)

    def _now(self) -> Telemetry:
        return self._told if self._switch.on else self._silent

    def name(self, **ids: object) -> None:
        self._now().name(**ids)

    def accepted(self, question_id: str, platform: str, refused: str) -> None:
        self._now().accepted(question_id, platform, refused)

    def settled(
        self, question: tuple[str, str], run: int, outcome: Outcome, spent: Mapping[str, float]
    ) -> None:
        self._now().settled(question, run, outcome, spent)

    def delivered(self, platform: str, result: str) -> None:
        self._now().delivered(platform, result)


class SwitchedRuns(Runs):
    def __init__(self, store: Store, switch: Switch) -> None:
        super().__init__(store.database.engine)
        self._switch = switch

    async def record(self, new: NewRun) -> int:
        return await super().record(new) if self._switch.on else 0


def about(switch: Switch) -> Callable[..., AbstractContextManager[Any]]:
    """As the queue names a job's ids, or not."""
    return lambda **ids: structlog.contextvars.bound_contextvars(**ids) if switch.on else nullcontext()


class Heard:
    """Hands a model's calls on to the application, which is made after the model, or drops them."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self.app: App | None = None

    def prompt(self, question_id: str, call: Asked) -> None:
        if self.app is not None and self._switch.on:
            self.app.graphs.prompts.hear(question_id, call)

    def call(self, call: Called) -> None:
        if self.app is not None and self._switch.on:
            self.app.telemetry.metrics.called(call)


@asynccontextmanager
async def opened(url: str, home: Path, model: str, switch: Switch) -> AsyncIterator[App]:
    heard = Heard(switch)
    writer = ModelWriter(ModelSettings(model, SecretStr(KEY), MODEL), hear=heard.prompt, told=heard.call)

    def switched(store: Store) -> Store:
        queue = Queue(store.queue.app, about(switch))
        return replace(store, runs=SwitchedRuns(store, switch), queue=queue)

    parts = Parts(embedder=HashEmbedder(), writer=writer, store=switched, telemetry=SwitchedTelemetry(switch))
    try:
        # Nobody asks so much; the door would refuse it.
        unlimited = Limits(person_questions=0, channel_questions=0, waiting_questions=0)
        settings = settings_for(home).model_copy(update={"limits": unlimited})
        async with open_app(settings, url, parts) as app:
            heard.app = app
            await fill(app, SHELVES)
            yield app
    finally:
        await writer.close()


async def ask(app: App, text: str, named: Callable[..., AbstractContextManager[Any]]) -> float:
    """Seconds of this process's processor for one question, answered and remembered as its jobs do it."""
    thread = uuid.uuid4().hex
    incoming = Incoming(
        platform="cli",
        dedupe_key=thread,
        conversation_id=f"cli:bench:{thread}",
        channel="bench",
        thread=thread,
        private=True,
        asker="cli:bench",
        text=text,
        sent_at=datetime.now(UTC),
    )
    began = time.process_time()
    question_id = await app.asking.accept(incoming)
    assert question_id is not None
    # Each job has a context of its own, so that what is named in it does not stay.
    for job in (app.asking.answer, app.asking.remember):
        await asyncio.create_task(_as_job(job, question_id, named))
    spent = time.process_time() - began
    row = await app.store.conversations.question(question_id)
    assert row.state == "answered" or row.state == "declined", row.state
    return spent


async def _as_job(job: Any, question_id: str, named: Callable[..., AbstractContextManager[Any]]) -> None:
    with named(question=question_id):
        await job(question_id)


async def measure(pairs: int, seed: int) -> dict[str, Any]:
    switch = Switch()
    chance = random.Random(seed)
    spent: dict[bool, list[float]] = {True: [], False: []}
    postgres: dict[bool, float] = {True: 0.0, False: 0.0}
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        lines = (Path(folder) / "lines.jsonl").open("w", encoding="utf-8")
        configure_logging(human=False)
        logging.getLogger().handlers[0].setStream(lines)  # type: ignore[attr-defined]  # ours is a StreamHandler
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            await migrate(url)
            with standing_in() as model:
                async with opened(url, Path(folder), model, switch) as app:
                    named = about(switch)
                    for told in (True, False, True, False):  # the search and the pools are warm for both
                        switch.on = told
                        for text in QUESTIONS:
                            await ask(app, text, named)
                    gc.collect()
                    gc.freeze()
                    for pair in range(pairs):
                        order = [True, False]
                        chance.shuffle(order)
                        for told in order:
                            switch.on = told
                            before = processor.of_postgres(url)
                            spent[told].append(await ask(app, QUESTIONS[pair % len(QUESTIONS)], named))
                            postgres[told] += processor.of_postgres(url) - before
                    scrape = await _scrape(app)
        finally:
            server.stop()
            lines.close()
        written = (Path(folder) / "lines.jsonl").read_text(encoding="utf-8").count("\n")
    return {
        **summary(spent[True], spent[False]),
        "postgres_ms": round(1e3 * (postgres[True] - postgres[False]) / pairs, 2),
        "lines_of_log": written,
        "scrape_ms": round(scrape, 2),
    }


async def _scrape(app: App) -> float:
    """Milliseconds of processor for one look at /metrics."""
    began = time.process_time()
    await app.telemetry.metrics.exposed(app.store.standings)
    return 1e3 * (time.process_time() - began)


def summary(told: Sequence[float], silent: Sequence[float]) -> dict[str, Any]:
    """Medians in milliseconds; the differences of the pairs with the 95 % interval of their median, from its order
    statistics (binomial, normal approximation): no shape of the distribution is assumed."""
    differences = sorted(1e3 * (one - other) for one, other in zip(told, silent, strict=True))
    count = len(differences)
    below = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return {
        "pairs": count,
        "with_ms": round(1e3 * statistics.median(told), 2),
        "without_ms": round(1e3 * statistics.median(silent), 2),
        "median_ms": round(statistics.median(differences), 2),
        "interval_ms": [round(differences[below], 2), round(differences[count - 1 - below], 2)],
        "mean_ms": round(statistics.fmean(differences), 2),
    }


class standing_in:
    """The model's stand-in in a process of its own: its processor time is not ours. Its address."""

    def __enter__(self) -> str:
        port = free_port()
        command = [sys.executable, "-u", "-c", STAND_IN, str(port), KEY]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it says when it is there
        return f"http://127.0.0.1:{port}/v1"

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def page(written: Mapping[str, Any]) -> str:
    machine, (low, high) = written["machine"], written["interval_ms"]
    met = "met" if high <= MOST_MS else "**not met**"
    head = ["processor time of a question, ms", ""]
    rows = [
        ["everything told", f"{written['with_ms']:.1f}"],
        ["nothing told", f"{written['without_ms']:.1f}"],
        ["median difference of the pairs", f"{written['median_ms']:.2f} ({low:.2f} to {high:.2f})"],
        ["mean difference", f"{written['mean_ms']:.2f}"],
        ["beside it in Postgres", f"{written['postgres_ms']:.2f}"],
        ["one look at /metrics, not for each question", f"{written['scrape_ms']:.1f}"],
    ]
    return (
        "## What telemetry costs\n\n"
        f"`{written['command']}`, {written['date'][:10]}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{written['commit'][:7]}, load average before {written['load_before']:.1f}: {written['pairs']} pairs of the "
        "same question in one process, in a random order; once with the run's row and its prompts, the counters and "
        f"{written['lines_of_log']} lines of log in all, once without. Asked: ≤ {MOST_MS:.0f} ms of processor "
        f"a question, {met}.\n\n" + table(head, rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=9)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    found = asyncio.run(measure(chosen.pairs, chosen.seed))
    about_it = provenance(
        f"python -m bench.telemetry --pairs {chosen.pairs} --seed {chosen.seed}", vars(chosen)
    )
    written = {**about_it, "load_before": round(load, 2), **found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(write_section(ROOT / "docs" / "benchmarks.md", "telemetry", page(written)))
    sys.exit(found["interval_ms"][1] > MOST_MS)


if __name__ == "__main__":
    main()
