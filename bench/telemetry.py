"""What telemetry costs a question: `make bench-telemetry`. Results go to bench/results/telemetry.json and
docs/benchmarks.md.

One application in this process, over an embedded database. It answers in quotations, beside which less is lost in
noise than beside a streamed answer, and tells of each as of a call of a model with a whole prompt. Every question is
asked three times, in a random order: with everything that is told of it – the run's row with its prompt, tokens and
timings, the counters, the lines of log with their ids; with no more than the bare row of the run; and with nothing. All
are put together by `Parts`; what differs is the processor time of this process, accept to remembered.

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
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import structlog

from bench.provenance import ROOT, provenance
from bench.tables import table, write_section
from bot.app import App, Parts, open_app
from bot.messages import Incoming
from bot.settings import Limits
from bot.telemetry import Telemetry, Untold, configure_logging
from rag_graph.advance import Outcome
from rag_graph.chat import Called
from rag_graph.contracts import Material, OnSentence, Question, Turn, Written
from rag_graph.models import ExtractiveWriter
from rag_graph.record import Asked
from store import Store
from store.database import migrate
from store.embedded import EmbeddedPostgres
from store.queue import Queue
from store.runs import NewRun, Runs
from tests.embedder import HashEmbedder
from tests.load import processor
from tests.workspace import fill, settings_for

RESULTS = ROOT / "bench" / "results" / "telemetry.json"
TIMES, MOST_MS = 300, 3.0
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
# As long as a drafting prompt with three passages is, and fenced like one.
MESSAGES = (
    {"role": "system", "content": "Answer from the documents and cite them. " * 42},
    {
        "role": "user",
        "content": "\n\n".join(
            f"[[f00d document {at}]]\n" + "Employees receive annual leave. " * 40 + f"\n[[f00d end {at}]]"
            for at in (1, 2, 3)
        ),
    },
)
SHELVES = ("hr/leave.en.md", "hr/leave.zh.md", "it/error-codes.en.md")

How = Literal["everything", "bare row", "nothing"]
HOWS: tuple[How, ...] = ("everything", "bare row", "nothing")


class Switch:
    """How much is told: every part below asks it."""

    how: How = "everything"

    @property
    def on(self) -> bool:
        return self.how == "everything"


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
        if self._switch.how == "nothing":
            return 0
        return await super().record(new if self._switch.on else bare(new))


def bare(new: NewRun) -> NewRun:
    """What a run was before anybody watched: what became of the question, and of which passages."""
    return NewRun(
        new.question_id,
        new.outcome,
        retrieved=new.retrieved,
        cited=new.cited,
        confidence=new.confidence,
        rule=new.rule,
    )


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


class Telling(ExtractiveWriter):
    """Quotes, and says of it what is said of a model's call."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        written = await super().draft(question, turns, summary, material, on_sentence)
        self._heard.prompt(question.id, Asked("draft", "a-model", MESSAGES, 1_500, 1_432, question.text))
        self._heard.call(Called("draft", 1.2, 1_432, 64))
        return replace(written, tokens={"estimated": 1_500, "prompt": 1_432, "completion": 64})


@asynccontextmanager
async def opened(url: str, home: Path, switch: Switch) -> AsyncIterator[App]:
    heard = Heard(switch)

    def switched(store: Store) -> Store:
        queue = Queue(store.queue.app, about(switch))
        return replace(store, runs=SwitchedRuns(store, switch), queue=queue)

    parts = Parts(
        embedder=HashEmbedder(), writer=Telling(heard), store=switched, telemetry=SwitchedTelemetry(switch)
    )
    # Nobody asks so much; the door would refuse it.
    unlimited = Limits(person_questions=0, channel_questions=0, waiting_questions=0)
    settings = settings_for(home).model_copy(update={"limits": unlimited})
    async with open_app(settings, url, parts) as app:
        heard.app = app
        await fill(app, SHELVES)
        yield app


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


