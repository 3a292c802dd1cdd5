"""The kill run: questions and decisions through the real doors, while the process is killed at chosen places.

What is asserted comes from the stand-in platform's log and the database, never from the application's own counters
(invariants 1, 3, 4, 9 and 11 of docs/design.md).
"""

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from store import open_store
from tests.embedder import HashEmbedder
from tests.knowledge import publish
from tests.load.fuse import Fuse, write_plan
from tests.load.standin import Standin, running
from tests.load.victim import REVIEWERS

CORPUS = {
    ("hr", "leave.md"): [
        "Employees receive 15 days of annual leave each year.",
        "Unused annual leave expires on 31 March of the following year.",
    ],
    ("finance", "expenses.md"): [
        "An expense report must be filed within 30 days of the trip.",
        "Hotels in Berlin are paid up to 140 euros a night.",
    ],
    ("contracts", "terms.md"): [
        "Clause 3.2: invoices are paid within 45 days of acceptance.",
        "Clause 7.1: liability is capped at the contract value.",
    ],
}

# kind → (text, the state that its question must end in)
QUESTIONS = {
    "leave": ("How many days of annual leave do employees receive?", "answered"),
    "held": ("Within how many days are invoices paid under clause 3.2?", "answered"),
    "vague": ("it?", "answered"),
    "absent": ("Is there a swimming pool on the roof of the building?", "declined"),
    "tool": ("Please compare annual leave days and the expense report deadline.", "answered"),
}

POINTS = (
    "inbox",
    *(
        f"{node}.{side}"
        for node in (
            "lookup_verified",
            "route",
            "clarify",
            "rewrite",
            "retrieve",
            "tools",
            "draft",
            "decline",
            "review",
            "publish",
        )
        for side in ("before", "after")
    ),
    "pause",
    "decision",
    "resumed",
    "delivery.before",
    "delivery.after",
    "remember",
)


@dataclass
class Report:
    """What a run did and what it found. `faults` is empty when every invariant held."""

    seed: int
    questions: int
    reviews: int = 0
    seconds: float = 0.0
    kills: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass
