"""Files are read in processes of their own: a library that hangs, or eats memory, is ended and takes nothing along.

A reading process is started once (0.5 s) and reads one file after another; parent and child speak over its standard
input and output, length first. When the parent is gone its input ends, and so does it.
"""

import atexit
import json
import struct
import subprocess
import sys
import traceback
from dataclasses import asdict
from threading import Lock, Timer
from typing import IO, Any

import structlog

import store
from store.errors import IngestError
from store.ingest.formats import BY_NAME, Converted, Format, Limits, Report

__all__ = ["read", "read_safely", "stop"]

log = structlog.get_logger(__name__)

_SIZE = struct.Struct(">Q")
# `import store` opens the whole data side, SQLAlchemy and the queue: 1.5 s of processor and 90 MB that a reading
# process has no use for, against .5 s this way.
_START = """
import sys, types
sys.modules["store"] = types.ModuleType("store")
sys.modules["store"].__path__ = sys.argv[2:]
from store.ingest.reading import main
main()
"""


class _Child:
    def __init__(self, megabytes: int) -> None:
        self.megabytes = megabytes
        self._process = subprocess.Popen(  # noqa: S603 - this very module, by this very Python
            [sys.executable, "-I", "-c", _START, str(megabytes), *store.__path__],
            env={},  # what reads strangers' files holds none of our secrets
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libraries print what they found in people's files
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def read(self, format_: Format, data: bytes, name: str, limits: Limits, report: Report) -> Converted:
        """Raises `IngestError`; `EOFError` where the process died."""
        head = {"format": format_.name, "name": name, "limits": asdict(limits)}
        try:
            _send(self._to, json.dumps(head).encode())
            _send(self._to, data)
        except OSError as error:
            raise EOFError from error
        while True:
            told = json.loads(_receive(self._from))
            if "progress" in told:
                report(*told["progress"])
            elif "error" in told:
                if "at" in told:
                    log.error("reading.internal", format=format_.name, error=told["error"][1], at=told["at"])
                raise IngestError(*told["error"])
            else:
                converted = told["converted"]
                return Converted(**{**converted, "textless": tuple(converted["textless"])})

    @property
    def pid(self) -> int:
        return self._process.pid

    def lives(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End it and wait for it; what it was doing is lost."""
        self._process.kill()
        for stream in (self._to, self._from):
            try:
                stream.close()
            except BrokenPipeError:
                continue  # what was still to be sent went with the process
        self._process.wait()


_idle: list[_Child] = []
_lock = Lock()


# Text longer than this is read apart, too: what our own expressions make of text that was written to hold them up
# takes seconds from here on, not milliseconds.
SMALL = 100_000


def read_safely(format_: Format, data: bytes, name: str, limits: Limits, report: Report) -> Converted:
    """What `format_.read` returns, read here only where that is quick and no library does it. Blocks, raises as
    `read` does."""
    if format_.apart or len(data) > SMALL:
        return read(format_, data, name, limits, report)
    return format_.read(data, name, limits, report)


def read(format_: Format, data: bytes, name: str, limits: Limits, report: Report) -> Converted:
    """What `format_.read` returns, read in another process. Blocks: call it in a thread.

    Raises `IngestError`: what the reader says, too_slow after `limits.seconds`, too_heavy beyond
    `limits.megabytes`, or where the process died of the file.
    """
    child = _taken(limits.megabytes)
    slow = False

    def end() -> None:
        nonlocal slow
        slow = True
        child.kill()

    timer = Timer(limits.seconds, end)
    timer.daemon = True
    timer.start()
    try:
        converted = child.read(format_, data, name, limits, report)
    except IngestError:
        _returned(child)
        raise
    except EOFError as error:
        child.close()
        if slow:
            raise IngestError("too_slow", f"{limits.seconds:g} s") from error
        raise IngestError("too_heavy", f"{limits.megabytes} MB") from error
    except BaseException:
        child.close()
        raise
    finally:
        timer.cancel()
    _returned(child)
    return converted


def stop() -> None:
    """End the idle reading processes."""
    with _lock:
        children, _idle[:] = list(_idle), []
    for child in children:
        child.close()


atexit.register(stop)


def _taken(megabytes: int) -> _Child:
    with _lock:
        for child in [child for child in _idle if child.megabytes == megabytes]:
            _idle.remove(child)
            if child.lives():
                return child
            child.close()
    return _Child(megabytes)


def _returned(child: _Child) -> None:
    with _lock:
        _idle.append(child)


# --- both ends -----------------------------------------------------------------------------------------------------


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_SIZE.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    return _exactly(stream, _SIZE.unpack(_exactly(stream, _SIZE.size))[0])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


# --- the child -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Read files until standard input ends."""
    megabytes = int(sys.argv[1])
    if sys.platform == "linux":  # elsewhere address space is no measure of memory, or cannot be limited
        import resource  # there is none on Windows

        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    source, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever a library prints is no answer
    while True:
        try:
            head = json.loads(_receive(source))
        except EOFError:
            return
        data = _receive(source)
        _send(out, json.dumps(_told(head, data, out)).encode())


def _told(head: dict[str, Any], data: bytes, out: IO[bytes]) -> dict[str, Any]:
    def report(step: str, done: int, of: int) -> None:
        _send(out, json.dumps({"progress": [step, done, of]}).encode())

    try:
        read_ = BY_NAME[head["format"]].read
        return {"converted": asdict(read_(data, head["name"], Limits(**head["limits"]), report))}
    except IngestError as error:
        return {"error": [error.code, error.detail]}
    except (MemoryError, RecursionError):
        return {"error": ["too_heavy", f"{head['limits']['megabytes']} MB"]}
    except Exception as error:  # noqa: BLE001 - a library's fault is told with its place, and the next file is read
        at = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": ["internal", type(error).__name__], "at": f"{at.filename}:{at.lineno}"}
