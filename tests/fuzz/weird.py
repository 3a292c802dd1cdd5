"""Payloads as nobody sends them: values of the wrong kind and size, at random places of something that was right."""

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

DEEP: Any = "leaf"
for _ in range(200):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 2**63, 1.5e308, "", " ", "\x00", "a\x00b", "\ud800", "x" * 5_000, "𝕏" * 300,
    "<@U0BOT>", "{{7*7}}", "'; DROP TABLE questions; --", "../../etc/passwd", "1", "-1", "1e400", "NaN", "\u202eabc",
    [], {}, [[]], {"a": {}}, ["x"] * 300, [None], {"": ""}, DEEP,
)  # fmt: skip
RAW = (
    b"", b"null", b"[]", b"0", b'"x"', b"{}", b"{", b"[" * 50_000, b'{"a":' * 10_000, b"\xff\xfe\x00", b"\x00" * 100,
    b"payload=", b"payload=%ff%fe", b"payload=[]", b"payload=null", b"payload=%7B%7D", b"command=/kb", b"a=b&a=b" * 500,
    b'{"type":"url_verification"}', b'{"type":"event_callback"}', b'{"type":"event_callback","event":[]}',
    b'{"encrypt":"AAAA"}', b'{"encrypt":null}', b'{"encrypt":""}',
)  # fmt: skip


def mutated(chance: random.Random, value: Any) -> Any:
    """`value` with one to four places changed, removed or doubled."""
    found = copy.deepcopy(value)
    for _ in range(chance.randint(1, 4)):
        parent = _somewhere(chance, found)
        if isinstance(parent, dict) and parent:
            key = chance.choice(list(parent))
            if chance.random() < 0.3:
                del parent[key]
            else:
                parent[key] = copy.deepcopy(chance.choice(VALUES))
        elif isinstance(parent, list) and parent:
            parent[chance.randrange(len(parent))] = copy.deepcopy(chance.choice(VALUES))
    return found


def _somewhere(chance: random.Random, value: Any) -> Any:
    while chance.random() < 0.75:
        inner = [one for one in _children(value) if isinstance(one, dict | list) and one]
        if not inner:
            break
        value = chance.choice(inner)
    return value


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def garbled(chance: random.Random, data: bytes) -> bytes:
    """Bytes cut short, flipped, repeated or filled with others."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0:
                found = found[:at] or bytearray(b"x")
            case 1:
                found[at : at + 4] = chance.randbytes(4)
            case 2:
                found[at:at] = found[at : at + chance.randint(1, 200)]
            case _:
                found[at:at] = chance.choice(
                    (b"\x00", b"\xff\xfe", b"\n\n#", b"|---|", b"<table>", b"%PDF", b"\xe5")
                )
    return bytes(found[:200_000])


def text(chance: random.Random, words: Sequence[str], length: int = 30) -> str:
    """Words of a grammar in any order, with what does not belong there between them."""
    spice = (
        "\x00",
        "\ud800",
        "\u202e",
        "```",
        "|",
        "#",
        "\t",
        "\r",
        "﷽",
        "e\u0301" * 20,
        "<b>",
        "&#0;",
        "$$",
        "\\",
    )
    plain = chance.choice((0.8, 0.97, 1.0))
    pick: Callable[[], str] = lambda: chance.choice(words if chance.random() < plain else spice)  # noqa: E731
    return chance.choice(("", " ", "\n")).join(pick() for _ in range(chance.randint(0, length)))


def packed(value: Any) -> bytes:
    """As JSON; lone surrogates stay escaped, as a program may send them."""
    return json.dumps(value).encode()
