"""Which of many tools a question calls for, and whether any of them fits. Pure; vectors come from whoever has a model.

A tool is ranked by the cosine of its description with the question, and a little by the words they share. Whether the
best one fits at all is a logistic model over what the question gives and the tool wants; its coefficients are in
fitting.json, written by `python -m bench.tool_fit`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from statistics import fmean, pstdev
from typing import Any, Final

from rag_graph.terms import content

__all__ = ["Card", "background", "features", "fit", "rank", "spoken"]

# Beside cosines that lie between .70 and .90. On tool_metatool .03 to .06 do equally well.
SHARED_WORDS: Final = 0.04
NUMERIC: Final = ("integer", "number", "float")


@dataclass(frozen=True, slots=True)
class Card:
    """What a tool is chosen by: its name, what it does in a sentence or two, and its parameters' JSON schema."""

    name: str
    purpose: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What is embedded of it."""
        return f"{spoken(self.name)}: {self.purpose}"


@lru_cache(maxsize=2_048)
def spoken(name: str) -> str:
    """A tool's name as words: find_HotelRooms is "find Hotel Rooms"."""
    return re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)).strip()


def rank(question: str, cards: Sequence[Card], cosines: Sequence[float] | None) -> list[tuple[int, float]]:
    """Places of `cards` with their scores, best first; `cosines` of the question with each card's text, if known."""
    asked = set(content(question))
    known = [set(content(card.text)) for card in cards]
    weights = {
        word: math.log(1 + (len(cards) - held + 0.5) / (held + 0.5))
        for word in asked
        if (held := sum(word in words for words in known))
    }
    whole = sum(weights.values()) or 1.0
    shares = [sum(weights.get(word, 0.0) for word in asked & words) / whole for words in known]
    if cosines is None:
        scores = shares
    else:
        scores = [near + SHARED_WORDS * share for near, share in zip(cosines, shares, strict=True)]
    return sorted(enumerate(scores), key=lambda pair: -pair[1])


# --- does it fit? -----------------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"\d[\d,.]*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|half)\b", re.IGNORECASE
)
_NAMED = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][a-z]+|'[^']+'|\"[^\"]+\"")
_ASKS = re.compile(r"\s*(?:who|what|when|where|which|why)\b", re.IGNORECASE)
MOST: Final = 4  # numbers or names in a question: more say no more


def features(question: str, card: Card, cosine: float, others: Sequence[float]) -> dict[str, float]:
    """What tells a question that `card` can answer from one that it cannot.

    `z`, `lead` and `behind`: its cosine against those of `others`, tools of all kinds · `share`, `params`: of the
    question's words, those in its description, and in its parameters besides · `covered`: of its description's words,
    those in the question · `allowed`: a word of a value that a parameter allows is in the question · `missing`,
    `lacking`, `complete`, `named`: of the words of its name, those the question lacks or has · `numbers`, `names`: in
    the question · `no_number`, `no_names`: fewer than the call requires · `required` parameters · `asks`: begins with a
    question word.
    """
    asked = set(content(question))
    name, words = set(content(spoken(card.name))), set(content(card.text))
    properties = card.parameters.get("properties", {})
    required = [properties.get(key, {}) for key in card.parameters.get("required", ())]
    described = " ".join(f"{spoken(key)} {told.get('description', '')}" for key, told in properties.items())
    allowed = [value for told in properties.values() for value in told.get("enum") or ()]
    numbers, names = len(_NUMBER.findall(question)), len(_NAMED.findall(question))
    of = max(1, len(asked))
    return {
        "z": (cosine - fmean(others)) / (pstdev(others) or 1.0),
        "lead": cosine - fmean(sorted(others)[-3:]),
        "behind": sum(other > cosine for other in others) / len(others),
        "share": len(asked & words) / of,
        "params": len(asked & (words | set(content(described)))) / of,
        "covered": len(asked & words) / max(1, len(words)),
        "allowed": float(any(asked & set(content(str(value))) for value in allowed)),
        "missing": len(name - asked) / max(1, len(name)),
        "lacking": float(len(name - asked)),
        "complete": float(name <= asked),
        "named": float(len(name & asked)),
        "no_number": float(sum(told.get("type") in NUMERIC for told in required) > numbers),
        "no_names": float(max(0, sum(_worded(told) for told in required) - names)),
        "numbers": float(min(numbers, MOST)),
        "names": float(min(names, MOST)),
        "required": float(len(required)),
        "asks": float(bool(_ASKS.match(question))),
    }


def _worded(parameter: Mapping[str, Any]) -> bool:
    return parameter.get("type") == "string" and not parameter.get("enum")


def fit(found: Mapping[str, float]) -> float:
    """How sure it is that the tool fits, in [0, 1]; below .5 none should be called. At .5 one right call in twenty is
    lost."""
    model = _model()
    logit = model["intercept"] + sum(weight * found[name] for name, weight in model["weights"].items())
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def _model() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        resources.files("rag_graph.tools").joinpath("fitting.json").read_text()
    )
    return loaded


@cache
def background() -> tuple[str, ...]:
    """Tools of all kinds in a sentence each: what a description is nearer to than its rivals tells more than how near
    it is (E5's cosines of anything with anything lie between .70 and .90)."""
    lines = resources.files("rag_graph.tools").joinpath("background.txt").read_text(encoding="utf-8")
    return tuple(line for line in lines.splitlines() if line.strip())