async def measure(times: int, seed: int) -> dict[str, Any]:
    switch = Switch()
    chance = random.Random(seed)
    spent: dict[How, list[float]] = {how: [] for how in HOWS}
    postgres: dict[How, float] = dict.fromkeys(HOWS, 0.0)
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # root's server runs as nobody, who must get in
        lines = (Path(folder) / "lines.jsonl").open("w", encoding="utf-8")
        configure_logging(human=False)
        logging.getLogger().handlers[0].setStream(lines)  # type: ignore[attr-defined]  # ours is a StreamHandler
        server = EmbeddedPostgres(Path(folder) / "home")
        url = server.start()
        try:
            await migrate(url)
            async with opened(url, Path(folder), switch) as app:
                named = about(switch)
                for switch.how in (*HOWS, *HOWS):  # the search and the pools are warm for all
                    for text in QUESTIONS:
                        await ask(app, text, named)
                gc.collect()
                gc.freeze()
                for time_ in range(times):
                    for switch.how in chance.sample(HOWS, len(HOWS)):
                        before = processor.of_postgres(url)
                        spent[switch.how].append(await ask(app, QUESTIONS[time_ % len(QUESTIONS)], named))
                        postgres[switch.how] += processor.of_postgres(url) - before
                scrape = await _scrape(app)
        finally:
            server.stop()
            lines.close()
        written = (Path(folder) / "lines.jsonl").read_text(encoding="utf-8").count("\n")
    return {
        "times": times,
        "medians_ms": {how: round(1e3 * statistics.median(spent[how]), 2) for how in HOWS},
        "whole": difference(spent["everything"], spent["nothing"]),
        "beyond_the_row": difference(spent["everything"], spent["bare row"]),
        "postgres_ms": round(1e3 * (postgres["everything"] - postgres["nothing"]) / times, 2),
        "lines_of_log": written,
        "scrape_ms": round(scrape, 2),
    }


async def _scrape(app: App) -> float:
    """Milliseconds of processor for one look at /metrics."""
    began = time.process_time()
    await app.telemetry.metrics.exposed(app.store.standings)
    return 1e3 * (time.process_time() - began)


def difference(told: Sequence[float], silent: Sequence[float]) -> dict[str, Any]:
    """Of the pairs, in milliseconds, with the 95 % interval of their median from its order statistics (binomial, normal
    approximation): no shape of the distribution is assumed."""
    differences = sorted(1e3 * (one - other) for one, other in zip(told, silent, strict=True))
    count = len(differences)
    below = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return {
        "median_ms": round(statistics.median(differences), 2),
        "interval_ms": [round(differences[below], 2), round(differences[count - 1 - below], 2)],
        "mean_ms": round(statistics.fmean(differences), 2),
    }


def page(written: Mapping[str, Any]) -> str:
    machine, medians = written["machine"], written["medians_ms"]
    head = ["processor time of a question, ms", ""]
    rows = [
        *([how, f"{medians[how]:.1f}"] for how in HOWS),
        ["**everything, against nothing**", _said(written["whole"])],
        ["everything, against the bare row", _said(written["beyond_the_row"])],
        ["beside it in Postgres, everything against nothing", f"{written['postgres_ms']:.2f}"],
        ["one look at /metrics, not for each question", f"{written['scrape_ms']:.1f}"],
    ]
    return (
        "## What telemetry costs\n\n"
        f"`{written['command']}`, {written['date'][:10]}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{written['commit'][:7]}, load average before {written['load_before']:.1f} and after "
        f"{written['load_after']:.1f}: {written['times']} times the same question in three ways in one process, in a "
        f"random order; {written['lines_of_log']} lines of log in all. Asked: ≤ {MOST_MS:.0f} ms of processor a "
        f"question: {_met(written['beyond_the_row'])} beyond the bare row, {_met(written['whole'])} with it. What runs "
        "beside it on the machine adds to it: the caches are then others'.\n\n" + table(head, rows)
    )


def _met(found: Mapping[str, Any]) -> str:
    return "met" if found["interval_ms"][1] <= MOST_MS else "**not met**"


def _said(found: Mapping[str, Any]) -> str:
    low, high = found["interval_ms"]
    return f"median {found['median_ms']:.2f} ({low:.2f} to {high:.2f}), mean {found['mean_ms']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--seed", type=int, default=9)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    found = asyncio.run(measure(chosen.times, chosen.seed))
    about_it = provenance(
        f"python -m bench.telemetry --times {chosen.times} --seed {chosen.seed}", vars(chosen)
    )
    written = {**about_it, "load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2), **found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(write_section(ROOT / "docs" / "benchmarks.md", "telemetry", page(written)))
    sys.exit(found["whole"]["interval_ms"][1] > MOST_MS)


if __name__ == "__main__":
    main()
