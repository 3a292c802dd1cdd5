"""The names of lark-oapi 1.7.5 that the runner leans on, and how it is imported."""

import inspect
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from bot.feishu.connection import Connection
from bot.feishu.sdk import Frame, TokenManager, ws
from tests.emulators.feishu.frames import Frame as Handmade

ROOT = Path(__file__).parents[2]
# Each is private; a release may change any of them. Read its ws/client.py before moving the pin.
CALLED = ("_connect", "_disconnect", "_write_message", "_combine", "_configure", "_receive_message_loop")
REPLACED = ("_get_conn_url", "_reconnect", "_handle_message", "_handle_data_frame")


def test_the_sdk_is_the_one_that_was_read() -> None:
    """The pin, and every private name that is called or replaced."""
    assert version("lark-oapi") == "1.7.5"
    for name in (*CALLED, *REPLACED):
        assert callable(getattr(ws.Client, name)), name
    for name in REPLACED:
        assert name in vars(Connection), name
        assert inspect.iscoroutinefunction(getattr(ws.Client, name)) == inspect.iscoroutinefunction(
            vars(Connection)[name]
        )
    source = inspect.getsource(ws.Client)
    assert "self._get_conn_url()" in source
    assert "await self._reconnect()" in source
    assert "loop.create_task(self._receive_message_loop())" in source
    assert TokenManager.cache.cache is not None


def test_both_sides_mean_the_same_frame() -> None:
    """The stand-in writes frames by hand; the SDK's protobuf reads them, and the other way round."""
    ours = Handmade(
        1,
        {"type": "event", "sum": "1", "seq": "0", "message_id": "m"},
        "签".encode(),
        service=7,
        sequence=300,
    )
    frame = Frame()
    frame.ParseFromString(ours.encode())
    assert (frame.method, frame.service, frame.SeqID, frame.payload) == (1, 7, 300, "签".encode())
    assert {header.key: header.value for header in frame.headers} == ours.headers
    assert Handmade.decode(frame.SerializeToString()) == Handmade(
        1, ours.headers, ours.payload, service=7, sequence=300, extra={2: 0}
    )


def test_nothing_of_it_is_loaded_without_feishu() -> None:
    """`import bot`, its commands and its composition root: no lark_oapi (5 to 9 s, 168 MB)."""
    script = "import sys, bot, bot.cli, bot.app, bot.doctor; print([m for m in sys.modules if m.startswith('lark')])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_trap_34_it_is_loaded_within_the_start_up_budget() -> None:
    """The whole house within 20 seconds, warnings as errors, nothing printed, the loop that runs left alone."""
    script = (
        "import asyncio, warnings; warnings.simplefilter('error')\n"
        "async def main():\n"
        "    import bot.feishu.door\n"
        "    from bot.feishu.sdk import ws\n"
        "    assert ws.loop is not asyncio.get_running_loop()\n"
        "asyncio.run(main())"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True, timeout=100
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    # Of processor: by the wall, neighbours on the same cores made 29 of what takes 5 to 9 alone.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
