"""lark-oapi, imported so that it does no harm: 1.7.5 takes an event loop at import and prints to standard output.

Import it from here. In a thread that has no loop it makes one, which is closed at once; in ours it would take the
loop that is running, and block on it (larksuite/oapi-sdk-python#133, kirodotdev/KiroCrew#6534).
"""

import asyncio
import importlib
import threading
from collections.abc import Coroutine
from typing import Any


class _Running:
    """In place of the loop that the SDK took: whichever loop runs, in whatever thread."""

    def create_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work)


def _load() -> None:
    importing = threading.Thread(
        target=importlib.import_module, args=("lark_oapi.ws.client",), name="lark-import"
    )
    importing.start()
    importing.join()


_load()

import lark_oapi as lark  # noqa: E402
from lark_oapi.core.exception import ObtainAccessTokenException  # noqa: E402
from lark_oapi.core.model import BaseRequest, BaseResponse  # noqa: E402
from lark_oapi.core.token import TokenManager  # noqa: E402
from lark_oapi.ws import client as ws  # noqa: E402
from lark_oapi.ws.model import ClientConfig  # noqa: E402
from lark_oapi.ws.pb.pbbp2_pb2 import Frame  # noqa: E402

if not isinstance(ws.loop, _Running):
    if not ws.loop.is_running():
        ws.loop.close()
    ws.loop = _Running()
# At INFO it logs the connection's address with its ticket, at DEBUG whole payloads.
lark.logger.handlers.clear()
lark.logger.setLevel("CRITICAL")  # what goes wrong is said by the runner, in its own words

__all__ = [
    "BaseRequest",
    "BaseResponse",
    "ClientConfig",
    "Frame",
    "ObtainAccessTokenException",
    "TokenManager",
    "lark",
    "ws",
]
