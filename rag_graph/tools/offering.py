"""Which tools a model is shown for a question: by rule the built-in ones, by rank those that an admin added.

Ten at most. Of more, groups are taken whole, the one with the best tool first, until ten are full.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rag_graph.tools.choosing import Card, background, features, fit, rank
from rag_graph.tools.contract import Tool
from rag_graph.tools.registry import MOST, Registry
from rag_graph.tools.router import GROUPS, groups
from store.embedding import Embedder
from store.errors import EmbeddingFailed

__all__ = ["Nearness", "offered"]

Near = Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]]
FITS: Final = 0.5
SHARED: Final = 0.5  # of a question's words, weighted: without vectors that much must be a tool's


async def offered(question: str, registry: Registry, near: Near | None) -> Registry:
    """`registry` cut to what `question` may need; empty where no tool is worth asking a model about."""
    chosen = list(groups(question))
    added = [tool for tool in registry.tools if tool.group not in GROUPS]
    if added:
        room = MOST - sum(tool.group in chosen for tool in registry.tools)
        chosen += _within(await _fitting(question, added, near), added, room)
    return registry.offering(chosen)


async def _fitting(question: str, tools: Sequence[Tool], near: Near | None) -> list[str]:
    """Groups of the tools, best first; none where not even the best tool fits."""
    cards = [Card(tool.name, tool.purpose, tool.arguments.model_json_schema()) for tool in tools]
    others = background()
    cosines = await near(question, [*(card.text for card in cards), *others]) if near else None
    own = None if cosines is None else list(cosines[: len(cards)])
    ranked = rank(question, cards, own)
    best, score = ranked[0]
    if own is None or cosines is None:
        fits = score >= SHARED
    else:
        fits = fit(features(question, cards[best], own[best], cosines[len(cards) :])) >= FITS
    return list(dict.fromkeys(tools[place].group for place, _ in ranked)) if fits else []


def _within(ordered: Sequence[str], tools: Sequence[Tool], room: int) -> list[str]:
    """The first groups that fit into `room`; the very first in any case, its rare tools merge."""
    taken: list[str] = []
    for group in ordered:
        size = sum(tool.group == group for tool in tools)
        if taken and size > room:
            break
        taken.append(group)
        room -= size
    return taken


class Nearness:
    """Cosines by an embedder; what tools are for is embedded once a process. None where the model fails."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, list[float]] = {}

    async def __call__(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        try:
            made = await self._embedder.passages(new)
            asked = await self._embedder.query(question)
        except EmbeddingFailed:
            return None
        self._known |= dict(zip(new, made, strict=True))
        return [_cosine(asked, self._known[text]) for text in texts]


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return dot / (math.hypot(*left) * math.hypot(*right) or 1.0)
