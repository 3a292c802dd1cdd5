"""Several real `signoff serve` over one database: started, killed and ended by whoever tries them.

`Program` starts each as `python -m bot serve`. `Nursery` forks them from a process that has imported everything
already, which spares the suite two seconds of processor a start; what they run is the same.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.emulators.openai import MODEL, OpenAIServer
from tests.emulators.slack.client import ROOT, StandIn

START_SECONDS = 60.0


class Starter(Protocol):
    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        """Begin `signoff ARGUMENTS` and return its process id."""
        ...

    def alive(self, pid: int) -> bool: ...


class Program:
    """Each process an interpreter of its own, as an operator starts it, of the source in `root`."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "bot", *arguments],
                cwd=self._root,
                env={**environment, "PYTHONPATH": str(self._root)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._running[process.pid] = process
        return process.pid

    def alive(self, pid: int) -> bool:
        return self._running[pid].poll() is None


class Nursery:
    """`with Nursery() as nursery`: a process of its own, `python -m tests.load.nursery`, that forks on request."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.load.nursery"],
            cwd=ROOT,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        return int(
            self._ask({"arguments": list(arguments), "environment": dict(environment), "log": str(log)})
        )

    def alive(self, pid: int) -> bool:
        return bool(self._ask({"alive": pid}))

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, given: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """`signoff ARGUMENTS` in `folder` to its end, with `given` on its standard input."""
        with tempfile.TemporaryDirectory() as place:
            files = {name: str(Path(place) / name) for name in ("log", "errors", "given")}
            for name, path in files.items():
                Path(path).write_text(given if name == "given" else "")
            about = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder)}
            status = self._ask({"end": self._ask({**about, **files})})
            out, err = (Path(files[name]).read_text() for name in ("log", "errors"))
        return subprocess.CompletedProcess(list(arguments), status, out, err)

    def _ask(self, request: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def clean_environment() -> dict[str, str]:
    """What a process of ours is given beside its own settings: nothing that a developer's shell may hold."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name in kept}  # noqa: TID251 - handed on


@dataclass
class Serving:
    """One process of the fleet."""

    port: int
    pid: int = 0
    starts: int = 0
    dying: bool = False  # killed, and not started anew yet


@dataclass
class Fleet:
    """`size` processes for `slack`, over its socket or over signed HTTP. Use as `async with`."""

    database: str
    slack: StandIn
    folder: Path
    starter: Starter
    configuration: str
    size: int = 1
    transport: str = "socket"
    model: OpenAIServer | None = None
    roles: Sequence[str] = ("LLM", "EMBEDDING")  # what the model server is used for
    options: Sequence[str] = ()  # further ones of `signoff serve`
    variables: Mapping[str, str] = field(default_factory=dict)  # further ones of the environment
    processes: list[Serving] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "signoff.toml").write_text(self.configuration)
        self.processes = [Serving(free_port()) for _ in range(self.size)]
        if self.transport == "http":
            await self.slack.do("listen", addresses=[f"{address}/slack/events" for address in self.addresses])
        for process in self.processes:
            self.start(process)
        await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def addresses(self) -> list[str]:
        return [f"http://127.0.0.1:{process.port}" for process in self.processes]

    def start(self, process: Serving) -> None:
        process.starts += 1
        process.pid = self.starter.start(
            ["serve", "--home", str(self.folder), "--port", str(process.port), *self.options],
            self.environment(),
            self.log_of(process),
        )

    def kill(self, process: Serving) -> None:
        """SIGKILL: no handler runs, no buffer is flushed."""
        os.kill(process.pid, signal.SIGKILL)

    async def ready(
        self, connections: int | None = None, *, processes: Sequence[Serving] | None = None
    ) -> None:
        """Wait until every process (or these) listens, and over the socket so many are connected too."""
        awaited = self.processes if processes is None else processes
        deadline = time.monotonic() + START_SECONDS
        while not await self._are_ready(awaited, self.size if connections is None else connections):
            for process in awaited:
                if not self.starter.alive(process.pid):
                    raise AssertionError(f"a process ended: {self.log_of(process).read_text()[-3_000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not ready after {START_SECONDS} s: {self.logs()[-3_000:]}")
            await asyncio.sleep(0.05)

    async def _are_ready(self, awaited: Sequence[Serving], connections: int) -> bool:
        if not all(listens(process.port) for process in awaited):
            return False
        return self.transport == "http" or int(await self.slack.do("connections")) >= connections

    def stop(self) -> None:
        """Ask all to finish; end those that take too long."""
        running = [
            process.pid for process in self.processes if process.pid and self.starter.alive(process.pid)
        ]
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while running and time.monotonic() < deadline:
            time.sleep(0.05)
            running = [pid for pid in running if self.starter.alive(pid)]
        for pid in running:
            os.kill(pid, signal.SIGKILL)

    def log_of(self, process: Serving) -> Path:
        return self.folder / f"serve-{self.processes.index(process)}.log"

    def logs(self) -> str:
        return "\n".join(self.log_of(process).read_text() for process in self.processes)

    def environment(self) -> dict[str, str]:
        """What each process is told."""
        known = self.slack.environment
        names = ["SLACK_BOT_TOKEN", "SLACK_API_URL", "SLACK_SIGNING_SECRET"]
        if self.transport == "socket":
            names.append("SLACK_APP_TOKEN")
        environment = clean_environment() | {name: known[name] for name in names}
        environment |= {"SIGNOFF_HOME": str(self.folder), "SIGNOFF_DATABASE_URL": self.database}
        environment |= self.variables
        if self.model is not None:
            for role in self.roles:
                environment |= {
                    f"SIGNOFF_{role}_BASE_URL": self.model.base_url,
                    f"SIGNOFF_{role}_API_KEY": self.model.key,
                    f"SIGNOFF_{role}_MODEL": MODEL,
                }
        return environment


def listens(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def keeping_logs(folder: Path, kept: Path | None) -> Iterator[Path]:
    """A folder whose logs are copied to `kept` in the end, where one is named."""
    try:
        yield folder
    finally:
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, kept)
