"""What `signoff doctor` found out about one thing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` says what to do where `ok` is false."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
