"""What a load run must not have done, from the stand-in's log and the database alone (docs/design.md, 1 to 11)."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.load.crowd import REVIEW_CHANNEL, Asked

Rows = list[dict[str, Any]]
World = Mapping[str, Any]

ENDED = ("answered", "declined", "failed", "refused")
DECIDED = ("approved", "edited", "rejected")
SIGNED = re.compile(r"says (U0R\d)")


@dataclass
class Report:
    """What a run did and what it found. `faults` is empty when every invariant held."""

    name: str
    questions: int = 0
    reviews: int = 0
    clicks: int = 0
    deliveries: int = 0  # payloads that the stand-in sent, repetitions included
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Message:
    """A message of ours that people see, and what its metadata says that it is."""

    channel: str
    ts: str
    purpose: str
    part: int
    text: str


class Database:
    """The rows of one database, for judging."""

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, statement: str, *values: Any) -> Rows:
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(statement.encode(), values).fetchall()

    def questions(self) -> Rows:
        return self.rows("SELECT * FROM questions ORDER BY sequence")

    def reviews(self) -> Rows:
        return self.rows("SELECT * FROM reviews ORDER BY id")

    def unrest(self) -> list[str]:
        """What still has to happen: questions that have not ended or are not remembered, and jobs that are due."""
        questions = self.rows(
            "SELECT state, remembered, count(*) FROM questions "
            "WHERE state NOT IN ('answered', 'declined', 'failed', 'refused') OR NOT remembered AND state <> 'refused' "
            "GROUP BY 1, 2"
        )
        jobs = self.rows(
            "SELECT status, task_name, count(*) FROM procrastinate_jobs WHERE queue_name = 'answers' AND "
            "(status = 'doing' OR status = 'todo' AND coalesce(scheduled_at, now()) < now() + interval '30 seconds') "
            "GROUP BY 1, 2"
        )
        left = [f"{row['count']} {row['state']}, remembered: {row['remembered']}" for row in questions]
        return left + [f"{row['count']} {row['task_name']} {row['status']}" for row in jobs]


def messages(world: World) -> list[Message]:
    """Everything that we posted and that still stands, in order of posting."""
    found = []
    for channel in world["channels"].values():
        for message in channel["messages"]:
            if message["user"] != "U0BOT":
                continue
            payload = (message.get("metadata") or {}).get("event_payload") or {}
            shown = json.dumps([message["text"], message["blocks"]], ensure_ascii=False)
            found.append(
                Message(
                    channel["id"],
                    message["ts"],
                    payload.get("purpose", ""),
                    int(payload.get("part", 0)),
                    shown,
                )
            )
    return sorted(found, key=lambda message: message.ts)


def judge(asked: Sequence[Asked], world: World, database: Database, report: Report) -> None:
    """Fill in `report`. The run must have come to rest."""
    rows, reviews = database.questions(), database.reviews()
    shown = messages(world)
    report.questions, report.reviews = len(asked), len(reviews)
    report.deliveries = sum(len(parcel["attempts"]) for parcel in world["deliveries"])
    report.outcomes = dict(Counter(row["state"] for row in rows))
    report.faults += _asked_once(asked, rows)
    report.faults += _answered_once(rows, shown, world, database)
    report.faults += _in_order(rows, shown)
    report.faults += _decided_once(reviews, shown, world, database)
    report.faults += _nothing_early(reviews, rows, world)
    report.faults += _jobs(database)


def _asked_once(asked: Sequence[Asked], rows: Rows) -> list[str]:
    """Invariant 1: durable before acknowledged, handled once."""
    stored = Counter((row["address"]["channel"], row["address"]["asked"]) for row in rows)
    faults = []
    for one in asked:
        times = stored[(one.channel, one.ts)]
        if times != 1:
            faults.append(
                f"question {one.number} ({one.kind}) was {'lost' if not times else f'stored {times} times'}"
            )
    return faults


def _answered_once(rows: Rows, shown: Sequence[Message], world: World, database: Database) -> list[str]:
    """Invariant 9: each question has one answer, or a word about why it has none; no message is there twice."""
    faults = []
    times = Counter((message.purpose, message.part) for message in shown if message.purpose)
    faults += [
        f"{purpose} part {part} is there {count} times"
        for (purpose, part), count in times.items()
        if count > 1
    ]
    faults += [
        f"a message without a purpose in {message.channel}: {message.text[:120]}"
        for message in shown
        if not message.purpose
    ]
    told = json.dumps([message.text for message in shown]) + json.dumps(world["ephemerals"])
    for row in rows:
        if row["state"] not in ENDED:
            faults.append(f"question {row['id']} ended {row['state']}")
        elif not times[(f"answer:{row['id']}", 0)] and row["id"][:8] not in told:
            faults.append(f"question {row['id']} ({row['state']}) has no answer, and nobody was told")
    answers = Counter(
        (row["address"]["channel"], row["address"]["asked"])
        for row in rows
        if times[(f"answer:{row['id']}", 0)]
    )
    faults += [
        f"the message {ts} in {place} was answered {n} times" for (place, ts), n in answers.items() if n > 1
    ]
    return faults


def _in_order(rows: Rows, shown: Sequence[Message]) -> list[str]:
    """Invariant 2: in one conversation, what comes first is answered, or said to be in review, first."""
    first: dict[str, str] = {}
    for message in shown:
        kind, _, rest = message.purpose.partition(":")
        if kind in ("answer", "held"):
            first.setdefault(rest.split(":")[0], message.ts)
    faults: list[str] = []
    latest: dict[str, str] = defaultdict(str)
    for row in rows:
        ts = first.get(row["id"], "")
        if ts and ts < latest[row["conversation_id"]]:
            faults.append(f"question {row['id']} was answered before an earlier one of its conversation")
        latest[row["conversation_id"]] = max(ts, latest[row["conversation_id"]])
    return faults


def _decided_once(reviews: Rows, shown: Sequence[Message], world: World, database: Database) -> list[str]:
    """Invariant 4: one outcome, the one in the audit, and what was published is that one's text."""
    events = database.rows("SELECT * FROM review_events WHERE action = ANY(%s)", list(DECIDED))
    decisions: dict[int, Rows] = defaultdict(list)
    for event in events:
        decisions[event["review_id"]].append(event)
    published = {m.purpose.partition(":")[2]: m.text for m in shown if m.purpose.startswith("answer:")}
    cards = [m for m in shown if m.channel == REVIEW_CHANNEL]
    faults = []
    for review in reviews:
        made = decisions[review["id"]]
        if len(made) != 1 or (made[0]["action"], made[0]["actor"]) != (review["state"], review["decided_by"]):
            faults.append(f"review {review['id']} is {review['state']}, and was decided {len(made)} times")
        if review["decision"] is not None and not review["resumed"]:
            faults.append(f"review {review['id']} was decided and never resumed")
        handle = f'"{review["id"]}:{review["version_hash"]}"'
        if review["state"] != "pending" and any(
            handle in card.text and "review:approve" in card.text for card in cards
        ):
            faults.append(f"the card of review {review['id']} is {review['state']} and can still be decided")
        signed = SIGNED.search(published.get(review["question_id"], ""))
        if review["state"] == "edited" and (not signed or f"slack:{signed[1]}" != review["decided_by"]):
            faults.append(
                f"review {review['id']} was edited by {review['decided_by']}, published is another text"
            )
        if review["state"] == "approved" and signed:
            faults.append(f"review {review['id']} was approved, published is the text of {signed[1]}")
    return faults


def _nothing_early(reviews: Rows, rows: Rows, world: World) -> list[str]:
    """Invariant 3: nothing of an answer that is held goes out before its decision."""
    decided: dict[str, float] = {}
    for review in reviews:
        if review["decided_at"] is not None:
            moment = review["decided_at"].timestamp()
            decided[review["question_id"]] = max(moment, decided.get(review["question_id"], 0.0))
    faults = []
    for call in world["calls"]:
        payload = (call["arguments"].get("metadata") or {}).get("event_payload") or {}
        kind, _, question = payload.get("purpose", "").partition(":")
        if kind == "answer" and call["real"] < decided.get(question, 0.0):
            faults.append(f"the answer to {question} went out before its decision")
    return faults


def _jobs(database: Database) -> list[str]:
    """Invariant 11: nobody's work is left lying, and no lock is shut for ever. The look at a canary is every minute's;
    versions that do not know it yet let it fail (tests/load/upgrade.py)."""
    left = database.rows("SELECT status, task_name, count(*) FROM procrastinate_jobs GROUP BY 1, 2")
    return [
        f"{row['count']} jobs {row['task_name']} are {row['status']}"
        for row in left
        if row["status"] in ("doing", "failed") and row["task_name"] != "canary"
    ]
