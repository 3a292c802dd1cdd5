"""Forks `signoff` processes on request: one line of JSON in, one number out. Ends with its standard input.

Everything is imported before the first fork, so that a start costs what opening the database costs.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

LAZY = ("bot.cli", "bot.slack.door", "bot.slack.send", "langchain_openai", "openai.resources.chat", "rjieba")


def born(request: dict[str, Any], imported: Mapping[str, str]) -> int:
    """Start a child and return its process id. `imported` is what importing put into the environment."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.close(0)
        os.open(request.get("given") or os.devnull, os.O_RDONLY)
        for stream, name in ((1, "log"), (2, "errors")):
            to = request.get(name) or request["log"]
            os.dup2(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        os.chdir(request.get("folder") or ".")
        os.environ.clear()  # noqa: TID251 - what the child is given, as an exec would
        os.environ.update({**imported, **request["environment"]})  # noqa: TID251 - the same
        sys.argv = ["signoff", *request["arguments"]]
        from bot.cli import main

        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - the child's last words go to its log
        import traceback

        traceback.print_exc()
    os._exit(status)


def alive(pid: int) -> int:
    """1 while the child runs; one that has ended is buried."""
    try:
        found, _ = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return int(found == 0)


def main() -> None:
    before = dict(os.environ)  # noqa: TID251 - see born
    for name in LAZY:
        importlib.import_module(name)
    imported = {name: value for name, value in os.environ.items() if name not in before}  # noqa: TID251
    children = []
    for line in sys.stdin:
        request = json.loads(line)
        if "alive" in request:
            answer = alive(request["alive"])
        elif "end" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["end"], 0)[1])
        else:
            answer = born(request, imported)
            children.append(answer)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in children:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)  # nothing is left to tidy up, and taking all those modules down costs a second


if __name__ == "__main__":
    main()