class Run:
    """One run's fixed parts."""

    database: str
    folder: Path
    port: int
    platform: Standin
    random: random.Random

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Deliver until it is acknowledged, as a platform does."""
        data = json.dumps(body).encode()
        deadline = time.monotonic() + 60
        while True:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
                with urllib.request.urlopen(request, timeout=5) as response:
                    answer: dict[str, Any] = json.load(response)
                    return answer
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def plan(chance: random.Random, kills: int) -> dict[str, list[int]]:
    """For each point, at which of its first arrivals to kill. One side of each node is enough for its share."""
    chosen = {}
    for point in POINTS:
        share = kills if "." not in point or point.startswith("delivery") else (kills + 1) // 2
        # A single kill comes at the first arrival: some nodes have no second one among few questions.
        chosen[point] = [1] if share == 1 else sorted(chance.sample(range(1, share + 3), share))
    return chosen


def messages(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """`count` events over a third as many conversations; half of them will be held, every kind occurs."""
    kinds = ["held"] * (count // 2)
    others = [kind for kind in QUESTIONS if kind != "held"]
    kinds += [others[i % len(others)] for i in range(count - len(kinds))]
    chance.shuffle(kinds)
    events = []
    for number, kind in enumerate(kinds):
        # A bare "it?" is vague on a first turn only.
        thread = f"v{number}" if kind == "vague" else f"t{number % max(1, count // 3)}"
        events.append(
            {
                "platform": "standin",
                "dedupe_key": f"{kind}:{number}",
                "conversation_id": f"standin:general:{thread}",
                "channel": "general",
                "thread": thread,
                "private": False,
                "asker": f"standin:user{number % 5}",
                "text": QUESTIONS[kind][0],
                "sent_at": datetime.now(UTC).isoformat(),
                "address": {"channel": "general", "thread": thread, "event": f"{kind}:{number}"},
            }
        )
    return events


async def fill(database: str) -> None:
    """A small knowledge base."""
    embedder = HashEmbedder()
    async with open_store(database, embedder) as store:
        for (collection, source), texts in CORPUS.items():
            await publish(store, embedder, collection, source, texts)


def execute(database: str, *, questions: int, kills: int, seed: int) -> Report:
    """Run and judge. The database must be migrated and empty."""
    chance = random.Random(seed)
    asyncio.run(fill(database))
    report = Report(seed, questions)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, running() as platform:
        run = Run(database, Path(name), _free_port(), platform, chance)
        write_plan(run.folder / "plan.json", plan(chance, kills) if kills else {})
        config = run.folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "database": database,
                    "folder": name,
                    "port": run.port,
                    "standin": platform.url,
                }
            )
        )
        process = subprocess.Popen([sys.executable, "-m", "tests.load.victim", str(config)])
        try:
            _drive(run, report)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        report.kills = Fuse(run.folder, {}).kills()
        judge(run, report)
    report.seconds = round(time.monotonic() - started, 1)
    return report


def _drive(run: Run, report: Report) -> None:
    """Ask everything (each event two or three times), decide every review (two reviewers at once), until rest."""
    events = messages(run.random, report.questions)
    deliveries = [event for event in events for _ in range(run.random.choice((2, 3)))]
    for event in deliveries:
        run.call("/events", event)
    deadline = time.monotonic() + 60 + report.questions * 10
    with psycopg.connect(run.database, autocommit=True, row_factory=dict_row) as watching:
        while time.monotonic() < deadline:
            for review in _rows(watching, "SELECT * FROM reviews WHERE state = 'pending' ORDER BY id"):
                _decide(run, review)
            if not _rows(
                watching,
                "SELECT 1 FROM questions WHERE state NOT IN ('answered', 'declined') OR NOT remembered LIMIT 1",
            ):
                return
            time.sleep(0.1)
    report.faults.append("not everything came to rest in time")


def _decide(run: Run, review: dict[str, Any]) -> None:
    """Both reviewers click, and the first of them clicks again: one decision must stand."""
    verbs: list[dict[str, Any]] = [
        {"verb": "approve"},
        {"verb": "edit", "text": "Invoices are paid within 45 days of acceptance [1]."},
        {"verb": "reject", "reason": "incomplete", "hint": "liability contract value"},
    ]
    if review["round"] > 1:
        verbs = verbs[:2]
    first, second = run.random.sample(REVIEWERS, 2)
    for actor, verb in ((first, run.random.choice(verbs)), (second, {"verb": "approve"})):
        body = {"platform": "standin", "review_id": review["id"], "version_hash": review["version_hash"]}
        run.call("/clicks", {**body, "actor": actor, **verb})


def judge(run: Run, report: Report) -> None:
    """The invariants, from what the platform shows and what the database holds."""
    with psycopg.connect(run.database, autocommit=True, row_factory=dict_row) as connection:
        questions = _rows(connection, "SELECT * FROM questions ORDER BY sequence")
        reviews = _rows(connection, "SELECT * FROM reviews ORDER BY id")
        events = _rows(connection, "SELECT * FROM review_events ORDER BY id")
        jobs = _rows(connection, "SELECT status, count(*) FROM procrastinate_jobs GROUP BY status")
    report.reviews = len(reviews)
    report.outcomes = dict(Counter(row["state"] for row in questions))
    faults = report.faults
    if len(questions) != report.questions:
        faults.append(f"{len(questions)} questions stored, {report.questions} asked")
    answers = Counter(body["purpose"] for body in run.platform.posted("answer:"))
    for row in questions:
        kind = row["address"]["event"].split(":")[0]
        seen = answers[f"answer:{row['id']}"]
        if seen != 1:
            faults.append(f"{kind} {row['id']} has {seen} answers")
        if row["state"] != QUESTIONS[kind][1] and not (kind == "held" and row["state"] == "declined"):
            faults.append(f"{kind} {row['id']} ended {row['state']}")
    decided = Counter(
        event["review_id"] for event in events if event["action"] in ("approved", "edited", "rejected")
    )
    for review in reviews:
        if decided[review["id"]] != 1:
            faults.append(f"review {review['id']} was decided {decided[review['id']]} times")
        if not review["resumed"]:
            faults.append(f"review {review['id']} was decided and never resumed")
    faults += _leaks(run, reviews)
    faults += [
        f"{job['count']} jobs are {job['status']}"
        for job in jobs
        if job["status"] not in ("succeeded", "todo")
    ]


def _leaks(run: Run, reviews: list[dict[str, Any]]) -> list[str]:
    """A rejected draft must never have been shown (invariant 3)."""
    shown = json.dumps([body["reply"] for body in run.platform.posted("")], ensure_ascii=False)
    rejected = [row for row in reviews if row["state"] == "rejected"]
    published = {json.dumps(row["draft"]["text"])[1:-1] for row in reviews if row["state"] == "approved"}
    return [
        f"the rejected draft of review {row['id']} was shown"
        for row in rejected
        if (text := json.dumps(row["draft"]["text"], ensure_ascii=False)[1:-1]) in shown
        and text not in published
    ]


def _rows(connection: "psycopg.Connection[dict[str, Any]]", statement: str) -> list[dict[str, Any]]:
    return connection.execute(statement.encode()).fetchall()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
