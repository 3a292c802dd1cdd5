"""A stand-in chat platform: takes posts, keeps what people would see, and remembers every call.

Like Feishu's `uuid`, a purpose is an idempotency key: a repeated post is answered with the first one's message id.
It is strict about everything else: an update of an unknown message is an error.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Standin:
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)  # message id → what is visible
    by_purpose: dict[str, str] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.calls.append(body)
            message_id = self.by_purpose.get(body["purpose"])
            if message_id is None:
                message_id = f"m{len(self.messages) + 1}"
                self.by_purpose[body["purpose"]] = message_id
                self.messages[message_id] = body
            return 200, {"message_id": message_id}

    def update(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.calls.append(body)
            if body["message_id"] not in self.messages:
                return 404, {"error": "message_not_found"}
            self.messages[body["message_id"]] |= {"reply": body["reply"]}
            return 200, {}

    def posted(self, prefix: str) -> list[dict[str, Any]]:
        """Visible messages whose purpose begins with `prefix`, in order of posting."""
        with self._lock:
            return [body for body in self.messages.values() if body["purpose"].startswith(prefix)]


@contextmanager
def running() -> Iterator[Standin]:
    """The platform on a loopback port, in threads of its own."""
    platform = Standin()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = platform.post(body) if self.path == "/post" else platform.update(body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """The platform's own log is `calls`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    platform.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield platform
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
