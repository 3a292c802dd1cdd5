"""Child processes that are restarted when they die, and that die when their supervisor does."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

log = structlog.get_logger(__name__)

# A child that lives this long has started well: its next restart is immediate again.
HEALTHY_SECONDS = 30.0
LONGEST_PAUSE = 10.0


@dataclass
class Child:
    name: str
    arguments: Sequence[str]
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    failures: int = 0
    due: float = 0.0


@dataclass
class Supervisor:
    """Runs `program` with the arguments of each name. `watch` returns when `stop` was called."""

    commands: Mapping[str, Sequence[str]]
    program: Sequence[str] = (sys.executable, "-m", "bot")
    children: list[Child] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.children = [Child(name, arguments) for name, arguments in self.commands.items()]
        for child in self.children:
            self._spawn(child)

    def watch(self) -> None:
        """Restart what dies, at once the first time, then after 1, 2, 4, … at most 10 seconds."""
        while not self.stopping.wait(0.2):
            for child in self.children:
                self._tend(child)

    def stop(self, grace_seconds: float = 20.0) -> None:
        """Ask every child to finish what it does; end it when it takes longer than `grace_seconds`."""
        self.stopping.set()
        running = [child.process for child in self.children if child.process and child.process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + grace_seconds
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _release(process)

    def _tend(self, child: Child) -> None:
        now = time.monotonic()
        if child.process is not None:
            status = child.process.poll()
            if status is None:
                return
            lived = now - child.started
            child.failures = 0 if lived > HEALTHY_SECONDS else child.failures + 1
            pause = 0.0 if child.failures <= 1 else min(2.0 ** (child.failures - 2), LONGEST_PAUSE)
            _release(child.process)
            log.warning("child.died", name=child.name, status=status, restart_in=pause)
            child.process, child.due = None, now + pause
        if now >= child.due and not self.stopping.is_set():
            self._spawn(child)

    def _spawn(self, child: Child) -> None:
        # The child watches the other end of this pipe: when the supervisor dies, however it dies, the pipe closes.
        # A session of its own keeps the terminal's Ctrl-C for the supervisor, which then stops children in order.
        child.process = subprocess.Popen(  # noqa: S603 - our own command line
            [*self.program, *child.arguments], stdin=subprocess.PIPE, start_new_session=True
        )
        child.started = time.monotonic()


def _release(process: "subprocess.Popen[bytes]") -> None:
    """Close our end of a dead child's pipe."""
    if process.stdin is not None:
        process.stdin.close()


def end_with_supervisor() -> None:
    """In a child: terminate this process when the supervisor's end of standard input closes."""

    def watch() -> None:
        while os.read(0, 4_096):  # not sys.stdin: its lock is missed when the interpreter ends
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor-watch", daemon=True).start()
