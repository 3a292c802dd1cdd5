"""Children are restarted when they die, and die when their supervisor does."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bot.supervise import Supervisor

CHILD = """
import os, sys, time
from pathlib import Path
from bot.supervise import end_with_supervisor
end_with_supervisor()
Path(sys.argv[1]).open("a").write(f"{os.getpid()}\\n")
time.sleep(60)
"""

PARENT = """
import sys
from bot.supervise import Supervisor
supervisor = Supervisor({"child": [sys.argv[2]]}, program=[sys.executable, "-c", sys.argv[1]])
supervisor.start()
supervisor.watch()
"""


def lives(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("waited ten seconds in vain")


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    """A killed child comes back at once; `stop` ends it and nothing comes back."""
    file = tmp_path / "lives"
    supervisor = Supervisor({"child": [str(file)]}, program=[sys.executable, "-c", CHILD])
    supervisor.start()
    watching = threading.Thread(target=supervisor.watch)
    watching.start()
    try:
        eventually(lambda: len(lives(file)) == 1)
        os.kill(lives(file)[0], signal.SIGKILL)
        eventually(lambda: len(lives(file)) == 2)
    finally:
        supervisor.stop()
        watching.join()
    assert not alive(lives(file)[1])


def test_children_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    """kill -9 on the supervisor leaves no server behind that keeps the port."""
    file = tmp_path / "lives"
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD, str(file)]) as parent:
        eventually(lambda: len(lives(file)) == 1)
        parent.kill()
    eventually(lambda: not alive(lives(file)[0]))
