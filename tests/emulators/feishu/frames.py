"""Frames of the long connection, by hand: proto2, message pbbp2.Frame.

1 SeqID uint64 · 2 LogID uint64 · 3 service int32 · 4 method int32 (0 control, 1 data) ·
5 headers repeated {1 key, 2 value} · 6 payload_encoding · 7 payload_type · 8 payload bytes · 9 LogIDNew
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

CONTROL, DATA = 0, 1


@dataclass
class Frame:
    method: int
    headers: dict[str, str]
    payload: bytes = b""
    service: int = 1
    sequence: int = 0
    extra: dict[int, bytes | int] = field(default_factory=dict)

    def encode(self) -> bytes:
        made = _number(1, self.sequence) + _number(2, 0) + _number(3, self.service) + _number(4, self.method)
        for key, value in self.headers.items():
            made += _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
        return made + (_bytes(8, self.payload) if self.payload else b"")

    @classmethod
    def decode(cls, data: bytes) -> "Frame":
        made = cls(CONTROL, {})
        for number, value in _fields(data):
            if number == 5 and isinstance(value, bytes):
                entry = {n: v for n, v in _fields(value) if isinstance(v, bytes)}
                made.headers[entry[1].decode()] = entry[2].decode()
            elif number == 8 and isinstance(value, bytes):
                made.payload = value
            elif number in (1, 3, 4) and isinstance(value, int):
                setattr(made, {1: "sequence", 3: "service", 4: "method"}[number], value)
            else:
                made.extra[number] = value
        return made


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _number(field_number: int, value: int) -> bytes:
    return _varint(field_number << 3) + _varint(value)


def _bytes(field_number: int, value: bytes) -> bytes:
    return _varint(field_number << 3 | 2) + _varint(len(value)) + value


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {key & 7}")
