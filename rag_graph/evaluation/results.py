"""What a measurement returns, and the hash of what it was configured with. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

__all__ = ["Result", "digest", "percentiles", "share"]


@dataclass(frozen=True, slots=True)
class Result:
    """One row: a set (or a part of one), how many cases, and the figures, most of them shares in [0, 1].

    `config` is everything that was set and could change the figures; `details` is what explains them (by kind, or
    curves) and is not compared.
    """

    set: str
    n: int
    metrics: Mapping[str, float]
    config: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config_hash(self) -> str:
        return digest(self.config)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "set": self.set,
            "n": self.n,
            "metrics": dict(self.metrics),
            "config_hash": self.config_hash,
        }
        return told | ({"details": dict(self.details)} if self.details else {})


def digest(value: Any) -> str:
    """The first 12 hex digits of the sha256 of `value` as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def share(told: Sequence[bool]) -> float:
    """The part of `told` that is true, to four places; 0 of nothing."""
    return round(sum(told) / len(told), 4) if told else 0.0


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median, the 95th and the 99th percentile of `values`, in their unit."""
    if len(values) < 2:
        return dict.fromkeys(("p50", "p95", "p99"), round(sum(values), 1))
    cuts = quantiles(values, n=100, method="inclusive")
    return {f"p{n}": round(cuts[n - 1], 1) for n in (50, 95, 99)}
