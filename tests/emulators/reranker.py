"""A loopback `/rerank`, strict as vLLM's: it judges by shared words, remembers requests, and fails on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

KEY, MODEL = "rerank-key", "bge-reranker-stand-in"


class RerankServer:
    """`url` is what SIGNOFF_RERANK_BASE_URL names. `seconds`, `status` and `answer` change what it does next."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.status = 200
        self.answer: Any = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["RerankServer"]:
        application = web.Application()
        application.add_routes([web.post("/v1/rerank", self._rerank)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}/v1"
            yield self
        finally:
            await runner.cleanup()

    async def _rerank(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"message": "invalid key"}, status=401)
        documents = body.get("documents")
        if body.get("model") != MODEL or not isinstance(documents, list) or not documents:
            return web.json_response({"message": "model and documents are required"}, status=422)
        if self.status != 200:
            return web.json_response({"message": "try later"}, status=self.status)
        if self.answer is not None:
            return web.json_response(self.answer)
        asked = set(body["query"].lower().split())
        scored = [(len(asked & set(one.lower().split())), place) for place, one in enumerate(documents)]
        scored.sort(key=lambda pair: -pair[0])
        rows = [{"index": place, "relevance_score": float(score)} for score, place in scored[: body["top_n"]]]
        return web.json_response({"id": "rerank-1", "model": MODEL, "results": rows})
