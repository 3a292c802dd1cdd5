"""How likely two questions with this cosine are one question, by embedding model. Pure.

A cosine of E5 between any two questions lies between .75 and 1, lower across languages; `store/likeness.json` turns it
into a likelihood, fitted by `python -m bench.near_misses fit` on public question sets.
"""

import json
import math
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["likeness"]


def likeness(cosine: float, model: str, *, foreign: bool) -> float | None:
    """The calibrated likeness in [0, 1]; None for a model that nobody calibrated. `foreign`: in two languages."""
    fitted = _shipped().get(model, {}).get("foreign" if foreign else "same")
    if fitted is None:
        return None
    logit = fitted["intercept"] + fitted["weight"] * cosine
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def _shipped() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files("store").joinpath("likeness.json").read_text())
    return loaded
