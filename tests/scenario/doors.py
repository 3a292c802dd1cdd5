"""A listener of either platform, running as the serving process runs it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from bot.afterwards import Afterwards


async def nothing_here(scope: Any, receive: Any, send: Any) -> None:
    """In place of the workspace."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected_out(
    work: Coroutine[Any, Any, None],
    connections: Callable[[], Awaitable[int]],
    until: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
) -> AsyncIterator[None]:
    """`work` keeps a connection to the platform, which counts its `connections`."""
    running = asyncio.create_task(work)

    async def there() -> bool:
        if running.done():
            running.result()
        return await connections() > 0

    await until(there)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def listening(site: Any, later: Afterwards) -> AsyncIterator[str]:
    """`site` over HTTP; its address."""
    config = uvicorn.Config(site, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving
        await later.finish()
