"""The serving process that gets killed: the real application through its composition root, with fuses in it.

`python -m tests.load.victim CONFIG` loads everything once and then forks a life at a time: a restart costs what
opening the database costs, not three seconds of imports. The doors are plain HTTP, as a chat platform would call.
"""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bot.app import App, Parts, open_app
from bot.messages import Action, Incoming, Platform, Progress, Reply
from bot.settings import Review, Settings, Workspace
from rag_graph.contracts import Material, Question, ToolCall, Written
from rag_graph.graph import NODES
from rag_graph.models import ExtractiveWriter
from rag_graph.tools.registry import Registry
from store import Store
from store.inbox import Inbox
from store.queue import Timing
from tests.embedder import HashEmbedder
from tests.load.fuse import Fuse, Fused, fused_node, read_plan

# The production relations (heartbeat < quiet < stalled), a tenth of the time.
QUICK = Timing(heartbeat=0.2, quiet=0.6, stalled=6.0, rescue=0.2, poll=0.2, shutdown=2.0)
REVIEWERS = ("standin:rita", "standin:raj")


@dataclass
class StandinHouse:
    """The bot's side of the stand-in platform: translation, nothing else."""

    url: str
    fuse: Fuse
    name: str = "standin"

    async def send(self, purpose: str, address: Mapping[str, Any], reply: Reply) -> str:
        body = {"purpose": purpose, "address": dict(address), "reply": reply.to_json()}
        kind = "delivery" if purpose.startswith("answer:") else "notice"
        self.fuse.reach(f"{kind}.before")
        answer = await asyncio.to_thread(self._call, "/post", body)
        self.fuse.reach(f"{kind}.after")
        return str(answer["message_id"])

    async def update(self, message_id: str, address: Mapping[str, Any], reply: Reply) -> None:
        await asyncio.to_thread(self._call, "/update", {"message_id": message_id, "reply": reply.to_json()})

    async def progress(self, address: Mapping[str, Any], progress: Progress) -> None:
        """Steps are not what this platform is asked about."""

    def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


class Curious(ExtractiveWriter):
    """Wants one more search before it answers a question that says "compare"; without a model nobody would."""

    name = "curious"  # the graph asks nobody by the extractive writer's name what tools it wants

    async def assess(self, question: Question, material: Material, tools: Registry) -> Written:
        if "compare" in question.text and not material.results:
            call = ToolCall("c1", "search_knowledge_base", {"query": "expense report deadline", "top_k": 3})
            return Written("", "model", (call,))
        return await super().assess(question, material, tools)


def fused_store(fuse: Fuse) -> Any:
    """Fuses inside the inbox's transaction, between a pause and its review, around a decision, before memory."""

    def replaced(store: Store) -> Store:
        queue: Any = Fused(store.queue, fuse, before={"defer": "defer"})
        inside: Any = InsideTransaction(store.queue, fuse)
        reviews: Any = Fused(
            store.reviews,
            fuse,
            before={"open": "pause", "mark_resumed": "resumed"},
            after={"decide": "decision"},
        )
        conversations: Any = Fused(store.conversations, fuse, before={"mark_remembered": "remember"})
        return replace(
            store,
            queue=queue,
            inbox=Inbox(store.database.engine, inside),
            reviews=reviews,
            conversations=conversations,
        )

    return replaced


class InsideTransaction(Fused):
    """A queue that dies after the inbox row is written and before the transaction commits."""

    def __init__(self, queue: Any, fuse: Fuse) -> None:
        super().__init__(queue, fuse, after={"defer": "inbox"})


@asynccontextmanager
async def application(config: Mapping[str, Any], fuse: Fuse) -> AsyncIterator[App]:
    settings = Settings(
        home=Path(config["folder"]),
        config=Path(config["folder"]) / "signoff.toml",
        workspace=Workspace(contact="the desk"),
        review=Review(
            reviewers=REVIEWERS,
            verified=False,  # every contract question is to be reviewed, however often it was signed before
            rules=({"name": "contracts", "collections": ["contracts"], "action": "hold"},),
        ),
    )
    house: Platform = StandinHouse(config["standin"], fuse)
    parts = Parts(
        embedder=HashEmbedder(),
        writer=Curious(),
        nodes={name: fused_node(name, node, fuse) for name, node in NODES.items()},
        store=fused_store(fuse),
        platforms=lambda _store: {house.name: house},
        timing=QUICK,
    )
    async with open_app(settings, config["database"], parts) as app:
        yield app


def doors(app: App) -> Starlette:
    async def events(request: Request) -> JSONResponse:
        body = await request.json()
        body["sent_at"] = datetime.fromisoformat(body["sent_at"])
        return JSONResponse({"question_id": await app.asking.accept(Incoming(**body))})

    async def clicks(request: Request) -> JSONResponse:
        acted = await app.reviewing.act(Action(**await request.json()))
        return JSONResponse({"outcome": acted.key, "by": acted.review.decided_by if acted.review else None})

    return Starlette(
        routes=[Route("/events", events, methods=["POST"]), Route("/clicks", clicks, methods=["POST"])]
    )


async def live(config: Mapping[str, Any]) -> None:
    """One life: the doors and the queue, until a signal or a fuse ends it."""
    fuse = Fuse(Path(config["folder"]), read_plan(Path(config["folder"]) / "plan.json"))
    async with application(config, fuse) as app:
        server = uvicorn.Server(
            uvicorn.Config(doors(app), host="127.0.0.1", port=config["port"], log_level="critical")
        )
        working = asyncio.create_task(app.store.queue.run_worker(["answers"], concurrency=3))
        await server.serve()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        if child:
            os.kill(child, signal.SIGTERM)

    child = 0
    signal.signal(signal.SIGTERM, stop)
    while not stopping:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            asyncio.run(live(config))
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
