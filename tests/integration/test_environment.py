"""Nothing is sent to anyone who was not configured, whatever a developer's shell holds."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Model(http.server.BaseHTTPRequestHandler):
    """An endpoint that remembers who asked with which key, and answers nothing."""

    keys: list[str] = []

    def do_POST(self) -> None:
        self.keys.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def model() -> Iterator[str]:
    Model.keys = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_row_22_only_what_is_configured_is_reached(model: str, database_url: str, tmp_path: Path) -> None:
    """With every key and switch that such libraries look for in the shell, a document ingested and a question answered
    reach the database and the configured model, with its own key, and nobody else; strict msgpack is on. Row 22."""
    elsewhere = "http://elsewhere.invalid:9"
    shell = {
        "OPENAI_API_KEY": "sk-of-the-shell",
        "OPENAI_BASE_URL": elsewhere,
        "OPENAI_API_BASE": elsewhere,
        "OPENAI_PROXY": elsewhere,
        "OPENAI_ORG_ID": "org-of-the-shell",
        "AZURE_OPENAI_ENDPOINT": elsewhere,
        "ANTHROPIC_API_KEY": "sk-of-the-shell",
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "ls-of-the-shell",
        "LANGSMITH_ENDPOINT": elsewhere,
        "LANGCHAIN_TRACING_V2": "true",
        "LANGCHAIN_API_KEY": "ls-of-the-shell",
        "LANGCHAIN_ENDPOINT": elsewhere,
        "HAYSTACK_TELEMETRY_ENABLED": "True",
        "LANGGRAPH_STRICT_MSGPACK": "false",
        "HF_TOKEN": "hf-of-the-shell",
        "OTEL_EXPORTER_OTLP_ENDPOINT": elsewhere,
    }
    (tmp_path / "signoff.toml").write_text(
        "local_embedding = false\n[search]\nretry_below = 0.0\nabstain_below = 0.0\n"
    )
    ours = {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "SIGNOFF_HOME": str(tmp_path),
        "SIGNOFF_DATABASE_URL": database_url,
        "SIGNOFF_LLM_BASE_URL": f"http://{model}/v1",
        "SIGNOFF_LLM_API_KEY": "sk-ours",
        "SIGNOFF_LLM_MODEL": "m",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.quiet"],
        env={**shell, **ours},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "answered"
    assert "15 days" in found["answer"]
    strangers = [address for address in found["reached"] if not _expected(address, model)]
    assert strangers == []
    assert set(Model.keys) == {"Bearer sk-ours"}


def _expected(address: str, model: str) -> bool:
    host, _, port = model.partition(":")
    return address == str((host, int(port))) or (".s.PGSQL." in address and address.startswith("/"))


def test_strict_msgpack_is_on_before_the_first_graph() -> None:
    """The switch is read at import; ours is set first, whatever the shell says. Row 22."""
    code = "import bot.app, langgraph.checkpoint.serde._msgpack as m;print(m.STRICT_MSGPACK_ENABLED)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT), "LANGGRAPH_STRICT_MSGPACK": "false"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr
