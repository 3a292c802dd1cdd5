"""A loopback server that speaks the OpenAI API: streams, calls tools, embeds, and fails in every way.

It is as strict as the original about what it accepts, answers from a script, and remembers what it
received; tests assert on that. Alone: `python -m tests.emulators.openai --port 9100`, then point
SIGNOFF_LLM_BASE_URL at http://127.0.0.1:9100/v1. Unscripted it quotes the first numbered passage it finds
in the prompt.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import math
import re
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.emulators.openai_script import (
    Call,
    Cut,
    Empty,
    Hang,
    Malformed,
    Say,
    Scripted,
    Slow,
    Status,
    Unsteady,
    content,
    parrot,
)

__all__ = [
    "MODEL",
    "Call",
    "Cut",
    "Empty",
    "Hang",
    "Malformed",
    "OpenAIServer",
    "Received",
    "Say",
    "Scripted",
    "Slow",
    "Status",
    "Unsteady",
]

MODEL = "emulated-1"
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Received:
    """One request: where it went, its JSON body, its headers, and when (monotonic seconds)."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    at: float


class Rejected(Exception):
    """What the original would answer with 400."""


class OpenAIServer:
    """The server, in a thread and on a free loopback port. `script` what it answers, read `received`."""

    def __init__(
        self,
        *,
        port: int = 0,
        key: str = "test-key",
        default: Callable[[Mapping[str, Any]], Scripted] = parrot,
    ) -> None:
        self.received: list[Received] = []
        self.hits = 0  # requests of any kind, also to addresses that do not exist
        self.key = key
        self.default = default
        self._script: deque[Scripted] = deque()
        self._app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
                Route("/v1/models", self._models),
            ]
        )
        config = uvicorn.Config(
            self._counted,
            interface="asgi3",
            host="127.0.0.1",
            port=port,
            log_config=None,
            log_level="critical",
        )
        config.ws, config.lifespan, config.timeout_graceful_shutdown = "none", "off", 1
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)

    @property
    def base_url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def script(self, *answers: Scripted) -> None:
        """Answer the next chat or embedding requests with these, in order; afterwards `default` again."""
        self._script.extend(answers)

    @property
    def unused(self) -> int:
        """How many scripted answers nobody has asked for."""
        return len(self._script)

    def prompts(self) -> list[str]:
        """The text of each chat request received, messages joined."""
        return [
            "\n".join(content(message) for message in request.body["messages"])
            for request in self.received
            if request.path.endswith("/chat/completions")
        ]

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.hits += scope["type"] == "http"
        await self._app(scope, receive, send)

    # --- endpoints

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _chat(self, request: Request) -> Response:
        body = await self._receive(request)
        if isinstance(body, Response):
            return body
        try:
            _check_chat(body)
        except Rejected as error:
            return _error(400, str(error))
        answer = self._script.popleft() if self._script else self.default(body)
        failed = await _failure(answer)
        if failed is not None:
            return failed
        if body.get("stream"):
            return StreamingResponse(_stream(body, answer), media_type="text/event-stream")
        return _completion(body, answer)

    async def _embeddings(self, request: Request) -> Response:
        body = await self._receive(request)
        if isinstance(body, Response):
            return body
        texts = [body.get("input")] if isinstance(body.get("input"), str) else body.get("input")
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            return _error(400, "input must be a string or a list of strings")
        if self._script:
            failed = await _failure(self._script.popleft())
            if failed is not None:
                return failed
        vectors = [vector(text, int(body.get("dimensions") or 64)) for text in texts]
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _pack(values) if packed else values}
            for index, values in enumerate(vectors)
        ]
        used = sum(_count(text) for text in texts)
        usage = {"prompt_tokens": used, "total_tokens": used}
        return JSONResponse({"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    async def _receive(self, request: Request) -> Mapping[str, Any] | Response:
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, "Incorrect API key provided")
        try:
            body: Any = json.loads(await request.body())
        except ValueError:
            return _error(400, "the body is no JSON")
        self.received.append(Received(request.url.path, body, dict(request.headers), time.monotonic()))
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            return _error(400, "you must provide a model parameter")
        return body


# --- what the original checks -------------------------------------------------------------------------------


def _check_chat(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Rejected("messages must be a non-empty array")
    _check_roles(messages)
    for tool in body.get("tools", ()):
        function = tool.get("function", {})
        if tool.get("type") != "function" or not TOOL_NAME.fullmatch(function.get("name", "")):
            raise Rejected("invalid tool")
        if function.get("parameters", {}).get("type") != "object":
            raise Rejected("a tool's parameters must be an object schema")
    if body.get("stream_options") and not body.get("stream"):
        raise Rejected("stream_options is only allowed with stream")
    if not 0 <= float(body.get("temperature") or 0) <= 2:
        raise Rejected("temperature must be in [0, 2]")


def _check_roles(messages: list[Mapping[str, Any]]) -> None:
    calls: set[str] = set()
    for message in messages:
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise Rejected(f"invalid role: {role!r}")
        if role == "tool" and message.get("tool_call_id") not in calls:
            raise Rejected("a tool message must answer a preceding tool call")
        calls |= {call["id"] for call in message.get("tool_calls") or ()}


def _error(code: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"error": {"message": message, "type": "emulated", "param": None, "code": str(code)}}
    return JSONResponse(body, status_code=code, headers=dict(headers or {}))


async def _failure(answer: Scripted) -> Response | None:
    match answer:
        case Status(code, retry_after, message):
            headers = {} if retry_after is None else {"retry-after": str(retry_after)}
            return _error(code, message, headers)
        case Hang(seconds):
            await asyncio.sleep(seconds)
            return _error(504, "nobody waited for this")
        case Malformed(body):
            return Response(body, media_type="application/json")
        case _:
            return None


# --- completions --------------------------------------------------------------------------------------------


def _count(text: str) -> int:
    return max(1, len(text.encode()) // 4)


def _usage(body: Mapping[str, Any], text: str) -> dict[str, int]:
    prompt = sum(_count(content(message)) for message in body["messages"])
    return {"prompt_tokens": prompt, "completion_tokens": _count(text), "total_tokens": prompt + _count(text)}


def _tool_calls(call: Call) -> list[dict[str, Any]]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    identity = hashlib.sha256(f"{call.name}{arguments}".encode()).hexdigest()[:12]
    function = {"name": call.name, "arguments": arguments}
    return [{"index": 0, "id": f"call_{identity}", "type": "function", "function": function}]


def _envelope(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-emulated", "object": kind, "created": 1, "model": body["model"]}


def _completion(body: Mapping[str, Any], answer: Scripted) -> Response:
    text = answer.text if isinstance(answer, Say | Cut) else ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = "stop"
    if isinstance(answer, Call):
        calls = [{k: v for k, v in call.items() if k != "index"} for call in _tool_calls(answer)]
        message, finish = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    if isinstance(answer, Empty) and not answer.content:
        choices = []
    whole = {**_envelope(body, "chat.completion"), "choices": choices, "usage": _usage(body, text)}
    if isinstance(answer, Cut):
        return StreamingResponse(_half(json.dumps(whole)), media_type="application/json")
    return JSONResponse(whole)


async def _half(text: str) -> AsyncIterator[str]:
    yield text[: len(text) // 2]
    raise ConnectionAbortedError("the script cuts here")


async def _stream(body: Mapping[str, Any], answer: Scripted) -> AsyncIterator[str]:
    for delta in _deltas(answer):
        yield _event(body, [{"index": 0, "delta": delta, "finish_reason": None}])
        if isinstance(answer, Say) and answer.pause:
            await asyncio.sleep(answer.pause)
    if isinstance(answer, Cut):
        raise ConnectionAbortedError("the script cuts here")
    if not isinstance(answer, Empty) or answer.content:
        finish = "tool_calls" if isinstance(answer, Call) else "stop"
        yield _event(body, [{"index": 0, "delta": {}, "finish_reason": finish}])
    if (body.get("stream_options") or {}).get("include_usage"):
        text = answer.text if isinstance(answer, Say) else ""
        yield _event(body, [], _usage(body, text))
    yield "data: [DONE]\n\n"


def _deltas(answer: Scripted) -> list[dict[str, Any]]:
    match answer:
        case Say(text, piece, _):
            pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
            return [{"role": "assistant", "content": ""}, *({"content": part} for part in pieces)]
        case Cut(text):
            return [{"role": "assistant", "content": text}]
        case Call(saying=saying):
            spoken = [{"role": "assistant", "content": part} for part in saying.split(" ") if part]
            return [*spoken, {"role": "assistant", "content": None, "tool_calls": _tool_calls(answer)}]
        case Empty(True):
            return [{"role": "assistant", "content": ""}]
        case _:
            return []


def _event(
    body: Mapping[str, Any], choices: list[dict[str, Any]], usage: dict[str, int] | None = None
) -> str:
    chunk = {**_envelope(body, "chat.completion.chunk"), "choices": choices}
    if usage is not None:
        chunk["usage"] = usage
    return f"data: {json.dumps(chunk)}\n\n"


# --- embeddings ---------------------------------------------------------------------------------------------


def vector(text: str, dimension: int) -> list[float]:
    """A unit vector by hashed characters and pairs: similar texts have similar vectors."""
    values = [0.0] * dimension
    for size in (1, 2):
        for at in range(len(text) - size + 1):
            digest = hashlib.sha256(text[at : at + size].lower().encode("utf-8", "replace")).digest()
            values[int.from_bytes(digest[:4]) % dimension] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def _pack(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--key", default="test-key")
    chosen = parser.parse_args()
    with OpenAIServer(port=chosen.port, key=chosen.key) as server:
        print(f"{server.base_url} (key {server.key}); Ctrl-C stops")  # noqa: T201 - a command of its own
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
