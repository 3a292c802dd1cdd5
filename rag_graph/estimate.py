"""How many tokens a text will be counted as: our estimate, corrected by what each model's endpoint counted. Pure."""

from collections.abc import Mapping
from typing import Final

__all__ = ["Estimates"]

LEARNT: Final = 0.2  # of a new count: one odd prompt must not shrink the next
CORRECTION: Final = (0.3, 3.0)  # beyond these somebody counts something else


class Estimates:
    """By model, counted tokens to one that we estimated; 1 until something was counted."""

    def __init__(self, known: Mapping[str, float] | None = None) -> None:
        self._ratios = dict(known or {})

    def factor(self, model: str) -> float:
        """What an estimate is multiplied by for `model`."""
        low, high = CORRECTION
        return min(max(self._ratios.get(model, 1.0), low), high)

    def learn(self, model: str, estimated: int, counted: int) -> None:
        """A prompt that we took for `estimated` tokens, uncorrected, was `counted`; 0 where nobody counted."""
        if estimated <= 0 or counted <= 0:
            return
        ratio, before = counted / estimated, self._ratios.get(model)
        self._ratios[model] = ratio if before is None else before + LEARNT * (ratio - before)

    def known(self, factors: Mapping[str, float]) -> None:
        """Take over what earlier runs had, for models that nothing was learnt of yet."""
        self._ratios = {**factors, **self._ratios}
