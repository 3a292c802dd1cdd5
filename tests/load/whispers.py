"""Who may read what, tried by chance: random audiences, documents, channels, people and questions.

Every document carries a mark in its title and one in each passage, which no question ever names. Whatever anybody
sees in the stand-in (answers, citations, cards, forms, passages opened by a button), whatever a tool or the search
returns, and whatever a model would be shown, must hold no mark of a document that its readers may not read
(invariant 6). Between rounds audiences change and drafts wait, so that what was readable when it was drafted may not
be when it is published.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.app import Parts
from rag_graph.contracts import Material, Question, ToolCall, Turn, Written
from rag_graph.models import ExtractiveWriter
from rag_graph.tools.registry import Registry
from store import Store
from tests.embedder import HashEmbedder
from tests.emulators.slack.client import Impossible, StandIn
from tests.knowledge import publish
from tests.load.judge import Database, Report
from tests.scenario.slack_team import BOT, Team, slack_team

PEOPLE = tuple(f"U0P{number}" for number in range(8))
CHANNELS = tuple(f"C0P{number}" for number in range(5))
REVIEWERS = ("U0REV", "U0REV2")
COLLECTIONS = ("general", "hr", "legal", "contracts")  # what contracts answer is held (slack_team.py)
TOPICS = (
    "travel budget", "annual leave", "expense report", "remote work", "notice period", "laptop order",
    "training days", "parking permit", "invoice deadline", "supplier contract", "overtime pay", "visitor badge",
)  # fmt: skip
MARK = re.compile(r"\b[TP]K(\d{4})[A-Z]\b")
DOCUMENTS = 16


@dataclass
class Paper:
    """A document of the run; `audience` is what is in force now."""

    number: int
    collection: str
    source: str
    topics: tuple[str, ...]
    audience: tuple[str, ...]
    id: int = 0
    version: int = 0


@dataclass
class Nosy(ExtractiveWriter):
    """Asks every tool for what it may not know, and remembers what a model would have been shown, and for whom."""

    chance: random.Random
    shown: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        self._note(question, material)
        if material.results:
            return Written("", self.name)
        passage = self.chance.randint(1, 120)
        topic = self.chance.choice(TOPICS)
        return Written(
            "",
            "model",
            (
                ToolCall("c1", "search_knowledge_base", {"query": topic, "top_k": 10}),
                ToolCall("c2", "open_section", {"passage_id": passage}),
                ToolCall("c3", "list_documents", {}),
            ),
        )

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: Any = None,
    ) -> Written:
        self._note(question, material)
        return await super().draft(question, turns, summary, material, on_sentence)

    def _note(self, question: Question, material: Material) -> None:
        self.shown.append((tuple(question.principals), repr(material)))


@dataclass
class Run:
    team: Team
    store: Store
    embedder: HashEmbedder
    writer: Nosy
    database: Database
    chance: random.Random
    report: Report
    papers: list[Paper] = field(default_factory=list)
    members: dict[str, list[str]] = field(default_factory=dict)  # of each channel, without the bot
    since: str = ""  # what was posted until then has been looked at
    seen: dict[str, int] = field(default_factory=dict)  # checks by kind

    # --- the world

    def audience(self) -> tuple[str, ...]:
        """Nobody's, everybody's, or that of a few people and channels."""
        if self.chance.random() < 0.2:
            return ("everyone",)
        principals = [f"slack:{name}" for name in (*PEOPLE, *CHANNELS, "C0REVIEW")]
        return tuple(self.chance.sample(principals, self.chance.randint(1, 4)))

    async def write(self, paper: Paper) -> None:
        """Publish the next version of a document, its marks in it."""
        paper.version += 1
        texts = [
            f"The {topic} is {self.chance.randint(2, 90)} under rule PK{paper.number:04d}{letter}, "
            f"and the {topic} of {self.chance.choice(TOPICS)} follows it."
            for topic, letter in zip(paper.topics, "ABCD", strict=False)
        ]
        row = await publish(
            self.store,
            self.embedder,
            paper.collection,
            paper.source,
            texts,
            title=f"{paper.topics[0].title()} TK{paper.number:04d}T",
            audience=paper.audience,
        )
        paper.id = row.document_id

    async def change(self) -> None:
        """Some audiences become others, some documents get a new version."""
        for paper in self.chance.sample(self.papers, 3):
            paper.audience = self.audience()
            await self.store.documents.set_audience(paper.id, paper.audience)
        await self.write(self.chance.choice(self.papers))

    # --- the check

    def look(self, what: str, text: str, readers: Collection[str]) -> None:
        """No mark of a document whose audience shares nobody with `readers`."""
        self.seen[what] = self.seen.get(what, 0) + 1
        for number in {int(found) for found in MARK.findall(text)}:
            if not set(self.papers[number].audience) & set(readers):
                self.report.faults.append(
                    f"{what} for {sorted(readers)} shows document {number} of {self.papers[number].audience}: "
                    f"{text[:200]}"
                )


async def whispered(
    slack: StandIn, database: str, folder: Path, *, questions: int = 1_000, batch: int = 25, seed: int = 1
) -> Report:
    """Ask `questions` in batches; after each look at everything that is new, open passages, decide what waits, and
    change who may read what."""
    began, chance = time.monotonic(), random.Random(seed)
    writer = Nosy(random.Random(seed + 1))
    parts = Parts(embedder=HashEmbedder(), writer=writer)
    async with slack_team(slack, database, folder, transport="http", parts=parts) as team:
        run = Run(
            team, team.app.store, HashEmbedder(), writer, Database(database), chance, Report("whispered")
        )
        await _settle_in(run)
        for first in range(0, questions, batch):
            asked = min(batch, questions - first)
            await asyncio.gather(*(_ask(run) for _ in range(asked)))
            await _at_rest(run)
            run.report.questions += asked
            await _look_around(run)
            await _open_passages(run, asked // 4)
            await _read_directly(run, asked)
            await run.change()
            await _decide(run)
            await _at_rest(run)
            await _look_around(run)
    run.report.measured = {"checks": run.seen}
    run.report.reviews = len(run.database.reviews())
    run.report.seconds = round(time.monotonic() - began, 1)
    return run.report


async def _settle_in(run: Run) -> None:
    for user in PEOPLE:
        await run.team.slack.do("user", id=user)
    run.members["C0REVIEW"] = list(REVIEWERS)
    for channel in CHANNELS:
        run.members[channel] = run.chance.sample(PEOPLE, run.chance.randint(2, 6))
        await run.team.slack.do("channel", id=channel, add=["U0BOT", *run.members[channel]])
    for number in range(DOCUMENTS):
        topics = tuple(run.chance.sample(TOPICS, run.chance.randint(2, 4)))
        collection = run.chance.choice(COLLECTIONS)
        paper = Paper(number, collection, f"paper-{number}.md", topics, run.audience())
        run.papers.append(paper)
        await run.write(paper)


async def _ask(run: Run) -> None:
    """A person asks about a topic, in a channel or in private; the same words come again elsewhere."""
    topic, other = run.chance.sample(TOPICS, 2)
    text = run.chance.choice(
        (f"What is the {topic}?", f"Please compare the {topic} and the {other}.", f"How much is the {topic}?")
    )
    if run.chance.random() < 0.3:
        user = run.chance.choice(PEOPLE)
        await run.team.slack.say(user, user, text)
        return
    channel = run.chance.choice(CHANNELS)
    user = run.chance.choice(run.members[channel])
    await run.team.slack.say(user, channel, f"{BOT} {text}", only="app_mention")


async def _at_rest(run: Run) -> None:
    deadline = (
        time.monotonic() + 300
    )  # a changed document marks all that was answered from it, at the platform's pace
    while any("held" not in left for left in await asyncio.to_thread(run.database.unrest)):
        if time.monotonic() > deadline:
            run.report.faults.append(f"no rest: {run.database.unrest()}")
            return
        await asyncio.sleep(0.1)
    while True:
        try:
            await run.team.quiet()
            return
        except TimeoutError:  # one step is waited for half a minute, which a busy machine may need longer
            if time.monotonic() > deadline:
                raise


async def _look_around(run: Run) -> None:
    """Everything that was posted, whispered or opened since the last look, and what the writer was shown."""
    world = await run.team.slack.world()
    for channel in world["channels"].values():
        place = f"slack:{channel['user'] if channel['is_im'] else channel['id']}"
        for message in channel["messages"]:
            moment = message.get("edited", {}).get("ts", message["ts"])
            if message["user"] == "U0BOT" and max(moment, message["ts"]) > run.since:
                run.look("message", _text(message), ("everyone", place))
    for message in world["ephemerals"]:
        if message["ts"] > run.since:
            run.look(
                "whisper",
                _text(message),
                ("everyone", f"slack:{message['channel']}", f"slack:{message['to']}"),
            )
    for principals, text in run.writer.shown:
        run.look("prompt", text, principals)
    run.writer.shown.clear()
    run.since = f"{world['now']:.6f}"


async def _open_passages(run: Run, times: int) -> None:
    """Members of a channel click on passages that stand there; each reads by what the place and they may read."""
    world = await run.team.slack.world()
    found = [
        (channel, message["ts"], element)
        for channel in world["channels"].values()
        for message in channel["messages"]
        for element in _elements(message)
        if str(element.get("action_id", "")).startswith("passage:")
    ]
    for channel, ts, element in run.chance.sample(found, min(times, len(found))):
        user = channel["user"] if channel["is_im"] else run.chance.choice(run.members[channel["id"]])
        try:
            await run.team.slack.click(user, channel["id"], ts, element["action_id"])
        except Impossible:
            continue
        view = await run.team.slack.modal(user)
        owner = element["value"].partition(":")[0]
        readers = {"everyone", f"slack:{user}", f"slack:{channel['id']}"}
        if owner.startswith("r") and owner[1:].isdigit():
            readers = _readers_of(run, int(owner[1:]))
        run.look("passage", json.dumps(view, ensure_ascii=False), readers)


def _readers_of(run: Run, review: int) -> set[str]:
    """A reviewer reads a draft, alone, by the rights of those whom its sources are for."""
    row = next(row for row in run.database.reviews() if row["id"] == review)
    return {*row["audience"], "everyone"}


async def _read_directly(run: Run, times: int) -> None:
    """The store's own doors, for random readers and numbers."""
    search = run.store.search
    for _ in range(times):
        readers = ["everyone", *(f"slack:{name}" for name in run.chance.sample((*PEOPLE, *CHANNELS), 2))]
        number = run.chance.randint(1, 300)
        found = await search.search(run.chance.choice(TOPICS), readers, top_k=10)
        run.look("search", repr(found.passages), readers)
        run.look("section", repr(await search.section(number, readers)), readers)
        run.look("passages", repr(await search.passages([number, number + 1], readers)), readers)
        run.look("titles", repr(await search.titles(readers)), readers)


async def _decide(run: Run) -> None:
    """Reviewers open, approve or leave what waits; what they see in private is theirs as the draft's readers'."""
    for card in await run.team.slack.see("U0REV", "C0REVIEW"):
        user, act = run.chance.choice(REVIEWERS), run.chance.random()
        if act < 0.25:
            continue  # it waits for another round, in which audiences change
        if "review:approve" in card["actions"] and act < 0.8:
            await run.team.slack.click(user, "C0REVIEW", card["ts"], "review:approve")
        elif "review:open" in card["actions"]:
            await run.team.slack.click(user, "C0REVIEW", card["ts"], "review:open")
            view = await run.team.slack.modal(user)
            if view is None or "review:approve" not in json.dumps(view):
                continue
            review = int(view["view"]["private_metadata"].partition(":")[0])
            run.look("form", json.dumps(view, ensure_ascii=False), _readers_of(run, review))
            if act > 0.9:
                await run.team.slack.do("click_modal", user=user, button="review:approve")


def _elements(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for block in message.get("blocks") or ():
        yield from block.get("elements", ()) if block["type"] in ("actions", "context_actions") else ()


def _text(message: Mapping[str, Any]) -> str:
    return json.dumps([message.get("text"), message.get("blocks")], ensure_ascii=False)
